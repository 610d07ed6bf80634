"""Kernels in parallel form that the tests of tiling and staging passes share, and scripts that tile them."""

from __future__ import annotations

from ktc.ir.text import parse_kernel

GEMM = parse_kernel("""\
kernel gemm(
    C: f32* restrict align 16,
    A: f32 const* restrict align 16,
    B: f32 const* restrict align 16,
    M: i32,
    N: i32,
    K: i32)
  par row in 0..M @ [thread.y 2, block.y]
    par col in 0..N @ [thread.x 4, block.x]
      var acc: f32 = 0.0
      for k in 0..K
        acc += A[row * K + k] * B[k * N + col]
      C[row * N + col] = acc + C[row * N + col]
""")

STAR = parse_kernel("""\
kernel star(b: f32* restrict align 16, a: f32 const* restrict align 16, h: i32, w: i32)
  par y in 1..h - 1 @ [thread.y 2, block.y]
    par x in 1..w - 1 @ [thread.x 4, block.x]
      let across: f32 = a[y * w + x] + 2.0 * a[y * w + x - 1] + 3.0 * a[y * w + x + 1]
      b[y * w + x] = across + a[(y - 1) * w + x] - a[(y + 1) * w + x]
""")

TRANSPOSE = parse_kernel("""\
kernel transpose(out: f32* restrict align 16, in: f32 const* restrict align 16, rows: i32, cols: i32)
  par row in 0..rows @ [thread.y 2, block.y]
    par col in 0..cols @ [thread.x 4, block.x]
      out[u64(col) * rows + row] = in[u64(row) * cols + col]
""")

TILED = (
    "tile{loops=row,col sizes=8,16} | distribute{loop=row map=[vec 2, thread.y 2, unroll 2]}"
    " | distribute{loop=col map=[vec 4, thread.x 2, unroll 2]} | tile{loops=k sizes=4 tail=cut}"
)
SIMPLE = (
    "tile{loops=row,col sizes=4,8} | distribute{loop=row map=[thread.y 2, unroll 2]}"
    " | distribute{loop=col map=[thread.x 4, unroll 2]} | tile{loops=k sizes=4}"
)
REGISTERS = f"{TILED} | register-tile{{loop=k_tile.*}}"
STAGED = (
    f"{REGISTERS} | stage-shared{{array=A loop=k_tile.* transpose=yes}} | stage-shared{{array=B loop=k_tile.* vec=4}}"
)

GEMM_SIZES = [{"M": m, "N": n, "K": k} for m, n, k in ((1, 4, 1), (7, 8, 3), (8, 16, 4), (9, 20, 5), (13, 12, 17))]
GEMM_ODD = [{"M": m, "N": n, "K": k} for m, n, k in ((1, 1, 1), (3, 7, 3), (4, 8, 4), (5, 9, 5), (13, 11, 17))]
STAR_SIZES = [{"h": h, "w": w} for h, w in ((2, 2), (3, 3), (5, 9), (6, 10), (7, 11), (13, 17))]
SQUARES = [{"rows": r, "cols": c} for r, c in ((1, 1), (3, 7), (4, 8), (5, 9), (13, 17))]
