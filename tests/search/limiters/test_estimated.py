"""Limiters from counts: shares of the expected or the measured time, the compiler's report, conflicts by name."""

from __future__ import annotations

import pytest

from ktc.ir.analysis.memory_costs import Request
from ktc.search.bounds.cost_model import Estimate
from ktc.search.bounds.occupancy import Occupancy
from ktc.search.limiters.estimated import estimated

HELD = Occupancy(8, 64, 1.0, "warps")


def estimate(terms: dict[str, float], busy: float = 1.0, seconds: float = 100e-6) -> Estimate:
    why = ("memory 90.0 µs: what misses the cache",)
    return Estimate(seconds, max(terms, key=lambda k: terms[k]), terms, HELD, 4.0, why, busy)


def test_shares_are_of_the_expected_time_or_of_the_measured_one() -> None:
    e = estimate({"memory": 90e-6, "issue": 40e-6, "special": 1e-6})
    found = estimated(e)
    assert [(x.name, round(x.share, 2)) for x in found.limiters] == [("memory", 0.9), ("issue", 0.4)]
    assert found.limiters[0].what == "90.0 µs, what misses the cache" and found.source == "estimate"
    slower = estimated(e, seconds=125e-6)
    assert slower.limiters[0].share == pytest.approx(0.72) and "unexplained" not in [x.name for x in slower.limiters]


def test_time_that_counts_do_not_explain_is_said() -> None:
    found = estimated(estimate({"memory": 90e-6}), seconds=400e-6)
    assert (found.main, found.limiters[0].share) == ("unexplained", 0.75)
    assert "400 µs measured, 100 µs expected" in found.limiters[0].what


def test_conflicts_spills_and_idle_multiprocessors_have_their_names() -> None:
    requests = [Request("tile", "read", "shared", 4, conflict=8), Request("x", "read", "global", 4, sectors=4)]
    e = estimate({"shared": 80e-6, "memory": 20e-6}, busy=0.25)
    report = {"registers": 255, "spill_stores": 64, "spill_loads": 64}
    found = estimated(e, resources=report, requests=requests, why="no GPU here")
    assert [x.name for x in found.limiters] == ["bank conflicts", "parallelism", "spills", "memory"]
    assert "read of tile: 8-way" in found.limiters[0].what and "128 bytes a thread, at 255" in found.limiters[2].what
    assert (
        found.lines(1)[-1] == "by an estimate from counts (100 µs expected, no GPU here)"
        and found.numbers["registers"] == 255
    )
    free = [Request("tile", "read", "shared", 4, conflict=1)]
    assert estimated(e, requests=free).main == "shared"
