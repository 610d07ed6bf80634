"""Special values on a device: what only a text, its compiler or a device loses is found there."""

from __future__ import annotations

import dataclasses
import functools
from types import SimpleNamespace

import numpy as np
import pytest

from ktc.backends import emit
from ktc.backends.base import Emitted, Runtime
from ktc.backends.runtimes.opencl_runtime import undefined_values
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.workload import Workload
from ktc.search.verification import differential
from ktc.search.verification.device import special_launches
from ktc.search.verification.floats.special_inputs import draws
from ktc.search.verification.oracle import oracle_for
from tests import devices
from tests.search.verification.rungs.test_special_values import HEAD, LARGEST, ONLINE, TAIL, TWO_SWEEPS, WORK, kernel

SIZES = [{"n": 34, "d": 24}]
NONE = dataclasses.replace(WORK, check={"special": "none"})

PLANTED = {
    "numba": {
        "a maximum that loses numbers beside a NaN": (
            "return a if b != b else largest", "return largest",
        ),
        "no infinities": ("-f32(np.inf)", "f32(-3.0e38)"),
    },
    "opencl": {
        "a maximum that loses numbers beside a NaN": ("fmax(", "LARGER("),
        "no infinities": ("-INFINITY", "-3.0e38f"),
    },
}  # fmt: skip
LARGER = "#define LARGER(a, b) ((a) > (b) ? (a) : (b))\n"


@pytest.fixture(scope="module", params=("numba", "opencl"))
def runtime(request) -> Runtime:
    return devices.working(request.param)


def judged(runtime: Runtime, original: Emitted, candidate: Emitted, work=WORK):
    return differential(runtime, original, candidate, work, sizes=SIZES)


@pytest.mark.parametrize("body", [TWO_SWEEPS, ONLINE, LARGEST])
def test_a_right_text_passes(runtime, body) -> None:
    target = runtime.device.backend
    verdict = judged(runtime, emit(kernel(TWO_SWEEPS if body == ONLINE else body), target), emit(kernel(body), target))
    assert verdict.ok and "special inputs" in verdict.reason, verdict


@pytest.mark.parametrize("fault", PLANTED["numba"])
def test_a_planted_fault_of_a_text_is_found(runtime, fault) -> None:
    target = runtime.device.backend
    code, (right, wrong) = emit(kernel(LARGEST), target), PLANTED[target][fault]
    assert right in code.text
    planted = dataclasses.replace(code, text=(LARGER if "LARGER" in wrong else "") + code.text.replace(right, wrong))
    assert judged(runtime, code, planted, NONE).ok  # nothing else shows it
    found = judged(runtime, code, planted)
    assert found.status == "REJECTED" and "special values" in str(found.failure), found
    assert found.failure.kind == "mismatch" and found.failure.buffer == "y"


def test_where_the_original_has_no_answer_anything_may_be(runtime) -> None:
    """A maximum that begins with NaN is what the comparison makes of it."""
    target = runtime.device.backend
    largest = "float m = x[r * d]; for (int i = 1; i < d; ++i) m = x[r * d + i] > m ? x[r * d + i] : m; y[r] = m;"
    other = largest.replace("y[r] = m", "y[r] = m == m ? m : 7.0f")
    assert judged(runtime, emit(kernel(largest), target), emit(kernel(other), target)).ok


def test_sums_keep_nan(runtime) -> None:
    """The sum of a row with a NaN is NaN in any order; of which bits, nobody says."""
    target = runtime.device.backend
    sums = "for (int i = 0; i < d; ++i) s += x[r * d + i]; y[r] = s;"
    backwards = "for (int i = d - 1; i >= 0; --i) s += x[r * d + i]; y[r] = -(-s);"
    other = "for (int i = 0; i < d; ++i) s += x[r * d + i]; y[r] = s == s ? s : 7.0f;"
    assert judged(runtime, emit(kernel(sums), target), emit(kernel(backwards), target)).ok
    found = judged(runtime, emit(kernel(sums), target), emit(kernel(other), target))
    assert found.status == "REJECTED" and "is 7.0, expected nan" in found.reason


def test_floats_that_become_places_are_not_launched(runtime) -> None:
    """A device may make any number of a NaN."""
    text = (
        "for (int i = 0; i < d; ++i) { int k = (int)x[r * d + i]; s += x[r * d + (k > 0 && k < d ? k : 0)]; } y[r] = s;"
    )
    target = runtime.device.backend
    code = emit(load(HEAD + text + TAIL), target)
    verdict = judged(runtime, code, emit(kernel(text), target))
    assert verdict.ok and "special" not in verdict.reason


def test_what_a_device_gives_up_is_left_out(runtime, monkeypatch) -> None:
    seen = []
    monkeypatch.setattr(special_launches, "draws", lambda inputs, kinds, *most: seen.append(kinds) or iter(()))
    lax = SimpleNamespace(device=dataclasses.replace(runtime.device, gives_up=("subnormal",)))
    code = emit(kernel(LARGEST), runtime.device.backend)
    for device in (runtime, lax):
        special_launches.special_launches(device, (None, None), (code.kernel, code.kernel), WORK, SIZES)
    assert set(seen[0]) - set(seen[1]) == {"subnormal"}


def test_an_opencl_device_says_what_it_gives_up() -> None:
    bits = SimpleNamespace(DENORM=1, INF_NAN=2)
    assert undefined_values(bits, 3) == ()
    assert undefined_values(bits, 2) == ("subnormal",)
    assert set(undefined_values(bits, 1)) == {"inf", "-inf", "nan"}


def test_sums_by_atomics_are_right_in_any_order(tmp_path) -> None:
    """The device adds the rows of a column in another order than the interpreter does."""
    (tmp_path / "k.ktir").write_text(COLUMNS)
    (tmp_path / "workload.toml").write_text(COLUMNS_WORKLOAD)
    work = Workload.load(tmp_path)
    kernel, sizes = work.load_kernel(), {"n": 3, "m": 2048}
    oracle = oracle_for(kernel, work, None, 0)
    beyond_one_order = 0
    for data in draws(oracle.specialised(sizes), ("-0", "subnormal"), 3, 1):
        trial = special_launches._Trial(oracle, kernel, sizes, data)
        x, y = trial.inputs["x"], trial.inputs["y"]
        forth, back = (functools.reduce(np.add, rows, y) for rows in (x, x[::-1]))
        assert not trial._unlike("y", forth, back).any() and trial._unlike("y", forth, back + np.float32(1)).any()
        bound = np.imag(run(kernel, trial.inputs, domain="bound", sanitize=False).outputs["y"])
        beyond_one_order += int((np.abs(forth - back) > bound).sum())
    assert beyond_one_order, "the bound of one order would have done"


def test_numbers_that_overflow_in_one_order_of_atomics_decide_nothing(tmp_path) -> None:
    """Twice the largest number, then minus infinity, is no number; minus infinity first is minus infinity."""
    (tmp_path / "k.ktir").write_text(COLUMNS)
    (tmp_path / "workload.toml").write_text(COLUMNS_WORKLOAD)
    work = Workload.load(tmp_path)
    kernel, sizes = work.load_kernel(), {"n": 12, "m": 16}
    oracle = oracle_for(kernel, work, None, 0)
    excused = held = 0
    for data in draws(oracle.specialised(sizes), ("-inf", "largest"), 6, 0):
        trial = special_launches._Trial(oracle, kernel, sizes, data)
        x, y = trial.inputs["x"], trial.inputs["y"]
        with np.errstate(all="ignore"):
            orders = [functools.reduce(np.add, rows, y) for rows in (x, x[::-1], np.roll(x, 5, axis=0))]
        for got in orders:
            assert not trial._unlike("y", orders[0], got).any()
            excused += int((np.isnan(got) & (orders[0] == -np.inf)).sum())
        twice = (x == np.finfo(np.float32).max).sum(axis=0) + (y == np.finfo(np.float32).max) > 1
        certain = (orders[0] == -np.inf) & ~twice
        held += int(certain.sum())
        assert (trial._unlike("y", orders[0], np.where(certain, np.nan, orders[0])) == certain).all()
    assert excused and held


COLUMNS = """
kernel k(y: f32* noalias, x: f32 const* noalias, n: i32, m: i32)
  launch grid(n) block(64)
  for c: i32 = threadIdx.x as i32; c < m; c + 64
    atomic add y[c], x[blockIdx.x as i32 * m + c]
"""

COLUMNS_WORKLOAD = """
[kernel]
source = "k.ktir"
name = "k"
[[args]]
name = "y"
dtype = "f32"
shape = ["m"]
role = "inout"
init = "normal"
[[args]]
name = "x"
dtype = "f32"
shape = ["n", "m"]
role = "in"
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[[args]]
name = "m"
dtype = "i32"
role = "scalar"
value = "m"
[[scenario]]
name = "main"
sizes = { n = 41, m = 64 }
"""
