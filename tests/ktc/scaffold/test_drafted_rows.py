"""Sizes that belong together: what the host's objects have, and rows that a flat index is taken apart into."""

from __future__ import annotations

from typing import Any

import pytest

import ktc
from ktc.ir.frontend import load
from ktc.ir.text import parse_kernel
from ktc.scaffold import draft
from ktc.scaffold.extents.row_pitches import longest_rows
from ktc.scaffold.inner_strides import row_of
from ktc.scaffold.largest_index import Largest

BIAS = """
__global__ void bias(const float* x, const float* w, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + w[i % cols];
}
"""
GIVEN = """
void go(const float* x, const float* w, float* o, int n, int cols) { bias<<<n / 256 + 1, 256>>>(x, w, o, n, cols); }
"""
TENSOR = """
torch::Tensor go(torch::Tensor x, torch::Tensor w) {
  int n = x.numel();
  int cols = x.size(1), rows = x.size(0);
  auto out = torch::empty({x.size(0), x.size(1)}, x.options());
  bias<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), w.data_ptr<float>(), out.data_ptr<float>(), n, cols);
  return out;
}
"""
LAST = """
torch::Tensor go(torch::Tensor x, torch::Tensor w) {
  auto out = torch::empty_like(x);
  bias<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), w.data_ptr<float>(), out.data_ptr<float>(), x.numel(),
                                         x.size(-1));
  return out;
}
"""
MADE = """
void go(int rows, int cols) {
  auto x = torch::randn({rows, cols}), w = torch::ones({cols});
  auto out = torch::empty_like(x);
  bias<<<(out.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), w.data_ptr<float>(), out.data_ptr<float>(),
                                           out.numel(), cols);
}
"""
VECTORS = """
#include <vector>
void go(int rows, int cols) {
  std::vector<float> hx(rows * cols), hw(cols);
  float *x, *w, *out;
  cudaMalloc(&x, hx.size() * sizeof(float));
  cudaMalloc(&w, hw.size() * sizeof(float));
  cudaMalloc(&out, hx.size() * sizeof(float));
  int n = hx.size();
  bias<<<(n + 255) / 256, 256>>>(x, w, out, n, hw.size());
}
"""
QUOTIENT = """
__global__ void sub(const float* a, const float* b, float* out, int n, int d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n * d) return;
  out[i] = a[i] - b[i / d];
}
torch::Tensor go(torch::Tensor a, torch::Tensor b) {
  const auto n = a.size(0);
  const auto d = a.numel() / n;
  auto out = torch::zeros({n, d});
  sub<<<(a.numel() + 127) / 128, 128>>>(a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), n, d);
  return out;
}
"""
LAYOUT = """
__global__ void permute(const float* x, float* y, int total, int c, int hw) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  int p = i % hw, ch = i / hw % c, n = i / hw / c;
  y[(n * hw + p) * c + ch] = x[i];
}
void go(const float* x, float* y, int total, int c, int hw) { permute<<<total / 256 + 1, 256>>>(x, y, total, c, hw); }
"""
CHANNELS = """
__global__ void scaled(int count, const float* x, const float* scale, float* y, int channels, int inner) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[i] * scale[(i / inner) % channels];
}
void go(int n, const float* x, const float* s, float* y, int channels, int inner) {
  scaled<<<(n + 255) / 256, 256>>>(n, x, s, y, channels, inner);
}
"""
SHARED_BY_CHANNELS = CHANNELS.replace("int inner)", "int inner, int each)").replace("% channels]", "% channels / each]")
SHARED_BY_CHANNELS = SHARED_BY_CHANNELS.replace("channels, inner);", "channels, inner, each);")
PART = """
struct Blob { int count() const; int shape(int axis) const; };
__global__ void pick(int count, int inner, const float* x, const int* row, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[row[i / inner] * inner + i % inner] = x[i];
}
void go(Blob& from, const float* x, const int* row, float* y) {
  pick<<<(from.count() + 255) / 256, 256>>>(from.count(), from.count() / from.shape(0), x, row, y);
}
"""
GROUPED = """
__global__ void scaled(const float* x, const float* scale, float* y, int n, int group) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * scale[i / group];
}
void go(const float* x, const float* s, float* y, int n, int group) { scaled<<<n / 256 + 1, 256>>>(x, s, y, n, group); }
"""


@pytest.mark.parametrize(
    ("source", "shapes"),
    [
        (BIAS + GIVEN, {"x": ("n_rows", "cols"), "w": ("cols",), "out": ("n_rows", "cols")}),
        (BIAS + TENSOR, {"x": ("rows", "cols"), "w": ("cols",), "out": ("rows", "cols")}),
        (BIAS + LAST, {"x": ("n_rows", "cols"), "w": ("cols",), "out": ("n_rows", "cols")}),
        (BIAS + MADE, {"x": ("rows", "cols"), "w": ("cols",), "out": ("rows", "cols")}),
        (BIAS + VECTORS, {"x": ("rows", "cols"), "w": ("cols",), "out": ("rows", "cols")}),
        (QUOTIENT, {"a": ("n", "d"), "b": ("n",), "out": ("n", "d")}),
        (LAYOUT, {"x": ("total_rows", "c", "hw"), "y": ("total_rows", "hw", "c")}),
        (CHANNELS, {"x": ("count_rows", "channels", "inner"), "scale": ("channels",),
                    "y": ("count_rows", "channels", "inner")}),
        (SHARED_BY_CHANNELS, {"x": ("count_rows", "channels", "inner"), "scale": ("cdiv(channels, each)",),
                              "y": ("count_rows", "channels", "inner")}),
        (PART, {"x": ("from_shape_0", "inner"), "row": ("from_shape_0",), "y": ("from_shape_0", "inner")}),
        (GROUPED, {"x": ("n",), "scale": ("cdiv(n, group)",), "y": ("n",)}),
    ],
    ids=["given", "tensor", "last-extent", "made", "vectors", "quotient", "layout", "channels", "shared-by-channels",
         "part", "groups"],
)  # fmt: skip
def test_sizes_that_belong_together_are_tied(source: str, shapes: dict[str, tuple[str, ...]]) -> None:
    d = draft(ktc.loads(source).kernel)
    assert {b: e and e.shape for b, e in d.shapes.items()} == shapes
    assert not d.doubts


def test_the_launch_asks_the_host_for_its_numbers_of_elements() -> None:
    """What a draft says of one call is nothing that a launcher may compute its grid from."""
    k = ktc.loads(QUOTIENT).kernel
    assert [p.sym.name for p in k.params if p.host] == ["a_numel"]
    assert k.launch is not None and [n for n, _ in k.launch.passed] == ["a_numel"]


STEP = """
__global__ void evolve(const float* now, float* next, int nx, int ny) {
  int i = threadIdx.x + blockIdx.x * blockDim.x, j = threadIdx.y + blockIdx.y * blockDim.y;
  if (i > 0 && i < nx - 1 && j > 0 && j < ny - 1)
    next[i * ny + j] = now[(i - 1) * ny + j] + now[(i + 1) * ny + j] + now[i * ny + j - 1] + now[i * ny + j + 1];
}
void go(const float* now, float* next, int nx, int ny) {
  evolve<<<dim3(nx / 16 + 1, ny / 16 + 1), dim3(16, 16)>>>(now, next, nx, ny);
}
"""


def test_a_corner_that_nobody_reads_is_allocated() -> None:
    d = draft(ktc.loads(STEP).kernel)
    assert {b: e and e.shape for b, e in d.shapes.items()} == {"now": ("nx", "ny"), "next": ("nx", "ny")}


def test_three_rows_of_a_size_are_no_rows_of_three() -> None:
    source = """
    __global__ void means(const float* x, float* y, int n, int cols) {
      int c = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
      if (c >= cols) return;
      float s = 0.f;
      for (int i = 0; i < n; i++) s += x[(b * n + i) * cols + c];
      y[c + b * cols * 3] = s;
      y[c + b * cols * 3 + cols] = 2.f * s;
      y[c + b * cols * 3 + 2 * cols] = 3.f * s;
    }
    void go(const float* x, float* y, int batch, int n, int cols) {
      means<<<dim3((cols + 63) / 64, batch), 64>>>(x, y, n, cols);
    }
    """
    assert longest_rows(load(source, name="k.cu"), {"n", "cols"}, {}) == {}


def test_an_index_that_is_searched_for_has_no_rows() -> None:
    """Each step of the search adds two values of the one before: written out, the index would be 2^40 summands."""
    steps = "\n".join(f"  let p{n + 1}: i32 = p{n} / 2 + p{n} * 3" for n in range(40))
    kernel = parse_kernel(f"""\
kernel k(x: f32 const*, y: f32*, n: i32)
  launch grid(n) block(32)
  let p0: i32 = blockIdx.x as i32 * 32 + threadIdx.x as i32
{steps}
  y[p40] = x[p0]
""")
    assert longest_rows(kernel, {"n"}, {}) == {}


def test_an_index_that_is_counted_on_in_many_places_is_a_sum_of_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is where a stencil loads what lies before it: not a sum of sums of them."""
    steps = "".join(f"  z[{k}] = x[at]\n  at += 32 * n\n" for k in range(12))
    kernel = parse_kernel(f"""\
kernel k(x: f32 const*, z: f32*, n: i32)
  launch grid(1) block(1)
  var at: i32 = 0
{steps}""")
    asked = 0
    most = Largest.most

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal asked
        asked += 1
        assert asked < 50_000
        return most(*args, **kwargs)

    monkeypatch.setattr(Largest, "most", counted)
    assert longest_rows(kernel, {"n"}, {}) == {}


HEADS = """
__global__ void attend(const float* q, const float* cache, float* scores, int last, int longest, int dim,
                       int heads_each, int size, int offset) {
  int h = blockIdx.x;
  float* row = scores + h * longest;
  for (int t = threadIdx.x; t <= last; t += blockDim.x) {
    float s = 0;
    for (int i = 0; i < size; i++) s += q[h * size + i] * cache[offset + t * dim + (h / heads_each) * size + i];
    row[t] = s;
  }
}
struct Config { int heads, each; };
void go(const Config* c, const float* q, const float* k, float* s, int last, int longest, int dim, int size,
        int layer) {
  int offset = layer * longest * dim;
  attend<<<c->heads, 64>>>(q, k, s, last, longest, dim, c->each, size, offset);
}
"""


def test_strides_that_a_launch_passes_products_of_are_as_long_as_their_rows() -> None:
    """One whose row follows no product of sizes leaves the strides of other buffers alone."""
    d = draft(ktc.loads(HEADS).kernel)
    assert d.roles.tied["longest"] == "last + 1"
    assert not any("race" in x for x in d.doubts)


COLUMN = """
__global__ void pick(const float* x, const int* columns, float* y, int rows, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (i < n) y[row * n + i] = (x + row * n)[columns[i]];
}
void go(const float* x, const int* columns, float* y, int rows, int n) {
  pick<<<dim3((n + 63) / 64, rows), 64>>>(x, columns, y, rows, n);
}
"""


def test_a_column_that_data_say_is_within_its_row() -> None:
    """As numbers of their own, columns would reach beyond the last row."""
    d = draft(ktc.loads(COLUMN).kernel)
    assert d.tied("columns_values") == "n"
    assert {b: e and e.shape for b, e in d.shapes.items()} == {
        "x": ("rows", "n"),
        "columns": ("n",),
        "y": ("rows", "n"),
    }
    assert not d.doubts


def test_a_place_behind_an_offset_is_no_column() -> None:
    """``columns[i] + 1`` of the last column is in the next row."""
    k = ktc.loads(COLUMN.replace("[columns[i]]", "[columns[i] + i]")).kernel
    assert row_of(k, k.param("columns").sym) == ""


PACKED = """
__global__ void unpack(const unsigned* w, const int* from, unsigned* out, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x, row = blockIdx.y;
  if (i < n) out[row * n + i] = w[(from[row] DIVIDED) * n + i] >> (from[row] & 3);
}
void go(const unsigned* w, const int* from, unsigned* out, int rows, int n) {
  unpack<<<dim3((n + 63) / 64, rows), 64>>>(w, from, out, n);
}
"""


@pytest.mark.parametrize(("divided", "by"), [(">> 3", 8), ("/ 32", 32)])
def test_rows_that_hold_several_of_what_data_say_are_counted_whole(divided: str, by: int) -> None:
    """20 elements of which a row packs 8 are in three rows; and small numbers are all in the first."""
    w = draft(ktc.loads(PACKED.replace("DIVIDED", divided)).kernel).shapes["w"]
    assert w is not None and w.exact and w.shape == (f"cdiv(from_values, {by})", "n")


STAGED = """
__global__ void place(const int* to, const float* x, float* y, int rows, int n) {
  __shared__ int kept[32];
  int first = blockIdx.x * 32;
  if (first + threadIdx.x < rows) kept[threadIdx.x] = to[first + threadIdx.x];
  __syncthreads();
  for (int r = 0; r < 32 && first + r < rows; ++r)
    for (int i = threadIdx.x; i < n; i += 32) y[kept[r] * n + i] = x[(first + r) * n + i];
}
void go(const int* to, const float* x, float* y, int rows, int n) {
  place<<<(rows + 31) / 32, 32>>>(to, x, y, rows, n);
}
"""


def test_rows_that_data_choose_from_where_a_block_keeps_them_are_written_once() -> None:
    d = draft(ktc.loads(STAGED).kernel)
    assert [c.kind for c in d.contents] == ["distinct"] and d.tied("to_values") == "rows"
    assert not d.doubts


def test_a_row_that_a_pointer_was_moved_to_is_as_long_as_its_columns_say() -> None:
    """The sizes before it are no lengths of rows, however small they are in a probe."""
    source = """
    __global__ void spread(const float* g, const int* columns, float* sums, int b, int c, int n, int m) {
      int i = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, z = blockIdx.z;
      if (i >= n || y >= c || z >= b) return;
      sums += z * c * m;
      sums += y * m;
      columns += z * n + i;
      atomicAdd(sums + columns[0], g[(z * c + y) * n + i]);
    }
    void go(const float* g, const int* columns, float* sums, int b, int c, int n, int m) {
      spread<<<dim3((n + 63) / 64, c, b), 64>>>(g, columns, sums, b, c, n, m);
    }
    """
    k = ktc.loads(source).kernel
    assert row_of(k, k.param("columns").sym) == "m"
    other = ktc.loads(source.replace("sums += y * m", "sums += y * m + i")).kernel
    assert row_of(other, other.param("columns").sym) == ""
    d = draft(k)
    assert d.tied("columns_values") == "m" and not d.doubts


RANKS = """
__global__ void rank(int count, const float* x, const float* label, float* y, int pitch, int inner, int classes,
                     int top) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int r = i / inner, c = i % inner, better = 0;
  float mine = x[r * pitch + (int)label[i] * inner + c];
  for (int k = 0; k < classes AND better < top; k++) better += x[r * pitch + k * inner + c] > mine;
  y[i] = better;
}
void go(const float* x, const float* label, float* y, int rows, int pitch, int inner, int classes, int top) {
  int count = rows * inner;
  rank<<<(count + 255) / 256, 256>>>(count, x, label, y, pitch, inner, classes, top);
}
"""
RANKED = {"x": ("rows", "classes", "inner"), "label": ("rows", "inner"), "y": ("rows", "inner")}


@pytest.mark.parametrize("both", ["&&", "&"])
def test_rows_that_data_end_early_are_as_long_as_their_loops(both: str) -> None:
    d = draft(ktc.loads(RANKS.replace("AND", both)).kernel)
    assert {b: e and e.shape for b, e in d.shapes.items()} == RANKED
    assert d.tied("pitch") in ("inner * classes", "classes * inner")
    assert [(c.buffer, c.kind) for c in d.contents] == [("label", "index")]


BACK = """
__global__ void back(int count, const float* label, float* x, int pitch, int inner, int ignored) {
  int channels = pitch / inner;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int r = i / inner, s = i % inner, t = (int)label[i];
  if (t == ignored) {
    for (int c = 0; c < channels; ++c) x[r * pitch + c * inner + s] = 0;
  } else {
    x[r * pitch + t * inner + s] -= 1;
  }
}
void go(const float* label, float* x, int rows, int pitch, int inner) {
  int count = rows * inner;
  back<<<(count + 255) / 256, 256>>>(count, label, x, pitch, inner, -1);
}
"""


def test_what_is_gone_through_in_steps_is_a_multiple_of_them() -> None:
    d = draft(ktc.loads(BACK).kernel)
    assert d.tied("pitch") == "pitch_parts * inner"
    assert {b: e and e.shape for b, e in d.shapes.items()} == {
        "label": ("rows", "inner"), "x": ("rows", "pitch_parts", "inner"),
    }  # fmt: skip


EITHER = """
__global__ void k(const float* x, float* y, bool whole, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (whole) { y += i * 9; for (int c = 0; c < 9; c++) y[c] = x[i] * c; }
  else { y += i * 6; for (int c = 0; c < 6; c++) y[c] = x[i] * c; }
}
void go(const float* x, float* y, bool whole, int n) { k<<<(n + 127) / 128, 128>>>(x, y, whole, n); }
"""


def test_a_pointer_that_moves_one_way_or_another_moves_by_no_sum_of_both() -> None:
    d = draft(ktc.loads(EITHER).kernel)
    assert not d.doubts and not d.roles.room
    assert {b: (e.times, *e.factors) for b, e in d.shapes.items() if e is not None} == {"x": (1, "n"), "y": (9, "n")}


def test_windows_that_overlap_in_shared_memory_are_no_rows() -> None:
    """Each thread reads from its four elements on to the end: that is no row of four."""
    d = draft(
        ktc.loads("""
    __global__ void tails(const float* x, float* y, int T) {
      __shared__ float row[768];
      const int t = threadIdx.x * 4;
      for (int k = 0; k < 4; ++k) row[t + k] = x[blockIdx.x * T + t + k];
      __syncthreads();
      float sum = 0;
      for (int u = 0; u < T - t; ++u) sum += row[t + u];
      for (int k = 0; k < 4; ++k) y[blockIdx.x * T + t + k] = sum + k;
    }
    void go(const float* x, float* y, int B, int T) { tails<<<B, T / 4>>>(x, y, T); }""").kernel
    )
    assert d.roles.room.get("T", 768) == 768 and not d.doubts
    assert d.shapes["x"] is not None and d.scenarios[-1][1]["T"] >= 4


PLACED = """
__global__ void gather(const float* from, float* to, const int* at, int batch, int length, int width) {
  int b = at[blockIdx.x] / length, s = at[blockIdx.x] % length;
  for (int i = threadIdx.x; i < width; i += 32) to[blockIdx.x * width + i] = from[(s * batch + b) * width + i];
}
void run(const float* from, float* to, const int* at, int batch, int length, int width, int tokens) {
  gather<<<tokens, 32>>>(from, to, at, batch, length, width);
}
"""


def test_places_that_a_size_takes_apart_are_places_in_all_parts() -> None:
    d = draft(ktc.loads(PLACED).kernel)
    assert {*str(d.ties["at_values"]).split(" * ")} == {"batch", "length"}
    e = d.shapes["from"]
    assert e is not None and e.value({"batch": 3, "length": 5, "width": 7}) == 105
