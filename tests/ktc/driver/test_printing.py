"""The code generator: what it lowers, and how it adapts reductions to what a target can do."""

from __future__ import annotations

import pytest

from ktc.driver.printing import exchanges_lanes, fragments_of, printed
from ktc.ir.diagnostics import KtcError
from ktc.ir.text import parse_kernel

SUM = """
kernel total(out: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(1) block(128)
  reduce(+) s: f32 = 0.0 over i in 0..n @ [thread.x 128, seq]
    yield x[i]
  out[0] = s
"""


def test_a_reduction_exchanges_lanes_where_the_target_can() -> None:
    kernel = parse_kernel(SUM)
    assert exchanges_lanes("cuda") and not exchanges_lanes("opencl-cl12")
    assert "__shfl" in printed(kernel, "cuda").text
    text = printed(kernel, "opencl-cl12").text
    assert "__local" in text and "shuffle" not in text


def test_numba_takes_the_parallel_form_as_it_is() -> None:
    assert printed(parse_kernel(SUM), "numba").kernel.is_parallel
    assert not printed(parse_kernel(SUM), "cuda").kernel.is_parallel


def test_a_product_of_fragments_is_a_sum_where_there_are_none() -> None:
    assert fragments_of("cuda") and not fragments_of("opencl-cl12")


def test_an_unknown_target_is_an_error_with_a_hint() -> None:
    with pytest.raises(KtcError) as e:
        printed(parse_kernel(SUM), "fortran")
    assert e.value.code.startswith("E-BACKEND") and e.value.hint
