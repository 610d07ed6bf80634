"""Rows or planes in shared memory that a block moves on from iteration to iteration, as loads where they are used."""

from __future__ import annotations

import pytest

from ktc.ir.analysis.dependence import carried_scalars
from ktc.ir.frontend.entry_points import load
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, For, Par
from ktc.ir.text import print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.normalise.straight import counted
from ktc.passes.raising.recognise.coordinates import prepare
from ktc.passes.raising.staging import rotated_planes
from ktc.passes.raising.staging.rotated_planes import filled_planes
from tests.passes.raising.raised_once import raised

BODY = """
__global__ void walk(const float* __restrict__ a, float* __restrict__ o, int n, int m) {
  __shared__ float row[3][10];
  int t = threadIdx.x, x = blockIdx.x * 8 + t, at = x;
  bool in = x < n;
  if (in) row[2][t + 1] = FIRST;
  if (in && t == 0 && x > 0) row[2][0] = a[at - 1];
  if (in && t == 7 && x + 1 < n) row[2][9] = a[at + 1];
  for (int y = 0; y < m; ++y) {
    if (in) {
      MOVE
      if (y < m - 1) row[2][t + 1] = a[at + n];
    }
    if (in && t == 0 && x > 0) {
      row[0][0] = row[1][0]; row[1][0] = row[2][0];
      if (y < m - 1) row[2][0] = a[at + n - 1];
    }
    if (in && t == 7 && x + 1 < n) {
      row[0][9] = row[1][9]; row[1][9] = row[2][9];
      if (y < m - 1) row[2][9] = a[at + n + 1];
    }
    __syncthreads();
    if (in) {
      float v = row[1][t + 1];
      if (x > 0 && x < n - 1 && y > 0 && y < m - 1)
        v = (row[1][t] - row[1][t + 2]) * 3.0f + row[0][t + 1] * 5.0f + row[2][t + 1];
      o[at] = v;
    }
    at += n;
    __syncthreads();
  }
}
void run(const float* a, float* o, int n, int m) { walk<<<(n + 7) / 8, 8>>>(a, o, n, m); }
"""
MOVES = "row[0][t + 1] = row[1][t + 1]; row[1][t + 1] = row[2][t + 1];"
WALK = BODY.replace("MOVE", MOVES).replace("FIRST", "a[at]")
SIZES = range(1, 30)


def test_rows_that_are_moved_on_become_loads() -> None:
    kernel, outcome = raised(WALK)
    assert [s.var.name for s in walk(outcome.kernel.body) if isinstance(s, Par | For)] == ["x", "y"]
    assert not any("left:" in note for note in outcome.notes), outcome.notes
    assert [note.split("'")[1] for note in outcome.notes if "staged:" in note] == ["row0", "row1", "row2"]
    done = apply_script(outcome.kernel, parse_script("normalise"))
    assert done.refused is None and "par y in 0..m @ [seq]" in print_kernel(done.kernel)
    assert Reference(kernel, instances=6, seed=99, sizes=SIZES).differs(done.kernel) == ""


FLAT = """
#define ROW 10
#define PLANE 60
__global__ void walk(int n, int m, int h, const float* __restrict__ a, float* __restrict__ o) {
  __shared__ float s[3 * PLANE];
  int at, rim, i, j, k, here, there, other, in, edge;
  float v;
  int last = h - 1;
  k = threadIdx.x + threadIdx.y * 8;
  edge = k < 2 * (8 + 4 + 2);
  if (edge) {
    if (threadIdx.y < 2) { i = threadIdx.x; j = threadIdx.y * 5 - 1; }
    else { i = (k % 2) * 9 - 1; j = k / 2 - 9; }
    other = i + 1 + (j + 1) * ROW + PLANE;
    i += blockIdx.x * 8; j += blockIdx.y * 4;
    rim = i + j * n;
    edge = i >= 0 && i < n && j >= 0 && j < m;
  }
  i = threadIdx.x; j = threadIdx.y;
  here = i + 1 + (j + 1) * ROW + PLANE;
  i += blockIdx.x * 8; j += blockIdx.y * 4;
  at = i + j * n;
  in = i < n && j < m;
  if (in) s[here + PLANE] = a[at];
  if (edge) s[other + PLANE] = a[rim];
  for (k = 0; k < h; ++k) {
    if (in) {
      there = at;
      at += n * m;
      s[here - PLANE] = s[here];
      s[here] = s[here + PLANE];
      if (k < last) s[here + PLANE] = a[at];
    }
    if (edge) {
      rim += n * m;
      s[other - PLANE] = s[other];
      s[other] = s[other + PLANE];
      if (k < last) s[other + PLANE] = a[rim];
    }
    __syncthreads();
    if (in) {
      if (i == 0 || i == n - 1 || j == 0 || j == m - 1 || k == 0 || k == last) v = s[here];
      else v = s[here - 1] * 3.0f + s[here + 1] + s[here - ROW] * 5.0f + s[here + ROW]
             + s[here - PLANE] - s[here + PLANE];
      o[there] = v;
    }
    __syncthreads();
  }
}
void run(int n, int m, int h, const float* a, float* o) {
  walk<<<dim3((n + 7) / 8, (m + 3) / 4), dim3(8, 4)>>>(n, m, h, a, o);
}
"""


def filled(source: str) -> tuple[Kernel, Kernel]:
    """The kernel of ``source``, and it with its planes filled in each iteration."""
    kernel = load(source, name="source.cu")
    assert kernel.launch is not None
    body = counted(prepare(kernel, kernel.launch))
    after = filled_planes(kernel, body)
    return kernel, kernel if after is body else kernel.with_(body=after)


def same(kernel: Kernel, other: Kernel) -> bool:
    return Reference(kernel, instances=3, seed=99, sizes=range(1, 14)).differs(other) == ""


def arrays(kernel: Kernel) -> list[str]:
    return [s.sym.name for s in walk(kernel.body) if isinstance(s, Alloc)]


def test_flat_planes_whose_rims_some_threads_move_on() -> None:
    kernel, after = filled(FLAT)
    assert arrays(after) == ["s0", "s1", "s2"] and same(kernel, after)
    text = print_kernel(after)
    assert not any(f"= s{k}[" in line.replace("v = s1[", "") for k in range(3) for line in text.splitlines())
    assert "if k_1 >= 1\n" in text and "a[k_1 < h - 1 ? " in text


HALF = """
__global__ void walk(const float* __restrict__ a, float* __restrict__ o, int n, int m) {
  __shared__ float row[12];
  int t = threadIdx.x, w = n + 4, at = blockIdx.x * 8 + t + 2, here = at + 2 * w;
  float before[2], after[2], now;
  for (int i = 1; i >= 0; --i) { before[i] = a[at]; at += w; }
  now = a[at]; at += w;
  for (int i = 0; i < 2; ++i) { after[i] = a[at]; at += w; }
  for (int y = 0; y < m; ++y) {
    __syncthreads();
    row[t + 2] = now;
    if (t < 2) { row[t] = a[here - 2]; row[t + 10] = a[here + 8]; }
    __syncthreads();
    float v = now * 7.0f;
    for (int i = 1; i <= 2; ++i)
      v += (before[i - 1] - after[i - 1] * 3.0f + row[t + 2 - i] * 5.0f + row[t + 2 + i]) * (float)i;
    o[here] = v;
    before[1] = before[0]; before[0] = now; now = after[0]; after[0] = after[1];
    if (y < m - 1) after[1] = a[at];
    at += w; here += w;
  }
}
void run(const float* a, float* o, int n, int m) { walk<<<n / 8, 8>>>(a, o, n, m); }
"""


def test_a_plane_in_shared_memory_and_those_around_it_in_registers() -> None:
    kernel, after = filled(HALF)
    assert same(kernel, after)
    (loop,) = (s for s in walk(after.body) if isinstance(s, For))
    assert not carried_scalars(loop.body) and arrays(after) == ["row"]


RING = """
__global__ void walk(const float* __restrict__ a, float* __restrict__ o, int n, int m) {
  __shared__ float row[3][10];
  int t = threadIdx.x, w = n + 2, at = blockIdx.x * 8 + t + 1;
  for (int y = 0; y < 2; ++y) {
    row[y][t + 1] = a[at + y * w];
    if (t == 0) { row[y][0] = a[at + y * w - 1]; row[y][9] = a[at + y * w + 8]; }
  }
  for (int y = 1; y < m + 1; ++y) {
    int next = at + (y + 1) * w, b = (y - 1) % 3, h = y % 3, u = (y + 1) % 3;
    row[u][t + 1] = a[next];
    if (t == 0) { row[u][0] = a[next - 1]; row[u][9] = a[next + 8]; }
    __syncthreads();
    o[at + y * w] = row[h][t] * 3.0f + row[h][t + 2] + row[b][t + 1] * 5.0f - row[u][t + 1];
    __syncthreads();
  }
}
void run(const float* a, float* o, int n, int m) { walk<<<n / 8, 8>>>(a, o, n, m); }
"""


@pytest.mark.parametrize("first", [True, False])
def test_a_ring_of_planes_is_filled_as_far_as_it_is_read(first: bool) -> None:
    kernel, after = filled(RING if first else RING.replace("row[y][t + 1] = a[at + y * w]", "row[y][t + 1] = 7.0f"))
    assert arrays(after) == ["row0", "row1", "row2"] and same(kernel, after) is first


@pytest.mark.parametrize("other", ["b = (y - 1) % 2", "b = (y * 2) % 3", "b = y & 1"])
def test_what_is_no_ring_stays(other: str) -> None:
    _, after = filled(RING.replace("b = (y - 1) % 3", other))
    assert arrays(after) == ["row"]


OTHERS = {
    "the other order": WALK.replace(MOVES, "row[1][t + 1] = row[2][t + 1]; row[0][t + 1] = row[1][t + 1];"),
    "whole blocks": WALK.replace("bool in = x < n;", "")
    .replace("if (in) ", "")
    .replace("if (in &&", "if (")
    .replace("if (in) {", "{")
    .replace("in && ", "")
    .replace("(n + 7) / 8", "n / 8"),
    "another first row": WALK.replace("row[2][t + 1] = a[at];", "row[2][t + 1] = 7.0f;"),
    "a neighbour's cell": WALK.replace(MOVES, "row[0][t + 1] = row[1][t]; row[1][t + 1] = row[2][t + 1];"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_whatever_is_moved_on_the_meaning_stays(case: str) -> None:
    kernel, after = filled(OTHERS[case])
    if case != "a neighbour's cell":  # which the other thread may have moved on: a race
        assert same(kernel, after)
    text = print_kernel(after)
    assert ("row0[t + 1] = row1[t]" in text) is (case == "a neighbour's cell")
    assert "row1[t + 1] = row2[t + 1]" not in text and arrays(after) == ["row0", "row1", "row2"]


def test_what_the_kernel_writes_is_not_loaded_again() -> None:
    kernel, after = filled(WALK.replace("const float* __restrict__ a", "float* a").replace("o[at] = v", "a[at] = v"))
    assert after is kernel


def test_a_wrong_guess_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotated_planes, "after", lambda s, now: now)  # each cell as the iteration found it
    assert not same(*filled(WALK))


PAIRS = """
__global__ void pull(const float2* __restrict__ p, float* __restrict__ o, int tiles) {
  __shared__ float2 s[8];
  int t = threadIdx.x;
  float v = 0.f;
  for (int k = 0; k < tiles; k++) {
    s[t] = p[k * 8 + t];
    __syncthreads();
    for (int j = 0; j < 8; j++) v += s[j].x * s[j].y;
    __syncthreads();
  }
  o[blockIdx.x * 8 + t] = v;
}
void run(const float2* p, float* o, int tiles, int blocks) { pull<<<blocks, 8>>>(p, o, tiles); }
"""


def test_tiles_of_structures_are_no_planes_of_numbers() -> None:
    kernel, after = filled(PAIRS)
    assert after is kernel
    raised(PAIRS)
