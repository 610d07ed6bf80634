"""The ablation goes on where it was interrupted, and its table counts only what every arm was run with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agent.agent_kernels import STREAM
from tests.bench import ablation
from tests.bench.test_cost_model_bench import WORKLOAD


def row(kernel: str, seed: int, arm: str, speedup: float, heldout: float | None = None) -> dict[str, object]:
    head = {"kernel": kernel, "seed": seed, "arm": arm, "budget": 40, "time_limit": 60.0, "code": "c", "device": "d"}
    return head | {"gpu": "a GPU", "speedup": speedup, "heldout": heldout}


def test_the_table_counts_what_every_arm_has() -> None:
    rows = [row("a", 0, "rules", 2.0, 3.0), row("a", 0, "mcts", 4.0), row("b", 0, "rules", 8.0)]
    text = ablation.table([*rows, row("b", 0, "mcts", 1.0)])
    assert "| rules | 4.00 [2.00, 8.00] |" in text and "| llm | not run here |" in text
    text = ablation.table(rows)
    assert "1 kernels, 1 runs an arm" in text
    assert "| rules | 2.00 [2.00, 2.00] | 3.00 [3.00, 3.00] | 2.00 |" in text
    assert "| mcts | 4.00 [4.00, 4.00] | - | 4.00 |" in text


def test_arms_run_once_and_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, log = tmp_path / "axpy", tmp_path / "rows.jsonl"
    folder.mkdir()
    (folder / "kernel.ktir").write_text(STREAM)
    (folder / "workload.toml").write_text(WORKLOAD.replace("65536", "512"))
    command = [
        str(folder),
        "--log",
        str(log),
        "--device",
        "numba",
        "--budget",
        "3",
        "--time-limit",
        "20",
        "--seeds",
        "1",
    ]
    ablation.main([*command, "--arms", "agent-only"])
    ablation.main([*command, "--arms", "agent-only", "tuning-only"])
    rows = [json.loads(x) for x in log.read_text().splitlines()]
    assert [r["arm"] for r in rows] == ["agent-only", "tuning-only"]
    assert all(r["speedup"] > 0 and r["measured"] <= 4 for r in rows)
    capsys.readouterr()
    ablation.main(["--table", str(log), "--write", str(tmp_path / "ABLATION.md")])
    assert "| tuning-only |" in (tmp_path / "ABLATION.md").read_text()
