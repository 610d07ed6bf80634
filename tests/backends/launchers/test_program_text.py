"""One text with the original, the tuned kernel and the launcher: it compiles as it is, whatever the passes assumed."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

import ktc
from ktc import emission
from tests import devices
from tests.backends.launchers.host_compilers import COMPILERS, compiler_of, refusal, refusals
from tests.paths import KERNELS

OWN_BINS = (
    "raise | tile{loops=i sizes=65536} | distribute{loop=i map=[thread.x 256, seq]}"
    " | privatize-atomics{array=count bins=256}"
)

SCRIPTS = {
    "whole vectors": ("silu_and_mul", "raise | distribute{loop=idx map=[vec 8, thread.x 128, seq]}"),
    "narrowed indices": ("fused_add_rmsnorm", "raise | narrow-index"),
    "a constant size": ("silu_and_mul", "raise | specialize{d=4096}"),
    "working memory": ("dot", "raise | split-reduction{loop=tid map=[thread.x 256, block.x 4, seq]}"),
    "dynamic shared memory": ("rmsnorm", "raise | row-cache{loop=i.* where=shared}"),
    "several sweeps": ("jacobi2d", "raise | temporal-block{steps=3 tile=16,32}"),
    "atomics of a block's own": (
        "histogram",
        OWN_BINS,
    ),
    "exact tiles": ("sgemm", "raise | tile{loops=k sizes=16 tail=exact}"),
}


def program(name: str, script: str) -> ktc.Program:
    return ktc.load(name).apply(script).ok


def made(case: str, target: str, kind: str = "launcher") -> str:
    name, script = SCRIPTS[case]
    return emission.emit(program(name, script), target, kind, {}).text


def needs_compiler(target: str) -> None:
    if compiler_of(target) is None:
        pytest.skip(f"no compiler of {target} launchers: {' or '.join(COMPILERS[target])} is not installed")
    if target in ("cuda", "hip"):
        devices.compiler(target)


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_it_compiles_as_it_is(target: str, tmp_path: Path) -> None:
    """The campaign (tests/bench/launchers.py) compiles texts of every pass."""
    needs_compiler(target)
    assert refusal(target, made("whole vectors", target), tmp_path) == ""
    assert refusals(target, {case: made(case, target) for case in SCRIPTS}, tmp_path) == {}


@pytest.mark.parametrize("case", SCRIPTS)
def test_opencl_host_code_compiles_as_it_is(case: str, tmp_path: Path) -> None:
    needs_compiler("opencl")
    try:
        text = made(case, "opencl")
    except ktc.KtcError as e:
        assert e.code == "E-BACKEND-FENCE", e
        pytest.skip(f"plain OpenCL cannot express it: {e.message}")
    assert refusal("opencl", text, tmp_path) == ""


NAMES = """
__global__ void k(float* __restrict__ grid, const float* __restrict__ block, float* __restrict__ k_original, int stream,
                  int applies, int queue, int kernel, int global, int np, int cp) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < stream) grid[i] = block[i] * applies + queue + kernel + global + np + cp + k_original[i];
}
void launch(float* g, float* b, float* o, int n, int m) { k<<<(n + 255) / 256, 256>>>(g, b, o, n, m, 1, 2, 3, 4, 5); }
"""


@pytest.mark.parametrize("target", ["cuda", "hip", "opencl"])
def test_parameters_may_be_called_as_what_a_launcher_declares(target: str, tmp_path: Path) -> None:
    """Seen: ``float* grid`` beside ``const dim3 grid``."""
    needs_compiler(target)
    text = emission.emit(ktc.loads(NAMES).apply(NAMED).ok, target, "launcher", {}).text
    assert "applies" in text and refusal(target, text, tmp_path) == ""


def test_parameters_may_be_called_as_what_a_callable_uses() -> None:
    text = emission.emit(ktc.loads(NAMES).apply(NAMED).ok, "cuda", "launcher-cupy", {}).text
    launch = next(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef))
    assert [a.arg for a in launch.args.args][-3:] == ["np_", "cp_", "stream"]
    assert "import numpy as np" in text and "if not (stream_ % 4 == 0" in text


NAMED = "raise | distribute{loop=i map=[vec 4, thread.x 256, block.x]}"


@pytest.mark.parametrize("case", SCRIPTS)
def test_the_python_callable_is_python(case: str) -> None:
    tree = ast.parse(made(case, "cuda", "launcher-cupy"))
    assert any(isinstance(n, ast.FunctionDef) and n.name == "launch" for n in tree.body)


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_what_both_kernels_need_stands_there_once(target: str) -> None:
    text = made("whole vectors", target)
    lines = [x for x in text.splitlines() if x.startswith("#include")]
    assert len(lines) == len(set(lines))
    assert len(re.findall(r"^__global__", text, re.M)) == 2
    assert text.index("silu_and_mul_kernel_original(") < text.index("constexpr int") if "constexpr" in text else True


def test_constants_of_the_tuned_kernel_come_behind_the_original() -> None:
    """A macro of OpenCL is called ``T``, as something of the original may be."""
    script = "raise | distribute{loop=idx map=[vec 8, thread.x $T, seq]}"
    text = emission.emit(program("silu_and_mul", script), "opencl", "launcher", {}).text
    source = "".join(json.loads(x) for x in re.findall(r'^ {4}(".*?");?$', text, re.M))
    assert source.index("_original(") < source.index("#define T ") < source.rindex("__kernel")


def test_a_kernel_that_assumes_nothing_needs_no_original() -> None:
    text = emission.emit(program("saxpy", "raise"), "cuda", "launcher", {}).text
    assert "_original" not in text and "launch_saxpy" in text


def test_scripts_of_experts_compile_as_one_text(tmp_path: Path) -> None:
    """A sample: the shortest of each folder of kernels."""
    needs_compiler("cuda")
    scripts = [p for p in KERNELS.glob("*/*/expert.ktp") if "by=producer" not in p.read_text()]
    shortest = {p.parent.parent: p for p in sorted(scripts, key=lambda p: -p.stat().st_size)}
    assert len(shortest) >= 3
    texts = {
        path.parent.name: emission.emit(program(path.parent.name, path.read_text()), "cuda", "launcher", {}).text
        for path in shortest.values()
    }
    assert refusals("cuda", texts, tmp_path) == {}
