"""CUDA C++ kernels in which threads work together, as people write them; ``$`` words are filled in by the fuzzer.

Every kernel is ``fuzz(a, b, out0, m, n)`` over n rows of m elements, free of races and in bounds for any n, m >= 1:
``$T`` element type, ``$B`` block size, ``$V`` a value computed from element ``i`` in row ``r``, ``$JOIN(x, y)`` an
associative operator that starts from ``$ZERO``.
"""

from __future__ import annotations

from string import Template

from .spmd_more import MORE, MORE_INTEGER

HEAD = (
    "__global__ void fuzz(const $T* __restrict__ a, const $T* __restrict__ b, $T* __restrict__ out0, int m, int n) {\n"
)
TAIL = (
    "}\nvoid launch(const $T* a, const $T* b, $T* out0, int m, int n) { fuzz<<<$GRID, $BLOCK>>>(a, b, out0, m, n); }\n"
)

ROW = ("n", "$B")
FLAT = ("(n * m + $B - 1) / $B", "$B")
TILES = ("dim3((m + 15) / 16, (n + 7) / 8)", "dim3(16, 8)")

IDIOMS: dict[str, tuple[tuple[str, str], str]] = {
    "two-d": (TILES, """
  int j = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (j >= m || r >= n) return;
  int i = r * m + j;
  out0[i] = $V;"""),
    "transpose-tile": (TILES, """
  __shared__ $T tile[8][17];
  int j = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
  int i = r * m + j;
  if (r < n && j < m) tile[threadIdx.y][threadIdx.x] = $V;
  __syncthreads();
  int t = threadIdx.y * 16 + threadIdx.x;
  int rr = blockIdx.y * 8 + t % 8, jj = blockIdx.x * 16 + t / 8;
  if (rr < n && jj < m) out0[jj * n + rr] = tile[t % 8][t / 8];"""),
    "halo": (ROW, """
  __shared__ $T s[$B + 2];
  int r = blockIdx.x, t = threadIdx.x;
  for (int base = 0; base < m; base += $B) {
    for (int k = t; k < $B + 2; k += $B) {
      int j = base + k - 1;
      int i = r * m + j;
      s[k] = (j >= 0 && j < m) ? ($T)($V) : ($T)0;
    }
    __syncthreads();
    if (base + t < m) out0[r * m + base + t] = s[t] + s[t + 1] + s[t + 2];
    __syncthreads();
  }"""),
    "warp-row": (("(n + 3) / 4", "dim3(32, 4)"), """
  int r = blockIdx.x * 4 + threadIdx.y, lane = threadIdx.x;
  if (r >= n) return;
  $T acc = $ZERO;
  for (int j = lane; j < m; j += 32) { int i = r * m + j; acc = $JOIN(acc, ($T)($V)); }
  for (int d = 16; d > 0; d >>= 1) acc = $JOIN(acc, __shfl_xor_sync(0xffffffffu, acc, d));
  if (lane == 0) out0[r] = acc;"""),
    "two-level": (ROW, """
  __shared__ $T part[32];
  int r = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  $T acc = $ZERO;
  for (int j = threadIdx.x; j < m; j += $B) { int i = r * m + j; acc = $JOIN(acc, ($T)($V)); }
  for (int d = 16; d > 0; d /= 2) acc = $JOIN(acc, __shfl_down_sync(0xffffffffu, acc, d));
  if (lane == 0) part[warp] = acc;
  __syncthreads();
  if (warp == 0) {
    acc = lane < $B / 32 ? part[lane] : ($T)($ZERO);
    for (int d = 16; d > 0; d /= 2) acc = $JOIN(acc, __shfl_down_sync(0xffffffffu, acc, d));
    if (lane == 0) out0[r] = acc;
  }"""),
    "normalised-row": (ROW, """
  __shared__ $T s[$B];
  int r = blockIdx.x, t = threadIdx.x;
  $T acc = $ZERO;
  for (int j = t; j < m; j += $B) { int i = r * m + j; acc = $JOIN(acc, ($T)($V)); }
  s[t] = acc;
  __syncthreads();
  for (int d = $B / 2; d > 0; d >>= 1) {
    if (t < d) s[t] = $JOIN(s[t], s[t + d]);
    __syncthreads();
  }
  $T all = s[0];
  for (int j = t; j < m; j += $B) { int i = r * m + j; out0[i] = $V - all; }"""),
    "several": (ROW, """
  __shared__ $T s[$B], u[$B];
  int r = blockIdx.x, t = threadIdx.x;
  $T sum = 0, top = $ZERO;
  for (int j = t; j < m; j += $B) { int i = r * m + j; $T v = $V; sum += v; top = $JOIN(top, v); }
  s[t] = sum; u[t] = top;
  __syncthreads();
  for (int d = 1; d < $B; d *= 2) {
    if (t % (2 * d) == 0) { s[t] += s[t + d]; u[t] = $JOIN(u[t], u[t + d]); }
    __syncthreads();
  }
  if (t == 0) out0[r] = s[0] - u[0];"""),
    "scan": (ROW, """
  __shared__ $T s[2][$B];
  int r = blockIdx.x, t = threadIdx.x;
  $T carry = 0;
  for (int base = 0; base < m; base += $B) {
    int i = r * m + base + t;
    s[0][t] = base + t < m ? ($T)($V) : ($T)0;
    __syncthreads();
    int from = 0;
    for (int d = 1; d < $B; d *= 2) {
      s[1 - from][t] = t >= d ? s[from][t] + s[from][t - d] : s[from][t];
      from = 1 - from;
      __syncthreads();
    }
    if (base + t < m) out0[i] = carry + s[from][t];
    carry += s[from][$B - 1];
    __syncthreads();
  }"""),
    "while-stride": (FLAT, """
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int r = 0;
  while (i < n * m) {
    r = i / m;
    out0[i] = $V;
    i += blockDim.x * gridDim.x;
  }"""),
    "bumped": (ROW, """
  int r = blockIdx.x;
  const $T* p = a + r * m + threadIdx.x;
  $T* q = out0 + r * m + threadIdx.x;
  for (int j = threadIdx.x; j < m; j += $B, p += $B, q += $B) { int i = r * m + j; *q = *p + $V; }"""),
    "dot-tile": (TILES, """
  __shared__ $T w[16];
  int j = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
  $T acc = 0;
  for (int k0 = 0; k0 < m; k0 += 16) {
    if (threadIdx.y == 0) w[threadIdx.x] = k0 + threadIdx.x < m ? b[k0 + threadIdx.x] : ($T)0;
    __syncthreads();
    if (r < n)
      for (int k = 0; k < 16 && k0 + k < m; ++k) acc += a[r * m + k0 + k] * w[k];
    __syncthreads();
  }
  int i = r * m + j;
  if (r < n && j < m) out0[i] = acc + $V;"""),
    "guarded-nest": (FLAT, """
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n * m) {
    int r = i / m, j = i % m;
    $T acc = 0;
    for (int k = 0; k < m; ++k) {
      if (k == j) continue;
      if (k > j + 3) break;
      acc += a[r * m + k];
    }
    out0[i] = acc - $V;
  }"""),
    "coarse": (("(n * m + 4 * $B - 1) / (4 * $B)", "$B"), """
  int first = blockIdx.x * 4 * $B + threadIdx.x, r = 0;
  #pragma unroll
  for (int k = 0; k < 4; ++k) {
    int i = first + k * $B;
    if (i < n * m) { r = i / m; out0[i] = $V; }
  }"""),
    "last-block-row": (ROW, """
  __shared__ $T edge;
  int r = blockIdx.x, t = threadIdx.x;
  if (t == 0) edge = a[r * m + m - 1];
  __syncthreads();
  $T e = edge;
  for (int j = t; j < m; j += $B) { int i = r * m + j; out0[i] = j + 1 < m ? $V + e : e; }"""),
    "row-then-columns": (ROW, """
  __shared__ $T row[256];
  int r = blockIdx.x, t = threadIdx.x;
  for (int j = t; j < m && j < 256; j += $B) { int i = r * m + j; row[j] = $V; }
  __syncthreads();
  for (int j = t; j < m && j < 256; j += $B) out0[r * m + j] = row[j] + row[(m < 256 ? m : 256) - 1 - j];"""),
}  # fmt: skip

INTEGER: dict[str, tuple[tuple[str, str], str]] = {
    "histogram": (ROW, """
  __shared__ int bins[16];
  int r = blockIdx.x, t = threadIdx.x;
  if (t < 16) bins[t] = 0;
  __syncthreads();
  for (int j = t; j < m; j += $B) { int i = r * m + j; int v = $V; atomicAdd(&bins[v & 15], 1); }
  __syncthreads();
  if (t < 16) atomicAdd(&out0[t], bins[t]);"""),
    "grid-sum": (FLAT, """
  int acc = 0, r = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n * m; i += gridDim.x * blockDim.x) { r = i / m; acc += $V; }
  atomicAdd(out0, acc);"""),
    "ballot-count": (("(n + 3) / 4", "dim3(32, 4)"), """
  int r = blockIdx.x * 4 + threadIdx.y, lane = threadIdx.x;
  if (r >= n) return;
  int count = 0;
  for (int base = 0; base < m; base += 32) {
    int i = r * m + base + lane;
    bool yes = base + lane < m && $V > 0;
    count += __popc(__ballot_sync(0xffffffffu, yes));
  }
  if (lane == 0) out0[r] = count;"""),
    "argmax": (ROW, """
  __shared__ int s[$B], at[$B];
  int r = blockIdx.x, t = threadIdx.x;
  int best = -1000000, where = m;
  for (int j = t; j < m; j += $B) { int i = r * m + j; int v = $V; if (v > best) { best = v; where = j; } }
  s[t] = best; at[t] = where;
  __syncthreads();
  for (int d = $B / 2; d > 0; d /= 2) {
    if (t < d && (s[t + d] > s[t] || (s[t + d] == s[t] && at[t + d] < at[t]))) { s[t] = s[t + d]; at[t] = at[t + d]; }
    __syncthreads();
  }
  if (t == 0) out0[r] = at[0] * 7 + s[0];"""),
}  # fmt: skip

JOINS = {"double": {"+": ("add", "0"), "max": ("fmax", "-100000.0"), "min": ("fmin", "60.0")},
         "float": {"+": ("add", "0"), "max": ("fmaxf", "-100000.0f"), "min": ("fminf", "60.0f")},
         "int": {"+": ("add", "0"), "max": ("max", "-100000"), "min": ("min", "60")}}  # fmt: skip
ADD = "__device__ inline $T add($T x, $T y) { return x + y; }\n"


def idiom_source(pick, elem: str, block: int, value: str) -> str:  # type: ignore[no-untyped-def]
    """One of the table, complete with its launch."""
    table = {**IDIOMS, **MORE, **(INTEGER | MORE_INTEGER if elem == "int" else {})}
    (grid, size), body = table[pick(tuple(table))]
    join, zero = JOINS[elem][pick(("+", "max", "min"))]
    words = {"T": elem, "T4": f"{elem}4", "B": str(block), "V": f"({value})", "JOIN": join, "ZERO": zero}
    text = (ADD + HEAD + body.strip("\n") + "\n" + TAIL).replace("$GRID", grid).replace("$BLOCK", size)
    return Template(text).substitute(words)
