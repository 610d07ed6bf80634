"""Quotients by numbers that the host has made of the divisor."""

from __future__ import annotations

import pytest

from ktc.ir.frontend import load
from ktc.ir.text import print_expr
from ktc.passes.raising.recognise.magic_quotients import with_quotients
from tests.passes.checks import applied, body_of, differs

SOURCE = """
static __device__ unsigned over(unsigned n, const uint3 d) { return (__umulhi(n, d.x) + n) >> d.y; }
static __device__ uint2 both(unsigned n, const uint3 d) {
  unsigned q = over(n, d);
  return make_uint2(q, n - q * d.z);
}
__global__ void turn(float* __restrict__ y, const float* __restrict__ x, int total, int rows, uint3 d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  const uint2 at = both((uint32_t)i, d);
  y[(int)at.y * rows + (int)at.x] = 2 * x[i];
}
static uint3 packed(unsigned n) {
  unsigned l = 0;
  while (l < 32 && ((unsigned)1 << l) < n) l++;
  unsigned m = (unsigned)(((uint64_t)1 << 32) * (((uint64_t)1 << l) - n) / n + 1);
  return make_uint3(m, l, n);
}
void go(float* y, const float* x, int rows, unsigned n) {
  turn<<<(rows * n + 255) / 256, 256>>>(y, x, rows * n, rows, packed(n));
}
"""


def test_a_flat_index_is_taken_apart_by_quotients() -> None:
    kernel = load(SOURCE, name="k.cu")
    divided = with_quotients(kernel)
    assert divided is not None
    assert [print_expr(a.expr) for a in divided.tested] == [
        "d_y <= 31_u32",
        "1_u64 << d_y >= d_z",
        "1_u64 << d_y < 2_u64 * d_z",
        "d_x == 0x100000000_u64 * ((1_u64 << d_y) - d_z) / d_z + 1_u64",
    ]
    raised = applied(kernel, "raise")
    text = body_of(raised)
    assert "u32(i) / d_z" in text and "u32(i) % d_z" in text and "mulhi" not in text and "clz" not in text
    sizes = [{"total": r * n, "rows": r, **packed(n)} for r, n in ((3, 7), (5, 64), (300, 1), (1, 300))]
    assert differs(kernel, raised, sizes) is None


def packed(n: int) -> dict[str, int]:
    shift = (n - 1).bit_length()
    return {"d_x": (1 << 32) * ((1 << shift) - n) // n + 1, "d_y": shift, "d_z": n}


@pytest.mark.parametrize(
    ("old", "new"),
    [("/ n + 1)", "/ n + 2)"), ("l++", "l += 2"), ("(uint32_t)i, d)", "(uint32_t)total * i, d)"), (">> d.y", ">> d.z")],
)
def test_other_numbers_make_no_quotient(old: str, new: str) -> None:
    assert old in SOURCE
    assert with_quotients(load(SOURCE.replace(old, new), name="k.cu")) is None


DIGITS = """
struct Divisor {
  Divisor(int n = 1) {
    d = n == 0 ? 1 : n;
    for (l = 0;; ++l) {
      if ((1U << l) >= d) break;
    }
    m = (uint32_t)(((uint64_t)1 << 32) * (((uint64_t)1 << l) - d) / d + 1);
  }
  __device__ int over(int i) const { return (__umulhi(m, i) + i) >> l; }
  __device__ void both(int i, int& quotient, int& remainder) const {
    quotient = over(i);
    remainder = i - quotient * d;
  }
  uint32_t d, l, m;
};
__global__ void planes(float* __restrict__ y, const float* __restrict__ x, int total, Divisor w, Divisor h) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  int above, column, plane, row;
  w.both(i, above, column);
  h.both(above, plane, row);
  y[row] = x[i] + column + 2 * plane;
}
void go(float* y, const float* x, int n, int h, int w) {
  planes<<<(n * h * w + 255) / 256, 256>>>(y, x, n * h * w, Divisor(w), Divisor(h));
}
"""


def test_digits_of_quotients_that_functions_leave_in_variables() -> None:
    kernel = load(DIGITS.replace("y[row] =", "y[i] = row +"), name="k.cu")
    raised = applied(kernel, "raise")
    text = body_of(raised)
    assert "i / w_d" in text and "i % w_d" in text and "/ h_d" in text and "% h_d" in text
    nest = body_of(applied(kernel, "raise | delinearise{loop=i loops=3}"))
    assert nest.count("par ") == 3
    for n, h, w in ((2, 3, 7), (1, 5, 64), (9, 1, 1)):
        numbers = {
            f"{d}_{part}": of for d, size in (("w", w), ("h", h)) for part, of in zip("mld", packed(size).values())
        }
        assert differs(kernel, raised, [{"total": n * h * w, "n": n, "h": h, "w": w, **numbers}]) is None
