"""Kernels in SPMD form, written in different ways, that raising should understand (or refuse for a reason)."""

SAXPY = """
kernel saxpy(y: f32* restrict, x: f32 const* restrict, a: f32, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    y[i] = a * x[i] + y[i]
"""

EARLY_RETURN = """
kernel scale(y: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  let t: i32 = threadIdx.x as i32
  let i: i32 = (blockIdx.x * 64_u32) as i32 + t
  if i >= n
    return
  let v: f32 = x[i]
  y[i] = v * 3.0
"""

GRID_STRIDE = """
kernel saxpy(y: f32* restrict, x: f32 const* restrict, a: f32, n: i32)
  launch grid(3) block(64)
  for i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32; i < n; (i as u32 + blockDim.x * gridDim.x) as i32
    y[i] = a * x[i] + y[i]
"""

TWO_D = """
kernel jacobi(out: f32* restrict, in: f32 const* restrict, h: i32, w: i32)
  launch grid(cdiv(w, 16), cdiv(h, 4)) block(16, 4)
  let x: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  let y: i32 = (blockIdx.y * blockDim.y + threadIdx.y) as i32
  if x >= 1 && y > 0 && x < w - 1 && y < h - 1
    out[y * w + x] = in[y * w + x - 1] + in[(y - 1) * w + x]
"""

ROW_SUM = """
kernel rownorm(x: f32* restrict, eps: f32, d: i32, host n: i32)
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
    x[row + i] = x[row + i] * inv
"""

FORWARD_TREE = ROW_SUM.replace(
    "for stride: i32 = blockDim.x as i32 / 2; stride > 0; stride >> 1",
    "for stride: i32 = 1; stride < 64; stride * 2",
).replace("if tid < stride", "if tid % (stride * 2) == 0")

SHUFFLE = """
kernel rowmax(out: f32* restrict, x: f32 const* restrict, d: i32, host n: i32)
  launch grid(n) block(64)
  array part: shared f32[2]
  let tid: i32 = threadIdx.x as i32
  var m: f32 = -inf
  for i: i32 = tid; i < d; i + 64
    m = max(m, x[blockIdx.x as i32 * d + i])
  for o: i32 = 16; o > 0; o / 2
    m = max(m, shfl_down(m, o))
  if tid % 32 == 0
    part[tid / 32] = m
  barrier
  if tid == 0
    out[blockIdx.x as i32] = max(part[0], part[1])
"""

SHUFFLE_SUM = SHUFFLE.replace("-inf", "0.0").replace("max(m, x[", "(m + x[")
SHUFFLE_SUM = SHUFFLE_SUM.replace("max(m, shfl_down(m, o))", "m + shfl_down(m, o)")
SHUFFLE_SUM = SHUFFLE_SUM.replace("max(part[0], part[1])", "part[0] + part[1]")

BROKEN_TREE = ROW_SUM.replace("stride > 0", "stride > 1")

CARRIED = """
kernel prefix(x: f32* restrict, d: i32)
  launch grid(1) block(64)
  var last: f32 = 0.0
  for i: i32 = threadIdx.x as i32; i < d; i + 64
    let v: f32 = x[i]
    x[i] = v + last
    last = v
"""

NEIGHBOUR = """
kernel shift(x: f32* restrict, d: i32)
  launch grid(1) block(64)
  for i: i32 = threadIdx.x as i32; i < d; i + 64
    x[i] = x[i + 1]
"""

PERMUTED = """
kernel reverse(x: f32* restrict, y: f32 const* restrict)
  launch grid(1) block(64)
  array s: shared f32[64]
  s[threadIdx.x] = y[threadIdx.x]
  barrier
  x[threadIdx.x] = s[63_u32 - threadIdx.x]
"""

RAISABLE = {
    "guard": SAXPY,
    "early-return": EARLY_RETURN,
    "grid-stride": GRID_STRIDE,
    "two-d": TWO_D,
    "tree-backwards": ROW_SUM,
    "tree-forwards": FORWARD_TREE,
    "shuffle": SHUFFLE,
    "shuffle-sum": SHUFFLE_SUM,
}
