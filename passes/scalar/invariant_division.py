"""invariant-division: divisions by what a loop does not change, by multiplying with a reciprocal.

before                                          after invariant-division
    par i in 0..n @ [thread.x, block.x, seq]        let d_reciprocal: u64 = (2^64 - 1) / d
      y[i] = x[i % d]                               par i in 0..n @ [thread.x, block.x, seq]
                                                      let over_d: u32 = (i + 1) * d_reciprocal >> 64
                                                      y[i] = x[i - over_d * d]

A GPU divides integers in about twenty instructions (64 bits: some seventy), and multiplies in one or a few. With
``r = (2^64 - 1) / d``, rounded down, and n below 2^32, ``(n + 1) r / 2^64`` is below ``(n + 1) / d``, and by no more
than ``(n + 1) / 2^64``, as ``d r >= 2^64 - d``. So it is below the integer after ``n / d``; and for d up to 2^32, where
``(n + 1) / 2^64 <= 1 / d``, at least the integer before it. For a larger d both quotients are below 1. Two products of
32 by 32 bits give it. (After A. D. Robison, "N-bit unsigned division via N-bit multiply-add", ARITH 2005.)

Loops of a few rounds that divide by an element each, the extents of a tensor's dimensions, are written out first. The
dividend has to be known not to be negative and to fit 32 bits, the divisor not to be negative. Divisors may be read
from buffers that the kernel does not write, where every iteration reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from ktc.ir.arith import REWRITES, Facts
from ktc.ir.arith.integer_casts import without_casts, without_widening
from ktc.ir.fields import children
from ktc.ir.fold import add, cast
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Atomic,
    Binary,
    Body,
    Call,
    Const,
    Decl,
    Eval,
    Expr,
    For,
    If,
    Load,
    Par,
    Reduce,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    bodies,
    fresh,
    i32,
)
from ktc.ir.purity import is_movable, is_removable
from ktc.ir.types import U32, U64, Scalar
from ktc.ir.walk import (
    assigned,
    declared,
    loads_in,
    map_body,
    map_expr,
    map_stmt_exprs,
    stmt_exprs,
    used,
    walk,
    walk_expr,
)
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import option
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import places_of
from ktc.passes.core.refusals import Refusal, Result

from .written_out import divides_by_elements, written_out

Loop: TypeAlias = For | Par | Reduce

WORD = (1 << 32) - 1
"""The largest number of 32 bits."""


@dataclass(frozen=True)
class Arguments:
    loop: Loops | None = option(None, "the loop; the outermost ones if left out")


class InvariantDivision(Pass[Arguments]):
    name = "invariant-division"
    summary = "divisions by what a loop does not change as multiplications, by a reciprocal computed in front of it"
    refusals = ("E-DIVISION-NOTHING", "E-PLACE")

    def sites(self, kernel: Kernel) -> list[Site]:
        found = self.run(kernel)
        return [Site(self.step(), found.notes[0])] if isinstance(found, Result) else []

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        kernel = kernel.with_(body=written_out(kernel.body, divides_by_elements))
        loops = args.loop.find(kernel) if args.loop is not None else [*_outermost(kernel.body)]
        job = _Divisions(kernel)
        to = {s.var: job.replaced(s) for s in loops}
        if not job.count:
            raise Refusal("E-DIVISION-NOTHING", "no loop here divides by what it does not change")
        body = map_body(kernel.body, lambda s: to[s.var] if isinstance(s, Loop) and s.var in to else s)
        at = ", ".join(places_of(kernel, [s for s in loops if len(to[s.var]) > 1]))
        return Result(kernel.with_(body=body), (f"{job.count} division{'s' if job.count > 1 else ''} in {at}",))


def _outermost(body: Body) -> Iterator[Loop]:
    for s in body:
        if isinstance(s, Loop):
            yield s
        else:
            for inner in bodies(s):
                yield from _outermost(inner)


@dataclass(frozen=True)
class _Divisor:
    """A number that is divided by, in 32 bits, and its ``reciprocal``."""

    name: str
    word: Sym
    reciprocal: Sym

    @staticmethod
    def of(e: Expr, there: Expr, before: list[Stmt], is_one_at_least: bool) -> _Divisor:
        """The divisor ``e``, computed ``there``, after declarations that are added to ``before``."""
        name = next((x.sym.name for x in walk_expr(e) if isinstance(x, Var)), None) or _buffer(e) or "divisor"
        whole, word, reciprocal = fresh(name, _scalar(e)), fresh(f"{name}_word", U32), fresh(f"{name}_reciprocal", U64)
        positive = cast(Var(whole), U64, "c")
        if not is_one_at_least:
            positive = Call("max", (positive, Const(1, U64)), U64)
        before += [
            Decl(whole, there, const=True),
            Decl(word, cast(Var(whole), U32, "c"), const=True),
            Decl(reciprocal, Binary("/", Const(U64.extremes[1], U64), positive), const=True),
        ]
        return _Divisor(name, word, reciprocal)

    def divides(self, e: Binary, before: list[Stmt]) -> Expr:
        """``e``, a quotient or a remainder by this, after a declaration that is added to ``before``."""
        n = cast(without_widening(e.a), U32, "c")
        next_, r, half = add(cast(n, U64, "c"), Const(1, U64)), Var(self.reciprocal), Const(32, U64)
        low = Binary(">>", Binary("*", next_, cast(cast(r, U32, "c"), U64, "c")), half)
        high = Binary(">>", Binary("+", Binary("*", next_, Binary(">>", r, half)), low), half)
        part = fresh(f"over_{self.name}", U32)
        before.append(Decl(part, cast(high, U32, "c"), const=True))
        found: Expr = Var(part)
        if e.op == "%":
            found = Binary("-", n, Binary("*", Var(part), Var(self.word)))
        return cast(found, _scalar(e), "c")


def _scalar(e: Expr) -> Scalar:
    assert isinstance(e.type, Scalar)
    return e.type


@dataclass
class _Divisions:
    """The divisions of a kernel that are replaced."""

    kernel: Kernel
    count: int = 0
    facts: Facts = field(init=False)
    written: set[Sym] = field(init=False)

    def __post_init__(self) -> None:
        self.facts = Facts(self.kernel, REWRITES)
        self.written = {s.buffer for s in walk(self.kernel.body) if isinstance(s, Store | Atomic)}

    def replaced(self, loop: Loop) -> Body:
        """``loop`` behind the reciprocals of what it divides by; itself alone where it divides by nothing like it."""
        inner = {s.var for s in walk((loop,)) if isinstance(s, Loop)}
        changing = assigned(loop.body) | set(declared(loop.body)) | inner
        runs = _runs(loop)
        sure = set(_always(loop.body)) if runs is not None else set[Expr]()
        if runs is not None and (self._has_iterations(loop) or _has_own_blocks(loop, self.kernel)):
            runs = None  # no thread is in front of it for nothing
        dividing = {e.b for e in sure if isinstance(e, Binary) and e.op in ("/", "%")}  # none is 0, or the source fails
        known: dict[Expr, _Divisor] = {}
        first: list[Stmt] = []

        def quotient(before: list[Stmt], whole: set[Expr], e: Expr) -> Expr:
            if not isinstance(e, Binary) or not self._is_one(e, changing, sure):
                return e
            if not (is_movable(e.a) or (e in whole and is_removable(e.a))):
                return e
            self.count += 1
            if e.b not in known:
                least = self.facts.interval(e.b).low
                one, asked = cast(i32(1), _scalar(e)), least is None or least < 1
                there = Select(runs, e.b, one) if runs is not None and (asked or _buffer(e.b)) else e.b
                known[e.b] = _Divisor.of(e.b, there, first, not asked or e.b in dividing)
            return known[e.b].divides(e, before)

        def on(s: Stmt) -> Stmt | Body:
            before: list[Stmt] = []
            whole = {x for e in stmt_exprs(s) for x in _evaluated(e)}
            if isinstance(s, Decl | Assign | Store | Atomic | Eval | If):
                s = map_stmt_exprs(s, partial(quotient, before, whole))
                return (*before, s) if before else s
            if isinstance(s, Reduce):
                value = partial(quotient, before, whole)
                accs = tuple(replace(a, value=map_expr(a.value, value)) for a in s.accs)
                return replace(s, accs=accs, body=(*s.body, *before)) if before else s
            return s

        body = map_body(loop.body, on)
        return (*first, replace(loop, body=body)) if first else (loop,)

    def _has_iterations(self, loop: Loop) -> bool:
        """Whether ``loop`` goes round at all sizes."""
        if isinstance(loop, For):
            return False
        start, end = self.facts.interval(loop.lo), self.facts.interval(loop.hi)
        return start.high is not None and end.low is not None and start.high < end.low

    def _is_one(self, e: Binary, changing: set[Sym], sure: set[Expr]) -> bool:
        """Whether ``e`` divides by what is the same in all iterations, and both numbers are such that a reciprocal of
        32 bits does."""
        t = e.type
        if e.op not in ("/", "%") or not isinstance(t, Scalar) or not t.is_int or t.bits not in (32, 64):
            return False
        if isinstance(without_casts(e.b), Const) or used(e.b) & changing or e.b.type != t:
            return False
        if not used(e.a) & changing:
            return False
        if _buffer(e.b) and (e not in sure or any(x.buffer in self.written for x in loads_in(e.b))):
            return False
        if not is_movable(map_expr(e.b, lambda x: cast(i32(1), _scalar(x)) if isinstance(x, Load) else x)):
            return False
        n, d = self.facts.interval(without_widening(e.a)), self.facts.interval(e.b)
        fits = n.low is not None and n.low >= 0 and n.high is not None and n.high <= WORD
        return fits and (not t.is_signed or (d.low is not None and d.low >= 0))


def _buffer(e: Expr) -> str | None:
    """The name of the first buffer that ``e`` reads; None where it reads none."""
    return next((x.buffer.name for x in loads_in(e)), None)


def _runs(loop: Loop) -> Expr | None:
    """That ``loop`` has an iteration; None where that is not said by its bounds."""
    if isinstance(loop, For):
        return None
    return Binary("<", loop.lo, loop.hi)


def _has_own_blocks(loop: Loop, kernel: Kernel) -> bool:
    """Whether ``kernel`` is launched without blocks where ``loop`` has no iteration: there are as many as loops over
    them take, which all go over the same range."""
    spread = [s for s in walk(kernel.body) if isinstance(s, Par) and any(lv.kind == "block" for lv in s.dist)]
    taking = all(s.dist[-1].kind == "block" and s.dist[-1].n is None for s in spread)
    return any(s.var == loop.var for s in spread) and taking and len({(s.lo, s.hi) for s in spread}) == 1


def _always(body: Body) -> Iterator[Expr]:
    """The parts of expressions that every iteration evaluates which goes through ``body``, up to the first statement
    that may end it."""
    for s in body:
        if isinstance(s, Decl | Assign | Store | Eval):
            for e in stmt_exprs(s):
                yield from _evaluated(e)
        elif bodies(s):
            return


def _evaluated(e: Expr) -> Iterator[Expr]:
    """``e`` and its parts, but those that are evaluated only where others have some value."""
    yield e
    lazy = isinstance(e, Select) or (isinstance(e, Binary) and e.op in ("&&", "||"))
    parts = [*children(e)]
    for x in parts[:1] if lazy else parts:
        yield from _evaluated(x)


__all__ = ["InvariantDivision"]
