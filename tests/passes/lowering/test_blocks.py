"""What several blocks do beside a loop that is spread over them: once, each for itself, or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Barrier
from ktc.ir.text import parse_kernel
from ktc.passes.lowering import LoweringError, materialise

HEAD = """\
kernel k(y: f32* restrict, x: f32* restrict, s: f32* restrict, n: i32 range 1..4096)
  launch grid(1) block(1)
"""
SPLIT = "@ [thread.x 4, block.y]"
N = 10


def kernel(*lines: str) -> Kernel:
    return parse_kernel(HEAD + "".join(f"  {line}\n" for line in lines))


def same(k: Kernel) -> None:
    """Lowered, ``k`` does what its loops mean, and no two threads meet."""
    rng = np.random.default_rng(0)
    args: dict = {b: rng.integers(1, 9, 200).astype(np.float32) for b in "yxs"}
    args["n"] = N
    want, got = run(k, args, domain="int", sanitize=False), run(materialise(k), args, domain="int")
    assert not got.findings, [str(f) for f in got.findings]
    for name, value in want.outputs.items():
        np.testing.assert_array_equal(got.outputs[name], value)


ROW = (f"par i in 0..n {SPLIT}", "  y[r * n + i] = x[r * n + i] * a")


@pytest.mark.parametrize(
    "effect", ["s[r] = a", "atomic add s[r], a", "if a > 3.0\n      s[r] = a"], ids=["store", "atomic", "branch"]
)
def test_one_block_has_the_effects_beside_a_loop_over_blocks(effect: str) -> None:
    same(kernel("par r in 0..3 @ [block.x]", "  let a: f32 = x[r]", *(f"  {line}" for line in ROW), f"  {effect}"))


def test_one_thread_of_the_grid_has_the_effects_beside_all_loops() -> None:
    same(kernel(f"par i in 0..n {SPLIT}", "  y[i] = x[i]", "atomic add s[0], 2.0", "s[1] = 5.0"))


def test_blocks_that_own_what_they_touch_again() -> None:
    loop = f"par i in 0..n {SPLIT}"
    same(kernel(loop, "  y[i] = x[i]", loop, "  s[i] = y[i] + 1.0"))
    same(kernel("for t in 0..3", f"  {loop}", "    y[i] = y[i] * 2.0"))
    rows = ("par r in 0..3 @ [block.x]", "  par i in 0..n @ [thread.x 4, block.y]")
    same(kernel(*rows, "    y[r * n + i] = x[r * n + i]", *rows, "    s[r * n + i] = y[r * n + i] + 1.0"))


LOOP = f"par i in 0..n {SPLIT}"
ONE_THREAD = {
    "stores": (LOOP, "  y[i] = x[i]", "s[0] = 2.0", "s[1] = s[0] + 1.0"),
    "an atomic": (LOOP, "  y[i] = x[i]", "atomic add s[0], 2.0", "s[1] = s[0] + 1.0"),
    "before and after": ("s[0] = x[0]", LOOP, "  y[i] = x[i]", "s[1] = s[0]"),
    "in rounds": ("for t in 0..3", f"  {LOOP}", "    y[i] = y[i] * 2.0", "  s[0] = s[1] + 1.0", "  s[1] = s[0]"),
    "a serial loop": (LOOP, "  y[i] = x[i]", "s[0] = 1.0", "for t in 0..4", "  s[t + 1] = s[t] + 2.0"),
}


@pytest.mark.parametrize("name", ONE_THREAD)
def test_one_thread_reads_what_it_has_written(name: str) -> None:
    same(kernel(*ONE_THREAD[name]))


WAITING = {
    "read beside it": (LOOP, "  y[i] = x[i]", "s[0] = y[3]"),
    "read by all, written by parts": ("let a: f32 = y[3]", LOOP, "  y[i] = x[i] * a"),
    "a sum, then parts": ("reduce(+) t: f32 = 0.0 over j in 0..n @ [seq]", "  yield y[j]", LOOP, "  y[i] = t"),
    "written by one, read by parts": ("s[0] = x[0]", LOOP, "  y[i] = x[i] * s[0]"),
    "a neighbour's": (LOOP, "  y[i] = x[i]", LOOP, "  s[i] = y[i + 1]"),
    "spread in another way": (LOOP, "  y[i] = x[i]", "par j in 0..n @ [thread.x 8, block.y]", "  s[j] = y[j]"),
    "in the next round": ("for t in 0..3", f"  {LOOP}", "    y[i] = y[i + 1]"),
    "by other threads": ("par j in 0..n @ [thread.x 4, seq]", "  s[j] = x[j]", LOOP, "  y[i] = x[i]", "s[50] = s[1]"),
}  # fmt: skip


@pytest.mark.parametrize("name", WAITING)
def test_blocks_cannot_wait_for_each_other(name: str) -> None:
    with pytest.raises(LoweringError) as e:
        materialise(kernel(*WAITING[name]))
    assert e.value.code == "E-LOWER-BLOCKS" and e.value.hint


PASSED_ON = {
    "an element": ("array p: local f32[16]", LOOP, "  p[i] = x[i]", "s[0] = p[n - 1]"),
    "a neighbour's": ("array p: local f32[16]", LOOP, "  p[i] = x[i]", LOOP, "  s[i] = i > 0 ? p[i - 1] : 0.0"),
    "rows": ("array p: local f32[3, n]", "par r in 0..3 @ [block.x]", f"  {LOOP}", "    p[r, i] = x[r * n + i]",
             LOOP, "  s[i] = p[0, i] + p[2, i]"),
    "and filled again": ("array p: local f32[16]", LOOP, "  p[i] = x[i]", LOOP, "  s[i] = p[n - 1 - i]",
                         LOOP, "  p[i] = s[i]", LOOP, "  y[i] = p[n - 1 - i]"),
}  # fmt: skip


@pytest.mark.parametrize("name", PASSED_ON)
def test_arrays_that_loops_over_blocks_pass_on_are_memory(name: str) -> None:
    """In stages, between which all blocks wait: schedules for a CPU are checked so."""
    same(kernel(*PASSED_ON[name]))


@pytest.mark.parametrize("name", PASSED_ON)
def test_every_barrier_between_stages_is_needed(name: str) -> None:
    k = materialise(kernel(*PASSED_ON[name]))
    args: dict = {b: np.ones(200, np.float32) for b in "yxs"} | {"n": N}
    waits = [s for s in k.body if isinstance(s, Barrier) and s.scope == "grid"]
    assert waits
    for wait in waits:
        assert run(k.with_(body=tuple(s for s in k.body if s is not wait)), args).findings
