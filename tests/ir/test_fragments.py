"""The table of tensor-core fragments, and the statements that use it, against plain matrix products."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ktc.ir.fragments import FRAGMENTS, MATRIX, Fragment
from ktc.ir.interp import equivalent, run
from ktc.ir.text import canonical, parse_kernel, print_kernel
from ktc.ir.verifier import verify

FRAGMENT_LIST = list(FRAGMENTS.values())


@pytest.mark.parametrize("f", FRAGMENT_LIST, ids=lambda f: f.name)
def test_every_element_has_exactly_one_place(f: Fragment) -> None:
    for layout, rows, cols in ((f.a, f.m, f.k), (f.b, f.k, f.n), (f.c, f.m, f.n)):
        if layout is None:
            assert f.from_shared
            continue
        held = sorted(layout.element(lane, s) for lane in range(f.warp) for s in range(layout.slots))
        assert held == sorted(itertools.product(range(rows), range(cols)))


def test_matrix_loads_hold_every_element_once() -> None:
    held = sorted(MATRIX.element(lane, s) for lane in range(32) for s in range(2))
    assert held == sorted(itertools.product(range(8), range(8)))


def test_layouts_are_those_of_the_ptx_manual() -> None:
    """PTX ISA, figures of mma.m16n8k16: spot checks by the formulas given there."""
    f = FRAGMENTS["m16n8k16_f16"]
    assert f.a is not None and f.b is not None
    for lane in range(32):
        group, inside = lane >> 2, lane % 4
        for i in range(8):
            row = group if i < 2 or 4 <= i < 6 else group + 8
            assert f.a.element(lane, i) == (row, inside * 2 + (i & 1) + (8 if i >= 4 else 0))
        for i in range(4):
            assert f.b.element(lane, i) == (inside * 2 + (i & 1) + (8 if i >= 2 else 0), group)
            assert f.c.element(lane, i) == (group + (8 if i >= 2 else 0), inside * 2 + (i & 1))


TILE = """\
kernel tile(C: f32* restrict, A: f16 const* restrict, B: f16 const* restrict)
  launch grid(1) block(32)
  array As: shared f16[16, 24] align 16
  array Bs: shared f16[16, 8] align 16
  array a: f16[8] align 16
  array b: f16[4] align 16
  array c: f32[4]
  let l: i32 = i32(threadIdx.x)
  for i in 0..8
    As[i * 2 + l / 16, l % 16] = A[(i * 2 + l / 16) * 16 + l % 16]
  for i in 0..4
    Bs[i * 4 + l / 8, l % 8] = B[(i * 4 + l / 8) * 8 + l % 8]
  for i in 0..4
    c[i] = 0.0
  barrier
  matrix_load a[0 +: 8] = As[l % 16, l / 16 * 8]
  matrix_load b[0 +: 4] = Bs[l % 16, 0] trans
  mma m16n8k16_f16 (c[0], c[1], c[2], c[3]), a[0 +: 8], b[0 +: 4]
  for e in 0..2
    for h in 0..2
      C[(l / 4 + 8 * h) * 8 + l % 4 * 2 + e] = c[e + 2 * h]
"""

PRODUCT = parse_kernel("""\
kernel tile(C: f32* restrict, A: f16 const* restrict, B: f16 const* restrict)
  launch grid(1) block(1)
  par i in 0..16
    par j in 0..8
      reduce(+) s: f32 = 0.0 over k in 0..16
        yield (A[i * 16 + k] as f32) * (B[k * 8 + j] as f32)
      C[i * 8 + j] = s
""")


def matrices(seed: int = 0) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-8, 8, n).astype(np.float16) for n in (256, 128))
    return {"C": np.zeros(128, np.float32), "A": a, "B": b}


def test_one_tile_is_a_matrix_product() -> None:
    k = parse_kernel(TILE)
    assert canonical(parse_kernel(print_kernel(k))) == canonical(k)
    assert verify(k) == []
    assert equivalent(PRODUCT, k, [matrices()]) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Bs[l % 16, 0] trans", "Bs[l % 16, 0]"),
        ("As[l % 16, l / 16 * 8]", "As[l / 16 * 8, l % 16]"),
        ("As[l % 16, l / 16 * 8]", "As[l % 8, l / 8 * 8 % 16]"),
        ("c[e + 2 * h]", "c[h + 2 * e]"),
        ("(c[0], c[1], c[2], c[3])", "(c[0], c[2], c[1], c[3])"),
        ("  barrier\n", ""),
        ("As[l % 16, l / 16 * 8]", "As[l % 16, l / 16 * 8 + 1]"),
    ],
)
def test_a_wrong_lane_map_is_caught(old: str, new: str) -> None:
    """A lost transposition, swapped or misplaced rows, swapped registers, a lost barrier, a misaligned row."""
    assert old in TILE
    assert equivalent(PRODUCT, parse_kernel(TILE.replace(old, new)), [matrices()]) is not None


def test_all_lanes_take_part() -> None:
    half = TILE.replace("  mma ", "  if l < 16\n    mma ")
    found = run(parse_kernel(half), matrices(), domain="int").findings
    assert any(f.kind == "warp-divergence" for f in found)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("m16n8k16_f16", "m16n8k17_f16"),
        ("(c[0], c[1], c[2], c[3])", "(c[0], c[1], c[2])"),
        ("b[0 +: 4]\n  for", "b[0 +: 2]\n  for"),
        ("array c: f32", "array c: shared f32"),
        ("m16n8k16_f16", "m16n8k16_bf16"),
        ("a[0 +: 8] = As", "a[0 +: 6] = As"),
        ("As[l % 16, l / 16 * 8]", "A[l % 16]"),
    ],
)
def test_malformed_statements_are_refused(old: str, new: str) -> None:
    assert old in TILE
    assert {p.code for p in verify(parse_kernel(TILE.replace(old, new)))} == {"V-MMA"}


def test_slots_count_the_elements_of_a_lane() -> None:
    for f in FRAGMENT_LIST:
        for layout, size in ((f.a, f.m * f.k), (f.b, f.k * f.n), (f.c, f.m * f.n)):
            assert layout is None or layout.slots * f.warp == size
