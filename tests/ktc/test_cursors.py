"""Cursors survive the passes of a chain, and say when their place is gone."""

from __future__ import annotations

import pytest

import ktc

SGEMM = """
kernel sgemm(C: f32* restrict, A: f32 const* restrict, B: f32 const* restrict, M: i32, N: i32, K: i32)
  par row in 0..M @ [thread.y 8, block.y]
    par col in 0..N @ [thread.x 8, block.x]
      var acc: f32 = 0.0
      for k in 0..K
        acc += A[row * K + k] * B[k * N + col]
      C[row * N + col] = acc
"""


def test_a_loop_is_followed_through_passes() -> None:
    p = ktc.loads(SGEMM)
    k = p.loop("k")
    assert str(k) == "k" and k.parent is not None and str(k.parent) == "col"
    tiled = p.apply("tile", loops=k, sizes=4).apply("unroll", loop=k, factor=2)
    assert tiled.script == "tile{loops=k sizes=4} | unroll{loop=k factor=2}"
    inner = tiled.at(k)
    assert inner and inner.parent is not None and str(inner.parent) == "k_tile"
    assert inner.text().startswith("for k in k_tile..")


def test_a_place_is_named_as_its_program_needs_it() -> None:
    p = ktc.loads(SGEMM)
    k = p.loop("k")
    twice = p.apply("fission", loop="col", at=2)
    assert twice.refused  # acc crosses the cut
    peeled = p.apply("peel", loop=k, first=1)
    assert peeled and [str(c) for c in peeled.find("k.*")] == ["k_1", "k"]
    assert str(peeled.at(k)) == "k"  # the interior keeps the loop's variable, and its name


def test_statements_and_arrays() -> None:
    p = ktc.loads(SGEMM)
    store = p.find("stmt:8")[0]
    assert store.text().strip() == "C[row * N + col] = acc"
    assert store.prev is not None and str(store.prev) == "k" and store.next is None
    q = p.unroll(loop="k", factor=4)
    assert q.at(store).text() == store.text()
    a = p.array("A")
    assert str(a) == "array:A" and a.stmt is None and a


def test_what_is_gone_says_so() -> None:
    p = ktc.loads(SGEMM)
    other = ktc.loads("kernel k(a: f32*)\n  launch grid(1) block(1)\n  a[0] = 1.0\n")
    lost = other.at(p.loop("k"))
    assert not lost
    with pytest.raises(ktc.KtcError) as caught:
        lost.stmt  # noqa: B018
    assert caught.value.code == "E-CURSOR-GONE"
    with pytest.raises(ktc.KtcError):
        p.find("loop:nowhere")


def test_a_cursor_applies_passes_at_its_place() -> None:
    p = ktc.loads(SGEMM)
    assert p.loop("k").apply("unroll", factor=2).script == "unroll{loop=k factor=2}"
    assert p.loop("row").apply("interchange").script == "interchange{outer=row}"
