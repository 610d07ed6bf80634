"""Sizes of a draft have something to do: where windows are larger than tiles, or rows have no inside, nobody stores."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktc
from ktc.ir.workload import Workload
from ktc.scaffold import Draft, draft
from ktc.scaffold.checking.corners import look
from ktc.scaffold.scenarios import busied
from ktc.scaffold.text import workload_text

INNER = """
__global__ void inner(const float* a, float* b, int ni, int nj, int i) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < ni - 1 && j > 0 && j < nj - 1)
    b[i * 65536 + j] = a[(i - 1) * 65536 + j] + a[(i + 1) * 65536 + j] + a[i * 65536 + j - 1] + a[i * 65536 + j + 1];
}
void go(const float* a, float* b, int ni, int nj) {
  for (int i = 1; i < ni - 1; ++i) inner<<<(nj + 255) / 256, 256>>>(a, b, ni, nj, i);
}
"""
PYRAMID = """
__global__ void sweep(const float* now, float* next, int steps, int cols, int border) {
  __shared__ float tile[2][32];
  int inside = 32 - 2 * steps, first = inside * blockIdx.x - border, x = first + threadIdx.x, t = threadIdx.x;
  tile[0][t] = tile[1][t] = x >= 0 && x <= cols - 1 ? now[x] : 0.0f;
  __syncthreads();
  bool mine = false;
  for (int s = 0; s < steps; ++s) {
    mine = t >= s + 1 && t <= 30 - s && x >= 0 && x <= cols - 1;
    if (mine) tile[(s + 1) & 1][t] = 0.5f * tile[s & 1][t] + 0.25f * (tile[s & 1][t - 1] + tile[s & 1][t + 1]);
    __syncthreads();
  }
  if (mine) next[x] = tile[steps & 1][t];
}
void sweeps(const float* now, float* next, int steps, int cols, int blocks, int border) {
  sweep<<<blocks, 32>>>(now, next, steps, cols, border);
}
"""


def _all_store(d: Draft, source: str, folder: Path) -> None:
    """At all scenarios of the draft that is written for ``source``, some block stores something."""
    (folder / "k.cu").write_text(source)
    program = ktc.load(folder / "k.cu")
    assert program.source is not None
    text, todo = workload_text(program.kernel, program.source, folder / "workload.toml")
    assert not any(t.startswith("run at") for t in todo)
    work = Workload.parse(text, folder / "workload.toml")
    (folder / "workload.toml").write_text(text)
    kernel = work.load_kernel()
    assert {s.name for s in work.scenarios} >= {"small", "large"}
    assert [look(work, kernel, s.sizes)[0] for s in work.scenarios] == [None] * len(work.scenarios)


def test_small_sizes_have_an_inside(tmp_path: Path) -> None:
    """Planes of a fixed pitch are larger than what is called small, whatever the sizes: at the least, nobody stores."""
    d = draft(ktc.loads(INNER).kernel)
    small = next(sizes for name, sizes, _ in d.scenarios if name == "small")
    assert small["ni"] > 2 and small["nj"] > 2
    _all_store(d, INNER, tmp_path)


def test_a_window_stays_smaller_than_its_tile(tmp_path: Path) -> None:
    """Of a tile of 32, sweeps leave ``32 - 2 * steps``: that is how far blocks are apart, and there has to be some."""
    d = draft(ktc.loads(PYRAMID).kernel)
    assert d.tied("blocks") == "cdiv(cols, max((32 - (2 * steps)), 1))"
    assert {b: e and e.shape for b, e in d.shapes.items()} == {"now": ("cols",), "next": ("cols",)}
    assert all(0 < sizes["steps"] < 16 and sizes["border"] <= 16 for _, sizes, _ in d.scenarios)
    assert max(sizes["cols"] for _, sizes, _ in d.scenarios) >= 1 << 16
    _all_store(d, PYRAMID, tmp_path)


GUARDED_SIZE = """
__global__ void some(float* y, int n, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0.0f;
  for (int j = 0; j < k; ++j) s += j;
  if (i < n && k < 100) y[i] = s;
}
void go(float* y, int n, int k) { some<<<(n + 255) / 256, 256>>>(y, n, k); }
"""


def test_what_leaves_nothing_to_do_as_it_grows_stays_small(tmp_path: Path) -> None:
    d = draft(ktc.loads(GUARDED_SIZE).kernel)
    large = next(sizes for name, sizes, _ in d.scenarios if name == "large")
    assert large["k"] < 100 and large["n"] >= 1 << 20
    _all_store(d, GUARDED_SIZE, tmp_path)


@pytest.mark.parametrize(
    ("needed", "found"),
    [({"a"}, {"a"}), ({"b", "d"}, {"b", "d"}), ({"d"}, {"d"}), ({"a", "b", "c", "d"}, {"a", "b", "c", "d"})],
)
def test_as_few_sizes_as_possible_are_held(needed: set[str], found: set[str]) -> None:
    large, small = dict.fromkeys("abcd", 64), dict.fromkeys("abcd", 4)
    assert busied(large, small, lambda s: any(s[n] > 4 for n in needed)) == found
