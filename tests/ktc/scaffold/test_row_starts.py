"""Drafts of samplers: rows that begin where a buffer says, no longer than so many of each part are wanted."""

from __future__ import annotations

import numpy as np

import ktc
from ktc.ir.kernel import Kernel
from ktc.ir.workload.input_data import INITS
from ktc.scaffold import draft
from ktc.scaffold.integers.row_pointers import part_limits, row_pointers
from ktc.scaffold.integers.row_starts import row_starts

SAMPLE = """
__global__ void sample(const int* seeds, const int* ptr, const int* col, const int* best, const int* begin,
                       const int* first, int* out, int picks, int rows) {
  const int r = blockIdx.x;
  const int from = ptr[seeds[r]], degree = ptr[seeds[r] + 1] - from, to = begin[r];
  if (degree > picks) {
    for (int i = threadIdx.x; i < picks; i += blockDim.x) out[to + i] = col[best[first[r] + i]];
  } else {
    for (int i = threadIdx.x; i < degree; i += blockDim.x) out[to + i] = col[from + i];
  }
}
void go(const int* s, const int* p, const int* c, const int* b, const int* t, const int* f, int* o, int picks, int rows)
{ sample<<<rows, 64>>>(s, p, c, b, t, f, o, picks, rows); }
"""

DEGREES = """
__global__ void degrees(const int* seeds, const int* ptr, int* out, int picks, int rows) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) out[r] = min(picks, ptr[seeds[r] + 1] - ptr[seeds[r]]);
}
void go(const int* s, const int* p, int* o, int picks, int rows)
{ degrees<<<(rows + 63) / 64, 64>>>(s, p, o, picks, rows); }
"""


def kernel(source: str) -> Kernel:
    return ktc.loads(source).kernel


def test_starts_are_told_from_where_parts_end_too() -> None:
    k = kernel(SAMPLE)
    assert row_pointers(k) == {"ptr"} and part_limits(k) == {"picks"}
    assert row_starts(k) == {"begin": "picks", "first": "picks"}
    windows = SAMPLE.replace("i < picks", "i < 8").replace("i < degree", "i < 8")
    assert row_starts(kernel(windows)) == {}


def test_a_sampler_has_rows_as_long_as_what_is_wanted_and_picks_among_all_elements() -> None:
    d = draft(kernel(SAMPLE))
    shapes = {b: {*e.factors} for b, e in d.shapes.items() if e is not None}
    assert not d.doubts
    assert d.shapes["out"] is not None and d.shapes["out"].factors == ("rows", "picks")
    assert shapes["out"] == shapes["best"] == {"rows", "picks"} and shapes["begin"] == shapes["first"] == {"rows"}
    assert shapes["col"] == {"ptr_last"} and d.tied("best_values") == "ptr_last"
    _, large, _ = next(s for s in d.scenarios if s[0] == "large")
    assert large["picks"] == 16 and 8 <= large["ptr_last"] / large["seeds_values"] <= 32  # half of the rows are longer
    assert large["seeds_values"] > 1000


def test_what_lengths_of_parts_are_only_compared_with_is_about_as_much_as_they_have() -> None:
    d = draft(kernel(DEGREES))
    assert d.roles.numbers["picks"] == 16 and "picks" in d.roles.flags
    _, large, _ = next(s for s in d.scenarios if s[0] == "large")
    assert large["seeds_values"] > 1000 and large["ptr_last"] >= 8 * large["seeds_values"]


def test_starts_are_as_far_apart_as_each_other() -> None:
    rng = np.random.default_rng(0)
    assert INITS["starts"](rng, 5, (0, 4 * 24), False).tolist() == [0, 24, 48, 72, 96]
    assert INITS["starts"](rng, 1, (0, 0), False).tolist() == [0]


def test_a_seed_is_no_size() -> None:
    source = SAMPLE.replace("int picks, int rows)", "int picks, int rows, long rand_seed)").replace(
        "out[to + i] = col[best", "out[(to + i + rand_seed) % (rows * picks)] = col[best"
    )
    d = draft(kernel(source.replace("f, o, picks, rows);", "f, o, picks, rows, rand_seed);")))
    assert d.roles.fixed["rand_seed"] == 42 and "rand_seed" not in d.names
