"""Generic traversal and rewriting of expressions and statements."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import is_
from typing import Any, TypeVar

from ktc.ir.support.frozen import names_of, replaced
from ktc.ir.support.memo import by_identity

from .fields import children, with_children
from .nodes import (
    BODY_FIELDS,
    AddrOf,
    Alloc,
    Assign,
    AsyncCopy,
    Atomic,
    Body,
    BulkCopy,
    Const,
    Decl,
    Expr,
    For,
    GroupCopy,
    HwIndex,
    InlineAsm,
    Knob,
    Launched,
    Load,
    MatrixLoad,
    Mma,
    Par,
    Raw,
    RawStmt,
    Reduce,
    Scan,
    Stmt,
    Store,
    Sym,
    TileMma,
    Var,
    bodies,
    fresh,
)  # fmt: skip
from .types import Array

_LEAVES = frozenset({Const, Var, Knob, HwIndex})
"""Expressions without others in them."""


def walk_expr(e: Expr) -> Iterator[Expr]:
    """``e`` and everything below it, parents first."""
    stack = [e]
    while stack:
        e = stack.pop()
        yield e
        if type(e) not in _LEAVES:
            stack += children(e)[::-1]


def stmt_exprs(s: Stmt) -> Iterator[Expr]:
    """Expressions directly in ``s`` (not those of nested statements), including declared array shapes."""
    yield from children(s)
    if isinstance(s, Alloc | Decl) and isinstance(s.sym.type, Array):
        yield from s.sym.type.shape


def walk(body: Body) -> Iterator[Stmt]:
    """Every statement, parents first, in source order."""
    stack = [*body][::-1]
    while stack:
        s = stack.pop()
        yield s
        if type(s) in BODY_FIELDS:
            for b in bodies(s)[::-1]:
                stack += b[::-1]


def all_exprs(body: Body) -> Iterator[Expr]:
    """Every expression of every statement, with sub-expressions."""
    for s in walk(body):
        stack = [*stmt_exprs(s)][::-1]
        while stack:
            e = stack.pop()
            yield e
            if type(e) not in _LEAVES:
                stack += children(e)[::-1]


@by_identity(4)
def expressions(body: Body) -> tuple[Expr, ...]:
    """What :func:`all_exprs` gives, for all who ask about one body."""
    return tuple(all_exprs(body))


def map_expr(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """Rebuild ``e`` bottom-up: ``f`` sees each node after its children were rewritten."""
    return _BottomUp(f)(e)


class _BottomUp:
    """:func:`map_expr` with one ``f``: an object, as a function that knows itself is garbage for the collector."""

    __slots__ = ("f",)

    def __init__(self, f: Callable[[Expr], Expr]) -> None:
        self.f = f

    def __call__(self, e: Expr) -> Expr:
        return self.f(e if type(e) in _LEAVES else with_children(e, self))


def map_stmt_exprs(s: Stmt, f: Callable[[Expr], Expr]) -> Stmt:
    """Rewrite the expressions directly in ``s`` with ``f`` applied bottom-up; nested bodies are left alone."""
    return with_children(s, _BottomUp(f))


S = TypeVar("S", bound=Stmt)


def with_bodies(s: S, f: Callable[[Body], Body]) -> S:
    """``s`` with ``f`` applied to each of its statement lists; ``s`` itself if none changes."""
    changes: dict[str, Any] = {}
    for name in BODY_FIELDS.get(type(s), ()):
        old = getattr(s, name)
        new = f(old)
        if new is not old:
            changes[name] = new
    return replaced(s, changes) if changes else s


def with_list_around(body: Body, target: Stmt, rewritten: Callable[[Body, Body], Body | None]) -> Body | None:
    """``body`` with the list that ``target`` itself stands in as ``rewritten`` has it, of what stands before and behind
    it there; None where that says so, or ``body`` does not hold it."""
    for k, s in enumerate(body):
        if s is target:
            return rewritten(body[:k], body[k + 1 :])
        for name, inner in zip(BODY_FIELDS.get(type(s), ()), bodies(s)):
            new = with_list_around(inner, target, rewritten)
            if new is not None:
                return (*body[:k], replaced(s, {name: new}), *body[k + 1 :])
    return None


def map_body(
    body: Body, stmt: Callable[[Stmt], Stmt | Body | None], expr: Callable[[Expr], Expr] | None = None
) -> Body:
    """Rebuild ``body`` bottom-up. ``stmt`` returns a statement, a tuple to splice in, or None to drop it."""
    out: list[Stmt] = []
    for s in body:
        t = map_stmt_exprs(s, expr) if expr else s
        r = stmt(with_bodies(t, lambda b: map_body(b, stmt, expr)) if type(s) in BODY_FIELDS else t)
        if r is None:
            continue
        out.extend(r) if isinstance(r, tuple) else out.append(r)
    if len(out) == len(body) and all(a is b for a, b in zip(out, body)):
        return body
    return tuple(out)


def keep(s: Stmt) -> Stmt:
    """The identity, for :func:`map_body` when only expressions change."""
    return s


def commented(body: Body, comments: tuple[str, ...]) -> Body:
    """``body`` with ``comments`` above those of its first statement: they outlive the statement they stood on."""
    if not body or not comments:
        return body
    return (dataclasses.replace(body[0], comments=(*comments, *body[0].comments)), *body[1:])


def without(body: Body, dropped: Stmt | None) -> Body:
    """``body`` less the one statement ``dropped`` (by identity)."""
    return map_body(body, lambda s: None if s is dropped else s)


def substitute(body: Body, env: Mapping[Sym, Expr]) -> Body:
    """Replace reads of variables by expressions."""
    values = _BottomUp(lambda e: env.get(e.sym, e) if isinstance(e, Var) else e)
    names = env.keys()

    def on(s: Stmt) -> Stmt:
        s = s if names.isdisjoint(_used_directly(s)) else with_children(s, values)
        return with_bodies(s, inside) if type(s) in BODY_FIELDS else s

    def inside(part: Body) -> Body:
        new = [on(s) for s in part]
        return part if all(map(is_, part, new)) else tuple(new)

    return inside(body)


def substitute_expr(e: Expr, env: Mapping[Sym, Expr]) -> Expr:
    return map_expr(e, lambda x: env.get(x.sym, x) if isinstance(x, Var) else x)


_SYM_FIELDS = frozenset({"sym", "var", "buffer", "dst", "src", "a", "b", "event"})


def rename(body: Body, env: Mapping[Sym, Sym]) -> Body:
    """Replace symbols everywhere: reads, declarations, buffers, loop variables."""

    def sym(s: Sym | None):
        return env.get(s, s) if s is not None else None

    def renamed(node: Expr | Stmt) -> dict[str, Any]:
        found = ((n, getattr(node, n)) for n in _named(type(node)))
        return {n: env.get(s, s) for n, s in found if isinstance(s, Sym)}

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, Raw):
            return dataclasses.replace(e, uses=tuple(sym(u) for u in e.uses))
        changes = renamed(e)
        return replaced(e, changes) if any(new is not getattr(e, n) for n, new in changes.items()) else e

    def on_stmt(s: Stmt) -> Stmt:
        changes = renamed(s)
        if isinstance(s, Reduce):
            changes["accs"] = tuple(dataclasses.replace(a, sym=sym(a.sym)) for a in s.accs)
        if isinstance(s, Scan):
            changes["acc"] = dataclasses.replace(s.acc, sym=sym(s.acc.sym))
        if isinstance(s, RawStmt):
            changes |= {"reads": tuple(map(sym, s.reads)), "writes": tuple(map(sym, s.writes))}
        if isinstance(s, InlineAsm):
            changes["outputs"] = tuple((c, sym(o)) for c, o in s.outputs)
        if isinstance(s, Launched):
            changes["restrict"] = tuple(map(sym, s.restrict))
        return replaced(s, changes) if changes else s

    return map_body(body, on_stmt, on_expr)


def _named(cls: type) -> tuple[str, ...]:
    """The fields of ``cls`` that may name a symbol."""
    found = _NAMED.get(cls)
    if found is None:
        found = _NAMED[cls] = tuple(n for n in names_of(cls) if n in _SYM_FIELDS)
    return found


_NAMED: dict[type, tuple[str, ...]] = {}


def declared(body: Body) -> Iterator[Sym]:
    """Symbols that ``body`` declares, nested ones included."""
    for s in walk(body):
        if isinstance(s, Decl | Alloc):
            yield s.sym
        elif isinstance(s, For | Par):
            yield s.var
        elif isinstance(s, Reduce):
            yield s.var
            yield from (a.sym for a in s.accs)
        elif isinstance(s, Scan):
            yield s.var
            yield s.acc.sym
        elif isinstance(s, Atomic) and s.dst is not None:
            pass  # assigned, declared before


def refresh(body: Body) -> Body:
    """A copy of ``body`` whose declared symbols are new (array shapes keep their expressions)."""
    return rename(body, {s: fresh(s.name, s.type) for s in declared(body)})


def assigned(body: Body) -> set[Sym]:
    """Scalars written by ``body`` after their declaration, and buffers stored to."""
    out: set[Sym] = set()
    for s in walk(body):
        written = _WRITTEN.get(type(s))
        if written is not None:
            out.update(written(s))
    return out


_WRITTEN: dict[type, Callable[[Any], Iterable[Sym]]] = {
    Assign: lambda s: (s.sym,),
    Store: lambda s: (s.buffer,),
    Atomic: lambda s: (s.buffer,) if s.dst is None else (s.buffer, s.dst),
    **dict.fromkeys((AsyncCopy, BulkCopy, MatrixLoad), lambda s: (s.dst,)),
    GroupCopy: lambda s: (s.dst, s.event),
    **dict.fromkeys((Mma, TileMma), lambda s: _accumulators(s.acc)),
    RawStmt: lambda s: s.writes,
    InlineAsm: lambda s: [sym for _, sym in s.outputs],
}
"""What statements of each class write."""


def _accumulators(acc: tuple[Expr, ...]) -> list[Sym]:
    return [x.sym if isinstance(x, Var) else x.buffer for x in acc if isinstance(x, Var | Load)]


def initial_values(body: Body) -> dict[Sym, Expr]:
    """Of variables that are never assigned, what each is declared as, in source order."""
    changed = assigned(body)
    return {s.sym: s.init for s in walk(body) if isinstance(s, Decl) and s.init is not None and s.sym not in changed}


def used(e: Expr) -> set[Sym]:
    """Variables and buffers that ``e`` mentions."""
    out: set[Sym] = set()
    _use(e, out)
    return out


def _use(e: Expr, out: set[Sym]) -> None:
    """Add what ``e`` mentions to ``out``."""
    stack = [e]
    while stack:
        x = stack.pop()
        if isinstance(x, Var):
            out.add(x.sym)
        elif type(x) not in _LEAVES:
            if isinstance(x, Load | AddrOf):
                out.add(x.buffer)
            elif isinstance(x, Raw):
                out.update(x.uses)
            stack += children(x)


def used_in(body: Body) -> set[Sym]:
    """Symbols that ``body`` reads, and buffers it touches."""
    out: set[Sym] = set()
    for s in walk(body):
        out.update(_used_directly(s))
    return out


@by_identity(4096)
def mentions(s: Stmt) -> frozenset[Sym]:
    """Symbols that ``s``, with what is nested in it, reads or writes: asked again for each that is looked for."""
    written = _WRITTEN.get(type(s), lambda s: ())(s)
    return frozenset(_used_directly(s)).union(written, *(mentions(x) for inner in bodies(s) for x in inner))


@by_identity(4096)
def _used_directly(s: Stmt) -> tuple[Sym, ...]:
    """What ``s`` itself reads or touches, without nested statements: asked again for each list that it is in."""
    out: set[Sym] = set()
    for e in stmt_exprs(s):
        _use(e, out)
    if isinstance(s, Store | Atomic):
        out.add(s.buffer)
    elif isinstance(s, AsyncCopy | BulkCopy | GroupCopy):
        out |= {s.dst, s.src}
    elif isinstance(s, MatrixLoad):
        out |= {s.dst, s.buffer}
    elif isinstance(s, TileMma):
        out |= {s.a, s.b}
    elif isinstance(s, RawStmt):
        out.update(s.reads)
    return tuple(out)


def knobs_in(e: Expr) -> set[str]:
    return {x.name for x in walk_expr(e) if isinstance(x, Knob)}


def loads_in(e: Expr) -> Iterator[Load]:
    return (x for x in walk_expr(e) if isinstance(x, Load))
