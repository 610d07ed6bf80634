"""Drafts of layers that move windows over rows with a border: numbers of windows follow from the rest."""

from __future__ import annotations

import pytest

import ktc
from ktc.scaffold import draft

POOL = """
__global__ void pool(const float* x, float* y, int planes, int height, int width, int rows, int columns, int kh, int kw,
                     int sh, int sw, int ph, int pw, int inside) {
  int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y, p = blockIdx.z;
  if (row >= rows || column >= columns) return;
  float sum = 0.0f;
  int count = 0;
  for (int i = 0; i < kh; i++) {
    for (int j = 0; j < kw; j++) {
      int h = row * sh - ph + i, w = column * sw + j - pw;
      if (h >= 0 && h < height && w >= 0 && w < width) {
        sum += x[(p * height + h) * width + w];
        ++count;
      }
    }
  }
  y[(p * rows + row) * columns + column] = sum / (inside ? count : kh * kw);
}
void go(const float* x, float* y, int planes, int height, int width, int rows, int columns, int kh, int kw, int sh,
        int sw, int ph, int pw, int inside) {
  if (GUARD) return;
  pool<<<dim3((columns + 31) / 32, (rows + 7) / 8, planes), dim3(32, 8)>>>(x, y, planes, height, width, rows, columns,
                                                                           kh, kw, sh, sw, ph, pw, inside);
}
"""
ROWS = "(height + 2 * ph - kh) / sh + 1"
COLUMNS = "(width + 2 * pw - kw) / sw + 1"


def test_as_many_windows_as_the_border_makes_room_for() -> None:
    d = draft(ktc.loads(POOL.replace("GUARD", "rows < 1")).kernel)
    assert not d.doubts
    assert d.roles.tied["rows"] == ROWS and d.roles.tied["columns"] == COLUMNS
    shapes = {b: sorted(e.shape) for b, e in d.shapes.items() if e is not None}
    assert shapes == {"x": sorted(("planes", "height", "width")), "y": sorted(("planes", ROWS, COLUMNS))}
    for _, sizes, weight in d.scenarios:
        assert "weight" in weight or [sizes[n] for n in ("kh", "kw", "sh", "sw", "ph", "pw")] == [3, 3, 1, 1, 1, 1]
    assert max(sizes["height"] for _, sizes, _ in d.scenarios) >= 64
    assert not {n: by for n, by in d.steps.items() if by > 1}


def test_windows_that_the_source_has_another_kernel_for_are_not_drafted() -> None:
    d = draft(ktc.loads(POOL.replace("GUARD", "kh == 3 && sh == 1")).kernel)
    for _, sizes, weight in d.scenarios:
        assert "weight" in weight or (sizes["kh"], sizes["sh"]) != (3, 1)


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        (
            "row * sh - ph + i,",
            "row * sh + i * dilation - ph,",
            "(height + 2 * ph - (dilation * (kh - 1) + 1)) / sh + 1",
        ),
        ("row * sh - ph + i,", "first + i,", ROWS),
        ("row * sh - ph + i,", "i - ph + sh * row,", ROWS),
        ("row * sh - ph + i,", "row * sh + i,", None),  # no border
        ("row * sh - ph + i,", "row - ph + i,", None),  # nothing steps
        ("h < height", "h < height * 2", None),
    ],
)
def test_ways_to_spell_a_window(before: str, after: str, rows: str | None) -> None:
    text = POOL.replace("GUARD", "rows < 1").replace(before, after)
    text = text.replace("int count = 0;", "int count = 0, first = row * sh - ph;").replace(
        "int inside)", "int inside, int dilation)"
    )
    text = text.replace("pw, inside);", "pw, inside, dilation);")
    assert draft(ktc.loads(text).kernel).roles.tied.get("rows") == rows


CLIPPED = """
__global__ void pool(int n, const float* x, int channels, int height, int width, int rows, int columns, int kh, int kw,
                     int sh, int sw, int ph, int pw, float* y) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    const int column = i % columns, row = (i / columns) % rows, plane = i / columns / rows;
    int top = row * sh - ph, left = column * sw - pw;
    int bottom = min(top + kh, height + ph), right = min(left + kw, width + pw);
    const int size = (bottom - top) * (right - left);
    top = max(top, 0);
    left = max(left, 0);
    bottom = min(bottom, height);
    right = min(right, width);
    float sum = 0;
    for (int h = top; h < bottom; ++h)
      for (int w = left; w < right; ++w) sum += x[(plane * height + h) * width + w];
    y[i] = sum / size;
  }
}
void go(int n, const float* x, int channels, int height, int width, int rows, int columns, int kh, int kw, int sh,
        int sw, int ph, int pw, float* y) {
  pool<<<(n + 255) / 256, 256>>>(n, x, channels, height, width, rows, columns, kh, kw, sh, sw, ph, pw, y);
}
"""


def test_windows_whose_ends_are_clipped() -> None:
    d = draft(ktc.loads(CLIPPED).kernel)
    assert not [x for x in d.doubts if "run at" in x]
    assert d.roles.tied["rows"] == ROWS and d.roles.tied["columns"] == COLUMNS


def test_what_the_other_branch_writes_is_as_long() -> None:
    """With a mask nothing is written there, at the places at which all are."""
    text = CLIPPED.replace("y[i] = sum / size;", "y[i] = sum; if (mask) mask[i] = size; else sizes[i] = size;")
    text = text.replace("float* y)", "float* y, int* mask, float* sizes)").replace("pw, y);", "pw, y, mask, sizes);")
    d = draft(ktc.loads(text).kernel)
    assert d.shapes["sizes"] == d.shapes["y"]


WEIGHTS = """
__global__ void by_weights(const float* x, const float* dy, float* dw, int n, int c, int h, int w, int k) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= k * c * 9) return;
  int s = t % 3, r = t / 3 % 3, from = t / 9 % c, to = t / (9 * c);
  float sum = 0.0f;
  for (int i = 0; i < n; i++)
    for (int a = 0; a < h; a++)
      for (int b = 0; b < w; b++) {
        int y = a + r - 1, z = b + s - 1;
        if (y >= 0 && y < h && z >= 0 && z < w)
          sum += x[((i * c + from) * h + y) * w + z] * dy[((i * k + to) * h + a) * w + b];
      }
  dw[t] = sum;
}
void go(const float* x, const float* dy, float* dw, int n, int c, int h, int w, int k) {
  by_weights<<<(k * c * 9 + 127) / 128, 128>>>(x, dy, dw, n, c, h, w, k);
}
"""


def test_rows_that_a_loop_goes_over_are_no_window() -> None:
    """What the loop's place and a tap make is compared with where the loop ends."""
    d = draft(ktc.loads(WEIGHTS).kernel)
    assert max(min(sizes["h"], sizes["w"]) for _, sizes, _ in d.scenarios) >= 16, d.scenarios
