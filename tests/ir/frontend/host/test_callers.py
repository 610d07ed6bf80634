"""What a launching function is called with is described as all its callers in the file make it."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.kernel import Launch
from ktc.ir.text import print_expr

KERNEL = """
__global__ void k(float* p, int n, int rows, int width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = p[i % width] + rows;
}
void start(float* p, int n, int rows, int width) { k<<<(n + 127) / 128, 128>>>(p, n, rows, width); }
"""


def launch(callers: str) -> Launch:
    found = load(KERNEL + callers, name="k.cu").launch
    assert found is not None
    assert print_expr(found.grid[0]) == "(n + 127) / 128"  # the launch is what the function says
    return found


def passed(callers: str) -> dict[str, str]:
    return {name: print_expr(e) for name, e in launch(callers).passed}


@pytest.mark.parametrize(
    ("callers", "expected"),
    [
        ("void run(float* p, int r, int w) { start(p, r * w, r, w); }", {"n": "rows * width"}),
        ("void run(float* p, int r, int w) { const int all = w * r; start(p, all, r, w); }", {"n": "width * rows"}),
        ("void run(float* p, int r) { start(p, r, r, 64); }", {"rows": "n"}),
        ("void run(float* p) { start(p, 4096, 64, 64); }", {}),
        ("void run(float* p, int a, int b, int c) { start(p, a, b, c); }", {}),
        (
            "void run(float* p, int r, int w) { start(p, r * w, r, w); }\n"
            "void other(float* p, int h, int w) { start(p, h * w, h, w); }",
            {"n": "rows * width"},
        ),
        (
            "void run(float* p, int r, int w) { start(p, r * w, r, w); }\n"
            "void other(float* p, int h, int w) { start(p, h + w, h, w); }",
            {},
        ),
        (
            "void forward(float* p, int n, int rows, int width) { start(p, n, rows, width); }\n"
            "void run(float* p, int r, int w) { forward(p, r * w, r, w); }",
            {"n": "rows * width"},
        ),
    ],
    ids=["product", "variable", "twice", "numbers", "apart", "alike", "unlike", "handed on"],
)
def test_sizes_that_callers_make_of_others(callers: str, expected: dict[str, str]) -> None:
    assert passed(callers) == expected


def test_what_a_caller_makes_of_a_float_is_no_formula_of_sizes() -> None:
    text = """__global__ void k(float* p, int n, float by) { p[threadIdx.x] = n * by; }
              void start(float* p, int n, float by) { k<<<1, 64>>>(p, n, by); }
              void run(float* p, int w, float by) { start(p, (int)(w * by), by); }"""
    found = load(text, name="k.cu").launch
    assert found is not None and not found.passed


def test_a_number_that_only_the_grid_is_made_of() -> None:
    text = """__global__ void k(float* p, int width) { p[blockIdx.x * width + threadIdx.x] = 1; }
              void start(float* p, int blocks, int width) { k<<<blocks, 64>>>(p, width); }
              void run(float* p, int r, int w) { start(p, w / 4, w); }"""
    found = load(text, name="k.cu").launch
    assert found is not None and [(n, print_expr(e)) for n, e in found.passed] == [("blocks", "width / 4")]


def test_numbers_of_the_function_are_spelled_as_callers_make_them() -> None:
    text = """__global__ void k(float* p, int width, int pitch) { p[blockIdx.x * pitch + threadIdx.x] = width; }
              void start(float* p, int rows, int width, size_t bytes) {
                const size_t pitch = bytes / sizeof(float);
                k<<<rows, 64>>>(p, width, pitch);
              }
              void run(float* p, int r, int w) { start(p, r, w, w * sizeof(float)); }"""
    found = load(text, name="k.cu").launch
    assert found is not None and ("pitch", "width") in [(n, print_expr(e)) for n, e in found.passed]


def test_zeros_in_a_struct_are_no_sizes() -> None:
    text = """__global__ void k(float* p, uint3 by, int n) { p[threadIdx.x] = by.x + by.y * n; }
              void go(float* p, int n) { k<<<1, n>>>(p, make_uint3(0, 4, 0), n); }"""
    found = load(text, name="k.cu").launch
    assert found is not None and dict(found.given) == {"by_x": 0, "by_z": 0}
