"""Proofs about the one thread of the block that is the last to arrive."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent

LAST = """
kernel k(y: f32* noalias, x: f32 const* readonly, n: i32 range 1..1000, parts: f32* scratch(64), t: u32* scratch(1))
  launch grid(64) block(32)
  let tid: i32 = i32(threadIdx.x)
  array last: shared i32[1]
  if tid == 0
    parts[blockIdx.x] = x[blockIdx.x]
  fence device
  barrier
  if tid == 0
    var ticket: u32
    ticket = atomic inc t[0], gridDim.x - 1_u32
    last[0] = i32(ticket == gridDim.x - 1_u32)
    if ticket == gridDim.x - 1_u32
      fence device
  barrier
  if last[0] != 0
    var s: f32 = 0.0
    for p = 0; p < 64; p + 1
      s += parts.cg[p]
    if tid == 0
      atomic add y[0], s
"""


def proof(*before: tuple[str, str]) -> str:
    text = LAST
    for old, new in before:
        assert old in text
        text = text.replace(old, new)
    plain = text.replace("atomic add y[0], s", "y[0] = y[0] + s").replace("atomic max y[0], s", "y[0] = y[0] + s")
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(plain)))


def test_the_last_block_alone_needs_no_atomic() -> None:
    assert "last block to arrive" in proof()
    number = ("if last[0] != 0\n", "if last[0] != 0 && n > 3\n")
    assert "last block to arrive" in proof(number)


COUNTS = """
kernel k(h: i32*, x: i32 const* readonly, n: i32 range 1..1000)
  launch grid(1) block(1)
  for i = 0; i < n; i + 1
    atomic add h[x[i] % 7], 1
  h[0] = h[1] + 1
"""


@pytest.mark.parametrize(
    ("before", "held"),
    [
        (("", ""), True),
        (("grid(1) block(1)", "grid(n / 1001 + 1) block(1)"), True),
        (("grid(1) block(1)", "grid(n / 1000 + 1) block(1)"), False),
        (("block(1)", "block(2)"), False),
        (("block(1)", "block(1, 1, 2)"), False),
    ],
)
def test_the_only_thread_of_a_launch_needs_no_atomic(before: tuple[str, str], held: bool) -> None:
    text = COUNTS.replace(*before) if before[0] else COUNTS
    plain = text.replace("atomic add h[x[i] % 7], 1", "h[x[i] % 7] = h[x[i] % 7] + 1")
    found = equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(plain)))
    assert found == ("z3: a launch has one thread" if held else "")


OTHERS = {
    "all threads of it": ("    if tid == 0\n      atomic add", "    if tid >= 0\n      atomic add"),
    "all blocks": ("  if last[0] != 0\n", "  if last[0] != 2\n"),
    "all but the last": ("last[0] = i32(ticket == gridDim", "last[0] = i32(ticket != gridDim"),
    "nobody takes turns": (
        "ticket = atomic inc t[0], gridDim.x - 1_u32",
        "ticket = atomic inc t[0], 7_u32",
    ),
    "a counter for each block": ("inc t[0]", "inc t[blockIdx.x]"),
    "one that everybody adds to": (
        "ticket = atomic inc t[0], gridDim.x - 1_u32",
        "ticket = atomic or t[0], 1_u32",
    ),
    "several tickets a block": ("    ticket = atomic inc", "    for r = 0; r < 2; r + 1\n      ticket = atomic inc"),
    "every thread draws": ("  if tid == 0\n    var ticket", "  if tid < 8\n    var ticket"),
    "somebody else adds": ("  fence device\n  barrier\n", "  fence device\n  barrier\n  atomic add y[0], 1.0\n"),
    "somebody else reads": ("s: f32 = 0.0", "s: f32 = y[0]"),
    "other pointers may lead there": ("y: f32* noalias", "y: f32*"),
    "again and again": ("    if tid == 0\n      atomic", "    for r = 0; r < 2; r + 1\n     if tid == 0\n      atomic"),
    "the flag is set otherwise, too": ("  if last[0] != 0\n", "  last[0] = 1\n  barrier\n  if last[0] != 0\n"),
    "blocks of two axes": ("grid(64)", "grid(64, 2)"),
    "another operation": ("atomic add y", "atomic max y"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_where_others_may_come_it_stays_one(what: str) -> None:
    assert not proof(OTHERS[what])
