"""Drafts of kernels on caches in pages: tables of pages, and lengths of sequences."""

from __future__ import annotations

import ktc
from ktc.scaffold import draft

STORE = """
__global__ void store(const float* key, float* cache, const int* lengths, const int* table, int heads, int dim,
                      int block_size, long stride, int most) {
  const int seq = blockIdx.x;
  const int at = lengths[seq] - 1;
  const int slot = at % block_size;
  const int page = table[seq * most + at / block_size];
  const int hidden = heads * dim;
  if (page < 0) return;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    const int h = i / dim, d = i % dim;
    cache[(long)page * hidden * block_size + h * block_size * dim + slot * dim + d] = key[seq * stride + i];
  }
}
void go(const float* key, float* cache, const int* lengths, const int* table, int n, int heads, int dim, int block_size,
        long stride, int most) {
  store<<<n, 256>>>(key, cache, lengths, table, heads, dim, block_size, stride, most);
}
"""


def test_sequences_are_as_long_as_their_pages_and_no_two_share_one() -> None:
    d = draft(ktc.loads(STORE).kernel)
    assert not d.doubts
    contents = {c.buffer: c for c in d.contents}
    assert (contents["lengths"].kind, contents["lengths"].first) == ("index", 1)
    assert (contents["table"].kind, contents["table"].first) == ("distinct", 0)
    assert d.ties["lengths_values"] == "most * block_size" and d.ties["table_values"] == "n * most"
    shapes = {b: sorted(e.shape) for b, e in d.shapes.items() if e is not None}
    assert shapes["cache"] == ["block_size", "dim", "heads", "most", "n"] and shapes["table"] == ["most", "n"]
    assert all("weight" in more or sizes["block_size"] <= 16 for _, sizes, more in d.scenarios)


READ = """
__global__ void gather(const float* cache, const int* lengths, const int* table, float* y, int dim, int most) {
  const int seq = blockIdx.x, length = lengths[seq];
  for (int t = 0; t < length; ++t) {
    const long page = table[seq * most + t / 16];
    for (int i = threadIdx.x; i < dim; i += blockDim.x) {
      y[((long)seq * most * 16 + t) * dim + i] = cache[(page * 16 + t % 16) * dim + i];
    }
  }
}
void go(const float* cache, const int* lengths, const int* table, float* y, int n, int dim, int most) {
  gather<<<n, 128>>>(cache, lengths, table, y, dim, most);
}
"""


def test_pages_of_a_fixed_length_that_are_read_may_be_shared() -> None:
    d = draft(ktc.loads(READ).kernel)
    assert not d.doubts
    contents = {c.buffer: c for c in d.contents}
    assert d.ties["lengths_values"] == "most * 16" and d.ties["table_values"] == "n * most"
    assert contents["table"].kind == "index"


DECODE = """
__global__ void sums(const float* cache, const int* table, const int* lengths, float* y, int most) {
  const int PAGE = 16, D = 32;
  int b = blockIdx.x, d = threadIdx.x;
  float s = 0;
  for (int t = 0; t < lengths[b]; t++) s += cache[(table[b * most + t / PAGE] * PAGE + t % PAGE) * D + d];
  y[b * D + d] = s;
}
void go(const float* cache, const int* table, const int* lengths, float* y, int n, int most) {
  sums<<<n, 32>>>(cache, table, lengths, y, most);
}
"""


def test_pages_of_a_named_length_are_read_to_their_ends() -> None:
    d = draft(ktc.loads(DECODE).kernel)
    assert not d.doubts and d.ties["lengths_values"] == "most * 16"
    shape = d.shapes["cache"]
    assert shape is not None and shape.exact and shape.value({"n": 3, "most": 5}) == 3 * 5 * 16 * 32
