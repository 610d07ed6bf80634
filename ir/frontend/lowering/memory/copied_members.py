"""Copies of whole objects, member by member: what nobody can see of them is not there.

``Body me = p[i]; ...; p[i] = me;`` loads every member and stores every member. A member that still holds what was
loaded from the place it is stored to is no write that any thread can see, and one that is never used is no read. To
keep them would say that threads race, and that iterations depend on each other, over members that the kernel leaves
alone.
"""

from __future__ import annotations

from collections.abc import Collection

from ktc.ir.kernel import Param
from ktc.ir.loop_nodes import bodies
from ktc.ir.nodes import (
    Assign,
    Binary,
    Break,
    Const,
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
    Var,
    While,
)
from ktc.ir.stmt_nodes import Alloc
from ktc.ir.walk import all_exprs, assigned, loads_in, map_body, used, used_in, walk

PLAIN = (Alloc, Assign, Break, Continue, Decl, For, If, Return, Store, While)
"""Statements that let no other thread's writes in: between a load and a store there are only such."""

Body = tuple[Stmt, ...]


def without_unseen_copies(body: Body, members: Collection[Sym], params: Collection[Param]) -> Body:
    """``body`` without stores of ``members`` of copied objects to where they came from, and without unused ones."""
    fixed = {s.sym for s in walk(body) if isinstance(s, Decl) and s.sym in members and _is_plain(s)} - assigned(body)
    if not fixed:
        return body
    apart = {p.sym for p in params if p.overlaps_nothing}
    apart |= {s.sym for s in walk(body) if isinstance(s, Alloc)}
    unseen: set[int] = set()
    _find(body, fixed, apart, unseen)
    body = map_body(body, lambda s: None if id(s) in unseen else s) if unseen else body
    unused = fixed - used_in(body)
    return map_body(body, lambda s: None if isinstance(s, Decl) and s.sym in unused else s) if unused else body


def _is_plain(s: Decl) -> bool:
    return isinstance(s.init, Load) and not _volatile(s.init)


def _volatile(e: Expr) -> bool:
    return isinstance(e, Load) and (e.cache == "volatile" or bool(getattr(e.buffer.type, "volatile", False)))


def _find(body: Body, fixed: Collection[Sym], apart: Collection[Sym], unseen: set[int]) -> None:
    for k, s in enumerate(body):
        for inner in bodies(s):
            _find(inner, fixed, apart, unseen)
        if isinstance(s, Decl) and s.sym in fixed and isinstance(s.init, Load):
            _stored_back(s, s.init, body[k + 1 :], apart, unseen)


def _stored_back(decl: Decl, load: Load, rest: Body, apart: Collection[Sym], unseen: set[int]) -> None:
    """Note the stores of ``decl`` in ``rest`` to where its value was loaded, as long as nothing else can be there."""
    at = {v for e in load.index for v in used(e)}
    if any(True for e in load.index for _ in loads_in(e)):
        return  # where the place is depends on memory
    for s in rest:
        inside = list(walk((s,)))
        back = [x for x in inside if isinstance(x, Store) and _is_back(x, decl, load)]
        others = [x for x in inside if isinstance(x, Store) and not _is_back(x, decl, load)]
        if not all(isinstance(x, PLAIN) for x in inside) or at & assigned((s,)):
            return
        if any(map(_volatile, all_exprs((s,)))):
            return  # it may wait for another thread
        if any(not _elsewhere(x, load, apart) for x in others):
            return
        unseen.update(map(id, back))


def _is_back(s: Store, decl: Decl, load: Load) -> bool:
    same = s.buffer == load.buffer and s.index == load.index and s.width == load.width
    return same and s.value == Var(decl.sym) and s.cache != "volatile"


def _elsewhere(s: Store, load: Load, apart: Collection[Sym]) -> bool:
    """Whether a store is known not to touch what ``load`` reads: another buffer's memory, or another member."""
    if s.buffer != load.buffer:
        return s.buffer in apart or load.buffer in apart
    if len(s.index) != len(load.index) or s.index[:-1] != load.index[:-1] or s.width != 1 or load.width != 1:
        return False
    (base, offset), (other, another) = _parts(s.index[-1]), _parts(load.index[-1])
    return base == other and offset != another


def _parts(e: Expr) -> tuple[Expr | None, int]:
    """An index as something and a constant that is added to it."""
    if isinstance(e, Const):
        return None, int(e.value)
    if isinstance(e, Binary) and e.op == "+" and isinstance(e.b, Const):
        return e.a, int(e.b.value)
    return e, 0
