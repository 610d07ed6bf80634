"""OpenCL C for a processor's cores: a task is a work-group of one work-item, its loops become vector instructions.

What LLVM makes vectors of in a work-item (PoCL, Intel's runtime) are loops without calls; a runtime may keep its
built-in functions out of line, ``min`` included (PoCL 3.0 does). So what a loop calls is written out here: small
functions that are inlined in any case, and clang's own built-ins, each of which is an instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ktc.backends.c_family.piece import POSTFIX, Piece
from ktc.ir.types import F32, F64, Scalar, Type

from . import opencl_helpers as text_of
from .inline_math import ALWAYS, INLINE, VECTOR_MATH
from .opencl_dialect import OpenCLDialect

INSTRUCTIONS = {
    "sqrt": "sqrt", "abs": "fabs", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint",
    "copysign": "copysign",
}  # fmt: skip
"""Functions of floats that are an instruction or a few: clang's are ``__builtin_NAME``, with an f for single."""

LEAST = {"min": "<", "max": ">"}

FMA = """\
#if defined(__x86_64__) && !defined(__FMA__)
#define fma_{t} fma  // no instruction: the runtime's function
#else
#define fma_{t} __builtin_fma{f}
#endif"""

HALVES = "#if !defined(__x86_64__) || defined(__F16C__)  // an instruction, also of vectors"
HALF_TO_FLOAT = f"""\
{HALVES}
{INLINE} float half_to_float(f16 h) {{ return __builtin_load_halff((const __private half*)&h); }}
#else
static inline float half_to_float(f16 h) {{ return vload_half(0, (const __private half*)&h); }}
#endif"""
FLOAT_TO_HALF = f"""\
{HALVES}
{INLINE} f16 float_to_half(float x) {{
  f16 h;
  __builtin_store_halff(x, (__private half*)&h);
  return h;
}}
#else
{text_of.FLOAT_TO_HALF}
#endif"""
RANGES = {
    "char": ("-128", "127"), "uchar": ("0", "255"), "short": ("-32768", "32767"), "ushort": ("0", "65535"),
    "int": ("(-2147483647 - 1)", "2147483647"), "uint": ("0", "4294967295u"),
    "long": ("(-9223372036854775807L - 1)", "9223372036854775807L"), "ulong": ("0", "18446744073709551615UL"),
}  # fmt: skip
"""The least and the largest number of each integer type, as text."""


def to_int(source: str, to: str) -> str:
    """As CUDA converts: toward zero, to the nearest number that there is; NaN to 0."""
    low, high = RANGES[to]
    return (
        f"{INLINE} {to} {source}_to_{to}({source} x) {{\n"
        f"  return x != x ? 0 : x <= ({source}){low} ? {low} : x >= ({source}){high} ? {high} : ({to})x;\n}}"
    )


BF16_TO_FLOAT = f"""\
{INLINE} float bf16_to_float(bf16 b) {{ return as_float((uint)b << 16); }}"""
FLOAT_TO_BF16 = f"""\
{INLINE} bf16 float_to_bf16(float x) {{
  const uint bits = as_uint(x);
  const uint nearest = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  // ties to even
  return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : nearest;  // NaN
}}"""


class CpuDialect(OpenCLDialect):
    """OpenCL C whose loops hold no call."""

    helpers: ClassVar = {
        **text_of.HELPERS,
        "half_to_float": HALF_TO_FLOAT,
        "float_to_half": FLOAT_TO_HALF,
        "bf16_to_float": BF16_TO_FLOAT,
        "float_to_bf16": FLOAT_TO_BF16,
        **{f"{source}_to_{to}": to_int(source, to) for source in ("float", "double") for to in RANGES},
    }

    def call(self, fn: str, args: Sequence[Piece], ty: Type) -> Piece:
        kind = args[0].ctype if args else ty
        given = ", ".join(a.text for a in args)
        if kind == F32 == ty and fn in VECTOR_MATH:
            self._with_needs(fn)
            return Piece(f"{VECTOR_MATH[fn].name}({given})", POSTFIX, F32)
        if kind in (F32, F64) and kind == ty:
            single = "f" if kind == F32 else ""
            if fn in INSTRUCTIONS:
                return Piece(f"__builtin_{INSTRUCTIONS[fn]}{single}({given})", POSTFIX, ty)
            if fn == "fma":
                name = f"fma_{self.types[kind]}"
                self.generated[name] = FMA.format(t=self.types[kind], f=single)
                return Piece(f"{name}({given})", POSTFIX, ty)
            if fn == "rsqrt":
                return Piece(f"1.0{single} / __builtin_sqrt{single}({given})", 13, ty)
        if fn in LEAST and kind == ty and (kind in (F32, F64) or (isinstance(kind, Scalar) and kind.is_int)):
            name, t = f"{fn}_{self.types[kind]}", self.types[kind]
            number = "b != b || " if kind.is_float else ""  # of a number and NaN the number
            self.generated[name] = f"{INLINE} {t} {name}({t} a, {t} b) {{ return {number}a {LEAST[fn]} b ? a : b; }}"
            return Piece(f"{name}({given})", POSTFIX, ty)
        return super().call(fn, args, ty)

    def helper_texts(self) -> list[tuple[str, str]]:
        """All of them inlined, and without calls of their own."""
        return [(name, _without_calls(text)) for name, text in super().helper_texts()]

    def _with_needs(self, fn: str) -> None:
        """The text of a function of :mod:`.inline_math`, behind those that it calls."""
        for name in VECTOR_MATH[fn].needs:
            self._with_needs(name)
        self.generated.setdefault(VECTOR_MATH[fn].name, VECTOR_MATH[fn].text)

    def fence(self, scope: str) -> str:
        return "__sync_synchronize();" if scope != "block" else super().fence(scope)


def _without_calls(text: str) -> str:
    """A helper's text, inlined in any case; fp8's rounds in single precision."""
    inlined = text.replace("static inline ", f"{INLINE} ").replace(f"{INLINE} {ALWAYS}", INLINE)
    return inlined.replace("(uint)rint(fabs(x)", "(int)__builtin_rintf(__builtin_fabsf(x)")
