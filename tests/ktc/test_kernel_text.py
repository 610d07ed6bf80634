"""A kernel's own lines in a source and in printed texts: what a report shows first."""

from __future__ import annotations

import pytest

from ktc.page.blocks import Code, Folded, Page, Section
from ktc.page.document import html
from ktc.page.kernel_text import holding, parted
from ktc.page.plain_texts import markdown

SOURCE = """\
/* A licence; __global__ void scale(float* x) { */
#include "reference.h"

__device__ float twice(float v) { return v + v; }

// Scales a row.
template <typename T>
__global__ void __launch_bounds__(256)
scale(T* x, int n) {
  if (n) { x[0] = '}'; }
}

int main() {
  scale<<<1, 256>>>(x, n);
}
"""

PRINTED = """\
@njit(**OPTIONS)
def round_f16(x):
    return x


@njit(**OPTIONS)
def scale_grid_body(x, n):
    x[0] = n


def scale(x, n):
    scale_grid_body(x, n)


def scaled(x):
    pass
"""


def test_the_kernel_of_a_source_with_what_stands_directly_above_it() -> None:
    parts = parted(SOURCE, "mine::scale", "cuda")
    assert parts.kernel == SOURCE[SOURCE.index("// Scales") : SOURCE.index("int main")].rstrip("\n")
    assert "licence" in parts.rest and "twice" in parts.rest and "int main" in parts.rest and "'}'" not in parts.rest


def test_the_functions_of_a_kernel_in_python() -> None:
    parts = parted(PRINTED, "scale", "numba")
    assert (
        parts.kernel.startswith("@njit(**OPTIONS)\ndef scale_grid_body(x, n):") and "def scale(x, n):" in parts.kernel
    )
    assert "round_f16" in parts.rest and "def scaled(x)" in parts.rest


@pytest.mark.parametrize("language", ["cuda", "numba", "opencl"])
def test_a_text_without_the_kernel_has_no_part_of_it(language: str) -> None:
    assert parted("not ( a program {", "scale", language).kernel == ""


def test_a_kernel_of_an_included_file() -> None:
    assert holding("int main() { scale<<<1, 1>>>(x); }", [SOURCE], "scale") == SOURCE
    assert holding("int main() {}", ["int x;"], "scale") == "int main() {}"


def test_what_is_shown_on_demand_alone_is_not_in_markdown_and_not_on_paper() -> None:
    page = Page("t", [], [Section("s", [Folded("whole", [Code("", "text", "cuda")], printed=False)])])
    assert '<details class="aside"><summary>whole' in html(page) and "whole" not in markdown(page)
