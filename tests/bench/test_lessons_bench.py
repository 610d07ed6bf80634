"""The bench of lessons: what is counted as wrong, as spent, and as carried over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agent.agent_kernels import STREAM
from tests.bench import lessons
from tests.bench.test_cost_model_bench import WORKLOAD


def row(part: str, kernel: str, after: float, **more: object) -> dict[str, object]:
    said = {"part": part, "kernel": kernel, "gpu": "a GPU", "before": 9e-6, "after": after, "script": "raise | cse"}
    return said | {"suggested": [], "planted": [], "spent": {}, "gains": {}} | more


def test_the_table_counts_what_carries_over_and_what_wrong_lessons_cost() -> None:
    planted = ["raise | cse", "raise | simplify", "raise | licm", "raise | normalise"]
    gains = {"raise | cse": 3.0, "raise | simplify": 1.1, "raise | licm": 6.0}
    bad = row("misled", "b", 3e-6, planted=planted, gains=gains, spent=dict.fromkeys(planted, 2))
    assert lessons.wrong(bad) == {"raise | simplify": 2, "raise | normalise": 2}, (
        "no winner, no half of what was claimed"
    )
    rows = [row("teach", "t", 1e-6), row("without", "a", 4e-6), row("with", "a", 5e-6), row("without", "b", 4e-6)]
    text = lessons.table([*rows, row("with", "b", 2e-6), bad, {"part": "without", "kernel": "c", "error": "no"}])
    assert "| a | 9.00 | 4.00 | 5.00 | 0.80 | 0 | 0 | - | - |" in text
    assert "| b | 9.00 | 4.00 | 2.00 | 2.00 | 0 | 2 | 2, 2 | 3.00 |" in text
    assert "reach 1.26 of the speed" in text and "on 1 of 2. 2 wrong lessons were tried; none took more than 2" in text


def test_what_is_made_is_not_made_again_and_wrong_lessons_apply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("teacher", "pupil"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kernel.ktir").write_text(STREAM)
        (tmp_path / name / "workload.toml").write_text(WORKLOAD)
    runs: list[list[str]] = []
    ways = ("raise | unroll{loop=_unit_0_0 factor=$U}", "raise | unroll{loop=_row_7_0 factor=2}")
    taught = [
        {"backend": "cuda", "device": "d", "features": {}, "script": s, "knobs": {}, "gain": 2.0, "of": "teacher"}
        for s in ways
    ]

    def one_run(folder: Path, budget: int, a: object, memory: object, planted: list[str]) -> dict[str, object]:
        runs.append(planted)
        return {"gpu": "a GPU", "after": 1e-6, "spent": {}, "lessons": taught if folder.name == "teacher" else []}

    monkeypatch.setattr(lessons, "one_run", one_run)
    command = [str(tmp_path / "pupil"), "--teachers", str(tmp_path / "teacher"), "--log", str(tmp_path / "rows.jsonl")]
    lessons.main(command)
    lessons.main(command)
    made = [json.loads(x) for x in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [r["budget"] for r in made] == [40, lessons.MANY, lessons.FEW, lessons.MANY] and len(runs) == 4
    assert [len(p) for p in runs] == [0, 0, 0, 1] and runs[3][0].startswith("raise | unroll{loop=i")
