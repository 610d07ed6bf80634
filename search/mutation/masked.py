"""Values that differ where nobody reads them: what a guard protects is used under that guard alone.

Unrolled over rows or columns that may not exist, a kernel keeps one value per copy in a private array and guards every
use: ``for u: if row + u < n: s[u] = 0; ...; for u: if row + u < n: out[row + u] = s[u]``. A first guard that lets more
through gives values to copies that nobody asks for.

Likewise an array may be smaller than declared where every subscript that it is ever given is proved to be in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Assign, Atomic, Body, Decl, Expr, For, HwIndex, If, Load, Return, Stmt, Store, Sym, Var
from ktc.ir.types import Array, Ptr, Scalar, Vec
from ktc.ir.walk import assigned, rename, stmt_exprs, substitute_expr, walk, walk_expr
from ktc.search.verification import smt

BRANCHES = ("then", "orelse", "body")

PLAIN = (Assign, Decl, Store, For, If)
"""Statements of a guarded body that do no more than give values."""


def sites(body: Body, context: smt.Context) -> Iterator[tuple[Stmt, smt.Context]]:
    """Every statement with what holds where it stands."""
    for s in body:
        yield s, context
        for name in BRANCHES:
            inner = getattr(s, name, ())
            if inner:
                inside = context.branch()
                inside.enter(s, name)
                yield from sites(inner, inside)
        context.after(s)


def masked(kernel: Kernel, s: If, other: Expr | None, context: smt.Context) -> bool:
    """Whether the body of ``s``, a statement of ``kernel`` without an else, may run wherever ``other`` holds (None:
    everywhere) instead of where its own guard does. ``context``: where it stands."""
    import z3

    if s.orelse or not context.lasting(s.cond) or (other is not None and not context.lasting(other)):
        return False
    if other is not None and not context.proves(z3.Implies(context.truth(s.cond), context.truth(other))):
        return False
    if any(not isinstance(x, PLAIN) for x in walk(s.then)) or _reads_buffers(s.then):
        return False
    given = _given(kernel, s)
    if given is None:
        return False
    targets, copy = given
    return all(_guarded(at, here, s, targets, copy) for at, here in sites(kernel.body, smt.Context(kernel)))


def _reads_buffers(body: Body) -> bool:
    return any(
        isinstance(e, Load) and isinstance(e.buffer.type, Ptr)
        for s in walk(body) for top in stmt_exprs(s) for e in walk_expr(top)
    )  # fmt: skip


def _given(kernel: Kernel, s: If) -> tuple[set[Sym], Sym | None] | None:
    """What the body of ``s`` gives values to, and the variable that all its first subscripts are (None for scalars);
    None where others than this thread, or this block at one guard, could see it."""
    targets: set[Sym] = assigned(s.then) - {x.sym for x in walk(s.then) if isinstance(x, Decl)}
    uniform = not any(isinstance(e, HwIndex) and e.level == "thread" for e in walk_expr(s.cond))
    copies: set[Expr | None] = set()
    for x in walk(s.then):
        if isinstance(x, Store):
            t = x.buffer.type
            if not isinstance(t, Array) or (
                t.space == "shared" and not (uniform and _only_launch(kernel, s.cond, x.index[0]))
            ):
                return None
            copies.add(x.index[0])
        elif isinstance(x, Assign) and x.sym in targets:
            if not isinstance(x.sym.type, Scalar):
                return None
            copies.add(None)
    if len(copies) != 1:
        return None
    copy = next(iter(copies))
    if copy is None:
        return targets, None
    return (targets, copy.sym) if isinstance(copy, Var) else None


def _only_launch(kernel: Kernel, cond: Expr, copy: Expr) -> bool:
    """Whether a guard is the same for all threads of a block: of variables it reads the copy and parameters only."""
    launched = {p.sym for p in kernel.params} - assigned(kernel.body)
    read = {e.sym for e in walk_expr(cond) if isinstance(e, Var)}
    return all(s in launched or Var(s) == copy for s in read)


def _guarded(at: Stmt, here: smt.Context, s: If, targets: set[Sym], copy: Sym | None) -> bool:
    """Whether ``at`` reads ``targets`` only where the guard of ``s`` holds for the copy that it reads."""
    if any(at is x for x in walk((s,))):
        return True
    for top in stmt_exprs(at):
        for e in walk_expr(top):
            if isinstance(e, Load) and e.buffer in targets:
                index = e.index[0]
            elif isinstance(e, Var) and e.sym in targets:
                index = None
            else:
                continue
            if (index is None) != (copy is None):
                return False
            guard = s.cond if copy is None or index is None else substitute_expr(s.cond, {copy: index})
            if not here.lasting(guard) or not here.proves(here.truth(guard)):
                return False
    return isinstance(at, (*PLAIN, Alloc, Return)) or not (assigned((at,)) & targets) or bool(_nested(at))


def _nested(s: Stmt) -> Body:
    return next((inner for name in BRANCHES if (inner := getattr(s, name, ()))), ())


def smaller_array(a: Kernel, b: Kernel) -> bool:
    """Whether ``b`` is ``a`` with one array of other extents, in which all its subscripts are proved to be."""
    mine, theirs = (_arrays(k) for k in (a, b))
    changed = [(x, y) for x, y in zip(mine, theirs) if x != y]
    if len(mine) != len(theirs) or len(changed) != 1:
        return False
    old, new = changed[0]
    t = new.type
    assert isinstance(t, Array)
    if not isinstance(old.type, Array) or replace(t, shape=()) != replace(old.type, shape=()):
        return False
    if rename(b.body, {new: old}) != a.body or len(t.shape) != len(old.type.shape):
        return False
    return all(_within(s, context, old, t.shape) for s, context in sites(a.body, smt.Context(a)))


def _arrays(kernel: Kernel) -> list[Sym]:
    return [s.sym for s in walk(kernel.body) if isinstance(s, Alloc | Decl) and isinstance(s.sym.type, Array)]


def _within(s: Stmt, context: smt.Context, array: Sym, shape: tuple[Expr, ...]) -> bool:
    """Whether ``s`` uses ``array`` by single elements inside ``shape`` alone, or by lanes of such (vector) elements."""
    import z3

    reads = [e for top in stmt_exprs(s) for e in walk_expr(top) if isinstance(e, Load) and e.buffer == array]
    accesses = [*reads, *([s] if isinstance(s, Store | Atomic) and s.buffer == array else [])]
    if not accesses:
        return isinstance(s, Alloc | Decl) or bool(_nested(s)) or array not in assigned((s,))
    for x in accesses:
        lane = 1 if isinstance(getattr(array.type, "elem", None), Vec) else 0
        if getattr(x, "width", 1) != 1 or not len(shape) <= len(x.index) <= len(shape) + lane:
            return False
        for i, n in zip(x.index, shape):
            v = context.of(i)
            if not context.lasting(i) or not context.proves(z3.And(v >= 0, v < context.of(n))):
                return False
    return True


__all__ = ["masked", "sites", "smaller_array"]
