"""Drafts of kernels on levels of an image pyramid that lie one behind the other."""

from __future__ import annotations

import ktc
from ktc.scaffold import Draft, draft

SAMPLED = """
__global__ void sampled(const float* value, const int* shapes, const int* starts, const float* where, float* out,
                        int total, int levels, int rows, int dim) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
  if (i >= rows * dim) return;
  const int c = i % dim, r = i / dim;
  float sum = 0;
  for (int l = 0; l < levels; ++l) {
    const int h = shapes[2 * l], w = shapes[(l << 1) + 1];
    const float* level = value + b * total * dim + starts[l] * dim;
    const float y = where[((b * rows + r) * levels + l) * 2] * h - 0.5f;
    const float x = where[((b * rows + r) * levels + l) * 2 + 1] * w - 0.5f;
    if (y > 0 && x > 0 && y < h && x < w) sum += level[((int)y * w + (int)x) * dim + c];
  }
  out[(b * rows + r) * dim + c] = sum;
}
void go(const float* value, const int* shapes, const int* starts, const float* where, float* out, int batch, int total,
        int levels, int rows, int dim) {
  sampled<<<dim3((rows * dim + 127) / 128, batch), 128>>>(value, shapes, starts, where, out, total, levels, rows, dim);
}
"""


def drafted(source: str) -> Draft:
    return draft(ktc.loads(source).kernel)


def test_levels_are_half_as_wide_as_the_one_before_and_lie_one_behind_the_other() -> None:
    d = drafted(SAMPLED)
    assert not d.doubts and d.roles.fixed["levels"] == 4
    assert d.roles.listed["shapes"] == tuple(f"{8 >> n} * level".removeprefix("1 * ") for n in range(4) for _ in "hw")
    assert d.roles.listed["starts"] == ("0", "64 * level * level", "80 * level * level", "84 * level * level")
    assert d.tied("total") == "85 * level * level"
    sizes = {"batch": 2, "level": 3, "dim": 5, "rows": 7}
    assert d.elements(sizes)["value"] == 2 * 85 * 3 * 3 * 5 and d.elements(sizes)["where"] == 2 * 7 * 4 * 2


def test_pairs_that_no_table_of_starts_goes_with_are_no_levels() -> None:
    d = drafted(SAMPLED.replace("starts[l] * dim", "starts[0] * dim"))
    assert "shapes" not in d.roles.listed
