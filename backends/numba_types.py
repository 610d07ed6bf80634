"""How IR values live in generated numba code.

| IR type | value | element of a pointer parameter | element of a shared or private array |
|---|---|---|---|
| f32, f64 | float32, float64 | the same | the same |
| f16, bf16, fp8 | float32 holding a representable value | its bits, uint16 or uint8 | float32 |
| i8..i64, u8..u32 | an int64 within the type's range | the type | the type |
| u64 | uint64 | uint64 | uint64 |
| bool | bool | bool | bool |

Keeping every integer but u64 in int64 sidesteps numba's promotion rules (uint64 with int64 gives float64): unsigned
results are reduced explicitly where a range argument cannot show that they stay within 32 bits (:func:`span`).
"""

from __future__ import annotations

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, HwIndex, Knob, Select, Var
from ktc.ir.types import SCALARS, Scalar, Type, scalar_of

NARROW_FLOATS = frozenset({"f16", "bf16", "e4m3", "e5m2"})
"""Float types without arithmetic on a CPU: computed in f32, then rounded."""

VALUE_DTYPE = {t.name: f"np.{'u' if t.kind == 'uint' else ''}int{t.bits}" for t in SCALARS.values() if t.is_int} | {
    "f32": "np.float32", "f64": "np.float64", "bool": "np.bool_",
} | dict.fromkeys(NARROW_FLOATS, "np.float32")  # fmt: skip
"""dtype of shared and private arrays."""

STORAGE_DTYPE = VALUE_DTYPE | {"f16": "np.uint16", "bf16": "np.uint16", "e4m3": "np.uint8", "e5m2": "np.uint8"}
"""dtype of the flat view of a pointer parameter."""

ZERO = {t.name: "f32(0.0)" for t in SCALARS.values() if t.is_float} | {
    t.name: "0" for t in SCALARS.values() if t.is_int
} | {"f64": "0.0", "bool": "False", "u64": "u64(0)"}  # fmt: skip

Span = tuple[int, int]

GRID_LIMIT = 2**31 - 1
"""Threads of one axis a generated launcher accepts, so that ``block * block_dim + thread`` cannot wrap."""

_HW_SPAN: dict[str, Span] = {
    "thread": (0, 1023), "block": (0, GRID_LIMIT - 1024), "block_dim": (1, 1024), "grid_dim": (1, GRID_LIMIT),
}  # fmt: skip


def unsupported(what: str, loc: Loc | None = None, hint: str = "") -> KtcError:
    """The error for a construct that has no CPU lowering."""
    hint = hint or "lower to cuda, hip or opencl instead"
    return KtcError("E-NUMBA-UNSUPPORTED", f"the numba backend cannot express {what}", loc, hint)


def storage_of(t: Type) -> str:
    """numpy spelling of the storage element of a pointer parameter."""
    return STORAGE_DTYPE[_scalar(t).name]


def value_dtype(t: Type) -> str:
    """numpy spelling of the element of a shared or private array of ``t``."""
    return VALUE_DTYPE[_scalar(t).name]


def _scalar(t: Type) -> Scalar:
    try:
        return scalar_of(t)
    except TypeError:
        raise unsupported(f"the type {t}") from None


def zero_of(t: Type) -> str:
    """Zero of a scalar (or of a vector's lanes), as Python text."""
    return ZERO[_scalar(t).name]


def type_span(t: Scalar) -> Span:
    """(least, largest) value of an integer type or bool."""
    if t.kind == "bool":
        return (0, 1)
    return (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1) if t.is_signed else (0, (1 << t.bits) - 1)


def fits(inner: Span, outer: Span) -> bool:
    """Whether all of ``inner`` lies in ``outer``."""
    return outer[0] <= inner[0] and inner[1] <= outer[1]


class Spans:
    """Ranges of integer expressions, enough to drop needless 32-bit reductions.

    ``inits`` maps variables that are never re-assigned to their initial value; ``facts`` to known ranges.
    Signed overflow is undefined in the source language, so a signed value is assumed to stay within its type.
    """

    def __init__(self, inits: dict[int, Expr], facts: dict[int, Span] | None = None) -> None:
        self.inits = inits
        self.facts = facts or {}

    def raw(self, e: Expr) -> Span:
        """Range of ``e`` computed without wrapping at its own node."""
        if isinstance(e, Const) and not isinstance(e.value, float):
            return (int(e.value), int(e.value))
        if isinstance(e, Knob):
            return (0, 1 << 20)
        if isinstance(e, HwIndex):
            return _HW_SPAN[e.level]
        if isinstance(e, Cast) and e.style != "bit" and isinstance(e.x.type, Scalar) and not e.x.type.is_float:
            return self.of(e.x)
        if isinstance(e, Select):
            a, b = self.of(e.a), self.of(e.b)
            return (min(a[0], b[0]), max(a[1], b[1]))
        if isinstance(e, Binary):
            return self._binary(e)
        if isinstance(e, Call) and e.fn in ("min", "max") and len(e.args) == 2:
            a, b = (self.of(x) for x in e.args)
            pick = min if e.fn == "min" else max
            return (pick(a[0], b[0]), pick(a[1], b[1]))
        if isinstance(e, Call) and e.fn == "cdiv":
            a = self.of(e.args[0])
            return (0, a[1]) if a[0] >= 0 else type_span(_scalar(e.type))
        if isinstance(e, Var):
            if e.sym.id in self.facts:
                return self.facts[e.sym.id]
            if e.sym.id in self.inits:
                return self.of(self.inits[e.sym.id])
        return type_span(_scalar(e.type))

    def of(self, e: Expr) -> Span:
        """Range of the value of ``e``: :meth:`raw` when it stays within the type, else the type's range."""
        t = e.type
        if not isinstance(t, Scalar) or t.is_float:
            return (-(1 << 63), (1 << 64) - 1)
        raw, whole = self.raw(e), type_span(t)
        if fits(raw, whole):
            return raw
        if t.is_signed:  # overflow is undefined: whatever is in range
            return (max(raw[0], whole[0]), min(raw[1], whole[1]))
        return whole

    def _binary(self, e: Binary) -> Span:
        whole = type_span(_scalar(e.type))
        if not isinstance(e.a.type, Scalar) or e.a.type.is_float:
            return whole
        if e.op == "*" and {(x.level, x.axis) for x in (e.a, e.b) if isinstance(x, HwIndex)} in (
            {("block", ax), ("block_dim", ax)} for ax in "xyz"
        ):
            return _HW_SPAN["block"]  # the launcher checks grid * block <= GRID_LIMIT
        a, b = self.of(e.a), self.of(e.b)
        if e.op == "+":
            return (a[0] + b[0], a[1] + b[1])
        if e.op == "-":
            return (a[0] - b[1], a[1] - b[0])
        if e.op == "*":
            corners = [x * y for x in a for y in b]
            return (min(corners), max(corners))
        if e.op == "/" and a[0] >= 0 and b[0] >= 1:
            return (a[0] // b[1], a[1] // b[0])
        if e.op == "%" and a[0] >= 0 and b[0] >= 1:
            return (0, min(a[1], b[1] - 1))
        if e.op == "&" and (a[0] >= 0 or b[0] >= 0):
            return (0, min(x[1] for x in (a, b) if x[0] >= 0))
        if e.op == ">>" and a[0] >= 0:
            return (0, a[1])
        if e.op in ("<", "<=", ">", ">=", "==", "!=", "&&", "||"):
            return (0, 1)
        return whole
