"""Bytes that runs of elements cover, against the elements one by one."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from ktc.search.bounds import element_sets
from ktc.search.bounds.element_sets import covered_bytes, runs


def counted(sets: list[tuple[list[int], int, list[tuple[int, list[int]]]]], element: int, granule: int) -> int:
    touched = set()
    for starts, width, dims in sets:
        for p, start in enumerate(starts):
            for steps in itertools.product(*(range(n[p]) for _, n in dims)):
                at = start + sum(i * d for i, (d, _) in zip(steps, dims, strict=True))
                for x in range(at, at + width):
                    touched |= {b // granule for b in range(x * element, (x + 1) * element)}
    return len(touched) * granule


@pytest.mark.parametrize("seed", range(60))
def test_the_union_is_that_of_the_elements(seed: int) -> None:
    rng = random.Random(seed)
    sets = []
    for _ in range(rng.randint(1, 3)):
        points = rng.randint(1, 5)
        starts = [rng.randint(0, 200) for _ in range(points)]
        dims = [
            (rng.choice((-40, -3, -1, 0, 1, 2, 7, 16, 64)), [rng.randint(0, 5) for _ in range(points)])
            for _ in range(rng.randint(0, 3))
        ]
        sets.append((starts, rng.choice((1, 2, 4)), dims))
    element, granule = rng.choice((1, 2, 4, 8)), rng.choice((1, 8, 32))
    low = min(min(s) for s, _, _ in sets) - 1000
    shifted = [([x - low // 32 * 32 for x in s], w, d) for s, w, d in sets]
    made = [runs(np.array(s), w, [(d, np.array(n)) for d, n in dims], len(s)) for s, w, dims in shifted]
    assert covered_bytes(made, element, granule) == (counted(shifted, element, granule), True)


def test_a_matrix_is_one_run_whatever_its_size() -> None:
    rows, columns = 1 << 20, 1 << 12
    whole = runs(0, 1, [(columns, rows), (1, columns)], 1)
    assert covered_bytes([whole], 4) == (rows * columns * 4, True)


def test_of_too_many_runs_some_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(element_sets, "MOST_RUNS", 100)
    found, whole = covered_bytes([runs(0, 1, [(100, 1000)], 1)], 4)
    assert 0 < found <= 4000 and not whole
