"""Which unit of a device an operation of the source needs at least, whatever a rewrite makes of the rest.

A sum of products with a factor of 16 bits or fewer may run on matrix units; square roots and exponentials take a slot
of the special unit; everything else on floats a lane of its type. Of integer arithmetic, products of numbers of 32
bits that are both loaded are counted, as no matrix unit takes them; indices, moves, control and quotients are not:
another program for the same work may do without them, or multiply by a reciprocal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from ktc.ir.nodes import Binary, Call, Cast, Expr, Load, Sym, Var
from ktc.ir.types import Scalar, Vec

SPECIAL = frozenset({"exp", "exp2", "sqrt", "rsqrt", "fast_exp", "fast_rsqrt"})
"""Functions of one argument that need at least one special instruction in 32 bits or fewer. Sines and logarithms may be
polynomials."""

IN_64_BITS = {
    **dict.fromkeys(("sqrt", "rsqrt"), 6),
    **dict.fromkeys(("exp", "exp2", "log", "log2", "log10", "sin", "cos", "tanh", "erf"), 12),
    "pow": 24,
}
"""Function -> additions and multiplications in 64 bits that it takes at least, for no unit gives 53 bits at once: two
steps of Newton's method from what the special unit gives, of three operations each; a reduction of the argument and a
polynomial of degree four, with a table for the rest of the argument (Tang 1989); both of those for a power."""


@dataclass(frozen=True)
class Operations:
    """Operations of one launch. ``f32``, ``f64``, ``f16`` (of their own type), ``matrix`` (products of narrow numbers
    that matrix units could sum): additions and multiplications, a fused one being two; ``special``: functions;
    ``compare``: comparisons, minima and maxima of floats; ``integer``: products of loaded integers, each with the
    addition that is fused with it."""

    f32: float = 0.0
    f64: float = 0.0
    f16: float = 0.0
    matrix: float = 0.0
    special: float = 0.0
    compare: float = 0.0
    integer: float = 0.0

    def __add__(self, other: Operations) -> Operations:
        return Operations(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __mul__(self, times: float) -> Operations:
        return Operations(*(getattr(self, f.name) * times for f in fields(self)))

    @property
    def flops(self) -> float:
        """Additions and multiplications of every type."""
        return self.f32 + self.f64 + self.f16 + self.matrix

    @property
    def total(self) -> float:
        return self.flops + self.special + self.compare + self.integer


NONE = Operations()


def most(a: Operations, b: Operations) -> Operations:
    """Of each kind the larger count."""
    return Operations(*(max(getattr(a, f.name), getattr(b, f.name)) for f in fields(a)))


Narrow = Callable[[Sym], str]
"""What a variable holds: ``"factor"`` (a narrow number, converted), ``"product"`` of such, ``"integer"`` (a loaded one
of 32 bits or more), or ``""``."""


def kind_of(e: Expr, known: Narrow) -> str:
    """What ``e`` is to a matrix unit: a ``"factor"`` (a converted number of at most 16 bits), a ``"product"`` by
    such (or a sum of products), an ``"integer"`` that it does not take, or ``""``."""
    if isinstance(e, Var):
        return known(e.sym)
    if isinstance(e, Cast) and isinstance(e.to, Scalar) and e.to.is_float:
        t = e.x.type
        if isinstance(t, Scalar) and (t.is_float and t.bits <= 16):
            return "factor"
        return kind_of(e.x, known)
    if isinstance(e, Load):
        t = e.type
        if isinstance(t, Scalar) and t.is_int and t.bits >= 32:
            return "integer"
        return "factor" if isinstance(t, Scalar) and t.is_float and t.bits <= 16 else ""
    if isinstance(e, Cast) and isinstance(e.to, Scalar) and e.to.is_int:
        return "integer" if kind_of(e.x, known) == "integer" else ""
    if isinstance(e, Binary) and e.op == "*":
        return "product" if "factor" in (kind_of(e.a, known), kind_of(e.b, known)) else ""
    if isinstance(e, Binary) and e.op == "+":
        return "product" if "product" in (kind_of(e.a, known), kind_of(e.b, known)) else ""
    if isinstance(e, Call) and e.fn == "fma":
        return "product" if "factor" in (kind_of(e.args[0], known), kind_of(e.args[1], known)) else ""
    return ""


def own_operations(e: Expr, known: Narrow) -> Operations:
    """The operations of the node ``e`` itself, its operands not counted."""
    t = e.type
    lanes = 1
    if isinstance(t, Vec):
        lanes = t.n if isinstance(t.n, int) else 1
        t = t.elem
    if isinstance(e, Binary) and isinstance(e.a.type, Scalar) and e.a.type.is_float and e.op in _ORDER:
        return Operations(compare=1.0)
    if isinstance(e, Binary) and e.op == "*" and {kind_of(x, known) for x in (e.a, e.b)} == {"integer"}:
        return Operations(integer=1.0)
    if not isinstance(t, Scalar) or not t.is_float:
        return NONE
    if isinstance(e, Binary) and e.op in ("+", "-", "*"):
        return _arithmetic(1.0 * lanes, t, kind_of(e, known))
    if isinstance(e, Call):
        if e.fn == "fma":
            return _arithmetic(2.0, t, kind_of(e, known))
        if e.fn in ("min", "max"):
            return Operations(compare=1.0)
        if t.bits == 64 and e.fn in IN_64_BITS:
            return Operations(f64=float(IN_64_BITS[e.fn] * lanes))
        if e.fn in SPECIAL:
            return Operations(special=1.0)
    return NONE


def accumulation(op: str, value: Expr, known: Narrow) -> Operations:
    """What adding ``value`` to an accumulator by ``op`` costs."""
    t = value.type
    if not isinstance(t, Scalar) or not t.is_float:
        return NONE
    if op in ("+", "*", "add", "sub", "mul"):
        return _arithmetic(1.0, t, kind_of(value, known) if op == "+" else "")
    return Operations(compare=1.0) if op in ("min", "max") else NONE


_ORDER = ("<", "<=", ">", ">=")


def _arithmetic(n: float, t: Scalar, kind: str) -> Operations:
    if kind == "product":
        return Operations(matrix=n)
    if t.bits == 64:
        return Operations(f64=n)
    return Operations(f32=n) if t.bits == 32 else Operations(f16=n)
