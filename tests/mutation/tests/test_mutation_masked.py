"""Proofs that a guard may let more through, of values that are made of what is read from buffers."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.ir.text import canonical, parse_kernel
from ktc.ir.workload import ArgSpec, Workload
from tests.mutation.proofs.proofs import equivalent

ROWS = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, at: i32 const* noalias readonly, n: i32 range 1..1000)
  launch grid(2, cdiv(n, 4)) block(64)
  array base: i32[4]
  for c = 0; c < 4; c + 1
    if blockIdx.y + c * gridDim.y < n as u32
      base[c] = at[blockIdx.x] * 64 + i32(c)
  for d = 0; d < 4; d + 1
    if blockIdx.y + d * gridDim.y < n as u32
      y[(blockIdx.y + d * gridDim.y) * 64 + threadIdx.x] = x[base[d] + i32(threadIdx.x)]
"""
GUARD = "    if blockIdx.y + c * gridDim.y < n as u32\n      base"


def proof(text: str = ROWS, new: str = "    if blockIdx.y + c * gridDim.y <= n as u32\n      base") -> bool:
    assert GUARD in text
    found = equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(GUARD, new))))
    assert not found or "read under that guard" in found
    return bool(found)


@pytest.mark.parametrize("new", ["    if blockIdx.y + c < n as u32\n      base", "    base"])
def test_what_the_first_copy_has_read_may_be_read_for_all(new: str) -> None:
    assert proof()
    assert proof(new=new)


LANES = """
kernel k(y: f32* noalias align 16, x: f32 const* noalias readonly align 16, n: i32 range 1..1000 divisible_by 4)
  launch grid(2) block(64)
  let t: i32 = threadIdx.x * 4_u32
  array own: f32x(4)[2]
  array sum: f32[2, 4]
  for u = 0; u < 2; u + 1
    if t + u * 256 < n
      own[u] = x[t + u * 256 +: 4]
  for v = 0; v < 2; v + 1
    if t + v * 256 < n
      for l = 0; l < 4; l + 1
        sum[v, l] = own[v, l] * 2.0
  for w = 0; w < 2; w + 1
    if t + w * 256 < n
      for m = 0; m < 4; m + 1
        y[t + w * 256 + m] = sum[w, m]
"""


def test_lanes_of_copies_that_nobody_reads_are_lanes_that_there_are() -> None:
    guard = "    if t + v * 256 < n\n"
    assert guard in LANES
    for text, same in ((LANES, True), (LANES.replace("own[v, l]", "own[v, l + v]"), False)):
        a, b = (canonical(parse_kernel(s)) for s in (text, text.replace(guard, "    if t < n\n")))
        assert ("read under that guard" in equivalent(a, b)) == same


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("at[blockIdx.x]", "at[blockIdx.x + c as u32]"),  # another element for each copy
        ("at[blockIdx.x] *", "(c < 1 ? at[blockIdx.x] : at[n]) *"),  # not all of it is read for the first
        ("cdiv(n, 4)", "cdiv(n, 4) + 1"),  # the first copy may be none
        ("for c = 0;", "for c = 1;"),
        ("c < 4; c + 1\n", "c < 4; c + 1\n    at[c] = 1\n"),  # what is read changes
        ("c < 4; c + 1\n", "c < 4; c + 1\n    if n == 7\n      break\n"),
        ("+ i32(threadIdx.x)]\n", "+ i32(threadIdx.x)]\n    y[d] = x[base[d]]\n"),  # read without its guard
    ],
)
def test_nothing_else_is_read_for_copies_that_do_not_exist(old: str, new: str) -> None:
    assert old in ROWS
    assert not proof(ROWS.replace(old, new).replace("at: i32 const* noalias readonly", "at: i32* noalias"))


CLIPPED = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..1000, m: i32 range 1..64)
  launch grid(2) block(m)
  let t: i32 = threadIdx.x
  array own: f32[cdiv(48, m)]
  array tile: shared f32[48]
  for u = 0; u < cdiv(48, m); u + 1
    own[u] = 0.0
    if t + u * blockDim.x as i32 < 48 && t + u * blockDim.x as i32 < n
      own[u] = x[t + u * blockDim.x as i32]
  for v = 0; v < cdiv(48, m); v + 1
    if t + v * blockDim.x as i32 < 48
      tile[t + v * blockDim.x as i32] = own[v]
  barrier
  y[threadIdx.x] = tile[t % 48]
"""
FIRST = "    if t + u * blockDim.x as i32 < 48 && t + u * blockDim.x as i32 < n\n"
ELEMENTS = Workload(
    Path("w.toml"),
    Path("k.cu"),
    "k",
    (
        ArgSpec("y", "f32", "out", ("m",)),
        ArgSpec("x", "f32", "in", ("n",)),
        ArgSpec("n", "i32", "scalar", value="n"),
        ArgSpec("m", "i32", "scalar", value="m"),
    ),
    (),
    {"": {}},
)


@pytest.mark.parametrize(
    ("new", "old_text", "new_text", "same"),
    [
        ("t < 48 && t + u * blockDim.x as i32 < n", "", "", True),
        ("t + u * blockDim.x as i32 < 48 && t < n", "", "", False),  # beyond the buffer, and another tile
        ("t < 48", "", "", False),
        ("t < 48 && t + u * blockDim.x as i32 < n", "if t + v * blockDim.x as i32 < 48", "if t < 48", False),
        ("t < 48 && t + u * blockDim.x as i32 < n", "= own[v]", "= own[cdiv(48, m) - 1]", False),
        ("t < 48 && t + u * blockDim.x as i32 < n", "  barrier\n", "  barrier\n  y[0] = own[cdiv(48, m) - 1]\n", False),
        ("t < 48 && t + u * blockDim.x as i32 < n", "  barrier\n", "  barrier\n  y[0] = own[0]\n", True),
    ],
)
def test_what_is_loaded_beyond_a_tile_may_be_anything(new: str, old_text: str, new_text: str, same: bool) -> None:
    """The values differ only where one guard lets through what the other does not, and nobody stores those."""
    text = CLIPPED.replace(old_text, new_text) if old_text else CLIPPED
    assert FIRST in text and (not old_text or text != CLIPPED)
    a, b = (canonical(parse_kernel(s)) for s in (text, text.replace(FIRST, f"    if {new}\n")))
    assert ("read under that guard" in equivalent(a, b, None, ELEMENTS)) == same
