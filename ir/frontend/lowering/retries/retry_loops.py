"""Compare-and-swap loops become the atomic updates that they are.

before                                              after
    var old: i32 = o[0] as.bit i32                      atomic max o[0], v
    do
      let assumed: i32 = old
      f = atomic cas o[0], max(v, assumed as.bit f32) compare assumed as.bit f32
      old = f as.bit i32
    while assumed != old

The statements that count are the largest that can be read so around a compare-and-swap: the loop, tests around it that
look at the element first, and the declarations before it. What follows may use the variables that they set.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Body,
    Const,
    Decl,
    Expr,
    For,
    If,
    Load,
    Stmt,
    Store,
    Sym,
    Var,
    While,
    bodies,
)
from ktc.ir.purity import is_removable
from ktc.ir.types import Array
from ktc.ir.walk import assigned, declared, map_body, stmt_exprs, used, used_in, walk, walk_expr, with_list_around

from .symbolic_run import SymbolicRun
from .symbolic_state import Slot, Unclear, place_of
from .update_kinds import Update, update_of


def with_updates(body: Body) -> Body:
    """``body`` with the compare-and-swap loops that are updates as such."""
    refused: set[int] = set()
    while True:
        swap = next((s for s in walk(body) if isinstance(s, Atomic) and s.op == "cas" and id(s) not in refused), None)
        if swap is None:
            return body
        found = next((new for new in (_replaced(body, r, swap) for r in _regions(body, swap)) if new), None)
        if found is None:
            refused.add(id(swap))
        else:
            body = found


@dataclasses.dataclass(frozen=True)
class _Region:
    """``before`` and ``last`` stand in a row in one list of statements, from ``start`` on; the swap is in ``last``."""

    start: int
    before: Body
    last: Stmt

    @property
    def whole(self) -> Body:
        return (*self.before, self.last)


def _regions(body: Body, swap: Atomic) -> Iterator[_Region]:
    """Outermost first."""
    for k, s in enumerate(body):
        if not any(x is swap for x in walk((s,))):
            continue
        if isinstance(s, If | While | For) and sum(isinstance(x, Atomic) for x in walk((s,))) == 1:
            start = k
            while start and _is_simple(body[start - 1], swap):
                start -= 1
            yield _Region(start, body[start:k], s)
        for inner in bodies(s):
            yield from _regions(inner, swap)


def _is_simple(s: Stmt, swap: Atomic) -> bool:
    """Whether ``s`` does nothing but set variables, and looks at no other element of the buffer."""
    if isinstance(s, Store | Alloc):
        t = (s.buffer if isinstance(s, Store) else s.sym).type
        if not (isinstance(t, Array) and t.space == "local"):
            return False
    elif isinstance(s, Atomic):
        return s.op == "load" and s.buffer == swap.buffer and s.index == swap.index
    elif not isinstance(s, Decl | Assign):
        return False
    return all(
        not (isinstance(x, Load) and x.buffer == swap.buffer) or x.index == swap.index
        for e in stmt_exprs(s)
        for x in walk_expr(e)
    )


def _replaced(body: Body, region: _Region, swap: Atomic) -> Body | None:
    """``body`` with ``region`` as an update; None where it is none."""
    rest = _spliced(body, region, ())
    assert rest is not None
    sets = {*assigned(region.whole), *declared(region.whole)} - {swap.buffer}
    same = set(declared(_kept(region, swap))) - assigned(region.whole)
    wanted: set[Slot] = {s for s in sets - same if s in used_in(rest) | _changed_elsewhere(rest)}
    try:
        place = place_of(swap.buffer, swap.index)
        run = SymbolicRun(place, wanted).of(_tracked(region, swap))
        update = update_of(run, place.elem, sorted(wanted, key=_by_id), set(declared(region.whole)))
        new = _statements(region, swap, update)
    except Unclear:
        return None
    done = _spliced(body, region, new)
    return None if done is None else _without_unused(done, sets)


def _by_id(s: Slot) -> int:
    return s.id if isinstance(s, Sym) else s[0].id


def _changed_elsewhere(rest: Body) -> set[Sym]:
    return {s.dst for s in walk(rest) if isinstance(s, Atomic) and s.dst is not None}


def _tracked(region: _Region, swap: Atomic) -> Body:
    """The region without variables that keep what they start with: those are known by their names."""
    changed = assigned(region.whole)
    return tuple(
        s
        for s in region.whole
        if not (
            isinstance(s, Decl)
            and s.sym not in changed
            and not isinstance(s.init, Const | None)
            and not _looks(s, swap, region)
        )
    )


def _statements(region: _Region, swap: Atomic, update: Update) -> Body:
    """What replaces the region: what does not depend on the element, the update, and what variables hold then."""
    kept = _kept(region, swap)
    changed = assigned(region.whole) - {swap.buffer}
    for e in (update.value, *swap.index, *(e for _, e in update.outputs)):
        if used(e) & (changed | (set(declared(region.whole)) - set(declared(kept)))):
            raise Unclear
        if any(isinstance(x, Load) and x.buffer == swap.buffer for x in walk_expr(e)):
            raise Unclear
    known = set(declared(kept))
    here = {s.sym for s in region.before if isinstance(s, Decl)} - known
    wants_old = any(update.old in used(e) for _, e in update.outputs)
    new: list[Stmt] = [Decl(update.old, loc=swap.loc)] if wants_old else []
    first = next((s for s in region.whole if s.comments and s not in kept), None)
    new.append(
        dataclasses.replace(
            swap, op=update.op, value=update.value, compare=None, dst=update.old if wants_old else None,
            comments=first.comments if first is not None else (),
        )
    )  # fmt: skip
    new += [Decl(sym, e, loc=swap.loc) if sym in here else Assign(sym, e, loc=swap.loc) for sym, e in update.outputs]
    return (*kept, *new)


def _kept(region: _Region, swap: Atomic) -> Body:
    """What stands before the loop and has nothing to do with the element."""
    return tuple(s for s in region.before if not _looks(s, swap, region))


def _looks(s: Stmt, swap: Atomic, region: _Region) -> bool:
    """Whether ``s`` reads the element, or a variable that does: it is part of the update."""
    seen: set[Sym] = set()
    for x in region.before:
        found = {y for e in stmt_exprs(x) for z in walk_expr(e) for y in _named(z)}
        looks = bool(found & (seen | {swap.buffer})) or isinstance(x, Atomic)
        if looks and not isinstance(x, Alloc):
            seen |= {t for t in (getattr(x, "sym", None), getattr(x, "buffer", None), getattr(x, "dst", None)) if t}
        if x is s:
            return looks
    return False


def _named(e: Expr) -> set[Sym]:
    return {e.buffer} if isinstance(e, Load) else {e.sym} if isinstance(e, Var) else set()


def _spliced(body: Body, region: _Region, new: Body) -> Body | None:
    """``body`` with ``new`` in the place of the region's statements."""
    return with_list_around(body, region.last, lambda before, rest: (*before[: region.start], *new, *rest))


def _without_unused(body: Body, sets: set[Sym]) -> Body:
    """``body`` without what set variables of the loop, of which nobody wants to know any more."""
    while True:
        wanted = used_in(body) | _changed_elsewhere(body)
        gone = {s for s in sets if s not in wanted and _is_local(s)}

        def on(s: Stmt, gone: set[Sym] = gone) -> Stmt | None:
            target = s.sym if isinstance(s, Decl | Assign | Alloc) else None
            return None if target in gone and all(map(is_removable, stmt_exprs(s))) else s

        new = map_body(body, on)
        if new is body:
            return body
        body = new


def _is_local(s: Sym) -> bool:
    return not isinstance(s.type, Array) or s.type.space == "local"


__all__ = ["with_updates"]
