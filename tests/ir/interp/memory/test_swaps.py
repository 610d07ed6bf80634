"""Compare-and-swaps of many lanes at once: each finds what the lanes before it left at its place, one by one."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from ktc.ir.interp.memory.atomics import _swapped


def one_by_one(start: list[int], counts: list[int], value: list[int], compare: list[int]) -> tuple[list, list]:
    old, now = list[int](), list(start)
    lane = 0
    for place, n in enumerate(counts):
        for _ in range(n):
            old.append(now[place])
            now[place] = value[lane] if now[place] == compare[lane] else now[place]
            lane += 1
    return old, now


@pytest.mark.parametrize("seed", range(40))
def test_each_lane_finds_what_those_before_it_left(seed: int) -> None:
    rng = Random(seed)
    counts = [rng.choice((1, 1, 2, 3, 17)) for _ in range(rng.randint(1, 6))]
    most = rng.choice((1, 2, 4))  # few values: many swaps follow each other
    start, value, compare = ([rng.randint(0, most) for _ in range(n)] for n in (len(counts), sum(counts), sum(counts)))
    given = (np.array(x, np.int32) for x in (start, counts, value, compare))
    old, now, _ = _swapped(*given, np.equal)
    assert (old.tolist(), now.tolist()) == one_by_one(start, counts, value, compare)


def test_tickets_are_drawn_one_after_the_other() -> None:
    n = 50
    old, now, rounds = _swapped(np.zeros(1, np.int32), np.array([n]), np.arange(1, n + 1), np.arange(n), np.equal)
    assert old.tolist() == list(range(n)) and now.tolist() == [n] and rounds == n


def test_a_zero_with_a_sign_takes_the_place_of_one_without() -> None:
    """They compare equal, and their bits do not: the swap changes something, and the next one sees it."""
    zeros = np.array([-0.0, 7.0], np.float32)
    asked = np.array([0.0, -0.0], np.float32)

    def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a.view(np.uint32) == b.view(np.uint32)

    old, now, _ = _swapped(np.zeros(1, np.float32), np.array([2]), zeros, asked, same)
    assert np.signbit(old).tolist() == [False, True] and now.tolist() == [7.0]
