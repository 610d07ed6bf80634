"""Drafts of kernels that tell modes from each other, and of batches whose rows are as long as a buffer says."""

from __future__ import annotations

from pathlib import Path

import ktc
from ktc.scaffold import draft, workload_text

PAIRS = """
__global__ void pairs(const float* __restrict__ x, const float* __restrict__ z, float* __restrict__ y, int n, int m,
                      int mode, bool alone, bool negate) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sign = negate ? -1.0f : 1.0f;
  if (alone) {
    if (i < n) y[i] = sign * x[i] * z[i];
  } else if (i < n * m) {
    y[i] = sign * (mode == 5 ? x[2 * (i / m)] : x[i / m]) * z[i % m];
  }
}
void go(const float* x, const float* z, float* y, int n, int m, int mode, bool alone) {
  pairs<<<(n * m + 255) / 256, 256>>>(x, z, y, n, m, mode, alone, false);
}
"""
NEAREST = """
__global__ void nearest(const float* __restrict__ a, const float* __restrict__ b, const long* __restrict__ rows,
                        const long* __restrict__ columns, float* __restrict__ out, int n, int p, int q, int width,
                        int norm) {
  for (int c = blockIdx.x; c < n * ((p + 63) / 64); c += gridDim.x) {
    int batch = c / ((p + 63) / 64), row = c % ((p + 63) / 64) * 64 + threadIdx.x;
    if (row >= rows[batch]) continue;
    float best = 3e38f;
    for (int j = 0; j < columns[batch]; ++j) {
      float d = 0.0f;
      for (int i = 0; i < width; ++i) {
        float e = a[batch * p * width + row * width + i] - b[batch * q * width + j * width + i];
        d += norm == 2 ? e * e : fabsf(e);
      }
      if (d < best) best = d;
    }
    out[batch * p + row] = best;
  }
}
void go(const float* a, const float* b, const long* rows, const long* columns, float* out, int n, int p, int q,
        int width, int norm) {
  nearest<<<256, 64>>>(a, b, rows, columns, out, n, p, q, width, norm);
}
"""


def drafted(folder: Path, source: str) -> tuple[dict[str, tuple[str, ...]], str, list[str]]:
    """The shapes of the buffers, the text of the workload, and what its author should look at."""
    (folder / "k.cu").write_text(source)
    program = ktc.load(str(folder / "k.cu"))
    assert program.source is not None
    shapes = {name: e.shape for name, e in draft(program.kernel).shapes.items() if e is not None}
    return shapes, *workload_text(program.kernel, program.source, folder / "k.toml")


def scalar(name: str, kind: str, value: str) -> str:
    return f'name = "{name}"\ndtype = "{kind}"\nrole = "scalar"\nvalue = {value}'


def test_buffers_are_long_enough_for_the_mode_that_reaches_furthest(tmp_path: Path) -> None:
    shapes, text, todo = drafted(tmp_path, PAIRS)
    assert shapes["y"] == ("n", "m")
    assert scalar("alone", "bool", "0   ") in text and scalar("mode", "i32", "5   ") in text
    assert "mode: its value" in todo


def test_a_truth_that_the_launch_passes_is_known(tmp_path: Path) -> None:
    _, text, _ = drafted(tmp_path, PAIRS)
    assert scalar("negate", "bool", "0\n") in text


def test_rows_of_a_batch_are_as_long_as_a_buffer_says_and_what_they_hang_on_is_found(tmp_path: Path) -> None:
    """No row has columns as long as there are no rows, and no rows show where there are no columns; a launch of a fixed
    size takes long for each. What the norm decides is only which way is taken."""
    shapes, text, todo = drafted(tmp_path, NEAREST)
    assert shapes == {
        "a": ("n", "p", "width"), "b": ("n", "q", "width"), "rows": ("n",), "columns": ("n",), "out": ("n", "p"),
    }  # fmt: skip
    assert 'range = [0, "p"]' in text and 'range = [0, "q"]' in text and "norm: its value" in todo


EITHER = """\
#include <cuda_fp16.h>
__global__ void scale(const void* x, void* y, int n, bool more, bool floats_in, bool floats_out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = floats_in ? ((const float*)x)[i] : __half2float(((const half*)x)[i]);
  if (!floats_out) {
    half* h = (half*)y;
    h[i] = __float2half(more ? __half2float(h[i]) + v : v);
  } else {
    float* f = (float*)y;
    f[i] = more ? f[i] + v : v;
  }
}
void run(const void* x, void* y, int n, bool more, bool a, bool b) {
  scale<<<(n + 255) / 256, 256>>>(x, y, n, more, a, b);
}
"""


def test_flags_say_what_elements_a_buffer_is_taken_to_have(tmp_path: Path) -> None:
    """Halves are no floats, whatever reaches further; a flag that asks something else stays as it is."""
    shapes, text, _ = drafted(tmp_path, EITHER)
    assert shapes == {"x": ("n",), "y": ("n",)}
    x = "f32" if 'name = "x"\ndtype = "f32"' in text else "f16"
    assert scalar("floats_in", "bool", "1" if x == "f32" else "0") in text
    assert scalar("floats_out", "bool", "0") in text and scalar("more", "bool", "1") in text


PLAIN = """
struct Matrix { int rows, cols, pitch; };
__global__ void fill(int* x, int first, int odd, Matrix m, int unread) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < m.rows) x[i] = odd == 3 ? first + i : first;
}
void go(int* x, int first, int odd, Matrix m, int unread) {
  fill<<<(m.rows + 255) / 256, 256>>>(x, first, odd, m, unread);
}
"""


def test_numbers_that_decide_nothing_are_not_to_be_looked_at(tmp_path: Path) -> None:
    _, _, todo = drafted(tmp_path, PLAIN)
    assert [t for t in todo if t.endswith("its value")] == ["odd: its value"]
