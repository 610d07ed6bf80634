"""Drafts of kernels whose sizes are constants of the source: probes take smaller ones, shapes are the constants'."""

from __future__ import annotations

import pytest

import ktc
from ktc.ir.interp.run import run
from ktc.scaffold import draft, probe
from ktc.scaffold.source_sizes import opened

NEAREST = """
constexpr int N = 10000;
__global__ void nearest(const float* p, float* o) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= N) return;
  float best = 1e30f;
  for (int j = 0; j < N; j++)
    if (j != i) best = fminf(best, fabsf(p[j] - p[i]) + fabsf(p[2 * N + j] - p[2 * N + i]));
  o[i] = best;
}
void go(const float* p, float* o) { nearest<<<(N + 63) / 64, 64>>>(p, o); }
"""
PRODUCT = """
template <int N> __global__ void product(const float* a, const float* b, float* o, int rows) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= N) return;
  float s = 0;
  for (int k = 0; k < N; k++) s += a[y * N + k] * b[k * N + x];
  o[y * N + x] = s;
}
void go(const float* a, const float* b, float* o, int rows) {
  product<2000><<<dim3((2000 + 255) / 256, rows), 256>>>(a, b, o, rows);
}
"""
IMAGE = """
#define W 8192
#define H 4096
__global__ void twice(const float* a, float* o) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= W || y >= H) return;
  o[y * W + x] = 2 * a[y * W + x];
}
void go(const float* a, float* o) { twice<<<dim3(W / 16, H / 16), dim3(16, 16)>>>(a, o); }
"""
ENDLESS = """
__global__ void spin(const int* next, int* out) {
  int at = threadIdx.x;
  while (next[at & 63] >= 0) at += 1;
  out[threadIdx.x] = at;
}
void go(const int* next, int* out) { spin<<<1, 64>>>(next, out); }
"""


@pytest.mark.parametrize(
    ("source", "shapes", "sizes"),
    [
        (NEAREST, {"p": ("30000",), "o": ("10000",)}, []),
        (PRODUCT, {"a": ("rows", "2000"), "b": ("4000000",), "o": ("rows", "2000")}, ["rows"]),
        (IMAGE, {"a": ("33554432",), "o": ("33554432",)}, []),
    ],
    ids=["constexpr", "template", "macros"],
)
def test_shapes_of_constant_sizes(source: str, shapes: dict[str, tuple[str, ...]], sizes: list[str]) -> None:
    d = draft(ktc.loads(source).kernel)
    assert {b: e and e.shape for b, e in d.shapes.items()} == shapes
    assert all(e and e.plausible for e in d.shapes.values()) and not d.doubts
    assert d.names == sizes and all([*at] == sizes for _, at, _ in d.scenarios)


def test_a_draft_of_long_loops_takes_few_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the constants as they are, one probe would take hundreds of thousands."""
    taken: list[int] = []

    def counted(*args: object, **more: object) -> object:
        result = run(*args, **more)  # type: ignore[arg-type]
        taken.append(result.steps)
        return result

    monkeypatch.setattr(probe, "run", counted)
    draft(ktc.loads(NEAREST).kernel)
    assert sum(taken) < 20_000


def test_what_does_not_end_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []

    def counted(*args: object, **more: object) -> object:
        tried.append(args)
        return run(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(probe, "run", counted)
    draft(ktc.loads(ENDLESS).kernel)
    assert len(tried) < 16


BIASED = """
struct Layer { float* to; const float* from; int words, heads, per_head, hidden; };
__global__ void turn(Layer p) {
  const int part = p.per_head / 4;
  const int i = threadIdx.z * (p.hidden / 4) + threadIdx.y * part + threadIdx.x;
  const int at = threadIdx.y * 3 * part + threadIdx.z * part + threadIdx.x;
  for (int k = 0; k < 4; ++k) {
    p.to[blockIdx.x * 3 * p.hidden + at * 4 + k] = p.from[blockIdx.x * 3 * p.hidden + i * 4 + k];
  }
}
void run(float* to, const float* from, int batch, int length, int hidden, int heads) {
  int words = batch * length, per_head = hidden / heads;
  Layer p{to, from, words, heads, per_head, heads * per_head};
  turn<<<dim3(p.words), dim3(p.per_head / 4, p.heads, 3)>>>(p);
}
int main() {
  int batch = 8, length = 1024, hidden = 768, heads = 12;
  run(0, 0, batch, length, hidden, heads);
}
"""


def test_a_grid_of_a_number_that_the_launch_passes_is_looked_at_smaller() -> None:
    """Extents that are numbers are no rows: 768 / 16 elements of a head and 2304 of a word."""
    d = draft(ktc.loads(BIASED).kernel)
    assert {b: e and e.value({}) for b, e in d.shapes.items()} == {"p_to": 8192 * 2304, "p_from": 8192 * 2304}
    assert not d.names and d.roles.fixed["p_words"] == 8192


BLURRED = """
__global__ void blur(const unsigned char* data, unsigned char* out, int rows, int cols) {
  extern __shared__ int tile[];
  const int wide = blockDim.x + 2, row = threadIdx.y + 1, col = threadIdx.x + 1;
  const int pos = (blockIdx.y * blockDim.y + row) * cols + blockIdx.x * blockDim.x + col;
  tile[row * wide + col] = data[pos] + data[pos - cols] + data[pos + cols];
  __syncthreads();
  out[pos] = tile[row * wide + col] / 3;
}
void go(const unsigned char* data, unsigned char* out, int rows, int cols, int threads) {
  blur<<<dim3((cols - 2) / threads, (rows - 2) / threads), dim3(threads, threads),
         (threads + 2) * (threads + 2) * sizeof(int)>>>(data, out, rows, cols);
}
"""


def test_the_row_above_is_no_window_of_its_length() -> None:
    d = draft(ktc.loads(BLURRED).kernel)
    assert "cols" not in d.roles.halves and d.shapes["data"] is not None
    assert not d.doubts and d.scenarios[-2][1]["cols"] > 512


def test_many_threads_that_each_take_long_are_looked_at_as_fewer() -> None:
    k = ktc.loads("""
    #define WIDE 81
    #define HIGH 87296
    __global__ void norm(const float* x, float* y) {
      int i = blockIdx.x * 64 + threadIdx.x;
      if (i >= HIGH) return;
      float sum = 0;
      for (int j = 0; j < WIDE; ++j) sum += expf(x[(blockIdx.y * WIDE + j) * HIGH + i]);
      for (int j = 0; j < WIDE; ++j) y[(blockIdx.y * WIDE + j) * HIGH + i] = sum;
    }
    void go(const float* x, float* y) { norm<<<dim3((HIGH + 63) / 64, 16), 64>>>(x, y); }""").kernel
    assert {*opened(k)[1].values()} == {81, 87296}
    d = draft(k)
    assert {b: e and e.value({}) for b, e in d.shapes.items()} == dict.fromkeys("xy", 16 * 81 * 87296) and not d.names
