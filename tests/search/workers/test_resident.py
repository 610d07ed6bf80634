"""The arguments that the measuring process keeps: what launches may write to is theirs, the rest is there once."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from ktc.backends import emit
from ktc.backends.runtimes import OPENERS
from ktc.ir.text import parse_kernel
from ktc.ir.workload import Workload
from ktc.ir.workload.input_data import BLOCK
from ktc.search.verification.floats import condition_numbers
from ktc.search.workers import worker_measure
from ktc.search.workers.worker_measure import Measurer
from ktc.search.workers.worker_protocol import Raw, code_to_json, inputs_to_json
from tests import devices
from tests.paths import KERNELS


def test_only_what_is_written_is_copied_where_launches_read_host_memory(tmp_path):
    m = Measurer("numba", tmp_path)
    inputs = {"workload": str(KERNELS / "dense/saxpy"), "sizes": {"n": 1000}, "variant": None, "seed": 0}
    m.load({"inputs": inputs, "cold": False})
    held = m._resident(inputs, False)
    (args,) = held.sets
    assert args["x"] is held.host["x"] and not np.shares_memory(args["y"], held.host["y"])
    args["y"][:] = 7
    held.reset(m.runtime)
    assert np.array_equal(args["y"], held.host["y"]) and np.any(args["y"] != 7)


def test_sets_that_take_turns_share_nothing(tmp_path):
    m = Measurer("numba", tmp_path)
    inputs = {"workload": str(KERNELS / "dense/saxpy"), "sizes": {"n": 4 << 20}, "variant": None, "seed": 0}
    first, second, *_ = m._resident(inputs, True).sets
    assert not np.shares_memory(first["x"], second["x"])


@pytest.mark.parametrize("device", OPENERS)
def test_every_set_holds_what_the_workload_says_of_large_arrays(tmp_path, device):
    devices.working(device)
    m, sizes = Measurer(device, tmp_path), {"n": BLOCK + 1000}
    inputs = {"workload": str(KERNELS / "dense/saxpy"), "sizes": sizes, "variant": None, "seed": 0}
    wanted, held = Workload.load(KERNELS / "dense/saxpy").make_inputs(sizes), m._resident(inputs, True)
    assert len(held.sets) > 1
    for args in (*held.sets, held.pristine):
        for name in set(args) & {"x", "y"}:
            assert np.array_equal(m.runtime.to_host(args[name], wanted[name]), wanted[name])


def test_checksums_of_large_arrays_see_every_part(tmp_path):
    runtime = Measurer("numba", tmp_path).runtime
    a = np.zeros(5 << 20, np.uint8)
    known = {runtime.checksum(a)}
    for at in (0, 4 << 20, a.size - 1):
        a[at] ^= 1
        known.add(runtime.checksum(a))
    assert len(known) == 4


def test_a_launch_that_takes_long_is_made_twice_for_its_results_and_not_once_more(tmp_path, monkeypatch):
    m = Measurer("numba", tmp_path)
    inputs = {"workload": str(KERNELS / "dense/saxpy"), "sizes": {"n": 64}, "variant": None, "seed": 0}
    launched = []

    slow = SimpleNamespace(resources={}, launch=launched.append)
    code = SimpleNamespace(kernel=SimpleNamespace(sweeps=1))
    monkeypatch.setattr(m, "_executable", lambda request: (code, slow))
    request = {"code": {}, "inputs": inputs, "cold": False, "budget_s": 0.15}
    ticks = itertools.count()
    monkeypatch.setattr(worker_measure.time, "perf_counter", lambda: 0.5 * next(ticks))
    said = m.time(request)
    assert len(launched) == 2 and said["timing"]["median"] == 0.5
    m.time(request | {"budget_s": 5.0})
    assert len(launched) > 5


def test_a_launch_that_is_long_only_the_first_time_is_timed_as_others(tmp_path, monkeypatch):
    m = Measurer("numba", tmp_path)
    inputs = {"workload": str(KERNELS / "dense/saxpy"), "sizes": {"n": 64}, "variant": None, "seed": 0}
    taken, now = iter([0.5]), [0.0]

    def launch(args):
        now[0] += next(taken, 1e-3)

    once = SimpleNamespace(resources={}, launch=launch)
    monkeypatch.setattr(m, "_executable", lambda request: (SimpleNamespace(kernel=SimpleNamespace(sweeps=1)), once))
    monkeypatch.setattr(worker_measure.time, "perf_counter", lambda: now[0])
    said = m.time({"code": {}, "inputs": inputs, "cold": False, "budget_s": 0.15})
    assert abs(said["timing"]["median"] - 1e-3) < 1e-6


SUM = """
kernel total(out: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(1) block(1)
  var sum: f32 = 0.0
  for i in 0..n
    sum += x[i]{more}
  out[0] = sum
"""


def test_what_a_baseline_gives_is_found_out_once_for_all_that_meet_it(tmp_path, monkeypatch):
    """Its results and condition numbers are kept; each rival's own results are still compared with them."""
    m = Measurer("numba", tmp_path)
    asked = []
    widened = condition_numbers.widened
    monkeypatch.setattr(condition_numbers, "widened", lambda kernel: asked.append(kernel) or widened(kernel))
    out, x = np.zeros(1, np.float32), np.random.default_rng(0).normal(size=4096).astype(np.float32)
    inputs = inputs_to_json(Raw({"out": out, "x": x, "n": x.size}, ("out",)), tmp_path)
    texts = [SUM.replace("{more}", more) for more in ("", " + 0.01", " * 1.0", " + 0.02")]
    source, *rivals = (code_to_json(emit(parse_kernel(text), "numba")) for text in texts)
    said = [
        m.time({"code": rival, "baseline": source, "inputs": inputs, "cold": False, "budget_s": 0.01})["disagreement"]
        for rival in rivals
    ]
    assert [bool(s) for s in said] == [True, False, True] and len(asked) == 1
