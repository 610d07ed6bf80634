"""Kernels that are passed nothing but pointers, in launches that no probe is as large as."""

from __future__ import annotations

from pathlib import Path

from ktc.ir.kernel import Kernel
from ktc.scaffold.draft import draft
from ktc.scaffold.extents.constant_extents import constant_extents
from ktc.scaffold.shapes import Extent
from ktc.sources import SourceSpec, resolve

SMOOTH = """\
#define N 4096
#define AT(i, j) ((i) + (j) * N)
__global__ void smooth(float* __restrict__ to, const float* __restrict__ from, float* __restrict__ total) {
  __shared__ float tile[16][18];
  __shared__ float sums[16];
  int i = threadIdx.x + blockIdx.x * blockDim.x, j = threadIdx.y + blockIdx.y * blockDim.y;
  tile[threadIdx.y][threadIdx.x + 1] = from[AT(i, j)];
  if (threadIdx.x == 0 && i >= 1) tile[threadIdx.y][0] = from[AT(i - 1, j)];
  if (threadIdx.x == 15 && i <= N - 2) tile[threadIdx.y][17] = from[AT(i + 1, j)];
  __syncthreads();
  float mean = 0.f;
  if (i >= 1 && i <= N - 2 && j >= 1 && j <= N - 2) {
    mean = 0.5f * (tile[threadIdx.y][threadIdx.x] + tile[threadIdx.y][threadIdx.x + 2]);
    to[AT(i, j)] = mean;
  }
  for (int o = 8; o > 0; o /= 2) mean += __shfl_down_sync(0xffffffff, mean, o);
  if (threadIdx.x == 0) sums[threadIdx.y] = mean;
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    float all = 0.f;
    for (int k = 0; k < 16; ++k) all += sums[k];
    atomicAdd(total, all);
  }
}
void run(float* to, float* from, float* total) {
  /* allocated */
  smooth<<<dim3(N / 16, N / 16), dim3(16, 16)>>>(to, from, total);
}
"""
ALLOCATED = "cudaMalloc(&to, N * N * sizeof(float)); cudaMalloc(&from, N * N * sizeof(float)); cudaMalloc(&total, 4);"
WHOLE = 4096 * 4096


def kernel(tmp_path: Path, text: str) -> Kernel:
    (tmp_path / "k.cu").write_text(text)
    return resolve(SourceSpec(str(tmp_path / "k.cu")))[0]


def lengths(k: Kernel, **allocated: int) -> dict[str, int | None]:
    given = {n: Extent((), times=length, exact=True) for n, length in allocated.items()}
    found = constant_extents(k, dict.fromkeys(("to", "from", "total")), given)
    return {n: e and int(e.value({})) for n, e in found.items()}


def test_as_long_as_the_source_reaches(tmp_path: Path) -> None:
    k = kernel(tmp_path, SMOOTH)
    assert lengths(k) == {"to": WHOLE - 4096 - 1, "from": WHOLE, "total": 1}


def test_as_long_as_allocated_where_that_is_enough(tmp_path: Path) -> None:
    k = kernel(tmp_path, SMOOTH)
    assert lengths(k, to=WHOLE, **{"from": 64}) == {"to": WHOLE, "from": WHOLE, "total": 1}


def test_an_index_that_is_not_followed_leaves_the_length_to_the_host(tmp_path: Path) -> None:
    k = kernel(tmp_path, SMOOTH.replace("from[AT(i - 1, j)]", "from[(int)from[i]]"))
    assert lengths(k)["from"] is None and lengths(k, **{"from": WHOLE})["from"] == WHOLE


def test_a_draft_says_that_no_run_has_confirmed_them(tmp_path: Path) -> None:
    text = SMOOTH.replace("/* allocated */", ALLOCATED).replace("N 4096", "N 16384")
    found = draft(kernel(tmp_path, text))
    assert {n: e and e.value({}) for n, e in found.shapes.items()} == {"to": 1 << 28, "from": 1 << 28, "total": 1}
    assert found.doubts, "no run has confirmed it"
