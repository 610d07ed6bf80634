"""Barriers: whether all threads of a block are shown to reach them, statement by statement, in a known launch."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ktc.ir.analysis.thread_values import ThreadValues
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.nodes import Binary, Cast, Const, HwIndex
from ktc.ir.types import I32, U32
from ktc.ir.verifier import unproved, verify

HEAD = "__global__ void k(int* y, int n) {\n  __shared__ int s[64];\n  const int t = threadIdx.x;\n  s[t] = t;\n"


def kernel_of(body: str, block: str = "64"):
    return load(f"{HEAD}{body}\n}}\nvoid host(int* y, int n) {{ k<<<2, {block}>>>(y, n); }}\n", name="k.cu")


@pytest.mark.parametrize(
    "body, block",
    [
        # One variable, an index first and a counter later.
        ("int i = t + 1; y[i] = i; for (i = 32; i > 0; i >>= 1) { if (t < i) s[t] += s[t + i]; __syncthreads(); }",
         "64"),
        ("int v = y[t]; v = n; if (v > 3) __syncthreads();", "64"),
        ("int v = n; if (t > 3) v = 1; else v = 2; __syncthreads(); v = s[0]; while (v > 2) { "
         "__syncthreads(); --v; }", "64"),
        ("int m; do { m = t + n; s[t] = m; __syncthreads(); m = s[0]; __syncthreads(); } while (m < n);", "64"),
        ("int v = t; for (int i = 0; i < n; ++i) { v = i; if (v == 7) break; __syncthreads(); v = t; }", "64"),
        ("for (int i = 0; i < n; ++i) { int v = y[i]; if (v < 0) { v = t; continue; } if (v > 9) __syncthreads(); }",
         "64"),
        # Loops from a place of the thread to one that is as far away for all.
        ("for (int i = t + 3; i < 3 + n + t; i += 2) __syncthreads();", "64"),
        ("const int a = n * 64 + t, b = a + 64 * n; for (int i = a; i <= b; i += 64) { y[t] = i; __syncthreads(); }",
         "64"),
        ("const int a = t + 1, b = a + n; for (int i = b; a <= i; --i) { s[t] += i; __syncthreads(); }", "64"),
        # The block's shape.
        ("if (t < 64) __syncthreads();", "64"),
        ("if (threadIdx.y == 0 && n > 2) __syncthreads();", "64"),
        ("if (t / 32 == 0 || n > 9) __syncthreads();", "32"),
        ("const bool all = t + 1 <= 64; if (all) __syncthreads();", "64"),
        ("const int warp = (threadIdx.y * 64 + t) >> 7; if (warp != 0) return; __syncthreads(); "
         "if (warp == 0) __syncthreads();", "dim3(64, 2)"),
        # One warp agrees on votes, reductions and broadcasts.
        ("if (__any_sync(0xffffffff, t == n)) __syncthreads();", "32"),
        ("if (__ballot_sync(0xffffffff, y[t] > 0) & 5) __syncthreads();", "32"),
        ("const int v = __shfl_sync(0xffffffff, y[t], 0); while (s[v & 31] < n) { "
         "__syncthreads(); s[t] += v + 1; __syncthreads(); }", "32"),
        ("if (__reduce_add_sync(0xffffffff, (unsigned)t) > n) __syncthreads();", "dim3(8, 4)"),
        ("if (__syncthreads_or(y[t] > n)) { __syncthreads(); y[t] = 0; }", "64"),
    ],
)  # fmt: skip
def test_shown_to_be_reached_by_all(body: str, block: str) -> None:
    kernel = kernel_of("  " + body, block)
    assert unproved(kernel) == []
    for n in (0, 1, 5, 40):
        got = run(kernel, {"y": np.arange(256, dtype=np.int32) % 7, "n": n})
        assert not [f for f in got.findings if f.kind == "barrier-divergence"]


@pytest.mark.parametrize(
    "body, block",
    [
        ("int v = n; if (t > 3) v = 1; if (v > 2) __syncthreads();", "64"),
        ("int v = n; for (int i = 0; i < n; ++i) { if (v > 2) __syncthreads(); v = t; }", "64"),  # around the back edge
        ("int v = n; for (int i = 0; i < n; ++i) { if (i == 2) { v = t; break; } } if (v > 2) __syncthreads();", "64"),
        ("int v = 0; while (true) { ++v; if (v > t) break; } if (v > 3) __syncthreads();", "64"),  # at different times
        ("int v = 0; do { ++v; if (v == 2) __syncthreads(); } while (v <= t);", "64"),
        ("int v = n; if (t > 3) { v = 5; } else { v = 5; } if (v == n) __syncthreads();", "64"),  # no algebra
        ("for (int i = t; i < n + 2 * t; i += 2) __syncthreads();", "64"),
        ("for (int i = t; i < n + t; i += t + 1) __syncthreads();", "64"),
        ("int b = n + t; for (int i = t; i < b; ++i) { b = n; __syncthreads(); }", "64"),
        ("for (int i = t; i < n + t; ++i) { if (i == 5) break; __syncthreads(); }", "64"),
        ("for (unsigned i = t; i < (unsigned)n + t; ++i) __syncthreads();", "64"),  # which may wrap for some
        ("if (t < 63) __syncthreads();", "64"),
        ("if (t < 32) __syncthreads();", "64"),
        ("if (threadIdx.y == 0) __syncthreads();", "dim3(32, 2)"),
        ("if (__any_sync(0xffffffff, t == n)) __syncthreads();", "64"),  # warps may disagree
        ("if (__shfl_sync(0xffffffff, t, t ^ 1) > n) __syncthreads();", "32"),
        ("if (__shfl_sync(0xffffffff, t, 0, 16) > n) __syncthreads();", "32"),  # one value a segment
        ("if (__activemask() == 0xffffffff) __syncthreads();", "32"),
        ("if (__match_any_sync(0xffffffff, y[t]) > 5) __syncthreads();", "32"),
        ("if (__ballot_sync(t < 16 ? 0xffff : 0xffff0000, t > n) & 1) __syncthreads();", "32"),
        ("int a[2]; a[0] = t; a[0] = 1; if (a[0] > n) __syncthreads();", "64"),  # elements are not followed
    ],
)  # fmt: skip
def test_not_shown(body: str, block: str) -> None:
    assert [p.code for p in unproved(kernel_of("  " + body, block))] == ["V-BARRIER"]


def test_without_a_launch_the_block_is_not_known() -> None:
    assert [p.code for p in unproved(load(f"{HEAD}  if (t < 64) __syncthreads();\n}}\n", name="k.cu"))] == ["V-BARRIER"]


def test_values_wrap_as_the_machine_does() -> None:
    values = ThreadValues(kernel_of("  y[t] = 0;"), (4, 1, 1))
    x, one = HwIndex("thread", "x"), Const(1, U32)
    less = Binary("-", x, one)
    assert not values.same(Binary("<", less, Const(3, U32)))  # 0 - 1 is no small number
    assert values.same(Binary("<", Cast(I32, less), Const(3, I32)))
    assert values.same(Binary("/", x, Const(4, U32))) and not values.same(Binary("/", x, Const(3, U32)))
    assert not values.same(Binary("/", one, x))  # division by zero: not known
    assert values.same(Binary(">>", Binary("*", x, Const(0x40000000, U32)), Const(32, U32))) is False  # not known


@pytest.mark.parametrize("block", ["0", "dim3(1 << 30, 1 << 30, 4)", "dim3(4, 0x40000000, 0x7fffffff)"])
def test_a_block_that_no_device_has_is_a_complaint_not_a_crash(block: str) -> None:
    text = f"""__global__ void k(float *x) {{ if (threadIdx.x * 2 < 3) __syncthreads(); x[0] = 1.0f; }}
    void go(float *x) {{ k<<<1, {block}>>>(x); }}"""
    assert "V-LAUNCH" in [w.code for w in verify(load(text))]


GRID = """\
__global__ void k(int* y, int n, unsigned m) {
  __shared__ int s[8][32];
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int r = threadIdx.y + blockIdx.y * 8;
  if (%s) {
    s[threadIdx.y][threadIdx.x] = y[r * n + x];
    __syncthreads();
    y[r * n + x] = s[7 - threadIdx.y][threadIdx.x];
  }
}
void host(int* y, int n, unsigned m) { k<<<dim3((n + 31) / 32, (m + 7) / 8), dim3(32, 8)>>>(y, n, m); }
"""


def in_whole_blocks(cond: str, n: int = 32, m: int = 8) -> list[str]:
    kernel = load(GRID % cond, name="k.cu")
    by = {"n": n, "m": m}
    params = tuple(dataclasses.replace(p, divisible_by=by.get(p.sym.name, 1)) for p in kernel.params)
    return [p.code for p in unproved(kernel.with_(params=params))]


def test_whole_blocks_are_on_one_side_of_a_size_that_they_divide() -> None:
    assert in_whole_blocks("x < n && r < m") == []
    assert in_whole_blocks("n > x && !(r >= m)") == []
    assert in_whole_blocks("32 + x < 3 * n && r < m", n=64, m=24) == []
    assert in_whole_blocks("x < n + 64") == []


@pytest.mark.parametrize(
    "cond", ["x <= n", "x < n - 1", "x + 1 < n", "2 * x < n", "n < x", "x < m", "x + r < n", "x == n"]
)
def test_blocks_that_a_size_may_split(cond: str) -> None:
    assert in_whole_blocks(cond) == ["V-BARRIER"]


@pytest.mark.parametrize("n, m", [(16, 8), (32, 4), (1, 1), (48, 8)])
def test_sizes_that_blocks_do_not_divide(n: int, m: int) -> None:
    assert in_whole_blocks("x < n && r < m", n, m) == ["V-BARRIER"]
