"""Facts that lowering asks about integer expressions: known values, divisibility.

Bound knobs decide structure (a vector of one lane is a scalar); open knobs leave it to the printed constants.
"""

from __future__ import annotations

from functools import cached_property

from ktc.ir.arith import REWRITES, Facts
from ktc.ir.arith.counted_loops import counting
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import evaluate, is_const
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, For, Knob, Sym, Unary, Var


class Decider:
    """Answers questions under a kernel's bound knobs and assumptions, and about its sizes under all its facts."""

    def __init__(self, kernel: Kernel) -> None:
        self.bound = kernel.bound_knobs
        self._divisors = [_divides(a.expr) for a in kernel.assumptions]
        self.counters: dict[Sym, tuple[Expr, Expr]] = {}  # serial loop variable -> (first value, step)
        self._params = {p.sym: p for p in kernel.params}
        self._kernel = kernel

    @cached_property
    def _facts(self) -> Facts:
        """What is known of the kernel's sizes: a stride may be divisible for what it is equal to."""
        return Facts(self._kernel, REWRITES)

    def value(self, e: Expr) -> int | None:
        """The value of ``e`` if constants and bound knobs determine it."""
        v = evaluate(e, self.bound)
        return None if v is None else int(v)

    def rounds(self, loop: For) -> int | None:
        """How often ``loop``, counting from zero by one, runs; None if it counts otherwise or to an unknown end."""
        form = counting(loop)
        return self.value(form.hi) if form is not None and form.from_zero_by_one else None

    def divisible(self, e: Expr, by: Expr) -> bool:
        """Whether ``by`` provably divides ``e``: by constants, bound knobs, factors, and assumed ``x % y == 0``."""
        n = self.value(by)
        if n == 1:
            return True
        v = self.value(e)
        if v is not None and n is not None:
            return v % n == 0
        if e == by or v == 0:
            return True
        if isinstance(e, Cast):
            return self.divisible(e.x, by)
        if isinstance(e, Unary) and e.op == "-":
            return self.divisible(e.x, by)
        if isinstance(e, Binary):
            if e.op in "+-":
                return self.divisible(e.a, by) and self.divisible(e.b, by)
            if e.op == "*":
                return self.divisible(e.a, by) or self.divisible(e.b, by)
        if isinstance(e, Call) and e.fn in ("min", "max"):
            return all(self.divisible(a, by) for a in e.args)
        if isinstance(e, Var) and e.sym in self.counters:
            return all(self.divisible(x, by) for x in self.counters[e.sym])
        if isinstance(e, Var):
            p = self._params.get(e.sym)
            if p is not None and n is not None and p.divisible_by % n == 0:
                return True
            if p is not None and self._part_divisible(e, p.divisible_by, by):
                return True
        if any(d is not None and _same(d[0], e) and self._implies(d[1], by) for d in self._divisors):
            return True
        return n is not None and self._facts.multiple_of(e, n)

    def _part_divisible(self, e: Var, divisor: int, by: Expr) -> bool:
        """``(e / c) % y == 0`` is assumed, c divides e, and y is a multiple of ``by``."""
        for d in self._divisors:
            if d is None or not isinstance(d[0], Binary) or d[0].op != "/" or without_casts(d[0].a) != e:
                continue
            c = self.value(d[0].b)
            if c and divisor % c == 0 and self._implies(d[1], by):
                return True
        return False

    def _implies(self, known: Expr, wanted: Expr) -> bool:
        """``x % known == 0`` implies ``x % wanted == 0``."""
        if known == wanted:
            return True
        k, w = self.value(known), self.value(wanted)
        return k is not None and w is not None and k % w == 0

    def equal(self, a: Expr, b: Expr) -> bool:
        """Whether two expressions are provably equal: the same tree, or the same known value."""
        va, vb = self.value(a), self.value(b)
        return without_casts(a) == without_casts(b) or (va is not None and va == vb)


def _same(a: Expr, b: Expr) -> bool:
    return without_casts(a) == without_casts(b)


def _divides(e: Expr) -> tuple[Expr, Expr] | None:
    """(x, y) if ``e`` says ``x % y == 0``."""
    if isinstance(e, Binary) and e.op == "==" and is_const(without_casts(e.b), 0):
        m = without_casts(e.a)
        if isinstance(m, Binary) and m.op == "%":
            return without_casts(m.a), without_casts(m.b)
    return None


__all__ = [
    "Call",
    "Const",
    "Decider",
    "Knob",
]
