"""Votes of a warp as what they sum up over its lanes.

before                                              after
    let m: u32 = ballot(x > t)                          let one: u32 = x > t
    let at: i32 = popc(m & (1 << lane) - 1)             let count: u32 = reduce_add(one)
    if lane == 0                                        let at: i32 = (one summed up to this lane) - one
      found = popc(m)                                   if lane == 0
    if any(x > t)                                         found = count
      ...                                               if reduce_or(x > t) != 0

How many lanes say yes is a sum, how many of those before a running sum, whether any or all do is an extreme: exchanges
that are recognised by what they come to (:mod:`ktc.passes.raising.recognise.exchange`). Only votes of whole warps are
read so; that ``lane`` is the lane's number is a guess, which the exact comparison with the source looks at.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.fields import with_children
from ktc.ir.fold import add, binary, cast, evaluate, i32, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Atomic,
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    If,
    Select,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    WarpOp,
    fresh,
)
from ktc.ir.types import BOOL, I32, U32, Scalar
from ktc.ir.walk import all_exprs, assigned, map_body, map_expr, used, used_in, walk, walk_expr, with_bodies
from ktc.passes.raising.recognise.statement_kinds import threads_in

WHOLE = 0xFFFFFFFF
"""The mask of a whole warp."""

VOTED = ("ballot", "any", "all")
STEPS = (1, 2, 4, 8, 16)
COMBINED = {"any": "reduce_or", "all": "reduce_and"}


def with_summed_votes(kernel: Kernel) -> Kernel:
    """``kernel`` with such sums in the place of votes; the same object if it has none."""
    if not any(_is_vote(e) for e in all_exprs(kernel.body)):
        return kernel
    votes = _Votes(kernel.body)
    body = votes.summed(kernel.body)
    unused = {v for v in votes.ballots if v not in used_in(body)}
    return kernel.with_(body=map_body(body, lambda s: None if isinstance(s, Decl) and s.sym in unused else s))


def _is_vote(e: Expr) -> bool:
    return isinstance(e, WarpOp) and e.kind in VOTED and evaluate(cast(e.mask, U32), {}) == WHOLE


class _Votes:
    """Votes of one body. ``ballots``: the variables that hold one, with the number that each lane brings in."""

    def __init__(self, body: Body) -> None:
        self.names = definitions(body)
        self.ballots = {v: e for v, e in _held(body) if v not in assigned(body)}
        self.counts: dict[Sym, Sym] = {}
        self.ones: dict[Sym, Sym] = {}
        self.below: dict[tuple[Sym, Expr], Sym] = {}
        self.asked = [m for e in all_exprs(body) if (m := self._counted(e)) is not None]

    def summed(self, body: Body) -> Body:
        out: list[Stmt] = []
        for s in body:
            s = with_bodies(s, self.summed)
            front: list[Stmt] = []
            if isinstance(s, Decl | Assign | Store | Atomic | If):
                s = with_children(s, lambda e, front=front: self._read(e, front))  # type: ignore[misc]
            out += [*front, s]
            if isinstance(s, Decl) and s.sym in self.ballots:
                out += self._sums(s.sym)
        return tuple(out)

    def _counted(self, e: Expr) -> tuple[Sym, Expr | None, bool] | None:
        """The ballot whose lanes ``e`` counts; of those below which lane (None: all), with that lane's or without."""
        if not isinstance(e, Call) or e.fn not in ("popc",) or len(e.args) != 1:
            return None
        x = plain(e.args[0])
        if isinstance(x, Var) and x.sym in self.ballots:
            return x.sym, None, False
        if isinstance(x, Binary) and x.op == "&":
            for m, lanes in ((plain(x.a), x.b), (plain(x.b), x.a)):
                found = lanes_below(expand(lanes, self.names))
                if isinstance(m, Var) and m.sym in self.ballots and found is not None:
                    return (m.sym, *found)
        return None

    def _sums(self, m: Sym) -> Iterator[Stmt]:
        """What is asked for of the ballot ``m``, right behind it."""
        mine = [(lane, own) for v, lane, own in self.asked if v == m]
        if not mine:
            return
        op = self.ballots[m]
        one = self.ones[m] = fresh("one", U32)
        yield Decl(one, cast(op.value, U32))
        if any(lane is None for lane, _ in mine):
            self.counts[m] = fresh("count", U32)
            yield Decl(self.counts[m], _combined("reduce_add", Var(one), op))
        for lane in dict.fromkeys(lane for lane, _ in mine if lane is not None):
            total: Expr = Var(one)
            for step in STEPS:
                up, run = fresh("up", U32), fresh("run", U32)
                yield Decl(up, WarpOp("shfl_up", total, Const(step, U32), i32(32), op.mask))
                yield Decl(run, Select(binary(">=", cast(lane, I32), i32(step)), add(total, Var(up)), total))
                total = Var(run)
            self.below[m, lane] = fresh("below", U32)
            yield Decl(self.below[m, lane], sub(total, Var(one)))

    def _read(self, e: Expr, front: list[Stmt]) -> Expr:
        return map_expr(e, lambda x: self._instead(x, front))

    def _instead(self, e: Expr, front: list[Stmt]) -> Expr:
        counted = self._counted(e)
        if counted is not None:
            m, lane, own = counted
            if lane is None and m in self.counts:
                return cast(Var(self.counts[m]), I32)
            if lane is not None and (m, lane) in self.below:
                found: Expr = Var(self.below[m, lane])
                return cast(add(found, Var(self.ones[m])) if own else found, I32)
        if isinstance(e, Call) and e.fn == "popc" and _is_vote(x := plain(e.args[0])) and isinstance(x, WarpOp):
            return cast(self._named("reduce_add", x, front), I32) if x.kind == "ballot" else e
        if isinstance(e, Binary) and e.op in ("==", "!=") and isinstance(x := plain(e.a), WarpOp) and _is_vote(x):
            bits = evaluate(cast(e.b, U32), {})
            if x.kind == "ballot" and bits in (0, WHOLE):
                yes = Binary("!=", self._named(COMBINED["all" if bits else "any"], x, front), Const(0, U32))
                return yes if (e.op == "==") == bool(bits) else Unary("!", yes)
        if isinstance(e, WarpOp) and e.kind in COMBINED and _is_vote(e):
            return Binary("!=", self._named(COMBINED[e.kind], e, front), Const(0, U32))
        return e

    def _named(self, kind: str, vote: WarpOp, front: list[Stmt]) -> Expr:
        """The number that all lanes of ``vote`` come to, named in ``front`` of the statement that asks."""
        one, got = fresh("one", U32), fresh("got", U32)
        front += [Decl(one, cast(cast(vote.value, BOOL), U32)), Decl(got, _combined(kind, Var(one), vote))]
        return Var(got)


def _held(body: Body) -> Iterator[tuple[Sym, WarpOp]]:
    for s in walk(body):
        x = plain(s.init) if isinstance(s, Decl) and s.init is not None else None
        if isinstance(s, Decl) and isinstance(x, WarpOp) and x.kind == "ballot" and _is_vote(x):
            yield s.sym, x


def _combined(kind: str, value: Expr, vote: WarpOp) -> WarpOp:
    return WarpOp(kind, value, None, vote.width, vote.mask)


def plain(e: Expr) -> Expr:
    """``e`` without conversions between integers of its size."""
    while isinstance(e, Cast) and isinstance(e.to, Scalar) and e.to.is_int and e.to.bits >= 32:
        e = e.x
    return e


def lanes_below(lanes: Expr) -> tuple[Expr, bool] | None:
    """The lane below which the bits of ``lanes`` are (and whether its own is with them): of ``(1 << lane) - 1``."""
    lanes = plain(lanes)
    own = False
    if isinstance(lanes, Binary) and lanes.op == "-" and evaluate(lanes.b, {}) == 1:
        shifted = plain(lanes.a)
        own = isinstance(shifted, Binary) and evaluate(shifted.a, {}) == 2
    elif isinstance(lanes, Unary) and lanes.op == "~":
        shifted = plain(lanes.x)
        if not (isinstance(shifted, Binary) and evaluate(cast(shifted.a, U32), {}) == WHOLE):
            return None
    else:
        return None
    if not isinstance(shifted, Binary) or shifted.op != "<<":
        return None
    if evaluate(cast(shifted.a, U32), {}) not in (1, 2, WHOLE):
        return None
    lane = shifted.b
    hardware = bool(threads_in(lane)) and not used(lane) and not any(isinstance(x, WarpOp) for x in walk_expr(lane))
    return (lane, own) if hardware else None


__all__ = ["lanes_below", "plain", "with_summed_votes"]
