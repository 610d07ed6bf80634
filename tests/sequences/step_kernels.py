"""Kernels as different authors write them, from which random sequences are put together.

Each reads ``IN``, most of them ``MORE`` as well if they are given it, and writes ``OUT``: all three have ``rows * d``
elements, of which a kernel is told ``rows`` and ``d``. ``D`` stands for the length of a row, which is a parameter or a
number of the source; ``W`` for threads of a block, a power of two from 32 on.

Whatever of ``IN`` changes is seen in ``OUT``: an element, all of them by one number or factor, two that change places.
Otherwise a sequence could do the same although one of its earlier launches does something else. Of two steps that give
each element something else, neither does what the other one does, nor do they do the same in the other order.
"""

from __future__ import annotations

from dataclasses import dataclass

FLAT = "const int n = rows * D; const int i = blockIdx.x * blockDim.x + threadIdx.x; "
GRID = "const int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y; "
ROW_OF_THREAD = "const int r = blockIdx.x * blockDim.x + threadIdx.x; "
EACH = "for (int i = threadIdx.x; i < D; i += blockDim.x) "

BY_ELEMENT, BY_PLACE, BY_ROW, BY_THREAD_A_ROW, STRIDED, BY_COLUMN = (
    "cdiv(ROWS * D, W)", 'cdiv(D, W)", "ROWS', "ROWS", "cdiv(ROWS, W)", "2", "cdiv(D, W)",
)  # fmt: skip
"""Grids, by what a block does."""


@dataclass(frozen=True)
class Step:
    """``body`` of a kernel, its ``grid``; ``own``: each element is made of the same one of what is read (so it may be
    written over it)."""

    body: str
    grid: str
    own: bool = False


def _reduced(combine: str, first: str, use: str) -> str:
    """A block a row: a tree of barriers over shared memory, then each element of the row."""
    return (
        f"__shared__ float s[W]; const int at = blockIdx.x * D; float v = {first}; "
        + EACH + f"v = {combine.format('v', 'IN[at + i]')}; s[threadIdx.x] = v; __syncthreads(); "
        "for (int k = blockDim.x / 2; k > 0; k >>= 1) { if (threadIdx.x < k) s[threadIdx.x] = "
        + combine.format("s[threadIdx.x]", "s[threadIdx.x + k]") + "; __syncthreads(); } "
        + EACH + f"OUT[at + i] = {use};"
    )  # fmt: skip


STEPS: dict[str, Step] = {
    "scale": Step(FLAT + "if (i < n) OUT[i] = IN[i] * 2.0f + 1.0f;", BY_ELEMENT, True),
    "early": Step(FLAT + "if (i >= n) return; OUT[i] = IN[i] * 5.0f + 3.0f;", BY_ELEMENT, True),
    "branching": Step(FLAT + "if (i < n) { float g = IN[i]; if (g < 0.0f) g = 0.25f * g; OUT[i] = g; }",
                      BY_ELEMENT, True),
    "chosen": Step(FLAT + "if (i < n) { if (i % D == 0) OUT[i] = IN[i] * 2.0f + 7.0f; else OUT[i] = 6.0f - IN[i]; }",
                   BY_ELEMENT, True),
    "nested": Step(GRID + "if (c < D) OUT[r * D + c] = IN[r * D + c] * 3.0f + 1.0f;", BY_PLACE, True),
    "early nested": Step(GRID + "if (c >= D) return; OUT[r * D + c] = 4.0f - IN[r * D + c];", BY_PLACE, True),
    "strided": Step("for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * D; i += gridDim.x * blockDim.x) "
                    "OUT[i] = IN[i] * IN[i] + IN[i];", STRIDED, True),
    "rowwise": Step(EACH + "OUT[blockIdx.x * D + i] = IN[blockIdx.x * D + i] * -4.0f - 2.0f;", BY_ROW, True),
    "backwards": Step(FLAT + "if (i < n) OUT[n - 1 - i] = IN[i];", BY_ELEMENT),
    "mirrored read": Step(FLAT + "if (i < n) OUT[i] = IN[n - 1 - i];", BY_ELEMENT),
    "gathered": Step(FLAT + "if (i < n) OUT[i] = IN[(i * 7) % n];", BY_ELEMENT),
    "stencil": Step(FLAT + "if (i < n) OUT[i] = (i > 0 ? IN[i - 1] : 0.0f) + IN[i] + (i + 1 < n ? IN[i + 1] : 0.0f);",
                    BY_ELEMENT),
    "transposed": Step(GRID + "if (c < D) OUT[c * rows + r] = IN[r * D + c];", BY_PLACE),
    "staged": Step("__shared__ float s[W]; " + FLAT + "s[threadIdx.x] = i < n ? IN[i] : 0.0f; __syncthreads(); "
                   "if (i < n) OUT[i] = s[threadIdx.x] + 2.0f * s[threadIdx.x ^ 1];", BY_ELEMENT),
    "maximum": Step(_reduced("fmaxf({}, {})", "-1e30f", "IN[at + i] + s[0]"), BY_ROW),
    "sum": Step(_reduced("({} + {})", "0.0f", "IN[at + i] + s[0]"), BY_ROW),
    "late rows": Step("if (blockIdx.x >= rows) return; " + _reduced("fmaxf({}, {})", "-1e30f",
                                                                      "2.0f * IN[at + i] + s[0] + 3.0f"), BY_ROW),
    "warp": Step("float v = 0.f; " + EACH + "v += IN[blockIdx.x * D + i]; "
                 "for (int k = 16; k > 0; k >>= 1) v += __shfl_xor_sync(0xffffffffu, v, k); "
                 "if (threadIdx.x < 32) for (int i = threadIdx.x; i < D; i += 32) "
                 "OUT[blockIdx.x * D + i] = v + 3.0f * IN[blockIdx.x * D + i];",
                 BY_ROW),
    "serial": Step(ROW_OF_THREAD + "if (r >= rows) return; float m = -1e30f; "
                   "for (int i = 0; i < D; ++i) m = fmaxf(m, IN[r * D + i]); "
                   "for (int i = 0; i < D; ++i) OUT[r * D + i] = 3.0f * IN[r * D + i] + m + 5.0f;", BY_THREAD_A_ROW),
    "running": Step(ROW_OF_THREAD + "if (r < rows) { float s = 0.f; "
                    "for (int i = 0; i < D; ++i) { s += IN[r * D + i]; OUT[r * D + i] = s; } }", BY_THREAD_A_ROW),
    "mirrored": Step(ROW_OF_THREAD + "if (r < rows) for (int i = 0; i < D; ++i) "
                     "OUT[r * D + i] = IN[r * D + i] + 2.0f * IN[r * D + D - 1 - i];", BY_THREAD_A_ROW),
    "columns": Step("const int c = blockIdx.x * blockDim.x + threadIdx.x; if (c < D) { float s = 0.f; "
                    "for (int r = 0; r < rows; ++r) s += IN[r * D + c]; "
                    "for (int r = 0; r < rows; ++r) OUT[r * D + c] = IN[r * D + c] + s; }", BY_COLUMN),
    "first of all": Step("const float f = IN[0]; " + FLAT + "if (i < n) OUT[i] = IN[i] + f;", BY_ELEMENT),
    "first of row": Step(EACH + "OUT[blockIdx.x * D + i] = IN[blockIdx.x * D + i] + IN[blockIdx.x * D];", BY_ROW),
}  # fmt: skip

THREADS = (32, 64, 128)

__all__ = ["STEPS", "THREADS", "Step"]
