"""Every library kernel, as it is and raised, in every language, through that language's real compiler."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import ktc
from ktc import emission
from ktc.sources import library_kernels
from tests.together import compiled_together


@cache
def program_of(kernel: str, raised: bool) -> ktc.Program:
    """Read, and raised, once for all languages."""
    return program_of(kernel, False).apply("raise").ok if raised else ktc.load(kernel)


@pytest.mark.parametrize("raised", [False, True], ids=["as-it-is", "raised"])
@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_the_real_compiler_accepts_all(target: str, raised: bool) -> None:
    texts = {k: program_of(k, raised).lower(target) for k in library_kernels()}
    try:
        reports = compiled_together(texts)
    except ktc.KtcError as e:
        if e.exit_code == 3:
            pytest.skip(f"no compiler for {target}: {e.message}")
        raise
    assert {k for k, r in reports.items() if r.resources.get("spill_stores", 0) == 0} == set(library_kernels())


EITHER_WAY = [
    pytest.param(
        k,
        r,
        marks=pytest.mark.campaign if r and i % 3 else (),
        id=f"{k.split('/')[-1]}-{'raised' if r else 'as-it-is'}",
    )
    for i, k in enumerate(library_kernels())
    for r in (False, True)
]
"""Every kernel as it is, and every third raised; all of them raised are a campaign."""


@pytest.mark.parametrize(("kernel", "raised"), EITHER_WAY)
def test_the_opencl_compilers_accept_it(kernel: str, raised: bool) -> None:
    program = program_of(kernel, raised)
    if raised:  # OpenCL C 1.2 has no shuffles
        for site in program.sites("reduce-strategy")["reduce-strategy"]:
            program = program.apply(site.step).ok if "shared" in str(site.step) else program
    try:
        emission.compile_check(program, "opencl", {}, None)
    except ktc.KtcError as e:
        if e.exit_code == 3:
            pytest.skip(f"no compiler for OpenCL: {e.message}")
        raise


@pytest.mark.parametrize("kernel", library_kernels(), ids=lambda k: k.split("/")[-1])
def test_python_output_compiles(kernel: str, tmp_path: Path) -> None:
    text = program_of(kernel, False).lower("numba").text
    compile(text, str(tmp_path / "kernel.py"), "exec")
    assert "njit" in text
