"""A launch that is as large at all sizes, as that of a loop over the whole grid: it is checked as far as it can be."""

from __future__ import annotations

from pathlib import Path

import ktc
from ktc.ir.workload import Workload
from ktc.search.verification.instances.instances import IDLE, LARGER, MAX_ELEMENTS, launched_always

TWICE = """
__global__ void twice(const float* a, float* o, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) o[i] = 2 * a[i];
}
void go(const float* a, float* o, int n) { twice<<<BLOCKS, 256>>>(a, o, n); }
"""
WORKLOAD = """
[kernel]
source = "k.cu"
name = "twice"
[[args]]
name = "a"
dtype = "f32"
role = "in"
shape = ["n"]
[[args]]
name = "o"
dtype = "f32"
role = "out"
shape = ["n"]
noalias = true
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
range = [1, 1000000000]
[[scenario]]
name = "small"
sizes = { n = 4096 }
"""


def program(folder: Path, blocks: str) -> ktc.Program:
    (folder / "k.cu").write_text(TWICE.replace("BLOCKS", blocks))
    (folder / "workload.toml").write_text(WORKLOAD)
    return ktc.load(str(folder))


def test_threads_that_no_size_takes_away_are_no_reason_to_check_nothing(tmp_path: Path) -> None:
    large = program(tmp_path, "29184")
    assert launched_always((large.kernel, large.kernel), Workload.load(tmp_path)) > LARGER * MAX_ELEMENTS
    assert large.apply("raise").verify(device="none").status == "TESTED"


def test_a_grid_that_follows_sizes_is_small_somewhere(tmp_path: Path) -> None:
    usual = program(tmp_path, "(n + 255) / 256")
    assert launched_always((usual.kernel, usual.kernel), Workload.load(tmp_path)) * IDLE < MAX_ELEMENTS


PRODUCT = """
__global__ void rows(const float* w, const float* x, float* o) {
  __shared__ float part[2];
  float sum = 0.f;
  for (int k = 0; k < 7; ++k) {
    int at = k * 1024 + threadIdx.x * 16;
    for (int j = 0; j < 16; ++j) sum += w[blockIdx.x * 7168 + at + j] * x[at + j];
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) o[blockIdx.x] = part[0] + part[1];
}
void go(const float* w, const float* x, float* o) { rows<<<64, 64>>>(w, x, o); }
"""


def test_a_source_of_large_buffers_that_has_no_sizes_is_checked_at_its_own(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(PRODUCT)
    args = [("w", "in", 64 * 7168), ("x", "in", 7168), ("o", "out", 64)]
    lines = ['[kernel]\nsource = "k.cu"\nname = "rows"']
    lines += [f'[[args]]\nname = "{n}"\ndtype = "f32"\nrole = "{role}"\nshape = ["{m}"]' for n, role, m in args]
    (tmp_path / "workload.toml").write_text("\n".join([*lines, '[[scenario]]\nname = "only"\nsizes = {}']))
    verdict = ktc.load(str(tmp_path)).apply("raise").verify(device="none")
    assert verdict.status == "TESTED"
    assert "the source's own sizes" in verdict.reason


ROWS = """
__global__ void twice(const float* a, float* o, int n, int m) {
  for (int i = blockIdx.y * blockDim.x + threadIdx.x; i < m; i += blockDim.x * gridDim.y)
    o[blockIdx.x * m + i] = 2 * a[blockIdx.x * m + i];
}
void go(const float* a, float* o, int n, int m) { twice<<<dim3(n, 1024 / n + 1), 512>>>(a, o, n, m); }
"""


def test_blocks_that_rows_share_out_are_many_at_all_sizes(tmp_path: Path) -> None:
    text = WORKLOAD.replace('shape = ["n"]', 'shape = ["n", "m"]').replace("n = 4096", "n = 64, m = 4096")
    scalar = '[[args]]\nname = "m"\ndtype = "i32"\nrole = "scalar"\nvalue = "m"\nrange = [1, 100000]\n'
    (tmp_path / "k.cu").write_text(ROWS)
    (tmp_path / "workload.toml").write_text(text.replace("[[scenario]]", f"{scalar}[[scenario]]"))
    verdict = ktc.load(str(tmp_path)).apply("raise").verify(device="none")
    assert verdict.status == "TESTED", verdict
