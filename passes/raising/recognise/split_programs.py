"""Split thread programs as parallel loops, with the values of each thread carried from loop to loop."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.fold import i32
from ktc.ir.nodes import Alloc, Body, Decl, Expr, For, HwIndex, If, Level, Par, Reduce, Scan, Stmt, Sym, Var, fresh
from ktc.ir.storage import is_local_array
from ktc.ir.types import I32
from ktc.ir.walk import declared, mentions, rename, substitute, used, walk
from ktc.passes.raising.normalise.privates import Rows, expandable, prologue, recomputable, row_type, touched

from .items import Control, Item, Plain, Segment, Team
from .statement_kinds import Left, with_hardware


@dataclass
class Emitter:
    """Writes one team's items; ``varying`` are the symbols that each thread has its own value of."""

    team: Team
    varying: frozenset[Sym]

    def emit(self, items: list[Item], body: Body) -> Body:
        """The items of ``body`` as loops.

        Raises:
            Left: when a value cannot be carried from one loop to the next.
        """
        segments: dict[int, tuple[Segment, int]] = {}
        _collect(items, 0, segments)
        varying = self.varying
        source = tuple(s for seg, _ in segments.values() for s in seg.all)
        again = recomputable(body + source, varying)
        where: dict[Sym, set[int]] = {}
        home: dict[Sym, int] = {}
        private = (varying | {d for d in declared(source) if not hasattr(d.type, "space")}) - again.keys()
        private -= {s.var for s in walk(source) if isinstance(s, For)}
        private |= {s.sym for s in walk(source) if isinstance(s, Alloc) and is_local_array(s.sym)}
        for key, (seg, _) in segments.items():
            bare = {s.sym for s in seg.all if isinstance(s, Decl | Alloc) and _bare(s)}
            used = touched(tuple(s for s in seg.all if not _bare(s)), seg.values)
            for sym in sorted(used, key=lambda s: s.id):  # sets come in another order in every process
                if sym in private and (not hasattr(sym.type, "space") or is_local_array(sym)):
                    where.setdefault(sym, set()).add(key)
            for sym in {s.sym for s in walk(tuple(seg.all)) if isinstance(s, Decl | Alloc)}:
                home.setdefault(sym, key)
            for sym in bare:
                home[sym] = key
            if seg.scan is not None:
                home[seg.scan.acc.sym] = key
        rows: dict[Sym, Sym] = {}
        self.shape = tuple(n for _, _, n in reversed(self.team.axes)) or (i32(1),)  # a block of one thread has a row
        for sym, keys in where.items():
            at = home.get(sym)
            depth = segments[at][1] if at in segments else 0  # type: ignore[index]
            if keys == {at} or (len(keys) == 1 and segments[next(iter(keys))][1] == depth):
                continue
            if not expandable(sym, source):
                raise Left("E-RAISE-CARRIED", f"'{sym.name}' lives across a barrier and cannot be kept per thread",
                           None)  # fmt: skip
            rows[sym] = fresh(sym.name, row_type(sym, self.shape))
        self.again, self.rows = again, rows
        self.moved: dict[int, list[Stmt]] = {}
        for sym, keys in where.items():
            if sym not in rows and home.get(sym) not in keys:
                decl = next((s for s in walk(source) if isinstance(s, Decl | Alloc) and s.sym == sym), None)
                if decl is not None:
                    self.moved.setdefault(next(iter(keys)), []).append(decl)
        self.bare_dropped = {sym for sym in where if sym not in rows and home.get(sym) not in where[sym]}
        return _placed([Alloc(r) for r in rows.values()], self._body(items))

    def _body(self, items: list[Item]) -> Body:
        out: list[Stmt] = []
        for item in items:
            if isinstance(item, Plain):
                out.append(item.stmt)
            elif isinstance(item, Control):
                bodies = [self._body(p) for p in item.parts]
                s = item.stmt
                if isinstance(s, If):
                    out.append(dataclasses.replace(s, then=bodies[0], orelse=bodies[1]))
                else:
                    out.append(dataclasses.replace(s, body=bodies[0]))
            else:
                out += self._loops(item)
        return tuple(out)

    def _loops(self, seg: Segment) -> Body:
        stmts = tuple(s for s in seg.stmts if not (isinstance(s, Decl | Alloc) and s.sym in self.bare_dropped))
        stmts = (*self.moved.get(id(seg), ()), *stmts)
        if seg.scan is not None:
            return self._running(seg, seg.scan, stmts)
        if not stmts and not seg.accs:
            return ()
        first = prologue((*stmts, *(Decl(fresh("_", I32), a.value) for a in seg.accs)), self.again)
        env = {d.sym: fresh(d.sym.name, d.sym.type) for d in (*first, *stmts) if isinstance(d, Decl)
               and d.sym in self.again}  # fmt: skip
        loop_vars = [fresh(name, I32) for _, name, _ in self.team.axes]
        hw: dict[HwIndex, Expr] = {HwIndex("thread", a): Var(v) for (a, _, _), v in zip(self.team.axes, loop_vars)}
        rows = Rows(tuple(Var(v) for v in reversed(loop_vars)) or (i32(0),), self.rows)
        body = rename(with_hardware(rows.apply((*first, *stmts)), hw), env)
        accs = [dataclasses.replace(a, value=_one_expr(rows, a.value, hw, env)) for a in seg.accs]
        loc = next((s.loc for s in seg.stmts if s.loc), None)
        for (axis, _, n), v in zip(self.team.axes, loop_vars):
            dist = (Level("thread", n, axis),)
            tags = frozenset({f"loop:{v.name}"})
            if not accs:
                body = (Par(v, i32(0), n, dist, body, loc=loc, tags=tags),)
                continue
            last = axis == self.team.axes[-1][0]
            syms = [a.sym if last else fresh(a.sym.name, a.sym.type) for a in accs]
            here = tuple(dataclasses.replace(a, sym=s) for a, s in zip(accs, syms))
            body = (Reduce(here, v, i32(0), n, dist, body, loc=loc, tags=tags),)
            accs = [dataclasses.replace(a, value=Var(s)) for a, s in zip(accs, syms)]
        return body

    def _running(self, seg: Segment, scan: Scan, stmts: Body) -> Body:
        """A scan over the team, of one axis; what follows sees the running value."""
        ((axis, name, n),) = self.team.axes
        v = fresh(name, I32)
        hw: dict[HwIndex, Expr] = {HwIndex("thread", axis): Var(v)}
        after = tuple(s for s in seg.after if not (isinstance(s, Decl | Alloc) and s.sym in self.bare_dropped))
        first = prologue((*stmts, *after, Decl(fresh("_", I32), scan.acc.value)), self.again)
        env = {d.sym: fresh(d.sym.name, d.sym.type) for d in (*first, *stmts, *after) if isinstance(d, Decl)
               and d.sym in self.again}  # fmt: skip
        rows = Rows((Var(v),), self.rows)
        body, then = (rename(with_hardware(rows.apply(b), hw), env) for b in ((*first, *stmts), after))
        seen = {s.sym: Var(scan.acc.sym) for s in then if isinstance(s, Decl) and s.init == Var(scan.acc.sym)}
        then = substitute(tuple(s for s in then if not (isinstance(s, Decl) and s.sym in seen)), seen)
        acc = dataclasses.replace(scan.acc, value=_one_expr(rows, scan.acc.value, hw, env))
        tags = frozenset({f"loop:{v.name}"})
        return (dataclasses.replace(scan, acc=acc, var=v, hi=n, body=body, then=then, tags=tags),)


def _one_expr(rows: Rows, e: Expr, hw: dict[HwIndex, Expr], env: dict[Sym, Sym]) -> Expr:
    s = rename(with_hardware(rows.apply((Decl(fresh("_", I32), e),)), hw), env)[0]
    assert isinstance(s, Decl) and s.init is not None
    return s.init


def _placed(rows: list[Alloc], body: Body) -> Body:
    """``body`` with each of ``rows`` before its first use, inside the condition that all its uses stand under."""
    for row in rows:
        body = _placed_one(row, body)
    return body


def _placed_one(row: Alloc, body: Body) -> Body:
    uses = [k for k, s in enumerate(body) if row.sym in mentions(s)]
    first = uses[0] if uses else 0
    s = body[first] if len(uses) == 1 else None
    if isinstance(s, If) and not s.orelse and row.sym not in used(s.cond):
        return (*body[:first], dataclasses.replace(s, then=_placed_one(row, s.then)), *body[first + 1 :])
    return (*body[:first], row, *body[first:])


def _bare(s: Stmt) -> bool:
    return (isinstance(s, Decl) and s.init is None) or isinstance(s, Alloc)


def _collect(items: list[Item], depth: int, out: dict[int, tuple[Segment, int]]) -> None:
    for item in items:
        if isinstance(item, Segment):
            out[id(item)] = (item, depth)
        elif isinstance(item, Control):
            for n, p in enumerate(item.parts):
                _collect(p, id(item) * 2 + n, out)
