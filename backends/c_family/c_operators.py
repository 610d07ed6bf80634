"""Operators of the IR as C text: the usual arithmetic conversions decide which casts can be left out."""

from __future__ import annotations

from ktc.ir.nodes import COMPARISONS, Binary, Call, Cast, Const, Expr, Select, Unary
from ktc.ir.types import BOOL, U64, Scalar, Type

from .c_dialect import Dialect
from .conversion_rules import (
    MODULAR,
    c_common,
    cannot_overflow,
    computes,
    is_int32,
    negatable,
    promoted_type,
    regroups,
    unsigned,
    upper_bound,
)
from .piece import BINARY_PREC, CLARIFY, TERNARY, UNARY, Piece

REGULAR = frozenset("+-*/%")
"""Operators that are not left in 64 bits where the IR has 32: sums and products that are cut are no longer seen to be
consecutive (PoCL then does not vectorise), and quotients of 64 bits take several times as long."""


class Operators:
    """Unary and binary operators, conditionals, and the conversions around their operands."""

    d: Dialect

    def piece(self, e: Expr, wrap: bool = False) -> Piece:
        """``e`` with some C type; ``wrap``: only its low 32 bits matter."""
        raise NotImplementedError

    def condition(self, e: Expr) -> Piece:
        raise NotImplementedError

    def is_null(self, e: Call, op: str) -> Piece:
        raise NotImplementedError

    def coerce(self, p: Piece, to: Type, assigning: bool = False) -> Piece:
        """``p`` converted to ``to``, explicitly unless it has that type, or C does it when ``assigning``."""
        if p.ctype == to or not isinstance(to, Scalar) or not isinstance(p.ctype, Scalar):
            return p
        if assigning and self.d.c_converts(p.ctype, to):
            return p
        if p.literal is not None and to.is_int and not p.literal.ty.is_float:
            return self.d.constant(Const(p.literal.value, to, p.literal.spelling), exact=True)
        return self.d.convert(p, to)

    def without_implicit(self, e: Expr, to: Type) -> Expr:
        """``e`` below the implicit conversion to ``to`` that C would do as well."""
        if isinstance(e, Cast) and e.style == "implicit" and e.to == to and self.d.c_converts(e.x.type, to):
            return e.x
        return e

    def _unary(self, e: Unary, wrap: bool) -> Piece:
        if e.op == "!" and isinstance(e.x, Call) and e.x.fn == "is_null":
            return self.is_null(e.x, "!=")
        if e.op == "!":
            return Piece("!" + self.condition(e.x).at(UNARY), UNARY, BOOL)
        wrap = wrap and is_int32(e.type)
        p = self.piece(e.x, wrap)
        if isinstance(e.type, Scalar) and not (wrap and (e.type.is_signed or e.op != "-" or unsigned(p.ctype))):
            p = self.coerce(p, promoted_type(e.type))
        if e.op == "-" and p.literal is None and (apart := self.d.negative(p)) is not None:
            return self._narrow(apart, e.type, wrap)
        text = p.at(UNARY)
        if text.startswith(e.op):
            text = f"({text})"
        return self._narrow(Piece(e.op + text, UNARY, p.ctype if wrap else promoted_type(e.type)), e.type, wrap)

    def _binary(self, e: Binary, wrap: bool) -> Piece:
        idiom = self.d.index_idiom(e)
        if idiom is not None:
            return idiom
        if e.op in ("&&", "||"):
            return self._infix(e.op, self.condition(e.a), self.condition(e.b), BOOL)
        t = e.a.type
        if not isinstance(t, Scalar):
            return self._infix(e.op, self.piece(e.a), self.piece(e.b), e.type)
        if e.op in ("<<", ">>"):
            return self._shift(e, t, wrap)
        wrap = wrap and e.op in MODULAR and is_int32(t)
        a, b = (self.piece(self.without_implicit(x, t), wrap) for x in (e.a, e.b))
        if e.op in "+-" and b.literal is not None and b.literal.value < 0 and negatable(b.literal):
            flipped = Const(-b.literal.value, b.literal.ty, b.literal.spelling.lstrip("-"))
            return self._binary(Binary("-" if e.op == "+" else "+", e.a, flipped), wrap)
        a, b = self._balance(e.op, a, b, t, wrap)
        common = c_common(a.ctype, b.ctype)
        if e.op in COMPARISONS:
            return self._infix(e.op, a, b, BOOL)
        return self._narrow(self._infix(e.op, a, b, common, upper_bound(e.op, a.upper, b.upper, t)), t, wrap)

    def _balance(self, op: str, a: Piece, b: Piece, t: Scalar, wrap: bool) -> tuple[Piece, Piece]:
        """``a`` and ``b`` with the fewest casts for which C computes ``op`` in type ``t`` (or to the same value)."""

        def fine(x: Piece, y: Piece) -> bool:
            if not (isinstance(x.ctype, Scalar) and isinstance(y.ctype, Scalar)):
                return True
            if t.is_float:
                return x.ctype == y.ctype == t or (
                    self.d.mixes(x.ctype, t) and self.d.mixes(y.ctype, t) and t in (x.ctype, y.ctype)
                )
            if op in REGULAR and self.d.wide_indices and t.bits == 32 and c_common(x.ctype, y.ctype) == U64:
                return False
            return computes(op, x, y, t, wrap)

        for x, y in ((a, b), (self.coerce(a, t), b), (a, self.coerce(b, t))):
            if fine(x, y):
                return x, y
        return self.coerce(a, t), self.coerce(b, t)

    def _shift(self, e: Binary, t: Scalar, wrap: bool) -> Piece:
        wrap = wrap and e.op == "<<" and is_int32(t)
        a = self.piece(self.without_implicit(e.a, t), wrap)
        b = self.piece(e.b.x if isinstance(e.b, Cast) and e.b.style == "implicit" else e.b)
        want = promoted_type(t)
        if promoted_type(a.ctype) != want and not (_may_wrap(e.op, a, b, t) if wrap else _same_shifted(e.op, a, b)):
            a = self.coerce(a, want)
        small = upper_bound(e.op, a.upper, b.upper, t)
        return self._narrow(self._infix(e.op, a, b, promoted_type(a.ctype), small), t, wrap)

    def _narrow(self, p: Piece, t: Type, wrap: bool) -> Piece:
        """Arithmetic on 8- and 16-bit integers happens in ``int``: cut the result back to its type."""
        if isinstance(t, Scalar) and t.is_int and t.bits < 32 and not wrap:
            return self.d.convert(p, t)
        return p

    def _infix(self, op: str, a: Piece, b: Piece, ctype: Type, upper: int | None = None) -> Piece:
        prec = BINARY_PREC[op]
        clarify = CLARIFY.get(op, ())
        left = f"({a.text})" if a.op in clarify else a.at(prec)
        right = f"({b.text})" if b.op in clarify else b.at(prec + 1)
        if right.startswith("(") and b.prec == prec and regroups(op, b, ctype, a.ctype):
            right = b.text
        divides = op in "/%" or (op == "*" and (a.divides or b.divides))
        return Piece(f"{left} {op} {right}", prec, ctype, upper, op=op, divides=divides)

    def _select(self, e: Select, wrap: bool) -> Piece:
        t = e.type
        a, b = (self.piece(self.without_implicit(x, t)) for x in (e.a, e.b))
        if isinstance(t, Scalar):
            a, b = self._balance("?", a, b, t, wrap and is_int32(t))
        cond = self.condition(e.cond)
        text = f"{cond.at(TERNARY + 1)} ? {a.at(TERNARY)} : {b.at(TERNARY)}"
        upper = None if a.upper is None or b.upper is None else max(a.upper, b.upper)
        return Piece(text, TERNARY, c_common(a.ctype, b.ctype), upper)


def _may_wrap(op: str, a: Piece, b: Piece, t: Scalar) -> bool:
    """Whether ``a << b`` has the low bits of ``t`` in the type that ``a`` has, and always a value there."""
    c = promoted_type(a.ctype)
    return t.is_signed or unsigned(c) or (isinstance(c, Scalar) and cannot_overflow(op, a, b, c))


def _same_shifted(op: str, a: Piece, b: Piece) -> bool:
    """Whether ``a >> b`` is the same number in the type that ``a`` has and in a wider one."""
    bits = getattr(promoted_type(a.ctype), "bits", 0)
    return op == ">>" and a.nonneg and b.upper is not None and b.upper < bits
