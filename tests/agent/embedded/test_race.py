"""Successive halving: budgets are kept, the best wins, failures make room, finished races ask for nothing."""

import math
import random

import pytest

from ktc.agent.embedded.race import Standing, race


class Track:
    """Racers whose best time falls with measurements; remembers what was asked."""

    def __init__(self, curves, sizes=None):
        self.curves, self.sizes, self.asked = curves, sizes or {}, []

    def run(self, racer, total):
        size = self.sizes.get(racer, 10**9)
        spent = min(total, size)
        self.asked.append((racer, total))
        return Standing(racer, self.curves[racer](spent), spent, spent >= size)


def flat(x):
    return lambda n: x


@pytest.mark.parametrize("budget", [1, 2, 3, 7, 12, 33, 100])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_the_budget_is_never_exceeded_and_is_spent(budget, n):
    track = Track({i: flat(1.0 + i) for i in range(n)})
    standings = race(range(n), budget, track.run)
    assert sum(s.spent for s in standings) == budget
    assert standings[0].racer == 0


def test_the_leader_gets_most():
    track = Track({i: flat(1.0 + i) for i in range(6)})
    standings = race(range(6), 60, track.run)
    assert standings[0].spent > 60 // 3
    assert all(s.spent >= 3 for s in standings)


def test_a_late_starter_that_improves_can_win():
    track = Track(
        {"steady": flat(2.0), "late": lambda n: 3.0 if n < 4 else 1.0, "slow": flat(9.0), "slower": flat(10.0)}
    )
    assert race(["slow", "slower", "steady", "late"], 60, track.run)[0].racer == "late"


def test_racers_with_nothing_valid_make_room_for_reserves():
    track = Track({"bad": flat(math.inf), "worse": flat(math.inf), "good": flat(1.0)})
    standings = race(["bad", "worse", "good"], 10, track.run)
    assert standings[0].racer == "good" and standings[0].best == 1.0


def test_what_a_small_space_cannot_use_goes_to_the_next():
    track = Track({"small": flat(1.0), "large": flat(2.0)}, {"small": 4})
    spent = {s.racer: s.spent for s in race(["small", "large"], 50, track.run)}
    assert spent == {"small": 4, "large": 46}


def test_totals_never_fall():
    rng = random.Random(7)
    for _ in range(200):
        n = rng.randint(1, 9)
        track = Track(
            {i: flat(rng.choice([1.0, 2.0, math.inf])) for i in range(n)}, {i: rng.randint(1, 30) for i in range(n)}
        )
        budget = rng.randint(1, 80)
        assert sum(s.spent for s in race(range(n), budget, track.run)) <= budget
        for i in range(n):
            totals = [t for r, t in track.asked if r == i]
            assert totals == sorted(set(totals))


def test_nobody_in_the_race():
    assert race([], 10, lambda racer, total: pytest.fail("nobody runs")) == []
