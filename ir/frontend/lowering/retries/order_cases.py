"""What an expression over an old and a new value is in each case of how the two compare.

The cases are: the old one is less, greater, or a zero of the other sign (equal integers, where there is nothing to
tell); the old one, the new one, or both are NaN.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.nodes import COMPARISONS, Binary, Call, Cast, Const, Expr, Select, Sym, Unary, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import used

from .symbolic_state import Unclear, keeps_value

OLD, NEW = "old", "new"
LESS, EQUAL, GREATER, OLD_NAN, NEW_NAN, BOTH_NAN = CASES = (
    "less",
    "equal",
    "greater",
    "old nan",
    "new nan",
    "both nan",
)
ORDERED = (LESS, EQUAL, GREATER)

_SIGNS = {LESS: -1, EQUAL: 0, GREATER: 1}
_HOLDS = {
    "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (1, 0), "==": (0,), "!=": (-1, 1),
}  # fmt: skip
_NANS = {OLD_NAN: (OLD,), NEW_NAN: (NEW,), BOTH_NAN: (OLD, NEW)}
_BETTER = {"max": {LESS: NEW, GREATER: OLD}, "min": {LESS: OLD, GREATER: NEW}}


def core(e: Expr) -> Expr:
    """``e`` without conversions from float to float, which keep the order, and without those that change no bit."""
    while isinstance(e, Cast) and isinstance(e.to, Scalar) and isinstance(e.x.type, Scalar):
        to, of = e.to, e.x.type
        if not (
            e.style == "bit"
            or (to.is_float and of.is_float)
            or (to.is_int and of.is_int and to.bits == of.bits)
            or keeps_value(to, of)
        ):
            break
        e = e.x
    return e


def leaves(e: Expr, old: Sym) -> Iterator[Expr]:
    """What is compared with the old value, or stored instead of it."""
    x = core(e)
    if isinstance(x, Var) and x.sym == old:
        return
    below: tuple[Expr, ...]
    match x:
        case Select(cond, a, b):
            below = (cond, a, b)
        case Call(fn=fn, args=args) if fn in ("max", "min", "isnan"):
            below = args
        case Binary(op, a, b) if op in COMPARISONS or op in ("&&", "||"):
            below = (a, b)
        case Unary(op="!"):
            below = (x.x,)
        case Const(value=bool()):
            below = ()
        case _ if old in used(x):
            raise Unclear
        case _:
            yield e
            return
    for y in below:
        yield from leaves(y, old)


class Case:
    """The case named ``case``, for values of type ``elem``. ``new`` is the new value's :func:`core`."""

    def __init__(self, case: str, elem: Scalar, old: Sym, new: Expr) -> None:
        self.case, self.elem, self.old, self.new = case, elem, old, new

    def of(self, e: Expr) -> set:
        """What ``e`` may be: ``OLD``, ``NEW``, or truths."""
        x = core(e)
        if isinstance(x, Var) and x.sym == self.old:
            return {OLD}
        if x == self.new:
            return {NEW}
        match x:
            case Const(value=bool()):
                return {x.value}
            case Select(cond, a, b):
                return {y for truth in self.of(cond) for y in self.of(a if truth else b)}
            case Call(fn=("max" | "min") as fn, args=(a, b)):
                return {y for p in self.of(a) for q in self.of(b) for y in self._extreme(fn, p, q)}
            case Call(fn="isnan", args=(a,)):
                return {p in _NANS.get(self.case, ()) for p in self.of(a)}
            case Binary(op=("&&" | "||") as op, a=a, b=b):
                return {(p and q) if op == "&&" else (p or q) for p in self.of(a) for q in self.of(b)}
            case Binary(op=op, a=a, b=b) if op in COMPARISONS:
                return {y for p in self.of(a) for q in self.of(b) for y in self._compared(op, p, q, a.type)}
            case Unary(op="!"):
                return {not p for p in self.of(x.x)}
        raise Unclear

    def _extreme(self, fn: str, p: str, q: str) -> set[str]:
        if p == q:
            return {p}
        if self.case in _SIGNS:  # of equal zeros either is the result
            return {_BETTER[fn][self.case]} if self.case != EQUAL else {OLD, NEW}
        return {OLD: {OLD}, NEW: {NEW}}[{OLD_NAN: NEW, NEW_NAN: OLD, BOTH_NAN: OLD}[self.case]]

    def _compared(self, op: str, p: str, q: str, t: object) -> set[bool]:
        """``p op q``; as integers, floats' bits compare only for being the same, which those of two NaN may be."""
        if not isinstance(t, Scalar):
            raise Unclear
        bits = self.elem.is_float and t.is_int
        if (bits and op not in ("==", "!=")) or (self.elem.is_int and not keeps_value(t, self.elem)):
            raise Unclear
        nans = _NANS.get(self.case, ())
        if bits:
            if p == q:
                return {op == "=="}
            return {True, False} if self.case == BOTH_NAN else {op == "!="}
        if p in nans or q in nans:
            return {op == "!="}
        sign = 0 if p == q else _SIGNS[self.case] * (1 if p == OLD else -1)
        return {sign in _HOLDS[op]}


__all__ = [
    "CASES", "EQUAL", "GREATER", "LESS", "NEW", "NEW_NAN", "OLD", "OLD_NAN", "ORDERED", "Case", "core", "leaves",
]  # fmt: skip
