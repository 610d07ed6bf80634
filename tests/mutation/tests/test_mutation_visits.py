"""Proofs about maxima: the same elements visited otherwise, and what cannot be said of symbols."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.definitions import definitions
from tests.mutation.proofs.proofs import equivalent

LARGEST = """
kernel k(y: f32*, x: f32 const* readonly, n: i32 range 1..1000)
  launch grid(4) block(32)
  let tid: i32 = i32(threadIdx.x)
  let row: i32 = i32(blockIdx.x) * n
  var m: f32 = -inf
  for i = tid; i < n; i + 64
    for u = 0; u < 2; u + 1
      if i + u * 32 < n
        m = max(m, abs(x[row + i + u * 32]))
  for o = 16; o > 0; o / 2
    m = max(m, shfl_xor(m, o))
  if tid == 0
    y[blockIdx.x] = m
"""


def proof(old: str, new: str, text: str = LARGEST) -> str:
    assert old in text
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(old, new))))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("u < 2", "u <= 2", "maximum of the same elements"),
        ("i + 64", "i + 32", "maximum of the same elements"),
        ("i + 64", "i + 63", "over the block"),
        ("i + 64", "i + 1", "over the block"),
        ("i + 64", "i + 65", ""),
        ("u < 2", "u < 1", ""),
        ("u * 32]", "u * 31]", ""),
        ("i < n; i", "i < n - 1; i", ""),
        ("x[row + i", "x[row + 1 + i", ""),
        ("max(m, abs", "min(m, abs", ""),
    ],
)
def test_elements_may_be_visited_in_any_order_and_twice(old: str, new: str, said: str) -> None:
    found = proof(old, new)
    assert said in found if said else not found, found


def test_over_the_block_only_where_all_threads_maxima_meet() -> None:
    fewer = LARGEST.replace("o = 16", "o = 8")
    assert "maximum of the same" in proof("i + 64", "i + 32", fewer) and not proof("i + 64", "i + 63", fewer)
    own = LARGEST.replace("abs(x[", "f32(tid) * abs(x[")
    assert "maximum of the same" in proof("i + 64", "i + 32", own) and not proof("i + 64", "i + 63", own)
    added = LARGEST.replace("m = max(m, abs(x[row + i + u * 32]))", "m += x[row + i + u * 32]")
    assert not proof("i + 64", "i + 32", added)


def test_what_an_element_gives_is_the_same_for_all_threads() -> None:
    """Not through a private array either, whose value has a name."""
    for told, held in (("f32(tid)", False), ("2.0", True)):
        named = LARGEST.replace("  var m:", f"  array q: f32[1]\n  q[0] = {told}\n  let s: f32 = q[0]\n  var m:")
        scaled = named.replace("abs(x[", "s * abs(x[")
        assert "maximum of the same" in proof("i + 64", "i + 32", scaled)
        assert ("over the block" in proof("i + 64", "i + 63", scaled)) == held


PERSISTENT = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..1000, rows: i32 range 1..1000)
  launch grid(4) block(64)
  let tid: i32 = i32(threadIdx.x)
  for r = i32(blockIdx.x); r < rows; r + 4
    let row: i32 = r * n
    var m: f32 = -inf
    array w: shared f32[2]
    for i = tid; i < n; i + 64
      m = max(m, abs(x[row + i]))
    for o = 16; o > 0; o / 2
      m = max(m, shfl_xor(m, o))
    if tid % 32 == 0
      w[tid / 32] = m
    barrier
    m = max(w[0], w[1])
    barrier
    for i = tid; i < n; i + 64
      y[row + i] = x[row + i] / m
"""


def test_of_rows_that_persistent_blocks_share_too() -> None:
    old, new = "    for i = tid; i < n; i + 64\n      m =", "    for i = tid; i < n; i + 63\n      m ="
    assert "over the block" in proof(old, new, PERSISTENT)
    for near in (
        ("    m = max(w[0], w[1])\n", ""),  # each warp has its own
        ("    m = max(w[0], w[1])\n", "    m = w[0]\n"),
        ("r = i32(blockIdx.x);", "r = i32(blockIdx.x) + tid;"),  # rows of threads, not of blocks
        ("= r * n\n", "= r * n + tid\n"),
        ("abs(x[row + i])", "abs(x[row + i]) * f32(tid)"),
        ("  for r =", "  if tid > n\n    return\n  for r ="),
        ("    barrier\n    m = max", "    y[rows * n + tid] = m\n    barrier\n    m = max"),
    ):
        assert near[0] in PERSISTENT
        assert not proof(old, new, PERSISTENT.replace(*near)), near
    top = PERSISTENT.replace("m = max(w[0], w[1])", "let t: f32 = max(w[0], w[1])").replace("/ m", "/ t")
    assert "over the block" in proof(old, new, top)
    lasting = top.replace("    var m: f32 = -inf\n", "").replace("  for r =", "  var m: f32 = -inf\n  for r =")
    assert not proof(old, new, lasting)


def test_what_cannot_be_followed_hangs_on_what_it_reads() -> None:
    text = (
        "kernel k(y: f32*, s: f32 const*)\n  launch grid(1) block(32)\n  array t: shared f32[32]\n"
        "  t[i32(threadIdx.x)] = s[0]\n  barrier\n  let v: f32 = t[i32(s[threadIdx.x])]\n  y[threadIdx.x] = v\n"
    )
    assert not proof("s[0]", "s[2]", text)


def test_zeros_are_no_part_of_a_sum_that_may_be_reordered() -> None:
    text = (
        "kernel k(y: f32*, x: f32 const*)\n  launch grid(1) block(32)\n  flags reassociates\n  var s: f32 = 0.0\n"
        "  s += x[threadIdx.x]\n  y[threadIdx.x] = s\n"
    )
    assert proof("s += x", "s = x", text) and not proof("s += x", "s = x", text.replace("s: f32 = 0.0", "s: f32 = 1.0"))
    assert not proof("s += x", "s = x", text.replace("  flags reassociates\n", ""))
    twice = text.replace("s += x[threadIdx.x]", "s += x[threadIdx.x] - x[threadIdx.x]")
    assert proof("x[threadIdx.x] - x[threadIdx.x]", "0.0", twice)


VECTORS = """
kernel k(y: f32*, x: f32 const* align 16 readonly, n: i32 range 1..1000)
  launch grid(4) block(32)
  assume n % 4 == 0 origin guessed
  let tid: i32 = i32(threadIdx.x)
  let row: i32 = i32(blockIdx.x) * n
  var m: f32 = -inf
  for i = tid * 4; i < n; i + 128
    let v: f32x4 = x[row + i +: 4]
    for l = 0; l < 4; l + 1
      m = max(m, abs(v[l]))
  for o = 16; o > 0; o / 2
    m = max(m, shfl_xor(m, o))
  if tid == 0
    y[blockIdx.x] = m
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("i + 128", "i + 4", "over the block"),
        ("i + 128", "i + 124", "over the block"),
        ("tid * 4", "0", ""),
        ("i + 128", "i + 64", "over the block"),
        ("i + 128", "i + 132", ""),
        ("i + 128", "i + 256", ""),
        ("l < 4", "l < 3", ""),
        ("tid * 4", "tid * 8", ""),
        ("row + i +:", "row + i + 4 +:", ""),
        ("v[l]", "f32(tid) * v[l]", ""),
    ],
)  # fmt: skip
def test_vectors_are_visited_by_their_first_element_and_all_their_lanes(old: str, new: str, said: str) -> None:
    found = proof(old, new, VECTORS)
    assert said in found if said else not found, found


def test_lanes_of_which_the_guard_hangs_are_not_all_read_everywhere() -> None:
    text = VECTORS.replace("      m = max(m, abs(v[l]))", "      if i + l < n\n        m = max(m, abs(v[l]))")
    assert not proof("i + 128", "i + 4", text)
    other = VECTORS.replace("l < 4", "l < i")
    assert not proof("i + 128", "i + 4", other)


def test_what_a_vector_holds_is_a_part_of_what_a_body_leaves_behind() -> None:
    text = (
        "kernel k(y: f32*, x: f32 const* align 16 readonly, n: i32 range 1..1000)\n  launch grid(4) block(32)\n"
        "  for i = 0; i < n; i + 4\n    let v: f32x4 = x[i +: 4]\n    y[i] = v[0]\n"
    )
    assert not proof("x[i +: 4]", "x[i + 4 +: 4]", text) and proof("i + 4\n", "4 + i\n", text)


def test_what_is_declared_differently_in_two_places_stands_for_neither() -> None:
    text = (
        "kernel k(y: f32*, n: i32)\n  launch grid(1) block(32)\n  let a: i32 = n\n  let b: i32 = n + 1\n"
        "  let c: i32 = n\n  var d: i32 = n\n  d = 1\n  y[a + b + c + d] = 1.0\n"
    )
    body = canonical(parse_kernel(text)).body
    a, b, c, d, *_ = body
    assert set(definitions(body)) == {s.sym for s in (a, b, c)}  # type: ignore[attr-defined]
    again = replace(b, sym=a.sym)  # type: ignore[attr-defined, call-arg]
    assert a.sym not in definitions((*body, again))  # type: ignore[attr-defined]
    assert definitions(body, (again,))[a.sym] == b.init  # type: ignore[attr-defined]
    assert d.sym not in definitions(body, (again,))  # type: ignore[attr-defined]


AHEAD = """
kernel k(y: f32*, x: f32 const* align 16, n: i32 range 1..100000)
  launch grid(1) block(64)
  assume n % 2 == 0
  var m: f32 = -inf
  for i = i32(threadIdx.x) * 2; i < n; i + 512
    array a: f32x(2)[4]
    for u = 0; u < 4; u + 1
      if i + u * 128 < n
        a[u] = x[i + u * 128 +: 2]
    for w = 0; w < 4; w + 1
      if i + w * 128 < n
        for v = 0; v < 2; v + 1
          m = max(m, abs(a[w, v]))
  y[threadIdx.x] = m
"""


def test_what_was_loaded_ahead_is_an_element_like_others() -> None:

    def same(old: str, new: str, text: str = AHEAD) -> bool:
        assert old in text
        return bool(equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(old, new)))))

    for step in (128, 256, 384, 192):
        assert same("i + 512", f"i + {step}") == (step != 192)
    assert not same("i + 512", "i + 1024") and not same("i + 512", "i + 64")
    for near in (
        ("a[w, v]", "a[3 - w, v]"),  # another one of those that were loaded
        ("      if i + w * 128 < n\n", "      if i + w * 64 < n\n"),
        ("      if i + w * 128 < n\n", "      if i < n\n"),
        ("for w = 0; w < 4; w + 1", "for w = 0; w < 3; w + 1"),
        ("          m = max(m, abs(a[w, v]))\n", "          m = max(m, abs(a[w, v]))\n        y[n] = m\n"),
        ("    for u = 0; u < 4; u + 1\n", "    for u = 1; u < 4; u + 1\n"),
    ):
        assert near[0] in AHEAD
        assert not same("i + 512", "i + 128", AHEAD.replace(*near)), near


def test_and_may_be_one_of_another_thread_where_their_maxima_meet() -> None:
    tree = "  for o = 16; o > 0; o / 2\n    m = max(m, shfl_xor(m, o))\n  y[0] = m\n"
    text = AHEAD.replace("  y[threadIdx.x] = m\n", tree).replace("block(64)", "block(32)").replace("128", "64")
    wide = text.replace("i + 512", "i + 256")
    assert "over the block" in proof("i + 256", "i + 32", wide)
    assert not proof("i + 256", "i + 32", wide.replace("abs(a[w, v])", "abs(a[w, v]) * f32(threadIdx.x)"))


ROWS = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..1000, d: i32 range 1..1000)
  launch grid(cdiv(n, 2)) block(32)
  let tid: i32 = i32(threadIdx.x)
  let block: i32 = i32(blockIdx.x) * 2
  array row: i32[2]
  for u = 0; u < 2; u + 1
    if block + u < n
      row[u] = (block + u) * d
  array m: f32[2]
  for t = 0; t < 2; t + 1
    m[t] = -inf
  for i = tid; i < d; i + 32
    for v = 0; v < 2; v + 1
      if block + v < n
        let e: f32 = x[row[v] + i]
        m[v] = max(m[v], abs(e))
  for w = 0; w < 2; w + 1
    for o = 16; o > 0; o / 2
      m[w] = max(m[w], shfl_xor(m[w], o))
  for z = 0; z < 2; z + 1
    if block + z < n
      if tid == 0
        y[block + z] = m[z]
"""
NEST = """  for i = tid; i < d; i + 32
    for v = 0; v < 2; v + 1
      if block + v < n
        let e: f32 = x[row[v] + i]
        m[v] = max(m[v], abs(e))
"""
OUTER = """  for v = 0; v < 2; v + 1
    if block + v < n
      for i = tid; i < d; i + 32
        let e: f32 = x[row[v] + i]
        m[v] = max(m[v], abs(e))
"""


@pytest.mark.parametrize("nest", [NEST, OUTER])
@pytest.mark.parametrize(
    ("step", "said"), [("31", "over the block"), ("16", "over the block"), ("33", ""), ("64", ""), ("0", "")]
)
def test_several_rows_may_be_visited_side_by_side(nest: str, step: str, said: str) -> None:
    found = proof("i + 32", f"i + {step}", ROWS.replace(NEST, nest))
    assert said in found if said else not found, found


BESIDE = {
    "not all threads' maxima meet": ("o = 16", "o = 8"),
    "of one row alone": ("m[w] = max(m[w], shfl_xor(m[w], o))", "m[0] = max(m[0], shfl_xor(m[0], o))"),
    "rows that meet": ("m[v] = max(m[v], abs(e))", "m[v] = max(m[1 - v], abs(e))"),
    "every thread has rows of its own": ("row[u] = (block + u) * d", "row[u] = (block + u + tid) * d"),
    "every thread has elements of its own": ("abs(e))", "abs(e) * f32(tid))"),
    "only some threads": ("      if block + v < n\n", "      if block + v + tid < n\n"),
    "rows that the nest changes": ("max(m[v], abs(e))", "max(m[v], abs(e) + m[v])"),
    "sums": ("max(m[v], abs(e))", "m[v] + abs(e)"),
    "another cell": ("m[v] = max(m[v]", "m[1 - v] = max(m[v]"),
    "rows of a triangle": ("v = 0; v < 2", "v = min(i, 1); v < 2"),
    "elements that others store": ("m[v], abs(e))", "m[v], abs(e) + y[0])"),
    "more rows than there are": ("v < 2", "v < 3"),
}


@pytest.mark.parametrize("what", BESIDE)
def test_but_only_where_rows_keep_apart(what: str) -> None:
    old, new = BESIDE[what]
    assert old in ROWS
    assert not proof("i + 32", "i + 31", ROWS.replace(old, new))


def test_with_the_same_guards_and_rows() -> None:
    assert not proof(NEST, NEST.replace("i + 32", "i + 31").replace("+ v < n", "+ v <= n"), ROWS)
    assert not proof(NEST, NEST.replace("i + 32", "i + 31").replace("v < 2", "v < 1"), ROWS)


LOADED = """  for i = tid; i < d; i + 32
    array a: f32[2]
    for p = 0; p < 2; p + 1
      if block + p < n
        a[p] = x[row[p] + i]
    for v = 0; v < 2; v + 1
      if block + v < n
        m[v] = max(m[v], abs(a[v]))
"""
WIDE = """  for i = tid * 2; i < d; i + 64
    array a: f32x(2)[2]
    for p = 0; p < 2; p + 1
      if block + p < n
        a[p] = x[row[p] + i +: 2]
    for v = 0; v < 2; v + 1
      if block + v < n
        for w = 0; w < 2; w + 1
          m[v] = max(m[v], abs(a[v, w]))
"""
UNLIKE = {
    "rows that are not loaded": ("if block + p < n", "if block + p + 1 < n"),
    "another row's": ("abs(a[v])", "abs(a[1 - v])"),
    "a load that hangs on the maximum": ("x[row[p] + i]", "x[row[p] + i] + m[p]"),
    "a row that moves on": ("abs(a[v]))\n", "abs(a[v]))\n        row[v] = row[v] + 1\n"),
    "a result that others see": ("abs(a[v]))\n", "abs(a[v]))\n        y[block + v] = m[v]\n"),
    "only some threads' elements": ("abs(a[v])", "abs(a[v]) * f32(tid)"),
}


@pytest.mark.parametrize(("step", "said"), [("31", "over the block"), ("16", "over the block"), ("33", ""), ("64", "")])
def test_several_rows_may_be_loaded_ahead(step: str, said: str) -> None:
    found = proof("i + 32", f"i + {step}", ROWS.replace(NEST, LOADED))
    assert said in found if said else not found, found


@pytest.mark.parametrize("what", UNLIKE)
def test_where_what_is_used_was_loaded(what: str) -> None:
    old, new = UNLIKE[what]
    assert old in LOADED
    assert not proof("i + 32", "i + 31", ROWS.replace(NEST, LOADED.replace(old, new)))


def test_as_many_lanes_as_rows_are_no_rows() -> None:
    rows = ROWS.replace(NEST, WIDE).replace("  let tid", "  assume d % 2 == 0\n  let tid", 1)
    assert "over the block" in proof("i + 64", "i + 62", rows) and not proof("i + 64", "i + 66", rows)
    assert not proof("i + 64", "i + 62", rows.replace("a[v, w]", "a[w, v]"))
