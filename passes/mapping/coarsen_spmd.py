"""Copies of the work of threads or blocks inside one, for kernels in SPMD form: thread loops between barriers.

Every stretch of code without a barrier is run once per copy, in a loop over the copies. A private variable that lives
across stretches becomes an array with one element per copy. Control around a barrier has to be the same for all copies,
and is kept once; so is a loop with uniform bounds, which gives the copies' work in each of its iterations to the
device's scheduler at once (unroll and jam). Stretches before and after a barrier stay apart, so no copy overtakes one.

After Stratton et al., "MCUDA: an efficient implementation of CUDA kernels for multi-core CPUs" (LCPC 2008), whose
thread loops these are, and Magni et al., "A large-scale cross-architecture evaluation of thread-coarsening" (SC 2013).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass, field

from ktc.ir.fold import add, binary, cast, mul
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Binary,
    Body,
    Break,
    Continue,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Load,
    Stmt,
    Store,
    Sym,
    Var,
    While,
    bodies,
    fresh,
    i32,
)  # fmt: skip
from ktc.ir.purity import is_movable
from ktc.ir.storage import is_shared
from ktc.ir.types import I32, U32, Array, Scalar
from ktc.ir.walk import assigned, declared, map_body, map_stmt_exprs, stmt_exprs, used, walk, with_bodies

from .coarsen_legality import guards_as_returns, returns_as_guards, synchronises
from .work_copies import is_uniform, varying_symbols

DIMENSIONS = {"thread": "block_dim", "block": "grid_dim"}


@dataclass(frozen=True)
class Copies:
    """Which index is coarsened: ``n`` copies each, strided by the new extent or contiguous.

    ``total`` is the old extent where the new one times ``n`` may be more (``tail``: copies beyond it do nothing).
    """

    index: HwIndex
    n: Expr
    strided: bool
    total: Expr | None = None
    tail: bool = False

    @property
    def extent(self) -> HwIndex:
        return HwIndex(DIMENSIONS[self.index.level], self.index.axis)

    def at(self, c: Expr) -> Expr:
        """The old index that copy ``c`` stands for (u32)."""
        k = cast(c, U32)
        if self.strided:
            return add(self.index, mul(k, self.extent))
        return add(mul(self.index, cast(self.n, U32)), k)

    def old_extent(self) -> Expr:
        return cast(self.total, U32) if self.total is not None else mul(self.extent, cast(self.n, U32))


# ------------------------------------------------------------------------------------------------------- the copies


def copied(body: Body, copies: Copies) -> Body:
    """``body`` with each stretch between barriers run once per copy."""
    source, body = body, returns_as_guards(body)
    job = _Job(copies, varying_symbols(body, copies.index))
    job.once = job.shared_by_all(body)
    job.counters = job.counters_of(body)
    job.once |= job.counters
    job.expand(body)
    done = job.run(body)
    return done if body is source else guards_as_returns(done)


@dataclass
class _Job:
    copies: Copies
    varying: Collection[Sym | HwIndex]
    once: frozenset[Sym] = frozenset()  # named values that are the same for all copies: computed once
    counters: frozenset[Sym] = frozenset()  # those of them that change
    arrays: dict[Sym, Sym] = field(default_factory=dict)  # private symbol -> its array of copies

    def shared_by_all(self, body: Body) -> frozenset[Sym]:
        changed = assigned(body)
        named = {s.sym: s for s in walk(body) if isinstance(s, Decl | Alloc)}
        out: set[Sym] = set()
        for sym, s in named.items():  # in source order: what an initialiser mentions comes first
            if isinstance(s, Decl) and s.init is not None and isinstance(sym.type, Scalar):
                same = sym not in self.varying and sym not in changed and is_movable(s.init)
                if same and all(u in out or u not in named for u in used(s.init)):
                    out.add(sym)
        return frozenset(out)

    def counters_of(self, body: Body) -> frozenset[Sym]:
        """Variables that control what is kept once, and change where all copies stand together."""
        control = {v for s in walk(body) if self._kept(s) and synchronises(s) for v in used(s.cond)}  # type: ignore[attr-defined]
        here = [s for part in self._stretches(body) for s in part]
        named = {s.sym: s for s in here if isinstance(s, Decl) and isinstance(s.sym.type, Scalar)}
        private = {s.sym for s in walk(body) if isinstance(s, Decl | Alloc)} - self.once
        changes = [s for s in here if isinstance(s, Assign)]
        every = [s.sym for s in walk(body) if isinstance(s, Assign)]
        found = {v for v in control & named.keys() if v not in self.varying and v in every}
        while True:
            values = {v: [s.value for s in changes if s.sym == v] for v in found}
            values = {v: [*es, *([e] if (e := named[v].init) is not None else [])] for v, es in values.items()}
            bad = {
                v for v, es in values.items()
                if sum(s.sym == v for s in changes) != every.count(v)
                or not all(is_movable(e) and not used(e) & (private - found) for e in es)
            }  # fmt: skip
            if not bad:
                return frozenset(found)
            found -= bad

    def _changes(self, s: Stmt) -> bool:
        """Whether ``s`` gives a counter its next value: all copies have to be done with the last one."""
        return isinstance(s, Decl | Assign) and s.sym in self.counters

    def expand(self, body: Body) -> None:
        """Find the symbols that need one element per copy: used in another stretch than the one that declares them."""
        mine = {s.sym for s in walk(body) if isinstance(s, Decl | Alloc)} - self.once
        seen: dict[Sym, int] = {}
        for number, part in enumerate(self._stretches(body)):
            for sym in set().union(*map(_mentioned, part)) & mine:
                if seen.setdefault(sym, number) != number and not is_shared(sym):
                    self._make_array(sym)
        if self.copies.index.level == "block":
            for sym in filter(is_shared, mine):
                self._make_array(sym)

    def _make_array(self, sym: Sym) -> None:
        t = sym.type
        shape = (self.copies.n, *t.shape) if isinstance(t, Array) else (self.copies.n,)
        elem = t.elem if isinstance(t, Array) else t
        self.arrays.setdefault(sym, fresh(sym.name, Array(elem, shape, getattr(t, "space", "local"))))

    def _stretches(self, body: Body) -> list[list[Stmt]]:
        """The statements that run together, per stretch; statements kept once open their own lists."""
        out: list[list[Stmt]] = [[]]
        for s in body:
            if isinstance(s, Barrier):
                out += [[s], []]
            elif self._kept(s) or self._changes(s):
                out.append([])
                if not self._changes(s):
                    out[-1] = [with_bodies(s, lambda _: ())]
                for b in bodies(s):
                    out += [part for part in self._stretches(b) if part]
                out.append([])
            else:
                out[-1].append(s)
        return [part for part in out if part]

    def _kept(self, s: Stmt) -> bool:
        """Control that is executed once, with the copies inside."""
        if not isinstance(s, If | For | While) or not is_uniform(s, self.varying):
            return False
        if synchronises(s):
            return True
        if not isinstance(s, For) or s.var in assigned(s.body):
            return False
        return not any(isinstance(x, Break | Continue) for x in walk(s.body))

    def run(self, body: Body) -> Body:
        out: list[Stmt] = []
        stretch: list[Stmt] = []

        def close() -> None:
            if stretch:
                out.extend(self._per_copy(tuple(stretch)))
                stretch.clear()

        for s in body:
            if isinstance(s, Barrier) or self._changes(s):
                close()
                out.append(self._head(s))
            elif isinstance(s, Decl | Alloc) and s.sym in self.arrays:
                out.append(
                    Alloc(
                        self.arrays[s.sym],
                        align=getattr(s, "align", 0),
                        loc=s.loc,
                        comments=s.comments,
                    )
                )
                if isinstance(s, Decl) and s.init is not None:
                    stretch.append(Assign(s.sym, s.init, loc=s.loc))
            elif isinstance(s, Alloc) and is_shared(s.sym):
                out.append(s)
            elif isinstance(s, Decl) and s.sym in self.once:
                out.append(self._head(s))
            elif self._kept(s):
                close()
                out.append(with_bodies(self._head(s), self.run))
            else:
                stretch.append(s)
        close()
        return tuple(out)

    def _head(self, s: Stmt) -> Stmt:
        """What is executed once: the first copy's values, which are every copy's."""
        return map_stmt_exprs(s, lambda e: self._expr(e, i32(0)))

    def _per_copy(self, stretch: Body) -> Body:
        c = fresh("c", I32)
        inner = map_body(stretch, lambda s: self._stmt(s, Var(c)), lambda e: self._expr(e, Var(c)))
        if self.copies.tail:
            assert self.copies.total is not None
            inner = (If(Binary("<", self.copies.at(Var(c)), cast(self.copies.total, U32)), inner),)
        loop = For(c, i32(0), Binary("<", Var(c), self.copies.n), binary("+", Var(c), i32(1)), inner, unroll=0)
        return (loop,)

    def _expr(self, e: Expr, c: Expr) -> Expr:
        if e == self.copies.index:
            return self.copies.at(c)
        if e == self.copies.extent:
            return self.copies.old_extent()
        if isinstance(e, Var) and e.sym in self.arrays:
            return Load(self.arrays[e.sym], (c,))
        buffer = getattr(e, "buffer", None)
        if buffer in self.arrays:
            return dataclasses.replace(e, buffer=self.arrays[buffer], index=(c, *e.index))  # type: ignore
        return e

    def _stmt(self, s: Stmt, c: Expr) -> Stmt | Body:
        if isinstance(s, Assign) and s.sym in self.arrays:
            return Store(self.arrays[s.sym], (c,), s.value, loc=s.loc, comments=s.comments)
        if isinstance(s, Store | Atomic) and s.buffer in self.arrays:
            s = dataclasses.replace(s, buffer=self.arrays[s.buffer], index=(c, *s.index))
        if isinstance(s, Atomic) and s.dst is not None and s.dst in self.arrays:
            old = fresh(s.dst.name, s.dst.type)
            kept = Store(self.arrays[s.dst], (c,), Var(old))
            return (Decl(old), dataclasses.replace(s, dst=old), kept)
        return s


def _mentioned(s: Stmt) -> set[Sym]:
    """Symbols that ``s`` reads, writes or declares, nested statements included."""
    out: set[Sym] = set(declared((s,))) | assigned((s,))
    for x in walk((s,)):
        for e in stmt_exprs(x):
            out |= used(e)
    return out
