"""Rows whose alignment the kernel looks at: a fast way in wide packs, and one by single elements for all else.

The condition is the same for all threads of a block, so the whole block takes one way; in each of them are loops over
the threads like any other.
"""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import AddrOf, If, Par, Reduce
from ktc.ir.text import print_kernel
from ktc.ir.walk import all_exprs, walk
from ktc.passes.core.base import Refused, Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.raise_ import Raise

SCALED = """
struct alignas(16) Four { float v[4]; };
struct alignas(4) Bytes { signed char v[4]; };
template <typename Op>
__device__ void each(const float* in, signed char* out, int len, int first, int stride, Op&& op) {
  unsigned long long at = reinterpret_cast<unsigned long long>(in);
  bool whole = (at & 15) == 0 && (len & 3) == 0;
  if (whole) {
    const Four* v = reinterpret_cast<const Four*>(in);
    Bytes* o = reinterpret_cast<Bytes*>(out);
    for (int i = first; i < len / 4; i += stride) {
      Bytes r;
      Four s = v[i];
      for (int j = 0; j < 4; ++j) op(r.v[j], s.v[j]);
      o[i] = r;
    }
    return;
  }
  int head = min((int)((16 - (at & 15)) & 15) / 4, len);
  for (int i = first; i < head; i += stride) op(out[i], in[i]);
  in += head; out += head; len -= head;
  for (int i = first; i < len; i += stride) op(out[i], in[i]);
}
__global__ void quantise(const float* __restrict__ in, signed char* __restrict__ out, const float* scale, int n) {
  float s = *scale;
  in += (long long)blockIdx.x * n;
  out += (long long)blockIdx.x * n;
  each(in, out, n, threadIdx.x, blockDim.x,
       [=] __device__(signed char& d, const float& x) { d = (signed char)(int)(x * s); });
}
void go(const float* in, signed char* out, const float* s, int n, int rows) {
  quantise<<<rows, n < 256 ? n : 256>>>(in, out, s, n);
}
"""


def raised(source: str) -> tuple[Kernel, Kernel, list[str]]:
    kernel = load(source, name="source.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    return kernel, outcome.kernel, [n for n in outcome.notes if "left: " in n]


def agree(kernel: Kernel, form: Kernel, sizes: list[dict[str, int]], buffers: dict[str, np.ndarray]) -> None:
    for numbers in sizes:
        args = {**buffers, **numbers}
        for domain in ("int", "field"):
            want = run(kernel, args, domain=domain)
            assert want.ok, want.findings
            for other in (form, materialise(form)):
                got = run(other, args, domain=domain)
                assert got.ok, (got.findings, print_kernel(other))
                for name, x in want.outputs.items():
                    np.testing.assert_array_equal(got.outputs[name], x, print_kernel(other))


def test_both_ways_are_loops_over_a_row() -> None:
    kernel, form, left = raised(SCALED)
    assert not left
    (branch,) = [s for s in walk(form.body) if isinstance(s, If)]
    assert any(isinstance(x, AddrOf) for x in all_exprs(form.body))
    ways = [[s for s in walk(b) if isinstance(s, Par)] for b in (branch.then, branch.orelse)]
    assert [len(w) for w in ways] == [1, 2]
    x = np.arange(-600, 600, dtype=np.float32)
    sizes = [{"n": n, "rows": rows} for n, rows in ((1, 5), (4, 3), (7, 3), (300, 2), (301, 3), (1200, 1))]
    agree(kernel, form, sizes, {"in": x, "out": np.zeros(1200, np.int8), "scale": np.full(1, 3, np.float32)})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("o[i] = r;", "o[i] = r; if (i + 1 < len / 4) o[i + 1].v[0] = 1;"),  # packs that overlap
        ("if (whole) {", "if (whole != (threadIdx.x == 3)) {"),  # each thread goes its own way
    ],
)
def test_ways_that_are_no_loops_stay_as_they_are(old: str, new: str) -> None:
    assert SCALED.count(old) == 1
    outcome = Raise().run(load(SCALED.replace(old, new), name="source.cu"))
    loops = [] if isinstance(outcome, Refused) else [s for s in walk(outcome.kernel.body) if isinstance(s, Par)]
    assert not any(s.dist[-1].kind == "seq" and s.dist[0].kind == "thread" for s in loops)


NORM = """
__global__ void norm(float* __restrict__ out, const float* __restrict__ x, long long stride, float eps, int n) {
  __shared__ float part[32];
  __shared__ float scale;
  const float* row = x + blockIdx.x * stride;
  unsigned long long at = reinterpret_cast<unsigned long long>(row);
  float sum = 0.f;
  if ((at & 15) == 0 && n % 4 == 0) {
    const float4* v = reinterpret_cast<const float4*>(row);
    for (int i = threadIdx.x; i < n / 4; i += blockDim.x) {
      float4 t = v[i];
      sum += t.x * t.x + t.y * t.y + t.z * t.z + t.w * t.w;
    }
  } else {
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += row[i] * row[i];
  }
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < 8; ++w) sum += part[w];
    scale = rsqrtf(sum / n + eps);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * (long long)n + i] = row[i] * scale;
}
void go(float* out, const float* x, long long stride, float eps, int n, int rows) {
  norm<<<rows, 256>>>(out, x, stride, eps, n);
}
"""


def test_a_sum_taken_in_either_of_two_ways_is_one_reduction() -> None:
    kernel, form, left = raised(NORM)
    assert not left and any(isinstance(s, Reduce) for s in walk(form.body))
    sizes = [
        {"n": n, "rows": rows, "stride": by} for n, rows, by in ((1, 3, 7), (8, 2, 12), (30, 2, 31), (300, 2, 304))
    ]
    agree(kernel, form, sizes, {"x": np.arange(1, 800, dtype=np.float32), "out": np.zeros(800, np.float32), "eps": 1.0})


DYNAMIC = """
#include <cub/cub.cuh>
struct alignas(16) Four { float v[4]; };
__global__ void quantise(const float* __restrict__ in, signed char* __restrict__ out, float* __restrict__ scale,
                         int n) {
  using Blocks = cub::BlockReduce<float, 256>;
  __shared__ typename Blocks::TempStorage room;
  __shared__ float by;
  const float* row = in + (long long)blockIdx.x * n;
  signed char* dst = out + (long long)blockIdx.x * n;
  bool whole = (reinterpret_cast<unsigned long long>(row) & 15) == 0 && (n & 3) == 0;
  float most = 0.f;
  if (whole) {
    const Four* v = reinterpret_cast<const Four*>(row);
    for (int i = threadIdx.x; i < n / 4; i += blockDim.x) {
      Four s = v[i];
      for (int j = 0; j < 4; ++j) most = fmaxf(most, fabsf(s.v[j]));
    }
  } else {
    for (int i = threadIdx.x; i < n; i += blockDim.x) most = fmaxf(most, fabsf(row[i]));
  }
  float top = Blocks(room).Reduce(most, cub::Max{}, blockDim.x);
  if (threadIdx.x == 0) {
    by = 127.f - top;
    scale[blockIdx.x] = top;
  }
  __syncthreads();
  float s = by;
  if (whole) {
    const Four* v = reinterpret_cast<const Four*>(row);
    for (int i = threadIdx.x; i < n / 4; i += blockDim.x) {
      Four x = v[i];
      for (int j = 0; j < 4; ++j) dst[4 * i + j] = (signed char)(int)(x.v[j] + s);
    }
  } else {
    for (int i = threadIdx.x; i < n; i += blockDim.x) dst[i] = (signed char)(int)(row[i] + s);
  }
}
void go(const float* in, signed char* out, float* s, int n, int rows) { quantise<<<rows, 256>>>(in, out, s, n); }
"""


def test_what_comes_after_a_total_is_loops_over_the_row_in_either_way() -> None:
    kernel, form, left = raised(DYNAMIC)
    assert not left, left
    assert [type(s) for s in walk(form.body) if isinstance(s, Par | Reduce)] == [Par, Reduce, Par, Par]
    sizes = [{"n": n, "rows": rows} for n, rows in ((1, 3), (8, 2), (30, 2), (300, 2), (301, 1))]
    x = np.arange(-300, 400, dtype=np.float32)
    agree(kernel, form, sizes, {"in": x, "out": np.zeros(700, np.int8), "scale": np.zeros(4, np.float32)})
