"""Early returns of inlined functions: what they compute, and that their text does not double with each of them."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.walk import walk

THREADS = 32


def program(count: int, inside: str = "") -> str:
    """``count`` ifs one after another, each of which may return or go on."""
    ifs = "\n".join(
        f"  if (x > {2 * k}) {{ {inside} if (t % {count + 3} == {k}) return 100 * {k} + x; x += {k + 1}; }}"
        for k in range(count)
    )
    return (
        f"__device__ int f(int x, int t) {{\n{ifs}\n  return x;\n}}\n"
        "__global__ void k(int* y) { const int t = threadIdx.x; y[t] = f(t / 2, t) + f(t, 7 * t); }\n"
    )


def returned(x: int, t: int, count: int, loops: bool) -> int:
    for k in range(count):
        if x > 2 * k:
            if loops and 4 > x % 9 > 1:
                return -1
            if t % (count + 3) == k:
                return 100 * k + x
            x += k + 1
    return x


LOOP = "for (int i = 2; i < 4; ++i) if (x % 9 == i) return -1;"


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("count", [1, 3, 4, 7])
def test_the_first_return_that_is_reached_counts(execute, count: int, loops: bool) -> None:
    got = execute(program(count, LOOP if loops else ""), {"y": np.zeros(THREADS, np.int32)}, threads=THREADS)
    expected = [returned(t // 2, t, count, loops) + returned(t, 7 * t, count, loops) for t in range(THREADS)]
    assert len(set(expected)) > 5
    assert got["y"].tolist() == expected


def test_the_text_grows_with_the_source(cu) -> None:
    sizes = [sum(1 for _ in walk(cu(program(count)).body)) for count in (8, 16, 32)]
    assert sizes[2] - sizes[1] < 2.5 * (sizes[1] - sizes[0])


NEVER_BACK = """template <int K> __device__ float conv(float x) {
  if constexpr (K == 1) return x * 2;
  __builtin_unreachable(); }
__global__ void k(float* y, int n) { if (n > 3) y[0] = conv<7>(y[1]); else y[0] = conv<1>(y[1]); }
void f(float* y, int n) { k<<<1, 1>>>(y, n); }"""


def test_a_function_that_never_comes_back_needs_no_value_and_coming_back_is_found(cu):
    kernel = cu(NEVER_BACK)
    args = {"y": np.array([0, 3], np.float32)}
    good = run(kernel, {**args, "n": 1})
    assert good.findings == [] and good.outputs["y"].tolist() == [6, 3]
    assert [f.kind for f in run(kernel, {**args, "n": 4}).findings] == ["uninitialised"]


def test_a_function_that_only_ends_is_refused(refuses):
    refuses(NEVER_BACK.replace("__builtin_unreachable();", ""), "E-SEMA-RETURN")


CALLED = """__device__ void put(int* y, int t, int v) { y[t] = v; }
template <typename T> __device__ auto passed(T* y, int t) { return put(y, t, 20); }
__device__ void inside(int* y, int t, int n) {
  if (n % 5 == 0) return put(y, t, 30);
  for (int i = 0; i < n; ++i) if (i == t) return put(y, i, 40);
  return (void)(y[t] = 50);
}
__global__ void k(int* y, int n) {
  const int t = threadIdx.x;
  auto here = [&](int v) { return put(y, t, v); };
  if (n % 2 == 0) { return put(y, t, 10); }
  if (n % 3 == 0) return passed(y, t);
  if (n % 7 == 0) return here(25);
  return inside(y, t, n);
}
void f(int* y, int n) { k<<<1, 8>>>(y, n); }"""


@pytest.mark.parametrize(
    ("n", "expected"), [(4, [10] * 8), (9, [20] * 8), (7, [25] * 8), (5, [30] * 8), (1, [40] + [50] * 7)]
)
def test_what_a_function_without_a_value_returns_is_called(cu, n: int, expected: list[int]) -> None:
    result = run(cu(CALLED), {"y": np.zeros(8, np.int32), "n": n})
    assert result.ok and result.outputs["y"].tolist() == expected
