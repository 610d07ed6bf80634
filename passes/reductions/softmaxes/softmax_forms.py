"""The two forms in which a softmax is found, and which statements its sums stand in.

reduce(max) m over j ..                             for j
for j: l += exp(f(j) - m)                             top = max(m, f(j)); l = l * exp(m - top) + exp(f(j) - top)
                                                      m = top
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from ktc.ir.analysis.accumulators import identity
from ktc.ir.analysis.dependence import noalias
from ktc.ir.analysis.order import places
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Acc,
    Assign,
    Barrier,
    Body,
    Decl,
    Expr,
    For,
    Level,
    Load,
    Par,
    Reduce,
    Return,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.types import Ptr, Scalar, scalar_of
from ktc.ir.walk import all_exprs, assigned, declared, loads_in, map_expr, used, used_in, walk
from ktc.passes.core.refusals import Refusal
from ktc.passes.reductions.position_loops import fixed_before, over_positions, overlapping
from ktc.passes.shared.running.rescaled import online
from ktc.passes.shared.serial_sums import counted_to

from .weighted_sums import Softmax, WeightedSum


@dataclass
class Form:
    """A softmax in the list ``before``, ``loop``, ``behind``. ``sums`` are those that a statement finds, by its ``id``;
    ``kept`` is the variable of a maximum that ``loop`` itself keeps, ``copies`` are names for others behind it."""

    kernel: Kernel
    before: Body
    loop: For | Reduce
    behind: Body
    softmax: Softmax = field(init=False)
    sums: dict[int, list[WeightedSum]] = field(default_factory=dict)
    names: dict[Sym, Expr] = field(init=False)
    kept: Sym | None = None
    copies: dict[Sym, Expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        block = (*self.before, self.loop, *self.behind)
        self.apart = noalias(self.kernel)
        self.names, _ = fixed_before(block, self.loop, assigned(self.kernel.body), self.apart)  # type: ignore[arg-type]
        sweeps = self._found_behind() if isinstance(self.loop, Reduce) else self._kept_by(self.loop)
        if self.softmax.power is None or not self.softmax.sums:
            why = f"no exponential of the distance to the maximum over '{self.loop.var.name}' is summed up"
            raise Refusal("E-SOFTMAX-NONE", why, places(self.loop))
        self._check(block, sweeps)

    # -------------------------------------------------------------------------------------- a maximum, then its sums

    def _found_behind(self) -> list[Stmt]:
        """Take up the sums of all loops over the positions behind the maximum."""
        assert isinstance(self.loop, Reduce)
        self.softmax = Softmax(self.loop)
        sweeps = list(over_positions(self.behind, self.loop, self.names))
        late: set[Sym] = set()
        changed = assigned(self.behind)
        for s in self.behind:
            mine = [x for x in sweeps if any(x is y for y in walk((s,)))]
            for x in mine:
                known = len(self.softmax.sums)
                self._take(s, x, late)
                self.sums[id(x)] = self.softmax.sums[known:]
            if mine:
                late |= {w.target for w in self.softmax.sums}
            elif isinstance(s, Decl) and isinstance(s.init, Var) and not {s.sym, s.init.sym} & changed:
                self.copies[s.sym] = self.copies.get(s.init.sym, s.init)
            elif isinstance(s, Decl) and s.init is not None and used(s.init) & (late | {self.loop.accs[0].sym}):
                late.add(s.sym)
        return list(sweeps)

    def _take(self, s: Stmt, sweep: For | Par | Reduce, late: set[Sym]) -> None:
        if s is sweep:
            self.softmax.take(sweep, self.copies, late)
            return
        if not isinstance(s, Par) or not any(x is sweep for x in s.body) or used(s.lo):
            why = f"the loop over '{sweep.var.name}' stands in other loops than one parallel one from 0"
            raise Refusal("E-SOFTMAX-USE", why, places(s))
        named = {x.sym: x.init for x in s.body if isinstance(x, Decl) and x.init is not None}
        fixed = {n: e for n, e in named.items() if n not in assigned(s.body)}
        self.softmax.take(sweep, {**self.copies, **fixed}, late, s)

    # ------------------------------------------------------------------------------------------ a loop that keeps both

    def _kept_by(self, loop: For) -> list[Stmt]:
        """Take up the sums that ``loop`` keeps below its own maximum."""
        end, elements = counted_to(loop), _Elements(loop)
        found = online(elements.body)
        if end is None or found is None or found.left & used_in(self.behind):
            why = f"'{loop.var.name}' keeps no maximum with sums of exponentials below it alone"
            raise Refusal("E-SOFTMAX-NONE", why, places(loop))
        t = scalar_of(found.top.type)
        acc = Acc(fresh(found.top.name, t), "max", identity("max", t), found.value)
        top = Reduce((acc,), loop.var, loop.init, end, (Level("seq"),), found.before, loc=loop.loc)
        self.kept, self.softmax = found.top, Softmax(top)
        known = self.softmax.numbering.after(found.before, {}) or {}
        for r in found.sums:
            inner, target, index = elements.of(r.total)
            if self.softmax.power not in (None, r.power):
                raise Refusal("E-SOFTMAX-USE", f"'{target.name}' is kept below another exponential", places(loop))
            self.softmax.power = r.power
            self.softmax.add_known(r, target, known, inner, index)
        self.sums[id(loop)] = self.softmax.sums
        return [loop]

    # ----------------------------------------------------------------------------------------------------- what may be

    def _check(self, block: Body, sweeps: Sequence[Stmt]) -> None:
        """Refuse if the sums cannot be found where the maximum is."""
        read = {x.buffer for s in (self.loop, *sweeps) for e in all_exprs((s,)) for x in loads_in(e)}
        targets = {w.target for w in self.softmax.sums}
        written = {b for b in assigned(block) if isinstance(b.type, Ptr)}
        odd = overlapping(read - targets, written, self.apart)
        inputs = set[Sym]().union(used_in((self.softmax.top,)), *(used(w.part) for w in self.softmax.sums))
        counters = {x.var for x in walk(self.behind) if isinstance(x, Par)}
        odd |= inputs & ({*declared(self.behind), *assigned(self.behind)} - counters)
        if odd:
            name = min(x.name for x in odd)
            raise Refusal("E-SOFTMAX-USE", f"'{name}' may change between the maximum and the sums", places(self.loop))
        if any(isinstance(s, Barrier | Return) for s in walk(block)):
            why = "threads wait for each other, or leave, beside the softmax"
            raise Refusal("E-SOFTMAX-USE", why, places(self.loop))


class _Elements:
    """The body of a serial loop with a scalar for the element that each iteration of a parallel loop in it updates."""

    def __init__(self, loop: For) -> None:
        self._of: dict[Sym, tuple[Par, Sym, tuple[Expr, ...]]] = {}
        self.body: Body = tuple(x for s in loop.body for x in self._scalar(s, loop.var))

    def of(self, total: Sym) -> tuple[Par | None, Sym, tuple[Expr, ...]]:
        return self._of.get(total, (None, total, ()))

    def _scalar(self, s: Stmt, position: Sym) -> Body:
        last = s.body[-1] if isinstance(s, Par) and s.body else None
        if not isinstance(s, Par) or not isinstance(last, Store) or used(s.lo) or position in used(s.hi):
            return (s,)
        names = [x for x in s.body[:-1] if isinstance(x, Decl)]
        moving = {position, *(x.sym for x in names)}
        if len(names) != len(s.body) - 1 or set[Sym]().union(*map(used, last.index)) & moving:
            return (s,)
        if not isinstance(last.value.type, Scalar):
            return (s,)
        scalar, old = fresh(last.buffer.name, last.value.type), Load(last.buffer, last.index)
        self._of[scalar] = (s, last.buffer, last.index)

        def spelled(e: Expr) -> Expr:
            return map_expr(e, lambda x: Var(scalar) if x == old else x)

        front = (dataclasses.replace(x, init=spelled(x.init)) for x in names if x.init is not None)
        return (*front, Assign(scalar, spelled(last.value)))


__all__ = ["Form"]
