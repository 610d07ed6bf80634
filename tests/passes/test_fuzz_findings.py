"""Kernels and scripts on which the fuzzer found lowering or a pass wrong, made small."""

from __future__ import annotations

import numpy as np
import pytest
from ktc.ir.interp import run
from ktc.ir.kernel import bind
from ktc.ir.text import parse_kernel
from ktc.ir.verifier import verify
from ktc.passes.language import parse_script
from ktc.passes.lowering import LoweringError, materialise
from ktc.passes.pipeline import apply_script

START = """\
kernel top(a: f32 const* restrict, y: f32* restrict, m: i32, n: i32)
  par r in 0..n @ [thread.x 32, block.x]
    reduce(max) top: f32 = a[r * m] over j in 1..m @ [thread.y 4, seq]
      yield a[r * m + j]
    y[r] = top
"""
SUMS = """\
kernel sums(a: f32 const* restrict, y: f32* restrict, m: i32, n: i32)
  par r in 0..n @ [block.x]
    scan(+) acc: f32 = 0.0 over j in 0..m @ [thread.x 64, seq]
      yield a[r * m + j]
      y[r * m + j] = acc
"""
ROWS = """\
kernel rows(y: i32* restrict, n: i32)
  par r in 0..n @ [block.y]
    array buf: i32[64]
    par i in 0..64 @ [vec 2, thread.x 32]
      buf[i] = i
    par j in 0..64 @ [{map}]
      y[r * 64 + j] = buf[{at}]
"""
NAMED = """\
kernel copy(a: f32 const* restrict align 16, y: f32* restrict align 16, n: i32)
  par r in 0..n @ [block.x]
    par i in 0..16 @ [thread.x 16]
      par v in 0..4 @ [vec 4]
        let at: i32 = i * 4
        let t: i32 = at + v
        y[r * 64 + (t ^ r % 8 * 4)] = a[r * 64 + t]
"""


def lowered(text: str, script: str = ""):
    done = apply_script(parse_kernel(text), parse_script(script))
    assert done.refused is None
    out = materialise(bind(done.kernel, {}))
    assert not verify(out)
    return out


@pytest.mark.parametrize("script", ["", "split-reduction{loop=j map=[thread.y 2, block.y 2, seq]}"])
def test_the_start_of_a_reduction_is_read_under_the_loops_guard(script: str) -> None:
    kernel = lowered(START, script)
    for n, m in ((1, 100), (33, 3), (64, 1)):
        a = (np.arange(n * m, dtype=np.float32) * 7) % 31
        got = run(kernel, {"a": a, "y": np.zeros(n, np.float32), "m": m, "n": n})
        assert got.ok, got.findings
        np.testing.assert_array_equal(got.outputs["y"], a.reshape(n, m).max(axis=1))


def test_a_tile_is_not_staged_before_the_scan_whose_variable_it_needs() -> None:
    done = apply_script(parse_kernel(SUMS), parse_script("stage-shared{array=a loop=r}"))
    after = done.kernel
    assert not verify(after)
    if done.refused is None:
        a = np.arange(1, 201, dtype=np.float32)
        args = {"a": a, "y": np.zeros_like(a), "m": 100, "n": 2}
        got = run(materialise(bind(after, {})), args).outputs["y"]
        np.testing.assert_array_equal(got, a.reshape(2, 100).cumsum(axis=1).reshape(-1))


@pytest.mark.parametrize("shape, at", [("seq", "j"), ("unroll 4, seq", "j"), ("seq", "63 - j"), ("seq", "0")])
def test_a_row_in_registers_is_not_read_by_one_thread(shape: str, at: str) -> None:
    with pytest.raises(LoweringError) as e:
        materialise(parse_kernel(ROWS.format(map=shape, at=at)))
    assert e.value.code == "E-LOWER-OWNER"


def test_vector_stores_spell_out_what_their_lanes_declared() -> None:
    kernel = lowered(NAMED)
    for n in (1, 3, 9):
        a = np.arange(64 * n, dtype=np.float32)
        got = run(kernel, {"a": a, "y": np.zeros_like(a), "n": n})
        assert got.ok, got.findings
        r, t = np.divmod(np.arange(64 * n), 64)
        want = np.zeros_like(a)
        want[r * 64 + (t ^ r % 8 * 4)] = a
        np.testing.assert_array_equal(got.outputs["y"], want)
