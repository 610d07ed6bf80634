"""What a host function returns in a struct for a kernel: a divisor, and the numbers that divide by it."""

from __future__ import annotations

import pytest

from ktc.ir.fold import evaluate
from ktc.ir.frontend.entry_points import load

KERNEL = """
#include <stdint.h>
void give_up_abort();
uint3 packed(uint64_t wide) {
  if (wide == 0) give_up_abort();
  uint32_t d = (uint32_t)wide, bits = 0;
  COUNTED
  uint32_t m = (uint32_t)((uint64_t{1} << 32) * ((uint64_t{1} << bits) - d) / d + 1);
  return make_uint3(m, bits, d);
}
__global__ void k(float* p, int p_n, const uint3 p_div) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned row = (__umulhi(i, p_div.x) + i) >> p_div.y;
  if (i < p_n) p[i] = row * p_div.z;
}
void run(float* p, int n, int width) {
  const uint3 div = packed(width);
  k<<<(width + 63) / 64, 64>>>(p, n, div);
}
"""


@pytest.mark.parametrize(
    "counted",
    [
        "while (bits < 32 && (uint32_t{1} << bits) < d) bits++;",
        "while ((1u << bits) < d) { bits += 1; }",
    ],
)
def test_multiplier_and_shift_follow_from_the_divisor(counted: str) -> None:
    kernel = load(KERNEL.replace("COUNTED", counted), name="k.cu")
    assert kernel.launch is not None
    passed = dict(kernel.launch.passed)
    assert passed.keys() == {"p_div_x", "p_div_y"}
    for d in (1, 2, 3, 7, 64, 4096, 5000):
        m, shift = (evaluate(passed[n], {"p_div_z": d}) for n in ("p_div_x", "p_div_y"))
        assert m is not None and shift is not None
        assert all(((n * m >> 32) + n) >> shift == n // d for n in (0, 1, d - 1, d, 12345, 1 << 30))
    assert evaluate(kernel.launch.grid[0], {"p_div_z": 130}) == 3  # the host's number is the kernel's


def test_a_count_that_ends_at_a_constant_is_told() -> None:
    kernel = load(KERNEL.replace("COUNTED", "while (bits < 8 && (1u << bits) < d) bits++;"), name="k.cu")
    assert kernel.launch is not None
    bits = dict(kernel.launch.passed)["p_div_y"]
    assert [evaluate(bits, {"p_div_z": d}) for d in (1, 2, 3, 64, 100, 256, 5000)] == [0, 1, 2, 6, 7, 8, 8]


@pytest.mark.parametrize(
    "counted",
    ["while ((1u << bits) < d) bits += 2;", "bits = read();"],
    ids=["other steps", "elsewhere"],
)
def test_what_counts_otherwise_is_not_known(counted: str) -> None:
    kernel = load(KERNEL.replace("COUNTED", counted).replace("void give_up", "int read();\nvoid give_up"), name="k.cu")
    assert kernel.launch is not None and not {"p_div_x", "p_div_y"} & dict(kernel.launch.passed).keys()


MADE = """
struct Divider {
  uint32_t by, bits, factor;
  Divider(int d = 1) {
    by = d == 0 ? 1 : d;
    for (bits = 0;; ++bits) {
      if ((1u << bits) >= by) break;
    }
    factor = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << bits) - by)) / by + 1);
  }
  __device__ int div(int i) const { return (int)(__umulhi(factor, i) + i) >> bits; }
};
__global__ void k(float* p, int n, Divider width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = width.div(i) * width.by;
}
"""
RUN = "void run(float* p, int n, PARAMETER) { VARIABLE k<<<(n + 63) / 64, 64>>>(p, n, width); }"


@pytest.mark.parametrize(
    ("parameter", "variable"),
    [
        ("int w", "Divider width(w);"),
        ("int w", "const Divider width{w};"),
        ("int w", "Divider width = Divider(w);"),
        ("Divider width", ""),
        ("const Divider& width", ""),
    ],
    ids=["constructor", "braces", "object", "parameter", "reference"],
)
def test_what_a_constructor_makes_of_a_divisor_belongs_together(parameter: str, variable: str) -> None:
    run = RUN.replace("PARAMETER", parameter).replace("VARIABLE", variable)
    kernel = load("#include <stdint.h>" + MADE + run, name="k.cu")
    assert kernel.launch is not None
    passed = dict(kernel.launch.passed)
    assert passed.keys() - {"width_by"} == {"width_bits", "width_factor"}
    for d in (1, 2, 3, 7, 64, 5000):
        at = {"width_by": d, "w": d}
        assert evaluate(passed["width_bits"], at) == (d - 1).bit_length()
        m = evaluate(passed["width_factor"], at)
        assert m is not None and all((n * m >> 32) + n >> (d - 1).bit_length() == n // d for n in (0, d - 1, d, 12345))


@pytest.mark.parametrize("more", ["Divider(int d, int e) { by = d; bits = factor = e; }", "Divider(const Other& o);"])
def test_an_object_of_a_caller_is_made_of_one_number_only_if_there_is_no_other_way(more: str) -> None:
    text = MADE.replace("Divider(int d = 1)", f"{more} Divider(int d = 1)").replace(
        "struct D", "struct Other { int n; };\nstruct D", 1
    )
    run = RUN.replace("PARAMETER", "Divider width").replace("VARIABLE", "")
    kernel = load("#include <stdint.h>" + text + run, name="k.cu")
    assert kernel.launch is not None and not dict(kernel.launch.passed)
