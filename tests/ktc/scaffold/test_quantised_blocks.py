"""Weights that are packed in blocks: their scales, headers, tables and orders are as long as callers make them."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktc
from ktc.scaffold import Draft, draft, workload_text


def drafted(source: str) -> Draft:
    return draft(ktc.loads(source).kernel)


def values(d: Draft, sizes: dict[str, int]) -> dict[str, int]:
    return {b: e.value(sizes) for b, e in d.shapes.items() if e is not None}


SCALED = """
__global__ void unpack(const unsigned char* w, const float* scales, float* out, int rows, int cols, int block_m,
                       int block_k) {
  int r = blockIdx.x, in_row = (cols - 1) / block_m + 1;
  scales += r / block_k * in_row;
  for (int i = threadIdx.x * 4; i < cols; i += blockDim.x * 4) {
    unsigned four = *(const unsigned*)(w + r * cols + i);
    for (int j = 0; j < 4; ++j) out[r * cols + i + j] = (four >> 8 * j & 255) * scales[i / block_m];
  }
}
void run(const unsigned char* w, const float* scales, float* out, int rows, int cols, int block_m, int block_k) {
  unpack<<<rows, 64>>>(w, scales, out, rows, cols, block_m, block_k);
}
"""


def test_scales_of_blocks_that_loops_over_vectors_read() -> None:
    """The last elements of a row are those of the last vector: with blocks of 2, a scale is never read."""
    d = drafted(SCALED)
    assert not d.ties  # rows are no block
    sizes = {"rows": 6, "cols": 20, "block_m": 8, "block_k": 4}
    assert values(d, sizes) == {"w": 120, "scales": 6, "out": 120}
    assert {s["block_m"] for name, s, _ in d.scenarios if name != "odd"} == {128}


HEADED = """
__global__ void unpack(const signed char* blocks, float* out, int apart, int per_block, int count) {
  for (int b = blockIdx.x * blockDim.x + threadIdx.x; b < count; b += gridDim.x * blockDim.x) {
    const signed char* mine = blocks + b * apart;
    float scale = mine[0] + 0.5f * mine[1];
    for (int i = 0; i < per_block; ++i) out[b * per_block + i] = scale * mine[2 + LENGTH];
  }
}
void run(const signed char* blocks, float* out, int apart, int per_block, int count) {
  unpack<<<4, 64>>>(blocks, out, apart, per_block, count);
}
"""


@pytest.mark.parametrize(("at", "length"), [("i", 34), ("i / 2", 18)])
def test_a_stride_is_as_long_as_a_header_and_what_follows_it(at: str, length: int) -> None:
    d = drafted(HEADED.replace("LENGTH", at))
    sizes = {"per_block": 32, "count": 5}
    assert values(d, sizes) == {"blocks": 5 * length, "out": 160}


LONG = """
__global__ void unpack(const unsigned char* blocks, float* out, int apart, int per_block, int count) {
  for (int b = blockIdx.x * blockDim.x + threadIdx.x; b < count; b += gridDim.x * blockDim.x)
    for (int i = 0; i < 256; ++i) {
      float scale = blocks[b * apart + 64 + i / 128];
      for (int j = 0; j < 4; ++j) out[b * per_block + i] = scale * (blocks[b * apart + i / 4] >> 2 * j & 3);
    }
}
void run(const unsigned char* blocks, float* out, int apart, int per_block, int count) {
  unpack<<<512, 256>>>(blocks, out, apart, per_block, count);
}
"""


def test_long_threads_of_a_large_launch_are_tried_in_a_smaller_one() -> None:
    d = drafted(LONG)
    assert [str(d.tied(n)) for n in ("apart", "per_block")] == ["66", "256"]
    assert values(d, {"count": 3}) == {"blocks": 198, "out": 768}


LOOKED_UP = """
__global__ void look(const int* words, const float* table, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned word = words[i];
  if (i < n) for (int j = 0; j < 8; ++j) out[8 * i + j] = table[INDEX];
}
void run(const int* words, const float* table, float* out, int n) { look<<<n / 64, 64>>>(words, table, out, n); }
"""


@pytest.mark.parametrize(
    ("index", "table", "init"),
    [("word >> 4 * j & 15", 16, '"bits"'), ("word >> 28", 16, '"bits"'), ("word", None, '"index"')],
)
def test_words_of_which_a_few_bits_choose_from_a_table_hold_any_bits(
    index: str, table: int | None, init: str, tmp_path: Path
) -> None:
    source = tmp_path / "k.cu"
    source.write_text(LOOKED_UP.replace("INDEX", index))
    program = ktc.load(str(source))
    assert program.source is not None
    text, _ = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    part = text.partition('name = "words"')[2].partition("[[args]]")[0]
    assert f"init = {init}" in part
    if table is not None:
        assert values(draft(program.kernel), {"n": 64})["table"] == table


ORDERED = """
__global__ void order(const float* x, const unsigned short* to, float* out, int rows, int cols) {
  int r = blockIdx.x;
  for (int i = threadIdx.x; i < cols; i += 32) out[to[r] * cols + i] = x[r * cols + i];
}
void run(const float* x, const unsigned short* to, float* out, int rows, int cols) {
  order<<<rows, 32>>>(x, to, out, rows, cols);
}
"""


def test_an_order_in_16_bits_is_of_as_many_rows_as_there_are() -> None:
    d = drafted(ORDERED)
    assert values(d, {"rows": 6, "cols": 10}) == {"x": 60, "to": 6, "out": 60}
    assert [c.kind for c in d.contents] == ["distinct"]
    assert all(s["rows"] <= 1 << 16 for _, s, _ in d.scenarios)
