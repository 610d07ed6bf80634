"""Loops over unsigned or wide counters are counted in ``int`` where it holds all that they count, and nowhere else."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.raising.normalise.int_counters import counted_in_int
from ktc.passes.tensor.contractions import products

from .raised_once import raised

KERNEL = """\
kernel k(x: f32 const*, y: f32*, n: u32{of_n}, m: i64{of_m})
  par row: u32 in 0_u32..n @ [seq]
    var s: f32 = 0.0
    for i: i64 = {first}; i {until}; {step}
      s += x[i64(row) * m + i]
    y[row] = s
"""
KNOWN, PLAIN = " range 1..4096", {"first": "0_i64", "until": "< m", "step": "i + 1_i64"}


def counted(**parts: str) -> str:
    kernel = parse_kernel(KERNEL.format(**{"of_n": KNOWN, "of_m": KNOWN, **PLAIN, **parts}))
    return print_kernel(counted_in_int(kernel))


@pytest.mark.parametrize("parts", [{}, {"step": "i + 4_i64"}, {"until": "<= m"}, {"first": "3_i64"}], ids=str)
def test_counters_within_int(parts: dict[str, str]) -> None:
    assert "par row in 0..n" in counted(**parts) and "i: i64" not in counted(**parts)


@pytest.mark.parametrize(
    "parts, kept",
    [
        ({"of_n": ""}, "par row: u32"),
        ({"of_n": " range 1..4294967295"}, "par row: u32"),
        ({"of_m": ""}, "for i: i64"),
        ({"of_m": f" range 1..{2**31 - 1}", "step": "i + 4_i64"}, "for i: i64"),
        ({"step": "i * 2_i64", "first": "1_i64"}, "for i: i64"),
        ({"until": "!= m"}, "for i: i64"),
    ],
    ids=str,
)
def test_counters_that_may_not_fit_stay(parts: dict[str, str], kept: str) -> None:
    assert kept in counted(**parts)


COMPARED = """\
kernel k(x: f32 const*, y: f32*, n: u64{of_n}, first: i32)
  var s: f32 = 0.0
  for i = {start}; {cond}; i + 1
    s += x[i]
  y[0] = s
"""


@pytest.mark.parametrize("cond", ["i as u64 < n", "i as u64 <= n", "i as u32 < n as u32"])
def test_a_counter_that_is_compared_in_another_type(cond: str) -> None:
    text = COMPARED.format(of_n=KNOWN, start="0", cond=cond)
    assert "for i in 0..n" in print_kernel(counted_in_int(parse_kernel(text)))


@pytest.mark.parametrize(
    "parts",
    [{"of_n": ""}, {"start": "first"}, {"start": "-1"}, {"cond": "i as u8 as u64 < n"}, {"cond": "n > i as u64"}],
    ids=str,
)
def test_a_counter_that_may_compare_differently_stays(parts: dict[str, str]) -> None:
    text = COMPARED.format(**{"of_n": KNOWN, "start": "0", "cond": "i as u64 < n", **parts})
    assert "for i in" not in print_kernel(counted_in_int(parse_kernel(text)))


def test_the_values_are_the_same() -> None:
    kernel = parse_kernel(
        KERNEL.format(of_n=KNOWN, of_m=KNOWN, **PLAIN | {"step": "i + 3_i64", "until": "<= m - 1_i64"})
    )
    x = np.arange(5 * 7, dtype=np.float32)
    want, got = (
        run(k, {"x": x, "y": np.zeros(5, np.float32), "n": 5, "m": 7}).outputs["y"]
        for k in (kernel, counted_in_int(kernel))
    )
    assert np.array_equal(want, got) and want.any()


PRODUCT = """
#include <cuda_fp16.h>
__global__ void product(const __half* a, const __half* b, float* c, int n) {
  INDEX i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && j < n) {
    float s = 0;
    for (INDEX k = 0; k < n; ++k) s += __half2float(a[i * n + k]) * __half2float(b[k * n + j]);
    c[i * n + j] = s;
  }
}
void launch(const __half* a, const __half* b, float* c, int n) {
  dim3 block(16, 16), grid((n + 15) / 16, (n + 15) / 16);
  product<<<grid, block>>>(a, b, c, n);
}
"""


@pytest.mark.parametrize("index", ["int", "unsigned int", "size_t", "long long"])
def test_a_product_is_one_for_tensor_cores_whatever_its_indices_are(index: str) -> None:
    kernel = raised(PRODUCT.replace("INDEX", index))[1].kernel
    known = tuple(dataclasses.replace(p, range=(1, 4096)) if p.sym.name == "n" else p for p in kernel.params)
    assert [p.loop.var.name for p in products(counted_in_int(kernel.with_(params=known)))] == ["k"]
