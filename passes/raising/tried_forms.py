"""Which forms are compared with their source, where there are more than a check has time for.

Guesses come with the most understood first. Most of what a check may cost goes into these; forms that leave parts of
a kernel to threads are wrong less often, and are not crowded out by them:

- forms that are the same but for the names in them are one;
- some of each kind, however many there are of the other;
- where the work that is left is just enough for one more form, those that leave parts come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ktc.ir.kernel import Kernel
from ktc.ir.text import canonical

from .candidates import Guess

FIRST_TRIED = 2
"""Forms that leave nothing to threads, whatever work they take."""

LEFT_TRIED = 4
"""Forms that leave parts to threads, beside those that leave none."""


def leaves_parts(guess: Guess) -> bool:
    return any(r.is_left for r in guess.regions)


def leaving_fewer(guesses: Iterable[Guess], most: float) -> Iterator[Guess]:
    """The ``guesses`` that leave fewer than ``most`` parts to threads."""
    return (g for g in guesses if sum(r.is_left for r in g.regions) < most)


def some(guesses: Iterable[Guess], most: int) -> Iterator[Guess]:
    """The first ``most`` of the ``guesses`` that leave nothing to threads, and the first of the others."""
    room = {False: most, True: LEFT_TRIED}
    for guess in guesses:
        kind = leaves_parts(guess)
        room[kind] -= 1
        if room[kind] >= 0:
            yield guess
        if max(room.values()) <= 0:
            return


def apart(kernel: Kernel, guesses: Iterable[Guess]) -> Iterator[Guess]:
    """The ``guesses`` at ``kernel`` that are not the same as one before."""
    seen: list[tuple[object, ...]] = []
    for guess in guesses:
        form = canonical(kernel.with_(body=guess.body, assumptions=guess.facts))
        key = (form.body, form.assumptions, guess.domains, guess.online, guess.aligned, guess.flat)
        if key not in seen:
            seen.append(key)
            yield guess


def by_work_left(guesses: Iterable[Guess], short: Callable[[], bool]) -> Iterator[Guess]:
    """The ``guesses``; once work is ``short``, first those that leave parts to threads, then the others."""
    waiting: list[Guess] = []
    tried = 0
    for guess in guesses:
        if tried >= FIRST_TRIED and short() and not leaves_parts(guess):
            waiting.append(guess)
        else:
            tried += 1
            yield guess
    yield from waiting


__all__ = ["apart", "by_work_left", "leaving_fewer", "some"]
