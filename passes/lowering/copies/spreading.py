"""Asynchronous copies of the tile ahead, issued between the steps of the round that computes.

before                                             after
    for k_tile ...                                     let A_at = K * row_tile * 128 + tid_y * K + tid_x + 24
      if k_tile + 24 < n                               let A_left = M - row_tile * 128 - tid_y
        for u in 0..8 unroll                           for k_tile ...
          async_copy A_s[.., tid_y + u * 16] = A[..]     for k in k_tile..k_tile + 8 unroll
      async_commit spread                                  C(k)
      for k in k_tile..k_tile + 8 unroll                   if k_tile + 24 < n
        C(k)                                                 async_copy A_s[.., tid_y + (k - k_tile) * 16]
      async_wait                                                  = A[A_at + k_tile + (k - k_tile) * 16 * K] ..
                                                         async_commit
                                                         async_wait

All copies at the start of a round keep the arithmetic units waiting for as long as it takes to find their addresses, in
every warp at once; one copy a step hides behind the products around it. For that their addresses and conditions must be
cheap: what of them does not change in the loop is found once, in front of it. (A product of 4096 in f32 on an
H200: 46.9 TFLOP/s with the copies first, 43.3 with one a step, 48.1 with addresses in front of the loop too.)

Between the copies and the loop that computes there is no barrier, so no thread may rely on which of them another thread
has come to, and a thread's own copies are only there after its wait: either order means the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.affine import mentions
from ktc.ir.arith.counted_loops import counting
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import Polynomial, difference, from_polynomial, minus, polynomial, scaled
from ktc.ir.fold import add, binary, i32, is_const, lt, mul, simplify
from ktc.ir.nodes import (
    Alloc,
    Assign,
    AsyncCommit,
    AsyncCopy,
    Binary,
    Body,
    Cast,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    MatrixLoad,
    Mma,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.storage import is_visible
from ktc.ir.types import BOOL, Scalar
from ktc.ir.walk import assigned, declared, map_body, map_expr, substitute_expr, used, walk, walk_expr
from ktc.passes.lowering.decider import Decider
from ktc.passes.lowering.distribution.digits import Reach, reduced

PRIVATE = (Alloc, Assign, Decl, For, If, MatrixLoad, Mma, Store)
"""What the steps of a round may consist of: statements that leave memory which others see as it is."""


def spread(body: Body, extents: Mapping[str, Expr], decide: Decider) -> Body:
    """``body`` with the copies of every marked commit among the steps that follow it; where there are no such steps,
    they stay first."""
    names = definitions(body)
    hardware: dict[Expr, Var] = {
        x: Var(s) for s, e in names.items() if isinstance(x := without_index_casts(e), HwIndex)
    }
    threads: dict[Expr, Reach] = {
        HwIndex("thread", a): n - 1 for a, e in extents.items() if (n := decide.value(e)) is not None
    }

    def on(s: Stmt) -> Stmt | Body:
        if not isinstance(s, For) or not any(isinstance(x, AsyncCommit) and x.spread for x in s.body):
            return s
        found = _round(s, decide)
        plain = dataclasses.replace(s, body=tuple(AsyncCommit() if isinstance(x, AsyncCommit) else x for x in s.body))
        return plain if found is None else _Spreading(found, names, hardware, threads).done()

    return map_body(body, on)


@dataclass(frozen=True)
class _Copies:
    """``copy`` for each ``u`` below ``count``."""

    copy: AsyncCopy
    u: Sym | None
    count: int


@dataclass(frozen=True)
class _Round:
    """A round of ``loop``: ``copies`` where ``ahead`` holds, a commit, ``steps`` that run ``trips`` times, ``rest``."""

    loop: For
    ahead: Expr
    copies: tuple[_Copies, ...]
    before: Body
    steps: For
    trips: int
    rest: Body


def _round(s: For, decide: Decider) -> _Round | None:
    if len(s.body) < 3 or not isinstance(s.body[0], If) or s.body[0].orelse or not isinstance(s.body[1], AsyncCommit):
        return None
    ahead, body = s.body[0], s.body[2:]
    at = next((k for k, x in enumerate(body) if not isinstance(x, Decl | Alloc)), None)
    steps = None if at is None else body[at]
    if not isinstance(steps, For) or not all(_is_private(x) for x in walk((*body[:at], steps))):
        return None
    form = counting(steps)
    trips = decide.value(difference(form.hi, form.lo)) if form is not None and form.by_one else None
    copies = _copies(ahead.then, decide)
    if not trips or copies is None or used(ahead.cond) & assigned(s.body):
        return None
    assert at is not None
    return _Round(s, ahead.cond, copies, body[:at], steps, trips, body[at + 1 :])


def _is_private(s: Stmt) -> bool:
    return isinstance(s, PRIVATE) and not (isinstance(s, Store) and is_visible(s.buffer))


def _copies(body: Body, decide: Decider) -> tuple[_Copies, ...] | None:
    """The copies of ``body``; None if there is anything else."""
    out: list[_Copies] = []
    for s in body:
        inner = [x for x in s.body if not _is_name(x)] if isinstance(s, For) else [s]
        (one,) = inner if len(inner) == 1 else (None,)
        count = decide.rounds(s) if isinstance(s, For) else 1
        if _is_name(s):
            continue
        if not isinstance(one, AsyncCopy) or not count or len(one.src_index) != 1:
            return None
        out.append(_Copies(one, s.var if isinstance(s, For) else None, count))
    return tuple(out)


def _is_name(s: Stmt) -> bool:
    return isinstance(s, Decl) and s.const and s.init is not None


def _of_threads(e: Expr) -> bool:
    return any(isinstance(x, HwIndex) and x.level == "thread" for x in walk_expr(e))


class _Spreading:
    """The loop of a round with its copies among the steps, and in front of it what they have in common."""

    def __init__(
        self, r: _Round, names: Mapping[Sym, Expr], hardware: Mapping[Expr, Var], threads: Mapping[Expr, Reach]
    ) -> None:
        self.round, self.hardware, self.threads = r, hardware, threads
        self.front: list[Decl] = []
        self.changing = assigned(r.loop.body) | set(declared(r.loop.body)) | {r.loop.var}
        self.names = {s: e for s, e in names.items() if s in self.changing or _of_threads(e)}

    def done(self) -> Body:
        r = self.round
        copies = tuple(x for c in r.copies for x in self._between(c))
        steps = dataclasses.replace(r.steps, body=(*r.steps.body, *copies))
        loop = dataclasses.replace(r.loop, body=(*r.before, steps, AsyncCommit(), *r.rest))
        return (*self.front, loop)

    def _between(self, c: _Copies) -> Body:
        """The copies of ``c`` that one step issues."""
        form = counting(self.round.steps)
        assert form is not None
        trips, step = self.round.trips, difference(Var(self.round.steps.var), form.lo)
        if c.u is None:
            return (If(binary("==", step, i32(0)), self._one(c, None)),)
        if c.count <= trips:
            every = trips // c.count if trips % c.count == 0 else 1
            now = simplify(Binary("/", step, i32(every)))
            turn = binary("==", Binary("%", step, i32(every)), i32(0)) if every > 1 else None
            turn = lt(step, i32(c.count)) if trips % c.count else turn
            copy = self._one(c, now)
            return copy if turn is None else (If(turn, copy),)
        more = fresh(c.u.name, c.u.type)
        each = -(-c.count // trips)
        now = add(mul(Var(more), i32(trips)), step)
        copy = self._one(c, now)
        copy = copy if c.count % trips == 0 else (If(lt(now, i32(c.count)), copy),)
        return (For(more, i32(0), lt(Var(more), i32(each)), add(Var(more), i32(1)), copy, unroll=0),)

    def _one(self, c: _Copies, now: Expr | None) -> Body:
        """The copy of ``c`` in the turn ``now``, if there is a tile ahead."""
        turn = {} if c.u is None or now is None else {c.u: now}
        (at,) = c.copy.src_index
        src = substitute_expr(self._source(c, at), turn)
        dst = tuple(substitute_expr(self._short(c, i), turn) for i in c.copy.dst_index)
        valid = None if c.copy.valid is None else substitute_expr(self._valid(c, c.copy.valid), turn)
        copy = dataclasses.replace(c.copy, dst_index=dst, src_index=(src,), valid=valid)
        return (If(self.round.ahead, (copy,)),)

    def _short(self, c: _Copies, e: Expr) -> Expr:
        """``e`` without names, and without divisions that thread indices and turns carry nothing into."""
        known: dict[Expr, Reach] = dict(self.threads)
        known |= {Var(c.u): c.count - 1} if c.u is not None else {}
        return map_expr(reduced(expand(e, self.names), known), self._named)

    def _named(self, x: Expr) -> Expr:
        """Hardware indices by the names that they have."""
        if isinstance(x, Cast) and x.to == x.x.type:
            return x.x
        return self.hardware.get(x, x)

    def _split(self, c: _Copies, p: Polynomial) -> tuple[Polynomial, Polynomial]:
        """(terms that are the same in every round and turn, the others)"""
        moving = self.changing | ({c.u} if c.u is not None else set())
        fixed = {f: k for f, k in p.items() if not any(mentions(x, moving) for x in f)}
        return fixed, minus(p, fixed)

    def _source(self, c: _Copies, e: Expr) -> Expr:
        e = self._short(c, e)
        fixed, rest = self._split(c, polynomial(e))
        if not fixed or not rest:
            return e
        return add(self._kept(from_polynomial(fixed, e.type), f"{c.copy.src.name}_at"), from_polynomial(rest, e.type))

    def _valid(self, c: _Copies, e: Expr) -> Expr:
        if isinstance(e, Binary) and e.op == "&&":
            return Binary("&&", self._valid(c, e.a), self._valid(c, e.b))
        e = self._short(c, e)
        if not mentions(e, self.changing | ({c.u} if c.u is not None else set())):
            return e if is_const(e) else self._kept(e, f"{c.copy.src.name}_in")
        if not isinstance(e, Binary) or e.op not in ("<", "<=") or not isinstance(e.a.type, Scalar):
            return e
        fixed, rest = self._split(c, minus(polynomial(e.b), polynomial(e.a)))
        limit = from_polynomial(fixed, e.a.type)
        if not is_const(limit):
            limit = self._kept(limit, f"{c.copy.src.name}_left")
        return Binary(e.op, from_polynomial(scaled(rest, -1), e.a.type), limit)

    def _kept(self, e: Expr, name: str) -> Expr:
        """A name in front of the loop for ``e``."""
        known = next((d.sym for d in self.front if d.init == e), None)
        if known is None:
            t = e.type
            assert isinstance(t, Scalar) and (t == BOOL or t.is_int)
            known = fresh(name, t)
            self.front.append(Decl(known, e, const=True))
        return Var(known)


__all__ = ["spread"]
