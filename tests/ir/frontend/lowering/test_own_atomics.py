"""Atomics on memory that only the thread has: plain updates."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize(
    ("call", "value", "old"),
    [
        ("atomicAdd(&v, 3)", 8, 5), ("atomicSub(&v, 7)", -2, 5), ("atomicMax(&v, 9)", 9, 5), ("atomicMin(&v, 9)", 5, 5),
        ("atomicAnd(&v, 4)", 4, 5), ("atomicOr(&v, 2)", 7, 5), ("atomicXor(&v, 1)", 4, 5), ("atomicExch(&v, 1)", 1, 5),
        ("atomicCAS(&v, 5, 2)", 2, 5), ("atomicCAS(&v, 6, 2)", 5, 5),
    ],
)  # fmt: skip
def test_a_variable_is_updated_and_the_old_value_returned(execute, call, value, old):
    text = f"__global__ void k(int* o) {{ int v = o[0]; o[1] = {call}; o[0] = v; }}"
    assert execute(text, {"o": np.int32([5, 0])})["o"].tolist() == [value, old]


@pytest.mark.parametrize(("start", "after"), [(0, (1, 7)), (6, (7, 5)), (7, (0, 6)), (9, (0, 7))])
def test_counters_wrap(execute, start, after):
    text = """__global__ void k(unsigned* o) { unsigned a[2]; a[0] = o[0]; a[1] = o[0];
        atomicInc(&a[0], 7u); atomicDec(&a[1], 7u); o[0] = a[0]; o[1] = a[1]; }"""
    assert execute(text, {"o": np.uint32([start, 0])})["o"].tolist() == [*after]


def test_members_of_objects_are_updated(execute, cu):
    text = """struct Tally { unsigned n; float sum;
        __device__ void count(float x) { atomicAdd(&n, 1); atomicAdd(&sum, x); } };
    __global__ void k(float* o) { Tally t; t.n = 0; t.sum = 0; t.count(o[0]); t.count(o[1]); o[0] = t.n; o[1] = t.sum; }
    """
    assert execute(text, {"o": np.float32([1.5, 4])})["o"].tolist() == [2, 5.5]
