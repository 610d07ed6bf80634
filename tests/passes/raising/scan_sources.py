"""Scans over the threads of a block as people write them: CUDA C++ and what each is (operator, inclusive or not)."""

from __future__ import annotations

FRAME = """
#include <cub/cub.cuh>
__global__ void running(const TYPE* x, TYPE* y, int n) {
  __shared__ TYPE s[2 * 128];
  int t = threadIdx.x;
  int i = blockIdx.x * 128 + t;
  TYPE v = i < n ? x[i] : ZERO;
BODY
  if (i < n) y[i] = v;
}
void launch(const TYPE* x, TYPE* y, int n) { running<<<(n + 127) / 128, 128>>>(x, y, n); }
"""

DOUBLE_BUFFER = """
  int from = 0, to = 1;
  s[t] = v;
  __syncthreads();
  for (int d = 1; d < 128; d *= 2) {
    if (t >= d) s[to * 128 + t] = s[from * 128 + t] + s[from * 128 + t - d];
    else s[to * 128 + t] = s[from * 128 + t];
    from = 1 - from;
    to = 1 - to;
    __syncthreads();
  }
  v = s[from * 128 + t];"""

IN_PLACE = """
  s[t] = v;
  __syncthreads();
  for (int d = 1; d < 128; d <<= 1) {
    TYPE other = t >= d ? s[t - d] : ZERO;
    __syncthreads();
    s[t] = OP(s[t], other);
    __syncthreads();
  }
  v = s[t];"""

SHIFTED = IN_PLACE.replace("v = s[t];", "v = t > 0 ? s[t - 1] : ZERO;")

SHUFFLES = """
  int lane = t & 31, warp = t >> 5;
  TYPE w = v;
  for (int d = 1; d < 32; d *= 2) {
    TYPE other = __shfl_up_sync(0xffffffffu, w, d);
    if (lane >= d) w = OP(other, w);
  }
  if (lane == 31) s[warp] = w;
  __syncthreads();
  if (warp == 0) {
    TYPE sum = lane < 4 ? s[lane] : ZERO;
    for (int d = 1; d < 4; d *= 2) {
      TYPE other = __shfl_up_sync(0xffffffffu, sum, d);
      if (lane >= d) sum = OP(other, sum);
    }
    if (lane < 4) s[lane] = sum;
  }
  __syncthreads();
  if (warp > 0) w = OP(s[warp - 1], w);
  v = w;"""

SERIAL_WARPS = """
  int lane = t % 32, warp = t / 32;
  TYPE w = v;
#pragma unroll
  for (int d = 1; d <= 16; d <<= 1) {
    TYPE other = __shfl_up_sync(0xffffffffu, w, d, 32);
    if (lane >= d) w += other;
  }
  if (lane == 31) s[warp] = w;
  __syncthreads();
  TYPE before = 0;
  for (int k = 0; k < warp; ++k) before += s[k];
  v = before + w - v;"""

SWEEPS = """
  s[t] = v;
  for (int d = 1; d < 128; d *= 2) {
    __syncthreads();
    int at = (t + 1) * d * 2 - 1;
    if (at < 128) s[at] += s[at - d];
  }
  __syncthreads();
  if (t == 0) s[127] = 0;
  for (int d = 64; d > 0; d /= 2) {
    __syncthreads();
    int at = (t + 1) * d * 2 - 1;
    if (at < 128) {
      TYPE left = s[at - d];
      s[at - d] = s[at];
      s[at] += left;
    }
  }
  __syncthreads();
  v = s[t];"""

CUB = """
  typedef cub::BlockScan<TYPE, 128> Scan;
  __shared__ typename Scan::TempStorage temp;
  Scan(temp).METHOD(v, v);"""

MAX = {"TYPE": "int", "ZERO": "-2147483647 - 1", "OP": "max"}
SUM = {"TYPE": "float", "ZERO": "0.0f", "OP": "add"}
WHOLE = {"TYPE": "int", "ZERO": "0", "OP": "add"}
ADD = "__device__ inline TYPE add(TYPE a, TYPE b) { return a + b; }\n"


def source(body: str, words: dict[str, str]) -> str:
    text = (ADD + FRAME).replace("BODY", body)
    for old, new in words.items():
        text = text.replace(old, new)
    return text


SCANS: dict[str, tuple[str, str, bool]] = {
    "double-buffer": (source(DOUBLE_BUFFER, SUM), "+", False),
    "in-place": (source(IN_PLACE, SUM), "+", False),
    "in-place-max": (source(IN_PLACE, MAX), "max", False),
    "shifted": (source(SHIFTED, WHOLE), "+", True),
    "shuffles": (source(SHUFFLES, SUM), "+", False),
    "shuffles-max": (source(SHUFFLES, MAX), "max", False),
    "serial-warps": (source(SERIAL_WARPS, WHOLE), "+", True),
    "sweeps": (source(SWEEPS, SUM), "+", True),
    "cub-inclusive": (source(CUB, {**SUM, "METHOD": "InclusiveSum"}), "+", False),
    "cub-exclusive": (source(CUB, {**WHOLE, "METHOD": "ExclusiveSum"}), "+", True),
}
