"""Parameters of windows: which loops are loops over taps, and which parameters say how large windows are."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.scalar.window_sizes import ranks, tap_counts, window_sizes

POOL = """\
kernel pool(to: f32* restrict, of: f32 const* restrict, h: i32, w: i32, size: i32, stride: i32, pad: i32)
  par y in 0..h @ [block.y]
    par x in 0..w @ [thread.x 32, block.x]
      var t: f32 = 0.0
      for a in 0..size
        for b in 0..size
          t += of[(y * stride + a) * 64 + x * stride + b + pad]
      to[y * w + x] = t
"""
ROWS = """\
kernel rows(to: f32* restrict, of: f32 const* restrict, n: i32, d: i32)
  par y in 0..n @ [thread.x 32, block.x]
    var t: f32 = 0.0
    for a in 0..d
      t += of[y * d + a]
    to[y] = t
"""
POOLED = {"h": 8, "w": 8, "size": 3, "stride": 2, "pad": 1}


def found(text: str, *sizes: dict[str, int]) -> dict[str, int]:
    kernel = parse_kernel(text)
    return window_sizes(kernel, tap_counts(kernel, sizes), sizes)


def test_size_stride_and_offset_of_a_window() -> None:
    assert found(POOL, POOLED, POOLED | {"h": 16, "w": 64}) == {"size": 3, "stride": 2, "pad": 1}


@pytest.mark.parametrize("other", [{"size": 2}, {"stride": 1}, {"size": 40}])
def test_what_differs_or_is_large_is_not_named(other: dict[str, int]) -> None:
    assert not found(POOL, POOLED, POOLED | other)


DILATED = """\
kernel dilated(to: f32* restrict, of: f32 const* restrict, h: i32, w: i32, apart: i32, pad: i32)
  par y in 0..h @ [block.y]
    par x in 0..w @ [thread.x 32, block.x]
      var t: f32 = 0.0
      for a in 0..3
        for b in 0..3
          t += of[(y + a * apart) * 64 + x + b * apart + pad]
      to[y * w + x] = t
"""


def test_how_far_apart_the_taps_of_a_window_are() -> None:
    sizes = {"h": 8, "w": 8, "apart": 2, "pad": 1}
    assert found(DILATED, sizes, sizes | {"h": 16}) == {"apart": 2, "pad": 1}
    assert not found(DILATED, sizes, sizes | {"apart": 4})


def test_windows_that_lie_apart_are_none() -> None:
    assert not found(POOL, POOLED | {"stride": 5})


def test_short_rows_are_no_windows() -> None:
    assert not found(ROWS, {"n": 64, "d": 8})


EXTENTS_IN_MEMORY = parse_kernel("""kernel k(x: f32 const*, y: f32*, dims: u64 const*, n: u32, rank: i32)
  par i: u32 in 0_u32..n @ [thread.x 64, block.x]
    var left: u32 = i
    var at: u32 = 0_u32
    for d: i32 = 0; d < rank; d + 1
      at += left % dims[d]
      left /= dims[d]
    y[i] = x[at]
""")


def test_how_many_extents_are_divided_by_is_a_rank() -> None:
    def seen(*found: int) -> list[dict[str, int | float]]:
        return [{"n": 1000 * k, "rank": rank} for k, rank in enumerate(found, 1)]

    assert ranks(EXTENTS_IN_MEMORY, seen(3, 3)) == {"rank": 3}
    assert ranks(EXTENTS_IN_MEMORY, seen(3, 4)) == ranks(EXTENTS_IN_MEMORY, seen(100)) == {}
