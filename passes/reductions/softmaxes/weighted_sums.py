"""A maximum over positions, and the sums of exponentials below it, as one description of both.

    reduce(max) m over j: f(j)          and then        reduce(+) l over j: exp(f(j) - m)
                                                        for j
                                                          l += exp(f(j) - m)
                                                          par c: o[c] += exp(f(j) - m) * v[j, c]
                                                        par c
                                                          reduce(+) a over j: exp(f(j) - m) * v[j, c]; o[c] = a

    for j                               (an online softmax: :mod:`ktc.passes.shared.running.rescaled`)
      top = max(m, f(j)); l = l * exp(m - top) + exp(f(j) - top); par c: o[c] = o[c] * exp(m - top) + ..; m = top

The value ``f(j)`` may take a reduction of its own (a dot product), which each loop computes again: reductions that are
alike but for their names are one value here (:class:`Numbering`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ktc.ir.analysis.order import places
from ktc.ir.fold import is_const, simplify
from ktc.ir.nodes import (
    Assign,
    Binary,
    Decl,
    Expr,
    For,
    Load,
    Par,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.types import I32, Scalar, scalar_of
from ktc.ir.walk import assigned, declared, map_expr, substitute_expr, used
from ktc.passes.core.refusals import Refusal
from ktc.passes.reductions.scaled_values import Factors, Unscaled, Values
from ktc.passes.shared.running.rescaled import Power, Rescaled

Env = dict[Sym, Expr]


@dataclass(frozen=True)
class WeightedSum:
    """What a loop adds to ``target``, or to ``target[index]`` for each iteration of the loop ``inner``: the sum over
    the positions of ``part``, times the late ``factors`` once that is known. ``start``: what a reduction begins with;
    a loop adds to what there is."""

    target: Sym
    part: Expr
    factors: Factors = ()
    inner: Par | None = None
    index: tuple[Expr, ...] = ()
    start: Expr | None = None
    run: Sym = field(default_factory=lambda: fresh("run", I32))

    @property
    def type(self) -> Scalar:
        return scalar_of(self.target.type)


class Numbering:
    """Values of loops' bodies by what they are: a reduction that was seen before is the one that was seen."""

    def __init__(self) -> None:
        self.seen: dict[object, Sym] = {}
        self._counter = fresh("k", I32)

    def after(self, body: Sequence[Stmt], env: Mapping[Sym, Expr]) -> Env | None:
        """What the variables of ``body`` hold, as expressions of what ``env`` does not name; None where it does more
        than to name values."""
        known = dict(env)
        moving = assigned(tuple(body)) - {a.sym for s in body if isinstance(s, Reduce) for a in s.accs}
        for s in body:
            if isinstance(s, Decl) and s.init is not None and s.sym not in moving:
                known[s.sym] = substitute_expr(s.init, known)
            elif isinstance(s, Reduce) and self._number(s, known):
                continue
            else:
                return None
        return known

    def _number(self, s: Reduce, known: Env) -> bool:
        inner = self.after(s.body, {**known, s.var: Var(self._counter)})
        if inner is None:
            return False
        lo, hi = (simplify(substitute_expr(e, known)) for e in (s.lo, s.hi))
        for a in s.accs:
            start, value = (simplify(substitute_expr(e, inner)) for e in (a.init, a.value))
            first = self.seen.setdefault((a.op, a.sym.type, start, lo, hi, value), a.sym)
            known[a.sym] = Var(first)
        return True


@dataclass
class Softmax:
    """A maximum and its weighted sums. ``top`` finds it; ``value`` and ``base`` stand for the value of a position and
    for the maximum in the parts of ``sums``."""

    top: Reduce
    power: Power | None = None
    sums: list[WeightedSum] = field(default_factory=list)

    def __post_init__(self) -> None:
        high = self.top.accs[0]
        self.value, self.base = fresh("value", high.sym.type), fresh("base", high.sym.type)
        self.numbering = Numbering()
        known = self.numbering.after(self.top.body, {})
        if known is None:
            why = f"an iteration of '{self.top.var.name}' does more than to compute a value"
            raise Refusal("E-SOFTMAX-USE", why, places(self.top))
        self.spelled = simplify(substitute_expr(high.value, known))

    def take(self, s: For | Par | Reduce, names: Mapping[Sym, Expr], late: set[Sym], inner: Par | None = None) -> None:
        """Take up what the loop ``s`` over the positions adds up, in the loop ``inner``.

        Raises:
            Refusal: E-SOFTMAX-USE, it does something else.
        """
        known = self.numbering.after((), {**names, s.var: Var(self.top.var)})
        assert known is not None
        if isinstance(s, Par):
            raise _other(s)
        values = [x for x in s.body if isinstance(x, Decl | Reduce)]
        known = self.numbering.after(values, known)
        if known is None:
            raise _other(s)
        if isinstance(s, Reduce):
            if len(values) != len(s.body) or any(a.op != "+" for a in s.accs):
                raise _other(s)
            for a in s.accs:
                self._add(s, a.sym, a.value, known, late, inner, start=a.init)
            return
        for x in s.body:
            if isinstance(x, Assign) and inner is None:
                self._add(s, x.sym, _added(x.value, Var(x.sym), s), known, late)
            elif isinstance(x, Par) and inner is None:
                self._take_elements(s, x, known, late)
            elif not isinstance(x, Decl | Reduce):
                raise _other(s)

    def _take_elements(self, s: For, p: Par, known: Env, late: set[Sym]) -> None:
        """The elements that the loop ``p`` updates at each position of ``s``."""
        inner = self.numbering.after(p.body[:-1], known)
        last = p.body[-1] if p.body else None
        if inner is None or not isinstance(last, Store) or (used(p.lo) | used(p.hi)) & set(declared(s.body)):
            raise _other(s)
        if not is_const(p.lo, 0) or s.var in used(p.hi):
            raise _other(s)
        element = Load(last.buffer, last.index)
        index = tuple(substitute_expr(i, inner) for i in last.index)
        if set[Sym]().union(*map(used, index)) & {self.top.var, *declared(s.body)} - {p.var}:
            raise _other(s)
        self._add(s, last.buffer, _added(last.value, element, s), inner, late, p, index)

    def _add(
        self, s: For | Reduce, target: Sym, e: Expr, known: Env, late: set[Sym], inner: Par | None = None,
        index: tuple[Expr, ...] = (), start: Expr | None = None,
    ) -> None:  # fmt: skip
        e = self._with_value(simplify(substitute_expr(e, known)))
        own = {self.top.var} | ({inner.var} if inner else set())
        if used(e) & ({target, *assigned((s,)), *declared(s.body), *declared(self.top.body)} - own):
            raise _other(s)
        high = self.top.accs[0].sym
        v = Values(high, self.base, set(), late=late | {high})
        v.is_value = lambda x: x == Var(self.value)
        v.power = self.power
        v.moving = {self.top.var, self.value, *([inner.var] if inner else [])}
        v.fixed = used(e) - v.late - v.moving
        try:
            found = v.split(e)
        except Unscaled:
            why = f"'{target.name}' is no sum of products of exponentials exp(x - maximum)"
            raise Refusal("E-SOFTMAX-USE", why, places(s)) from None
        self.power = v.power
        run = fresh(f"{target.name}_run", scalar_of(target.type))
        self.sums.append(WeightedSum(target, found.part, found.factors, inner, index, start, run))

    def add_known(
        self, r: Rescaled, target: Sym, known: Mapping[Sym, Expr], inner: Par | None, index: tuple[Expr, ...]
    ) -> None:
        """Take up a sum that is kept below the maximum."""
        part = substitute_expr(r.term(Var(self.value), Var(self.base)), known)
        if used(part) & {target, *declared(self.top.body)}:
            raise Refusal("E-SOFTMAX-USE", f"what '{target.name}' sums up is computed for each position", places(inner))
        run = fresh(f"{target.name}_run", scalar_of(target.type))
        self.sums.append(WeightedSum(target, part, (), inner, index, None, run))

    def _with_value(self, e: Expr) -> Expr:
        """``e`` with the value of the position by its name."""
        named = map_expr(e, lambda x: Var(self.value) if x == self.spelled else x)
        return Var(self.value) if e == self.spelled else named


def _added(e: Expr, old: Expr, s: For) -> Expr:
    """What ``e`` adds to ``old``."""
    if isinstance(e, Binary) and e.op == "+" and e.a == old:
        return e.b
    if isinstance(e, Binary) and e.op == "+" and e.b == old:
        return e.a
    raise _other(s)


def _other(s: For | Par | Reduce) -> Refusal:
    return Refusal("E-SOFTMAX-USE", f"the loop over '{s.var.name}' does more than to add up", places(s))


__all__ = ["Numbering", "Softmax", "WeightedSum"]
