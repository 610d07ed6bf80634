"""A block's softmax as what each part of its positions does, and what follows once all parts are done."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ktc.ir.analysis.accumulators import identity
from ktc.ir.analysis.defs import expand
from ktc.ir.analysis.dependence import noalias
from ktc.ir.analysis.effects import is_global_effect
from ktc.ir.analysis.order import places
from ktc.ir.fold import add, cast, cdiv, fold_node, i32, is_const, mul, simplify, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Acc,
    Alloc,
    Assign,
    Barrier,
    Binary,
    Body,
    Call,
    Const,
    Decl,
    Expr,
    For,
    If,
    Level,
    Load,
    Par,
    Reduce,
    Return,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    While,
    fresh,
)  # fmt: skip
from ktc.ir.types import I32, Array, Ptr, Scalar, scalar_of
from ktc.ir.walk import assigned, declared, refresh, substitute_expr, used, used_in, walk
from ktc.passes.core.refusals import Refusal

from .own_elements import own_elements
from .part_rows import of_parts
from .part_steps import Step, needed
from .position_loops import fixed_before, over_positions, overlapping
from .position_values import PositionValues
from .rfactor import free_axis, from_zero
from .scaled_values import Factors, Scaled, Unscaled, Values, scaled_top, whole

Sweep = TypeVar("Sweep", Par, Reduce)

SIMPLE = (Alloc, Assign, Decl, For, If, Par, Reduce, Store, While)
"""What may stand in a loop over the positions: what can be done for some of them alone."""


@dataclass(frozen=True)
class _Mended:
    """A row in global memory whose elements scale: ``loop`` left it at position ``at`` of what follows the parts."""

    loop: Par | Reduce
    index: tuple[Expr, ...]
    at: int


@dataclass
class Work:
    """One block's list of statements on its way into two: what each part does, and what follows once all have."""

    kernel: Kernel
    around: list[Par]
    top: Reduce
    parts: Expr
    arrays: list[Sym] = field(default_factory=list)
    mended: dict[Sym, _Mended] = field(default_factory=dict)

    def __post_init__(self) -> None:
        top, t = self.top, self.top.var.type
        assert isinstance(t, Scalar)
        self.block = self.around[-1].body if self.around else self.kernel.body
        self.apart = noalias(self.kernel)
        self.names, changing = fixed_before(self.block, top, assigned(self.kernel.body), self.apart)
        if set[Sym]().union(*map(used, (top.lo, top.hi, top.accs[0].init))) & changing:
            why = f"where the maximum over '{top.var.name}' starts or ends comes from what the block computes"
            raise Refusal("E-SOFTMAX-RANGE", why, places(top))
        if not (t.is_signed or is_const(top.lo, 0)):
            why = f"'{top.var.name}' is unsigned and does not start at zero: how many positions there are may wrap"
            raise Refusal("E-SOFTMAX-RANGE", why, places(top))
        self.sweeps = [s for s in over_positions(self.block, top, self.names) if isinstance(s, Par | Reduce)]
        self.rows = own_elements(self.block, self.sweeps, self.apart, "E-SOFTMAX-ROWS")
        unlike = (assigned(self.block) | overlapping(used_in(self.block), assigned(self.block), self.apart)) - self.rows
        self.positions = PositionValues(self.rows, unlike)
        self.part = fresh("part", I32)
        self.length, self.lo, self.hi = (fresh(n, t) for n in ("length", "lo", "hi"))
        extent = simplify(sub(top.hi, cast(top.lo, t)))
        fixed = tuple(s for s in self.block if isinstance(s, Decl) and s.sym in self.names)
        self.before: Body = (*fixed, Decl(self.length, cdiv(extent, cast(self.parts, t)), const=True))
        self.filled = fold_node(Call("min", (cast(self.parts, t), extent), t))
        high = top.accs[0].sym
        self.mine = fresh(high.name, high.type)
        self.values = Values(high, fresh("base", high.type), used_in(self.kernel.body) - changing)
        self.tops = self._array(high, ())

    def _array(self, acc: Sym, inner: Sequence[Par]) -> Sym:
        """An array with a place for ``acc`` of each part."""
        sizes = [fold_node(sub(s.hi, cast(s.lo, scalar_of(s.hi.type)))) for s in (*self.around, *inner)]
        array = fresh(f"{acc.name}_parts", Array(scalar_of(acc.type), (self.parts, *sizes), "local"))
        self.arrays.append(array)
        return array

    def _at(self, part: Expr, inner: Sequence[Par] = ()) -> tuple[Expr, ...]:
        return (part, *(from_zero(s) for s in (*self.around, *inner)))

    def lists(self, body: Body, inner: tuple[Par, ...]) -> tuple[list[Step], list[Step]]:
        """What a part does of ``body``, which stands in the loops ``inner`` of the block, and what follows all parts.

        Raises:
            Refusal: E-SOFTMAX-PLACE, E-SOFTMAX-USE, E-SOFTMAX-RANGE.
        """
        part: list[Step] = []
        rest: list[Step] = []
        for s in body:
            if isinstance(s, Decl) and s.sym in self.names:
                continue
            if s is self.top:
                part += self._maximum()
            elif any(s is x for x in self.sweeps):
                assert isinstance(s, Par | Reduce)
                self._sweep(s, inner, part, rest)
            elif any(x is y for x in walk((s,)) for y in self.sweeps):
                self._nest(s, inner, part, rest)
            else:
                self._other(s, part, rest)
        return part, rest

    def _maximum(self) -> list[Step]:
        """The maximum of the part's own values, and what stands for it in exponentials. What the maximum of all begins
        with is no value: far above them all, it would leave nothing of their exponentials that a sum could weigh."""
        (acc,), t = self.top.accs, scalar_of(self.top.accs[0].sym.type)
        if used_in((self.top,)) & self.values.late:
            why = f"the maximum over '{self.top.var.name}' reads what the block writes for all before it"
            raise Refusal("E-SOFTMAX-PLACE", why, places(self.top))
        self.values.late.add(acc.sym)
        self.positions.after(self.top)
        self.value = self.positions.of(acc.value, self.top)
        least = identity("max", t)
        own = dataclasses.replace(self._cut(self.top), accs=(dataclasses.replace(acc, sym=self.mine, init=least),))
        nothing = Binary("==", Var(self.mine), least)
        base = Decl(self.values.base, Select(nothing, Const(0.0, t), Var(self.mine)), const=True)
        return [Step(s) for s in (own, base, Store(self.tops, self._at(Var(self.part)), Var(self.mine)))]

    def _cut(self, s: Sweep) -> Sweep:
        """``s`` over the positions of the part."""
        t = scalar_of(s.var.type)
        return dataclasses.replace(s, lo=cast(Var(self.lo), t), hi=cast(Var(self.hi), t))

    def _sweep(self, s: Par | Reduce, inner: tuple[Par, ...], part: list[Step], rest: list[Step]) -> None:
        """A loop over the positions: of the part, and for sums what all parts give."""
        v = self.values
        odd = next((x for x in walk(s.body) if not isinstance(x, SIMPLE) or _acts(x)), None)
        if odd is not None:
            why = f"the loop over '{s.var.name}' does more than compute and store"
            raise Refusal("E-SOFTMAX-PLACE", why, places(odd))
        stored = assigned(s.body) - set(declared(s.body))
        if inner and stored:
            raise _misused(s, "is changed once for each iteration of a loop around")
        if isinstance(s, Par) and not used_in((s,)) & (v.late | v.scaled.keys()):
            self.positions.after(s)
            part.append(Step(self._cut(s)))
            return
        v.is_value = lambda e: self.positions.of(e, s) == self.value
        v.moving = {s.var, *declared(s.body)} | assigned(self.block)
        try:
            body = tuple(x for y in s.body for x in self._scaled(y))
            sums = [v.split(a.value) for a in s.accs] if isinstance(s, Reduce) else []
        except Unscaled:
            raise _misused(s, "is no sum or product of exponentials exp(x - maximum) alone") from None
        if isinstance(s, Reduce):
            self._sums(dataclasses.replace(self._cut(s), body=body), sums, inner, part, rest)
        elif body:
            part.append(Step(dataclasses.replace(self._cut(s), body=body)))
        self.positions.after(s)
        for x in walk(s.body):
            if isinstance(x, Store) and isinstance(x.buffer.type, Ptr):
                names = {d.sym: d.init for d in s.body if isinstance(d, Decl) and d.init is not None}
                self.mended[x.buffer] = _Mended(s, tuple(expand(i, names) for i in x.index), len(rest))

    def _sums(
        self, s: Reduce, values: Sequence[Scaled], inner: tuple[Par, ...], part: list[Step], rest: list[Step]
    ) -> None:
        """The sums ``s`` of the part's ``values``, and those of all parts."""
        if any(a.op != "+" for a in s.accs):
            raise _misused(s, "is no sum")
        zero = [identity("+", scalar_of(a.sym.type)) for a in s.accs]
        own = (dataclasses.replace(a, init=z, value=x.part) for a, x, z in zip(s.accs, values, zero))
        part.append(Step(dataclasses.replace(s, accs=tuple(own))))
        for a, x in zip(s.accs, values):
            array = self._array(a.sym, inner)
            part.append(Step(Store(array, self._at(Var(self.part), inner), Var(a.sym))))
            rest.append(self._combined(s, a, array, x.factors, inner))
            self.values.late.add(a.sym)

    def _scaled(self, s: Stmt) -> Body:
        """What a part does for the statement ``s`` of a loop over the positions that knows the maximum."""
        v = self.values
        if isinstance(s, Decl) and s.init is not None:
            if v.is_plain(s.init):
                return (s,)
            first = v.split(s.init)
            v.scaled[s.sym] = first.factors
            return (dataclasses.replace(s, init=first.part),)
        if not isinstance(s, Store):
            raise Unscaled
        if v.is_plain(s.value):
            v.scaled.pop(s.buffer, None)
            return (s,)
        x = v.split(s.value)
        v.scaled[s.buffer] = x.factors
        return () if x.part == Load(s.buffer, s.index) else (dataclasses.replace(s, value=x.part),)

    def _combined(self, s: Reduce, a: Acc, array: Sym, factors: Factors, inner: Sequence[Par]) -> Step:
        """The sum ``a`` of all parts."""
        t, p = scalar_of(a.sym.type), fresh("p", scalar_of(self.length.type))
        weight = self._weight(Var(p), t, factors)  # each part's: a sum of nothing is not divided
        acc = dataclasses.replace(a, value=Binary("*", Load(array, self._at(Var(p), inner)), weight))
        first, last = Const(0, scalar_of(p.type)), self.filled
        return Step(Reduce((acc,), p, first, last, (Level("seq"),), (), loc=s.loc, comments=s.comments))

    def _weight(self, part: Expr, t: Scalar, factors: Factors) -> Expr:
        """What the scaled values of ``part`` are to be multiplied by, their late factors included: together, as the
        exponential and what it is divided by may both be so small that products with them have few digits left."""
        return whole(cast(self._below_all(part), t), factors)

    def _below_all(self, part: Expr) -> Expr:
        """The exponential of the distance of the maximum of ``part`` to that of all."""
        power = self.values.power
        assert power is not None
        return power(Load(self.tops, self._at(part)), Var(self.values.top))

    def _nest(self, s: Stmt, inner: tuple[Par, ...], part: list[Step], rest: list[Step]) -> None:
        """A parallel loop with loops over the positions in it."""
        if not isinstance(s, Par):
            why = "a loop over the positions stands in control flow or in a loop that is not parallel"
            raise Refusal("E-SOFTMAX-PLACE", why, places(s), "if-convert or parallelize it first")
        check_range(self.kernel, s)
        own, after = self.lists(s.body, (*inner, s))
        part.append(Step(dataclasses.replace(s, body=needed(own, s.body))))
        rest.append(Step(dataclasses.replace(s, body=needed(after, s.body))))

    def _other(self, s: Stmt, part: list[Step], rest: list[Step]) -> None:
        """A statement without a loop over the positions."""
        v = self.values
        if any(isinstance(x, Barrier | Return) for x in walk((s,))):
            raise Refusal("E-SOFTMAX-PLACE", "threads wait for each other, or leave, beside the softmax", places(s))
        reads, sets = used_in((s,)), assigned((s,)) | set(declared((s,)))
        outer = next((b for b in assigned((s,)) - set(declared(self.block)) if not isinstance(b.type, Ptr)), None)
        if outer is not None:
            raise Refusal("E-SOFTMAX-PLACE", f"'{outer.name}' is declared outside of what a block does", places(s))
        acts = any(is_global_effect(x) for x in walk((s,)))
        if not acts and not (reads | sets) & (v.late | v.scaled.keys()):
            part.append(Step(s, wanted=False))
            rest.append(Step(s, wanted=False))
            return
        if isinstance(s, Decl) and s.init is not None and s.sym not in assigned(self.block):
            known = substitute_expr(s.init, v.names)
            v.names |= {s.sym: known} if scaled_top(known, v.top, v.fixed) else {}
        v.late |= sets
        v.late |= overlapping(used_in(self.block), sets, self.apart)
        rest.append(Step(s, wanted=acts or not isinstance(s, Decl)))

    def divided(self, part: list[Step]) -> Reduce:
        """The parts, and the maximum of all."""
        (acc,), t = self.top.accs, scalar_of(self.top.var.type)
        if self.values.power is None:
            why = f"no exponential of the distance to the maximum over '{self.top.var.name}' is summed up"
            raise Refusal("E-SOFTMAX-NONE", why, places(self.top))
        start = add(cast(self.top.lo, t), mul(cast(Var(self.part), t), Var(self.length)))
        end = fold_node(Call("min", (add(Var(self.lo), Var(self.length)), cast(self.top.hi, t)), t))
        bounds = (Decl(self.lo, start, const=True), Decl(self.hi, end, const=True))
        found = Decl(fresh("own", acc.sym.type), Var(self.mine), const=True)
        steps = of_parts(needed(part, self.block), self.rows, self.lo, self.parts)
        *body, own = refresh((*bounds, *steps, found))
        assert isinstance(own, Decl) and own.init is not None
        blocks = (Level("block", None, free_axis(self.around)),)
        accs = (dataclasses.replace(acc, value=own.init),)
        return Reduce(accs, self.part, i32(0), cast(self.parts, I32), blocks, tuple(body), loc=self.top.loc)

    def finished(self, rest: list[Step]) -> Body:
        """What follows the parts, rows in global memory below the maximum of all among it."""
        steps = list(rest)
        for row, m in sorted(self.mended.items(), key=lambda x: -x[1].at):
            if row not in self.values.scaled:
                continue
            (loop,) = refresh((Par(m.loop.var, m.loop.lo, m.loop.hi, m.loop.dist, (Store(row, m.index, i32(0)),)),))
            assert isinstance(loop, Par) and isinstance(loop.body[0], Store)
            t = scalar_of(loop.var.type)
            part = Binary("/", sub(Var(loop.var), cast(loop.lo, t)), cast(Var(self.length), t))
            old, elem = Load(row, loop.body[0].index), scalar_of(row.type)
            weight = self._weight(part, elem, self.values.scaled[row])
            store = dataclasses.replace(loop.body[0], value=Binary("*", old, weight))
            steps.insert(m.at, Step(dataclasses.replace(loop, body=(store,))))
        return needed(steps, self.block)


def check_range(kernel: Kernel, s: Par) -> None:
    """Refuse a loop whose range is not known when the kernel begins: it is a dimension of what the parts leave."""
    if (used(s.lo) | used(s.hi)) & (set(declared(kernel.body)) | assigned(kernel.body)):
        why = f"the range of '{s.var.name}' is not known at the beginning of the kernel"
        raise Refusal("E-SOFTMAX-RANGE", why, places(s))


def _acts(x: Stmt) -> bool:
    """Whether ``x`` does more to the world than to store."""
    return not isinstance(x, Store) and is_global_effect(x)


def _misused(s: Par | Reduce, why: str) -> Refusal:
    names = ", ".join(f"'{a.sym.name}'" for a in s.accs) if isinstance(s, Reduce) else f"what '{s.var.name}' leaves"
    hint = "what is made of the maximum in a loop over the positions must be sums of products with exp(x - maximum)"
    return Refusal("E-SOFTMAX-USE", f"{names} {why}", places(s), hint)


__all__ = ["Work", "check_range"]
