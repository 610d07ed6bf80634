"""SPMD kernels that exercise what the CPU backend must get right: exits, masks, lanes, private arrays, integers."""

EARLY_EXIT_BEFORE_BARRIER = """
kernel k(y: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(3) block(64)
  array s: shared f32[64]
  let t: i32 = threadIdx.x as i32
  let i: i32 = blockIdx.x as i32 * 64 + t
  if blockIdx.x as i32 * 64 >= n
    return
  s[t] = i < n ? x[i] : 0.0
  barrier
  if i < n
    y[i] = s[63 - t] + s[t]
"""

MASKED_TREE = """
kernel k(y: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(2) block(64)
  let t: i32 = threadIdx.x as i32
  let i: i32 = blockIdx.x as i32 * 64 + t
  var v: f32 = i < n ? x[i] : 0.0
  if t < 32
    v = v + shfl_down(v, 16)
    v = v + shfl_xor(v, 3)
  else
    v = v - shfl_up(v, 2, width=8)
  if i < n
    y[i] = v
"""

VOTES = """
kernel k(y: u32* restrict, x: f32 const* restrict, n: i32)
  launch grid(1) block(96)
  let t: i32 = threadIdx.x as i32
  let b: u32 = ballot(x[t] > 0.25)
  let e: bool = any(x[t] > 2.5)
  let a: bool = all(x[t] > -4.0)
  if t < n
    y[t] = b + (e ? 1_u32 : 0_u32) + (a ? 2_u32 : 0_u32)
"""

PRIVATE_ARRAY = """
kernel k(y: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(2) block(32)
  array s: shared f32[32]
  array r: local f32[3]
  let t: i32 = threadIdx.x as i32
  for j in 0..3
    r[j] = x[(blockIdx.x as i32 * 32 + t) * 3 + j]
  s[t] = r[0]
  barrier
  r[1] = r[1] + s[31 - t]
  barrier
  s[t] = r[1] * r[2]
  barrier
  y[blockIdx.x as i32 * 32 + t] = s[(t + 5) % 32] + r[2]
"""

BREAKING_LOOP = """
kernel k(y: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(1) block(32)
  array s: shared f32[32]
  let t: i32 = threadIdx.x as i32
  s[t] = x[t]
  barrier
  for step: i32 = 1; step < 100; step * 2
    if step >= 16
      break
    let other: f32 = s[(t + step) % 32]
    barrier
    s[t] = s[t] + other
    barrier
  y[t] = s[t]
"""

RETURN_IN_LOOP = """
kernel k(y: i32* restrict, x: i32 const* restrict, n: i32)
  launch grid(2) block(32)
  let t: i32 = (blockIdx.x * 32_u32 + threadIdx.x) as i32
  for j in 0..n
    if x[t] % 7 == j
      y[t] = j
      return
  y[t] = -1
"""

HASH = """
kernel k(y: u32* restrict, x: u32 const* restrict, n: i32)
  launch grid(1) block(64)
  let t: i32 = threadIdx.x as i32
  var h: u32 = x[t] ^ 2166136261_u32
  for j in 0..n
    h = h * 16777619_u32 + (h >> 5_u32)
    h = h ^ (h << 7_u32)
  y[t] = h - 4000000000_u32
"""

DIVISIONS = """
kernel k(y: i32* restrict, x: i32 const* restrict, n: i32)
  launch grid(1) block(64)
  let t: i32 = threadIdx.x as i32
  y[t] = x[t] / n * 1000 + x[t] % n
"""

HALVES = """
kernel k(y: f16* restrict, x: f16 const* restrict, n: i32)
  launch grid(1) block(64)
  let t: i32 = threadIdx.x as i32
  let a: f16 = x[t] * x[t + 64]
  let b: f32 = (a + x[t + 1]) as.static f32
  y[t] = (b * 0.3333) as.static f16
"""

BF16 = HALVES.replace("f16", "bf16")

ATOMICS = """
kernel k(y: i32* restrict, x: i32 const* restrict, n: i32)
  launch grid(4) block(64)
  let t: i32 = (blockIdx.x * 64_u32 + threadIdx.x) as i32
  atomic add y[x[t] & 15], t
"""

CONTINUING_LOOP = """
kernel k(y: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(2) block(64)
  array s: shared f32[64]
  let t: i32 = threadIdx.x as i32
  var v: f32 = x[blockIdx.x as i32 * 64 + t]
  for j in 0..6
    s[t] = v
    barrier
    let w: f32 = s[(t + j) % 64]
    barrier
    if j % 3 == 1
      continue
    v = v + shfl_xor(w, 1)
  y[blockIdx.x as i32 * 64 + t] = v
"""

VOTED_WHILE = """
kernel k(y: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(1) block(64)
  let t: i32 = threadIdx.x as i32
  var v: f32 = x[t]
  while any(v < 3.0)
    v = v + 0.5
  y[t] = v
"""

DO_WHILE = """
kernel k(y: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(2) block(32)
  array s: shared f32[32]
  let t: i32 = threadIdx.x as i32
  var stride: i32 = 16
  s[t] = x[blockIdx.x as i32 * 32 + t]
  do
    barrier
    if t < stride
      s[t] = s[t] + s[t + stride]
    stride = stride / 2
  while stride > 0
  barrier
  y[blockIdx.x as i32 * 32 + t] = s[0] * (t as f32)
"""

COUNT_DOWN = """
kernel k(y: i32* restrict, x: i32 const* restrict, n: i32)
  launch grid(1) block(32)
  let t: i32 = threadIdx.x as i32
  var sum: i32 = 0
  for i: i32 = 3; i > -6; i - 1
    sum = sum + i / 2 * 100 + i % 2 + x[t]
  y[t] = sum
"""

TWO_DIMENSIONS = """
kernel k(y: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(2, 2) block(8, 4)
  array tile: shared f32[4, 9]
  let i: i32 = threadIdx.x as i32
  let j: i32 = threadIdx.y as i32
  let at: i32 = ((blockIdx.y * 2_u32 + blockIdx.x) * 32_u32) as i32
  tile[j, i] = x[at + j * 8 + i]
  barrier
  y[at + i * 4 + j] = tile[j, i] + tile[3 - j, 7 - i]
"""

PARALLEL_ATOMICS = """
kernel k(y: i32* restrict, x: i32 const* restrict, n: i32)
  par i in 0..n @ [thread.x 32, block.x]
    atomic add y[x[i] & 7], 1
"""

ALL = {name.lower(): text for name, text in globals().items() if name.isupper() and isinstance(text, str)}
