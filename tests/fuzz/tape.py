"""Choices that are written down: a case is the indices that it was drawn by; so it can be drawn again, made smaller."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any


class Tape:
    """``pick`` for the generators: what ``given`` says, then what ``rng`` draws (0 without it). ``said`` keeps it."""

    def __init__(self, given: Sequence[int] = (), rng: random.Random | None = None) -> None:
        self.given, self.rng = given, rng
        self.said: list[int] = []

    def pick(self, options: Sequence[Any]) -> Any:
        at = len(self.said)
        if at < len(self.given):
            k = min(self.given[at], len(options) - 1)
        else:
            k = self.rng.randrange(len(options)) if self.rng else 0
        self.said.append(k)
        return options[k]


def shrunk(said: Sequence[int], fails: Callable[[list[int]], bool], tries: int = 400) -> list[int]:
    """A smaller tape that still ``fails``: spans are left out, choices become the first option, while that goes on."""
    best = list(said)
    progress = True
    while progress:
        progress = False
        for candidate in _smaller(best):
            tries -= 1
            if tries < 0:
                return best
            if fails(candidate):
                best, progress = candidate, True
                break
    return best


def _smaller(said: list[int]) -> Iterator[list[int]]:
    """Coarse changes first: the end off, spans out, spans zero, single choices lower."""
    n = len(said)
    while said and said[-1] == 0:  # what is missing counts as 0
        said = said[:-1]
    if len(said) < n:
        yield said
    size = max(len(said) // 2, 1)
    while size:
        for at in range(0, len(said), size):
            yield said[:at] + said[at + size :]
            if any(said[at : at + size]):
                yield said[:at] + [0] * len(said[at : at + size]) + said[at + size :]
        size //= 2
    for at, k in enumerate(said):
        if k > 1:
            yield [*said[:at], k // 2, *said[at + 1 :]]
            yield [*said[:at], k - 1, *said[at + 1 :]]
