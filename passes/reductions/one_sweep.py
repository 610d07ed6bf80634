"""A kernel with a softmax in one sweep: which statements it takes the place of, and the loops that it consists of."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ktc.ir.analysis.dependence import noalias
from ktc.ir.analysis.order import places
from ktc.ir.fold import add, cast, i32, mul, simplify, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Barrier,
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
    Return,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.types import Ptr, scalar_of
from ktc.ir.walk import all_exprs, assigned, declared, loads_in, used, walk, with_list_around
from ktc.passes.core.refusals import Refusal

from .position_loops import fixed_before, over_positions, overlapping
from .row_operands import with_row_operands
from .scaled_values import whole
from .seen_positions import Seen, seen_positions
from .softmax_steps import Sweep
from .weighted_sums import Softmax, WeightedSum


def in_one_sweep(kernel: Kernel, loop: For | Reduce, keys: Expr, tile: Expr) -> Kernel:
    """``kernel`` with the maximum that ``loop`` finds, and the sums below it, in one sweep over tiles.

    Raises:
        Refusal: E-SOFTMAX-NONE, E-SOFTMAX-USE, E-SOFTMAX-RANGE.
    """
    if not isinstance(loop, Reduce):
        raise Refusal("E-SOFTMAX-NONE", f"'{loop.var.name}' keeps no maximum", places(loop))

    def on_list(before: Body, behind: Body) -> Body:
        return _Rewrite(kernel, (*before, loop, *behind), loop, keys, tile).body()

    body = with_list_around(kernel.body, loop, on_list)
    assert body is not None
    return kernel.with_(body=body, flags=kernel.flags | {"reassociates"})


class _Rewrite:
    """The list ``block`` with the maximum ``top`` in it."""

    def __init__(self, kernel: Kernel, block: Body, top: Reduce, keys: Expr, tile: Expr) -> None:
        self.kernel, self.block, self.top, self.keys, self.tile = kernel, block, top, keys, tile
        self.apart = noalias(kernel)
        self.names, _ = fixed_before(block, top, assigned(kernel.body), self.apart)
        at = next(k for k, s in enumerate(block) if s is top)
        self.before, self.behind = block[:at], block[at + 1 :]
        self.softmax = Softmax(top)
        self.sums: dict[int, list[WeightedSum]] = {}
        self._collect()

    def _collect(self) -> None:
        """Take up the sums of all loops over the positions behind the maximum."""
        sweeps = list(over_positions(self.behind, self.top, self.names))
        late: set[Sym] = set()
        for s in self.behind:
            mine = [x for x in sweeps if any(x is y for y in walk((s,)))]
            for x in mine:
                known = len(self.softmax.sums)
                self._take(s, x, late)
                self.sums[id(x)] = self.softmax.sums[known:]
            if mine:
                late |= {w.target for w in self.softmax.sums}
            elif isinstance(s, Decl) and s.init is not None and used(s.init) & (late | {self.top.accs[0].sym}):
                late.add(s.sym)
        if self.softmax.power is None or not self.softmax.sums:
            why = f"no exponential of the distance to the maximum over '{self.top.var.name}' is summed up"
            raise Refusal("E-SOFTMAX-NONE", why, places(self.top))
        self._check(sweeps)

    def _take(self, s: Stmt, sweep: For | Par | Reduce, late: set[Sym]) -> None:
        if s is sweep:
            self.softmax.take(sweep, {}, late)
            return
        if not isinstance(s, Par) or not any(x is sweep for x in s.body) or used(s.lo):
            why = f"the loop over '{sweep.var.name}' stands in other loops than one parallel one from 0"
            raise Refusal("E-SOFTMAX-USE", why, places(s))
        named = {x.sym: x.init for x in s.body if isinstance(x, Decl) and x.init is not None}
        self.softmax.take(sweep, {n: e for n, e in named.items() if n not in assigned(s.body)}, late, s)

    def _check(self, sweeps: Sequence[Stmt]) -> None:
        """Refuse if the sums cannot be found where the maximum is."""
        read = {x.buffer for s in (self.top, *sweeps) for e in all_exprs((s,)) for x in loads_in(e)}
        targets = {w.target for w in self.softmax.sums}
        written = {b for b in assigned(self.block) if isinstance(b.type, Ptr)}
        odd = overlapping(read - targets, written, self.apart)
        inputs = set[Sym]().union(*(used(w.part) for w in self.softmax.sums))
        between = {*declared(self.behind), *assigned(self.behind)} - {
            x.var for x in walk(self.behind) if isinstance(x, Par)
        }
        odd |= inputs & between
        if odd:
            name = min(x.name for x in odd)
            raise Refusal("E-SOFTMAX-USE", f"'{name}' may change between the maximum and the sums", places(self.top))
        if any(isinstance(s, Barrier | Return) for s in walk(self.block)):
            raise Refusal(
                "E-SOFTMAX-USE", "threads wait for each other, or leave, beside the softmax", places(self.top)
            )

    # -------------------------------------------------------------------------------------------------- the rewrite

    def body(self) -> Body:
        softmax, power = self.softmax, self.softmax.power
        assert power is not None
        kept, softmax.top = with_row_operands(self.top)
        self.sweep = Sweep(softmax, power)
        seen = seen_positions(self.kernel, self.top, self.names)
        high = self.top.accs[0]
        final = Decl(high.sym, Call("max", (high.init, Var(self.sweep.high)), scalar_of(high.sym.type)), const=True)
        self.rest = fresh("rest", high.sym.type)
        some = Binary("<", self.top.lo, self.top.hi)
        t = scalar_of(high.sym.type)
        rest = Decl(self.rest, Select(some, power(Var(self.sweep.high), Var(high.sym)), Const(1.0, t)), const=True)
        after = tuple(self._after(s) for s in self.behind)
        return (
            *self.before,
            *kept,
            *self.sweep.start(),
            *self._loops(seen),
            final,
            rest,
            *(x for y in after for x in y),
        )

    def _loops(self, seen: Seen) -> Body:
        """The tiles that all threads of a block see, and single positions around them."""
        t = scalar_of(self.top.var.type)
        tile, keys = cast(self.tile, t), cast(self.keys, t)
        j_tile, j_step = fresh(f"{self.top.var.name}_tile", t), fresh(f"{self.top.var.name}_step", t)
        trips = Binary("/", simplify(sub(seen.all_hi, seen.all_lo)), tile)
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
            front = (self._single(f"{self.top.var.name}_front", seen.any_lo, end, seen.mine),)
        return (*front, tiles, self._single(f"{self.top.var.name}_rest", last, seen.any_hi, seen.mine))

    def _single(self, name: str, lo: Expr, hi: Expr, mine: Expr | None) -> For:
        j = fresh(name, self.top.var.type)
        return _count(j, lo, hi, self.sweep.step(i32(1), Var(j), mine))

    def _after(self, s: Stmt) -> Body:
        """What is left of a statement behind the maximum: sums take what the sweep found."""
        if id(s) in self.sums:
            return self._results(self.sums[id(s)])
        if isinstance(s, Par):
            body = tuple(y for x in s.body for y in (self._results(self.sums[id(x)]) if id(x) in self.sums else (x,)))
            return (dataclasses.replace(s, body=body),)
        return (s,)

    def _results(self, sums: Sequence[WeightedSum]) -> Body:
        out: list[Stmt] = []
        for w in sums:
            found = Binary("*", self.sweep.left(w, {}), cast(Var(self.rest), w.type))
            total = whole(found, w.factors)
            if w.start is not None:
                out.append(Decl(w.target, simplify(Binary("+", w.start, total)) if not _zero(w.start) else total))
            elif w.inner is None:
                out.append(Assign(w.target, Binary("+", Var(w.target), total)))
            else:
                store = Store(w.target, w.index, Binary("+", Load(w.target, w.index), total))
                out.append(dataclasses.replace(w.inner, body=(store,)))
        return tuple(out)


def _zero(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 0


def _count(var: Sym, lo: Expr, hi: Expr, body: Body) -> For:
    t = scalar_of(var.type)
    return For(var, cast(lo, t), Binary("<", Var(var), cast(hi, t)), add(Var(var), Const(1, t)), body)


__all__ = ["in_one_sweep"]
