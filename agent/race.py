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
"""Fewest measurements by which a template is judged: its default, a remembered or suggested point, and one more."""


@dataclass(frozen=True)
class Standing(Generic[T]):
    """A racer's best seconds so far (inf: nothing valid) after ``spent`` measurements; ``done``: no more to try."""

    racer: T
    best: float
    spent: int
    done: bool = False


def race(
    racers: Sequence[T],
    budget: int,
    run: Callable[[T, int], Standing[T]],
    *,
    on_rung: Callable[[list], None] | None = None,
) -> list[Standing[T]]:
    """All racers' standings, best first.

    ``run(racer, total)`` tunes a racer until it has had ``total`` measurements and says where it stands. At most
    ``budget`` measurements are asked for altogether; racers beyond what the budget can judge are left out.
    """
    alive = list(racers[: max(1, budget // FIRST_RUNG)])
    standings: dict[int, Standing[T]] = {}
    rungs = max(1, math.ceil(math.log2(len(alive)))) if alive else 0
    left = budget
    totals = [0] * len(alive)
    order = list(range(len(alive)))
    for rung in range(rungs):
        share = max(FIRST_RUNG if rung == 0 else 1, left // ((rungs - rung + 1) * len(order)))
        for i in order:
            want = min(share, left)
            if want <= 0 or (i in standings and standings[i].done):
                continue
            before = standings[i].spent if i in standings else 0
            totals[i] = before + want
            standings[i] = run(alive[i], totals[i])
            left -= standings[i].spent - before
        order.sort(key=lambda i: standings[i].best if i in standings else math.inf)
        if on_rung is not None:
            on_rung([standings[i] for i in order if i in standings])
        order = [i for i in order[: max(1, math.ceil(len(order) / 2))] if i in standings]
    for i in order:  # the leader takes the rest; what it cannot use goes to the next
        if left <= 0 or standings[i].done:
            continue
        before = standings[i].spent
        standings[i] = run(alive[i], before + left)
        left -= standings[i].spent - before
    return sorted(standings.values(), key=lambda s: s.best)
