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
