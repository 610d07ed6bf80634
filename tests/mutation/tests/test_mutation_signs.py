"""Proofs about values of the other sign that are only squared, and strides that agree where there is a second round."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent
from tests.mutation.zeros.formats import formats


def proof(text: str, *changes: tuple[str, str]) -> str:
    mutant = text
    for old, new in changes:
        assert old in mutant
        mutant = mutant.replace(old, new, 1)
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(mutant)))


SQUARED = """
kernel k(y: f32*, x: f32 const* readonly, m: f32, n: i32 range 1..1000)
  launch grid(n) block(32)
  var s: f32 = 0.0
  for i = i32(threadIdx.x); i < n; i + 32
    let c: f32 = x[i] - m
    s += USED
  y[blockIdx.x * 32_u32 + threadIdx.x] = s
"""
OTHERS = ["c", "c * c * c", "c * m", "c * c + c", "max(c, 0.0)", "fma(c, m, s)", "fma(c, c, c)"]


@pytest.mark.parametrize("used", ["c * c", "abs(c)", "fma(c, c, m)", "c * c + abs(c)"])
def test_a_difference_that_is_squared_may_be_taken_the_other_way_round(used: str) -> None:
    squared = SQUARED.replace("USED", used)
    assert "only squared" in proof(squared, ("x[i] - m", "m - x[i]"))
    assert "only squared" in proof(squared, ("x[i] - m", "-(x[i] - m)"))


@pytest.mark.parametrize("used", OTHERS)
def test_a_difference_whose_sign_is_seen_may_not(used: str) -> None:
    assert proof(SQUARED.replace("USED", used), ("x[i] - m", "m - x[i]")) == ""


@pytest.mark.parametrize("other", ["x[i] + m", "m - x[i + 1]", "m * x[i]", "x[i] - 2.0 * m"])
def test_another_value_is_not_the_negative(other: str) -> None:
    assert proof(SQUARED.replace("USED", "c * c"), ("x[i] - m", other)) == ""


def test_a_difference_that_is_assigned_again_may_not() -> None:
    changed = SQUARED.replace("let c", "var c").replace("    s += USED", "    c = c + m\n    s += c * c")
    assert proof(changed, ("x[i] - m", "m - x[i]")) == ""


STRIDES = """
kernel k(y: f32*, x: f32 const* readonly, d: i32 range 1..LONGEST, n: i32 range 1..1000)
  launch grid(1024) block(min(d, 1024))
  for i = i32(threadIdx.x); i < d; i + i32(blockDim.x)
    y[i] = x[i] * 2.0
"""


def test_strides_that_agree_in_a_second_round() -> None:
    """A block of fewer than 1,024 threads goes round once; of 1,024 threads it strides as 1,024 blocks do."""
    mutant = ("i + i32(blockDim.x)", "i + i32(gridDim.x)")
    assert "one stride" in proof(STRIDES.replace("LONGEST", "65536"), mutant)
    for wrong in (("grid(1024)", "grid(1023)"), ("grid(1024)", "grid(2048)"), ("min(d, 1024)", "min(d, 512)")):
        assert proof(STRIDES.replace("LONGEST", "65536").replace(*wrong), mutant) == "", wrong


def test_one_stride_is_no_reason_where_the_variable_is_changed_inside() -> None:
    inside = STRIDES.replace("LONGEST", "65536") + "    i = i + 1\n"
    assert proof(inside, ("i + i32(blockDim.x)", "i + i32(gridDim.x)")) == ""


DYNAMIC = """
kernel k(y: f32* noalias, h: f16 const* noalias readonly, z: f32 const* noalias readonly, n: i32 range 1..1000)
  launch grid(1) block(32) shared(n * 4)
  array kept: shared f32[n] dynamic
  MORE
  for i = i32(threadIdx.x); i < n; i + 32
    kept[i] = f32(h[i])
  barrier
  y[threadIdx.x] = kept[0]
"""


def test_a_dynamic_array_holds_what_it_is_given() -> None:
    """Another one comes behind it."""
    held = {}
    for more in ("", "array other: shared f32[n] dynamic\n  other[threadIdx.x] = z[0]"):
        kernel = parse_kernel(DYNAMIC.replace("MORE", more) if more else DYNAMIC.replace("  MORE\n", ""))
        held[more] = next(v for sym, v in formats(kernel).items() if sym.name == "kept")
    assert [sorted(v) for v in held.values()] == [["f16"], ["f16"]]
