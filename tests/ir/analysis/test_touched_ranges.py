"""Which elements a kernel can touch: as formulas, and never fewer than the interpreter sees it touch."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ktc.ir.analysis.touched_ranges import TouchedRange, _together, touched_ranges
from ktc.ir.fold import evaluate
from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Var
from ktc.ir.text import print_expr
from ktc.ir.walk import substitute_expr

STENCIL = """
__global__ void k(float* y, const float* x, int n, int m) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i > 0 && i < n - 1 && j > 0 && j < m - 1)
    y[i * m + j] = x[(i - 1) * m + j] + x[(i + 1) * m + j] + x[i * m + j - 1] + x[i * m + j + 1];
}
void run(float* y, const float* x, int n, int m) { k<<<dim3((m + 7) / 8, (n + 3) / 4), dim3(8, 4)>>>(y, x, n, m); }
"""


def one(body: str, grid: str = "(n + 31) / 32", block: str = "32") -> str:
    head = "__global__ void k(float* y, const float* x, int n, int m) {"
    launch = "void run(float* y, const float* x, int n, int m)"
    return f"{head}\n{body}\n}}\n{launch} {{ k<<<{grid}, {block}>>>(y, x, n, m); }}\n"


INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"

KERNELS = {
    "a stencil": (STENCIL, "m + 1_i64 .. m * n - m - 2_i64"),
    "an index that is declared before it has a value": (
        one(f"{INDEX} int at, k; if (i < n) {{ at = i * m; for (int j = 0; j < m; ++j) {{ k = at + j; y[k] = 1; }} }}"),
        "0_i64 .. m * n - 1_i64",
    ),
    "a guard that returns": (one(f"{INDEX} if (i >= n) return; y[i] = x[n - 1 - i];"), "0_i64 .. n - 1_i64"),
    "a loop over the grid": (
        one(f"for ({INDEX} i < n; i += gridDim.x * blockDim.x) y[i] = x[i];", "4"),
        "0_i64 .. n - 1_i64",
    ),
    "rows": (
        one("for (int j = threadIdx.x; j < m; j += blockDim.x) y[blockIdx.x * m + j] = x[j];", "n"),
        "0_i64 .. m * n - 1_i64",
    ),
    "pointers that go on by a tile": (
        one(
            "int t = threadIdx.x; const float* a = x; float* b = y;"
            "for (int k = 0; k < n; k += 8) { b[t] = a[t % 8]; a += 8; b += 8 * m; }",
            "1",
            "8",
        ),
        "0_i64 .. m * n + 7_i64 - m",
    ),
    "pointers that go on by no part of a tile": (
        one("float* b = y; for (int k = 0; k < n; k += 4) { b[threadIdx.x] = x[k]; b += m; }", "1", "8"),
        "0_i64 .. (n - 1_i64) / 4_i64 * m + 7_i64",
    ),
    "no guard": (one(f"{INDEX} y[i] = 1;"), "0_i64 .. (n + 31) / 32 * 32_i64 - 1_i64"),
    "a guard of a sum": (
        one(f"{INDEX} for (int j = -m; j <= m; ++j) if (i + j >= 0 && i + j < n) y[i + j] = x[i + j];"),
        "0_i64 .. n - 1_i64",
    ),
    "a guard that is a number": (
        one(
            f"{INDEX} for (int j = -m; j <= m; ++j) {{ int ok = i + j >= 0 && i + j < n; int at = i + j;"
            " if (ok != 0) y[at] = 1; if (ok) y[i + j] = x[at]; }"
        ),
        "0_i64 .. n - 1_i64",
    ),
    "a clamp": (one(f"{INDEX} if (i < n) y[i] = x[min(max(i - m, 0), n - 1)];"), "0_i64 .. n - 1_i64"),
    "a choice": (one(f"{INDEX} if (i < n) y[i > 0 ? i - 1 : 0] = x[0];"), None),
    "a flat index taken apart": (
        one(f"{INDEX} if (i < n * m) y[i % m * n + i / m] = x[i];", "(n * m + 31) / 32"),
        None,
    ),
    "counting down": (one("for (int i = n - 1; i >= 0; --i) y[i] = x[i];", "1", "1"), "0_i64 .. n - 1_i64"),
    "unsigned steps of signed counters": (
        one(
            "for (int b = 0; b < n; b += gridDim.x) { int j = b + blockIdx.x; if (j < n)"
            " for (int t = 0; t < m; t += blockDim.x) { int i = t + threadIdx.x; if (i < m) y[j * m + i] = x[0]; } }",
            "n < 65535 ? n : 65535",
            "m < 512 ? m : 512",
        ),
        "0_i64 .. m * n - 1_i64",
    ),
    "a tile behind a guard": (
        one(
            "for (int t = 0; t < (m + 31) / 32; ++t) { int c = t * 32 + threadIdx.x; int r = blockIdx.x;"
            " if (r < n && c < m) y[r * m + c] = x[0]; }",
            "n",
        ),
        "0_i64 .. m * n - 1_i64",
    ),
    "nearer bounds of a loop than of a guard": (
        one(f"{INDEX} for (int j = -1; j <= 1; ++j) if (i + j >= 0 && i + j < n) y[j + 1] = x[i + j];"),
        "0_i64 .. 2_i64",
    ),
    "a byte that says where": (one(f"{INDEX} y[(unsigned char)(i + n)] = 1;"), "0_i64 .. 255_i64"),
    "an index that is counted on": (
        one(f"{INDEX} if (i >= n) return; for (int k = 0; k < m; ++k) {{ y[i] = x[i]; i += n; }}"),
        "0_i64 .. m * n - 1_i64",
    ),
    "and what it is after the loop": (
        one(
            f"{INDEX} if (i >= n) return; y[i] = 1; i += n;"
            " for (int k = 1; k < m; ++k) { y[i] = x[i]; i += n; } y[i] = 2;"
        ),
        "0_i64 .. m * n + n - 1_i64",
    ),
    "neighbours that are chosen by name": (
        one(f"{INDEX} int w = i == 0 ? i : i - 1, e = i == n - 1 ? i : i + 1; if (i < n) y[w] = x[e] + y[e];"),
        "0_i64 .. n - 1_i64",
    ),
    "whole blocks": (one(f"{INDEX} y[i] = 1;", "n / 32"), "0_i64 .. n - 1_i64"),
    "pointers that the only iteration of a thread moves on": (
        one(
            f"for ({INDEX} i < n; i += gridDim.x * blockDim.x)"
            " { y += i * m; x += i; for (int k = 0; k < m; ++k) y[k] = x[0]; }",
            "min((n + 31) / 32, 1)",
        ),
        "0_i64 .. m * n - 1_i64",
    ),
    "pointers that one of several iterations moves on": (
        one(f"for ({INDEX} i < n; i += gridDim.x * blockDim.x) {{ y += i * m; y[0] = x[0]; }}", "1"),
        "0_i64 .. m * n - m",
    ),
    "pointers that go on and are read after the loop": (
        one(f"for ({INDEX} i < n; i += gridDim.x * blockDim.x) {{ y += i * m; y[0] = 1; }} y[0] = 2;", "1"),
        None,
    ),
    "planes of what windows leave": (
        one(
            "int h = n - m + 1, i = blockIdx.y * 8 + threadIdx.y, j = blockIdx.x * 8 + threadIdx.x;"
            " if (i >= h || j >= h) return; y[(blockIdx.z * h + i) * h + j] = x[0];",
            "dim3((n + 7) / 8, (n + 7) / 8, 2)",
            "dim3(8, 8)",
        ),
        "0_i64 .. n * n * 2_i64 + n * 4_i64 + m * m * 2_i64 + 1_i64 - m * n * 4_i64 - m * 4_i64",
    ),
    "an index that each use computes anew": (
        one(
            "int at; for (int t = 0; t < (m + 31) / 32; ++t) {"
            " at = t * 32 + threadIdx.x; if (at < m) y[at] = 1;"
            " at = t * m + threadIdx.x; if (at >= n * m) y[0] = 0; else y[at] = x[at]; }",
            "1",
        ),
        "0_i64 .. m + m * n - 1_i64",
    ),
    "indices that are declared before the branch that computes them": (
        one(
            "int i, j, at; i = blockIdx.x * 32 + threadIdx.x; if (i < n) { at = i * m; y[at] = 1;"
            " for (int k = 0; k < m; k++) { j = i * m + k; y[j] += x[at]; } }"
        ),
        "0_i64 .. m * n",
    ),
    "an index of an iteration that another one reads": (
        one(f"int at = 0; {INDEX} for (int k = 0; k < n; ++k) {{ if (k > m) y[at] = 1; at = i * x[k]; }}"),
        None,
    ),
    "an index that an iteration leaves behind": (
        one(
            f"int at = 0; {INDEX} for (int k = 0; k < m; ++k) {{ if (x[k] > 0) {{ at = i + n * k; break; }} at = 0; }}"
            " y[at] = 1;"
        ),
        None,
    ),
    "counted in a branch": (
        one("int i = 0; for (int k = 0; k < n; ++k) if (k < m) { y[i] = 1; i += 1; }", "1", "1"),
        None,
    ),
    "skipped": (one("for (int i = 0; i < n; ++i) { if (i < m) continue; y[i - m] = x[i]; }", "1", "1"), None),
}


def kernel(text: str) -> Kernel:
    return load(text, name="k.cu")


def of(k: Kernel, name: str) -> str:
    r = touched_ranges(k)[k.param(name).sym]
    return "unknown" if r is None else f"{print_expr(r.low)} .. {print_expr(r.high)}".replace(" as i64", "")


@pytest.mark.parametrize("case", [c for c, (_, want) in KERNELS.items() if want])
def test_guards_bound_what_is_touched(case: str) -> None:
    text, want = KERNELS[case]
    assert of(kernel(text), "y") == want


@pytest.mark.parametrize("case", KERNELS)
def test_nothing_is_touched_outside(case: str) -> None:
    k = kernel(KERNELS[case][0])
    ranges = touched_ranges(k)
    for n, m in product((1, 2, 5, 33), (1, 3, 8)):
        size = 64 * (n + 40) * (m + 2)
        args = {"y": np.zeros(size, np.float32), "x": np.ones(size, np.float32), "n": n, "m": m}
        seen = run(k, args, measure=True).reach
        for p in k.params[:2]:
            if p.sym not in ranges:
                continue
            r = ranges[p.sym]
            assert r is not None or KERNELS[case][1] is None
            if r is None or any(int(evaluate(e, {"n": n, "m": m}) or 0) < 0 for e in r.least_zero):
                continue
            low, high = (evaluate(e, {"n": n, "m": m}) for e in (r.low, r.high))
            if p.sym.name in seen:
                assert low is not None and high is not None
                assert low <= seen[p.sym.name][0] and seen[p.sym.name][1] <= high, (case, n, m, p.sym.name)


@pytest.mark.parametrize(
    "body",
    [
        f"{INDEX} if (i < n) y[(int)x[i]] = 1;",  # memory says where
        f"{INDEX} int at = i; if (at < n) {{ at += m; y[at] = x[i]; }}",  # the guard is of another value
        f"{INDEX} int s = 0; int k = s; s = m; if (i < n) y[k - s + i] = 1;",  # a name of what has changed
        "float* p = y + m; p[threadIdx.x] = 1; for (int j = 1; j < n; j *= 2) p[j] = 1;",
        f"{INDEX} if ((unsigned)(i - m) < (unsigned)(n - m)) y[i - m] = 1;",  # below zero, a large number
    ],
)
def test_what_is_not_known_is_not_claimed(body: str) -> None:
    k = kernel(one(body))
    if of(k, "y") != "unknown":  # then it has to hold
        for n, m in product((1, 5), (1, 3, 8)):
            args = {"y": np.zeros(4096, np.float32), "x": np.ones(4096, np.float32), "n": n, "m": m}
            seen, r = run(k, args, measure=True).reach, touched_ranges(k)[k.param("y").sym]
            assert r is not None
            low, high = (evaluate(e, {"n": n, "m": m}) for e in (r.low, r.high))
            assert low is not None and high is not None
            assert low <= seen.get("y", (low, high))[0] and seen.get("y", (low, high))[1] <= high


def test_a_buffer_that_the_kernel_never_names_is_not_among_them() -> None:
    k = kernel(one(f"{INDEX} if (i < n) y[i] = 1;"))
    assert [s.name for s in touched_ranges(k)] == ["y"]


def test_what_launches_touch_together_is_no_less_than_what_each_does() -> None:
    """Of every two kernels with the same arguments, at sizes that fulfil the conditions of what is said of both."""
    first = kernel(KERNELS["a stencil"][0])
    known = []
    for text, want in KERNELS.values():
        k = kernel(text)
        r = touched_ranges(k)[k.param("y").sym] if want else None
        same = {k.param(n).sym: Var(first.param(n).sym) for n in ("n", "m")}
        known += [TouchedRange(*(substitute_expr(e, same) for e in (r.low, r.high)),
                               tuple(substitute_expr(e, same) for e in r.least_zero))] if r else []  # fmt: skip
    tried = 0
    for a, b, n, m in product(known, known, (1, 2, 5, 33), (1, 3, 8)):
        at = {"n": n, "m": m}
        both = _together(a, b)
        if all(int(evaluate(e, at) or 0) >= 0 for e in both.least_zero):
            lows, highs = (
                [int(evaluate(e, at) or 0) for e in ends] for ends in zip(*((r.low, r.high) for r in (a, b, both)))
            )
            assert lows[2] <= min(lows) and highs[2] >= max(highs), (a, b, n, m)
            tried += 1
    assert tried > 1000
