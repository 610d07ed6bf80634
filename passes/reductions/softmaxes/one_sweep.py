"""A kernel with a softmax in one sweep: the loops that it consists of, and what they leave for its sums."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ktc.ir.fold import add, cast, i32, is_const, mul, simplify, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Binary,
    Body,
    Call,
    Const,
    Decl,
    Expr,
    For,
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
from ktc.ir.types import scalar_of
from ktc.ir.walk import with_list_around
from ktc.passes.reductions.scaled_values import whole

from .row_operands import with_row_operands
from .seen_positions import seen_positions
from .softmax_forms import Form
from .softmax_steps import Sweep
from .weighted_sums import WeightedSum


def in_one_sweep(kernel: Kernel, loop: For | Reduce, keys: Expr, tile: Expr) -> Kernel:
    """``kernel`` with the maximum that ``loop`` finds or keeps, and the sums below it, in one sweep over tiles.

    Raises:
        Refusal: E-SOFTMAX-NONE, E-SOFTMAX-USE, E-SOFTMAX-RANGE.
    """

    def on_list(before: Body, behind: Body) -> Body:
        return _Rewrite(Form(kernel, before, loop, behind), keys, tile).body()

    body = with_list_around(kernel.body, loop, on_list)
    assert body is not None
    return kernel.with_(body=body, flags=kernel.flags | {"reassociates"})


class _Rewrite:
    """One softmax on its way: ``sweep`` has what is kept, ``rest`` brings that to the maximum in the end, and
    ``earlier`` what there was of the sums before."""

    def __init__(self, form: Form, keys: Expr, tile: Expr) -> None:
        self.form, self.keys, self.tile = form, keys, tile
        self.top = form.softmax.top
        self.seen = seen_positions(form.kernel, form.loop, self.top, form.names)
        self.operands, form.softmax.top = with_row_operands(self.top)
        assert form.softmax.power is not None
        self.sweep = Sweep(form.softmax, form.softmax.power)
        self.rest, self.earlier = (fresh(n, self.sweep.high.type) for n in ("rest", "earlier"))

    def body(self) -> Body:
        form = self.form
        behind = (form.loop, *form.behind) if form.kept is not None else form.behind
        after = (x for s in behind for x in self._after(s))
        return (*form.before, *self.operands, *self.sweep.start(), *self._loops(), *self._maximum(), *after)

    def _loops(self) -> Body:
        """The tiles that all threads of a block see, and single positions around them."""
        seen, name = self.seen, self.top.var.name
        t = scalar_of(self.top.var.type)
        tile, keys = cast(self.tile, t), cast(self.keys, t)
        j_tile, j_step = fresh(f"{name}_tile", t), fresh(f"{name}_step", t)
        trips: Expr = Binary("/", simplify(sub(seen.all_hi, seen.all_lo)), tile)
        if seen.mine is not None:
            trips = Call("max", (trips, Const(0, t)), t)
        trips = simplify(trips)
        first = add(add(seen.all_lo, mul(Var(j_tile), tile)), mul(Var(j_step), keys))
        steps = _count(j_step, Const(0, t), simplify(Binary("/", tile, keys)), self.sweep.step(self.keys, first))
        tiles = _count(j_tile, Const(0, t), trips, (steps,))
        last = simplify(add(seen.all_lo, mul(trips, tile)))
        front: Body = ()
        if seen.all_lo != seen.any_lo:
            end = Call("min", (seen.all_lo, seen.any_hi), t)
            front = (self._single(f"{name}_front", seen.any_lo, end),)
        return (*front, tiles, self._single(f"{name}_rest", last, seen.any_hi))

    def _single(self, name: str, lo: Expr, hi: Expr) -> For:
        j = fresh(name, self.top.var.type)
        return _count(j, lo, hi, self.sweep.step(i32(1), Var(j), self.seen.mine))

    def _maximum(self) -> Body:
        """The maximum in the end, and what the sums are to be multiplied by: one where there are no positions, whatever
        the maximum began with."""
        form, (high,) = self.form, self.top.accs
        t = scalar_of(high.sym.type)
        some = simplify(Binary("<", self.top.lo, self.top.hi))

        def below(largest: Expr, sym: Sym, result: Sym) -> Decl:
            power = self.sweep.power(largest, Var(result))
            return Decl(sym, Select(some, power, Const(1.0, t)), const=True)

        if form.kept is None:
            whole_top = Decl(high.sym, Call("max", (high.init, Var(self.sweep.high)), t), const=True)
            return (whole_top, below(Var(self.sweep.high), self.rest, high.sym))
        began = fresh("began", t)
        return (
            Decl(began, Var(form.kept), const=True),
            Assign(form.kept, Call("max", (Var(form.kept), Var(self.sweep.high)), t)),
            below(Var(self.sweep.high), self.rest, form.kept),
            below(Var(began), self.earlier, form.kept),
        )

    def _after(self, s: Stmt) -> Body:
        """What is left of a statement: sums take what the sweep found."""
        sums = self.form.sums
        if id(s) in sums:
            return self._results(sums[id(s)])
        if isinstance(s, Par):
            body = tuple(y for x in s.body for y in (self._results(sums[id(x)]) if id(x) in sums else (x,)))
            return (dataclasses.replace(s, body=body),)
        return (s,)

    def _results(self, sums: Sequence[WeightedSum]) -> Body:
        return tuple(self._result(w) for w in sums)

    def _result(self, w: WeightedSum) -> Stmt:
        run = self.sweep.runs[w.run]
        found: Expr = Var(run) if w.inner is None else Load(run, (Var(w.inner.var),))
        total = whole(Binary("*", found, cast(Var(self.rest), w.type)), w.factors)
        if w.start is not None:
            return Decl(w.target, total if is_const(w.start, 0) else Binary("+", w.start, total))
        if w.inner is None:
            return Assign(w.target, Binary("+", self._earlier(Var(w.target), w), total))
        old = self._earlier(Load(w.target, w.index), w)
        return dataclasses.replace(w.inner, body=(Store(w.target, w.index, Binary("+", old, total)),), comments=())

    def _earlier(self, old: Expr, w: WeightedSum) -> Expr:
        return old if self.form.kept is None else Binary("*", old, cast(Var(self.earlier), w.type))


def _count(var: Sym, lo: Expr, hi: Expr, body: Body) -> For:
    t = scalar_of(var.type)
    return For(var, cast(lo, t), Binary("<", Var(var), cast(hi, t)), add(Var(var), Const(1, t)), body)


__all__ = ["in_one_sweep"]
