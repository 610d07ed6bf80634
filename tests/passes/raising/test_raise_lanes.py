"""Kernels that move vectors raise to loops over elements, a vector's on one thread."""

from __future__ import annotations

import re

import pytest

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Load, Store
from ktc.ir.text import print_kernel
from ktc.ir.types import Vec
from ktc.ir.walk import all_exprs, walk
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.lanes.wide_accesses import is_wide
from tests.passes.raising.raised_once import raised
from tests.passes.raising.vector_sources import KEPT, SOURCES


def accesses(k: Kernel) -> list[object]:
    return [x for s in walk(k.body) for x in (s, *all_exprs((s,)))]


@pytest.mark.parametrize("name", SOURCES)
def test_loops_over_vectors_are_loops_over_elements(name: str) -> None:
    source, lines = SOURCES[name]
    kernel, outcome = raised(source)
    text = print_kernel(outcome.kernel)
    assert not any(map(is_wide, accesses(outcome.kernel))), text
    for line in lines:
        assert line in text, text
    assert Reference(kernel, instances=4, seed=11).differs(outcome.kernel, given=outcome.kernel.assumptions) == ""


@pytest.mark.parametrize("name", [n for n in SOURCES if "tail" not in n])  # which take a guard an element
def test_what_it_lowers_to_moves_words_as_wide(name: str) -> None:
    kernel, outcome = raised(SOURCES[name][0])
    before, after = (max(map(bytes_of, accesses(k))) for k in (kernel, materialise(outcome.kernel)))
    assert after >= before >= 4


def bytes_of(x: object) -> int:
    """The bytes that an access moves."""
    if not is_wide(x) or not isinstance(x, Load | Store):
        return 0
    t = (x if isinstance(x, Load) else x.value).type
    assert isinstance(t, Vec)
    n = t.n if isinstance(t.n, int) else evaluate(t.n, {})
    return t.elem.bytes * int(n or 0)


@pytest.mark.parametrize("name", KEPT)
def test_lanes_that_differ_stay_vectors(name: str) -> None:
    source, why = KEPT[name]
    _, outcome = raised(source)
    text = print_kernel(outcome.kernel)
    assert any(map(is_wide, accesses(outcome.kernel))), text
    assert any("vectors: " in n and why in n for n in outcome.notes), outcome.notes


@pytest.mark.parametrize(
    "text",
    [
        "float4 c; if (more) { c = y4[i]; y4[i] = zero; z4[i] = c; }",  # what was read is overwritten first
        "float4 c = zero; if (more) { c = y4[i]; y4[i] = zero; } z4[i] = c;",
        "float4 c = zero; if (i % 2) c = y4[i]; z4[i] = c;",  # not the same in all iterations
    ],
)
def test_what_is_read_under_a_condition_is_what_was_there(text: str) -> None:
    source = """
__global__ void k(float* __restrict__ y, float* __restrict__ z, bool more, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 *y4 = reinterpret_cast<float4*>(y), *z4 = reinterpret_cast<float4*>(z), zero = make_float4(0, 0, 0, 0);
  if (i < n / 4) { TEXT }
}
void go(float* y, float* z, bool more, int n) { k<<<(n / 4 + 127) / 128, 128>>>(y, z, more, n); }
"""
    kernel, outcome = raised(source.replace("TEXT", text))
    assert Reference(kernel, instances=6, seed=11).differs(outcome.kernel, given=outcome.kernel.assumptions) == ""


def test_a_tail_that_does_something_else_is_not_joined() -> None:
    source = SOURCES["float4 and a tail beside it"][0].replace("+= a * x[j]", "-= a * x[j]")
    _, outcome = raised(source)
    assert "assume n % 4 == 0 origin guessed" in print_kernel(outcome.kernel)


def test_the_form_of_elements_is_that_of_a_kernel_of_elements() -> None:
    scalar = """
__global__ void k(float* __restrict__ y, const float* __restrict__ x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = y[i] + a * x[i];
}
void go(float* y, const float* x, float a, int n) { k<<<(n + 127) / 128, 128>>>(y, x, a, n); }
"""
    mine, theirs = (raised(x)[1].kernel.body for x in (SOURCES["float4 and a tail beside it"][0], scalar))
    texts = [print_kernel(Kernel("k", (), None, b)) for b in (mine, theirs)]
    assert re.sub("vec 4, ", "", texts[0]) == texts[1]
