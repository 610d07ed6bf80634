"""The differential rung on real runtimes: the CPU through numba, and an OpenCL device where there is one."""

from __future__ import annotations

import dataclasses

import pytest
from gate_samples import COPY, ROWS
from interp_samples import COPY_WIDE, ROWS_SHUFFLE, ROWS_TREE, kernel
from ktc.backends import emit
from ktc.backends.base import Runtime
from ktc.backends.runtimes import open_runtime
from ktc.ir.diagnostics import KtcError
from ktc.search.verification import Verdict, differential
from test_gate import COPY_PLAIN


@pytest.fixture(scope="module", params=("numba", "opencl"))
def runtime(request) -> Runtime:
    try:
        return open_runtime(request.param)
    except KtcError as e:
        pytest.skip(str(e))


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
