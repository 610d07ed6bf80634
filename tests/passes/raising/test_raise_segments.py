"""Parts that begin where the one before ends: rows of a sparse matrix, tokens by expert, sequences of a batch."""

from __future__ import annotations

import numpy as np

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.text import print_kernel
from ktc.passes.core.base import Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.invented_arguments import invented_arguments
from ktc.passes.raising.check.segments import bounds_of_parts
from ktc.passes.raising.raise_ import Raise

GROUPED = """
__global__ void grouped(const float* x, const float* scale, const int* first, float* y, int d) {
  int e = blockIdx.x;
  for (int t = first[e]; t < first[e + 1]; t++)
    for (int h = threadIdx.x; h < d; h += blockDim.x) y[t * d + h] = x[t * d + h] * scale[e * d + h];
}
void go(const float* x, const float* s, const int* f, float* y, int E, int d) { grouped<<<E, 64>>>(x, s, f, y, d); }
"""
ROUND_BY_ROUND = """
__global__ void rounds(float* y, int n, int d) {
  float last = 0.0f;
  for (int t = 0; t < n; t++)
    for (int h = threadIdx.x; h < d; h += blockDim.x) { y[t * d + h] = last; last += 1.0f; }
}
void go(float* y, int n, int d) { rounds<<<1, 64>>>(y, n, d); }
"""


def raised(source: str) -> str:
    found = Raise().run(load(source, name="k.cu"))
    return print_kernel(found.kernel) if isinstance(found, Result) else found.code


def test_rows_of_a_part_are_a_loop_of_the_block() -> None:
    """Parts that overlap make the source race, so that no loop over them could be checked."""
    text = raised(GROUPED)
    assert "for t in first[e]..first[e + 1]\n      par h in 0..d @ [thread.x 64, seq]" in text, text


def test_invented_parts_lie_behind_each_other() -> None:
    kernel = load(GROUPED, name="k.cu")
    assert {s.name for s in bounds_of_parts(kernel)} == {"first"}
    sets = list(invented_arguments(kernel, 4, 7))
    assert any(np.all(np.diff(a["first"]) >= 0) and len(set(np.diff(a["first"]))) > 1 for a in sets)
    assert any(np.any(np.diff(a["first"]) < 0) for a in sets), "loops without end or beginning are tried too"


def test_what_a_thread_carries_through_the_rounds_stays_its_own() -> None:
    """``last`` counts the elements of one thread: a loop over h that all threads share has no such number."""
    assert "par h" not in raised(ROUND_BY_ROUND)


def test_the_raised_rows_do_what_the_source_does() -> None:
    found = Raise().run(load(GROUPED, name="k.cu"))
    assert isinstance(found, Result)
    first = np.array([0, 3, 3, 4, 9], np.int32)
    x, scale = np.arange(9 * 70, dtype=np.float32), np.arange(4 * 70, dtype=np.float32)
    args = {"x": x, "scale": scale, "first": first, "y": np.zeros(9 * 70, np.float32), "E": 4, "d": 70}
    expected = x.reshape(9, 70) * scale.reshape(4, 70)[np.repeat(np.arange(4), np.diff(first))]
    for kernel in (found.kernel, materialise(found.kernel)):
        result = run(kernel, args)
        assert result.ok and np.array_equal(result.outputs["y"].reshape(9, 70), expected)


def test_a_launch_too_large_to_check_says_so() -> None:
    source = """
__global__ void scale(float* x, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] *= 2.0f;
}
void go(float* x, int n) { scale<<<65536, 1024>>>(x, n); }
"""
    found = Raise().run(load(source, name="k.cu"))
    assert isinstance(found, Result)
    assert any("assumed: a grid of 65,536 blocks does what smaller ones do" in n for n in found.notes), found.notes


def test_as_many_threads_as_a_device_holds_are_a_small_launch() -> None:
    """640 blocks of 512 threads that go on until all is done: there is no smaller launch to check them on."""
    source = """
__global__ void scale(float* x, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] *= 2.0f;
}
void go(float* x, int n) { scale<<<640, 512>>>(x, n); }
"""
    assert next(invented_arguments(load(source, name="k.cu"), 1, 7), None) is not None
