"""The differential rung on real runtimes: the CPU through numba, and an OpenCL device where there is one."""

from __future__ import annotations

import dataclasses
import importlib
from functools import partial

import pytest

from ktc.backends import emit
from ktc.backends.base import Runtime
from ktc.backends.runtimes import open_runtime
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.workload import ArgSpec, Workload
from ktc.search.verification import Verdict, differential
from tests import devices
from tests.ir.interp.interp_samples import COPY_WIDE, ROWS_SHUFFLE, ROWS_TREE, kernel
from tests.search.verification.gate_samples import COPY, ROWS, scalar
from tests.search.verification.test_gate import COPY_PLAIN


@pytest.fixture(scope="module", params=("numba", "opencl"))
def runtime(request) -> Runtime:
    return devices.working(request.param)


def judge(runtime: Runtime, a: str, b: str, workload, *change: tuple[str, str], sizes=None) -> Verdict:
    target = runtime.device.backend
    texts = (emit(kernel(a), target), emit(kernel(b, *change), target))
    return differential(runtime, *texts, workload, sizes=sizes)


def test_copies(runtime) -> None:
    assert judge(runtime, COPY_PLAIN, COPY_WIDE, COPY).status == "TESTED"
    late = judge(runtime, COPY_PLAIN, COPY_WIDE, COPY, ("for j = i;", "for j = i + 1;"))
    assert late.status == "REJECTED" and late.failure.kind == "uninitialised" and late.failure.buffer == "y"
    past = judge(runtime, COPY_PLAIN, COPY_WIDE, COPY, ("j < d", "j < d + 1"), sizes=[{"d": 63}])
    assert past.status == "REJECTED" and past.failure.kind == "out-of-bounds", past


def test_bfloat16_travels_as_it_is(runtime) -> None:
    wide = COPY_WIDE.replace("f16", "bf16")
    plain = COPY_PLAIN.replace("f16", "bf16")
    args = tuple(dataclasses.replace(a, dtype="bf16") if a.dtype == "f16" else a for a in COPY.args)
    workload = dataclasses.replace(COPY, args=args)
    assert judge(runtime, plain, wide, workload, sizes=[{"d": 263}]).ok
    assert not judge(runtime, plain, wide, workload, ("y[j] = x[j]", "y[j] = -x[j]"), sizes=[{"d": 263}]).ok


def test_reductions_on_the_cpu() -> None:
    runtime = open_runtime("numba")
    sizes = [{"n": 3, "d": 135}]
    assert judge(runtime, ROWS_TREE, ROWS_SHUFFLE, ROWS, sizes=sizes).ok
    wrong = judge(runtime, ROWS_TREE, ROWS_SHUFFLE, ROWS, ("s[0] + s[1]", "s[0] + s[0]"), sizes=sizes)
    assert wrong.status == "REJECTED" and wrong.failure.kind == "mismatch"


LONG = """
__global__ void dots(float* y, const float* x, int n, int d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float s = 0.0f;
  for (int k = 0; k < 9; ++k)
    for (int j = 0; j < d; ++j) s += x[i * d + j] * 0.3f;
  y[i] = s;
}
void go(float* y, const float* x, int n, int d) { dots<<<(n + 31) / 32, 32>>>(y, x, n, d); }
"""
COLUMNS = """
__global__ void columns(float* y, const float* x, int n, int d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n * d) atomicAdd(&y[i % d], x[i] * 0.3f);
}
void go(float* y, const float* x, int n, int d) { columns<<<(n * d + 31) / 32, 32>>>(y, x, n, d); }
"""
BACKWARDS = ("i % d], x[i]", "(n * d - 1 - i) % d], x[n * d - 1 - i]")


def sums(role: str, shape: tuple[str, ...]) -> Workload:
    out = ArgSpec("y", "f32", role, shape)
    return dataclasses.replace(
        ROWS, args=(out, ArgSpec("x", "f32", "in", ("n", "d")), scalar("n", "n"), scalar("d", "d"))
    )


def test_a_bound_that_the_interpreter_does_not_get_to_rejects_nothing(monkeypatch) -> None:
    """Loops of more statements than it runs left a bound of 0."""
    monkeypatch.setattr(
        importlib.import_module("ktc.search.verification.device.interpreted"), "run", partial(run, fuel=6_000)
    )
    monkeypatch.setattr(importlib.import_module("ktc.search.verification.oracle"), "run", partial(run, fuel=6_000))
    runtime = open_runtime("numba")
    backwards = LONG.replace("x[i * d + j]", "x[i * d + d - 1 - j]")
    texts = (emit(load(text), "numba") for text in (LONG, backwards))
    verdict = differential(runtime, *texts, sums("out", ("n",)), sizes=[{"n": 1, "d": 800}])
    assert verdict.ok, verdict


@pytest.mark.parametrize("order, interpreted", [("d - 1 - j", True), ("j", False)])
def test_results_that_are_the_originals_to_the_bit_need_no_error_bounds(monkeypatch, order, interpreted) -> None:
    """Two rows a thread, one term after the other: the same operations, whatever thread makes them."""
    module = importlib.import_module("ktc.search.verification.device.interpreted")
    asked: list[str] = []
    monkeypatch.setattr(module, "run", lambda *args, **kw: asked.append(kw["domain"]) or run(*args, **kw))
    two = LONG.replace("int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;",
                       "for (int i = 2 * threadIdx.x; i < min(n, 2 * threadIdx.x + 2); ++i) {")  # fmt: skip
    two = two.replace("y[i] = s;", "y[i] = s; }").replace("x[i * d + j]", f"x[i * d + {order}]")
    runtime = open_runtime("numba")
    texts = (emit(load(text), "numba") for text in (LONG, two))
    verdict = differential(runtime, *texts, sums("out", ("n",)), sizes=[{"n": 5, "d": 40}])
    assert verdict.ok, verdict
    assert ("bound" in asked) == interpreted


def test_sums_by_atomics_are_held_against_every_order() -> None:
    """The interpreter adds from the first block to the last; another order has other partial sums."""
    runtime = open_runtime("numba")
    texts = [emit(load(text), "numba") for text in (COLUMNS, COLUMNS.replace(*BACKWARDS))]
    for sizes in ({"n": 3, "d": 257}, {"n": 200, "d": 20}):
        verdict = differential(runtime, *texts, sums("inout", ("d",)), sizes=[sizes])
        assert verdict.ok, verdict
    twice = emit(load(COLUMNS.replace("x[i] *", "x[max(i, 1)] *")), "numba")
    assert not differential(runtime, texts[0], twice, sums("inout", ("d",)), sizes=[{"n": 3, "d": 257}]).ok
