"""Drafts of kernels with windows, scatters, block tables and strides: what a person would have written."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import ktc
from ktc.ir.diagnostics import KtcError
from ktc.ir.fact_origins import is_alone, unvouched_pairs
from ktc.ir.workload import Workload
from ktc.scaffold import Draft, draft, workload_text
from ktc.search.verification import check_original
from ktc.search.verification.instances.instances import impossible

FILTER = """
__global__ void blur(const float* src, float* dst, int w, int h, int r) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  float sum = 0.0f;
  for (int dy = -r; dy <= r; ++dy)
    for (int dx = -r; dx <= r; ++dx) sum += src[min(max(y + dy, 0), h - 1) * w + min(max(x + dx, 0), w - 1)];
  dst[y * w + x] = sum;
}
"""
CONV = """
__global__ void conv(const float* in, const float* w, float* out, int C, int H, int W, int OC, int KS) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, oc = blockIdx.z;
  int OH = H - KS + 1, OW = W - KS + 1;
  if (x >= OW || y >= OH) return;
  float sum = 0.0f;
  for (int c = 0; c < C; ++c)
    for (int i = 0; i < KS; ++i)
      for (int j = 0; j < KS; ++j) sum += in[c * H * W + (y + i) * W + x + j] * w[((oc * C + c) * KS + i) * KS + j];
  out[oc * OH * OW + y * OW + x] = sum;
}
void go(const float* i, const float* w, float* o, int C, int H, int W, int OC, int KS) {
  conv<<<dim3((W - KS + 8) / 8, (H - KS + 8) / 8, OC), dim3(8, 8)>>>(i, w, o, C, H, W, OC, KS);
}
"""
PERMUTE = """
__global__ void permute(float* out, const float* in, const int* to, int n, int d) {
  for (int c = threadIdx.x; c < d; c += blockDim.x) out[to[blockIdx.x] * d + c] = in[blockIdx.x * d + c];
}
void go(float* out, const float* in, const int* to, int n, int d) { permute<<<n, 64>>>(out, in, to, n, d); }
"""
SLOTS = """
__global__ void store(const float* key, float* cache, const long long* slots, int width, int block_size) {
  long long slot = slots[blockIdx.x];
  long long block = slot / block_size, place = slot % block_size;
  for (int i = threadIdx.x; i < width; i += blockDim.x)
    cache[block * width * block_size + i * block_size + place] = key[blockIdx.x * width + i];
}
void go(const float* k, float* c, const long long* s, int tokens, int width, int block_size) {
  store<<<tokens, 64>>>(k, c, s, width, block_size);
}
"""
CENTRED = """
__global__ void centre(const float* in, float* out, int n) {
  __shared__ float s[64];
  int t = threadIdx.x;
  float a = 0.f;
  for (int i = t; i < n; i += 64) a += in[blockIdx.x * n + i];
  s[t] = a;
  __syncthreads();
  for (int w = 32; w > 0; w >>= 1) {
    if (t < w) s[t] += s[t + w];
    __syncthreads();
  }
  float mean = s[0] / n;
  for (int i = t; i < n; i += 64) out[blockIdx.x * n + i] = in[blockIdx.x * n + i] - mean;
}
void go(const float* in, float* out, int n, int rows) { centre<<<rows, 64>>>(in, out, n); }
"""
LOSS = """
__global__ void loss(float* out, const float* scores, const int* label, int V) {
  const float* x = scores + blockIdx.x * V;
  float s = 0.0f;
  for (int i = 0; i < V; ++i) s += x[i];
  if (threadIdx.x == 0) out[blockIdx.x] = s - x[label[blockIdx.x]];
}
void go(float* o, const float* s, const int* l, int rows, int V) { loss<<<rows, 32>>>(o, s, l, V); }
"""
ROTATED = """
__global__ void rotate(float* q, const float* angle, const long long* pos, int dim, long long token_stride,
                       long long head_stride, int heads) {
  int half = dim / 2;
  const float* a = angle + pos[blockIdx.x] * dim;
  for (int i = threadIdx.x; i < heads * half; i += blockDim.x) {
    float* x = q + blockIdx.x * token_stride + i / half * head_stride;
    int j = i % half;
    float u = x[j], v = x[j + half];
    x[j] = u * a[j] - v * a[j + half];
    x[j + half] = v * a[j] + u * a[j + half];
  }
}
void go(float* q, const float* a, const long long* p, int tokens, int dim, long long ts, long long hs, int heads) {
  rotate<<<tokens, 64>>>(q, a, p, dim, ts, hs, heads);
}
"""
BATCHED = """
__global__ void taps(const float* x, const float* w, float* out, int dim, int len) {
  int l = blockIdx.x * blockDim.x + threadIdx.x, d = blockIdx.y, b = blockIdx.z;
  if (l >= len) return;
  const float* row = x + (b * dim + d) * len;
  out[(b * dim + d) * len + l] = w[2 * d] * row[l] + (l > 0 ? w[2 * d + 1] * row[l - 1] : 0.0f);
}
"""
PAGES = """
__global__ void gather(const float* cache, const int* table, float* out, int length, int width, int page, int most) {
  int pos = blockIdx.x, seq = blockIdx.y;
  if (pos >= length) return;
  int b = table[seq * most + pos / page];
  for (int i = threadIdx.x; i < width; i += blockDim.x)
    out[(seq * length + pos) * width + i] = cache[(b * page + pos % page) * width + i];
}
"""
MASKED = """
__global__ void masked(const float* x, const unsigned char* keep, const int* kind, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = keep[i] ? x[i] : (kind[i] > 0 ? x[2 * i + 1] : 0.0f);
}
void go(const float* x, const unsigned char* k, const int* t, float* o, int n) {
  masked<<<(n + 63) / 64, 64>>>(x, k, t, o, n);
}
"""
POOLED = """
__global__ void pool(const float* in, float* out, int H, int W, int OH, int OW, int stride) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.z;
  if (x >= OW || y >= OH) return;
  float most = -1e30f;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) {
      int v = y * stride - 1 + i, u = x * stride - 1 + j;
      if (v >= 0 && v < H && u >= 0 && u < W) most = fmaxf(most, in[(c * H + v) * W + u]);
    }
  out[(c * OH + y) * OW + x] = most;
}
void go(const float* in, float* out, int C, int H, int W) {
  int OH = (H + 2 - 3) / 2 + 1, OW = (W + 2 - 3) / 2 + 1;
  pool<<<dim3((OW + 7) / 8, (OH + 7) / 8, C), dim3(8, 8)>>>(in, out, H, W, OH, OW, 2);
}
"""
FIXED_ROWS = """
__global__ void centre(const float* x, float* y, int n) {
  float s = 0.0f;
  for (int i = 0; i < n; ++i) s += x[blockIdx.x * n + i];
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = x[blockIdx.x * n + i] - s / n;
}
void go(const float* x, float* y, int rows) { centre<<<rows, 64>>>(x, y, 2048); }
"""


def drafted(source: str) -> Draft:
    return draft(ktc.loads(source).kernel)


def shapes(d: Draft) -> dict[str, tuple[str, ...]]:
    return {name: extent.shape for name, extent in d.shapes.items() if extent is not None}


def test_a_window_is_small_and_no_shape_depends_on_it() -> None:
    d = drafted(FILTER)
    assert shapes(d) == {"src": ("h", "w"), "dst": ("h", "w")}
    assert all(s["r"] <= 8 for _, s, _ in d.scenarios) and {s["r"] for name, s, _ in d.scenarios if name != "odd"} <= {
        1,
        2,
    }


def test_what_a_window_leaves_of_a_size_is_a_dimension() -> None:
    d = drafted(CONV)
    assert shapes(d) == {
        "in": ("C", "H", "W"), "w": ("OC", "C", "KS", "KS"), "out": ("OC", "H - KS + 1", "W - KS + 1")
    }  # fmt: skip
    assert not d.doubts


def test_places_that_stores_go_to_differ() -> None:
    d = drafted(PERMUTE)
    assert [(c.buffer, c.kind) for c in d.contents] == [("to", "distinct")] and d.ties == {"to_values": "n"}
    assert shapes(d)["out"] == ("n", "d")


def test_a_slot_is_a_place_in_one_of_as_many_blocks() -> None:
    d = drafted(SLOTS)
    assert d.ties == {"slots_values": "tokens * block_size"} and not d.doubts
    assert shapes(d) == {"key": ("tokens", "width"), "cache": ("tokens", "width", "block_size"), "slots": ("tokens",)}


def test_what_a_mean_divides_by_is_a_size_like_any_other() -> None:
    """``s[0] / n`` of floats says nothing about extents: rows are long, not the two elements of a part."""
    sizes = {name: (s["n"], s["rows"]) for name, s, _ in draft(ktc.loads(CENTRED).kernel).scenarios}
    assert sizes["large"][0] >= 1024 and sizes["large"][1] >= 1024


def test_heads_and_tokens_do_not_overlap() -> None:
    """A stride bounds nothing, so that no run goes out of bounds for a short one: blocks write what others do."""
    d = drafted(ROTATED)
    assert d.tied("head_stride") == "dim" and d.tied("token_stride") == "dim * heads"
    assert shapes(d) == {
        "q": ("tokens", "heads", "dim"), "angle": ("pos_values", "dim"), "pos": ("tokens",)
    }  # fmt: skip
    assert not d.doubts and d.steps == {"dim": 2}


def test_a_stride_is_counted_in_what_it_is_multiplied_by() -> None:
    """``(b * dim + d) * len``: as many rows as there are, not as many elements."""
    d = drafted(BATCHED)
    assert d.tied("dim") is None and d.tied("len") is None and not d.constants
    assert d.launch is not None and d.launch.grid[1:] == ("dim", "blocks_z")  # as stores step over a row of blocks
    assert shapes(d)["x"] == ("blocks_z", "dim", "len")


def test_a_table_has_room_for_all_pages() -> None:
    d = drafted(PAGES)
    assert d.tied("most") == "cdiv(length, page)" and not d.constants
    assert shapes(d)["table"] == ("blocks_y", "cdiv(length, page)")
    assert sorted(shapes(d)["cache"]) == ["page", "table_values", "width"]


def test_a_mask_is_zero_or_one(tmp_path: Path) -> None:
    """Whatever is not 0 does the same: of 256 values drawn at random one in 256 would mask anything."""
    d = drafted(MASKED)
    assert {c.buffer: c.most for c in d.contents} == {"keep": 2, "kind": 2}
    assert d.limits == {"keep_values": 2, "kind_values": 2} and not d.constants


def test_what_the_host_computes_is_a_dimension() -> None:
    """A quarter of the image fits sizes that are even; the source's own formula fits all of them."""
    d = drafted(POOLED)
    out = d.shapes["out"]
    assert out is not None and not d.doubts and not d.steps
    assert [out.value({"C": 3, "H": h, "W": 9}) for h in (7, 8, 9)] == [3 * 4 * 5, 3 * 4 * 5, 3 * 5 * 5]


def test_rows_of_a_fixed_length_are_as_many_as_the_grid() -> None:
    """2048 elements a row are exact at every number of rows, however many that is: rows are no constant."""
    d = drafted(FIXED_ROWS)
    assert shapes(d) == {"x": ("2048 * rows",), "y": ("2048 * rows",)} and not d.ties
    assert {name: s["rows"] for name, s, _ in d.scenarios}["large"] >= 1024


def test_a_label_in_a_row_that_is_read_anyway_is_an_index() -> None:
    d = drafted(LOSS)
    assert [(c.buffer, c.kind) for c in d.contents] == [("label", "index")] and d.ties == {"label_values": "V"}


@pytest.mark.parametrize(
    "source", [FILTER, CONV, PERMUTE, SLOTS, ROTATED], ids=["filter", "conv", "permute", "slots", "rotated"]
)
def test_the_source_runs_clean_as_drafted(source: str, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(source)
    program = ktc.load(str(tmp_path / "k.cu"))
    assert program.source is not None
    (tmp_path / "workload.toml").write_text(
        workload_text(program.kernel, program.source, tmp_path / "workload.toml")[0]
    )
    work = Workload.load(tmp_path)
    assert check_original(work.load_kernel(), work) == []


def test_callers_promise_what_loops_take_for_granted(tmp_path: Path) -> None:
    """Without it, what is stored might be what is still to be read, and no tile is staged."""
    (tmp_path / "k.cu").write_text(FILTER)
    program = ktc.load(str(tmp_path / "k.cu"))
    assert program.source is not None
    text, todo = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    assert text.count("noalias = true") == 1 and any(t.startswith("noalias of dst") for t in todo)
    (tmp_path / "workload.toml").write_text(text)

    def promised() -> set[str]:
        return {p.sym.name for p in Workload.load(tmp_path).load_kernel().params if is_alone(p)}

    assert promised() == set(), "a guess is no promise"
    guessed = unvouched_pairs(Workload.load(tmp_path).load_kernel())
    assert [(p.sym.name, q.sym.name) for p, q in guessed] == [("src", "dst")], "a launcher can test it"
    (tmp_path / "workload.toml").write_text(re.sub(r'"noalias"(, )?', "", text))
    assert promised() == {"dst"}
    (tmp_path / "workload.toml").write_text(text.replace("noalias = true", "noalias = 1"))
    with pytest.raises(KtcError, match="noalias is true or false"):
        Workload.load(tmp_path)


def test_distinct_values_differ_and_sizes_without_enough_of_them_are_impossible(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(PERMUTE)
    program = ktc.load(str(tmp_path / "k.cu"))
    assert program.source is not None
    text = workload_text(program.kernel, program.source, tmp_path / "workload.toml")[0]
    (tmp_path / "workload.toml").write_text(text.replace('range = [0, "n - 1"]', 'range = [0, "d"]'))
    work = Workload.load(tmp_path)
    assert len(np.unique(work.make_inputs({"n": 50, "d": 64})["to"])) == 50
    assert impossible(work, (("n", 50), ("d", 48))) and not impossible(work, (("n", 50), ("d", 49)))
    assert impossible(work, (("n", 50), ("d", -1)))  # no value at all
    with pytest.raises(KtcError, match="50 elements cannot all differ"):
        work.make_inputs({"n": 50, "d": 48})
