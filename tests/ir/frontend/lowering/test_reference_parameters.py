"""References that a kernel is passed: addresses of what lies in device memory."""

from __future__ import annotations

import numpy as np

from ktc.ir.frontend import load
from ktc.ir.frontend.entry_points import parse_unit
from ktc.ir.frontend.host.captured import instance
from ktc.ir.interp import run
from ktc.ir.types import Ptr

SCALED = """
struct Range { float low; float high; };
template <typename T>
__global__ void scale(const T& by, const Range& range, int& count, const T* x, T* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fminf(range.high, x[i] * by);
  if (i == 0) count = n;
}
void go(const float* by, const Range* range, int* count, const float* x, float* y, int n) {
  scale<<<(n + 63) / 64, 64>>>(*by, *range, *count, x, y, n);
}
"""


def test_a_reference_is_read_and_written_through_its_address() -> None:
    kernel = load(SCALED, name="k.cu")
    types = {p.sym.name: p.sym.type for p in kernel.params}
    assert all(isinstance(types[n], Ptr) for n in ("by", "range", "count"))
    assert [p.sym.name for p in kernel.params if p.readonly] == ["by", "range", "x"]
    x = np.arange(100, dtype=np.float32)
    given = {"by": np.array([2.0], np.float32), "range": np.array([0.0, 50.0], np.float32)}
    out = run(kernel, {**given, "count": np.zeros(1, np.int32), "x": x, "y": np.zeros(100, np.float32), "n": 100})
    assert np.array_equal(out.outputs["y"], np.minimum(2 * x, 50)) and out.outputs["count"][0] == 100


def test_it_has_eight_bytes_where_parameters_lie() -> None:
    unit = parse_unit(SCALED, "k.cu", None, ())
    slots = [(0, 8), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4)]
    name = "void scale<float>(float const&, Range const&, int&, float const*, float*, int)"
    found = instance(unit, name, slots, (2, 1, 1), (64, 1, 1), 0)
    assert [(s.name, s.size) for s in found.slots] == [
        ("by", 8), ("range", 8), ("count", 8), ("x", 8), ("y", 8), ("n", 4),
    ]  # fmt: skip
