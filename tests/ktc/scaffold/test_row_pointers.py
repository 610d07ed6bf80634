"""Drafts of kernels on graphs: rows that begin where the one before ends, and marks that choose what is done."""

from __future__ import annotations

import pytest

import ktc
from ktc.ir.kernel import Kernel
from ktc.scaffold import draft
from ktc.scaffold.integers.row_pointers import part_starts, row_pointers
from ktc.scaffold.text import filled

LOOP = "for (long e = p[v] + 1; e < p[v + 1]; e += 2) y[v] += x[e];"


def kernel(statement: str, head: str = "if (v < n)") -> Kernel:
    return ktc.loads(f"""
    __global__ void k(const long* p, const long* col, long* mark, const float* x, float* y, int n) {{
      const long v = blockIdx.x * blockDim.x + threadIdx.x;
      {head} {{ {statement} }} }}
    void go(const long* p, const long* col, long* mark, const float* x, float* y, int n) {{
      k<<<(n + 63) / 64, 64>>>(p, col, mark, x, y, n); }}""").kernel


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (LOOP, {"p"}),
        ("const long begin = p[v], end = p[v + 1]; for (long e = begin; e < end; e++) y[v] += x[e];", {"p"}),
        ("for (int b = 0; b < n; b++) if (v >= p[b] && v < p[b + 1]) y[v] = x[b];", {"p"}),
        ("for (long e = p[v]; e < p[v + 2]; e++) y[v] += x[e];", set()),
        ("if (p[v] < p[v + 1]) y[v] = x[v];", set()),
    ],
)
def test_parts_end_where_the_next_begin(statement: str, found: set[str]) -> None:
    assert row_pointers(kernel(statement)) == found


def test_rows_that_a_mark_opens_are_seen() -> None:
    """Zeros leave at once: what the loop reaches shows where the elements hold the number that is asked for."""
    d = draft(kernel("for (long e = p[v]; e < p[v + 1]; e++) y[v] += x[col[e]];", "if (v < n && mark[v] == -2)"))
    shapes = {b: (*e.factors, e.plus) for b, e in d.shapes.items() if e is not None}
    assert not d.doubts and [(c.buffer, c.kind) for c in d.contents] == [("p", "offsets"), ("col", "index")]
    assert shapes == {"p": ("n", 1), "col": ("p_last", 0), "mark": ("n", 0), "x": ("col_values", 0), "y": ("n", 0)}


def test_what_is_done_for_another_mark_is_seen_too() -> None:
    body = "if (mark[v] == -1) { for (long e = p[v]; e < p[v + 1]; e++) if (mark[col[e]] == -2) y[v] += x[e]; }"
    d = draft(kernel(body))
    shapes = {b: e.factors for b, e in d.shapes.items() if e is not None}
    assert not d.doubts and shapes["x"] == shapes["col"] == ("p_last",)


def test_parts_of_which_the_last_ends_at_a_parameter() -> None:
    k = ktc.loads("""
    __global__ void pad(const float* x, const long* first, float* y, int n, int longest, int total, int d) {
      const int b = blockIdx.x;
      const long begin = first[b], end = b + 1 < n ? first[b + 1] : total;
      const int count = end - begin;
      for (int i = threadIdx.x; i < count; i += blockDim.x)
        for (int j = 0; j < d; j++) y[(b * longest + i) * d + j] = x[(begin + i) * d + j];
    }
    void go(const float* x, const long* first, float* y, int n, int longest, int total, int d) {
      pad<<<n, 64>>>(x, first, y, n, longest, total, d);
    }""").kernel
    d = draft(k)
    assert part_starts(k) == {"first": "total"} and not d.doubts
    assert filled(d, k.param("first"))[0] == ['init = "offsets"', 'range = [0, "total"]']
    shapes = {b: {*e.factors} for b, e in d.shapes.items() if e is not None}
    assert d.tied("longest") == "total" and shapes["x"] == {"total", "d"} and shapes["y"] == {"n", "total", "d"}
