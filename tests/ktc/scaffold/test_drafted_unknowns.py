"""What a source does not tell, a draft says plainly: indices in the bits of other elements."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktc
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.scaffold import draft, with_draft
from ktc.scaffold.bit_indices import read_from_bits
from ktc.scaffold.text import workload_text

POINTS = """
struct Point { float weight; WORD cluster; float cost; };
__global__ void spread(const Point* p, const int* center, float* low, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) low[i] += center[p[i].cluster] * (p[i].cost - p[i].weight);
}
void go(const Point* p, const int* c, float* low, int n) { spread<<<(n + 255) / 256, 256>>>(p, c, low, n); }
"""


@pytest.mark.parametrize("word", ["long", "int"])
def test_an_index_in_the_bits_of_floats_is_said_not_to_be_known(tmp_path: Path, word: str) -> None:
    """Bits of floats make indices of any size: no shape follows, and no run of that length is tried."""
    source = tmp_path / "spread.cu"
    source.write_text(POINTS.replace("WORD", word))
    program = ktc.load(source)
    assert read_from_bits(program.kernel) == {"center": "p"}
    assert program.source is not None
    _, todo = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    assert "center: its index is read from the bits of p, and what those hold is not known" in todo
    assert not any(t.startswith("center: read before") for t in todo)


def test_a_length_that_no_memory_holds_is_no_shape(tmp_path: Path) -> None:
    source = tmp_path / "spread.cu"
    source.write_text(POINTS.replace("WORD", "long"))
    program = ktc.load(source)
    assert draft(program.kernel).shapes["center"] is None
    with pytest.raises(KtcError, match="how many elements center of spread have could not be found out"):
        with_draft(program, tmp_path / "out")


def test_bits_that_are_values_and_indices_that_are_integers_are_known() -> None:
    source = """
    __global__ void k(const float* x, const int* at, int* y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[at[i]] = __float_as_int(x[i]);
    }
    void go(const float* x, const int* at, int* y, int n) { k<<<(n + 255) / 256, 256>>>(x, at, y, n); }
    """
    k = ktc.loads(source).kernel
    assert read_from_bits(k) == {} and not any("bits" in doubt for doubt in draft(k).doubts)


def test_nothing_is_known_of_any_shape(tmp_path: Path) -> None:
    """All indices in the bits of floats, and one in what those lead to: to be completed, and no internal error."""
    source = """
    struct Link { float weight; long to; };
    __global__ void follow(const Link* a, const int* at, int* out) {
      out[at[a[a[threadIdx.x].to].to]] = 1;
    }
    void go(const Link* a, const int* at, int* out) { follow<<<1, 32>>>(a, at, out); }
    """
    (tmp_path / "follow.cu").write_text(source)
    program = ktc.load(tmp_path / "follow.cu")
    assert program.source is not None
    _, todo = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    assert any(t.startswith("at: its index is read from the bits of a") for t in todo)
    assert "a: its shape" in todo or "at: its shape" in todo


TILES = """
__global__ void __launch_bounds__(256) tiles(float* out, const float* in, int W, int H) {
  uint2 least = {blockIdx.x * 16, blockIdx.y * 16};
  uint2 pixel = {least.x + threadIdx.x, least.y + threadIdx.y};
  int t = threadIdx.z * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x;
  __shared__ float row[256];
  row[t] = in[t];
  __syncthreads();
  if (pixel.x < W && pixel.y < H) out[pixel.y * W + pixel.x] = row[255 - t];
}
void tile(const dim3 grid, dim3 block, float* out, const float* in, int W, int H) {
  tiles<<<grid, block>>>(out, in, W, H);
}
"""


def test_a_launch_that_is_made_elsewhere_is_what_indices_in_vectors_and_the_bound_tell() -> None:
    d = draft(load(TILES, name="k.cu"))
    assert d.roles.fixed == {"block_x": 16, "block_y": 16, "block_z": 1}
    assert d.tied("grid_x") == "cdiv(W, 16)" and d.tied("grid_y") == "cdiv(H, 16)"
    assert d.shapes["out"].shape == ("H", "W") and not [x for x in d.doubts if "run at" in x]


def test_no_block_is_larger_than_its_bound() -> None:
    source = TILES.replace("least.x + threadIdx.x, least.y + threadIdx.y", "least.x + t0.x, least.y + t0.y")
    source = source.replace("uint2 pixel", "dim3 t0(threadIdx.x + in[0], threadIdx.y); uint2 pixel")
    fixed = draft(load(source, name="k.cu")).roles.fixed
    assert fixed["block_x"] * fixed["block_y"] * fixed["block_z"] <= 256
