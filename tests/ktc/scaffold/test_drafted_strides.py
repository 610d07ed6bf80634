"""Strides of tensors: as long as what lies in between, whatever order and units they come in."""

from __future__ import annotations

import pytest

import ktc
from ktc.scaffold import draft
from ktc.scaffold.footprints import stride_ties
from ktc.scaffold.roles import roles_of

HEADS = """
__global__ void join(const float* a, float* out, int items, int heads, long a0, int a1, long o0, int o1) {
  int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  int row = warp / heads, head = warp % heads;
  if (warp >= items) return;
  out[row * o0 + head * o1 + lane] = a[row * a0 + head * a1 + lane];
}
void go(torch::Tensor a, torch::Tensor out) {
  TORCH_CHECK_EQ(a.size(1), out.size(1));
  const int items = a.size(0) * a.size(1);
  join<<<(items + 7) / 8, 256>>>(a.data_ptr<float>(), out.data_ptr<float>(), items, a.size(1), a.stride(0),
                                 a.stride(1), out.stride(0), out.stride(1));
}
"""


def test_remainders_have_inner_strides_and_quotients_outer_ones() -> None:
    """Taken in the order of the parameters, the outer stride would be as long as one head."""
    d = draft(ktc.loads(HEADS).kernel)
    assert [d.tied(n) for n in ("a1", "o1", "a0", "o0")] == [32, 32, "32 * heads", "32 * heads"]
    assert not d.doubts


def test_a_product_of_a_known_and_an_unknown_extent_is_no_size_of_its_own() -> None:
    """The host's ``items`` is ``a.size(0) * heads``; that ``out`` has as many heads gives them no second name."""
    d = draft(ktc.loads(HEADS).kernel)
    assert d.tied("items") == "a_size_0 * heads"
    assert d.names == ["heads", "a_size_0"]


CHUNKS = """
__global__ void copy(const short* a, short* out, int n, long a0, int a1, long o0, int o1) {
  int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  int row = warp / 4, chunk = warp % 4;
  if (row >= n) return;
  const int2* from = reinterpret_cast<const int2*>(a + row * a0 + chunk * 8 * a1) + lane;
  int2* to = reinterpret_cast<int2*>(out + row * o0 + chunk * 8 * o1) + lane;
  for (int i = 0; i < 8; ++i) {
    *to = *from;
    from += a1 UNITS;
    to += o1 UNITS;
  }
}
void go(const short* a, short* out, int n, long a0, int a1, long o0, int o1) {
  copy<<<(n * 4 + 7) / 8, 256>>>(a, out, n, a0, a1, o0, o1);
}
"""


@pytest.mark.parametrize("units", [">> 2", "/ 4"])
def test_strides_in_vectors_are_strides_in_elements(units: str) -> None:
    """A pointer to vectors is moved on by a fourth of a stride; a head of 32 vectors has 128 elements."""
    d = draft(ktc.loads(CHUNKS.replace("UNITS", units)).kernel)
    assert [d.tied(n) for n in ("a1", "o1", "a0", "o0")] == [128, 128, 4096, 4096]
    assert {b: e and e.shape for b, e in d.shapes.items()} == dict.fromkeys(("a", "out"), ("4096 * n",))
    assert not d.doubts


CHOSEN = """
__global__ void store(const float* x, const int* slots, float* cache, int n, int d, int pitch) {
  int row = blockIdx.x;
  for (int i = threadIdx.x; i < d; i += blockDim.x) cache[slots[row] * pitch + i] = x[row * d + i];
}
void go(const float* x, const int* slots, float* cache, int n, int d, int pitch) {
  store<<<n, 64>>>(x, slots, cache, n, d, pitch);
}
"""


def test_rows_that_data_choose_are_as_long_as_what_is_reached_in_one() -> None:
    """As a size of its own the pitch would be shorter than a row: two blocks would write the same elements."""
    d = draft(ktc.loads(CHOSEN).kernel)
    assert d.tied("pitch") == "d"
    assert {b: e and e.shape for b, e in d.shapes.items()} == {"x": ("n", "d"), "slots": ("n",), "cache": ("n", "d")}
    assert [c.kind for c in d.contents] == ["distinct"]
    assert not d.doubts


BESIDE = """
__global__ void look(const float* table, const int* rows, const int* cols, float* out, int n, int pitch) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = table[rows[i] * pitch + cols[i]];
}
void go(const float* table, const int* rows, const int* cols, float* out, int n, int pitch) {
  look<<<(n + 127) / 128, 128>>>(table, rows, cols, out, n, pitch);
}
"""


def test_how_long_a_row_is_in_which_data_choose_is_not_told_by_one_element() -> None:
    k = ktc.loads(BESIDE).kernel
    assert stride_ties(k, roles_of(k)) == {}


BYTES = """
__global__ void move(const double* x, double* y, long n, long pitch, long items) {
  long warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (warp >= n) return;
  for (long i = 0; i < items; ++i) y[warp * pitch + lane + i * 32] = x[warp * items * 32 + lane + i * 32];
}
void go(torch::Tensor x, torch::Tensor y) {
  const auto n = x.size(0);
  const auto bytes = x.element_size() * x.size(1);
  const auto pitch_bytes = x.element_size() * y.stride(0);
  const auto pitch = pitch_bytes / 8;
  const auto items = bytes / 256;
  move<<<(n + 7) / 8, 256>>>(x.data_ptr<double>(), y.data_ptr<double>(), n, pitch, items);
}
"""


def test_a_stride_that_the_host_converts_from_bytes_is_as_long_as_its_row() -> None:
    """The number of bytes is nothing but that stride: it is no size of its own."""
    d = draft(ktc.loads(BYTES).kernel)
    assert d.tied("pitch") == "cdiv(bytes, 8)" and d.names == ["n", "bytes"]
    assert not d.doubts


THREE = """
__global__ void step(const float* x, const int* slots, float* state, int n, int c, int len, int xn, int xc, int xl,
                     int sn, int sc, int sl) {
  int row = blockIdx.x, ch = blockIdx.y * 64 + threadIdx.x;
  if (ch >= c) return;
  int slot = slots == nullptr ? row : slots[row];
  for (int i = 0; i < len; ++i) state[slot * sn + ch * sc + i * sl] += x[row * xn + ch * xc + i * xl];
}
void go(const float* x, const int* slots, float* state, int n, int c, int len, int xn, int xc, int xl, int sn, int sc,
        int sl) {
  step<<<dim3(n, (c + 63) / 64), 64>>>(x, slots, state, n, c, len, xn, xc, xl, sn, sc, sl);
}
"""


def test_elements_that_several_strides_lead_to_lie_side_by_side() -> None:
    """The innermost has no elements in between; rows that data choose are the outermost."""
    d = draft(ktc.loads(THREE).kernel)
    assert [d.tied(n) for n in ("xc", "xl", "xn")] == [1, "c", "c * len"]
    assert [d.tied(n) for n in ("sc", "sl", "sn")] == [1, "c", "c * len"]
    assert d.names == ["n", "c", "len"] and not d.doubts


TURNED = """
__global__ void turn(float* q, float* k, const float* angle, int dim, long q_stride, long k_stride, long head_stride,
                     int heads, int kv_heads, long offset) {
  int half = dim / 2;
  const float* row = angle + blockIdx.x * dim;
  for (int i = threadIdx.x; i < heads * half; i += blockDim.x) {
    long at = blockIdx.x * q_stride + i / half * head_stride + offset;
    float x = q[at + i % half], y = q[at + half + i % half];
    q[at + i % half] = x * row[i % half] - y * row[half + i % half];
    q[at + half + i % half] = y * row[i % half] + x * row[half + i % half];
  }
  for (int i = threadIdx.x; i < kv_heads * half; i += blockDim.x) {
    long at = blockIdx.x * k_stride + i / half * head_stride + offset;
    k[at + i % half] *= row[i % half];
    k[at + half + i % half] *= row[half + i % half];
  }
}
void go(float* q, float* k, const float* a, int tokens, int dim, long qs, long ks, long hs, int heads, int kv, long o) {
  turn<<<tokens, 128>>>(q, k, a, dim, qs, ks, hs, heads, kv, o);
}
"""


def test_where_everything_begins_says_nothing_of_how_far_things_are_apart() -> None:
    d = draft(ktc.loads(TURNED).kernel)
    assert d.tied("head_stride") == "dim" and d.tied("q_stride") == "dim * heads"
    assert d.tied("k_stride") == "dim * kv_heads" and d.tied("offset") == 0
    shapes = {b: e.shape for b, e in d.shapes.items() if e is not None}
    assert shapes["q"] == ("tokens", "heads", "dim") and shapes["k"] == ("tokens", "kv_heads", "dim")


SPLICED = """
__global__ void splice(const float* x, float* y, int dim, int left, int right, int pitch, int lane_pitch) {
  const int frame = blockIdx.x, size = left + right + 1;
  float* out = y + blockIdx.y * lane_pitch + frame * pitch;
  for (int i = 0; i < size; i++) {
    for (int c = threadIdx.x; c < dim; c += blockDim.x) {
      out[i * dim + c] = x[(blockIdx.y * gridDim.x + frame) * dim + c];
    }
  }
}
void go(const float* x, float* y, int dim, int left, int right, int pitch, int lane_pitch, int frames, int lanes) {
  splice<<<dim3(frames, lanes), 128>>>(x, y, dim, left, right, pitch, lane_pitch);
}
"""


def test_a_row_that_a_loop_over_a_sum_of_sizes_fills_is_that_long() -> None:
    d = draft(ktc.loads(SPLICED).kernel)
    assert not d.doubts
    assert d.roles.tied["pitch"] == "dim * (left + right + 1)"
    assert d.roles.tied["lane_pitch"] == "dim * frames * (left + right + 1)"


RESIZED = """
__global__ void nearest(float* out, const float* in, int channels, int ih, int iw, int oh, int ow) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= oh * ow) return;
  int x = i % ow, y = i / ow;
  int from_x = x * iw / ow, from_y = y * ih / oh;
  for (int c = 0; c < channels; ++c)
    out[(c * oh + y) * ow + x] = in[(c * ih + from_y) * iw + RIGHT] - in[(c * ih + from_y) * iw + from_x];
}
void go(float* out, const float* in, int channels, int ih, int iw, int oh, int ow) {
  nearest<<<(oh * ow + 63) / 64, 64>>>(out, in, channels, ih, iw, oh, ow);
}
"""


@pytest.mark.parametrize("right", ["min(from_x + 1, iw - 1)", "from_x"])
def test_what_a_place_is_scaled_by_is_no_stride_and_nothing_is_made_of_itself(right: str) -> None:
    """``ih`` was taken for the largest ``y * ih / oh`` and one more, which the draft never came to the end of."""
    d = draft(ktc.loads(RESIZED.replace("RIGHT", right)).kernel)
    shapes = {b: e.shape for b, e in d.shapes.items() if e is not None}
    assert shapes == {"out": ("channels", "oh", "ow"), "in": ("channels", "ih", "iw")}
