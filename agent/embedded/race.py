"""A successive-halving race between templates: every one gets a few measurements, the better half gets more.

Each rung spends an equal share of the budget; after the last one the leader gets what is left. Targets are totals per
template, so a race that is run again over the same ledger asks for nothing that was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

FIRST_RUNG = 3
"""Measurements by which a template is judged first: its default, a remembered or suggested point, and one more."""


@dataclass(frozen=True)
class Standing(Generic[T]):
    """A racer's best seconds so far (inf: nothing valid) after ``spent`` measurements; ``done``: no more to try."""

    racer: T
    best: float
    spent: int
    done: bool = False


class _Field(Generic[T]):
    """Everybody in the race, and the budget that is left."""

    def __init__(self, budget: int, run: Callable[[T, int], Standing[T]]) -> None:
        self.left, self.run = budget, run
        self.standings: dict[int, Standing[T]] = {}

    def give(self, i: int, racer: T, more: int) -> Standing[T] | None:
        """Up to ``more`` further measurements for a racer; its standing, None if it never got any."""
        old = self.standings.get(i)
        more = min(more, self.left)
        if more > 0 and not (old and old.done):
            self.standings[i] = self.run(racer, (old.spent if old else 0) + more)
            self.left -= self.standings[i].spent - (old.spent if old else 0)
        return self.standings.get(i)


def race(
    racers: Sequence[T],
    budget: int,
    run: Callable[[T, int], Standing[T]],
    *,
    on_rung: Callable[[list[Standing[T]]], None] | None = None,
) -> list[Standing[T]]:
    """The standings of all who ran, best first.

    ``run(racer, total)`` tunes a racer until it has had ``total`` measurements and says where it stands. At most
    ``budget`` measurements are asked for altogether. Racers beyond what the budget can judge wait as reserves, and take
    the place of those with nothing valid.
    """
    field: _Field[T] = _Field(budget, run)
    places = max(1, budget // FIRST_RUNG)
    share = max(FIRST_RUNG, budget // ((_rungs(min(places, len(racers))) + 1) * max(1, min(places, len(racers)))))
    order: list[int] = []
    for i, racer in enumerate(racers):
        if len(order) == places:
            break
        standing = field.give(i, racer, share if len(racers) > 1 else budget)
        if standing is not None and standing.best < math.inf:
            order.append(i)
    for rung in range(_rungs(len(order))):
        order.sort(key=lambda i: field.standings[i].best)
        if on_rung is not None:
            on_rung([field.standings[i] for i in order])
        order = order[: math.ceil(len(order) / 2)]
        share = max(1, field.left // ((_rungs(len(order)) + 1) * len(order)))
        for i in order if rung + 1 < _rungs(len(racers)) else []:
            field.give(i, racers[i], share)
    order = sorted((i for i, s in field.standings.items() if s.best < math.inf), key=lambda i: field.standings[i].best)
    for i in order:  # the leader takes the rest; what it cannot use goes to the next
        field.give(i, racers[i], field.left)
    return sorted(field.standings.values(), key=lambda s: s.best)


def _rungs(n: int) -> int:
    """Halvings from ``n`` racers to one."""
    return math.ceil(math.log2(n)) if n > 1 else 0
