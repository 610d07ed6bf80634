"""Proofs that an array may be of another type."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.arrays import other_array

STAGED = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..1000)
  launch grid(2) block(64)
  array kept: shared f32[1]
  let t: i32 = threadIdx.x
  array own: f32[2]
  for u = 0; u < 2; u + 1
    if t + u * blockDim.x as i32 < 1
      own[u] = x[blockIdx.x]
  for v = 0; v < 2; v + 1
    if t + v * blockDim.x as i32 < 1
      kept[0] = own[v]
  barrier
  y[blockIdx.x * 64 + threadIdx.x] = kept[0]
"""


def proof(text: str, old: str = "own: f32[2]", new: str = "own: shared f32[2]") -> bool:
    assert old in text
    found = other_array(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(old, new))))
    assert not found or "one thread of a block alone" in found
    return bool(found)


def test_what_one_thread_uses_may_be_shared() -> None:
    assert proof(STAGED)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("block(64)", "block(64, 2)"),
        ("+ v * blockDim.x as i32 < 1", "+ v * blockDim.x as i32 < 2"),
        ("own[v]", "own[v]\n  let z: f32 = own[0]"),
        ("  barrier\n", "  barrier\n  own[1] = 0.0\n"),
        ("    if t + u * blockDim.x as i32 < 1\n      own", "    if t + u < 1\n      own[0] = 0.0\n    own"),
    ],
)
def test_but_not_what_several_use(old: str, new: str) -> None:
    assert old in STAGED
    assert not proof(STAGED.replace(old, new))


def test_nor_a_shared_one_be_private() -> None:
    assert not proof(STAGED.replace("own: f32", "own: shared f32"), "own: shared f32[2]", "own: f32[2]")
