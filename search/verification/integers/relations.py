"""Intervals that know what an index stays below: sums of products of sizes, beside numbers.

Of ``block < heads * tokens`` intervals keep a number alone, and lose that ``block / (3 * tokens) * 3`` is below
``heads``. Here a bound is a polynomial with integer coefficients over the kernel's parameters and whatever else has one
value while it is looked at; ``e < bound`` follows from the launch, from quotients (``x < d g`` gives ``x / d < g``, and
``x / (d g) * g <= x / d``), remainders, minima and sums, for operands that are at least 0 and divisors above 0.

What is bounded is only what an interval is known of: none of it has left its type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ktc.ir.nodes import Binary, Call, Const, Expr, HwIndex, Knob, Load, Var, WarpOp
from ktc.ir.walk import walk_expr

from .interval_arithmetic import BINARY, Interval
from .intervals import Scope, factors_of, uncast

Monomial = frozenset[tuple[Expr, int]]
"""Factors with their powers."""

Form = Counter[Monomial]
"""A polynomial: monomials with their coefficients."""

ONE: Monomial = frozenset()

DEEPEST = 12
"""Operators and definitions that a bound is followed through."""

EXTENTS = {"thread": "block", "block": "grid"}


@dataclass
class Related(Scope):
    """Intervals, made narrower by what is known to be below what."""

    asking: bool = False
    """Operands of a bound are looked up: that asks for no further bounds."""

    def _binary(self, e: Binary) -> Interval | None:
        return self._narrower(e, super()._binary(e))

    def _fitting(self, e: Expr, v: Interval | None) -> Interval | None:
        return super()._fitting(e, self._narrower(e, v))

    def _narrower(self, e: Expr, v: Interval | None) -> Interval | None:
        if v is None or self.asking or not isinstance(e, Binary):
            return v
        self.asking = True
        low, high = v
        for bound in self.below(e):
            most = self._range(bound)
            high = min(high, most[1] - 1) if most is not None else high
        if e.op == "-" and low < 0:
            low = max([low, *self._differences(e)])
        if low < 1 and self._is_above_zero(e):
            low = 1
        self.asking = False
        return (low, high) if low <= high else v

    def _differences(self, e: Binary) -> Iterator[int]:
        """The least value of ``a - b``, by what ``b`` is below."""
        a = self.form(e.a)
        for bound in self.below(e.b) if a is not None else ():
            rest = self._range(_sum(a, bound, -1)) if a is not None else None
            if rest is not None:
                yield rest[0] + 1

    # ------------------------------------------------------------------------------------------------------ bounds

    def below(self, e: Expr, depth: int = 0) -> list[Form]:
        """Forms that the value of ``e`` is below."""
        e = uncast(e)
        if depth > DEEPEST:
            return []
        if isinstance(e, HwIndex) and e.level in EXTENTS and self.kernel.launch is not None:
            extent = self.form(getattr(self.kernel.launch, EXTENTS[e.level])["xyz".index(e.axis)])
            return [extent] if extent is not None else []
        if isinstance(e, Var):
            return [*self._limits(e), *(self.below(self.given[e.sym], depth + 1) if e.sym in self.given else ())]
        if isinstance(e, Call) and e.fn == "min":
            return [*(f for a in e.args for f in self.below(a, depth + 1)), *(_sum(f, _ONE) for f in self._least(e))]
        if not isinstance(e, Binary):
            return []
        return [*self._guards(e), *self._below_operation(e, depth)]

    def _below_operation(self, e: Binary, depth: int) -> list[Form]:
        if e.op in ("+", "-"):
            return self._below_sum(e, depth)
        if e.op == "*":
            return self._below_product(e, depth)
        if e.op == "/" and self._counts(e.a, e.b):
            return [f for x in self.below(e.a, depth + 1) if (f := _divided(x, self.form(e.b))) is not None]
        if e.op == "%" and self._counts(e.a, e.b):
            divisor = self.form(e.b)
            upper = [_sum(f, _ONE, -1) for f in self.below(e.b, depth + 1)]
            return [*([divisor] if divisor is not None else []), *upper, *self.below(e.a, depth + 1)]
        return []

    def _guards(self, e: Binary) -> Iterator[Form]:
        """What guards say that ``e`` is below, if all in it has one value where they hold."""
        for limit, more in self.guarded.get(e, ()) if self._steady(e) else ():
            f = self.form(limit)
            if f is not None:
                yield _sum(f, Counter({ONE: more}))

    def _limits(self, e: Var) -> Iterator[Form]:
        """What guards and loops say that a variable is below, if it has one value where they hold."""
        for limit, more in self.limits.get(e.sym, ()) if e.sym not in self.changed else ():
            f = self.form(limit)
            if f is not None:
                yield _sum(f, Counter({ONE: more}))

    def _least(self, e: Call) -> Iterator[Form]:
        """The operands of a minimum, which is no larger than any."""
        for a in e.args:
            f = self.form(a)
            if f is not None:
                yield f

    def _below_sum(self, e: Binary, depth: int) -> list[Form]:
        sign = 1 if e.op == "+" else -1
        a, b = self.form(e.a), self.form(e.b)
        found = [_sum(f, b, sign) for f in self.below(e.a, depth + 1)] if b is not None else []
        if a is not None and sign > 0:
            found += [_sum(a, f) for f in self.below(e.b, depth + 1)]
        return found

    def _below_product(self, e: Binary, depth: int) -> list[Form]:
        """``x / (d g) * g`` is at most ``x / d``."""
        factors, found = factors_of(e), []
        for k, f in enumerate(factors):
            f = self._defined(f)
            if not (isinstance(f, Binary) and f.op == "/" and self._counts(f.a, f.b)):
                continue
            divisor, others = factors_of(f.b), factors[:k] + factors[k + 1 :]
            if Counter(others) - Counter(divisor) or not all(self._positive(d) for d in divisor):
                continue
            rest = self._product(list((Counter(divisor) - Counter(others)).elements()))
            found += [b for x in self.below(f.a, depth + 1) if (b := _divided(x, rest)) is not None]
        return found

    def _defined(self, e: Expr) -> Expr:
        for _ in range(DEEPEST):
            e = uncast(e)
            if not (isinstance(e, Var) and e.sym in self.given):
                break
            e = self.given[e.sym]
        return e

    def _counts(self, x: Expr, divisor: Expr) -> bool:
        v = self.of(x)
        return v is not None and v[0] >= 0 and self._positive(divisor)

    def _positive(self, e: Expr) -> bool:
        v = self.of(e)
        return v is not None and (v[0] > 0 or self._is_above_zero(e))

    def _is_above_zero(self, e: Expr) -> bool:
        """Whether a guard or a loop around says so."""
        return uncast(e) in self.positive and self._steady(e)

    # ------------------------------------------------------------------------------------------------------- forms

    def form(self, e: Expr, depth: int = 0) -> Form | None:
        """``e`` as a polynomial; None where its value is not the same wherever it is asked for."""
        e = uncast(e)
        if isinstance(e, Const) and not isinstance(e.value, float):
            return Counter({ONE: int(e.value)})
        if isinstance(e, Knob):
            return Counter({ONE: self.kernel.knob_values[e.name]})
        if isinstance(e, Var) and e.sym in self.given and depth < DEEPEST:
            defined = uncast(self.given[e.sym])
            if isinstance(defined, Binary) and defined.op in ("+", "-", "*"):
                return self.form(defined, depth + 1)
        if isinstance(e, Binary) and e.op in ("+", "-", "*") and depth < DEEPEST:
            a, b = self.form(e.a, depth + 1), self.form(e.b, depth + 1)
            if a is None or b is None:
                return None
            return _times(a, b) if e.op == "*" else _sum(a, b, 1 if e.op == "+" else -1)
        return Counter({frozenset({(e, 1)}): 1}) if self._steady(e) else None

    def _product(self, factors: list[Expr]) -> Form | None:
        out: Form = Counter({ONE: 1})
        for e in factors:
            f = self.form(e)
            if f is None:
                return None
            out = _times(out, f)
        return out

    def _steady(self, e: Expr) -> bool:
        return not any(
            isinstance(x, Load | WarpOp)
            or (isinstance(x, Call) and x.effects != "pure")
            or (isinstance(x, Var) and x.sym in self.changed)
            for x in walk_expr(e)
        )

    def _range(self, f: Form) -> Interval | None:
        low = high = 0
        for monomial, n in f.items():
            v: Interval = (n, n)
            for e, power in monomial:
                own = self.of(e)
                if own is None:
                    return None
                for _ in range(power):
                    v = BINARY["*"](v, own) or v
            low, high = low + v[0], high + v[1]
        return low, high


def _sum(a: Form, b: Form, sign: int = 1) -> Form:
    out = Counter(a)
    for m, n in b.items():
        out[m] += sign * n
    return Counter({m: n for m, n in out.items() if n})


def _times(a: Form, b: Form) -> Form:
    out: Form = Counter()
    for m, x in a.items():
        for n, y in b.items():
            out[_frozen(_powers(m) + _powers(n))] += x * y
    return Counter({m: n for m, n in out.items() if n})


def _divided(a: Form, b: Form | None) -> Form | None:
    """``a / b`` where that is a polynomial, of a ``b`` of one monomial."""
    if b is None or len(b) != 1:
        return None
    ((by, n),) = b.items()
    out: Form = Counter()
    for m, x in a.items():
        if x % n or _powers(by) - _powers(m):
            return None
        out[_frozen(_powers(m) - _powers(by))] += x // n
    return out


def _powers(m: Monomial) -> Counter[Expr]:
    return Counter(dict(m))


def _frozen(powers: Counter[Expr]) -> Monomial:
    return frozenset(powers.items())


_ONE: Form = Counter({ONE: 1})

__all__ = ["Form", "Related"]
