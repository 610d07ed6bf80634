"""The sweep of an online softmax: what is kept, and what one step over a few positions does to it.

    var m = -inf; var l = 0; array o[d] = 0             what is kept: the maximum so far, and the sums below it
    array w[n], e[n]
    reduce(max) tile over u in 0..n                     a step: values of n positions, and the largest of them
      w[u] = f(j + u); yield w[u]
    let top = max(m, tile)
    let fix = exp(m - top)                              one correction of what is kept for all n of them
    par u in 0..n: e[u] = exp(w[u] - top)
    reduce(+) part over u in 0..n: e[u]
    l = l * fix + part
    par c in 0..d
      reduce(+) part over u in 0..n: e[u] * v[j + u, c]
      o[c] = o[c] * fix + part
    m = top

While nothing but -inf was seen, zero stands in for the maximum, so that no inf - inf arises that the source would not
have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ktc.ir.analysis.accumulators import identity
from ktc.ir.fold import add, cast, i32, is_const
from ktc.ir.nodes import (
    Acc,
    Alloc,
    Assign,
    Binary,
    Body,
    Call,
    Const,
    Decl,
    Expr,
    Level,
    Load,
    Par,
    Reduce,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.types import I32, Array, Scalar, scalar_of
from ktc.ir.walk import map_expr, refresh, substitute, substitute_expr
from ktc.passes.shared.running.rescaled import Power

from .weighted_sums import Softmax, WeightedSum


@dataclass
class Sweep:
    """What the sweep of ``softmax`` keeps: ``high`` is the maximum so far, each sum has its ``run``."""

    softmax: Softmax
    power: Power
    high: Sym = field(init=False)
    runs: dict[Sym, Sym] = field(init=False)

    def __post_init__(self) -> None:
        top = self.softmax.top.accs[0].sym
        self.high = fresh(f"{top.name}_run", top.type)
        self.runs = {x.run: _kept(x) for x in self.softmax.sums}

    @property
    def type(self) -> Scalar:
        return scalar_of(self.high.type)

    def start(self) -> Body:
        """What is kept before the first position."""
        out: list[Stmt] = [Decl(self.high, identity("max", self.type))]
        for x in self.softmax.sums:
            run, zero = self.runs[x.run], identity("+", x.type)
            out += [Decl(run, zero)] if x.inner is None else [Alloc(run), _each(x.inner, run, _always(zero))]
        return tuple(out)

    def step(self, count: Expr, first: Expr, seen: Expr | None = None) -> Body:
        """What ``count`` positions from ``first`` on do to what is kept; only those count for which ``seen`` holds of
        the position."""
        s, t = self.softmax, self.type
        self.values, self.powers = (fresh(n, Array(t, (count,))) for n in ("w", "e"))
        here, top = fresh("tile", t), fresh("top", t)
        base, fix = fresh("base", t), fresh("fix", t)
        nothing = identity("max", t)
        u = fresh("u", I32)
        pos = self._at(first, u)
        env: dict[Sym, Expr] = {s.top.var: pos}
        found: Expr = s.top.accs[0].value
        sees = None if seen is None else substitute_expr(seen, env)
        body = (
            *substitute(s.top.body, env),
            Store(self.values, (Var(u),), _if(sees, substitute_expr(found, env), nothing)),
        )
        powers = fresh("u", I32)
        below = self.power(Load(self.values, (Var(powers),)), Var(base))
        if seen is not None:
            below = Select(substitute_expr(seen, {s.top.var: self._at(first, powers)}), below, Const(0.0, t))
        largest = Acc(here, "max", nothing, Load(self.values, (Var(u),)))
        out: list[Stmt] = [
            Alloc(self.values),
            Alloc(self.powers),
            Reduce((largest,), u, i32(0), count, _unrolled(count), body),
            Decl(top, Call("max", (Var(self.high), Var(here)), t), const=True),
            Decl(base, Select(Binary("==", Var(top), nothing), Const(0.0, t), Var(top)), const=True),
            Decl(fix, self.power(Var(self.high), Var(base)), const=True),
            Par(powers, i32(0), count, _unrolled(count), (Store(self.powers, (Var(powers),), below),)),
        ]  # fmt: skip
        out += [y for x in s.sums for y in self._summed(x, count, first, fix, seen)]
        out.append(Assign(self.high, Var(top)))
        return refresh(tuple(out))

    def _at(self, first: Expr, u: Sym) -> Expr:
        return add(first, cast(Var(u), scalar_of(self.softmax.top.var.type)))

    def _summed(self, x: WeightedSum, count: Expr, first: Expr, fix: Sym, seen: Expr | None) -> Body:
        """What a step adds to a sum."""
        u, part = fresh("u", I32), fresh(f"{x.target.name}_part", x.type)
        env: dict[Sym, Expr] = {self.softmax.top.var: self._at(first, u)}
        power = self.power(Var(self.softmax.value), Var(self.softmax.base))

        def known(e: Expr) -> Expr:
            if e == power:
                return Load(self.powers, (Var(u),))
            return Load(self.values, (Var(u),)) if e == Var(self.softmax.value) else e

        zero = identity("+", x.type)
        term = substitute_expr(_replaced(x.part, power, known), env)
        sees = None if seen is None or x.inner is None else substitute_expr(seen, env)
        term = cast(_if(sees, term, zero), x.type)
        total = Reduce((Acc(part, "+", zero, term),), u, i32(0), count, _unrolled(count), ())
        run = self.runs[x.run]

        def rescaled(old: Expr) -> Expr:
            return Binary("+", Binary("*", old, cast(Var(fix), x.type)), Var(part))

        if x.inner is None:
            return (total, Assign(run, rescaled(Var(run))))
        return (_each(x.inner, run, rescaled, (total,)),)


def _always(e: Expr) -> Callable[[Expr], Expr]:
    return lambda old: e


def _kept(x: WeightedSum) -> Sym:
    return fresh(x.run.name, x.type if x.inner is None else Array(x.type, (x.inner.hi,)))


def _each(inner: Par, run: Sym, value: Callable[[Expr], Expr], before: Sequence[Stmt] = ()) -> Par:
    """A loop like ``inner`` that sets its element of ``run`` to ``value`` of the old one."""
    (out,) = refresh((
        dataclasses.replace(
            inner,
            body=(*before, Store(run, (Var(inner.var),), value(Load(run, (Var(inner.var),))))),
            comments=(),
        ),
    ))  # fmt: skip
    assert isinstance(out, Par)
    return out


def _replaced(e: Expr, power: Expr, known: Callable[[Expr], Expr]) -> Expr:
    """``e`` with ``power``, whole, before what it is made of."""
    mark = fresh("power", power.type)
    marked = map_expr(e, lambda x: Var(mark) if x == power else x)
    return map_expr(marked, lambda x: known(power) if x == Var(mark) else known(x))


def _unrolled(count: Expr) -> tuple[Level, ...]:
    return (Level("seq"),) if is_const(count, 1) else (Level("unroll", count),)


def _if(cond: Expr | None, e: Expr, other: Expr) -> Expr:
    return e if cond is None else Select(cond, e, other)


__all__ = ["Sweep"]
