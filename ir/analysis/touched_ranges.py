"""Which elements of its buffers a kernel can touch, as formulas over its scalar parameters.

``out[i * w + j]`` behind ``if (i > 0 && i < h - 1 && j > 0 && j < w - 1)`` touches the elements from ``w + 1`` to
``h * w - w - 2``. Nothing is taken from shapes that somebody stated: a subscript is a sum (:mod:`.polynomial`) in
which every variable is replaced by the guard that bounds it (:mod:`.guarded_accesses`), by its definition, or, where it
is the index of a thread or block, by the launch. Parameters and extents of the launch are taken to be at least zero;
which of them, the result says, for whoever builds on a range to test it.

Assumed, as everywhere in this package: index arithmetic does not wrap around.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.arith.polynomial import Polynomial, constant, from_polynomial, minus, plus, polynomial, scaled, times
from ktc.ir.fold import cast, evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Binary,
    Break,
    Call,
    Const,
    Continue,
    Decl,
    Eval,
    Expr,
    Fence,
    For,
    HwIndex,
    If,
    Load,
    Return,
    Select,
    Store,
    Sym,
    Var,
    While,
)  # fmt: skip
from ktc.ir.types import I64, Ptr
from ktc.ir.walk import all_exprs, walk, walk_expr

from .guarded_accesses import Facts, FixedNames, guarded_accesses

DEPTH = 16
"""Variables that are replaced one after the other in one subscript."""

ENDS = 3
"""Of one variable, that are tried: the plainest sum is kept."""

STATEMENTS = (
    Alloc, Assign, Atomic, Barrier, Break, Continue, Decl, Eval, Fence, For, If, Return, Store, While,
)  # fmt: skip
"""Statements whose accesses are seen; where a kernel has others, nothing is known of it."""

EXTENTS = {"thread": "block", "block": "grid", "block_dim": "block", "grid_dim": "grid"}

ZERO: Polynomial = {}


@dataclass(frozen=True)
class TouchedRange:
    """The elements from ``low`` to ``high`` of one buffer, in 64 bits, where all of ``least_zero`` are at least 0."""

    low: Expr
    high: Expr
    least_zero: tuple[Expr, ...] = ()


def touched_ranges(kernel: Kernel) -> dict[Sym, TouchedRange | None]:
    """The range of every pointer parameter that a kernel in SPMD form touches; None where it is not known."""
    if kernel.is_parallel or kernel.launch is None or any(not isinstance(s, STATEMENTS) for s in walk(kernel.body)):
        return {p.sym: None for p in kernel.params if isinstance(p.sym.type, Ptr)}
    bounds = _Bounds(FixedNames(kernel))
    found: dict[Sym, tuple[Polynomial, Polynomial] | None] = {}
    for a in guarded_accesses(bounds.names):
        width = evaluate(a.width, kernel.knob_values) if isinstance(a.width, Expr) else a.width
        low = high = None
        if len(a.index) == 1 and width is not None and isinstance(a.buffer.type, Ptr):
            p = polynomial(a.index[0])
            low, high = bounds.lower(p, a.facts), bounds.upper(plus(p, constant(int(width) - 1)), a.facts)
        if low is None or high is None:
            found[a.buffer] = None
        elif a.buffer not in found:
            found[a.buffer] = low, high
        elif (before := found[a.buffer]) is not None:
            found[a.buffer] = _least((before[0], low)), _most((before[1], high))
    passed_on = {x.sym for e in all_exprs(kernel.body) for x in walk_expr(e) if isinstance(x, Var)}
    least_zero = tuple(from_polynomial(dict(p), I64) for p in bounds.assumed)
    return {
        b: None
        if lh is None or b in passed_on
        else TouchedRange(from_polynomial(lh[0], I64), from_polynomial(lh[1], I64), least_zero)
        for b, lh in {**dict.fromkeys(passed_on), **found}.items()
        if isinstance(b.type, Ptr)
    }


def _is_plainer(p: Polynomial, q: Polynomial) -> bool:
    """Whether the upper bound ``p`` is the better one: nowhere larger than ``q``, or else the plainer sum."""
    if _cost(p)[0] == _cost(q)[0]:
        more = [t for t in {**p, **q} if p.get(t, 0) > q.get(t, 0)]
        less = [t for t in {**p, **q} if p.get(t, 0) < q.get(t, 0)]
        if not more or not less:
            return bool(less)
    return _cost(p) < _cost(q)


def _cost(p: Polynomial) -> tuple[int, int]:
    """How plain a sum is: extents of the launch are rounded up, and parameters are not."""
    return sum(not isinstance(f, Var) for fs in p for f in fs), len(p)


def _most(several: Iterable[Polynomial]) -> Polynomial:
    """A sum that none of ``several`` exceeds, where what they are made of is at least zero."""
    return _each_term(several, max)


def _least(several: Iterable[Polynomial]) -> Polynomial:
    return _each_term(several, min)


def _each_term(several: Iterable[Polynomial], pick: Callable[..., int]) -> Polynomial:
    ps = list(several)
    terms = dict.fromkeys(t for p in ps for t in p)
    return {t: k for t in terms if (k := pick(p.get(t, 0) for p in ps))}


@dataclass
class _Bounds:
    """Bounds of sums, over parameters alone. ``assumed``: what was taken to be at least zero."""

    names: FixedNames
    assumed: dict[frozenset[tuple[tuple[Expr, ...], int]], None] = field(default_factory=dict)
    order: dict[Sym, int] = field(init=False)

    def __post_init__(self) -> None:
        self.order = {s: k for k, s in enumerate((*self.names.params, *self._declared()))}

    def _declared(self) -> Iterator[Sym]:
        for s in walk(self.names.kernel.body):
            if isinstance(s, Decl | For):
                yield s.sym if isinstance(s, Decl) else s.var

    def upper(self, p: Polynomial, facts: Facts, depth: int = DEPTH) -> Polynomial | None:
        """A sum over parameters that ``p`` does not exceed where ``facts`` hold; None if none is found."""
        open_ = {f for fs in p for f in fs if not self._is_given(f)}
        if not open_:
            for f in (f for fs in p for f in fs):
                self.assume({(f,): 1})
            return p
        for fact in facts:  # p = fact + rest, and fact is at most -1
            rest = minus(p, fact)
            if all(self._is_given(f) for fs in rest for f in fs):
                return self.upper(minus(rest, constant(1)), (), depth)
        if depth == 0:
            return None
        v = max(open_, key=self._innermost)
        factor = {tuple(f for f in fs if f != v): k for fs, k in p.items() if v in fs}
        others = {fs: k for fs, k in p.items() if v not in fs}
        if any(fs.count(v) > 1 for fs in p):
            return None
        if self._counts(factor, facts, depth - 1):
            ends = self._highs(v, facts, depth - 1)
        elif self._counts(scaled(factor, -1), facts, depth - 1):
            ends = self._lows(v, facts, depth - 1)
        else:
            return None
        best: Polynomial | None = None
        before, taken = self.assumed, self.assumed
        for end in list(islice(ends, ENDS)):
            self.assumed = dict(before)
            found = self.upper(plus(times(factor, end), others), facts, depth - 1)
            if found is not None and (best is None or _is_plainer(found, best)):
                best, taken = found, self.assumed
        self.assumed = taken
        return best

    def lower(self, p: Polynomial, facts: Facts, depth: int = DEPTH) -> Polynomial | None:
        found = self.upper(scaled(p, -1), facts, depth)
        return None if found is None else scaled(found, -1)

    def assume(self, p: Polynomial) -> None:
        """Takes ``p`` to be at least zero."""
        self.assumed.setdefault(frozenset(p.items()))

    def _is_given(self, f: Expr) -> bool:
        """Whether an atom is a number that the launcher has."""
        parts = list(walk_expr(f))
        return not any(
            isinstance(x, Load | HwIndex) or (isinstance(x, Var) and x.sym not in self.names.params) for x in parts
        )

    def _innermost(self, f: Expr) -> tuple[int, int, str]:
        """Variables are replaced from the inside outwards, and what is made of one before it."""
        inside = [self.order.get(x.sym, -1) for x in walk_expr(f) if isinstance(x, Var)]
        return max(inside, default=-1), not isinstance(f, Var), repr(f)

    def _counts(self, p: Polynomial, facts: Facts, depth: int) -> bool:
        """Whether ``p`` is a sum of products that are at least zero."""
        return all(k >= 0 and all(self._is_count(f, facts, depth) for f in fs) for fs, k in p.items())

    def _is_count(self, f: Expr, facts: Facts, depth: int) -> bool:
        if isinstance(f, HwIndex):
            return True
        if self._is_given(f):
            self.assume({(f,): 1})
            return True
        low = self.lower({(f,): 1}, facts, depth) if depth > 0 else None
        return low is not None and all(k >= 0 for k in low.values())

    # ------------------------------------------------------------------------------------------------ ends of an atom

    def _highs(self, v: Expr, facts: Facts, depth: int) -> Iterator[Polynomial]:
        """Sums that ``v`` does not exceed, the most telling first."""
        for fact in reversed(facts):
            if fact.get((v,)) == 1 and sum(v in fs for fs in fact) == 1:
                yield minus(scaled({fs: k for fs, k in fact.items() if fs != (v,)}, -1), constant(1))
        if isinstance(v, HwIndex):
            yield minus(self._extent(v), constant(0 if v.level.endswith("_dim") else 1))
        elif isinstance(v, Var):
            yield from self._definition(v, -1, facts, depth)
        else:
            yield from _composite_highs(self, v, facts, depth)

    def _lows(self, v: Expr, facts: Facts, depth: int) -> Iterator[Polynomial]:
        """Sums that ``v`` is not below."""
        for fact in reversed(facts):
            if fact.get((v,)) == -1 and sum(v in fs for fs in fact) == 1:
                yield plus({fs: k for fs, k in fact.items() if fs != (v,)}, constant(1))
        if isinstance(v, HwIndex):
            yield self._extent(v) if v.level.endswith("_dim") else ZERO
        elif isinstance(v, Var):
            yield from self._definition(v, 1, facts, depth)
        else:
            yield from _composite_lows(self, v, facts, depth)

    def _extent(self, v: HwIndex) -> Polynomial:
        launch = self.names.kernel.launch
        assert launch is not None
        return polynomial(getattr(launch, EXTENTS[v.level])["xyz".index(v.axis)])

    def _definition(self, v: Var, sign: int, facts: Facts, depth: int) -> Iterator[Polynomial]:
        """What a variable is initialised with; a counter begins with its least value if it counts up (``sign`` 1)."""
        if v.sym in self.names.defs:
            yield polynomial(self.names.defs[v.sym])
        elif (loop := self.names.loops.get(v.sym)) is not None:
            step = loop_step(loop)
            if step is not None and self._counts(scaled(polynomial(step), sign), facts, depth):
                yield polynomial(loop.init)


def _composite_highs(b: _Bounds, v: Expr, facts: Facts, depth: int) -> Iterator[Polynomial]:
    if isinstance(v, Select):
        arms = [
            b.upper(polynomial(arm), (*facts, *b.names.learnt(v.cond, holds)), depth)
            for arm, holds in ((v.a, True), (v.b, False))
        ]
        yield from [_most(a for a in arms if a is not None)] if None not in arms else []
    elif isinstance(v, Call) and v.fn == "min":
        yield from map(polynomial, v.args)
    elif isinstance(v, Call) and v.fn == "max":
        ends = [b.upper(polynomial(a), facts, depth) for a in v.args]
        yield from [_most(e for e in ends if e is not None)] if None not in ends else []
    elif isinstance(v, Binary) and v.op == "&" and isinstance(v.b, Const) and v.b.value >= 0:
        yield constant(int(v.b.value))
    elif isinstance(v, Binary) and v.op in "/%" and b._is_given(v.b):
        divisor = polynomial(v.b)
        b.assume(minus(divisor, constant(1)))
        if v.op == "%":
            yield minus(divisor, constant(1))
        elif (high := b.upper(polynomial(v.a), facts, depth)) is not None:
            yield {(Binary("/", from_polynomial(high, I64), cast(v.b, I64)),): 1}


def _composite_lows(b: _Bounds, v: Expr, facts: Facts, depth: int) -> Iterator[Polynomial]:
    if isinstance(v, Select):
        arms = [
            b.lower(polynomial(arm), (*facts, *b.names.learnt(v.cond, holds)), depth)
            for arm, holds in ((v.a, True), (v.b, False))
        ]
        yield from [_least(a for a in arms if a is not None)] if None not in arms else []
    elif isinstance(v, Call) and v.fn == "max":
        yield from map(polynomial, v.args)
    elif isinstance(v, Call) and v.fn == "min":
        ends = [b.lower(polynomial(a), facts, depth) for a in v.args]
        yield from [_least(e for e in ends if e is not None)] if None not in ends else []
    elif isinstance(v, Binary) and v.op == "&" and isinstance(v.b, Const) and v.b.value >= 0:
        yield ZERO
    elif isinstance(v, Binary) and v.op in "/%" and b._is_given(v.b) and b._counts(polynomial(v.a), facts, depth):
        b.assume(minus(polynomial(v.b), constant(1)))
        yield ZERO


__all__ = ["TouchedRange", "touched_ranges"]
