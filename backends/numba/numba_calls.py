"""Built-in functions of the IR as numba text: one row a function.

A row is a template over the printed arguments ``{0} {1} {2}`` and the helper it needs ('' for none). Float rows compute
in f32 or f64 and are rounded to the result type by the caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktc.ir.field_words import ARITY
from ktc.ir.nodes import AddrOf, Call
from ktc.ir.types import F32, Scalar, Void

from .numba_types import unsupported

if TYPE_CHECKING:
    from .numba_expressions import ExprPrinter, Text

_ONE = "(f32(1.0) / {0})"
FLOAT_CALLS: dict[str, tuple[str, str]] = {
    name: (f"math.{name}({{0}})", "")
    for name in ("exp", "expm1", "log", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin",
                 "acos", "atan", "erf", "erfc")
} | {
    "exp2": ("np.exp2({0})", ""), "exp10": ("math.pow(10.0, {0})", ""), "log2": ("np.log2({0})", ""),
    "cbrt": ("np.cbrt({0})", ""), "floor": ("np.floor({0})", ""), "ceil": ("np.ceil({0})", ""),
    "trunc": ("np.trunc({0})", ""), "rint": ("np.rint({0})", ""), "round": ("round_away({0})", "round_away"),
    "abs": ("abs({0})", ""), "rsqrt": ("1.0 / math.sqrt({0})", ""), "rcp": ("1.0 / ({0})", ""),
    "asinh": ("math.asinh({0})", ""), "acosh": ("math.acosh({0})", ""), "atanh": ("math.atanh({0})", ""),
    "sinpi": ("math.sin(math.pi * np.fmod({0}, 2.0))", ""), "cospi": ("math.cos(math.pi * np.fmod({0}, 2.0))", ""),
    "lgamma": ("math.lgamma({0})", ""), "tgamma": ("math.gamma({0})", ""), "ldexp": ("math.ldexp({0}, {1})", ""),
    "nextafter": ("np.nextafter({0}, {1})", ""), "normcdf": ("0.5 * math.erfc(-({0}) * 0.7071067811865476)", ""),
    "ilogb": ("math.frexp({0})[1] - 1", ""), "logb": ("np.floor(np.log2(abs({0})))", ""),
    "isnan": ("np.isnan({0})", ""), "isinf": ("np.isinf({0})", ""), "isfinite": ("np.isfinite({0})", ""),
    "signbit": ("(math.copysign(1.0, {0}) < 0)", ""), "saturate": ("saturate({0})", "saturate"),
    "pow": ("math.pow({0}, {1})", ""), "fmod": ("np.fmod({0}, {1})", ""), "atan2": ("math.atan2({0}, {1})", ""),
    "hypot": ("math.hypot({0}, {1})", ""), "copysign": ("math.copysign({0}, {1})", ""),
    "min": ("fmin({0}, {1})", "fmin"), "max": ("fmax({0}, {1})", "fmax"), "fdim": ("fdim({0}, {1})", "fdim"),
    "fma": ("fma({0}, {1}, {2})", "fma"), "fast_div": ("({0}) / ({1})", ""), "fast_rcp": ("1.0 / ({0})", ""),
    "fast_tanh": ("math.tanh({0})", ""), "fast_exp": ("math.exp({0})", ""),
    "add_rn": ("({0}) + ({1})", ""), "sub_rn": ("({0}) - ({1})", ""), "mul_rn": ("({0}) * ({1})", ""),
    "div_rn": ("({0}) / ({1})", ""), "rcbrt": ("1.0 / np.cbrt({0})", ""), "rhypot": ("1.0 / math.hypot({0}, {1})", ""),
}  # fmt: skip
"""Functions of floats. ``1.0 / x`` and friends are computed as written, then brought to the result type."""

F32_CALLS: dict[str, tuple[str, str]] = {
    name: (f"{name}_f32({{0}})", f"{name}_f32")
    for name in ("exp", "fast_exp", "exp2", "log", "tanh", "fast_tanh", "erf", "sin", "cos")
} | {
    "pow": ("pow_f32({0}, {1})", "pow_f32"),
    "rsqrt": ("(f32(1.0) / math.sqrt({0}))", ""), "rcp": ("(f32(1.0) / ({0}))", ""),
    "fast_rcp": ("(f32(1.0) / ({0}))", ""),
}  # fmt: skip
"""The same in single precision, and for what is computed in it: no calls (:mod:`.vector_math`) and no doubles."""

_ALIASES = {f"fast_{n}": n for n in ("exp2", "log", "log2", "sin", "cos", "tan", "pow", "sqrt", "rsqrt")} | {
    "fast_exp10": "exp10", "fast_log10": "log10", "sqrt_rn": "sqrt", "fma_rn": "fma", "rcp_rn": "rcp",
    "rsqrt_rn": "rsqrt",
}  # fmt: skip
"""Fast versions that are computed as the others are: a CPU gains little from approximations of them."""

_EXACT = frozenset({"abs", "min", "max", "floor", "ceil", "trunc", "rint", "round", "copysign", "fdim"})
"""Results that need no rounding to a narrow type beyond what their arguments already have."""

INT_CALLS: dict[str, tuple[str, str]] = {
    "min": ("min({0}, {1})", ""), "max": ("max({0}, {1})", ""), "abs": ("abs({0})", ""),
    "popc": ("popc({0})", "popc"), "ffs": ("ffs({0})", "ffs"), "brev": ("brev({0})", "brev"),
    "cdiv": ("ceil_div({0}, {1})", "ceil_div"), "byte_perm": ("byte_perm({0}, {1}, {2})", "byte_perm"),
} | {
    name: (f"{name}({', '.join(f'{{{k}}}' for k in range(n))})", "field") for name, n in ARITY.items()
}  # fmt: skip

WRAPPED_CALLS = ("mul24", "dp4a")
"""Helpers of 32-bit integers that are told whether they are signed; what they return is reduced to the type."""

WIDE_CALLS = {("mulhi", "u64"): "mulhi_u64", ("mulhi", "i64"): "mulhi_i64", ("brev", "u64"): "brev_u64"}
"""Helpers of 64-bit integers, for which there is nothing wider to compute in."""


def is_polynomial(e: Call) -> bool:
    """Whether ``e`` is printed as one of :mod:`.vector_math`."""
    return bool(F32_CALLS.get(_ALIASES.get(e.fn, e.fn), ("", ""))[1]) and e.ty == F32


def print_call(p: ExprPrinter, e: Call) -> Text:
    """``e`` as text. Raises KtcError for a function with no CPU meaning."""
    if e.fn == "is_null" and isinstance(e.args[0], AddrOf):
        return (f"({p.ref(e.args[0].buffer)} is None)", 15)
    operand = e.args[0].type if e.args else e.ty
    if isinstance(operand, Void):
        raise unsupported(f"{e.fn}(): nothing that a thread does there ends the program or reaches out of it")
    if not isinstance(operand, Scalar):
        raise unsupported(f"{e.fn}() of vectors")
    args = [p.text(a) for a in e.args]
    return _float_call(p, e, args) if operand.is_float else _int_call(p, e, operand, args)


def _float_call(p: ExprPrinter, e: Call, args: list[str]) -> Text:
    fn = _ALIASES.get(e.fn, e.fn)
    t = e.ty
    if fn in F32_CALLS and isinstance(t, Scalar) and t.name != "f64":
        text, helper = F32_CALLS[fn]
        if helper:
            p.need(helper)
        return p.round(text.format(*args), 15, t)
    row = FLOAT_CALLS.get(fn)
    if row is None:
        raise unsupported(f"the function {e.fn}()")
    text = row[0].format(*args)
    if row[1]:
        p.need(row[1])
    if not (row[0][0].isalpha() and row[0].endswith(")")):  # no call: what stands beside it may bind tighter
        text = f"({text})"
    if not isinstance(t, Scalar) or not t.is_float or t.name == "f64":
        return (text, 15)
    if "1.0" in row[0] or "10.0" in row[0] or "0.5" in row[0]:
        text = f"f32({text})"  # a double constant in the row: one rounding to f32
    return (text, 15) if fn in _EXACT else p.round(text, 15, t)


def _int_call(p: ExprPrinter, e: Call, t: Scalar, args: list[str]) -> Text:
    mask = (1 << t.bits) - 1
    if e.fn in ("popc", "clz", "ffs", "brev") and t.bits < 64 and t.is_signed:
        args = [f"({args[0]}) & 0x{mask:X}"]
    if e.fn == "clz":
        return (f"{p.need('clz')}({args[0]}, {t.bits})", 15)
    if e.fn == "mulhi" and t.bits == 32:
        product = f"u64({args[0]}) * u64({args[1]})" if t.kind == "uint" else f"({args[0]}) * ({args[1]})"
        return (f"i64(({product}) >> u64(32))" if t.kind == "uint" else f"(({product}) >> 32)", 15)
    if wide := WIDE_CALLS.get((e.fn, t.name)):
        return (f"{p.need(wide)}({', '.join(args)})", 15)
    if e.fn in WRAPPED_CALLS and t.bits == 32:
        return p.wrap(f"{p.need(e.fn)}({', '.join([*args, str(t.is_signed)])})", 15, t)
    if e.fn == "cdiv" and t.name == "u64":
        return (f"(({args[0]}) + ({args[1]}) - u64(1)) // ({args[1]})", 11)
    row = INT_CALLS.get(e.fn)
    if row is None or (t.bits == 64 and e.fn in ("brev", "byte_perm")):
        raise unsupported(f"the function {e.fn}() of {t.name}")
    if row[1]:
        p.need(row[1])
    return (row[0].format(*args), 15)
