"""Extremes that are kept with their place: recognised in serial loops, spread over threads and blocks, bit for bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.analysis.accumulators import in_two_sweeps
from ktc.ir.fold import evaluate
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel, bind
from ktc.ir.nodes import Binary, If, Reduce, Select
from ktc.ir.text import parse_kernel
from ktc.ir.verifier import verify
from ktc.ir.walk import map_body, walk
from ktc.passes.lowering import materialise
from tests.passes.checks import applied, body_of, refused

HEAD = """\
kernel k(at: i32*, best: f32*, x: f32 const*, ids: i32 const*, n: i32 range 1..64, c: i32 range 0..4096)
  launch grid(n) block(1)
  par r in 0..n @ [block.x]
"""
SEARCH = (
    "var m: f32 = -inf",
    "var p: i32 = -1",
    "for i in 0..c",
    "  let v: f32 = x[r * c + i]",
    "  if v > m",
    "    m = v",
    "    p = i",
    "at[r] = p",
    "best[r] = m",
)
FROM_FIRST = (
    "var m: f32 = x[r * c]",
    "var p: i32 = 0",
    "for i in 1..c",
    "  if x[r * c + i] > m",
    "    m = x[r * c + i]",
    "    p = i",
    "at[r] = p",
    "best[r] = m",
)
GUARDED = (
    "var m: f32 = 3.0",
    "var p: i32 = 7",
    "var q: i32 = 9",
    "for i in 0..c",
    "  let id: i32 = ids[i]",
    "  if id > 0 && m > x[r * c + i]",
    "    q = id",
    "    m = x[r * c + i]",
    "    p = 2 * i + n",
    "at[r] = p * 1000 + q",
    "best[r] = m",
)
MAPS = (
    "[thread.x 32, seq]",
    "[vec 2, thread.x 64, unroll 2, seq]",
    "[unroll 2, thread.x 8, seq]",
    "[thread.y 6, seq]",
    "[thread.x 16, unroll 2, seq 3]",
    "[unroll 2, thread.x 8, unroll 2, seq]",
    "[seq 2, thread.x 4, unroll 3, seq]",
)
NAN = float("nan")
SIGN_OF_ZERO = -(1 << 31)
ROWS = (
    [0.0],
    [2.0, 2.0, 1.0],
    [1.0, 5.0, 5.0, -1.0, 5.0] * 29,
    [-np.inf] * 70,
    [NAN] * 40,
    [NAN, 1.0, 2.0, NAN, 2.0],
    [1.0, NAN, 0.5, 1.0],
    [-0.0, 0.0] * 35,
    [0.0, -0.0, -1.0],
    [np.inf, NAN, np.inf],
    [-7.0] * 130 + [-6.5] * 3,
)


def rows(*lines: str) -> Kernel:
    return parse_kernel(HEAD + "".join(f"    {line}\n" for line in lines))


def outputs(k: Kernel, row: Sequence[float]) -> list[np.ndarray]:
    x = np.array([*row, *row[::-1]], dtype=np.float32)
    ids = (np.arange(max(1, len(row)), dtype=np.int32) * 5) % 4 - 1
    args = {"at": np.zeros(2, np.int32), "best": np.zeros(2, np.float32), "x": x, "ids": ids, "n": 2, "c": len(row)}
    got = run(k, args)
    assert not got.findings, got.findings
    return [got.outputs[b].view(np.int32).copy() for b in ("at", "best") if b in got.outputs]


def same_bits(before: Kernel, after: Kernel, row: Sequence[float]) -> bool:
    """Whether the threads of ``after`` leave every bit as ``before`` does, where what it assumes holds; and its loops,
    but for the sign of a zero."""
    if any(evaluate(a.expr, {"c": len(row), "n": 2}) == 0 for a in after.assumptions):
        return True
    want, loops, threads = (outputs(k, row) for k in (before, after, materialise(after)))
    unsigned = [[np.where(a == SIGN_OF_ZERO, 0, a) for a in out] for out in (want, loops)]
    return all(map(np.array_equal, want, threads)) and all(map(np.array_equal, *unsigned))


def test_before_and_after() -> None:
    k = applied(rows(*FROM_FIRST), "parallelize{loop=i map=[thread.x 32, seq]}")
    assert "reassociates" not in k.flags
    assert (
        body_of(k).split("@ [block.x]\n")[1]
        == """\
    var m: f32 = x[r * c]
    var p: i32 = 0
    reduce(max) m_1: f32 = -inf, (at) i_at: i32 = 2147483647 over i in 0..c @ [thread.x 32, seq]
      yield x[r * c + i], i
    if m_1 > m
      m = m_1
      p = i_at
    at[r] = p
    best[r] = m
"""
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{len(r)} from {r[0]}")
@pytest.mark.parametrize("lines", [SEARCH, FROM_FIRST, GUARDED], ids=["search", "from the first", "guarded"])
def test_the_same_bits_whatever_the_data(lines: tuple[str, ...], row: list[float]) -> None:
    before = rows(*lines)
    for m in MAPS:
        assert same_bits(before, applied(before, f"parallelize{{loop=i map={m}}}"), row), m


def test_by_shared_memory_and_by_several_rows_of_threads() -> None:
    before = rows(*SEARCH)
    k = applied(before, "parallelize{loop=i map=[thread.x 64, seq]} | reduce-strategy{loop=i strategy=shared}")
    assert all(same_bits(before, k, row) for row in ROWS)
    wide = applied(before, "distribute{loop=r map=[unroll 2, block.x]} | parallelize{loop=i map=[thread.x 32, seq]}")
    assert all(same_bits(before, wide, row) for row in ROWS[:6])


def test_over_several_blocks_the_last_to_arrive_decides() -> None:
    before = rows(*SEARCH)
    k = applied(before, "split-reduction{loop=i map=[thread.x 32, block.y 3, seq]}")
    assert all(same_bits(before, k, row) for row in ROWS)


def test_an_extreme_alone_keeps_a_start_that_is_no_number() -> None:
    before = rows("var m: f32 = -1000.0", "m = x[0]", "for j in 0..c", "  if x[j] >= m", "    m = x[j]", "best[r] = m")
    k = applied(before, "parallelize{loop=j map=[thread.x 32, seq]}")
    assert all(same_bits(before, k, row) for row in ROWS if 0.0 not in row)  # which zero it is, is open


def test_a_place_that_is_no_loop_variable_and_a_key_that_stands_still() -> None:
    before = rows("var m: f32 = 0.0", "var p: i32 = 5", "for i in 0..c", "  if x[0] > m", "    m = x[0]", "    p = i",
                  "at[r] = p", "best[r] = m")  # fmt: skip
    for m in ("[unroll 4, thread.x 8, seq]", "[thread.x 32, unroll 2, seq]"):
        assert all(same_bits(before, applied(before, f"parallelize{{loop=i map={m}}}"), row) for row in ROWS)


def test_extremes_of_integers_and_a_sum_beside_them() -> None:
    k = parse_kernel("""\
kernel k(at: i32*, best: f32*, x: f32 const*, ids: i32 const*, n: i32 range 1..64, c: i32 range 0..4096)
  launch grid(n) block(1)
  par r in 0..n @ [block.x]
    var low: i32 = 2147483647
    var p: i32 = -1
    var s: i32 = 0
    for i in 0..c
      s += ids[i]
      if ids[i] < low
        low = ids[i]
        p = i
    at[r] = p
    best[r] = f32(low + s)
""")
    after = applied(k, "parallelize{loop=i map=[thread.x 32, seq]}")
    assert "(at)" in body_of(after) and "(+)" in body_of(after)
    assert all(same_bits(k, after, row) for row in ROWS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  if v > m", "  if v >= m"),  # of equal keys the last counts
        ("    p = i", "    p = p + i"),
        ("    m = v", "    m = v * 2.0"),
        ("  let v: f32 = x[r * c + i]", "  let v: f32 = x[r * c + i] + m"),
        ("  let v: f32 = x[r * c + i]", "  let v: f32 = x[r * c + i + p]"),
        ("  if v > m", "  if v > m && p < 9"),
        ("    p = i", "    best[i] = v"),
    ],
)
def test_what_is_no_search_stays_serial(old: str, new: str) -> None:
    lines = [new if line == old else line for line in SEARCH]
    assert refused(rows(*lines), "parallelize{loop=i}").code == "E-PARALLEL-CARRIED"


def test_rows_that_begin_at_one_begin_at_zero_only_where_that_changes_nothing() -> None:
    other = [line.replace("= x[r * c]", "= x[r * c + 1]") for line in FROM_FIRST]
    k = applied(rows(*other), "parallelize{loop=i map=[thread.x 32, seq]}")
    assert "in 1..c" in body_of(k)
    summed = [*FROM_FIRST[:2], "var s: f32 = 0.0", FROM_FIRST[2], "  s += x[r * c + i]", *FROM_FIRST[3:], "best[r] = s"]
    assert "in 1..c" in body_of(applied(rows(*summed), "parallelize{loop=i map=[thread.x 32, seq]}"))


def test_ties_left_to_chance_are_seen() -> None:
    """A lowering that lets the later of two equal keys win, or forgets who is first, gives other bits."""
    before = rows(*SEARCH)
    good = materialise(applied(before, "parallelize{loop=i map=[thread.x 64, seq]}"))

    def careless(s: object) -> object:
        tied = isinstance(s, If) and isinstance(s.cond, Binary) and s.cond.op == "||"
        return dataclasses.replace(s, cond=s.cond.a) if tied else s  # type: ignore[attr-defined, type-var]

    bad = good.with_(body=map_body(good.body, careless))  # type: ignore[arg-type]
    row = ROWS[2]
    want = outputs(before, row)
    assert all(np.array_equal(a, b) for a, b in zip(want, outputs(good, row)))
    assert not all(np.array_equal(a, b) for a, b in zip(want, outputs(bad, row)))


def test_what_a_place_means_in_plain_reductions() -> None:
    k = applied(rows(*SEARCH), "parallelize{loop=i map=[thread.x 32, seq]}")
    (s,) = [x for x in walk(k.body) if isinstance(x, Reduce)]
    first, second = in_two_sweeps(s)
    assert [a.op for a in first.accs] == ["max"] and [a.op for a in second.accs] == ["min"]
    assert isinstance(second.accs[0].value, Select)


@pytest.mark.parametrize(
    "heads",
    [
        "(at) p: i32 = 2147483647",
        "(+) m: f32 = 0.0, (at) p: i32 = 2147483647",
        "(max) m: f32 = 0.0, (at) p: i32 = 2147483647",
        "(max) m: f32 = -inf, (at) p: i32 = 0",
    ],
)
def test_a_place_without_its_key_is_no_kernel(heads: str) -> None:
    values = ", ".join("i" if "(at)" in h else "x[i]" for h in heads.split(", "))
    k = rows(f"reduce{heads} over i in 0..c @ [thread.x 32, seq]", f"  yield {values}", "at[r] = p")
    assert "V-REDUCE" in {p.code for p in verify(k)}


def test_numba_and_cuda_print_it() -> None:
    k = bind(applied(rows(*SEARCH), "parallelize{loop=i map=[thread.x 32, seq]}"), {})
    text = emit(materialise(k), "cuda").text
    assert "__shfl_xor_sync" in text and "m_other > m2 || (m_other == m2 && i_at_other < i_at)" in text
    assert "if " in emit(k, "numba").text
