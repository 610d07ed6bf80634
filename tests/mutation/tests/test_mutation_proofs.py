"""Proofs that a mutant means the same: what nobody reads, what any thread may do, and what both branches say."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent

JAMMED = """
kernel k(y: f32*, x: f32 const*, n: i32 range 1..1000, d: i32 range 1..1000)
  launch grid(cdiv(n, 4)) block(64)
  let row: i32 = i32(blockIdx.x) * 4
  array s: f32[4]
  for u = 0; u < 4; u + 1
    if row + u < n
      s[u] = 0.0
  for i = i32(threadIdx.x); i < d; i + 64
    for v = 0; v < 4; v + 1
      if row + v < n
        s[v] += x[(row + v) * d + i]
  for w = 0; w < 4; w + 1
    if row + w < n
      y[(row + w) * 64 + i32(threadIdx.x)] = s[w]
"""

FIRST = "    if row + u < n\n      s[u] = 0.0\n"


def proof(old: str, new: str, text: str) -> str:
    assert old in text
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(old, new))))


def test_a_guard_around_what_is_read_under_it_may_let_more_through() -> None:
    assert "read under that guard" in proof(FIRST, FIRST.replace("<", "<="), JAMMED)
    assert "read under that guard" in proof(FIRST, "    s[u] = 0.0\n", JAMMED)
    assert "read under that guard" in proof("row + u < n", "u < n", JAMMED)


def test_and_not_less_nor_what_others_read() -> None:
    assert not proof("row + u < n", "row + u + 1 < n", JAMMED)
    loose = JAMMED.replace("    if row + w < n\n", "    if row + w < n + 1\n")
    assert not proof(FIRST, "    s[u] = 0.0\n", loose)
    crossed = JAMMED.replace("= s[w]", "= s[3 - w]")
    assert not proof(FIRST, "    s[u] = 0.0\n", crossed)
    assert not proof("    if row + w < n\n", "    if row + w <= n\n", JAMMED)  # it is seen


TILE = """
kernel k(y: f32*, x: f32 const*)
  launch grid(1) block(32, 8)
  array t: shared f32[32, 33]
  let i: i32 = i32(threadIdx.x)
  for j = i32(threadIdx.y); j < 32; j + 8
    t[j, i] = x[j * 32 + i]
  barrier
  for j = i32(threadIdx.y); j < 32; j + 8
    y[j * 32 + i] = t[i, j]
"""


def test_an_array_may_be_as_small_as_its_subscripts_allow() -> None:
    assert "smaller array" in proof("[32, 33]", "[32, 32]", TILE)
    assert not proof("[32, 33]", "[32, 31]", TILE) and not proof("[32, 33]", "[31, 33]", TILE)
    assert not proof("f32[32, 33]", "f16[32, 32]", TILE)


COPIES = """
kernel k(y: f32* align 16, x: f32 const* align 16, d: i32 range 1..1024)
  launch grid(4) block(256)
  assume d % 4 == 0
  for i = i32(threadIdx.x) * 4; i < d; i + 4096
    array a: f32x(4)[4]
    for u = 0; u < 4; u + 1
      if i + u * 1024 < d
        a[u] = x[i + u * 1024 +: 4]
    for w = 0; w < 4; w + 1
      if i + w * 1024 < d
        for v = 0; v < 4; v + 1
          y[i + w * 1024 + v] = a[w, v]
"""


def test_an_array_of_vectors_may_hold_as_many_as_are_ever_used() -> None:
    assert "smaller array" in proof("f32x(4)[4]", "f32x(4)[1]", COPIES)
    assert not proof("f32x(4)[4]", "f32x(4)[1]", COPIES.replace("1..1024", "1..1028"))
    assert not proof("f32x(4)[4]", "f32x(2)[4]", COPIES)


ARMS = """
kernel k(y: f32*, x: f32 const*, n: i32 range 1..1000)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
  if i < 64
    if i < n
      y[i] = x[i] * 2.0
  else
    if i < n
      y[i] = x[i] * 2.0
"""


def test_branches_that_say_the_same_need_no_condition() -> None:
    assert "both branches" in proof("if i < 64", "if i <= 64", ARMS)
    whole = ARMS[ARMS.index("  if i < 64") :]
    assert "both branches" in proof(whole, "  if i < n\n    y[i] = x[i] * 2.0\n", ARMS)
    other = ARMS.replace("2.0\n  else", "3.0\n  else")
    assert not proof("if i < 64", "if i <= 64", other)


ONE = """
kernel k(y: f32*, z: f32*, x: f32 const*)
  launch grid(8) block(64)
  let tid: i32 = i32(threadIdx.x)
  let s: f32 = x[blockIdx.x]
  if tid == 0
    y[blockIdx.x] = s * 2.0
  z[i32(blockIdx.x) * 64 + tid] = s
"""


def test_any_thread_may_store_what_all_threads_have() -> None:
    assert "another single thread" in proof("tid == 0", "tid == 63", ONE)
    assert not proof("tid == 0", "tid == 64", ONE)
    assert not proof("tid == 0", "tid == 1", ONE.replace("s * 2.0", "s * x[tid]"))


TREE = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..1000)
  launch grid(8) block(64)
  array warps: shared f32[2]
  let tid: i32 = i32(threadIdx.x)
  for row = i32(blockIdx.x); row < n; row + 8
    var s: f32 = 0.0
    for i = tid; i < n; i + 64
      s += x[row * n + i]
    for o = 16; o > 0; o / 2
      s += shfl_xor(s, o)
    if tid % 32 == 0
      warps[tid / 32] = s
    barrier
    s = warps[0] + warps[1]
    barrier
    if tid == 0
      y[row] = s
"""
LAST = "    if tid == 0\n      y[row] = s\n"


def test_what_all_threads_agree_on_by_then_any_of_them_may_store_or_add() -> None:
    """A variable that was each thread's own at first, and the whole block's sum where it is stored."""
    assert "another single thread" in proof("tid == 0\n", "tid == 1\n", TREE)
    added = TREE.replace("y[row] = s", "atomic add y[0], s")
    assert "another single thread" in proof("tid == 0\n", "tid == 1\n", added)
    for near in (
        ("    s = warps[0] + warps[1]\n", ""),  # each warp has its own
        (LAST, "    if tid < n\n      s += 1.0\n" + LAST),
        (LAST, "    if x[tid] > 0.0\n      continue\n" + LAST),
        ("y[row] = s", "y[row] = s + f32(tid)"),
        ("y[row] = s", "atomic add y[tid], s"),
    ):
        assert near[0] in TREE
        assert not proof("tid == 0\n", "tid == 1\n", TREE.replace(*near))
    told = added.replace("atomic add y[0], s", "var t: f32\n      t = atomic add y[0], s\n      y[1] = t")
    assert not proof("tid == 0\n", "tid == 1\n", told)


GUARDED = """
kernel k(y: f32*, x: f32 const*, n: i32 range 1..1000)
  launch grid(n) block(64)
  let tid: i32 = i32(threadIdx.x)
  array s: shared f32[64]
  s[tid] = x[tid]
  barrier
  if blockIdx.x > 2_u32
    let a: f32 = s[0]
    if tid == 0
      y[i32(blockIdx.x)] = a
  let b: f32 = s[1]
  y[n + tid] = b
"""


@pytest.mark.parametrize("around", ["if tid < 1", "if x[tid] > 0.0", "for i = tid; i < 1; i + 64"])
def test_no_thread_does_what_another_one_did_where_it_may_not_come(around: str) -> None:
    assert proof("tid == 0\n", "tid == 1\n", GUARDED)
    assert not proof("tid == 0\n", "tid == 1\n", GUARDED.replace("if blockIdx.x > 2_u32", around))
    early = GUARDED.replace("  barrier\n", f"  barrier\n  {around}\n    return\n")
    if not around.startswith("for"):
        assert not proof("tid == 0\n", "tid == 1\n", early)


def test_nor_behind_a_jump_that_some_threads_take() -> None:
    loop = GUARDED.replace("if blockIdx.x > 2_u32\n", "for r = 0; r < n; r + 1\n")
    assert not proof(
        "tid == 0\n", "tid == 1\n", loop.replace("    let a", "    if x[tid] > 0.0\n      continue\n    let a")
    )


PEAKS = """
kernel k(y: f32*, n: i32 range 1..1000)
  launch grid(1) block(64)
  array m: shared f32[128]
  let tid: i32 = i32(threadIdx.x)
  m[tid] = f32(tid)
  m[tid + 64] = f32(n)
  barrier
  for o = 64; o > 0; o / 2
    if tid < o
      m[tid] = max(m[tid], m[tid + o])
    barrier
  y[tid] = m[0]
"""


def test_a_maximum_may_be_stored_twice() -> None:
    step = "      m[tid] = max(m[tid], m[tid + o])\n"
    assert "holds already" in proof(step, step + step, PEAKS)
    added = PEAKS.replace("max(m[tid], m[tid + o])", "m[tid] + m[tid + o]")
    assert not proof(
        step.replace("max(m[tid], m[tid + o])", "m[tid] + m[tid + o]"),
        2 * step.replace("max(m[tid], m[tid + o])", "m[tid] + m[tid + o]"),
        added,
    )
    itself = step.replace("m[tid + o]", "m[tid] * 2.0")
    assert not proof(itself, itself + itself, PEAKS.replace(step, itself))


def test_and_so_may_a_variable_become_one() -> None:
    step = "    s = max(s, x[i])\n"
    text = (
        "kernel k(y: f32*, x: f32 const*, n: i32 range 1..1000)\n  launch grid(1) block(64)\n  var s: f32 = -inf\n"
        "  for i = i32(threadIdx.x); i < n; i + 64\n" + step + "  y[threadIdx.x] = s\n"
    )
    assert "holds already" in proof(step, 2 * step, text)
    for other in (step.replace("x[i]", "x[i] * s"), step.replace("max(s, x[i])", "s + x[i]")):
        assert not proof(other, 2 * other, text.replace(step, other))


SHARED_ROWS = """
kernel k(y: f32*, n: i32 range 1..1000)
  launch grid(cdiv(n, 4)) block(64)
  array t: shared f32[4, 64]
  for u = 0; u < 4; u + 1
    if i32(blockIdx.x) + u * i32(gridDim.x) < n
      t[u, threadIdx.x] = f32(u)
  barrier
  for w = 0; w < 4; w + 1
    if i32(blockIdx.x) + w * i32(gridDim.x) < n
      y[(i32(blockIdx.x) + w * i32(gridDim.x)) * 64 + i32(threadIdx.x)] = t[w, 63 - i32(threadIdx.x)]
"""


def test_rows_that_all_threads_of_a_block_guard_alike_may_be_given_to_more() -> None:
    assert "read under that guard" in proof("+ u * i32(gridDim.x) < n", "+ u < n", SHARED_ROWS)
    own = SHARED_ROWS.replace("+ u * i32(gridDim.x) < n", "+ i32(threadIdx.x) < n")
    assert not proof("+ i32(threadIdx.x) < n", "< n", own)


ENDS = """
kernel k(y: f32*, x: f32 const*)
  launch grid(1) block(64)
  array t: shared f32[64]
  t[threadIdx.x] = x[threadIdx.x]
  barrier
  let v: f32 = t[63 - i32(threadIdx.x)]
  barrier
  if threadIdx.x == 0
    y[0] = v + t[1]
"""


def test_nothing_runs_before_the_start_of_a_kernel_nor_after_its_end() -> None:
    last = "  let v: f32 = t[63 - i32(threadIdx.x)]\n  barrier\n"
    first = "  t[threadIdx.x] = x[threadIdx.x]\n  barrier\n"
    assert "no two accesses" in proof(last, last.replace("  barrier\n", ""), ENDS)
    assert not proof(first, first.replace("  barrier\n", ""), ENDS)
    written = ENDS.replace("    y[0] = v + t[1]", "    t[1] = v")
    assert not proof(last, last.replace("  barrier\n", ""), written)


ONCE = """
kernel k(y: f32*, d: i32 divisible_by 2 range 2..1024)
  launch grid(8) block(d / 2)
  let half: i32 = d / 2
  for i_0 = 0; i_0 < half; i_0 + i32(blockDim.x)
    let i: i32 = i_0 + i32(threadIdx.x)
    if i < half
      y[i32(blockIdx.x) * half + i] = 1.0
"""


def test_a_block_as_wide_as_its_loop_goes_round_once() -> None:
    assert "z3" in proof("i < half\n      y", "i <= half\n      y", ONCE)
    assert "z3" in proof("= i_0 + i32(threadIdx.x)", "= i32(threadIdx.x)", ONCE)
    narrow = ONCE.replace("block(d / 2)", "block(d / 4)")
    assert not proof("i < half\n      y", "i <= half\n      y", narrow)
    assert not proof("= i_0 + i32(threadIdx.x)", "= i32(threadIdx.x)", narrow)


ROUNDS = """
kernel k(y: f32*, x: f32 const*, n: i32 range 1..100000)
  launch grid(8) block(64)
  flags reassociates
  let tid: i32 = i32(threadIdx.x)
  for r = i32(blockIdx.x); r < n; r + 8
    array t: shared f32[2]
    array s: shared f32[64]
    var sum: f32 = x[r * 64 + tid]
    for d = 16; d > 0; d / 2
      sum = sum + shfl_xor(sum, d)
    if tid % 32 == 0
      t[tid / 32] = sum
    barrier
    let all: f32 = t[0] + t[1]
    barrier
    s[tid] = all
    barrier
    y[r * 64 + tid] = s[63 - tid]
"""


def test_what_is_defined_before_a_loop_is_known_in_it() -> None:
    assert "64 symbolic threads" in proof("tid % 32 == 0", "tid % 33 == 0", ROUNDS)
    assert not proof("tid % 32 == 0", "tid % 34 == 0", ROUNDS.replace("shfl_xor", "shfl_down"))


def test_a_barrier_that_keeps_nothing_apart_may_be_narrower() -> None:
    twice = "t[1]\n    barrier\n"
    assert "no two accesses" in proof(twice, "t[1]\n    barrier warp\n", ROUNDS)
    assert not proof("[tid] = all\n    barrier\n", "[tid] = all\n    barrier warp\n", ROUNDS)


@pytest.mark.parametrize(
    ("threads", "mask", "held"),
    [
        (8, "255_u32", True),
        (8, "65535_u32", True),
        (8, "127_u32", False),
        (32, "65535_u32", False),
        (40, "255_u32", False),
    ],
)
def test_a_mask_names_the_lanes_that_are_launched(threads: int, mask: str, held: bool) -> None:
    text = (
        f"kernel k(y: f32*, x: f32 const*)\n  launch grid(4) block({threads})\n  var s: f32 = x[threadIdx.x]\n"
        "  for o = 4; o > 0; o / 2\n    s += shfl_xor(s, o)\n  y[threadIdx.x] = s\n"
    )
    assert bool(proof("shfl_xor(s, o)", f"shfl_xor(s, o, mask={mask})", text)) == held


ROW = """
kernel k(y: f32*, x: f32 const* readonly, n: i32 range 1..1000)
  launch grid(8) block(16, 4)
  let tid: i32 = i32(threadIdx.x)
  let row: i32 = i32(blockIdx.x) * 4 + i32(threadIdx.y)
  for h = 0; h < n; h + 1
    if row < n
      let s: f32 = x[h * n + row]
      if tid == 0
        y[h * n + row] = s * 2.0
"""


@pytest.mark.parametrize(
    ("before", "held"),
    [
        (("", ""), True),
        (("block(16, 4)", "block(1, 64)"), False),
        (("if row < n", "if row + tid < n"), False),
        (("if row < n", "if tid < 1"), False),
        (("y[h * n + row]", "y[h * n + tid]"), False),
        (("x[h * n + row]", "x[h * n + tid]"), False),
        (("  for h", "  if tid > 0\n    return\n  for h"), False),
        (("      let s", "      y[row] = 0.0\n      let s"), False),
    ],
)
def test_any_thread_of_a_row_may_store_what_its_row_has(before: tuple[str, str], held: bool) -> None:
    text = ROW.replace(*before) if before[0] else ROW
    found = proof("tid == 0", "tid == 1", text)
    assert ("another single thread" in found) if held else not found


LIKE_ARMS = """
kernel k(y: f32*, x: f32 const*, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
  if i < n
    if i >= 1
      let s: f32 = x[i] * 2.0
      y[i] = s
    else
      let t: f32 = x[i] * 2.0
      y[i] = t
"""


def test_either_of_two_like_branches_may_be_left() -> None:
    """The first one, or the second, with names of its own."""
    first = LIKE_ARMS[LIKE_ARMS.index("    if i >= 1") :]
    assert "both branches" in proof(first, "    let s: f32 = x[i] * 2.0\n    y[i] = s\n", LIKE_ARMS)
    other = LIKE_ARMS.replace("let t: f32 = x[i] * 2.0", "let t: f32 = x[i] * 3.0")
    for factor in ("2.0", "3.0"):
        left = f"    let t: f32 = x[i] * {factor}\n    y[i] = t\n"
        assert not proof(first.replace("t: f32 = x[i] * 2.0", "t: f32 = x[i] * 3.0"), left, other)


FENCED = """
kernel k(y: f32*, x: f32 const*, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
  if i < n
    y[i] = x[i]
    if i == 3
      fence device
"""


def test_a_fence_may_come_more_often_and_not_less() -> None:
    assert "fence" in proof("    if i == 3\n      fence device\n", "    fence device\n", FENCED)
    assert not proof("    if i == 3\n      fence device\n", "", FENCED)
    assert not proof("      fence device\n", "      fence device\n      y[i] = 0.0\n", FENCED)


RETURNS = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..1000)
  launch grid(1) block(64)
  let tid: i32 = i32(threadIdx.x)
  for i = 0; i < n; i + 1
    if i < 5
      y[i * 64 + tid] = x[i]
    if i >= 7
      return
  y[tid] = 3.0
"""


def test_a_return_is_felt_in_all_that_follows() -> None:
    quiet = RETURNS.replace("    if i >= 7\n      return\n", "")
    assert "do nothing" in proof("i < n; i + 1", "i < min(n, 5); i + 1", quiet)
    assert not proof("i < n; i + 1", "i < min(n, 5); i + 1", RETURNS)
    guarded = RETURNS.replace("  for i", "  if tid >= n\n    return\n  for i")
    assert not proof("  if tid >= n\n    return\n", "", guarded)
    assert not proof("  if tid >= n\n    return\n", "  return\n", guarded)


BETWEEN = """
kernel k(y: f32* noalias, z: f32* noalias, x: f32 const* noalias readonly)
  launch grid(1) block(64)
  let tid: i32 = i32(threadIdx.x)
  y[tid] = x[tid]
  barrier block
  let a: f32 = 1.0
  barrier
  let b: f32 = 2.0
  barrier block
  z[tid] = y[63 - tid] * a * b
"""


def test_barriers_on_either_side_order_all_that_the_one_between_them_does() -> None:
    assert "keeps apart" in proof("  barrier\n", "", BETWEEN)
    assert not proof("  barrier\n", "", BETWEEN.replace("barrier block", "barrier block memory shared"))


PARTS = """
kernel k(y: f32*, x: f32 const*, parts: f32* scratch(4), n: i32 range 1..1000)
  launch grid(4) block(1)
  let part: i32 = i32(blockIdx.x)
  var m: f32 = -inf
  for i = part; i < n; i + 4
    m = max(m, abs(x[i]))
  parts[part] = m
  barrier grid
  if part == 0
    var whole: f32 = -inf
    for p in 0..4
      whole = max(whole, parts[p])
    y[0] = max(0.0, whole)
"""


def test_a_maximum_that_goes_through_working_memory_is_covered_by_a_later_one() -> None:
    start, seen = "var m: f32 = -inf", "    y[0] = max(0.0, whole)\n"
    assert "covers the first value" in proof(start, "var m: f32 = 0.0", PARTS)
    assert not proof(start, "var m: f32 = 1.0", PARTS)
    assert not proof(start, "var m: f32 = 0.0", PARTS.replace(seen, seen + "    y[1] = parts[1]\n"))
    assert not proof(start, "var m: f32 = 0.0", PARTS.replace(" scratch(4)", ""))  # it is seen
