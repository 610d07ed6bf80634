"""Sizes between a run's measurements are measured, and decide as the run's own do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ktc.agent.bench import Bench
from ktc.agent.lab import Comparison
from ktc.agent.report import Timed
from ktc.ir.workload import Scenario
from ktc.search.records.recipe import Recipe
from tests.ktc.exporting.runs import SILU, SILU_SCRIPT, recipe, timing

MOST = 64 * 512
"""Elements of the largest measurement: it has the most rows, and the other one the longest."""


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    won = {
        "a": timing({"n": 16, "d": 1024}, SILU_SCRIPT, 2.0, V=4),
        "b": timing({"n": 64, "d": 512}, SILU_SCRIPT, 3.0, V=8),
    }
    recipe(SILU, won).save(tmp_path / "r.json")
    return tmp_path / "r.json"


def test_where_a_tuned_kernel_is_slower_the_original_runs(
    run_file: Path, tmp_path: Path, ktc_run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[dict[str, int], int]] = []

    def compared(self: Bench, c: object, knobs: dict[str, int], scenario: Scenario) -> Comparison:
        asked.append((dict(scenario.sizes), knobs["V"]))
        ratio = 0.9 if scenario.sizes["n"] < 40 else 1.5
        return Comparison(Timed(1e-4, 1e-4, 1e-4), Timed(1e-4 / ratio, 1e-4, 1e-4), (ratio, ratio - 0.01, ratio + 0.01))

    monkeypatch.setattr(Bench, "compare", compared)
    before = Recipe.load(run_file).hash
    done = ktc_run("export", "r.json", "--to", "numpy", "-o", "out", "--measure", "6", "--device", "numba")
    assert done.returncode == 0, done.stderr
    others, between = asked[:2], asked[2:]
    assert others == [({"n": 16, "d": 1024}, 8), ({"n": 64, "d": 512}, 4)], "each winner where the other one won"
    assert len({tuple(s.values()) for s, _ in between}) == 6
    assert {v for _, v in between} == {4, 8}, "whatever may run there"
    assert all(16 <= s["n"] <= 64 and 512 <= s["d"] <= 1024 for s, _ in asked)
    assert all(s["d"] % v == 0 for s, v in asked), "elsewhere the original runs anyhow"
    assert all(s["n"] * s["d"] <= MOST for s, _ in asked), "no more memory than at any measurement"
    points = json.loads((tmp_path / "out/silu_and_mul_kernel/kernel.json").read_text())["instances"][0]["points"]
    made = {(p["at"]["num_tokens"], p["at"]["d"]): p["variant"] for p in points if p["name"].startswith("measured")}
    assert len(made) == 6 and all((v is None) == (n < 40) for (n, _), v in made.items())
    kept = Recipe.load(run_file)
    assert kept.hash == before and len(kept.heldout) == 6, "evidence makes no other recipe"


def test_a_run_at_one_size_has_nothing_between(tmp_path: Path, ktc_run: Callable) -> None:
    recipe(SILU, {"a": timing({"n": 16, "d": 512}, SILU_SCRIPT, 2.0, V=4)}).save(tmp_path / "r.json")
    done = ktc_run("export", "r.json", "--to", "numpy", "--measure", "1")
    assert done.returncode == 1 and "E-EXPORT-MEASURE" in done.stderr and "optimize again" in done.stderr
    done = ktc_run("export", "silu_and_mul", "--to", "numpy", "--measure", "1")
    assert done.returncode == 2 and "measurements of a run" in done.stderr
