"""Proofs that a guard belongs to a step of which nothing else is left, and that what follows asks for no difference."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ktc.ir.text import canonical, parse_kernel
from ktc.search.verification.rungs.normal_form import normal
from tests.mutation.proofs.proofs import equivalent
from tests.mutation.subjects import replayed

TILES = "raise | vectorize{loop=row} | temporal-block{steps=3 tile=$TROW,$TCOL} [V=4 TROW=28 TCOL=56]"
ROWS = "raise | vectorize{loop=col} [V=4]"


def dropped(script: str) -> str:
    """The proof that the candidate of ``script`` for a stencil needs no guards."""
    made = replayed("stencil/hotspot", None, script)
    kept = tuple(a for a in made.candidate.assumptions if a.origin != "guessed")
    assert kept != made.candidate.assumptions
    return equivalent(made.candidate, replace(made.candidate, assumptions=kept), made.original, made.workload)


def test_tiles_ask_for_no_whole_vectors() -> None:
    assert "without 'vectorize{loop=row}'" in dropped(TILES)


def test_but_vectors_do() -> None:
    assert not dropped(ROWS)


LONG = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..10000)
  launch grid(n) block(1024)
  let tid: i32 = i32(threadIdx.x)
  array t: shared f32[1024]
  for i = 0; i < n; i + 1
    var s: f32 = x[i * 1024 + tid]
    t[tid] = s
    barrier
    for w = 0; w < 70; w + 1
      s = max(s, t[(tid + w) % 1024])
    s = max(0.0, s)
    y[tid] = max(s, 1.0)
    barrier
"""
CLAMP = "    s = max(0.0, s)\n"


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        (CLAMP, "", True),
        (CLAMP, "    s = max(0.5, s)\n", True),
        (CLAMP, "    s = max(2.0, s)\n", False),
        ("max(s, 1.0)", "max(s, 2.0)", False),
    ],
)
def test_what_comes_before_a_difference_need_not_be_followed(old: str, new: str, same: bool) -> None:
    made = (canonical(parse_kernel(t)) for t in (LONG, LONG.replace(old, new)))
    assert ("every thread" in equivalent(*made)) == same


def test_but_what_is_left_for_the_next_round_is_asked_for() -> None:
    text = LONG.replace("    var s: f32 = x[i * 1024 + tid]\n", "    s = max(s - 5.0, x[i * 1024 + tid])\n")
    text = text.replace("  array t", "  var s: f32 = -9.0\n  array t")
    assert not equivalent(*(canonical(parse_kernel(t)) for t in (text, text.replace(CLAMP, ""))))


STORE = """
kernel k(y: {t}* noalias, x: f64 const* noalias readonly)
  launch grid(1) block(32)
  y[threadIdx.x] = {value}
"""


@pytest.mark.parametrize(
    ("t", "wider", "same"),
    [
        ("f16", "f32", True),
        ("f16", "f64", True),
        ("bf16", "f32", True),
        ("f32", "f64", True),
        ("f32", "f16", False),
        ("f16", "bf16", False),
        ("bf16", "f16", False),
        ("e5m2", "f32", False),  # what is converted there saturates: infinities do not come back
    ],
)
def test_there_and_back_is_the_same_where_the_other_type_holds_it(t: str, wider: str, same: bool) -> None:
    one, other = (
        normal(parse_kernel(STORE.format(t=t, value=v))).body for v in (f"{t}(x[0])", f"{t}({wider}({t}(x[0])))")
    )
    assert (one == other) == same
