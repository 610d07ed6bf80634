"""Runs statements symbolically up to the second compare-and-swap of one element: what retries do, seen twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ktc.ir.fold import fold_node
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Body,
    Break,
    Const,
    Continue,
    Decl,
    Expr,
    For,
    If,
    Stmt,
    Store,
    Unary,
    Var,
    While,
    fresh,
)
from ktc.ir.types import BOOL, Array, Scalar, Vec
from ktc.ir.walk import map_expr

from .symbolic_state import Attempt, Exit, Place, Run, Segment, Slot, Unclear, as_bits

LONGEST = 64
"""Turns of loops and branches that one run may take."""

Ways = list[tuple[str, Run]]
"""How a statement may go on: ``next``, ``break`` or ``continue``."""


class SymbolicRun:
    """A run of ``body``. ``outputs``: the variables that are wanted afterwards."""

    def __init__(self, place: Place, outputs: set[Slot]) -> None:
        self.place = place
        self.outputs = outputs
        self.steps = 0

    def of(self, body: Body) -> Segment:
        """The first segment, with those that follow its attempts.

        Raises:
            Unclear: a statement does what no update of one element does, or a condition after success is not decided.
        """
        first = Segment()
        for way, run in self._body(body, [Run(self.place, first)]):
            if way != "next":
                raise Unclear
            run.segment.asked.update(self.outputs - run.fresh_sets)
            if run.succeeded is not None:
                run.succeeded.ends.append(run.values)
            else:
                run.segment.exits.append(Exit(run.guards, run.seen, run.values))
        return first

    def _body(self, body: Body, runs: list[Run]) -> Ways:
        ways: Ways = [("next", r) for r in runs]
        for s in body:
            ways = [
                after for way, run in ways for after in (self._statement(s, run) if way == "next" else [(way, run)])
            ]
        return ways

    def _statement(self, s: Stmt, run: Run) -> Ways:
        self.steps += 1
        if self.steps > LONGEST * 4:
            raise Unclear
        act = _ACTS.get(type(s))
        if act is None:
            raise Unclear
        return act(self, s, run)

    # ---------------------------------------------------------------------------------------------------- variables

    def _decl(self, s: Decl, run: Run) -> Ways:
        if not isinstance(s.sym.type, Scalar | Vec):
            raise Unclear
        run.set(s.sym, Var(s.sym) if s.init is None else run.value(s.init))
        return [("next", run)]

    def _alloc(self, s: Alloc, run: Run) -> Ways:
        if not (isinstance(s.sym.type, Array) and s.sym.type.space == "local"):
            raise Unclear
        return [("next", run)]

    def _assign(self, s: Assign, run: Run) -> Ways:
        run.set(s.sym, run.value(s.value))
        return [("next", run)]

    def _store(self, s: Store, run: Run) -> Ways:
        slot = run.slot(s.buffer, s.index)
        if slot is None or s.width != 1:
            raise Unclear
        run.set(slot, run.value(s.value))
        return [("next", run)]

    # ------------------------------------------------------------------------------------------------------ atomics

    def _atomic(self, s: Atomic, run: Run) -> Ways:
        if s.buffer != self.place.buffer or run.index(s.index) != self.place.index:
            raise Unclear
        if s.op == "load":
            found = run.observation()
            if s.dst is not None:
                run.set(s.dst, found)
            return [("next", run)]
        if s.op != "cas" or run.succeeded is not None:
            raise Unclear
        assert s.compare is not None
        missed = fresh("found", self.place.elem)
        compare, value = run.value(s.compare), run.value(s.value)
        attempt = Attempt(compare, value, list(run.guards), set(run.seen), missed)
        run.segment.attempts.append(attempt)
        done = run.copy()
        done.succeeded = attempt
        if s.dst is not None:
            done.set(s.dst, compare)
        return [("next", done), *self._failed(s, attempt, run)]

    def _failed(self, s: Atomic, attempt: Attempt, run: Run) -> Ways:
        """The run after a failure, unless it is the second one: it goes on as the first did."""
        run = run.copy()
        if s.dst is not None:
            run.values[s.dst] = Var(attempt.missed)
        attempt.after = dict(run.values)
        if run.is_retry:
            return []
        attempt.retry = run.segment = Segment()
        run.guards, run.fresh_sets, run.is_retry = [], set(), True
        run.seen = {attempt.missed}
        run.unequal = as_bits(Var(attempt.missed)), as_bits(attempt.compare)
        return [("next", run)]

    # ------------------------------------------------------------------------------------------------------ control

    def _decided(self, cond: Expr, run: Run) -> list[tuple[bool, Run]]:
        known = dict(run.guards)
        e = map_expr(run.value(cond), lambda x: fold_node(Const(known[x], BOOL) if x in known else x))
        if isinstance(e, Const):
            return [(bool(e.value), run)]
        if run.succeeded is not None:
            raise Unclear
        turned = False
        while isinstance(e, Unary) and e.op == "!":
            e, turned = e.x, not turned
        out = []
        for truth in (True, False):
            way = run.copy()
            way.guards.append((e, truth))
            out.append((truth != turned, way))
        return out

    def _if(self, s: If, run: Run) -> Ways:
        return [
            w for truth, way in self._decided(s.cond, run) for w in self._body(s.then if truth else s.orelse, [way])
        ]

    def _while(self, s: While, run: Run) -> Ways:
        return self._loop(s.cond, s.body, run, s.post, lambda r: None)

    def _for(self, s: For, run: Run) -> Ways:
        run.set(s.var, run.value(s.init))
        return self._loop(s.cond, s.body, run, False, lambda r: r.set(s.var, r.value(s.step)))

    def _loop(self, cond: Expr, body: Body, run: Run, post: bool, step: Callable[[Run], None]) -> Ways:
        out: Ways = []
        pending = [(run, post)]
        while pending:
            self.steps += 1
            if self.steps > LONGEST:
                raise Unclear
            run, entered = pending.pop()
            for truth, way in [(True, run)] if entered else self._decided(cond, run):
                if not truth:
                    out.append(("next", way))
                    continue
                for signal, after in self._body(body, [way]):
                    if signal == "break":
                        out.append(("next", after))
                        continue
                    step(after)
                    pending.append((after, False))
        return out

    def _jump(self, s: Stmt, run: Run) -> Ways:
        return [("break" if isinstance(s, Break) else "continue", run)]


_ACTS: dict[type, Callable[[SymbolicRun, Any, Run], Ways]] = {
    Decl: SymbolicRun._decl, Alloc: SymbolicRun._alloc, Assign: SymbolicRun._assign, Store: SymbolicRun._store,
    Atomic: SymbolicRun._atomic, If: SymbolicRun._if, While: SymbolicRun._while, For: SymbolicRun._for,
    Break: SymbolicRun._jump, Continue: SymbolicRun._jump,
}  # fmt: skip


__all__ = ["SymbolicRun"]
