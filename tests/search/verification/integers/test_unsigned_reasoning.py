"""What is proved of unsigned integers holds for those that wrap: one less than zero is the largest there is."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import If
from ktc.ir.text import parse_kernel
from ktc.ir.walk import walk
from ktc.search.verification import verify
from ktc.search.verification.integers import smt
from ktc.search.verification.integers.ranges import dead
from tests.search.verification.gate_samples import COPY

HEAD = "kernel k(out: i32*, n: i32 range 1..1000)\n  launch grid(n) block(32)\n  let i: i32 = i32(threadIdx.x) - 5\n"
REACHED = {
    "less than zero": "threadIdx.x - 1_u32 >= 100_u32",
    "its negative": "-threadIdx.x >= 100_u32",
    "a large constant": "threadIdx.x + 4294967295_u32 >= 100_u32",
    "a product": "threadIdx.x * 268435456_u32 < 16_u32 && threadIdx.x > 0_u32",
    "an index below zero": "u32(i) >= 100_u32",
    "halved": "(threadIdx.x - 40_u32) / 2_u32 >= 100_u32",
}


def _guarded(cond: str, inner: str = "out[0] = 5") -> Kernel:
    return parse_kernel(f"{HEAD}  if {cond}\n    {inner}\n")


def _condition(kernel: Kernel) -> tuple[smt.Context, If]:
    context, s = smt.Context(kernel), next(x for x in walk(kernel.body) if isinstance(x, If))
    for before in kernel.body[:-1]:
        context.after(before)
    return context, s


@pytest.mark.parametrize("name", REACHED)
def test_what_wraps_may_be_large(name: str) -> None:
    kernel = _guarded(REACHED[name])
    context, s = _condition(kernel)
    assert not dead(kernel, {"n": (1, 1000)}) and not context.always(s.cond, False)


@pytest.mark.parametrize("cond", ["threadIdx.x + 1_u32 >= 33_u32", "threadIdx.x * 2_u32 > 62_u32"])
def test_what_does_not_wrap_is_known(cond: str) -> None:
    context, s = _condition(_guarded(cond))
    assert context.always(s.cond, False)


@pytest.mark.parametrize(
    ("cond", "always"),
    [
        ("(threadIdx.x ^ 1_u32) / 2_u32 != threadIdx.x / 2_u32", False),
        ("(threadIdx.x ^ 4_u32) == threadIdx.x + 4_u32", None),
        ("(threadIdx.x ^ 4_u32) == threadIdx.x - 4_u32", None),
        ("(16_u32 ^ threadIdx.x) / 32_u32 == 0_u32", True),
        ("(threadIdx.x ^ 3_u32) / 4_u32 == threadIdx.x / 4_u32", None),
    ],
)
def test_one_bit_that_is_flipped_is_added_or_taken_away(cond: str, always: bool | None) -> None:
    """Of more bits at once no more is known than how many there are."""
    context, s = _condition(_guarded(cond))
    assert [context.always(s.cond, holds) for holds in (True, False)] == [always is True, always is False]


def test_a_guard_that_asks_for_an_unsigned_index_says_nothing_of_one_below_zero() -> None:
    """``u32(i) >= 10`` holds for i = -5."""
    assert not dead(_guarded("u32(i) >= 10_u32", "if i < 0\n      out[0] = 5"), {"n": (1, 1000)})
    assert len(dead(_guarded("i >= 10", "if i < 0\n      out[0] = 5"), {"n": (1, 1000)})) == 1


def test_a_branch_that_only_a_wrapped_index_enters_is_not_excused() -> None:
    """No instance has so many elements that the index comes round to where it is taken for a small one."""
    plain = """
kernel copy(y: f16* align 16, x: f16 const* align 16, d: i32)
  launch grid(cdiv(d, 64)) block(64)
  let i: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
  if i < d
    y[i] = x[i]
"""
    wrong = f"{plain}  if u32(i) * 65536_u32 == 65536_u32 && i > 1\n    y[i] = f16(0.0)\n"
    assert verify(parse_kernel(plain), parse_kernel(wrong), COPY).status in ("UNKNOWN", "REJECTED")
