"""Lanes along a stride that is a parameter: wide accesses where it is shown to be 1, a note where it is not known."""

from __future__ import annotations

import pytest

from ktc.driver.printing import printed
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script

VECTORS = "distribute{loop=i map=[vec 4, thread.x 128, block.x]}"
WIDE = "load_vec<4>(&x["


def strided(said: str = "", assumed: str = "", index: str = "i * s") -> Kernel:
    assume = f"  assume {assumed}\n" if assumed else ""
    return parse_kernel(
        f"kernel k(x: f32 const* align 16, y: f32* align 16 noalias, n: i32 divisible_by 4, s: i32 {said})\n{assume}"
        f"  par i in 0..n @ [thread.x 128, block.x]\n    let j: i32 = {index}\n    y[i] = x[j]\n"
    )


def spread(kernel: Kernel, script: str = VECTORS) -> tuple[str, tuple[str, ...]]:
    """The text, and what ``distribute`` had to say."""
    done = apply_script(kernel, parse_script(script))
    assert not done.refused
    return printed(done.kernel, "cuda").text, tuple(note for r in done.results for note in r.notes)


@pytest.mark.parametrize(
    ("said", "assumed"), [("range 1..1", ""), ("", "s == 1"), ("range 0..", "s * 2 == 2 && s < 2 && s > 0")]
)
def test_a_stride_that_is_shown_to_be_one_is_one(said: str, assumed: str) -> None:
    text, notes = spread(strided(said, assumed))
    assert WIDE in text
    assert len(notes) == 1


@pytest.mark.parametrize(("said", "assumed"), [("", ""), ("range 1..2", ""), ("", "s >= 1")])
def test_of_a_stride_that_is_not_known_is_said_so(said: str, assumed: str) -> None:
    text, notes = spread(strided(said, assumed))
    assert WIDE not in text
    assert notes[1] == "x[j]: an access a lane, unless 's' is known to be 1: specialize{s=1}"
    assert WIDE in printed(apply_script(strided(), parse_script(f"specialize{{s=1}} | {VECTORS}")).kernel, "cuda").text


@pytest.mark.parametrize("index", ["i * 2", "i", "i + 4 * s", "s", "i + 1"])
def test_nothing_is_said_where_numbers_say_how_wide_an_access_is(index: str) -> None:
    assert len(spread(strided(index=index))[1]) == 1


def rows(said: str = "") -> Kernel:
    return parse_kernel(
        f"kernel k(x: f32 const* align 16, y: f32* align 16 noalias, n: i32 divisible_by 4, m: i32, p: i32 {said})\n"
        "  par r in 0..m @ [block.x]\n    par i in 0..n @ [thread.x 128]\n      y[r * n + i] = x[r * p + i]\n"
    )


def test_rows_whose_pitch_is_not_known_to_be_divisible_are_said() -> None:
    text, notes = spread(rows(), "distribute{loop=i map=[vec 4, thread.x 128, seq]}")
    assert WIDE not in text
    assert notes[1:] == ("x[r * p + i]: an access a lane, unless 4 is known to divide 'p'",)
    text, notes = spread(rows("divisible_by 4"), "distribute{loop=i map=[vec 4, thread.x 128, seq]}")
    assert WIDE in text and not notes[1:]
