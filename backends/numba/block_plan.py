"""Split an SPMD body at its barriers: a plan of what runs once a block and what runs for every thread in turn.

::

    s[tid] = x            Threads [s[tid] = x]
    __syncthreads()
    for (k = n/2; k; k /= 2) {      Loop k (once a block):
        if (tid < k) s[tid] += s[tid + k]       Threads [if (tid < k) ...]
        __syncthreads()
    }

A variable that one ``Threads`` item writes and another reads becomes an array with one element a thread. Control flow
around barriers runs once a block where it is uniform, and otherwise under a per-thread mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ktc.ir.nodes import (
    VOTES,
    Alloc,
    Assign,
    Barrier,
    Body,
    Call,
    Decl,
    For,
    If,
    Load,
    Stmt,
    Sym,
    WarpOp,
    While,
    fresh,
)  # fmt: skip
from ktc.ir.types import BOOL, I8, Array, Scalar
from ktc.ir.walk import assigned, declared, loads_in, mentions, stmt_exprs, used, walk, walk_expr

from .block_uniform import Uniformity
from .explicit_flow import synchronises
from .numba_types import unsupported
from .plan_items import Branch, Item, LaneRead, LaneStore, Loop, MaskedLoop, Once, SetMask, Threads


@dataclass
class Plan:
    """A body as ``items`` in order: loops over threads between barriers, and the ``masks`` and ``lanes`` they use."""

    items: list[Item]
    masks: list[Sym] = field(default_factory=list)
    lanes: list[Sym] = field(default_factory=list)
    spread: set[Sym] = field(default_factory=set)  # variables with one element a thread
    again: dict[Sym, Decl] = field(default_factory=dict)  # cheap ones, computed anew in every region that reads them

    def recomputed(self, mentioned: set[Sym], here: set[Sym]) -> list[Decl]:
        """The declarations to repeat in a region that mentions ``mentioned`` and declares ``here``, in order."""
        wanted = (mentioned & self.again.keys()) - here
        for sym in reversed(self.again):
            if sym in wanted:
                wanted |= (symbols(self.again[sym]) & self.again.keys()) - here
        return [d for s, d in self.again.items() if s in wanted]


class Planner:
    """Builds the plan of one kernel body (flow already made explicit)."""

    def __init__(self, body: Body) -> None:
        self.uniformity = Uniformity(body)
        self.plan = Plan([])
        self._inner = {s for x in walk(body) if not isinstance(x, Decl) for b in _nested(x) for s in _assigned_in(b)}
        self.plan.items = self._items(body, None)
        self.plan.spread = _spread(self.plan.items) & _private(body)
        self.plan.again = self._cheap(body)
        self.plan.spread -= self.plan.again.keys()

    def _cheap(self, body: Body) -> dict[Sym, Decl]:
        """Spread scalars that are arithmetic on what never changes (``tid % 32``): recomputed rather than kept."""
        changing = assigned(body) | {s.var for s in walk(body) if isinstance(s, For)}
        local = set(declared(body))
        out: dict[Sym, Decl] = {}
        fixed = {s.sym for s in walk(body) if isinstance(s, Decl) and s.sym not in self.uniformity.varying} - changing
        for s in walk(body):
            if isinstance(s, Decl) and s.init is not None and s.sym in self.plan.spread and s.sym not in changing:
                pure = not any(isinstance(e, Load | Call | WarpOp) for e in walk_expr(s.init))
                known = all(v not in local or v in out or v in fixed for v in used(s.init))
                if pure and known and isinstance(s.sym.type, Scalar):
                    out[s.sym] = Decl(s.sym, s.init, s.const)
        return out

    def _once(self, s: Stmt) -> bool:
        """A scalar definition that can run once a block."""
        return (
            isinstance(s, Decl | Assign)
            and isinstance(s.sym.type, Scalar)
            and s.sym not in self.uniformity.varying
            and (s.sym not in self._inner)
        )

    def _items(self, body: Body, mask: Sym | None) -> list[Item]:
        out: list[Item] = []
        open_: list[Stmt] = []

        def flush() -> None:
            nonlocal open_
            if any(not isinstance(s, Alloc) for s in open_):
                out.append(Threads(open_, mask))
            open_ = []

        for s in body:
            if mask is None and self._once(s):
                reads = {x.buffer for e in stmt_exprs(s) for x in loads_in(e)}
                needs = {x for e in stmt_exprs(s) for x in used(e)} & assigned(tuple(open_))
                if needs or (reads and _written(open_)) or _mentions(open_, s.sym):  # type: ignore[attr-defined]
                    flush()
                out.append(Once(s))  # otherwise ahead of the open thread loop, so that it is not cut in two
            elif not synchronises(s):
                open_.append(s)
            elif isinstance(s, Barrier):
                if s.scope == "grid":
                    raise unsupported("a barrier across blocks", s.loc)
                flush()
            elif isinstance(s, Decl | Assign):
                open_ = self._warp_op(s, open_, flush)
            elif isinstance(s, If):
                flush()
                out.extend(self._branch(s, mask))
            elif isinstance(s, For | While):
                flush()
                out.extend(self._loop(s, mask))
            else:
                open_.append(s)
        flush()
        return out

    def _warp_op(self, s: Decl | Assign, open_: list[Stmt], flush) -> list[Stmt]:
        op = s.init if isinstance(s, Decl) else s.value
        assert isinstance(op, WarpOp)
        vote = op.kind in VOTES
        elem = I8 if vote else op.value.type
        lanes = fresh("lanes", Array(elem, (), "shared"))
        self.plan.lanes.append(lanes)
        open_.append(LaneStore(lanes=lanes, value=op.value, vote=vote))
        flush()
        return [LaneRead(sym=s.sym, lanes=lanes, op=op)]

    def _mask(self, name: str) -> Sym:
        mask = fresh(name, Array(BOOL, (), "shared"))
        self.plan.masks.append(mask)
        return mask

    def _branch(self, s: If, mask: Sym | None) -> list[Item]:
        if self.uniformity.uniform(s.cond):
            return [Branch(s.cond, self._items(s.then, mask), self._items(s.orelse, mask))]
        then = self._mask("taken")
        out: list[Item] = [SetMask(then, mask, s.cond)]
        if s.orelse:
            other = self._mask("not_taken")
            out.append(SetMask(other, mask, s.cond, negate=True))
            return [*out, *self._items(s.then, then), *self._items(s.orelse, other)]
        return [*out, *self._items(s.then, then)]

    def _loop(self, s: For | While, mask: Sym | None) -> list[Item]:
        heads = (s.init, s.cond, s.step) if isinstance(s, For) else (s.cond,)
        if all(self.uniformity.uniform(h) for h in heads) and not (
            isinstance(s, For) and s.var in self.uniformity.varying
        ):
            return [Loop(s, self._items(s.body, mask))]
        live = self._mask("active")
        inner = self._items(s.body, live)
        if isinstance(s, For):
            first = SetMask(live, mask, s.cond, before=(Decl(s.var, s.init),))
            again = SetMask(live, live, s.cond, before=(Assign(s.var, s.step),))
        else:
            first, again = SetMask(live, mask, None if s.post else s.cond), SetMask(live, live, s.cond)
        return [first, MaskedLoop(live, [*inner, again])]


def _nested(s: Stmt) -> Iterator[Body]:
    """Bodies of ``s`` that run inside a thread loop as a whole (they contain no barrier)."""
    from ktc.ir.nodes import bodies

    if not synchronises(s):
        yield from bodies(s)


def _assigned_in(body: Body) -> set[Sym]:
    return assigned(body) | set(declared(body))


def _written(stmts: list[Stmt]) -> set[Sym]:
    """Buffers that ``stmts`` store to (any of them may alias what is read)."""
    return {x for s in stmts for x in assigned((s,)) if not isinstance(x.type, Scalar)}


def _mentions(stmts: list[Stmt], sym: Sym) -> bool:
    return any(sym in symbols(s) for s in stmts)


def symbols(s: Stmt) -> set[Sym]:
    """Every symbol that ``s`` declares, reads or writes, nested statements included."""
    out = {*mentions(s), *declared((s,))}
    for x in walk((s,)):
        if isinstance(x, LaneRead):
            out.add(x.sym)
        if isinstance(x, LaneStore | LaneRead):
            out |= used(x.value) if isinstance(x, LaneStore) else used(x.op)
    return out


def leaves(items: list[Item]) -> Iterator[set[Sym]]:
    """The symbols of every region that is printed as one thread loop."""
    for item in items:
        if isinstance(item, Threads):
            yield {x for s in item.body for x in symbols(s)}
        elif isinstance(item, SetMask):
            yield {x for s in item.before for x in symbols(s)} | (used(item.cond) if item.cond is not None else set())
        elif isinstance(item, Branch):
            yield from leaves(item.then)
            yield from leaves(item.orelse)
        elif isinstance(item, Loop | MaskedLoop):
            yield from leaves(item.body)


def once_symbols(items: list[Item]) -> set[Sym]:
    """Variables that live once a block: defined there, or counters of uniform loops."""
    out: set[Sym] = set()
    for item in items:
        if isinstance(item, Once):
            out.add(item.stmt.sym)  # type: ignore[attr-defined]
        elif isinstance(item, Branch):
            out |= once_symbols(item.then) | once_symbols(item.orelse)
        elif isinstance(item, Loop | MaskedLoop):
            if isinstance(item, Loop) and isinstance(item.head, For):
                out.add(item.head.var)
            out |= once_symbols(item.body)
    return out


def _private(body: Body) -> set[Sym]:
    """What ``body`` declares for each thread: everything but shared arrays."""
    return {s for s in declared(body) if not (isinstance(s.type, Array) and s.type.space != "local")}


def _spread(items: list[Item]) -> set[Sym]:
    """Variables that more than one region mentions and that do not live once a block."""
    once = once_symbols(items)
    seen: dict[Sym, int] = {}
    for region in leaves(items):
        for s in region:
            seen[s] = seen.get(s, 0) + 1
    return {s for s, n in seen.items() if n > 1 and s not in once}
