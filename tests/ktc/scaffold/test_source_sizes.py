"""Drafts of kernels whose sizes are constants of the source: probes take smaller ones, shapes are the constants'."""

from __future__ import annotations

import pytest

import ktc
from ktc.ir.interp.run import run
from ktc.scaffold import draft, probe

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
