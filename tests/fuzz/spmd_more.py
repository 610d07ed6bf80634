"""More idioms of CUDA C++, in the words of ``spmd_idioms``: warps, early returns, wide vectors, 64-bit indices.

``$T4`` is the vector of four ``$T``.
"""

from __future__ import annotations

FLAT = ("(n * m + $B - 1) / $B", "$B")
ROW = ("n", "$B")

MORE: dict[str, tuple[tuple[str, str], str]] = {
    "long-index": (FLAT, """
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  const size_t total = (size_t)n * m;
  int r = 0;
  if ((size_t)i >= total) return;
  out0[i] = $V;"""),
    "unsigned-down": (("(n + $B - 1) / $B", "$B"), """
  unsigned r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= (unsigned)n) return;
  for (unsigned k = m; k-- > 0;) { int i = r * m + k; out0[i] = $V; }"""),
    "row-backwards": (ROW, """
  int r = blockIdx.x;
  for (int j = m - 1 - (int)threadIdx.x; j >= 0; j -= $B) { int i = r * m + j; out0[i] = $V; }"""),
    "pointers-backwards": (ROW, """
  int r = blockIdx.x;
  const $T* p = a + (r + 1) * m - 1 - threadIdx.x;
  $T* q = out0 + r * m + threadIdx.x;
  for (int j = threadIdx.x; j < m; j += $B, p -= $B, q += $B) { int i = r * m + j; *q = *p - $V; }"""),
    "fours": (("(n * m / 4 + $B) / $B", "$B"), """
  int t = blockIdx.x * blockDim.x + threadIdx.x, quads = n * m / 4;
  if (t < quads) {
    $T4 x = reinterpret_cast<const $T4*>(a)[t];
    $T4 y = reinterpret_cast<const $T4*>(b)[t];
    x.x += y.w; x.y = x.y * y.z; x.z -= y.y; x.w = y.x;
    reinterpret_cast<$T4*>(out0)[t] = x;
  }
  int i = quads * 4 + t, r = 0;
  if (i < n * m) out0[i] = $V;"""),
    "early-returns": (FLAT, """
  int i = blockIdx.x * blockDim.x + threadIdx.x, r = 0;
  if (i >= n * m) return;
  $T v = $V;
  if (v < ($T)0) { out0[i] = -v; return; }
  for (int k = 0; k < 3; ++k) {
    if (k == i % 4) { out0[i] = v + ($T)k; return; }
  }
  out0[i] = v * ($T)2;"""),
    "while-data": (FLAT, """
  int i = blockIdx.x * blockDim.x + threadIdx.x, r = 0;
  if (i < n * m) {
    int left = i % 7, steps = 0;
    $T acc = $V;
    while (left > 0) {
      if (left == 3) { left = 1; continue; }
      acc += ($T)left;
      left = left % 2 == 0 ? left / 2 : left - 1;
      if (++steps > 5) break;
    }
    do { acc -= b[i]; } while (++steps < 2);
    out0[i] = acc;
  }"""),
    "switch": (FLAT, """
  int i = blockIdx.x * blockDim.x + threadIdx.x, r = 0;
  if (i < n * m) {
    $T v = $V;
    switch (i % 4) {
      case 0: v += a[i]; break;
      case 2: v -= b[i];
      case 3: v = v * ($T)2; break;
      default: v = -v;
    }
    out0[i] = v;
  }"""),
    "warp-scan": (("(n + 3) / 4", "dim3(32, 4)"), """
  int r = blockIdx.x * 4 + threadIdx.y, lane = threadIdx.x;
  if (r >= n) return;
  $T carry = 0;
  for (int base = 0; base < m; base += 32) {
    int i = r * m + base + lane;
    $T v = base + lane < m ? ($T)($V) : ($T)0;
    for (int d = 1; d < 32; d <<= 1) {
      $T w = __shfl_up_sync(0xffffffffu, v, d);
      if (lane >= d) v += w;
    }
    if (base + lane < m) out0[i] = carry + v;
    carry += __shfl_sync(0xffffffffu, v, 31);
  }"""),
    "half-warps": (("(n + 7) / 8", "128"), """
  int r = blockIdx.x * 8 + threadIdx.x / 16, lane = threadIdx.x % 16;
  $T acc = $ZERO;
  for (int j = lane; j < m; j += 16)
    if (r < n) { int i = r * m + j; acc = $JOIN(acc, ($T)($V)); }
  for (int d = 8; d > 0; d /= 2) acc = $JOIN(acc, __shfl_down_sync(0xffffffffu, acc, d, 16));
  if (lane == 0 && r < n) out0[r] = acc;"""),
    "warp-tile": (("(n + 3) / 4", "dim3(32, 4)"), """
  __shared__ $T s[4][33];
  int r = blockIdx.x * 4 + threadIdx.y, lane = threadIdx.x;
  for (int base = 0; base < m; base += 32) {
    int i = r * m + base + lane;
    s[threadIdx.y][lane] = r < n && base + lane < m ? ($T)($V) : ($T)0;
    __syncwarp();
    $T v = s[threadIdx.y][31 - lane] + s[threadIdx.y][lane ^ 1];
    __syncwarp();
    if (r < n && base + lane < m) out0[i] = v;
  }"""),
    "two-buffers": (ROW, """
  __shared__ $T s[2][$B + 1];
  int r = blockIdx.x, t = threadIdx.x, now = 0;
  if (t < m) { int i = r * m + t; s[0][t] = $V; }
  for (int base = 0; base < m; base += $B) {
    __syncthreads();
    if (base + $B + t < m) { int i = r * m + base + $B + t; s[now ^ 1][t] = $V; }
    int last = m - base < $B ? m - base : $B;
    if (base + t < m) out0[r * m + base + t] = s[now][last - 1 - t];
    now ^= 1;
  }"""),
    "dynamic-shared": (("n", "$B, 2 * $B * sizeof($T)"), """
  extern __shared__ $T mem[];
  $T* left = mem;
  $T* right = mem + $B;
  int r = blockIdx.x, t = threadIdx.x;
  for (int base = 0; base < m; base += $B) {
    int i = r * m + base + t;
    left[t] = base + t < m ? ($T)($V) : ($T)0;
    right[t] = base + t < m ? b[i] : ($T)0;
    __syncthreads();
    if (base + t < m) out0[i] = left[$B - 1 - t] - right[(t + 3) % $B];
    __syncthreads();
  }"""),
    "records": (ROW, """
  struct Pair { $T low, high; int count; };
  int r = blockIdx.x;
  for (int j = threadIdx.x; j < m; j += $B) {
    int i = r * m + j;
    Pair p = {a[i], b[i], 0};
    for (int k = 0; k < 3 && j + k < m; ++k) {
      $T v = a[i + k];
      if (v < p.low) p.low = v; else if (v > p.high) { p.high = v; ++p.count; }
    }
    out0[i] = p.high - p.low + ($T)p.count;
  }"""),
    "private-array": (FLAT, """
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n * m) {
    int r = i / m;
    $T q[5];
    for (int k = 0; k < 5; ++k) q[k] = k % 2 ? a[i] : b[i];
    q[i % 5] = $V;
    $T acc = 0;
    for (int k = 4; k >= 0; --k) acc = acc * ($T)2 + q[k];
    out0[i] = acc;
  }"""),
    "block-returns": (("n + 2", "$B"), """
  __shared__ $T s[$B];
  int r = blockIdx.x, t = threadIdx.x;
  if (r >= n) return;
  for (int base = 0; base < m; base += $B) {
    int i = r * m + base + t;
    if (base + t < m) s[t] = $V;
    __syncthreads();
    if (base + t < m) out0[i] = s[(base + t == m - 1) ? 0 : t];
    __syncthreads();
  }"""),
    "any-all": (("(n + 3) / 4", "dim3(32, 4)"), """
  int r = blockIdx.x * 4 + threadIdx.y, lane = threadIdx.x;
  $T out = 0;
  for (int base = 0; base < m; base += 32) {
    int i = r * m + base + lane;
    $T v = r < n && base + lane < m ? ($T)($V) : ($T)1;
    if (__any_sync(0xffffffffu, v < ($T)0)) out += ($T)1;
    if (__all_sync(0xffffffffu, v > ($T)0)) out += ($T)3;
  }
  if (lane == 0 && r < n) out0[r] = out;"""),
}  # fmt: skip

MORE_INTEGER: dict[str, tuple[tuple[str, str], str]] = {
    "tickets": (ROW, """
  __shared__ int next, order[$B];
  int r = blockIdx.x, t = threadIdx.x;
  if (t == 0) next = 0;
  __syncthreads();
  if (t < m) { int i = r * m + t; if ($V > 0) order[atomicAdd(&next, 1)] = t; }
  __syncthreads();
  int sum = 0;
  for (int k = t; k < next; k += $B) sum += order[k];
  atomicAdd(&out0[r], sum);"""),
    "shared-extremes": (ROW, """
  __shared__ int low, high;
  __shared__ unsigned seen;
  int r = blockIdx.x;
  if (threadIdx.x == 0) { low = 1 << 20; high = -low; seen = 0; }
  __syncthreads();
  for (int j = threadIdx.x; j < m; j += $B) {
    int i = r * m + j, v = $V;
    atomicMin(&low, v);
    atomicMax(&high, v);
    atomicOr(&seen, 1u << (v & 31));
  }
  __syncthreads();
  if (threadIdx.x == 0) out0[r] = high - low + __popc(seen);"""),
    "bits": (FLAT, """
  int i = blockIdx.x * blockDim.x + threadIdx.x, r = 0;
  if (i < n * m) {
    unsigned x = (unsigned)($V), y = x;
    x ^= x << 13; x ^= x >> 17; x ^= x << 5;
    out0[i] = (int)(x >> 3) + __popc(y) - __clz((int)(y | 1u)) + ((int)y >> 2);
  }"""),
}  # fmt: skip
