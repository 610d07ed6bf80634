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


TWO_AXES = """
struct Matrix { int rows, cols, pitch; };
__global__ void scale(float* x, float by, Matrix m) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (j < m.cols && i < m.rows) x[i * m.pitch + j] *= by;
}
void start(dim3 blocks, dim3 block, float* x, float by, Matrix m) { scale<<<blocks, block>>>(x, by, m); }
int blocks_for(int n, int each) { return (n + each - 1) / each; }
"""
COLUMNS, ROWS = "(m_cols + 32 - 1) / 32", "(m_rows + 8 - 1) / 8"


@pytest.mark.parametrize(
    ("callers", "grid", "block"),
    [
        (
            "void run(float* x, float by, int rows, int cols, int pitch) { Matrix m = {rows, cols, pitch};\n"
            "  dim3 block(32, 8), blocks(blocks_for(cols, 32), blocks_for(rows, 8)); start(blocks, block, x, by, m); }",
            (COLUMNS, ROWS), (32, 8),
        ),
        (
            "void run(float* x, float by, int rows, int cols, int pitch) { Matrix m; m.rows = rows; m.cols = cols;\n"
            "  m.pitch = pitch; dim3 blocks; blocks.x = blocks_for(cols, 32); blocks.y = blocks_for(rows, 8);\n"
            "  start(blocks, dim3(32, 8), x, by, m); }",
            (COLUMNS, ROWS), (32, 8),
        ),
        (
            "void forward(dim3 g, dim3 b, float* x, Matrix m) { start(g, b, x, 2.0f, m); }\n"
            "void run(float* x, Matrix m) { dim3 b(32, 8), g(blocks_for(m.cols, 32), blocks_for(m.rows, 8));\n"
            "  forward(g, b, x, m); }",
            (COLUMNS, ROWS), (32, 8),
        ),
        (
            "void run(float* x, Matrix m) { dim3 b(32, 8), g(blocks_for(m.cols, 32), blocks_for(m.rows, 8));\n"
            "  start(g, b, x, 2.0f, m); }\n"
            "void other(float* x, Matrix m) { dim3 b(32, 4), g(blocks_for(m.cols, 32), blocks_for(m.rows, 4));\n"
            "  start(g, b, x, 2.0f, m); }",
            (COLUMNS, None), (32, None),
        ),
        ("void shape(dim3*, dim3*);\n"
         "void run(float* x, Matrix m) { dim3 g, b(32, 8); shape(&g, &b); start(g, b, x, 1.0f, m); }",
         (None, None), (None, None)),
    ],
    ids=["variables", "members", "handed on", "unlike", "changed elsewhere"],
)  # fmt: skip
def test_extents_are_what_callers_pass_for_them(
    callers: str, grid: tuple[str | None, ...], block: tuple[int | None, ...]
) -> None:
    found = load(TWO_AXES + callers, name="k.cu").launch
    assert found is not None and [print_expr(e) for e in found.grid[:2]] == ["blocks_x", "blocks_y"]
    passed, given = {n: print_expr(e) for n, e in found.passed}, dict(found.given)
    assert (passed.get("blocks_x"), passed.get("blocks_y")) == grid
    assert (given.get("block_x"), given.get("block_y")) == block


@pytest.mark.parametrize(
    "blocks",
    [
        "n / 64 + (n % 64 == 0 ? 0 : 1)",
        "n / 64 + (n % 64 != 0 ? 1 : 0)",
        "n / 64 + (n % 64 != 0)",
        "(n % 64 != 0) + n / 64",
    ],
)
def test_quotients_that_are_rounded_up_are_described_as_such(blocks: str) -> None:
    text = f"""__global__ void k(float* p, int n) {{ if (blockIdx.x * 64 + threadIdx.x < n) p[threadIdx.x] = 1; }}
               void start(float* p, int blocks, int n) {{ k<<<blocks, 64>>>(p, n); }}
               void run(float* p, int n) {{ start(p, {blocks}, n); }}"""
    found = load(text, name="k.cu").launch
    assert found is not None and [(n, print_expr(e)) for n, e in found.passed] == [("blocks", "cdiv(n, 64)")]


def test_no_other_sum_with_a_remainder_is_a_rounded_quotient() -> None:
    text = """__global__ void k(float* p, int n) { if (blockIdx.x * 64 + threadIdx.x < n) p[threadIdx.x] = 1; }
              void start(float* p, int blocks, int n) { k<<<blocks, 64>>>(p, n); }
              void run(float* p, int n) { start(p, n / 64 + (n % 32 == 0 ? 0 : 1), n); }"""
    found = load(text, name="k.cu").launch
    assert found is not None and "cdiv" not in print_expr(dict(found.passed)["blocks"])


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("void Run() { start(x_, Rows() * cols_, Rows(), Cols()); }", {"n": "rows * width"}),
        ("void Run() { int all = this->rows_ * this->Cols(); start(x_, all, rows_, this->cols_); }",
         {"n": "rows * width"}),
        ("void Run(int rows_) { start(x_, Rows() * cols_, rows_, cols_); }", {}),  # another number than the member
        ("void Run() { start(x_, Grown() * cols_, rows_, cols_); }", {}),
    ],
    ids=["methods", "members of this", "hidden member", "more than a value"],
)  # fmt: skip
def test_methods_of_the_caller_s_object_are_what_they_return(method: str, told: dict[str, str]) -> None:
    members = "float* x_; int rows_, cols_; int Rows() const { return rows_; } int Cols() const { return cols_; }"
    grown = "int Grown() { rows_ += 1; return rows_; }"
    assert passed(f"struct Matrix {{ {members} {grown} {method} }};") == told


def test_a_grid_of_numbers_that_nothing_else_is_made_of_is_not_known() -> None:
    text = """__global__ void k(float* p, int n) { if (blockIdx.x * 64 + threadIdx.x < n) p[threadIdx.x] = 1; }
              void start(float* p, int blocks, int n) { k<<<blocks, 64>>>(p, n); }
              struct Other { int size() const; };
              void run(float* p, int n, const Other& o) { start(p, o.size() / 64, n); }"""
    found = load(text, name="k.cu").launch
    assert found is not None and not found.passed


def test_members_are_no_variables_whatever_they_are_called() -> None:
    text = """struct Blob { int count() const; int n; };
              __global__ void k(float* p, int n) { if (threadIdx.x < n) p[threadIdx.x] = 1; }
              void start(float* p, const Blob& b) { const int count = b.count(), n = b.n; k<<<1, 64>>>(p, b.n + n); }
              void run(float* p, const Blob& from) { start(p, from); }
              void other(float* p, const Blob& b, int count) { const int n = b.count(); start(p, b); }"""
    found = load(text, name="k.cu").launch
    assert found is not None and print_expr(found.grid[0]) == "1"
