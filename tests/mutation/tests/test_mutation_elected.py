"""Proofs that it does not matter which thread of a block does what concerns all of them."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.elected import WHICHEVER
from tests.mutation.proofs.proofs import equivalent

TICKET = """
kernel k(y: f32* noalias, x: f32 const* readonly, parts: f32* scratch(64), t: u32* scratch(1))
  launch grid(64) block(32)
  let tid: i32 = i32(threadIdx.x)
  array last: shared i32[1]
  var mine: u32 = 0_u32
  if tid == 5
    parts[blockIdx.x] = x[blockIdx.x]
  fence device
  barrier
  if tid == 0
    var ticket: u32
    ticket = atomic inc t[0], gridDim.x - 1_u32
    last[0] = i32(ticket == gridDim.x - 1_u32)
  barrier
  if last[0] != 0
    y[tid] = parts.cg[tid] + f32(mine)
"""


def proof(thread: str, *before: tuple[str, str]) -> str:
    text = TICKET
    for old, new in before:
        assert old in text
        text = text.replace(old, new, 1)
    other = text.replace("if tid == 0", f"if {thread}")
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(other)))


def test_any_thread_may_take_the_ticket() -> None:
    assert proof("tid == 1") == proof("tid == 31") == WHICHEVER


@pytest.mark.parametrize(
    "thread, before",
    [
        ("tid == 32", ()),
        ("tid < 2", ()),
        ("tid == 1", (("  fence device\n  barrier\n", ""),)),
        ("tid == 1", (("    last[0] =", "    last[tid] ="),)),
        ("tid == 1", (("    last[0] =", "    mine = ticket\n    last[0] ="),)),
    ],
    ids=["no such thread", "two threads", "nobody met before", "its own place", "its own variable"],
)
def test_what_the_others_would_notice_is_not_proved(thread: str, before: tuple[tuple[str, str], ...]) -> None:
    assert proof(thread, *before) == ""
