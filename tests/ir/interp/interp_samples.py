"""Small kernels in the text form, right and wrong on purpose, shared by the interpreter's and the gate's tests."""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel

ROWS_TREE = """\
kernel rms(y: f32*, x: f32 const*, w: f32 const*, d: i32, host n: i32)
  launch grid(n) block(64)
  array s: shared f32[64]
  let tid: i32 = i32(threadIdx.x)
  let row: i32 = i32(blockIdx.x) * d
  var acc: f32 = 0.0
  for i = tid; i < d; i + 64
    acc += x[row + i] * x[row + i]
  s[tid] = acc
  barrier
  for h = 32; h > 0; h >> 1
    if tid < h
      s[tid] += s[tid + h]
    barrier
  let r: f32 = rsqrt(s[0] / f32(d) + 1e-06)
  for i = tid; i < d; i + 64
    y[row + i] = x[row + i] * r * w[i]
"""
"""RMS normalisation, one block a row, shared-memory tree: the naive original."""

ROWS_PARALLEL = """\
kernel rms(y: f32*, x: f32 const*, w: f32 const*, d: i32, host n: i32)
  launch grid(n) block(64)
  par row in 0..n @ [block.x]
    reduce(+) s: f32 = 0.0 over i in 0..d @ [thread.x 64, seq]
      let v: f32 = x[row * d + i]
      yield v * v
    let r: f32 = rsqrt(s / f32(d) + 1e-06)
    par i in 0..d @ [thread.x 64, seq]
      y[row * d + i] = x[row * d + i] * r * w[i]
"""
"""The same in parallel form."""

ROWS_SHUFFLE = """\
kernel rms(y: f32*, x: f32 const*, w: f32 const*, d: i32, host n: i32)
  launch grid(n) block(64)
  array s: shared f32[2]
  let tid: i32 = i32(threadIdx.x)
  let row: i32 = i32(blockIdx.x) * d
  var acc: f32 = 0.0
  for i = tid; i < d; i + 64
    acc += x[row + i] * x[row + i]
  for m = 16; m > 0; m >> 1
    acc += shfl_xor(acc, m)
  if tid % 32 == 0
    s[tid / 32] = acc
  barrier
  let r: f32 = rsqrt((s[0] + s[1]) / f32(d) + 1e-06)
  for i = tid; i < d; i + 64
    y[row + i] = x[row + i] * r * w[i]
"""
"""The same with warp shuffles and one shared slot a warp."""

COPY_WIDE = """\
kernel copy(y: f16* align 16, x: f16 const* align 16, d: i32)
  launch grid(cdiv(d, 32 * $V)) block(32)
  knob $V in {1, 2, 4, 8} default 4
  let i: i32 = (i32(blockIdx.x) * 32 + i32(threadIdx.x)) * $V
  if i + $V <= d
    let v: f16x($V) = x[i +: $V]
    y[i +: $V] = v
  else
    for j = i; j < d; j + 1
      y[j] = x[j]
"""
"""Wide copy with a scalar tail."""

MATMUL_TILED = """\
kernel mm(c: f32*, a: f32 const*, b: f32 const*, m: i32, n: i32, k: i32)
  launch grid(cdiv(n, 8), cdiv(m, 8)) block(8, 8)
  array ta: shared f32[8, 8]
  array tb: shared f32[8, 8]
  let tx: i32 = i32(threadIdx.x)
  let ty: i32 = i32(threadIdx.y)
  let row: i32 = i32(blockIdx.y) * 8 + ty
  let col: i32 = i32(blockIdx.x) * 8 + tx
  var acc: f32 = 0.0
  for t = 0; t < k; t + 8
    ta[ty, tx] = row < m && t + tx < k ? a[row * k + t + tx] : 0.0
    tb[ty, tx] = t + ty < k && col < n ? b[(t + ty) * n + col] : 0.0
    barrier
    for e = 0; e < 8; e + 1
      acc += ta[ty, e] * tb[e, tx]
    barrier
  if row < m && col < n
    c[row * n + col] = acc
"""

MATMUL_PARALLEL = """\
kernel mm(c: f32*, a: f32 const*, b: f32 const*, m: i32, n: i32, k: i32)
  launch grid(1) block(1)
  par row in 0..m @ [block.y]
    par col in 0..n @ [thread.x 32, block.x]
      reduce(+) s: f32 = 0.0 over e in 0..k @ [seq]
        yield a[row * k + e] * b[e * n + col]
      c[row * n + col] = s
"""

SOFTMAX_TWO_SWEEPS = """\
kernel softmax(y: f32*, x: f32 const*, d: i32, host n: i32)
  launch grid(n) block(32)
  par row in 0..n @ [block.x]
    reduce(max) m: f32 = -inf over i in 0..d @ [lane 32, seq]
      yield x[row * d + i]
    reduce(+) s: f32 = 0.0 over i in 0..d @ [lane 32, seq]
      yield exp(x[row * d + i] - m)
    par i in 0..d @ [lane 32, seq]
      y[row * d + i] = exp(x[row * d + i] - m) / s
"""

SOFTMAX_ONLINE = """\
kernel softmax(y: f32*, x: f32 const*, d: i32, host n: i32)
  launch grid(n) block(32)
  let tid: i32 = i32(threadIdx.x)
  let row: i32 = i32(blockIdx.x) * d
  var m: f32 = -3.4e+38
  var s: f32 = 0.0
  for i = tid; i < d; i + 32
    let v: f32 = x[row + i]
    let top: f32 = max(m, v)
    s = s * exp(m - top) + exp(v - top)
    m = top
  for k = 16; k > 0; k >> 1
    let om: f32 = shfl_xor(m, k)
    let os: f32 = shfl_xor(s, k)
    let top: f32 = max(m, om)
    s = s * exp(m - top) + os * exp(om - top)
    m = top
  let r: f32 = rcp(s)
  for i = tid; i < d; i + 32
    y[row + i] = exp(x[row + i] - m) * r
"""
"""One sweep with a running maximum (rescaling), per-warp: equal to the two-sweep form only by algebra of exp."""

HISTOGRAM = """\
kernel hist(bins: i32*, x: i32 const*, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
  if i < n
    atomic add bins[x[i]], 1
"""


def kernel(text: str, *changes: tuple[str, str]) -> Kernel:
    """Parse ``text`` after replacing each (old, new), which must occur."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return parse_kernel(text)
