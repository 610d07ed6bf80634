"""Barriers across which no thread meets another one, and those that look so and are not."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent


def proof(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(old, new))))


OWN = """
kernel k(y: f32*, x: f32 const*, n: i32 range 1..1000)
  launch grid(1) block(16)
  array s: shared f32[64]
  let t: i32 = i32(threadIdx.x)
  for c = 0; c < 4; c + 1
    var a: f32 = 0.0
    for i = t + c * 16; i < n; i + 64
      a = a + x[i]
    s[t + c * 16] = a
  barrier
  for d = 32; d > 0; d / 2
    for u = 0; u < 4; u + 1
      if t + u * 16 < d
        s[t + u * 16] = s[t + u * 16] + s[t + u * 16 + d]
    barrier
  y[t] = s[0]
"""
FIRST = "    s[t + c * 16] = a\n  barrier\n"


def test_a_thread_needs_no_barrier_to_read_what_it_wrote_itself() -> None:
    """The first step of the tree adds cells 32 apart, which 16 threads wrote that add them; the next ones do not."""
    assert "no two accesses" in proof(OWN, FIRST, FIRST.replace("  barrier\n", ""))
    assert "no two accesses" in proof(OWN, FIRST, FIRST.replace("barrier", "barrier warp"))
    assert not proof(OWN, "+ d]\n    barrier\n", "+ d]\n")
    apart = OWN.replace("d = 32; d > 0", "d = 8; d > 0")
    assert not proof(apart, FIRST, FIRST.replace("  barrier\n", ""))
    unknown = OWN.replace("block(16)", "block(n)")
    assert not proof(unknown, FIRST, FIRST.replace("  barrier\n", ""))


ROUNDS = """
kernel k(y: f32*, x: f32 const*, n: i32 range 1..100000)
  launch grid(8) block(64)
  array s: shared f32[64]
  array r: shared f32[64]
  let t: i32 = i32(threadIdx.x)
  for i = i32(blockIdx.x); i < n; i + 8
    s[t] = x[i * 64 + t]
    barrier
    r[t] = s[63 - t]
    barrier
    y[i * 64 + t] = r[63 - t]
"""
END = "= r[63 - t]\n"


def test_the_next_round_has_a_barrier_of_its_own_before_the_cells_are_written_again() -> None:
    more = ROUNDS.replace(END, END + "    barrier\n")
    assert "no two accesses" in proof(more, END + "    barrier\n", END)
    assert not proof(ROUNDS, "[63 - t]\n    barrier\n", "[63 - t]\n")
    assert not proof(ROUNDS, "+ t]\n    barrier\n", "+ t]\n")
    one = more.replace("    r[t] = s[63 - t]\n    barrier\n", "").replace("= r[", "= s[")
    assert not proof(one, END.replace("r", "s") + "    barrier\n", END.replace("r", "s"))  # nothing else is before


def test_what_may_not_run_orders_nothing() -> None:
    """The barrier inside counts only where all threads are known to come there."""
    text = ROUNDS.replace(END, END + "    barrier\n").replace(
        "    r[t] = s[63 - t]\n    barrier\n", "    r[t] = s[63 - t]\n    if n > 7\n      barrier\n"
    )
    text = text.replace("= r[63 - t]", "= r[t]")
    assert not proof(text, "= r[t]\n    barrier\n", "= r[t]\n")
    always = text.replace("if n > 7", "if 8 > 7")
    assert "no two accesses" in proof(always, "= r[t]\n    barrier\n", "= r[t]\n")


def test_a_barrier_may_change_places_with_what_no_other_thread_sees() -> None:
    """Runs in lockstep cannot tell these apart: that the second one is a race, who meets whom says."""
    own = ROUNDS.replace("  array r", "  array q: shared f32[64]\n  array r")
    own = own.replace("    r[t] = s[63 - t]\n", "    q[t] = s[t]\n    r[t] = q[t] + s[63 - t]\n")
    one, other = "    barrier\n    q[t] = s[t]\n", "    q[t] = s[t]\n    barrier\n"
    assert "no two accesses" in proof(own, one, other)
    one, other = (x.replace("q[t] = s[t]", "r[t] = s[63 - t]") for x in (one, other))
    assert not proof(ROUNDS, one, other)


def test_what_other_blocks_see_in_order_keeps_its_barrier() -> None:
    """A ticket that one thread draws says that all threads of its block have written."""
    text = (
        "kernel k(y: f32*, x: f32 const*, c: i32*)\n  launch grid(8) block(64)\n"
        "  y[blockIdx.x * 64 + threadIdx.x] = x[threadIdx.x]\n  barrier\n"
        "  if threadIdx.x == 0\n    atomic add c[0], 1\n"
    )
    assert not proof(text, "  barrier\n", "")


REST = """
kernel k(y: f32*, x: f32 const*, n: i32 range 1..100000)
  launch grid(8) block(64)
  array s: shared f32[64]
  let t: i32 = i32(threadIdx.x)
  var a: f32 = 0.0
  for i = n / 64 * 64; i < n; i + STEP
    s[t] = i + t < n ? x[i + t] : 0.0
    barrier
    a = a + s[63 - t]
    barrier
  y[blockIdx.x * 64 + t] = a
"""


def test_a_loop_that_runs_at_most_once_has_no_next_round_to_keep_apart() -> None:
    end = "[63 - t]\n    barrier\n"
    once, twice = REST.replace("STEP", "64"), REST.replace("STEP", "62")
    assert "no two accesses" in proof(once, end, "[63 - t]\n")
    assert "no two accesses" in proof(once, end, "[63 - t]\n    barrier warp\n")
    assert not proof(twice, end, "[63 - t]\n")  # 63 are left: two rounds
    first = "0.0\n    barrier\n"
    assert not proof(once, first, "0.0\n")
    behind = once.replace("  y[blockIdx.x", "  s[t] = 1.0\n  y[blockIdx.x")
    assert not proof(behind, end, "[63 - t]\n")  # what comes after the loop writes there


TICKETS = """
kernel k(parts: f32* noalias, out: f32* noalias, tickets: u32* noalias, x: f32 const* noalias readonly)
  launch grid(8) block(64)
  let tid: i32 = i32(threadIdx.x)
  array last: shared i32[1]
  array part: shared f32[64]
  part[tid] = x[i32(blockIdx.x) * 64 + tid]
  barrier
  let mine: f32 = part[0] + part[63]
  if tid == 0
    parts[blockIdx.x] = mine
  fence device
  barrier
  if tid == 0
    var t: u32
    t = atomic inc tickets[0], 7
    last[0] = i32(t == 7)
    fence device
  barrier
  if last[0] != 0
    out[tid] = parts.cg[tid % 8]
"""
BETWEEN = "  fence device\n  barrier\n  if tid == 0\n"


def dropped(text: str) -> str:
    return proof(text, BETWEEN, BETWEEN.replace("  barrier\n", ""))


def test_one_thread_needs_no_barrier_between_a_part_and_its_ticket() -> None:
    assert "no two accesses" in dropped(TICKETS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  if tid == 0\n    parts", "  if tid == 1\n    parts"),
        ("  if tid == 0\n    parts[blockIdx.x] = mine\n", "  parts[i32(blockIdx.x) * 64 + tid] = mine\n"),
        ("    parts[blockIdx.x] = mine\n", "    parts[blockIdx.x] = mine\n  part[tid] = parts[tid]\n"),
        (
            "    parts[blockIdx.x] = mine\n",
            "    parts[blockIdx.x] = mine\n  if tid == 5\n    atomic add out[0], mine\n",
        ),
        (BETWEEN, BETWEEN + "    part[63] = mine\n"),  # others may read it still, before they come to the barrier
        ("    var t: u32\n", "    part[0] = 1.0\n    var t: u32\n"),
    ],
)
def test_and_needs_one_where_the_ticket_tells_of_others(old: str, new: str) -> None:
    changed = TICKETS.replace(old, new)
    assert changed != TICKETS
    assert not dropped(changed)


def test_nor_may_what_a_ticket_found_be_read_without_one() -> None:
    end = "    fence device\n  barrier\n"
    assert not proof(TICKETS, end, "    fence device\n")
    told = TICKETS.replace("  if last[0] != 0\n", "  if tid == 5\n")
    assert not proof(told, end, "    fence device\n")


PAIRS = """
kernel k(x: f32* noalias, n: i32 range 1..100000)
  launch grid(cdiv(n, 64)) block(64)
  array s: shared f32[64]
  let t: i32 = i32(threadIdx.x)
  let i: i32 = i32(blockIdx.x) * 64 + t
  s[t] = i < n ? x[i] : 0.0
  barrier
  if i < n
    x[i] = s[t] + s[t ^ 1]
"""


def test_elements_of_a_block_are_counted_from_one_that_is_not_known() -> None:
    """Pairs of threads are in one warp, and each stores the element of the buffer that it has read itself."""
    assert "no two accesses" in proof(PAIRS, "barrier", "barrier warp")
    assert not proof(PAIRS.replace("t ^ 1", "t ^ 32"), "barrier", "barrier warp")
    assert not proof(PAIRS.replace("x[i] :", "x[i ^ 32] :"), "barrier", "barrier warp")
    assert not proof(PAIRS.replace("x[i] =", "x[i + 32] ="), "barrier", "barrier warp")
    assert not proof(PAIRS.replace("x[i] =", "x[n - i] ="), "barrier", "barrier warp")
