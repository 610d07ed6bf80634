"""Kernels raised in a form that says more than they do, which is then taken at what they say.

=====================  ============================================================  ================================
form                   of a kernel                                                   why
=====================  ============================================================  ================================
``_in_covering``       whose host passes both the grid and the block                 a bound on all threads goes
``_in_equal_sizes``    whose launch makes of other sizes what its code calls by one  a guard that is always true goes
``_in_a_block``        whose host chooses the block's shape among a few             sums by any number of threads
``_of_free_sizes``     of which ``specialize`` has bound parameters                  no small launch has these values
``_of_any_size``       with large constants as the ends of loops                     its runs are long
``_in_any_grid``       launched with many threads whatever the sizes are             as above
=====================  ============================================================  ================================
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import Body
from ktc.ir.null_pointers import known_nulls, with_decided
from ktc.ir.support.time_limits import OutOfTime
from ktc.passes.core.base import Refused, Result

Checked: TypeAlias = Callable[[Kernel, Launch], Result | Refused]
"""Raises a kernel as it stands, and compares what comes of it with the kernel."""

Guessed: TypeAlias = Callable[[Kernel], Body | None]
"""The form that a kernel is likeliest to be raised to, which nothing was compared with; None where there is none."""

LONGEST_TILE = 256
"""Elements of a tile along one side: of larger constants runs are too long to be compared."""

SMALLER = "loops are compared in runs of the interpreter: a parameter in place of a large constant makes them short"


def generally_raised(kernel: Kernel, launch: Launch, checked: Checked, guessed: Guessed) -> Result | Refused:
    """``kernel`` raised in the first of these forms that is one of it, else as it stands; what it asks of pointers is
    answered first, as far as it assumes the answer; integers that it rounds as floats are integers, and tables of a few
    numbers are constants."""
    from ktc.passes.raising.lanes.digit_tables import with_digits
    from ktc.passes.raising.normalise.guards_as_ends import with_guards_as_ends
    from ktc.passes.raising.normalise.int_counters import counted_in_int
    from ktc.passes.raising.normalise.whole_quotients import in_integers
    from ktc.passes.raising.staging.known_ends import with_known_ends

    kernel = in_integers(kernel.with_(body=with_digits(with_decided(kernel.body, known_nulls(kernel)))))
    outcome = _in_covering(kernel, checked) or _in_a_block(kernel, checked) or _in_equal_sizes(kernel, checked, guessed)
    if outcome is None:
        outcome = _at_its_sizes(kernel, launch, checked)
    if not isinstance(outcome, Result):
        return outcome
    for plainer in (with_guards_as_ends, with_known_ends, counted_in_int):
        form = plainer(outcome.kernel)
        if form is not outcome.kernel and not not_lowered(form):
            outcome = dataclasses.replace(outcome, kernel=form)
    return outcome


def left(outcome: Result | Refused) -> float:
    """How many parts stay loops over threads; more than any number where nothing was raised."""
    return sum("left: " in n for n in outcome.notes) if isinstance(outcome, Result) else float("inf")


def unlike(why: str, hint: str = "") -> Refused:
    from ktc.passes.raising.check.work_budget import is_unchecked

    if is_unchecked(why):
        return Refused("E-RAISE-BUDGET", why, hint=SMALLER)
    return Refused("E-RAISE-CHECK", f"the guessed loops do not compute what the source computes: {why}", hint=hint)


def not_lowered(raised: Kernel) -> str:
    """Why ``raised`` cannot be lowered as it is; '' where it can."""
    from ktc.passes.lowering import LoweringError, materialise

    try:
        materialise(raised)
    except LoweringError as error:
        return f"it could not be lowered again: {error.message}"
    return ""


def _at_its_sizes(kernel: Kernel, launch: Launch, checked: Checked) -> Result | Refused:
    return (
        _of_free_sizes(kernel, checked)
        or _of_any_size(kernel, checked)
        or _in_any_grid(kernel, checked)
        or checked(kernel, launch)
    )


def _of_free_sizes(kernel: Kernel, checked: Checked) -> Result | None:
    """The raised kernel where its parameters are bound to numbers at which nothing can be checked, raised for any
    numbers; None where they are not, or where it only means something at these."""
    from ktc.passes.raising.check.bound_sizes import at_its_sizes, of_free_sizes, said

    general = of_free_sizes(kernel)
    if general is None:
        return None
    form, numbers = general
    assert form.launch is not None
    outcome = _at_its_sizes(form, form.launch, checked)
    if not isinstance(outcome, Result):
        return None
    raised = at_its_sizes(outcome.kernel, kernel, numbers)
    if raised is None or not_lowered(raised):
        return None
    return Result(raised, (*outcome.notes, str(said(kernel, numbers))))


def _in_covering(kernel: Kernel, checked: Checked) -> Result | None:
    """The raised kernel for all launches that cover what that of its workload does; None where its threads ask for
    more, or it is not understood whole so."""
    from ktc.passes.raising.check.covering_launches import in_covering_launch
    from ktc.passes.raising.check.equal_sizes import said

    form = in_covering_launch(kernel)
    if form is None:
        return None
    assert form.launch is not None
    outcome = _at_its_sizes(form, form.launch, checked)
    if not isinstance(outcome, Result) or left(outcome):
        return None
    added = form.assumptions[len(kernel.assumptions) :]
    return dataclasses.replace(outcome, notes=(*outcome.notes, *map(str, said(added))))


def _in_a_block(kernel: Kernel, checked: Checked) -> Result | None:
    """The raised kernel where its host chooses one of a few shapes of the block, raised for one of them; None where it
    does not, or where that is not understood whole, or does something else in other shapes."""
    from ktc.passes.raising.check.chosen_blocks import in_a_block
    from ktc.passes.raising.check.exact_check import Reference

    form = in_a_block(kernel)
    if form is None:
        return None
    assert form.launch is not None
    outcome = _at_its_sizes(form, form.launch, checked)
    if not isinstance(outcome, Result) or left(outcome):
        return None
    raised, reference = outcome.kernel.with_(launch=kernel.launch), Reference(kernel)
    if not_lowered(raised) or reference.differs(raised) or reference.differs_afresh(raised, ("int", "field")):
        return None
    return dataclasses.replace(outcome, kernel=raised)


def _in_equal_sizes(kernel: Kernel, checked: Checked, guessed: Guessed) -> Result | Refused | None:
    """The raised kernel where its code and its launch call one number by different names, launched over the sizes
    that the code speaks of; what becomes of it as it stands where that was tried here, and is better; None where there
    are no such names, or the kernel was not tried as it stands and is not raised over these sizes.

    A check takes seconds. Where the guess hangs on what is seen, that form is checked first, and most often alone.
    """
    from ktc.passes.raising.check.equal_sizes import in_equal_sizes, is_asked_about, said

    form = in_equal_sizes(kernel)
    if form is None:
        return None
    assert kernel.launch is not None and form.launch is not None
    added = form.assumptions[len(kernel.assumptions) :]
    outcome: Result | Refused | None = None
    plain: Result | Refused | None = None
    if added:
        guess = guessed(kernel)
        if guess is not None and is_asked_about(kernel.with_(body=guess), kernel, form):
            outcome = _at_its_sizes(form, form.launch, checked)
        if outcome is None or left(outcome):
            plain = _at_its_sizes(kernel, kernel.launch, checked)
            if isinstance(plain, Result) and not is_asked_about(plain.kernel, kernel, form):
                return plain
    if outcome is None:
        outcome = _at_its_sizes(form, form.launch, checked)
    if plain is not None and not left(outcome) <= left(plain):
        return plain
    if not isinstance(outcome, Result):
        return plain
    return dataclasses.replace(outcome, notes=(*outcome.notes, *map(str, said(added))))


def _of_any_size(kernel: Kernel, checked: Checked) -> Result | None:
    """The raised kernel where constants of its source make its loops long, raised for any such sizes; None where
    they do not, or where the source only means something at these."""
    from ktc.passes.raising.check.constant_sizes import of_any_size, said
    from ktc.passes.raising.check.exact_check import differs_as_launched
    from ktc.passes.raising.check.huge_launches import at_its_grid
    from ktc.passes.raising.check.work_budget import is_unchecked

    general = of_any_size(kernel)
    if general is None:
        return None
    form, numbers = general
    assert form.launch is not None
    outcome = _in_any_grid(form, checked) or checked(form, form.launch)
    if not isinstance(outcome, Result):
        return None
    raised = at_its_grid(outcome.kernel, kernel, numbers)
    if not_lowered(raised):
        return None
    wrong = differs_as_launched(kernel, raised)
    if wrong and not is_unchecked(wrong):
        return None
    found = Result(raised, (*outcome.notes, str(said(numbers))) if wrong else outcome.notes)
    tiles = all((evaluate(n, {}) or 0) <= LONGEST_TILE for n in numbers.values())
    return _better_as_written(found, kernel, checked) if tiles and left(found) else found


def _better_as_written(found: Result, kernel: Kernel, checked: Checked) -> Result:
    """What becomes of ``kernel`` with its own constants, if fewer parts stay loops over threads than in ``found``, its
    form for any: how long a tile is may say which of its elements a thread copies."""
    assert kernel.launch is not None
    try:
        plain = _in_any_grid(kernel, checked) or checked(kernel, kernel.launch)
    except OutOfTime:
        return found
    return plain if isinstance(plain, Result) and left(plain) < left(found) else found


def _in_any_grid(kernel: Kernel, checked: Checked) -> Result | Refused | None:
    """What becomes of a kernel that is launched with more threads than the check runs often, whatever the sizes
    are; None if it is not, or only means something in a grid as large as that.
    """
    from ktc.passes.raising.check.exact_check import differs_as_launched
    from ktc.passes.raising.check.huge_launches import at_its_grid, of_any_grid, said
    from ktc.passes.raising.check.small_launches import MAX_THREADS
    from ktc.passes.raising.check.work_budget import is_unchecked

    general, runs = of_any_grid(kernel, MAX_THREADS), of_any_grid(kernel) is None
    if general is None:
        return None
    form, numbers = general
    assert form.launch is not None
    outcome = checked(form, form.launch)
    if not isinstance(outcome, Result):
        return None if runs else outcome
    raised = at_its_grid(outcome.kernel, kernel, numbers)
    if why := not_lowered(raised):
        return None if runs else unlike(why)
    wrong = differs_as_launched(kernel, raised) if runs else ""
    if wrong and not is_unchecked(wrong):
        return None
    if runs and not wrong:
        return Result(raised, outcome.notes)
    return Result(raised, (*outcome.notes, str(said(kernel))))


__all__ = ["generally_raised", "left", "unlike"]
