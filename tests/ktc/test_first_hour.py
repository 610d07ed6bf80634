"""What somebody meets who brings a kernel of their own: short answers, and the next step in every refusal."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import ktc
from ktc.backends.base import CompileFailure
from ktc.backends.compile_check import check_compile
from ktc.cli.app import run
from ktc.ir.diagnostics import KtcError

SCALE = """
__global__ void scale(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  x[i] *= 2.0f;
}
"""
LAUNCHED = SCALE + "void go(float* x, int n) { scale<<<(n + 63) / 64, 64>>>(x, n); }"


def test_passes_without_work_are_one_paragraph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.cu").write_text(LAUNCHED)
    run(["sites", str(tmp_path / "k.cu")])
    out = capsys.readouterr()
    assert "E-NO-SITE" not in out.out and "nothing to work on: distribute, " in out.out
    assert "add -p raise" in out.err
    run(["sites", str(tmp_path / "k.cu"), "--pass", "distribute"])
    assert "E-NO-SITE" in capsys.readouterr().out


def test_a_kernel_without_launch_is_told_who_writes_one() -> None:
    program = ktc.loads(SCALE)
    refused = program.apply("raise").refused
    assert refused is not None and "ktc init" in refused.hint
    with pytest.raises(KtcError) as e:
        program.lower("numba")
    assert "ktc init" in e.value.hint


def test_numba_text_is_checked_as_python() -> None:
    code = ktc.loads(LAUNCHED).lower("numba")
    assert check_compile(code).tool == "Python"
    import dataclasses

    with pytest.raises(CompileFailure):
        check_compile(dataclasses.replace(code, text=code.text + "\n)"))


class Chatty:
    """An OpenCL that builds everything and has something to say about it."""

    name = opencl_c_version = extensions = version = "chatty"
    platform = program_build_info = property(lambda self: self)
    LOG = Error = Exception

    def get_platforms(self) -> list[Chatty]:
        return [self]

    get_devices = get_platforms

    def Context(self, devices: object) -> Chatty:
        return self

    def Program(self, context: object, text: str) -> Chatty:
        return self

    def build(self, options: object) -> Chatty:
        warnings.warn("non-empty compiler output", stacklevel=2)
        return self

    def get_build_info(self, device: object, what: object) -> str:
        return "remark"


def test_what_a_compiler_says_besides_is_no_warning_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktc.backends.runtimes.opencl_runtime.import_pyopencl", Chatty)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_compile(ktc.loads(LAUNCHED).lower("opencl")).log == "remark"


def test_kernels_of_one_folder_have_results_of_their_own(tmp_path: Path) -> None:
    from ktc.verification import results_name

    (tmp_path / "k.cu").write_text(LAUNCHED)
    run(["init", str(tmp_path / "k.cu"), "-o", str(tmp_path / "scale.toml")])
    assert results_name(ktc.load(str(tmp_path / "scale.toml"))) == "scale"
    run(["init", str(tmp_path / "k.cu"), "-o", str(tmp_path / "mine")])
    assert results_name(ktc.load(str(tmp_path / "mine"))) == "mine"


def test_a_header_of_the_project_is_found_and_the_option_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "include").mkdir()
    (tmp_path / "include/size.h").write_text("struct Size { int n; };\n")
    kernel = tmp_path / "src/k.cu"
    kernel.write_text('#include "size.h"\n' + LAUNCHED.replace("int n", "Size s").replace("i >= n", "i >= s.n"))
    with pytest.raises(KtcError, match=f"-I {tmp_path / 'include'} allows it"):
        ktc.load(str(kernel))
    assert ktc.load(str(kernel), include_dirs=(str(tmp_path / "include"),)).kernel.name == "scale"


def test_hip_is_printed_for_the_gpu_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:

    texts = []
    for arch in ("gfx90a", "gfx942", "gfx1100"):
        run(["lower", "fused_add_rmsnorm", "--backend", "hip", "--arch", arch])
        texts.append(capsys.readouterr().out)
    assert all("__global__" in t for t in texts)
    with pytest.raises(KtcError):
        run(["lower", "fused_add_rmsnorm", "--backend", "hip", "--arch", "gfx"])
