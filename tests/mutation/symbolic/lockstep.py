"""A body for all threads of one block in lockstep, on symbols: what it leaves in variables, arrays and memory.

What a body finds is opaque. A statement that cannot be followed (a loop whose end is not known, an atomic) is an
unknown function of all that it reads: the same statement on the same terms leaves the same terms.
"""

from __future__ import annotations

from typing import Any

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Body,
    Break,
    Continue,
    Decl,
    Expr,
    For,
    If,
    Load,
    Return,
    Stmt,
    Store,
    Sym,
    WarpOp,
    While,
)  # fmt: skip
from ktc.ir.types import Array, Scalar, Vec
from ktc.ir.walk import all_exprs, assigned, declared, used, used_in, walk, walk_expr
from tests.mutation.maxima.progressions import progression, visit
from tests.mutation.sites import BRANCHES
from tests.mutation.zeros.formats import NONE, Held

from .effort import Lost, Spent
from .memories import Memories, Memory
from .symbolic_values import Active, Threads
from .terms import Term, Terms

ROUNDS = 80
MOST_WORK = 200_000
"""Statements times threads; beyond, there is no proof."""

IN_ROUNDS = (Decl, Assign, Store, Atomic, If, For, Barrier, Alloc)
"""Statements that nobody leaves a loop by, and that are followed round by round."""

PLAIN = (Decl, Alloc, Assign, Store, If, For, While, Break, Continue)
"""Statements that do no more than change variables and memory."""


class Run(Memories):
    """One run: ``env`` holds the variables of each thread, ``trace`` what others see in order."""

    def __init__(self, terms: Terms, kernel: Kernel, known: dict[Sym, Held], threads: Threads, period: int = 0) -> None:
        super().__init__(terms, kernel, known, threads)
        self.period = period
        self.env: list[dict[Sym, Term]] = [{} for _ in range(threads.count)]
        self.uniform = {p.sym for p in kernel.params}
        self.lasting = _lasting(kernel)
        self.trace: list[Any] = []
        self.work = 0
        self._written: dict[int, tuple[Stmt, set[Sym]]] = {}

    # ------------------------------------------------------------------------------------------------- statements

    def body(self, body: Body, act: Active) -> Active:
        for s in body:
            if not act:
                break
            self.work += len(act)
            if self.work > MOST_WORK:
                raise Lost
            names = self._writes(s)
            found = [{sym: e[sym] for sym in names if sym in e} for e in self.env]
            before = dict(self.memory), list(self.trace)
            try:
                act = self.statement(s, act)
            except Lost as lost:
                if isinstance(lost, Spent) or leaves(s):
                    raise
                for e, values in zip(self.env, found):
                    for sym in names:
                        e.pop(sym, None)
                    e.update(values)
                self.memory, self.trace = before
                self._unknown(s, act)
        return act

    def _writes(self, s: Stmt) -> set[Sym]:
        """Variables that ``s`` gives values to, those of its own loops and definitions among them."""
        if id(s) not in self._written:
            self._written[id(s)] = s, {*assigned((s,)), *declared((s,))}
        return self._written[id(s)][1]

    def statement(self, s: Stmt, act: Active) -> Active:
        t = self.t
        if isinstance(s, Decl) and not isinstance(s.sym.type, Array | Vec):
            for k in act:
                self.env[k][s.sym] = self.of(s.init, k, act) if s.init is not None else t.make("undefined", s.sym)
        elif isinstance(s, Alloc) or (isinstance(s, Decl) and isinstance(s.sym.type, Array)):
            self._allocate(s.sym)
        elif isinstance(s, Assign) and isinstance(s.sym.type, Scalar):
            new = {k: self.of(s.value, k, act) for k in act}
            for k, v in new.items():
                self.env[k][s.sym] = t.choose(act[k], v, self.var(s.sym, k))
        elif isinstance(s, Store):
            self._store(s, act)
        elif isinstance(s, Barrier):
            self.trace.append(("barrier", s.scope, tuple(act.items())))
        elif isinstance(s, If):
            return self._if(s, act)
        elif isinstance(s, For):
            self._for(s, act)
        else:
            raise Lost
        return act

    def _if(self, s: If, act: Active) -> Active:
        conds = {k: self.of(s.cond, k, act) for k in act}
        yes = self._narrowed(act, conds)
        no = self._narrowed(act, {k: self.t.predicate("!", c) for k, c in conds.items()})
        if len(s.then) == 1 and isinstance(s.then[0], Return) and not s.orelse:
            return no
        if any(isinstance(x, Return) for x in walk((s,))):
            raise Lost
        for body, lanes in ((s.then, yes), (s.orelse, no)):
            self.body(body, lanes)
        return act

    def _narrowed(self, act: Active, conds: dict[int, Term]) -> Active:
        out = {}
        for k, c in conds.items():
            both = self.t.choose(act[k], c, self.t.const(False, "bool"))
            if self.t.node(both)[:2] != ("const", "False"):
                out[k] = both
        return out

    def _for(self, s: For, act: Active) -> None:
        maximum = progression(s) if self.period else None
        if maximum is not None and visit(self, maximum, act):
            return
        for k in act:
            self.env[k][s.var] = self.of(s.init, k, act)
        live = dict(act)
        for _ in range(ROUNDS):
            going = {}
            for k, pred in live.items():
                n = self.t.node(self.of(s.cond, k, live))
                if n[0] != "const":
                    raise Lost
                if n[1] == "True":
                    going[k] = pred
            live = going
            if not live:
                return
            if any(not isinstance(x, IN_ROUNDS) for x in walk(s.body)):
                raise Lost
            self.body(s.body, live)
            for k in live:
                self.env[k][s.var] = self.of(s.step, k, live)
        raise Lost

    def _unknown(self, s: Stmt, act: Active) -> None:
        """``s`` as a function of everything that the threads which come there read."""
        new = {s.sym} if isinstance(s, Decl) else set()
        inside = {*declared((s,)), *(x.var for x in walk((s,)) if isinstance(x, For))} - new
        reads = sorted((used_in((s,)) | assigned((s,))) - inside, key=lambda x: x.id)
        inputs: list[Any] = [tuple(act.items())]
        for sym in reads:
            if isinstance(sym.type, Scalar | Vec):
                inputs.append((sym, tuple(self.var(sym, k) for k in act)))
            else:
                inputs.append((sym, tuple(self._state_of(self._at(sym, k)[1]) for k in self._rows_of(sym, act))))
        what = self.t.make("effect", s, tuple(inputs))
        if not all(isinstance(x, PLAIN) for x in walk((s,))):
            self.trace.append(("effect", what))
        if _may_fail(s):
            self.note(("effect", what), self.t.const(True, "bool"))
        for sym in (assigned((s,)) | new) - inside:
            if isinstance(sym.type, Scalar | Vec):
                for k in act:
                    self.env[k][sym] = self.t.opaque(self.formats.get(sym, NONE), "after", what, sym, k)
            else:
                for row in self._rows_of(sym, act):
                    self.memory[sym, row] = Memory(self.t.make("memory after", what, sym, row))

    def _rows_of(self, sym: Sym, act: Active) -> list[int]:
        """Whose memory ``sym`` is, of the threads that are here: of an array of their own each has one."""
        return sorted(act) if self._rows(sym) > 1 else [0]

    def var(self, sym: Sym, k: int) -> Term:
        found = self.env[k].get(sym)
        if found is not None:
            return found
        if sym in self.lasting:
            found = self.env[k][sym] = self.of(self.lasting[sym], k, {k: self.t.const(True, "bool")})
            return found
        return self.t.opaque(self.formats.get(sym, NONE), "given", sym, None if sym in self.uniform else k)

    def give(self, sym: Sym, cell: int | None, k: int, value: Term) -> None:
        """Lets the thread ``k`` find ``value`` in a variable, or in an element of its array ``sym``."""
        if cell is None:
            self.env[k][sym] = value
            return
        key, m = self._at(sym, k)
        self.memory[key] = Memory(m.base, {**m.cells, (self.t.const(cell, "int"),): value}, m.numbers)

    def left(self, sym: Sym, k: int) -> Any:
        """What the thread ``k`` finds in ``sym`` in the end."""
        return self.var(sym, k) if isinstance(sym.type, Scalar | Vec) else self._state_of(self._at(sym, k)[1])

    def summary(self, outer: set[Sym]) -> Any:
        """What the body leaves behind."""
        variables = [
            tuple(self.var(s, k) for k in range(self.threads.count))
            for s in sorted(outer, key=lambda s: s.id)
            if isinstance(s.type, Scalar | Vec)
        ]
        memory = [
            (s, self._memory_state(s))
            for s in sorted(outer, key=lambda s: s.id)
            if not isinstance(s.type, Scalar | Vec)
        ]
        return variables, memory, self.trace


def _may_fail(s: Stmt) -> bool:
    """Whether ``s`` may be wrong to run, whoever uses what it gives: it has to do with memory, may never end, or lets
    lanes exchange values, of which some may not be there."""
    memory = any(not isinstance(x.type, Scalar | Vec) for x in used_in((s,)) | assigned((s,)))
    loops = any(isinstance(x, For | While) for x in walk((s,)))
    return memory or loops or any(isinstance(e, WarpOp) for e in all_exprs((s,)))


def leaves(s: Stmt) -> bool:
    """Whether threads may leave the body that ``s`` stands in there: fewer of them come to what follows."""
    if isinstance(s, Return | Break | Continue):
        return True
    if isinstance(s, For | While):
        return any(isinstance(x, Return) for x in walk(s.body))
    return any(leaves(x) for name in BRANCHES for x in getattr(s, name, ()))


def _lasting(kernel: Kernel) -> dict[Sym, Expr]:
    """Definitions of what keeps one value all through the kernel: of parameters, indices and each other, never assigned
    to. A body that stands further in finds these values."""
    changed = assigned(kernel.body)
    made = [s for s in walk(kernel.body) if isinstance(s, Decl)]
    once = {s.sym for s in made} - {s.sym for k, s in enumerate(made) if any(o.sym == s.sym for o in made[:k])}
    known = {p.sym for p in kernel.params if isinstance(p.sym.type, Scalar)} - changed
    found: dict[Sym, Expr] = {}
    for s in made:
        if s.init is None or any(isinstance(e, Load | WarpOp) for e in walk_expr(s.init)):
            continue
        if s.sym in once - changed and isinstance(s.sym.type, Scalar) and used(s.init) <= known | set(found):
            found[s.sym] = s.init
    return found


__all__ = ["Run"]
