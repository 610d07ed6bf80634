"""optimize for real, on this machine's processor: a small kernel from text, verified, tuned, timed; then again."""

import dataclasses
import json
import time

import pytest

from ktc.agent.bench import Bench
from ktc.agent.build import Candidate
from ktc.agent.optimize import optimize
from ktc.agent.station import CPU_PATIENCE, PATIENCE, Station
from ktc.agent.stopping import TimeShares
from ktc.backends.base import DeviceInfo
from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.search.bounds.rates import Rates
from ktc.search.records.outcome import Outcome
from ktc.search.workers.executor import LocalExecutor
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


def test_an_original_that_failed_is_tried_again_by_the_next_run(tmp_path, monkeypatch):
    (tmp_path / "kernel.ktir").write_text(STREAM)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    evaluate = Station.evaluate
    monkeypatch.setattr(Station, "evaluate", lambda *asked: Outcome("hang", details={"error": "busy"}))
    for _ in range(2):
        with pytest.raises(KtcError, match="takes too long"):
            optimize(tmp_path, device="numba", planner="rules", budget=1, out_dir=tmp_path / "out")
    monkeypatch.setattr(Station, "evaluate", evaluate)
    found = optimize(tmp_path, device="numba", planner="rules", budget=1, out_dir=tmp_path / "out")
    assert found.scenarios[0].before.median > 0 and found.measured == 2


def test_no_such_device(tmp_path):
    (tmp_path / "kernel.ktir").write_text(STREAM)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    with pytest.raises(KtcError):
        optimize(tmp_path, device="abacus", out_dir=tmp_path / "out")


def test_the_original_is_waited_for_longer_than_its_rewrites(tmp_path):
    """A naive product of large matrices takes seconds a launch on a CPU: that is what the run is for."""
    (tmp_path / "kernel.ktir").write_text(STREAM)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    work = Workload.load(tmp_path)
    original = work.load_kernel(None)
    station = Station(work, original, variant=None, device="numba")
    try:
        asked = []
        time = station.executor.time
        station.executor.time = lambda *a, **k: asked.append(station.executor.deadlines) or time(*a, **k)
        scenario = work.scenarios[0]
        station.evaluate(original, scenario)
        other = apply_script(original, parse_script("raise")).kernel
        station.evaluate(other, scenario)
        station.compare(other, scenario)
        assert asked == [PATIENCE, CPU_PATIENCE, PATIENCE]
    finally:
        station.close()


def test_what_the_device_attains_is_not_measured_once_the_time_is_over(tmp_path, monkeypatch):
    """That takes seconds, of a run that is about to say what it found."""
    (tmp_path / "kernel.ktir").write_text(STREAM)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    work = Workload.load(tmp_path)
    monkeypatch.setattr("ktc.agent.bench.rates_of_today", lambda device: None)
    asked = []
    for began in (60.0, 0.0):
        shares = TimeShares(time.monotonic() - began, 30.0)
        bench = Bench(work, work.load_kernel(None), device="numba", shares=shares)
        try:
            monkeypatch.setattr(bench.station.executor, "rates", lambda anew=False: asked.append(anew) or Rates())
            found = bench.bound(work.scenarios[0])
            assert asked == [False] if began == 0.0 else found is None and not asked
        finally:
            bench.close()


GPU = DeviceInfo("cuda", "a GPU", "cuda-sm90", 132, 1024, 227 << 10, extra={"arch": "sm_90"})


def expecting_a_gpu(monkeypatch, times):
    """Have the first executors expect :data:`GPU`, whatever their measuring process opens."""
    asked, expected = [], LocalExecutor._expected

    def first(self, worker):
        found = expected(self, worker)
        asked.append(found)
        return found if len(asked) > times else GPU

    monkeypatch.setattr(LocalExecutor, "_expected", first)


def test_what_was_prepared_for_another_device_than_the_one_that_opens_is_dropped(tmp_path, monkeypatch):
    (tmp_path / "kernel.ktir").write_text(STREAM)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    expecting_a_gpu(monkeypatch, times=1)
    events = []
    found = optimize(
        tmp_path, device="numba", planner="rules", budget=1, out_dir=tmp_path / "out", progress=events.append
    )
    assert [e["device"]["backend"] for e in events if e["event"] == "begin"] == ["cuda", "numba"]
    assert found.device["backend"] == "numba" and found.scenarios[0].before.median > 0


def test_an_expected_device_that_does_not_open_is_the_error_of_opening_it(tmp_path, monkeypatch):
    (tmp_path / "kernel.ktir").write_text(STREAM)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    expecting_a_gpu(monkeypatch, times=1)
    with pytest.raises(KtcError, match=r"opencl|OpenCL") as error:
        optimize(tmp_path, device="opencl:nothing", planner="rules", budget=1, out_dir=tmp_path / "out")
    assert error.value.exit_code == 3


COLUMNS = """
kernel k(y: f32* restrict, x: f32 const* restrict, n: i32, c: i32)
  par q in 0..c @ [block.x]
    reduce(+) s: f32 = 0.0 over r in 0..n @ [seq]
      yield x[r * c + q]
    y[q] = s
"""


def test_what_is_measured_first_gives_each_unit_a_block(tmp_path, monkeypatch):
    """Of few columns by few threads; on a processor, whose cores run loops, it is the defaults."""
    (tmp_path / "kernel.ktir").write_text(COLUMNS)
    shapes = WORKLOAD.replace('shape = ["n"]', 'shape = ["c"]', 1).replace('shape = ["n"]', 'shape = ["n", "c"]', 1)
    a = shapes.index("[[args]]", shapes.index('name = "x"'))
    b = shapes.index("[[args]]", a + 1)
    both = shapes[:a] + '[[args]]\nname = "c"\ndtype = "i32"\nrole = "scalar"\nvalue = "c"\n' + shapes[b:]
    both = both.replace("inout", "out").replace("{ n = 4096 }", "{ n = 4096, c = 2048 }")
    (tmp_path / "workload.toml").write_text(both)
    work = Workload.load(tmp_path)
    original = work.load_kernel(None)
    script = "map{q=[vec $V, thread.x $TX:(8,16,32,64), block.x] r=[thread.y $TY:(4,8,16,32), seq]}"
    kernel = apply_script(original, parse_script(script)).kernel
    bench = Bench(work, original, device="numba")
    try:
        c, scenario = Candidate(script, kernel, "c"), work.scenarios[0]
        assert _begun(bench, c, scenario)["columns"] >= 64
        monkeypatch.setattr(bench, "device", dataclasses.replace(bench.device, backend="cuda", compute_units=132))
        monkeypatch.setattr(bench.station, "prepare", lambda kernel: None)
        alone = _begun(bench, dataclasses.replace(c, key="on a GPU"), scenario)
        assert 2048 / alone["columns"] >= 128
        monkeypatch.setattr(bench._profiler, "device", dataclasses.replace(bench.device, name="NVIDIA H200"))
        known = _begun(bench, dataclasses.replace(c, key="on one that the cost model knows"), scenario)
        assert known["threads"] > alone["threads"]
    finally:
        bench.close()


def _begun(bench, c, scenario):
    """Columns and threads of a block of what ``bench`` measures first."""
    began = bench.prepare(c, scenario)
    assert began is not None
    return {"columns": began["V"] * began["TX"], "threads": began["TX"] * began["TY"]}
