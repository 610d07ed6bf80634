"""optimize for real, on this machine's processor: a small kernel from text, verified, tuned, timed; then again."""

import json

import pytest

from ktc.agent.optimize import optimize
from ktc.ir.diagnostics import KtcError
from tests.agent.agent_kernels import STREAM

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
name = "small"
sizes = { n = 4096 }
"""


def test_a_real_run_and_its_continuation(tmp_path):
    (tmp_path / "kernel.ktir").write_text(STREAM)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    first = optimize(tmp_path, device="numba", planner="rules", budget=2, out_dir=tmp_path / "out")
    assert first.measured == 3 and first.recalled == 0  # the original, and the budget
    assert all(o.status in ("tuned", "duplicate") for o in first.outcomes)
    (small,) = first.scenarios
    assert small.before.median > 0 and small.ratio[1] <= small.ratio[0] <= small.ratio[2]
    assert small.verdict in ("TESTED", "PROVED", "the original is kept")
    assert "def " in (tmp_path / "out" / "kernel.out.py").read_text()
    assert json.loads((tmp_path / "out" / "report.json").read_text())["measured"] == 3
    again = optimize(tmp_path, device="numba", planner="rules", budget=2, out_dir=tmp_path / "out")
    assert again.measured == 0 and again.recalled == 3


def test_no_such_device(tmp_path):
    (tmp_path / "kernel.ktir").write_text(STREAM)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    with pytest.raises(KtcError):
        optimize(tmp_path, device="abacus", out_dir=tmp_path / "out")
