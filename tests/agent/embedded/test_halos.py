"""Filters over a plane: which kernels get tiles with a rim, and that the scripts do what the kernel does."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.agent.embedded.halos import LINES, TILES, WINDOWS, halo_tiles, register_windows
from ktc.ir.interp import run
from ktc.ir.nodes import For, If, Stmt
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise

FILTER = """\
kernel sharpen(to: f32* restrict, of: f32 const* restrict, k: f32 const* restrict, rows: i32, cols: i32)
  par r in 0..rows @ [thread.y 4, block.y]
    par q in 0..cols @ [thread.x 32, block.x]
      var t: f32 = 0.0
      for a = -1; a <= 1; a + 1
        for b in 0..5
          let x: f32 = r + a >= 0 && r + a < rows && q + b >= 2 && q + b < cols + 2 ? of[(r + a) * cols + q + b - 2] : 0.0
          t += x * k[(a + 1) * 5 + b]
      to[r * cols + q] = t
"""  # noqa: E501


LINE = """\
kernel smooth(to: f32* restrict, of: f32 const* restrict, k: f32 const* restrict, n: i32)
  par q in 0..n @ [thread.x 256, block.x]
    var t: f32 = 0.0
    for b in 0..7
      t += (q + b >= 3 && q + b < n + 3 ? of[q + b - 3] : 0.0) * k[b]
    to[q] = t
"""


def scripts(text: str, ideas=halo_tiles) -> list[str]:
    kernel = parse_kernel(text)
    found = ideas(kernel, lambda steps: apply_script(kernel, parse_script(steps)).refused is None)
    return [steps for steps, _, _ in found]


def test_each_tile_is_proposed_for_a_filter_and_does_what_it_does() -> None:
    kernel, found = parse_kernel(FILTER), scripts(FILTER)
    assert len(found) == len(TILES)
    rng = np.random.default_rng(3)
    for script in found:
        lowered = materialise(apply_script(kernel, parse_script(script)).kernel)
        sums = [s for s in walk(lowered.body) if _of_the_filter(s)]
        assert sums and not any(isinstance(x, If) for s in sums for x in walk((s,))), print_kernel(lowered)
        for rows, cols in ((1, 2), (5, 66), (33, 64)):
            given = {"rows": rows, "cols": cols, "to": np.zeros(rows * cols, np.float32)}
            given |= {n: rng.integers(-4, 5, size).astype(np.float32) for n, size in (("of", rows * cols), ("k", 15))}
            want, got = run(kernel, dict(given)), run(lowered, dict(given))
            assert got.ok and np.array_equal(want.outputs["to"], got.outputs["to"])


def test_a_filter_over_a_line() -> None:
    kernel, found = parse_kernel(LINE), scripts(LINE)
    assert len(found) == len(LINES)
    rng = np.random.default_rng(4)
    for script in found:
        lowered = materialise(apply_script(kernel, parse_script(script)).kernel)
        for n in (4, 516, 1028):
            given = {"n": n, "to": np.zeros(n, np.float32)}
            given |= {b: rng.integers(-4, 5, size).astype(np.float32) for b, size in (("of", n), ("k", 7))}
            want, got = run(kernel, dict(given)), run(lowered, dict(given))
            assert got.ok and np.array_equal(want.outputs["to"], got.outputs["to"])


@pytest.mark.parametrize("text, count", [(FILTER, len(WINDOWS)), (LINE, 1)])
def test_windows_in_registers(text: str, count: int) -> None:
    kernel, found = parse_kernel(text), scripts(text, register_windows)
    assert len(found) == count
    rng = np.random.default_rng(5)
    for script in found:
        lowered = materialise(apply_script(kernel, parse_script(script)).kernel)
        for rows, cols in ((1, 4), (5, 68), (9, 64)):
            elements = rows * cols if "rows" in text else cols
            given = {"rows": rows, "cols": cols, "n": cols}
            given = {k: v for k, v in given.items() if k in {p.sym.name for p in kernel.params}}
            given |= {"to": np.zeros(elements, np.float32), "of": rng.integers(-4, 5, elements).astype(np.float32)}
            given["k"] = rng.integers(-4, 5, 15).astype(np.float32)
            want, got = run(kernel, dict(given)), run(lowered, dict(given))
            assert got.ok and np.array_equal(want.outputs["to"], got.outputs["to"])


def _of_the_filter(s: Stmt) -> bool:
    return isinstance(s, For) and s.var.name == "a"


@pytest.mark.parametrize(
    "old, new",
    [
        ("for b in 0..5", "for b in 0..50"),
        ("for b in 0..5", "for b in 0..cols"),
        ("of[(r + a) * cols + q + b - 2]", "of[(r + a) * cols + b - 2]"),
        ("of[(r + a) * cols + q + b - 2]", "of[((r + a) * cols + q) * 5 + b]"),
        ("t += x", "of[0] = x\n          t += x"),
    ],
    ids=["long", "open", "one-for-all-columns", "channels", "written"],
)
def test_other_loops_get_none(old: str, new: str) -> None:
    assert old in FILTER and scripts(FILTER.replace("of: f32 const*", "of: f32*").replace(old, new)) == []
