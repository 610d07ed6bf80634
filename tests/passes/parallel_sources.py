"""Kernels in parallel form, as text, that the lowering and pass tests share."""

SILU = """
kernel silu(out: f16* restrict align 16, input: f16 const* restrict align 16, d: i32, host n: i32)
  par token: i64 in 0_i64..n @ [block.x]
    par i: i64 in 0_i64..d @ [thread.x 64, seq]
      let x: f32 = f32(input[token * 2_i64 * d + i])
      let y: f32 = f32(input[token * 2_i64 * d + d + i])
      out[token * d + i] = f16(x / (1.0 + exp(-x)) * y)
"""

RMS = """
kernel rms(x: f16* restrict align 16, w: f16 const* restrict align 16, d: i32, eps: f32, host n: i32)
  par row in 0..n @ [block.x]
    reduce(+) sum: f32 = 0.0 over i in 0..d @ [thread.x 64, seq]
      let a: f32 = f32(x[row * d + i])
      yield a * a
    let inv: f32 = rsqrt(sum / f32(d) + eps)
    par i in 0..d @ [thread.x 64, seq]
      let a: f32 = f32(x[row * d + i])
      x[row * d + i] = f16(a * inv * f32(w[i]))
"""

ROWMAX = """
kernel rowmax(out: f32* restrict align 16, x: f32 const* restrict align 16, d: i32, host n: i32)
  par row in 0..n @ [block.x]
    reduce(max) m: f32 = -1.0 over i in 0..d @ [thread.x 64, seq]
      yield x[row * d + i]
    out[row] = m
"""

SGEMM = """
kernel sgemm(
    A: f32 const* restrict align 16,
    B: f32 const* restrict align 16,
    C: f32* restrict align 16,
    M: i32,
    N: i32,
    K: i32)
  par row in 0..M @ [thread.y 8, block.y]
    par col in 0..N @ [thread.x 8, block.x]
      var acc: f32 = 0.0
      for k in 0..K
        acc += A[row * K + k] * B[k * N + col]
      C[row * N + col] = acc
"""

JACOBI = """
kernel jacobi(out: f32* restrict align 16, in: f32 const* restrict align 16, h: i32, w: i32)
  par y in 1..h - 1 @ [thread.y 4, block.y]
    par x in 1..w - 1 @ [thread.x 32, block.x]
      out[y * w + x] = 0.25 * (in[(y - 1) * w + x] + in[(y + 1) * w + x] + in[y * w + x - 1] + in[y * w + x + 1])
"""

ALL = {"silu": SILU, "rms": RMS, "rowmax": ROWMAX, "sgemm": SGEMM, "jacobi": JACOBI}
