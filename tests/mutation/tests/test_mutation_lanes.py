"""Proofs that nobody asks the lanes that hold something else."""

from __future__ import annotations

import re

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.maxima.lanes import ASKED
from tests.mutation.proofs.proofs import equivalent

SUM = """
kernel k(y: f32* noalias, z: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..1000)
  launch grid(8) block(64)
  flags reassociates
  let tid: i32 = i32(threadIdx.x)
  array part: shared f32[64]
  var total: f32 = 0.0
  var copy: f32 = 0.0
  for r = 0; r < n; r + 1
    var s: f32 = x[r * 64 + tid]
    for o = 16; o > 0; o / 2
      s += shfl_xor(s, o)
    total = total * 0.5 + s
  copy = 2.0
  if tid % 32 == 0
    atomic add y[0], total
"""
DOWN = ("shfl_xor(s", "shfl_down(s")


def proof(*before: tuple[str, str], text: str = SUM, change: tuple[str, str] = DOWN) -> str:
    for old, new in before:
        assert old in text
        text = text.replace(old, new)
    assert change[0] in text
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(*change))))


STORE = "  if tid % 32 == 0\n    atomic add y[0], total\n"
UNASKED = {
    "as it is": STORE,
    "one thread alone": STORE.replace("tid % 32 == 0", "tid == 0"),
    "a lane by its bits": STORE.replace("tid % 32 == 0", "tid % 64 == 32"),
    "a lane by a division": STORE.replace("tid % 32 == 0", "tid / 32 * 32 == tid"),
    "to shared memory": STORE.replace("atomic add y[0], total", "part[tid / 32] = total"),
    "in a condition of that thread": STORE.replace("atomic add y[0], total", "if total > 0.0\n      y[0] = 1.0"),
    "as an address of that thread": STORE.replace("atomic add y[0], total", "y[i32(total)] = 1.0"),
    "given another value first": "  total = 3.0\n  y[tid] = total\n",
    "through a private array": "  array p: f32[2]\n  p[1] = total\n  copy = p[1]\n" + STORE.replace("total", "copy"),
    "chosen": "  total = n > 5 ? total : 1.0\n" + STORE,
    "another exchange": "  copy = shfl_xor(copy, 1)\n  y[tid] = copy\n" + STORE,
}
ASKED_FOR = {
    "all threads store": "  y[tid] = total\n",
    "two lanes": STORE.replace("tid % 32 == 0", "tid < 2"),
    "every sixteenth": STORE.replace("tid % 32 == 0", "tid % 16 == 0"),
    "the last lane": STORE.replace("tid % 32 == 0", "tid % 32 == 31"),
    "a lane that is not known": STORE.replace("tid % 32 == 0", "tid == n"),
    "the block": STORE.replace("tid % 32 == 0", "blockIdx.x == 0"),
    "an exchange": "  total += shfl_down(total, 1)\n" + STORE,
    "an exchange by that thread": STORE.replace("    atomic", "    total = shfl_xor(total, 1)\n    atomic"),
    "a condition": "  if total > 0.0\n    y[tid] = 1.0\n",
    "a condition around that thread": "  if total > 0.0\n    if tid == 0\n      y[tid] = 1.0\n",
    "the bound of a loop": "  for i = 0; i < i32(total); i + 1\n    copy += 1.0\n" + STORE,
    "a return": "  if total > 0.0\n    return\n  y[tid] = 1.0\n",
    "an address": "  y[tid + i32(total)] = 1.0\n",
    "an address that is read": "  copy = x[i32(total)]\n" + STORE,
    "what is read if": "  copy = total > 0.0 ? x[n] : 1.0\n" + STORE,
    "a subscript of its own": "  array p: f32[2]\n  p[i32(total) % 2] = 1.0\n" + STORE,
    "shared memory": "  part[tid] = total\n  barrier\n" + STORE.replace("total", "part[tid + 1]"),
    "a copy": "  copy = total\n  y[tid] = copy\n",
    "a copy in a branch": "  if n > 5\n    copy = total\n  y[tid] = copy\n",
    "a copy that is given another value in a branch": "  copy = total\n  if n > 5\n    copy = 1.0\n  y[tid] = copy\n",
    "a copy in a loop": "  for i = 0; i < n; i + 1\n    y[tid] = copy\n    copy = total\n",
    "a private array": "  array p: f32[2]\n  p[1] = total\n  p[1] = 2.0\n  y[tid] = p[1]\n",
    "a vote": "  copy = f32(ballot(total > 0.0))\n  y[tid] = copy\n",
    "a copy behind a jump": (
        "  copy = 1.0\n  for i = 0; i < n; i + 1\n    if i == 3\n      copy = total\n      break\n"
        "    copy = 1.0\n  y[tid] = copy\n"
    ),
}


@pytest.mark.parametrize("what", UNASKED)
def test_a_sum_of_one_lane_may_be_another_elsewhere(what: str) -> None:
    assert proof((STORE, UNASKED[what])) == ASKED


@pytest.mark.parametrize("what", ASKED_FOR)
def test_but_not_where_another_lane_is_asked(what: str) -> None:
    assert not proof((STORE, ASKED_FOR[what]))


LOOP = {
    "exchanged in the next round": ("var s: f32 = x", "s = total + x"),
    "an address in the next round": ("= x[r * 64 + tid]", "= x[i32(total) + tid]"),
    "the bound of its loop": ("r < n", "r < n + i32(total)"),
}


@pytest.mark.parametrize("what", LOOP)
def test_a_loop_asks_again(what: str) -> None:
    old, new = LOOP[what]
    outside = ("  for r", "  var s: f32 = 0.0\n  for r") if new.startswith("s =") else ("", "")
    assert not proof((old, new), *([outside] if outside[0] else []))


def test_lanes_that_read_others_do_not_agree() -> None:
    """Up from the last lane, and a shorter way down: another lane has the sum, or none."""
    assert not proof(change=("shfl_xor(s", "shfl_up(s"))
    assert not proof(change=("o = 16", "o = 8"))
    last = UNASKED["one thread alone"].replace("tid == 0", "tid == 31")
    assert proof((STORE, last), change=("shfl_xor(s", "shfl_up(s")) == ASKED


def test_rows_of_lanes_and_rows_of_an_array() -> None:
    rows = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..1000)
  launch grid(8) block(16, 4)
  flags reassociates
  let ln: i32 = i32(threadIdx.x)
  array s: f32[2]
  for u = 0; u < 2; u + 1
    s[u] = x[(i32(threadIdx.y) * 2 + u) * 16 + ln]
  for v = 0; v < 2; v + 1
    for o = 8; o > 0; o / 2
      s[v] += shfl_xor(s[v], o, width=16)
  for w = 0; w < 2; w + 1
    if ln == 0 && w < n
      y[i32(threadIdx.y) * 2 + w] = s[w]
"""
    change = ("shfl_xor(s[v]", "shfl_down(s[v]")
    assert proof(text=rows, change=change)
    loop = ("  for v", "  for r = 0; r < n; r + 1\n    s[1] = x[r]\n  for v")
    assert proof(loop, text=rows, change=change)
    assert not proof(("ln == 0", "ln < 2"), text=rows, change=change)
    assert not proof(("ln == 0", "threadIdx.y == 0"), text=rows, change=change)


def test_a_lane_that_the_launch_does_not_have_holds_anything() -> None:
    half = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly)
  launch grid(1) block(16)
  flags reassociates
  let tid: i32 = i32(threadIdx.x)
  var v: f32 = 0.0
  v += shfl_down(v, 16)
  for i = 0; i < 1; i + 1
    v = 0.0
  y[tid] = v + x[tid]
"""
    assert not proof(text=half, change=("i < 1", "i < 0"))
    assert proof(text=half.replace("v, 16", "v, 0"), change=("i < 1", "i < 0"))


TWO_LEVELS = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..10000)
  launch grid(n) block(128)
  flags reassociates
  let tid: i32 = i32(threadIdx.x)
  var s: f32 = x[i32(blockIdx.x) * 128 + tid]
  array t: shared f32[4]
  for o = 16; o > 0; o / 2
    s += shfl_xor(s, o)
  if tid % 32 == 0
    t[tid / 32] = s
  barrier
  s = t[0]
  for w = 1; w < 4; w + 1
    s += t[w]
  if tid == 0
    y[i32(blockIdx.x)] = s
"""


def dropped(*before: tuple[str, str], private_array: bool = False) -> str:
    """The proof that the first thread's own sum is what it would read back, of a variable or of an array's element that
    an atomic adds."""
    text = TWO_LEVELS
    for old, new in before:
        assert old in text
        text = text.replace(old, new)
    if private_array:
        text = re.sub(r"\bs\b", "p[1]", text.replace("  var s: f32 =", "  array p: f32[2]\n  s ="))
        text = text.replace("    y[i32(blockIdx.x)] =", "    for z = 1; z < 2; z + 1\n      atomic add y[0],")
    mutant = re.sub(r"  \S+ = t\[0\]\n", "", text)
    assert mutant != text
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(mutant)))


@pytest.mark.parametrize("private_array", [False, True])
@pytest.mark.parametrize("before", [[], [("if tid == 0", "if tid < 32")]])
def test_what_the_only_threads_that_are_asked_stored_themselves(
    private_array: bool, before: list[tuple[str, str]]
) -> None:
    assert "symbolic threads" in dropped(*before, private_array=private_array)


@pytest.mark.parametrize("private_array", [False, True])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if tid == 0", "if tid % 64 == 0"),
        ("if tid == 0", "if tid == 32"),
        ("if tid == 0", "if n > 5"),
        ("  s = t[0]\n", "  barrier\n  t[0] = 1.0\n  barrier\n  s = t[0]\n"),
        ("t[tid / 32] = s", "t[tid / 32] = s + 1.0"),
        ("t[tid / 32] = s", "t[3 - tid / 32] = s"),
        ("if tid % 32 == 0", "if tid % 32 == 0 && tid > 0"),
        ("    s += t[w]\n", "    s += t[w]\n  t[tid % 4] = s\n  barrier\n  s = t[3]\n"),
    ],
)
def test_but_what_others_are_asked_for_they_must_read(old: str, new: str, private_array: bool) -> None:
    assert not dropped((old, new), private_array=private_array)


RENEWED = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..10000)
  launch grid(n) block(256)
  let tid: i32 = i32(threadIdx.x)
  array m: f32[2]
  for u = 0; u < 2; u + 1
    m[u] = x[(i32(blockIdx.x) * 2 + u) * 256 + tid]
  array t: shared f32[2, 8]
  for v = 0; v < 2; v + 1
    for o = 16; o > 0; o / 2
      m[v] = max(m[v], shfl_xor(m[v], o))
  if tid % 32 == 0
    for w = 0; w < 2; w + 1
      t[w, tid / 32] = m[w]
  barrier
  for z = 0; z < 2; z + 1
    m[z] = t[z, 0]
    for q = 1; q < 8; q + 1
      m[z] = max(m[z], t[z, q])
  y[i32(blockIdx.x) * 256 + tid] = m[0] + m[1]
"""
EXCHANGED = ("shfl_xor(m[v]", "shfl_down(m[v]")


def test_an_array_is_the_same_again_once_each_element_has_a_new_value() -> None:
    assert proof(text=RENEWED, change=EXCHANGED) == ASKED
    assert proof(("z = 0; z < 2; z + 1", "z = 1; z >= 0; z - 1"), text=RENEWED, change=EXCHANGED) == ASKED


NOT_RENEWED = {
    "not all": ("z < 2", "z < 1"),
    "in another order": ("    m[z] = t[z, 0]", "    m[1 - z] = t[z, 0]"),
    "from itself": ("    m[z] = t[z, 0]", "    m[z] = max(t[z, 0], m[z])"),
    "if at all": ("    m[z] = t[z, 0]", "    if n > 5\n      m[z] = t[z, 0]"),
    "by some threads": ("  for z = 0; z < 2; z + 1\n", "  for z = tid / 128; z < 2; z + 1\n"),
    "read before": ("    m[z] = t[z, 0]", "    y[z] = m[z]\n    m[z] = t[z, 0]"),
    "another element is read": ("m[z] = max(m[z], t[z, q])", "m[z] = max(m[1 - z], t[z, q])"),
    "left early": ("    m[z] = t[z, 0]", "    m[z] = t[z, 0]\n    if n > 5\n      break"),
}


@pytest.mark.parametrize("what", NOT_RENEWED)
def test_but_an_array_of_which_something_is_left_is_asked_for(what: str) -> None:
    assert proof(NOT_RENEWED[what], text=RENEWED, change=EXCHANGED) != ASKED


WARPS = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..10000)
  launch grid(n) block(1024)
  let tid: i32 = i32(threadIdx.x)
  var s: f32 = x[i32(blockIdx.x) * 1024 + tid]
  for o = 16; o > 0; o / 2
    s = max(s, shfl_xor(s, o))
  y[i32(blockIdx.x) * 1024 + tid] = s
"""


def test_lanes_of_any_warp_stand_for_all_of_them() -> None:
    upwards = ("o = 16; o > 0; o / 2", "o = 1; o < 32; o * 2")
    assert proof(text=WARPS, change=upwards) == "32 symbolic threads of a warp: the same terms are left behind"
    assert not proof(text=WARPS, change=("o = 16", "o = 8"))
    assert not proof(text=WARPS, change=("s = max(s, shfl_xor(s, o))", "s = max(s, f32(tid))"))
    both = ("shfl_xor(s, o))", "max(shfl_xor(s, o), f32({})))")
    for mine, theirs in (("tid", "tid + 1"), ("threadIdx.x", "0"), ("threadIdx.x", "threadIdx.y")):
        before = both[0], both[1].format(mine)
        assert not proof(before, text=WARPS, change=(before[1], both[1].format(theirs)))
    each = ("tid] = s", "tid] = s + f32(tid)")
    assert not proof(each, text=WARPS, change=(each[1], "tid] = s + f32(tid ^ 1)"))
    for width in ("48", "n"):
        assert "of a warp" not in proof(("block(1024)", f"block({width})"), text=WARPS, change=upwards)
