"""Which guesses are compared, of more than there is time for: those that leave parts to threads are not crowded out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ktc.ir.fold import i32
from ktc.ir.nodes import Par, Var, fresh
from ktc.ir.text import parse_kernel
from ktc.ir.walk import substitute
from ktc.passes.raising.candidates import Guess
from ktc.passes.raising.raise_report import Region
from ktc.passes.raising.tried_forms import FIRST_TRIED, LEFT_TRIED, apart, by_work_left, leaving_fewer, some

LEFT = Region("left", "a loop over the threads")


KERNEL = parse_kernel("""
kernel k(y: f32*, x: f32 const*)
  launch grid(1) block(64)
  par i in 0..64 @ [thread.x 64]
    y[i] = x[i]
""")


def guesses(kinds: str) -> list[Guess]:
    """One guess a letter: ``w``hole, or with a part that is ``l``eft to threads."""
    return [Guess((), (LEFT,) if k == "l" else ()) for k in kinds]


def kinds(of: Iterable[Guess]) -> str:
    return "".join("l" if g.regions else "w" for g in of)


def test_some_of_each_kind_whatever_there_is_of_the_other() -> None:
    assert kinds(some(guesses("wwwwlwl"), 2)) == "wwll"
    assert kinds(some(guesses("lllllllw"), 2)) == "l" * LEFT_TRIED + "w"


def test_no_guess_is_made_once_there_are_enough() -> None:
    made = iter(guesses("ww" + "l" * LEFT_TRIED + "wwww"))
    assert kinds(some(made, 1)) == "w" + "l" * LEFT_TRIED and len(list(made)) == 4


def test_forms_that_differ_in_names_are_one() -> None:
    (loop,) = KERNEL.body
    assert isinstance(loop, Par)
    named = Par(fresh("j", loop.var.type), loop.lo, loop.hi, loop.dist, loop.body)
    named = dataclasses.replace(named, body=substitute(loop.body, {loop.var: Var(named.var)}))
    first, again = Guess((loop,), ()), Guess((named,), (LEFT,))
    shorter = Guess((dataclasses.replace(loop, hi=i32(63)),), ())
    reordered = dataclasses.replace(first, domains=("field",))
    assert list(apart(KERNEL, [first, first, again])) == [first]
    assert list(apart(KERNEL, [first, shorter, reordered])) == [first, shorter, reordered]


def test_with_little_work_left_those_that_leave_parts_come_first() -> None:
    assert kinds(by_work_left(guesses("wwwl"), lambda: False)) == "wwwl"
    assert kinds(by_work_left(guesses("wwwwl"), lambda: True)) == "w" * FIRST_TRIED + "l" + "ww"


def test_forms_that_leave_as_much_as_is_known_to_do_are_not_tried() -> None:
    two = Guess((), (LEFT, LEFT))
    assert kinds(leaving_fewer([*guesses("lw"), two], 1)) == "w"
    assert kinds(leaving_fewer([two, *guesses("lw")], 2)) == "lw"
    assert kinds(leaving_fewer([*guesses("lw"), two], float("inf"))) == "lwl"
