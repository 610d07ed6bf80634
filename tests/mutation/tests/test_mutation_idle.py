"""Proofs about rounds that add zeros: tiles that are filled anew, with zeros beyond the last element."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent

TILES = """
kernel k(c: f32*, a: f32 const* readonly, b: f32 const* readonly, m: i32 range 1..1000, n: i32 range 1..1000)
  launch grid(cdiv(m, 8)) block(8, 8)
  array s: shared f32[8, 8]
  array t: shared f32[8, 8]
  let x: i32 = i32(threadIdx.x)
  let y: i32 = i32(threadIdx.y)
  let row: i32 = i32(blockIdx.x) * 8 + y
  var acc: f32 = 0.0
  for u = 0; u < (n + 7) / 8; u + 1
    s[y, x] = row < m && u * 8 + x < n ? a[row * n + u * 8 + x] : 0.0
    for v = 0; v < 1; v + 1
      t[v * 8 + y, x] = u * 8 + y < n ? b[(u * 8 + y) * 8 + x] : 0.0
    barrier
    for e = 0; e < min(8, n - u * 8); e + 1
      acc += s[y, e] * t[e, x]
    barrier
  if row < m
    c[row * 8 + x] = acc
"""

MORE = {
    "a tile more": ("(n + 7) / 8", "(n + 8) / 8"),
    "two tiles more": ("(n + 7) / 8", "(n + 16) / 8"),
    "or equal": ("u < (n", "u <= (n"),
    "the whole of the last tile": ("min(8, n - u * 8)", "8"),
    "one more of the last tile": ("min(8, n - u * 8)", "min(8, n - u * 8 + 1)"),
}
FEWER = {
    "a tile less": ("(n + 7) / 8", "n / 8"),
    "one less of a tile": ("min(8, n - u * 8)", "min(7, n - u * 8)"),
    "more than a tile holds": ("min(8, n", "max(8, n"),
    "one more than a tile holds": ("min(8, n - u * 8)", "9"),
}


def proof(change: tuple[str, str], *before: tuple[str, str]) -> str:
    text = TILES
    for old, new in before:
        assert old in text
        text = text.replace(old, new)
    assert change[0] in text
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(*change))))


@pytest.mark.parametrize("what", MORE)
def test_tiles_of_zeros_may_be_added(what: str) -> None:
    assert "add zeros" in proof(MORE[what])


@pytest.mark.parametrize("what", FEWER)
def test_other_tiles_may_not_be_left_out_or_read(what: str) -> None:
    assert not proof(FEWER[what])


NOT_ZERO = {
    "another filling": ("b[(u * 8 + y) * 8 + x] : 0.0", "b[(u * 8 + y) * 8 + x] : 1.0"),
    "what is left out may be infinite": ("u * 8 + y < n ? b[(u * 8 + y) * 8 + x] : 0.0", "b[(u * 8 + y) * 8 + x]"),
    "a sum that may start below zero": ("acc: f32 = 0.0", "acc: f32 = -0.0"),
    "a sum that is scaled": ("      acc += s", "      acc = acc * -1.0\n      acc += s"),
    "not a sum": ("acc += s[y, e] * t", "acc = s[y, e] * t"),
    "another guard": ("u * 8 + y < n ?", "u * 8 + y < n + 3 ?"),
    "the other index": ("t[e, x]", "t[x, e]"),
    "cells that nobody fills": ("s[y, x] =", "s[y, x / 2] ="),
    "a row that is not filled": ("t[v * 8 + y, x] =", "t[v * 8 + y / 2, x] ="),
    "nobody waits for the filling": ("    barrier\n    for e", "    for e"),
    "only some fill": ("    s[y, x] = row", "    if x < row\n      s[y, x] = row"),
}


@pytest.mark.parametrize("what", NOT_ZERO)
def test_what_is_not_zero_or_not_known_is_no_proof(what: str) -> None:
    assert not proof(MORE["the whole of the last tile"], NOT_ZERO[what])


PADDED = ("s: shared f32[8, 8]", "s: shared f32[8, 9]"), ("t: shared f32[8, 8]", "t: shared f32[9, 8]")


def test_cells_that_are_never_read_need_no_filling() -> None:
    """Rows are padded; a ninth element of one would be what nobody stored."""
    assert "add zeros" in proof(MORE["the whole of the last tile"], *PADDED)
    assert not proof(("min(8, n - u * 8)", "9"), *PADDED)
    ninth = ("s[y, e] * t[e, x]", "s[y, e] * t[e, x] + s[y, 8]")
    assert not proof(MORE["the whole of the last tile"], *PADDED, ninth)
    shifted = ("s[y, e] * t[e, x]", "s[y, e + 1] * t[e, x]")
    assert not proof(MORE["the whole of the last tile"], *PADDED, shifted)


NOT_ALONE = {
    "the tile is read later": ("    c[row * 8 + x] = acc", "    c[row * 8 + x] = acc + t[y, x]"),
    "every thread has its own number of tiles": ("(n + 7) / 8", "(x * 0 + n + 7) / 8"),
    "something else is counted": ("    barrier\n    for e", "    barrier\n    c[0] += 1.0\n    for e"),
    "the bound is read from memory": ("u * 8 + y < n ?", "f32(u * 8 + y) < a[n] ?"),
}


@pytest.mark.parametrize("what", NOT_ALONE)
def test_what_another_tile_does_besides_is_no_proof(what: str) -> None:
    assert "add zeros" in proof(("u < (", "u <= ("))
    assert not proof(("u < (", "u <= ("), NOT_ALONE[what])


def test_where_sums_may_be_reordered_the_sign_of_zero_does_not_count() -> None:
    scaled = NOT_ZERO["a sum that may start below zero"]
    assert "add zeros" in proof(
        MORE["the whole of the last tile"], scaled, ("block(8, 8)\n", "block(8, 8)\n  flags reassociates\n")
    )


BLOCKS = """
kernel k(y: f32*, x: f32 const* readonly, n: i32 range 1..100000)
  launch grid(64) block(64)
  flags reassociates
  let tid: i32 = i32(threadIdx.x)
  for b = i32(blockIdx.x); b < (n + 63) / 64; b + 64
    var s: f32 = 0.0
    array w: shared f32[2]
    let i: i32 = b * 64 + tid
    s += i < n ? x[i] : 0.0
    for o = 16; o > 0; o / 2
      s += shfl_xor(s, o)
    if tid % 32 == 0
      w[tid / 32] = s
    barrier
    s = w[0] + w[1]
    if tid == 0
      atomic add y[0], s
"""


@pytest.mark.parametrize(
    ("before", "held"),
    [
        (("", ""), True),
        (("s: f32 = 0.0", "s: f32 = 1.0"), False),
        (("s = w[0] + w[1]", "s = w[0] + w[1] + f32(b)"), False),
        (("atomic add", "atomic max"), False),
        (("atomic add y[0], s", "atomic add y[b], s"), False),
        (("  flags reassociates\n", ""), False),
        (("w[tid / 32] = s", "w[b / 64] = s"), False),
        (("atomic add y[0], s", "y[b] = s"), False),
        (("i < n ? x[i] : 0.0", "x[min(i, n - 1)]"), False),
        (("  let tid", "  array w: shared f32[2]\n  let tid"), False),
    ],
)
def test_a_block_of_zeros_adds_nothing_to_an_atomic_sum(before: tuple[str, str], held: bool) -> None:
    text = BLOCKS.replace("    array w: shared f32[2]\n", "") if "array" in before[1] else BLOCKS
    text = text.replace(*before) if before[0] else text
    more = text.replace("b < (n", "b <= (n")
    found = equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(more)))
    assert ("add zeros" in found) if held else not found, found


SWIZZLED = (("t[v * 8 + y, x]", "t[v * 8 + y, x ^ y % 8]"), ("t[e, x]", "t[e, x ^ e % 8]"))


def test_swizzled_tiles_are_zeros_as_well() -> None:
    whole = ("min(8, n - u * 8)", "8")
    assert "add zeros" in proof(("(n + 7) / 8", "(n + 7) / 7"), whole, *SWIZZLED)
    assert "add zeros" in proof(whole, *SWIZZLED)
    beyond = (SWIZZLED[0], ("t[e, x]", "t[e, x ^ e * 2]"))
    assert not proof(("(n + 7) / 8", "(n + 7) / 7"), whole, *beyond)  # columns 8 to 15 of rows of eight
    assert not proof(("(n + 7) / 8", "(n + 7) / 9"), whole, *SWIZZLED)


@pytest.mark.parametrize("op", ["^", "|", "&"])
def test_what_is_known_of_bits_holds_for_all_bits(op: str) -> None:
    import z3

    from ktc.search.verification.integers.formulas import BITS

    done = {"^": int.__xor__, "|": int.__or__, "&": int.__and__}[op]
    for a in range(-9, 10):
        for b in range(-9, 10):
            fact = BITS[op](*map(z3.IntVal, (done(a, b), a, b)))
            assert z3.is_true(z3.simplify(fact)), (a, b)
    wrong = {"^": (4, 3, 3), "|": (8, 7, 5), "&": (4, 3, 6)}[op]
    assert z3.is_false(z3.simplify(BITS[op](*map(z3.IntVal, wrong))))


NAMESAKES = """
kernel k(y: f32*, x: f32 const* readonly, n: i32 range 1..100000, W: i32 range 1..2)
  knob $W in {2} default 2
  launch grid(64) block(64)
  flags reassociates
  let tid: i32 = i32(threadIdx.x)
  array w: shared f32[$W]
  w[tid % 2] = 0.0
  barrier
  for b = i32(blockIdx.x); b < (n + 63) / 64; b + 64
    let i: i32 = b * 64 + tid
    w[tid % FILLED] = i < n ? x[i] : 0.0
    barrier
    atomic add y[0], w[0] + w[1]
    barrier
"""


@pytest.mark.parametrize(("filled", "held"), [("2", True), ("$W", True), ("W", False), ("i32(u8(2))", False)])
def test_a_size_is_no_knob_of_the_same_name(filled: str, held: bool) -> None:
    """An array of which a size says how much is filled anew keeps something of the round before."""
    text = NAMESAKES.replace("FILLED", filled)
    found = equivalent(*(canonical(parse_kernel(t)) for t in (text, text.replace("b < (n", "b <= (n"))))
    assert ("add zeros" in found) if held else not found, found
