"""Values that scale with the maximum they are taken below, each as what a part of the iterations knows of it.

    e[t] = exp(x[t] - m)          a part: exp(x[t] - m_p)                scaled
    p[t] = e[t] / l               a part: exp(x[t] - m_p)                scaled, then / l
    sum of p[t] * v[t]            a part: its sum of exp(.) * v[t]       scaled, then / l

Below the maximum ``m_p`` of a part, a *scaled* value is too large by the one factor exp(m - m_p), as exp(a + b) =
exp(a) exp(b). Products with what has nothing to do with the maximum are scaled, and sums of such values are: what a
part leaves is right once it is multiplied by exp(m_p - m). Factors that only the whole gives (*late* values, as ``l``
is) are the same for all terms of a sum, so that they come after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ktc.ir.fold import cast
from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, Load, Select, Sym, Unary, Var
from ktc.ir.types import Scalar, scalar_of
from ktc.ir.walk import loads_in, substitute_expr, used, walk_expr
from ktc.passes.shared.running.rescaled import POWERS, Power

Factors = tuple[tuple[str, Expr], ...]
"""What a scaled value is multiplied (``*``) or divided (``/``) by once the whole is known, in this order."""


class Unscaled(Exception):
    """A value hangs on the maximum in another way."""


@dataclass(frozen=True)
class Scaled:
    """What a part computes for a value, and the late factors."""

    part: Expr
    factors: Factors = ()


@dataclass
class Values:
    """What is known of the values of a block up to some statement.

    ``top`` is the maximum and ``base`` what stands for it in a part; ``names`` are variables that are the maximum or a
    multiple of it, ``is_value`` says whether an expression is what the maximum is of at that position. ``late`` is what
    only the whole gives, ``scaled`` are variables and arrays of scaled values with their factors, ``moving`` differs
    between the terms of a sum, ``fixed`` keeps its value in all of the block.
    """

    top: Sym
    base: Sym
    fixed: set[Sym]
    names: dict[Sym, Expr] = field(default_factory=dict)
    late: set[Sym] = field(default_factory=set)
    scaled: dict[Sym, Factors] = field(default_factory=dict)
    moving: set[Sym] = field(default_factory=set)
    power: Power | None = None
    is_value: Callable[[Expr], bool] = lambda e: False

    def is_plain(self, e: Expr) -> bool:
        """Whether a part knows ``e``."""
        return not used(e) & (self.late | self.scaled.keys())

    def split(self, e: Expr) -> Scaled:
        """The scaled value ``e``.

        Raises:
            Unscaled: it is none.
        """
        power = self._power(e)
        if power is not None:
            return Scaled(power)
        if isinstance(e, Var | Load):
            found = self.scaled.get(e.sym if isinstance(e, Var) else e.buffer)
            if found is not None and not (isinstance(e, Load) and not all(map(self.is_plain, e.index))):
                return Scaled(e, found)
        if isinstance(e, Call) and e.fn == "fma":
            a, b, c = e.args
            return self._both(Binary("+", Binary("*", a, b), c))
        if isinstance(e, Binary) and e.op in "+-":
            return self._both(e)
        if isinstance(e, Binary) and e.op in "*/":
            return self._product(e)
        if isinstance(e, Unary) and e.op == "-":
            x = self.split(e.x)
            return Scaled(Unary("-", x.part), x.factors)
        if isinstance(e, Cast) and _is_wide(e) and _is_wide(e.x):
            x = self.split(e.x)
            return Scaled(Cast(e.to, x.part, e.style), x.factors)
        if isinstance(e, Select) and self.is_plain(e.cond):
            return self._either(e)
        raise Unscaled

    def _power(self, e: Expr) -> Expr | None:
        """``exp(x - m)`` below the part's maximum; also of a multiple of the distance. An ``x`` that the maximum is not
        of may be far above it in some part: its exponential would be inf there."""
        from ktc.ir.interp.domains.realmath import plain_name  # numpy: not for who only asks what passes there are

        if not (isinstance(e, Call) and plain_name(e.fn) in POWERS):
            return None
        for value, scale in _below(substitute_expr(e.args[0], self.names), self.top):
            if not self.is_value(value) or (scale is not None and not used(scale) <= self.fixed):
                continue
            power = Power(e.fn, scale)
            if self.power is not None and self.power != power:
                raise Unscaled
            self.power = power
            return power(value, Var(self.base))
        return None

    def _both(self, e: Binary) -> Scaled:
        a, b = self.split(e.a), self.split(e.b)
        if a.factors != b.factors:
            raise Unscaled
        return Scaled(Binary(e.op, a.part, b.part), a.factors)

    def _product(self, e: Binary) -> Scaled:
        a, b = (e.a, e.b) if e.op == "/" or self._scales(e.a) else (e.b, e.a)
        x = self.split(a)
        if self.is_plain(b):
            return Scaled(Binary(e.op, x.part, b), x.factors)
        if self._scales(b) or used(b) & self.moving or any(loads_in(b)):
            raise Unscaled
        return Scaled(x.part, (*x.factors, (e.op, b)))

    def _scales(self, e: Expr) -> bool:
        """Whether something in ``e`` is scaled."""
        return bool(used(e) & self.scaled.keys()) or any(self._power(x) is not None for x in walk_expr(e))

    def _either(self, e: Select) -> Scaled:
        sides = [None if _is_zero(x) else self.split(x) for x in (e.a, e.b)]
        factors = {s.factors for s in sides if s is not None}
        if len(factors) != 1:
            raise Unscaled
        a, b = (x if s is None else s.part for s, x in zip(sides, (e.a, e.b)))
        return Scaled(Select(e.cond, a, b), factors.pop())


def _below(e: Expr, top: Sym) -> Iterator[tuple[Expr, Expr | None]]:
    """Each (x, c) for which ``e`` is (x - top) * c; no c is one."""
    for apart, scale in _multiples(e):
        if isinstance(apart, Binary) and apart.op == "-" and apart.b == Var(top):
            yield apart.a, scale
    if isinstance(e, Binary) and e.op == "-":
        below = {c for m, c in _multiples(e.b) if m == Var(top) and c is not None}
        yield from ((x, c) for x, c in _multiples(e.a) if c in below)


def _multiples(e: Expr) -> Iterator[tuple[Expr, Expr | None]]:
    """What ``e`` is, and the factor that it comes with."""
    yield e, None
    if isinstance(e, Binary) and e.op == "*":
        yield e.a, e.b
        yield e.b, e.a


def scaled_top(e: Expr, top: Sym, fixed: set[Sym]) -> bool:
    """Whether ``e`` is the maximum, or a multiple of it by what is ``fixed``."""
    return any(m == Var(top) and (c is None or used(c) <= fixed) for m, c in _multiples(e))


def _is_wide(e: Expr) -> bool:
    t = e.type
    return isinstance(t, Scalar) and t.is_float and t.bits >= 32


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 0


def whole(value: Expr, factors: Factors) -> Expr:
    """The scaled ``value`` of the whole with its late factors."""
    for op, e in factors:
        value = Binary(op, value, cast(e, scalar_of(value.type)))
    return value


__all__ = ["Factors", "Scaled", "Unscaled", "Values", "scaled_top", "whole"]
