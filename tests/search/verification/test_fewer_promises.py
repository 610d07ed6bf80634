"""Guesses of a draft that no launcher tests must not be needed: neither 0 nor the largest sizes are ruled out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import ktc
from ktc import emission
from ktc.ir.frontend import load
from ktc.ir.text import parse_kernel
from ktc.passes.lowering import materialise
from ktc.search.verification.fewer_promises import alike_with_less
from ktc.search.verification.integers.ranges import wraps
from ktc.search.verification.integers.statement_context import stays_in_type

TWICE = """\
__global__ void twice(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.f * x[i];
}
void run(float* y, const float* x, int n) { twice<<<(n - 1) / 256 + 1, 256>>>(y, x, n); }
"""
WORKLOAD = """
[kernel]
source = "twice.cu"
name = "twice"
[[args]]
name = "y"
dtype = "f32"
role = "out"
shape = ["n"]
[[args]]
name = "x"
dtype = "f32"
role = "in"
shape = ["n"]
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
range = [1, 1073741824]
GUESSED
[[scenario]]
name = "some"
sizes = { n = 5000 }
"""
STRIDED = "raise | distribute{loop=i map=[thread.x 256, block.x 64, seq]}"


def program(folder: Path, guessed: str = 'guessed = ["range"]') -> ktc.Program:
    (folder / "twice.cu").write_text(TWICE)
    (folder / "workload.toml").write_text(WORKLOAD.replace("GUESSED", guessed))
    return ktc.load(str(folder))


@pytest.mark.parametrize(
    ("script", "tested"),
    [
        ("raise", False),
        ("raise | distribute{loop=i map=[thread.x 128, block.x]}", False),
        (STRIDED, True),  # i + 16384 is below zero for the last of 2^31 elements, and no thread ever ends
        (
            "raise | distribute{loop=i map=[thread.x 96, block.x]}",
            True,
        ),  # the last block begins below 2^31, and ends above
    ],
)
def test_the_largest_size_that_was_guessed_is_tested_where_indices_need_it(
    tmp_path: Path, script: str, tested: bool
) -> None:
    found = emission.resting(program(tmp_path).apply(script).ok, "cuda", {})
    assert any("1073741824" in c for c in found.conditions) == tested


def test_the_last_step_of_a_loop_leaves_its_type() -> None:
    """Inside of the loop ``i`` is below ``n``; behind the last round it may be below zero, and is again."""
    head = "kernel k(y: f32*, n: i32)\n  launch grid(4) block(64)\n"
    strided = head + "  for i = threadIdx.x as i32; i < n; i + STEP\n    y[i] = 1.0"
    for step, most, open_ in ((64, 1 << 30, 0), (64, (1 << 31) - 1, 1), (64, (1 << 31) - 64, 0), (1, (1 << 31) - 1, 0)):
        kernel = parse_kernel(strided.replace("STEP", str(step)))
        assert len(wraps(kernel, {"n": (1, most)})) == open_, (step, most)


@pytest.mark.parametrize(
    ("guard", "kept"), [("n + 255 <= 2147483647", True), ("n > 255", False), ("n < 2000000000", True)]
)
def test_guards_of_the_launcher_keep_the_last_step_in_its_type(guard: str, kept: bool) -> None:
    guard = guard.replace("n + 255 <= 2147483647", "n as i64 + 255_i64 <= 2147483647_i64")
    kernel = parse_kernel(
        f"kernel k(y: f32*, n: i32)\n  launch grid(4) block(64)\n  assume {guard} origin guessed\n"
        "  for i = (threadIdx.x + blockIdx.x * 64_u32) as i32; i < n; i + 256\n    y[i] = 1.0"
    )
    names = {"n": (1, (1 << 31) - 1)}
    (found,) = wraps(kernel, names)
    assert stays_in_type(kernel, found.stmt, found.expr, names) == kept


def test_a_promise_of_all_numbers_rules_out_long_strides(tmp_path: Path) -> None:
    given = program(tmp_path, "")
    text = (tmp_path / "workload.toml").read_text().replace("1073741824", str((1 << 31) - 1))
    (tmp_path / "workload.toml").write_text(text)
    every = ktc.load(str(tmp_path)).apply(STRIDED).ok
    assert given.apply(STRIDED).ok.verify(device="none").status == "TESTED"
    assert every.verify(device="none").status in ("REJECTED", "UNKNOWN")
    assert wraps(materialise(every.kernel), {"n": (1, (1 << 31) - 1)})


def test_the_launch_of_a_rewrite_is_computed_in_64_bits_where_32_may_not_do(tmp_path: Path) -> None:
    """``(n + 1023) / 1024`` is negative for the largest ``n``: nothing was launched, and no error said so."""
    wide = "raise | distribute{loop=i map=[seq 4, thread.x 256, block.x]}"
    text = emission.emit(program(tmp_path).apply(wide).ok, "cuda", "launcher", {}).text
    assert "dim3 grid(((long long)n + 1023) / 1024)" in text
    promised = emission.emit(program(tmp_path, "").apply(wide).ok, "cuda", "launcher", {}).text
    assert "dim3 grid((n + 1023) / 1024)" in promised


@pytest.mark.parametrize(
    ("guard", "alike"),
    [("i < n", True), ("i < n / 4 * 4", False), ("i < max(n, 1)", False), ("i < n && n < 1 << 30", True)],
)
def test_sizes_that_the_ladder_was_kept_away_from(tmp_path: Path, guard: str, alike: bool) -> None:
    """The second is right for multiples of 4, the third for sizes from 1 on."""
    given = program(tmp_path)
    other = load(TWICE.replace("if (i < n)", f"if ({guard})"), name="other.cu")
    original = given.kernel.with_(params=tuple(replace(p, range=(None, None), origins=()) for p in given.kernel.params))
    assert given.workload is not None
    assert alike_with_less(original, other, given.workload) == alike
