"""Printing a kernel that assumes as little as it can: facts that nobody vouches for are taken away where possible.

A step that finds a fact on the kernel builds on it without a word; where it finds none, it asks the launcher for a
test, or refuses. So a script is applied again to an original that knows less: if the text is the same, what that kernel
asks of its launcher is all that the text needs. What lies outside of a range is verified nowhere: ranges are taken away
where somebody says that the two kernels are alike there as well. So are divisors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ktc.backends.base import Emitted
from ktc.ir.diagnostics import KtcError
from ktc.ir.fact_origins import VOUCHED, Fact, unvouched, without
from ktc.ir.kernel import Kernel, bind
from ktc.ir.nodes import Sym
from ktc.ir.support import time_limits
from ktc.ir.support.memo import by_identity
from ktc.ir.text import print_expr
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import Memo, apply_script

from .printing import printed

SECONDS = 10.0
"""How long facts are taken away where nobody says: large kernels take that long for one comparison."""

Alike = Callable[[Kernel, Kernel], bool]
"""Whether a rewrite does what its original does for all sizes that the facts of the two allow."""


@dataclass(frozen=True)
class Resting:
    """A printed kernel and what it rests on: ``emitted`` knows, of the facts that nobody vouches for, ``facts``
    alone. ``least``: without each of them the text was seen to be another; else there was no time to look."""

    emitted: Emitted
    facts: tuple[Fact, ...]
    least: bool = True

    @property
    def conditions(self) -> tuple[str, ...]:
        """What the launcher tests, for people to read: facts of the draft, and what passes made of their absence."""
        asked = (print_expr(a.expr) for a in self.emitted.kernel.assumptions if a.origin not in VOUCHED)
        return tuple(dict.fromkeys([*(f.text for f in self.facts), *asked]))


def least_assuming(
    original: Kernel, script: str, emitted: Emitted, target: str, alike: Alike, seconds: float = SECONDS
) -> Resting:
    """``emitted``, which ``script`` made of ``original`` for ``target``, with as few doubtful facts as its text allows.

    Facts are taken away all at once, then those of a kind, then one after the other, and stay away where nothing of the
    text changes. Each time the script is applied anew, which may raise the kernel anew: nothing is begun after
    ``seconds``, and what goes on then has shown nothing.
    """
    until = time.monotonic() + seconds
    doubtful = unvouched(original)
    if not doubtful:
        return Resting(emitted, ())
    found = emitted
    spared: list[Fact] = []
    open_ = [doubtful]
    while open_ and time.monotonic() < until:
        fewer = open_[0]
        try:
            with time_limits.until(until):
                again = _again(original, (*spared, *fewer), script, emitted, target, alike)
        except time_limits.OutOfTime:
            break
        open_.pop(0)
        if again is not None:
            found = again
            spared += fewer
        else:
            open_ += _parts(fewer)
    return Resting(found, tuple(f for f in doubtful if f not in spared), least=not open_)


def _parts(facts: tuple[Fact, ...]) -> list[tuple[Fact, ...]]:
    """``facts`` by their kinds; those of one kind, one by one."""
    kinds = dict.fromkeys(f.kind for f in facts)
    if len(kinds) == 1:
        return [(f,) for f in facts] if len(facts) > 1 else []
    return [tuple(f for f in facts if f.kind == kind) for kind in kinds]


@by_identity(64)
def _knowing_less(original: Kernel, gone: frozenset[tuple[Sym, str]]) -> tuple[Kernel, Memo]:
    """``original`` without those facts, and what steps have made of it so far: other scripts, and other targets, begin
    as this one does."""
    return without(original, [f for f in unvouched(original) if (f.sym, f.kind) in gone]), {}


OF_SIZES = frozenset({"range", "divisible_by"})
"""Facts that rule sizes out, for which nothing was verified."""


def _again(
    original: Kernel, gone: Iterable[Fact], script: str, emitted: Emitted, target: str, alike: Alike
) -> Emitted | None:
    """``emitted`` as ``script`` makes it of ``original`` without the facts ``gone``; None if a step refuses, the text
    is another one, or the two differ for sizes that those ruled out."""
    kernel, memo = _knowing_less(original, frozenset((f.sym, f.kind) for f in gone))
    try:
        applied = apply_script(kernel, parse_script(script), memo)
        if applied.refused is not None:
            return None
        bound = bind(applied.kernel, dict(emitted.kernel.knob_values))
        made = printed(bound, target)
    except KtcError:
        return None
    if made.text != emitted.text or (OF_SIZES & {f.kind for f in gone} and not alike(kernel, bound)):
        return None
    return made
