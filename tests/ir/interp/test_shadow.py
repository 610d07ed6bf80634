"""Shadow memory: what it remembers of an access does not depend on how the accesses are laid out."""

from __future__ import annotations

import numpy as np
import pytest
from ktc.ir.interp import shadow


def _places(layout: str, n: int, rng: np.random.Generator) -> np.ndarray:
    if layout == "apart":
        return np.sort(rng.choice(4 * n, n, replace=False))
    if layout == "together":
        return np.sort(rng.integers(0, n // 8, n))
    return rng.integers(0, n, n)


@pytest.mark.parametrize("layout", ["apart", "together", "anywhere"])
@pytest.mark.parametrize("threads", [3, 10_000])
@pytest.mark.parametrize("seed", range(4))
def test_one_memory_of_many_accesses(layout: str, threads: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, n = np.random.default_rng(seed), 600
    known = []
    accesses = [(_places(layout, n, rng), rng.integers(0, threads, n), rng.random(n) < 0.1) for _ in range(3)]
    for few in (0, 10 * n):
        monkeypatch.setattr(shadow, "FEW", few)
        two = shadow._Two(4 * n)
        for now, (pos, ids, keep) in enumerate(accesses):
            two.remember(pos, ids, now, keep if now else None)
        two._slots(2)
        known.append([*two.who, *two.when])
    fast, slow = known
    assert np.array_equal(fast[0], slow[0]) and np.array_equal(fast[1], slow[1])
    assert np.array_equal(fast[2], slow[2])
    seen = slow[1] >= 0
    assert np.array_equal(fast[3][seen], slow[3][seen])
