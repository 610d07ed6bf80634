"""Kernels as text, one for each shape of loop nest that the rules tell apart, and the sizes to judge them at."""

STREAM = """
kernel k(y: f32* restrict align 16, x: f32 const* restrict align 16, a: f32, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    y[i] = a * x[i] + y[i]
"""

ROWS = """
kernel k(out: f16* restrict align 16, in: f16 const* restrict align 16, d: i32, host n: i32)
  launch grid(n) block(64)
  let row: i32 = blockIdx.x as i32
  for i: i32 = threadIdx.x as i32; i < d; i + blockDim.x as i32
    out[row * d + i] = in[row * 2 * d + i] * in[row * 2 * d + d + i]
"""

REDUCTION = """
kernel k(x: f32* restrict align 16, eps: f32, d: i32, host n: i32)
  launch grid(n) block(64)
  array smem: shared f32[64]
  let tid: i32 = threadIdx.x as i32
  let row: i32 = blockIdx.x as i32 * d
  var sum: f32 = 0.0
  for i: i32 = tid; i < d; i + blockDim.x as i32
    let v: f32 = x[row + i]
    sum = sum + v * v
  smem[tid] = sum
  barrier
  for stride: i32 = blockDim.x as i32 / 2; stride > 0; stride >> 1
    if tid < stride
      smem[tid] = smem[tid] + smem[tid + stride]
    barrier
  let inv: f32 = smem[0] + eps
  for i: i32 = tid; i < d; i + blockDim.x as i32
    let w: f32 = x[row + i]
    x[row + i] = w * inv
"""

STENCIL = """
kernel k(out: f32* restrict, in: f32 const* restrict, h: i32, w: i32)
  launch grid(cdiv(w, 16), cdiv(h, 4)) block(16, 4)
  let x: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  let y: i32 = (blockIdx.y * blockDim.y + threadIdx.y) as i32
  if x >= 1 && y > 0 && x < w - 1 && y < h - 1
    out[y * w + x] = in[y * w + x - 1] + in[(y - 1) * w + x] + in[y * w + x + 1]
"""

TRANSPOSE = """
kernel k(out: f32* restrict, in: f32 const* restrict, h: i32, w: i32)
  launch grid(cdiv(w, 16), cdiv(h, 4)) block(16, 4)
  let x: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  let y: i32 = (blockIdx.y * blockDim.y + threadIdx.y) as i32
  if x < w && y < h
    out[x * h + y] = in[y * w + x]
"""

PRODUCT = """
kernel k(c: f32* restrict, a: f32 const* restrict, b: f32 const* restrict, m: i32, n: i32, p: i32)
  launch grid(cdiv(n, 16), cdiv(m, 16)) block(16, 16)
  let x: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  let y: i32 = (blockIdx.y * blockDim.y + threadIdx.y) as i32
  if y < m && x < n
    var s: f32 = 0.0
    for q: i32 = 0; q < p; q + 1
      s = s + a[y * p + q] * b[q * n + x]
    c[y * n + x] = s
"""

THREAD_ROWS = """
kernel k(y: f32* restrict, x: f32 const* restrict, n: i32, c: i32, host threads: i32)
  launch grid((n + threads - 1) / threads) block(threads)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    var s: f32 = 0.0
    for j: i32 = 0; j < c; j + 1
      s = s + x[i * c + j]
    for j: i32 = 0; j < c; j + 1
      y[i * c + j] = x[i * c + j] + s
"""

VOLUME = """
kernel k(out: f32* restrict, in: f32 const* restrict, d: i32, h: i32, w: i32)
  launch grid(cdiv(w, 8), cdiv(h, 4), cdiv(d, 2)) block(8, 4, 2)
  let x: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  let y: i32 = (blockIdx.y * blockDim.y + threadIdx.y) as i32
  let z: i32 = (blockIdx.z * blockDim.z + threadIdx.z) as i32
  if z < d && y >= 1 && y < h - 1 && x < w
    out[(z * h + y) * w + x] = in[(z * h + y - 1) * w + x] + in[(z * h + y + 1) * w + x]
"""

SERIAL = """
kernel k(x: f32* restrict, d: i32)
  launch grid(1) block(64)
  var last: f32 = 0.0
  for i: i32 = threadIdx.x as i32; i < d; i + 64
    let v: f32 = x[i]
    x[i] = v + last
    last = v
"""

WARP_ROWS = """\
kernel shares(out: f32* noalias, in: f32 const* readonly, n: i32, d: i32)
  launch grid((n + 3) / 4) block(128)
  par row in 0..n @ [thread.y 4, block.x]
    reduce(+) sum: f32 = 0.0 over i in 0..d @ [thread.x 32, seq]
      yield in[row * d + i]
    par i in 0..d @ [thread.x 32, seq]
      out[row * d + i] = in[row * d + i] / sum
"""
"""Raised already."""

SIZES = {
    "stream": {"n": 1 << 20},
    "rows": {"n": 4096, "d": 4096},
    "few-rows": {"n": 4, "d": 8192},
    "short-rows": {"n": 4096, "d": 128},
    "reduction": {"n": 1024, "d": 4096},
    "stencil": {"h": 1000, "w": 1000},
    "transpose": {"h": 1000, "w": 1000},
    "product": {"m": 512, "n": 512, "p": 512},
    "thread-rows": {"n": 4096, "c": 4096, "threads": 128},
    "volume": {"d": 64, "h": 256, "w": 256},
    "serial": {"d": 1000},
}
SHAPES = {
    "stream": STREAM, "rows": ROWS, "few-rows": ROWS, "short-rows": ROWS, "reduction": REDUCTION, "stencil": STENCIL,
    "transpose": TRANSPOSE, "product": PRODUCT, "serial": SERIAL,
    "thread-rows": THREAD_ROWS, "volume": VOLUME,
}  # fmt: skip
