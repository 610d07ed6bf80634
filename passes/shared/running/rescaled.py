"""Online maxima: loops that keep sums of exponentials below the largest value so far, as one sweep of a softmax does.

    top = max(m, x[i])                                 m = the maximum of x[i]
    s = s * exp(m - top) + v[i] * exp(x[i] - top)      s = the sum of v[i] * exp(x[i] - m)
    m = top

After every iteration s is the sum of v exp(x - m) over what was seen, for exp(x - m) exp(m - top) = exp(x - top)
(Milakov and Gimelshein, arXiv 1805.02867). How an iteration is spelled does not matter: it is followed once for a value
that is larger than the maximum and once for one that is not. All that it asks of the two must be their order, so that
two straight programs are left; those are compared with what they should compute at random points of the exact domains,
in which exp(a + b) = exp(a) exp(b).

Where values are infinite the two sides differ by inf - inf alone: a loop that meets -inf first leaves NaN, the sums
after the maximum do not; one +inf makes them NaN, which a loop that adds 1 for the maximum itself survives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product

from ktc.ir.fold import cast, fold_node
from ktc.ir.nodes import (
    COMPARISONS,
    Assign,
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    If,
    Raw,
    Select,
    Stmt,
    Sym,
    Unary,
    Var,
    WarpOp,
    fresh,
)
from ktc.ir.types import BOOL, Scalar, scalar_of
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    map_expr,
    mentions,
    rename,
    substitute_expr,
    used,
    walk_expr,
)

POWERS = ("exp", "exp2")


@dataclass(frozen=True)
class Power:
    """``fn(scale * (a - b))``; no ``scale`` is one."""

    fn: str
    scale: Expr | None = None

    def __call__(self, a: Expr, b: Expr) -> Expr:
        apart: Expr = Binary("-", a, b)
        return Call(self.fn, (apart if self.scale is None else Binary("*", apart, self.scale),), scalar_of(a.type))


@dataclass(frozen=True)
class Rescaled:
    """``total`` ends as the sum of ``weight * power(value, maximum)``, and what it began with below the maximum."""

    total: Sym
    weight: Expr
    power: Power

    def term(self, value: Expr, top: Expr) -> Expr:
        """What one iteration adds, below ``top``."""
        t = scalar_of(self.total.type)
        power = cast(self.power(value, top), t)
        is_one = isinstance(self.weight, Const) and self.weight.value == 1
        return power if is_one else Binary("*", cast(self.weight, t), power)


@dataclass(frozen=True)
class Online:
    """One iteration: ``before``, then ``top`` takes ``value`` if that is larger and the ``sums`` go with it.

    ``left``: variables of the source that are each iteration's own, and are not written any more.
    """

    top: Sym
    value: Expr
    sums: tuple[Rescaled, ...]
    before: Body
    left: frozenset[Sym] = frozenset()


class _Unlike(Exception):
    """This is no online maximum."""


def online(body: Body) -> Online | None:
    """What an iteration with this ``body`` does to its maximum and sums; None where it is not known to be that."""
    body, left = _with_own(body)
    carried = assigned(body) - set(declared(body))
    if len(carried) < 2 or not all(isinstance(s.type, Scalar) and s.type.is_float for s in carried):
        return None
    before, rest = _parted(body, carried)
    if any(
        isinstance(e, WarpOp | Raw) or getattr(e, "effects", "pure") not in ("pure", "read") for e in all_exprs(rest)
    ):
        return None
    ways = [_Way(carried, above) for above in (True, False)]
    try:
        for way in ways:
            way.follow(rest)
    except _Unlike:
        return None
    above, below = ways
    m, x = above.top, above.value
    if m is None or x is None or (below.top, below.value) != (m, x) or m.type != x.type:
        return None
    if above.after(m) != x or below.after(m) != Var(m):
        return None
    numbers, inside = _numbers(before), set(declared(body)) | assigned(body)
    sums = [
        _rescaled(s, m, x, (above.after(s), below.after(s)), carried, inside, numbers)
        for s in sorted(carried - {m}, key=_id)
    ]
    return None if None in sums else Online(m, x, tuple(s for s in sums if s is not None), before, left)


def _with_own(body: Body) -> tuple[Body, frozenset[Sym]]:
    """``body`` with variables of its own for those that it sets before it reads them, and those."""
    mine = set(declared(body))
    names: dict[Sym, Sym] = {}
    out: list[Stmt] = []
    seen: set[Sym] = set()
    for k, s in enumerate(body):
        once = isinstance(s, Assign) and s.sym not in mine | seen and s.sym not in assigned((*body[:k], *body[k + 1 :]))
        seen |= mentions(s)
        if isinstance(s, Assign) and once and s.sym not in used(s.value):
            names[s.sym] = fresh(s.sym.name, s.sym.type)
            out.append(Decl(s.sym, s.value, loc=s.loc, comments=s.comments))
        else:
            out.append(s)
    return (rename(tuple(out), names), frozenset(names)) if names else (body, frozenset())


def _numbers(before: Body) -> dict[Sym, Expr]:
    """Variables that are numbers, and stay so."""
    fixed = {s.sym: s.init for s in before if isinstance(s, Decl) and isinstance(s.init, Const)}
    return {s: e for s, e in fixed.items() if s not in assigned(before)}


def _id(s: Sym) -> int:
    return s.id


def _parted(body: Body, carried: set[Sym]) -> tuple[Body, Body]:
    """The statements that have nothing to do with what is carried, and the others."""
    tied, before, rest = set(carried), [], []
    for s in body:
        if mentions(s) & tied:
            tied |= set(declared((s,))) | assigned((s,))
            rest.append(s)
        else:
            before.append(s)
    late = {s.sym for s in rest if isinstance(s, Decl) and s.sym in assigned(tuple(before))}
    return ((), body) if late else (tuple(before), tuple(rest))


@dataclass
class _Way:
    """One of the two ways through an iteration: the value is ``above`` the maximum, or it is not."""

    carried: set[Sym]
    above: bool
    top: Sym | None = None
    value: Expr | None = None
    known: dict[Sym, Expr] = field(default_factory=dict)

    def after(self, s: Sym) -> Expr:
        return self.known.get(s, Var(s))

    def follow(self, body: Body) -> None:
        """The statements of ``body``, values as functions of those at the start of the iteration.

        Raises:
            _Unlike: at anything but assignments to scalars under conditions that compare the value and the maximum.
        """
        for s in body:
            if isinstance(s, If):
                cond = self._resolved(s.cond)
                if not isinstance(cond, Const):
                    raise _Unlike
                self.follow(s.then if cond.value else s.orelse)
            elif isinstance(s, Decl) and isinstance(s.sym.type, Scalar):
                self.known.pop(s.sym, None)
                if s.init is not None:
                    self.known[s.sym] = self._resolved(s.init)
            elif isinstance(s, Assign) and isinstance(s.sym.type, Scalar):
                self.known[s.sym] = self._resolved(s.value)
            else:
                raise _Unlike

    def _resolved(self, e: Expr) -> Expr:
        return map_expr(substitute_expr(e, self.known), self._decided)

    def _decided(self, e: Expr) -> Expr:
        if isinstance(e, Select):
            if used(e.cond) & self.carried:
                raise _Unlike
            return (e.a if e.cond.value else e.b) if isinstance(e.cond, Const) else e
        if isinstance(e, Call) and e.fn in ("max", "min") and used(e) & self.carried:
            a, b = e.args
            return a if self._larger(a, b) == (e.fn == "max") else b
        if isinstance(e, Binary) and e.op in COMPARISONS and scalar_of(e.a.type).is_float:
            if e.op in ("==", "!=") and e.a != e.b:
                raise _Unlike  # whether the two are alike is not known
            if e.a == e.b:
                return Const(e.op in ("<=", ">=", "=="), scalar_of(e.type))
            return Const(self._larger(e.a, e.b) == (e.op in (">", ">=")), scalar_of(e.type))
        if isinstance(e, Call) and e.type == BOOL and used(e) & self.carried:
            raise _Unlike  # what is done about infinities is not done by the sums
        if isinstance(e, Cast) and scalar_of(e.to).bits < 32 and used(e) & self.carried:
            raise _Unlike  # what is carried loses digits on the way
        return fold_node(e)

    def _larger(self, a: Expr, b: Expr) -> bool:
        """Whether ``a`` is larger than ``b``, one of which is the maximum and the other the value (or they are one)."""
        if a == b:
            return True
        sides = [(a, b), (b, a)]
        for m, x in sides if self.top is None else ():
            if isinstance(m, Var) and m.sym in self.carried and not used(x) & self.carried:
                self.top, self.value = m.sym, x
        if self.top is None or {Var(self.top), self.value} != {a, b}:
            raise _Unlike
        return (a == self.value) == self.above


def _rescaled(
    s: Sym,
    m: Sym,
    x: Expr,
    after: tuple[Expr, Expr],
    carried: set[Sym],
    inside: set[Sym],
    numbers: Mapping[Sym, Expr],
) -> Rescaled | None:
    """How the sum ``s`` goes with the maximum ``m``, where it is the first of ``after`` once a larger value came and
    the second after another one; None if it does not. What is ``inside`` may differ between iterations."""
    from ktc.ir.interp.domains.realmath import plain_name  # numpy: not for who only asks what passes there are
    from ktc.passes.shared.points import same_everywhere

    above, below = after
    if (used(above) | used(below)) & carried - {s, m}:
        return None
    t = scalar_of(s.type)
    above, below = (substitute_expr(e, numbers) for e in (above, below))
    parts = list(dict.fromkeys((*walk_expr(above), *walk_expr(below))))
    free = [e for e in parts if isinstance(e.type, Scalar) and e.type.is_float and not used(e) & carried]
    weights = sorted(free, key=lambda e: sum(1 for _ in walk_expr(e)))  # v before exp(x - x) * v
    powers = [e for e in parts if isinstance(e, Call) and plain_name(e.fn) in POWERS]
    scales = [
        None,
        *(e for e in dict.fromkeys(f for p in powers for f in walk_expr(p)) if e in free and _still(e, inside)),
    ]
    names = sorted({p.fn for p in powers}, key=lambda fn: (fn != plain_name(fn), fn))  # the accurate ones first
    for fn, scale, weight in product(names, scales, [Const(1.0, t), *weights]):
        found = Rescaled(s, weight, Power(fn, scale))
        below_old = cast(found.power(Var(m), x), t)
        wanted = (
            Binary("+", Binary("*", Var(s), below_old), cast(weight, t)),
            Binary("+", Var(s), found.term(x, Var(m))),
        )
        if same_everywhere([(above, wanted[0]), (below, wanted[1])]):
            return found
    return None


def _still(e: Expr, inside: set[Sym]) -> bool:
    """Whether ``e`` is the same number in every iteration: made of literals and of floats that nothing there sets."""
    allowed = all(isinstance(x, Const | Var | Binary | Unary | Cast) for x in walk_expr(e))
    return allowed and not any(s in inside or not scalar_of(s.type).is_float for s in used(e))


__all__ = ["Online", "Power", "Rescaled", "online"]
