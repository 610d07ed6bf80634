"""Functions of single precision as polynomials, as OpenCL C text: arithmetic without branches or calls.

Those of the numba text (``ktc.backends.numba.vector_math`` says how they work), with the same coefficients and errors:
LLVM makes vectors of the loops around them. Products and sums may be rounded together or apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.backends.minimax_coefficients import COEFFICIENTS

ALWAYS = "__attribute__((always_inline))"
INLINE = f"static inline {ALWAYS}"


@dataclass(frozen=True)
class Function:
    """A function of the text: its name there, its text, and what of this table it calls."""

    name: str
    text: str
    needs: tuple[str, ...] = ()


def horner(name: str, x: str) -> str:
    """The polynomial ``name`` of ``x`` as text."""
    *lower, text = (f"{c!r}f" for c in COEFFICIENTS[name])
    for c in reversed(lower):
        text = f"({text}) * {x} + {c}" if " " in text else f"{text} * {x} + {c}"
    return text


VECTOR_MATH: dict[str, Function] = {
    "scaled": Function("scaled_", f"""\
// p * 2^n for n = shifted - 1.5 * 2^23, -151 <= n <= 129: in two steps, so that neither power is out of range
{INLINE} float scaled_(float p, float shifted) {{
  const int below = shifted < 12582912.0f;
  const float power = as_float((as_int(shifted) << 23) + (below ? 159 << 23 : 95 << 23));  // 2^(n +- 32)
  return p * power * (below ? 2.3283064365386963e-10f : 4294967296.0f);
}}"""),
    "exp": Function("exp_", f"""\
// e^x within 1.1 units in the last place
{INLINE} float exp_(float x) {{
  float c = 89.0f < x ? 89.0f : x;
  c = -104.0f > c ? -104.0f : c;
  const float shifted = c * 1.4426950216293335f + 12582912.0f;  // its last bits: c / log(2), rounded
  const float n = shifted - 12582912.0f;
  const float r = n * -1.428606765330187e-06f + (n * -0.693145751953125f + c);
  const float p = {horner("exp", "r")};
  return scaled_((p * (r * r) + r) + 1.0f, shifted);
}}""", ("scaled",)),
    "exp2": Function("exp2_", f"""\
// 2^x within 1.2 units in the last place
{INLINE} float exp2_(float x) {{
  float c = 129.0f < x ? 129.0f : x;
  c = -151.0f > c ? -151.0f : c;
  const float shifted = c + 12582912.0f;  // its last bits: c, rounded
  const float rest = c - (shifted - 12582912.0f);
  const float r = rest * 0.6931471824645996f;
  const float low = (rest * 0.693145751953125f - r) + rest * 1.428606765330187e-06f;
  const float p = {horner("exp", "r")};
  return scaled_((p * (r * r) + low) + r + 1.0f, shifted);
}}""", ("scaled",)),
    "log": Function("log_", f"""\
// the natural logarithm within 1.0 units in the last place
{INLINE} float log_(float x) {{
  const int tiny = x < 1.1754943508222875e-38f;
  const int bits = as_int(tiny ? x * 8388608.0f : x);
  const int k = (bits - 0x3f3504f3) >> 23;  // x = 2^k (1 + f), 1 + f between the roots of 1/2 and 2
  const float f = as_float((int)((uint)bits - ((uint)k << 23))) - 1.0f;
  const float e = (float)k - (tiny ? 23.0f : 0.0f);
  const float q = {horner("log", "f")};
  const float s = f * f;
  float r = (s * -0.5f + (s * f * q + e * 1.428606765330187e-06f)) + f;
  r = e * 0.693145751953125f + r;
  r = x < 0.0f ? NAN : x == 0.0f ? -INFINITY : r;
  return x < INFINITY ? r : x;
}}"""),
    "tanh": Function("tanh_", f"""\
// the hyperbolic tangent within 1.4 units in the last place
{INLINE} float tanh_(float x) {{
  const float a = __builtin_fabsf(x), y = x * x;
  const float by = ({horner("tanh", "y")}) * (x * y) + x;
  const float near = a < 0.0002f ? x : by;  // a zero keeps its sign
  const float far = 1.0f - 2.0f / (exp_(a + a) + 1.0f);
  return a < 0.6f ? near : x < 0.0f ? -far : x == x ? far : x;
}}""", ("exp",)),
    "erf": Function("erf_", f"""\
// the error function within 1.5 units in the last place
{INLINE} float erf_(float x) {{
  const float a = __builtin_fabsf(x), y = x * x;
  const float near = ({horner("erf", "y")}) * x + x;
  const float c = a > 4.0f ? 4.0f : a;
  const float far = 1.0f - exp_({horner("erfc", "c")});
  return a < 0.93f ? near : x < 0.0f ? -far : x == x ? far : x;
}}""", ("exp",)),
}  # fmt: skip
"""By the function's canonical name."""

__all__ = ["ALWAYS", "INLINE", "VECTOR_MATH", "Function"]
