"""Threads that leave before the others of their block meet: idle where that is the same, else at sizes without any."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.nodes import Reduce
from ktc.ir.text import print_expr, print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.base import Refused, Result
from ktc.passes.raising.check import undefined_exits
from ktc.passes.raising.check.undefined_exits import leaves_its_buffers
from ktc.passes.raising.normalise import idle_exits
from ktc.passes.raising.raise_ import Raise
from tests.passes.raising.raised_once import outcome_of
from tests.passes.raising.test_raise_addresses import agree

TOTAL = """
__global__ void totals(const int* __restrict__ x, int* __restrict__ y, int n) {
  __shared__ int part[16];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  part[t] = 0;
  if (i >= n) return;
  part[t] = x[i];
  __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k >>= 1) {
    if (t < k) part[t] += part[t + k];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = part[0];
}
void go(const int* x, int* y, int n) { totals<<<(n + 15) / 16, 16>>>(x, y, n); }
"""

MIRRORED = """
__global__ void mirrored(const int* __restrict__ x, int* __restrict__ y, int n) {
  __shared__ int part[16];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  part[threadIdx.x] = x[i];
  __syncthreads();
  y[i] = part[blockDim.x - 1 - threadIdx.x];
}
void go(const int* x, int* y, int n) { mirrored<<<(n + 15) / 16, 16>>>(x, y, n); }
"""

SQUARES = """
__global__ void squares(const int* __restrict__ x, int* __restrict__ y, int w, int h) {
  __shared__ int part[4][8];
  int c = blockIdx.x * 8 + threadIdx.x, r = blockIdx.y * 4 + threadIdx.y;
  if (r >= h || c >= w) return;
  part[threadIdx.y][threadIdx.x] = x[r * w + c];
  __syncthreads();
  y[r * w + c] = part[3 - threadIdx.y][7 - threadIdx.x];
}
void go(const int* x, int* y, int w, int h) {
  squares<<<dim3((w + 7) / 8, (h + 3) / 4), dim3(8, 4)>>>(x, y, w, h);
}
"""

IN_PLACE = """
__global__ void pairs(int* x, int* y, unsigned n) {
  unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  int* mine = x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  for (int k = 1; k < blockDim.x; k *= 2) {
    if (t % (2 * k) == 0) mine[t] += mine[t + k];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = mine[0];
}
void go(int* x, int* y, unsigned n, int threads) { pairs<<<(n + threads - 1) / threads, threads>>>(x, y, n); }
"""

X = np.arange(1, 4001, dtype=np.int32) % 37 - 11


def assumed(found: Result | Refused) -> list[str]:
    assert isinstance(found, Result), found
    return [print_expr(a.expr) for a in found.kernel.assumptions]


def test_cells_of_threads_that_leave_hold_what_changes_nothing() -> None:
    kernel, found = outcome_of(TOTAL)
    assert assumed(found) == []
    assert isinstance(found, Result) and any(isinstance(s, Reduce) for s in walk(found.kernel.body))
    agree(kernel, found.kernel, [{"n": n} for n in (1, 5, 16, 17, 40, 64)], {"x": X, "y": np.zeros(4, np.int32)})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("part[t] = 0;", ""),  # others read what was never written
        ("part[t] = 0;", "part[t] = 7;"),  # and this is part of the sum, where it is read
        ("if (t < k)", "if (t < k && k != 4)"),
    ],
)
def test_cells_that_change_something(old: str, new: str) -> None:
    found = Raise().run(load(TOTAL.replace(old, new), name="source.cu"))
    if isinstance(found, Result) and any(isinstance(s, Reduce) for s in walk(found.kernel.body)):
        assert assumed(found) == ["n % 16 == 0"]


def test_a_wrong_condition_of_idle_threads_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_exits, "negate", lambda e: e)
    assert assumed(Raise().run(load(TOTAL, name="source.cu"))) == ["n % 16 == 0"]


def test_cells_that_nobody_filled_stand_for_no_elements() -> None:
    """Of a block that some leave, the source reads such cells; elements in their place lie beyond the buffer."""
    kernel, found = outcome_of(MIRRORED)
    assert assumed(found) == ["n % 16 == 0"]
    assert isinstance(found, Result) and "part" not in print_kernel(found.kernel)
    agree(kernel, found.kernel, [{"n": n} for n in (16, 32, 160)], {"x": X, "y": np.zeros(160, np.int32)})


def test_what_stands_for_such_cells_touches_more_than_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, found = outcome_of(MIRRORED)
    assert isinstance(found, Result)
    assert "'x' is touched at" in leaves_its_buffers(kernel, found.kernel)
    assert leaves_its_buffers(kernel, kernel) == ""
    monkeypatch.setattr(undefined_exits, "COMPARED", 0)
    assert assumed(Raise().run(load(MIRRORED, name="source.cu"))) == []


PRODUCT = """
__global__ void product(const int* __restrict__ a, const int* __restrict__ b, int* __restrict__ c, int m, int n,
                        int q) {
  __shared__ int ta[4][4], tb[4][4];
  int tx = threadIdx.x, ty = threadIdx.y, col = blockIdx.x * 4 + tx, row = blockIdx.y * 4 + ty, sum = 0;
  if (row >= m || col >= n) return;
  for (int t = 0; t < q / 4; t++) {
    ta[ty][tx] = a[row * q + t * 4 + tx];
    tb[ty][tx] = b[(t * 4 + ty) * n + col];
    __syncthreads();
    for (int j = 0; j < 4; j++) sum += ta[ty][j] * tb[j][tx];
    __syncthreads();
  }
  c[row * n + col] = sum;
}
void go(const int* a, const int* b, int* c, int m, int n, int q) {
  product<<<dim3((n + 3) / 4, (m + 3) / 4), dim3(4, 4)>>>(a, b, c, m, n, q);
}
"""


@pytest.mark.parametrize("factor", ["", "* tb[j][tx]"])
def test_exits_that_mean_something_where_a_loop_makes_no_round(factor: str) -> None:
    """Where ``q < 4`` threads leave and nothing is undefined; elsewhere they leave cells that the others read, and a
    form must not read elements in their place."""
    kernel, found = outcome_of(PRODUCT.replace("* tb[j][tx]", factor))
    assert isinstance(found, Result) and assumed(found) == []
    x = {"a": X, "b": X[::-1].copy(), "c": np.zeros(96, np.int32)}
    agree(kernel, found.kernel, [{"m": m, "n": n, "q": q} for m, n, q in ((4, 8, 3), (8, 4, 8), (5, 7, 3))], x)
    first, form = (run(k, {**x, "m": 1, "n": 1, "q": 4}, measure=True) for k in (kernel, found.kernel))
    assert {f.kind for f in first.findings} == {"uninitialised"} and form.reach.items() <= first.reach.items()


def test_an_end_along_each_axis() -> None:
    kernel, found = outcome_of(SQUARES)
    assert assumed(found) == ["h % 4 == 0 && w % 8 == 0"]
    assert isinstance(found, Result) and any(
        "'h' is a multiple of 4 and 'w' is a multiple of 8" in x for x in found.notes
    )
    sizes = [{"w": w, "h": h} for w, h in ((8, 4), (24, 8), (16, 20))]
    agree(kernel, found.kernel, sizes, {"x": X, "y": np.zeros(320, np.int32)})


def test_an_end_that_the_launcher_can_compute() -> None:
    source = (
        MIRRORED.replace("int n)", "int n, int m)").replace("i >= n", "i >= n * m").replace("x, y, n)", "x, y, n, m)")
    )
    source = source.replace("(n + 15)", "(n * m + 15)")
    kernel, found = load(source, name="source.cu"), outcome_of(source)[1]
    assert assumed(found) == ["n * m % 16 == 0"]
    assert isinstance(found, Result)
    agree(kernel, found.kernel, [{"n": 2, "m": 8}, {"n": 12, "m": 4}], {"x": X, "y": np.zeros(48, np.int32)})


def test_a_block_that_the_host_sizes() -> None:
    kernel, found = outcome_of(IN_PLACE)
    assert isinstance(found, Result), found
    assert "left: " not in " ".join(found.notes) or assumed(found)
    sizes = [{"n": n, "threads": b} for n, b in ((64, 64), (128, 32), (96, 32))]
    agree(kernel, found.kernel, sizes, {"x": X, "y": np.zeros(8, np.int32)})


def test_launches_are_drawn_once_for_all_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the source does where threads leave is the same whatever it is compared with."""
    source = load(MIRRORED, name="source.cu")
    runs = list[object]()
    monkeypatch.setattr(undefined_exits, "run", lambda k, *a, **named: runs.append(k) or run(k, *a, **named))
    leaves_its_buffers(source, source)
    assert any(k is source for k in runs)
    runs.clear()
    other = source.with_(name="other")
    leaves_its_buffers(source, other)
    assert runs and all(k is other for k in runs)
