"""Drafts of layers over images whose host computes the number of elements from fields that the kernel never sees."""

from __future__ import annotations

import pytest

import ktc
from ktc.scaffold import Draft, draft

HOST = """
struct Layer { int out_h, out_w, channels, batch, h, w, step, window, border; float *in, *out, *grad; int *from; };
"""
POOL = (
    HOST
    + """
__global__ void pool(int n, int h, int w, int c, int step, int window, int border, const float* in, float* out,
                     int* from) {
  int rows = (h + border - window) / step + 1, cols = (w + border - window) / step + 1;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int x = i % cols; i /= cols;
  int y = i % rows; i /= rows;
  int m = i % c; i /= c;
  int to = x + cols * (y + rows * (m + c * i)), best = -1;
  float most = -1e30f;
  for (int a = 0; a < window; ++a)
    for (int b = 0; b < window; ++b) {
      int v = y * step - border / 2 + a, u = x * step - border / 2 + b;
      int at = u + w * (v + h * (m + i * c));
      float here = v >= 0 && v < h && u >= 0 && u < w ? in[at] : -1e30f;
      best = here > most ? at : best;
      most = here > most ? here : most;
    }
  out[to] = most;
  from[to] = best;
}
void go(Layer l) {
  int n = l.out_h * l.out_w * l.channels * l.batch;
  pool<<<(n + 255) / 256, 256>>>(n, l.h, l.w, l.channels, l.step, l.window, l.border, l.in, l.out, l.from);
}
"""
)
BACK = (
    HOST
    + """
__global__ void back(int n, int h, int w, int c, int step, int window, int border, const float* grad, float* sum,
                     const int* from) {
  int rows = (h + border - window) / step + 1, cols = (w + border - window) / step + 1, reach = (window - 1) / step;
  int id = blockIdx.x * blockDim.x + threadIdx.x, i = id;
  if (id >= n) return;
  int x = i % w; i /= w;
  int y = i % h; i /= h;
  int m = i % c; i /= c;
  float s = 0;
  for (int a = -reach; a <= reach; ++a)
    for (int b = -reach; b <= reach; ++b) {
      int u = (x + border / 2) / step + b, v = (y + border / 2) / step + a;
      int at = u + cols * (v + rows * (m + c * i));
      bool inside = u >= 0 && u < cols && v >= 0 && v < rows;
      s += inside && from[at] == id ? grad[at] : 0;
    }
  sum[id] += s;
}
void go(Layer l) {
  int n = l.h * l.w * l.channels * l.batch;
  back<<<(n + 255) / 256, 256>>>(n, l.h, l.w, l.channels, l.step, l.window, l.border, l.grad, l.out, l.from);
}
"""
)
SUMS = """
struct Field { int width, height, count; float *in, *out; };
__global__ void sums(int n, int w, int h, const float* in, float* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int x = i % w, y = i / w % h;
  float s = in[i];
  if (x > 0) s += in[i - 1];
  if (y + 1 < h) s += in[i + w];
  out[i] = s;
}
void go(Field f, int w, int h) {
  int n = f.width * f.height * f.count;
  sums<<<(n + 255) / 256, 256>>>(n, w, h, f.in, f.out);
}
"""


SPREAD = """
__global__ void spread(int n, const float* x, int w, int h, int c, int batch, int step, float* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int at = i, u = i % w;
  i /= w;
  int v = i % h;
  i /= h;
  int m = i % c, b = i / c % batch, fewer = c / (step * step), part = m / fewer;
  out[u * step + part % step + w * step * (v * step + part / step + h * step * (m % fewer + fewer * b))] = x[at];
}
void go(const float* x, int w, int h, int c, int batch, int step, float* out) {
  int n = batch * c * h * w;
  spread<<<(n + 255) / 256, 256>>>(n, x, w, h, c, batch, step, out);
}
"""


def drafted(source: str) -> Draft:
    return draft(ktc.loads(source).kernel)


def factors(d: Draft, buffer: str) -> set[str]:
    extent = d.shapes[buffer]
    assert extent is not None
    return {*extent.factors}


def test_rows_are_as_long_as_the_kernel_takes_its_index_apart() -> None:
    d = drafted(POOL)
    assert not d.doubts
    assert dict(d.roles.windows) == {"window": "window", "step": "step", "border": "border"}
    assert {*d.names} == {"h", "w", "c", "step", "window", "border", "n_rows"}
    assert factors(d, "in") == {"n_rows", "c", "h", "w"}
    sizes = next(s for title, s, _ in d.scenarios if title == "large")
    assert (sizes["window"], sizes["step"], sizes["border"]) == (3, 1, 1)


def test_what_is_read_where_another_buffer_says_so_is_as_long_as_that() -> None:
    d = drafted(BACK)
    assert not d.doubts
    assert factors(d, "grad") == factors(d, "from") and "((((h + border) - window) / step) + 1)" in factors(d, "from")


def test_fields_that_say_nothing_to_the_kernel_are_no_sizes() -> None:
    d = drafted(SUMS)
    assert not d.doubts and {*d.names} == {"w", "h", "n_rows"} and factors(d, "in") == {"n_rows", "w", "h"}


@pytest.mark.parametrize("more", ["if (i < width) out[i] = 0;", "for (int k = 0; k < width; ++k) out[i] += k;"])
def test_a_field_that_the_kernel_sees_stays_a_size(more: str) -> None:
    text = SUMS.replace("int w, int h, const", "int w, int h, int width, const").replace(
        "out[i] = s;", f"out[i] = s; {more}"
    )
    d = drafted(text.replace("(n, w, h, f.in", "(n, w, h, f.width, f.in"))
    assert "n_rows" not in d.names


def test_what_is_divided_by_a_product_is_a_multiple_of_it() -> None:
    d = drafted(SPREAD)
    assert not d.doubts and d.roles.tied["c"] == "c_parts * (step * step)"
    assert factors(d, "x") == factors(d, "out") == {"batch", "c_parts", "w", "h", "step"}
