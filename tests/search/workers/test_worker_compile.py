"""Compiling ahead: a sequence is compiled launch by launch, as it will run."""

from __future__ import annotations

import pytest

import ktc
from ktc.backends.runtimes import nvrtc
from ktc.driver.printing import printed
from ktc.search.workers.worker_compile import Compiler
from ktc.search.workers.worker_protocol import code_to_json
from tests.paths import KERNELS


def test_each_launch_of_a_sequence_is_compiled_by_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool]] = []

    def compile_cubin(text: str, entry: str, *_: object, **__: object) -> nvrtc.Cubin:
        asked.append((entry, f"{entry}(" in text))
        return nvrtc.Cubin(b"code", entry, "")

    monkeypatch.setattr(nvrtc, "compile_cubin", compile_cubin)
    code = printed(ktc.load(str(KERNELS / "fusion/norm_then_fp8")).kernel, "cuda")
    out = Compiler("cuda").compile({"code": code_to_json(code), "arch": "sm_90"})
    assert asked == [(one.entry, True) for one in code.launches] and len(asked) == 2
    assert out["bytes"] == 8
