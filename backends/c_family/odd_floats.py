"""Numbers that a float does not hold on their way to a narrower type, where the language has no such conversion.

Rounded to a float and then to ``bfloat16`` or ``half``, a number just above or below the middle of two of these would
end on the wrong side of it. Rounded to odd (the last bit says that something was cut off) and then to the narrow type,
it ends where one rounding takes it (S. Boldo, G. Melquiond: Emulation of FMA and Correctly Rounded Sums, 2008).
"""

from __future__ import annotations

from ktc.ir.types import F32, F64, Scalar

from .c_dialect import Dialect
from .piece import POSTFIX, Piece


def helpers(language: str) -> dict[str, str]:
    """The helper functions of hip | opencl, by the names that :func:`odd_float` asks for."""
    cl = language == "opencl"
    head = "static inline" if cl else "__device__ inline"
    to_bits, to_float, word = ("as_uint", "as_float", "uint") if cl else ("__float_as_uint", "__uint_as_float",
                                                                         "unsigned")  # fmt: skip
    signed, wide, zeros = ("long", "ulong", "clz") if cl else ("long long", "unsigned long long", "__clzll")
    return {
        "odd_float": (
            "// Rounded to odd: rounding what comes out once more gives what one rounding of x gives.\n"
            f"{head} float odd_float(double x) {{\n"
            "  const float near = (float)x;\n"
            "  if ((double)near == x || x != x) return near;\n"
            f"  const {word} bits = {to_bits}(near);\n"
            f"  return {to_float}((bits - (fabs((double)near) > fabs(x) ? 1 : 0)) | 1);\n}}"
        ),
        "odd_unsigned": (
            "// An integer as a float, rounded to odd.\n"
            f"{head} float odd_unsigned({wide} x) {{\n"
            f"  const int drop = 40 - (int){zeros}(x);\n"
            "  if (drop <= 0) return (float)x;\n"
            f"  const {wide} kept = x >> drop;\n"
            "  return (float)((kept | (kept << drop != x ? 1 : 0)) << drop);\n}"
        ),
        "odd_signed": (
            f"{head} float odd_signed({signed} x) {{\n"
            f"  return x < 0 ? -odd_unsigned(0 - ({wide})x) : odd_unsigned(({wide})x);\n}}"
        ),
    }


def odd_float(d: Dialect, p: Piece, source: Scalar) -> Piece:
    """``p`` as a float from which it can be rounded to a type of half its precision or less."""
    if source == F64:
        d.need("odd_float")
        return Piece(f"odd_float({p.text})", POSTFIX, F32)
    if source.is_float or source.bits < 32:
        return d.convert(p, F32)
    d.need("odd_unsigned")
    if not source.is_signed:
        return Piece(f"odd_unsigned({p.text})", POSTFIX, F32)
    d.need("odd_signed")
    return Piece(f"odd_signed({p.text})", POSTFIX, F32)
