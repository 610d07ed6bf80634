"""Proofs that rounding a value to a narrower type changes nothing."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent

LARGEST = """
kernel k(y: f32* noalias, x: f16 const* noalias readonly, z: f32 const* noalias readonly, n: i32 range 1..1000)
  launch grid(1) block(32)
  array kept: shared f32[32]
  var m: f32 = -inf
  for i = threadIdx.x; i < n; i + 32
    m = max(m, f32(x[i]))
  m = max(m, shfl_xor(m, 1))
  kept[threadIdx.x] = m
  barrier
  m = max(kept[0], -m)
  y[threadIdx.x] = m
"""
PLACES = ["max(m, f32(x[i]))", "max(m, shfl_xor(m, 1))", "max(kept[0], -m)"]


def proof(text: str, place: str) -> str:
    assert place in text
    a, b = (canonical(parse_kernel(t)) for t in (text, text.replace(f"= {place}", f"= f32(f16({place}))")))
    assert a != b
    found = equivalent(a, b)
    assert not found or "holds it already" in found or "the same terms" in found
    return found


@pytest.mark.parametrize("place", PLACES)
def test_what_is_made_of_halves_is_a_half(place: str) -> None:
    assert "holds it already" in proof(LARGEST, place)
    assert "holds it already" in proof(LARGEST.replace("-inf", "65504.0"), place)


LATER = LARGEST.replace("  barrier\n", "  barrier\n  m = z[n]\n")


def test_what_is_a_half_until_it_is_something_else_is_one_until_then() -> None:
    """Before: by terms, for the variable holds other values later. After: not at all."""
    assert "the same terms" in proof(LATER, PLACES[1])
    assert not proof(LATER, PLACES[2])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("-inf", "0.1"),
        ("-inf", "1e6"),
        ("x: f16", "x: bf16"),
        ("= max(m, f32(x[i]))", "= max(m, f32(x[i])) + f32(x[i])"),
        ("= max(m, f32(x[i]))", "= max(m, max(f32(x[i]), z[i]))"),
        ("  m = max(m, shfl_xor(m, 1))\n", "  m = max(z[n], shfl_xor(m, 1))\n"),
        ("  kept[threadIdx.x] = m\n", "  kept[threadIdx.x] = m\n  kept[0] = m * 0.1\n"),
        ("  kept[threadIdx.x] = m\n", "  kept[threadIdx.x] = m\n  atomic add kept[0], z[0]\n"),
    ],
)
def test_nor_is_anything_else(old: str, new: str) -> None:
    assert old in LARGEST
    text = LARGEST.replace(old, new)
    later = "kept" in new or "z[n]" in new  # what comes before is made of halves all the same
    assert not any(proof(text, place) for place in (PLACES[2:] if later else PLACES) if place in text)
