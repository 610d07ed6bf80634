"""8-bit floats where the language has none: their bits in a byte, with conversions by integer arithmetic.

Formats of the OCP 8-bit Floating Point Specification (1.0): e4m3 has no infinity, 0x7f is its NaN; e5m2 is the upper
half of an IEEE half. Conversions round to nearest even and saturate at the largest finite number, as the constructors
of CUDA's ``cuda_fp8.h`` do; a NaN becomes 0x7f, as ``cvt.rn.satfinite`` gives it (PTX ISA 8.5, 9.7.9.21).
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.types import E4M3, E5M2, F16, F32, F64, U8, Scalar

from .c_dialect import Dialect
from .odd_floats import odd_float
from .piece import POSTFIX, Piece

FP8 = (E4M3, E5M2)


@dataclass(frozen=True)
class Format:
    """``mantissa`` bits of the fraction; ``bias`` of the exponent; ``largest``: the code of the largest number."""

    mantissa: int
    bias: int
    largest: int

    @property
    def smallest_normal(self) -> int:
        """The bits of that number as a float."""
        return (128 - self.bias) << 23

    @property
    def steps(self) -> int:
        """Subnormal numbers are multiples of one part in so many."""
        return 1 << (self.bias - 1 + self.mantissa)


FORMATS = {E4M3: Format(3, 7, 0x7E), E5M2: Format(2, 15, 0x7B)}


def helpers(language: str) -> dict[str, str]:
    """The helper functions of hip | opencl, by the names that :func:`convert` asks for."""
    cl = language == "opencl"
    head = "static inline" if cl else "__device__ inline"
    to_bits, to_float, word, byte = ("as_uint", "as_float", "uint", "uchar") if cl else (
        "__float_as_uint", "__uint_as_float", "unsigned", "unsigned char")  # fmt: skip
    nearest, magnitude = ("rint", "fabs") if cl else ("rintf", "fabsf")
    out = {}
    for t, f in FORMATS.items():
        drop = 23 - f.mantissa
        half = (1 << (drop - 1)) - 1
        exponent = 7 - f.mantissa
        last = (1 << exponent) - 1
        is_special, then = ("(code & 0x7f) == 0x7f", "0x7fc00000") if t == E4M3 else (
            f"exponent == {last}", f"0x7f800000 | fraction << {drop}")  # fmt: skip
        special = f"  if ({is_special}) return {to_float}(sign | {then});\n"
        out[t.name] = f"typedef {byte} {t.name};  // the bits of an 8-bit float"
        out[f"{t.name}_to_float"] = (
            f"{head} float {t.name}_to_float({t.name} code) {{\n"
            f"  const {word} sign = ({word})(code & 0x80) << 24, fraction = code & {(1 << f.mantissa) - 1};\n"
            f"  const {word} exponent = code >> {f.mantissa} & {last};\n"
            f"{special}"
            f"  if (exponent == 0) return {to_float}(sign | {to_bits}((float)fraction * {1 / f.steps!r}f));\n"
            f"  return {to_float}(sign | (exponent + {127 - f.bias}) << 23 | fraction << {drop});\n}}"
        )
        out[f"float_to_{t.name}"] = (
            f"{head} {t.name} float_to_{t.name}(float x) {{\n"
            f"  const {word} bits = {to_bits}(x), size = bits & 0x7fffffff, sign = bits >> 24 & 0x80;\n"
            f"  if (size > 0x7f800000) return 0x7f;  // NaN\n"
            f"  if (size < {f.smallest_normal:#x}) return sign | ({word}){nearest}({magnitude}(x) * {f.steps}.0f);\n"
            f"  const {word} code = (size - {(127 - f.bias) << 23:#x} + {half:#x} + (size >> {drop} & 1)) >> {drop};\n"
            f"  return sign | (code < {f.largest:#x} ? code : {f.largest:#x});  // nearest even, saturating\n}}"
        )
    return out


def convert(d: Dialect, p: Piece, source: Scalar, to: Scalar) -> Piece | None:
    """A conversion from or to an 8-bit float by the helpers; None if neither is one."""
    if source == to or not {source, to} & set(FP8):
        return None
    if source in FP8:
        use(d, source, f"{source.name}_to_float")
        wide = Piece(f"{source.name}_to_float({p.text})", POSTFIX, F32)
        if to == F32:
            return wide
        narrow = to.is_int and to.bits < 32  # as from a half, which saturates: it holds every 8-bit float
        return d.convert(d.convert(wide, F16) if narrow else wide, to)
    use(d, to, f"float_to_{to.name}")
    wide = odd_float(d, p, source) if source == F64 else p if source == F32 else d.convert(p, F32)
    return Piece(f"float_to_{to.name}({wide.text})", POSTFIX, to)


def use(d: Dialect, t: Scalar, helper: str = "") -> None:
    """Ask for the type of ``t`` and for ``helper``."""
    d.need(t.name)
    if helper:
        d.need(helper)


def bits(p: Piece, source: object, to: Scalar) -> Piece | None:
    """A reinterpretation between a byte and an 8-bit float kept as one; None for other types."""
    return Piece(p.text, p.prec, to, p.upper) if {source, to} <= {U8, *FP8} else None
