"""Rows or planes in shared memory that a block moves on from iteration to iteration, as loads where they are used."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.nodes import For, Par
from ktc.ir.text import print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.base import Refused
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.raise_ import Raise
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


OTHERS = {
    "the other order": WALK.replace(MOVES, "row[1][t + 1] = row[2][t + 1]; row[0][t + 1] = row[1][t + 1];"),
    "another first row": WALK.replace("row[2][t + 1] = a[at];", "row[2][t + 1] = 7.0f;"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_whatever_is_moved_on_the_meaning_stays(case: str) -> None:
    kernel, outcome = raised(OTHERS[case])
    assert Reference(kernel, instances=6, seed=99, sizes=SIZES).differs(outcome.kernel) == ""


def test_a_neighbours_cell_is_no_cell_of_its_own() -> None:
    moved = WALK.replace(MOVES, "row[0][t + 1] = row[1][t]; row[1][t + 1] = row[2][t + 1];")
    kernel = load(moved, name="source.cu")
    assert kernel.launch is not None
    filled = filled_planes(kernel, kernel.body)
    assert "row1[t]" in (text := print_kernel(kernel.with_(body=filled))) or "row[1, t]" in text


def test_a_wrong_guess_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotated_planes, "after", lambda s, now: now)  # each cell as the iteration found it
    monkeypatch.setenv("KTC_RAISE_CACHE", "off")
    outcome = Raise().run(load(WALK, name="source.cu"))
    assert isinstance(outcome, Refused) or any("left:" in note for note in outcome.notes)
