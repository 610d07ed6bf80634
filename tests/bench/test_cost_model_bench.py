"""The benchmark of the cost model: rows are made once, and its table is what the figures' definitions say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.agent.agent_kernels import STREAM
from tests.bench import cost_model

WORKLOAD = """
[kernel]
source = "kernel.ktir"
name = "k"
[[args]]
name = "y"
dtype = "f32"
shape = ["n"]
role = "inout"
align = 16
[[args]]
name = "x"
dtype = "f32"
shape = ["n"]
role = "in"
align = 16
[[args]]
name = "a"
dtype = "f32"
role = "scalar"
value = 2.0
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[[scenario]]
name = "all"
sizes = { n = 65536 }
"""


def test_figures() -> None:
    real = np.array([1.0, 2.0, 3.0, 4.0])
    assert cost_model.rank_correlation(real * 7, real) == pytest.approx(1)
    assert cost_model.rank_correlation(-real, real) == pytest.approx(-1)
    assert cost_model.rank_correlation(np.array([1.0, 1.0, 2.0, 2.0]), real) == pytest.approx(0.894, abs=1e-3)
    assert cost_model.rank_correlation(np.ones(4), real) == 0
    guess = np.array([4.0, 1.0, 2.0, 3.0])  # the fastest comes last
    assert [cost_model.regret(guess, real, k) for k in (1, 3, 4)] == [1.0, 1.0, 0.0]


def test_rows_are_measured_once_and_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, log = tmp_path / "axpy", tmp_path / "rows.jsonl"
    folder.mkdir()
    (folder / "kernel.ktir").write_text(STREAM)
    (folder / "workload.toml").write_text(WORKLOAD)
    command = [str(folder), "--device", "numba", "--log", str(log), "--seconds", "300"]
    cost_model.main([*command, "--schedules", "2"])
    cost_model.main([*command, "--schedules", "3"])
    rows = [json.loads(x) for x in log.read_text().splitlines()]
    assert len(rows) == 3 and len({cost_model._key(r) for r in rows}) == 3
    assert rows[0]["script"] == "" and all(r["code"] and r["device"] and r["seconds"] > 0 for r in rows)
    cost_model.main(["--table", str(log), "--for", "H100"])
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith("| mean | 1 | ")
