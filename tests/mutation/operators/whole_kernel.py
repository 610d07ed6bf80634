"""Mutations that no single node shows: launch geometry, guards, arrays, and one variable taken for another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ktc.ir.fold import cdiv
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Barrier,
    Binary,
    Body,
    Call,
    Const,
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
    fresh,
    i32,
)  # fmt: skip
from ktc.ir.sequences import alone, launches, put_back
from ktc.ir.types import Array, Ptr, Scalar
from ktc.ir.walk import all_exprs, assigned, keep, map_body, map_stmt_exprs, rename, stmt_exprs, walk, walk_expr

from .operators import Operator
from .program_operators import BLIND, FASTER


def _launches(kernel: Kernel, field: str, new: Callable[[Expr], Expr]) -> Iterator[Kernel]:
    """Each axis of the grid or block that is not 1, changed."""
    launch = kernel.launch
    if launch is None or HwIndex(_EXTENT[field], "x") in all_exprs(kernel.body):
        return  # the body strides by what the launch says: fewer threads do the same work
    extents: tuple[Expr, Expr, Expr] = getattr(launch, field)
    for k, e in enumerate(extents):
        if not (isinstance(e, Const) and e.value == 1):
            changed = tuple(new(x) if i == k else x for i, x in enumerate(extents))
            changes: dict[str, Any] = {field: changed}
            yield kernel.with_(launch=replace(launch, **changes))


_EXTENT = {"grid": "grid_dim", "block": "block_dim"}


def one_block_fewer(kernel: Kernel) -> list[Kernel]:
    """The block with the tail is not launched."""
    return list(_launches(kernel, "grid", lambda e: Binary("-", e, Const(1, e.type))))  # type: ignore[arg-type]


def half_grid(kernel: Kernel) -> list[Kernel]:
    return list(_launches(kernel, "grid", lambda e: cdiv(e, Const(2, e.type))))  # type: ignore[arg-type]


def half_block(kernel: Kernel) -> list[Kernel]:
    return list(_launches(kernel, "block", lambda e: cdiv(e, Const(2, e.type))))  # type: ignore[arg-type]


def swap_axes(kernel: Kernel) -> list[Kernel]:
    """Grid axes x and y exchanged."""
    launch = kernel.launch
    if launch is None or launch.grid[0] == launch.grid[1]:
        return []
    x, y, z = launch.grid
    return [kernel.with_(launch=replace(launch, grid=(y, x, z)))]


def drop_assumption(kernel: Kernel) -> list[Kernel]:
    """The launcher no longer checks a guard: the kernel runs for sizes it was not made for."""
    facts = kernel.assumptions
    return [kernel.with_(assumptions=facts[:k] + facts[k + 1 :]) for k, a in enumerate(facts) if a.origin == "guessed"]


def _arrays(kernel: Kernel, space: str) -> list[Alloc]:
    return [s for s in walk(kernel.body) if isinstance(s, Alloc) and _space(s.sym) == space]


def _space(s: Sym) -> str:
    return s.type.space if isinstance(s.type, Array) else ""


def _retyped(kernel: Kernel, s: Alloc, **changes: object) -> Kernel:
    """The array of ``s`` declared differently."""
    t = replace(s.sym.type, **changes)  # type: ignore[type-var]
    new = fresh(s.sym.name, t)  # type: ignore[arg-type]
    return kernel.with_(body=rename(kernel.body, {s.sym: new}))


def private_array(kernel: Kernel) -> list[Kernel]:
    """A shared array that every thread has of its own."""
    return [_retyped(kernel, s, space="local") for s in _arrays(kernel, "shared") if not s.dynamic]


def shared_array(kernel: Kernel) -> list[Kernel]:
    """A private array that the threads of a block share."""
    return [_retyped(kernel, s, space="shared") for s in _arrays(kernel, "local")]


def smaller_array(kernel: Kernel) -> list[Kernel]:
    """An array with one element too few in its last dimension."""
    out = []
    for s in (*_arrays(kernel, "shared"), *_arrays(kernel, "local")):
        t = s.sym.type
        assert isinstance(t, Array)
        if t.shape and not (isinstance(t.shape[-1], Const) and t.shape[-1].value <= 1):
            out.append(_retyped(kernel, s, shape=(*t.shape[:-1], Binary("-", t.shape[-1], i32(1)))))
    return out


def read_only_path(kernel: Kernel) -> list[Kernel]:
    """A load through the read-only cache of a buffer that the kernel writes."""
    written = assigned(kernel.body)
    reads = (e for e in all_exprs(kernel.body) if isinstance(e, Load) and isinstance(e.buffer.type, Ptr))
    hits = {id(e): e for e in reads if e.buffer in written and not e.cache}
    out = []
    for hit in hits.values():

        def on(e: Expr, hit: Load = hit) -> Expr:
            return replace(hit, cache="ldg") if e is hit else e

        cached = map_body(kernel.body, keep, on)
        out.append(kernel.with_(body=cached))
    return [k for k in out if k.body is not kernel.body]


def unflagged_fast_math(kernel: Kernel) -> list[Kernel]:
    """A function approximated though no pass declares that."""
    hits = {id(e): e for e in all_exprs(kernel.body) if isinstance(e, Call) and e.fn in FASTER}
    if "fast_math" in kernel.flags:
        return []
    out = []
    for hit in hits.values():

        def on(e: Expr, hit: Call = hit) -> Expr:
            return replace(hit, fn=FASTER[hit.fn]) if e is hit else e

        faster = map_body(kernel.body, keep, on)
        out.append(kernel.with_(body=faster))
    return [k for k in out if k.body is not kernel.body]


def late_barrier(kernel: Kernel) -> list[Kernel]:
    """A barrier and the statement after it exchanged."""

    def variants(body: Body) -> Iterator[Body]:
        for k, s in enumerate(body):
            if isinstance(s, Barrier) and k + 1 < len(body) and not isinstance(body[k + 1], Barrier | Decl | Alloc):
                yield (*body[:k], body[k + 1], s, *body[k + 2 :])
            for name in ("then", "orelse", "body"):
                inner = getattr(s, name, None)
                for new in variants(inner) if inner else ():
                    yield (*body[:k], _with(s, name, new), *body[k + 1 :])

    return [kernel.with_(body=b) for b in variants(kernel.body)]


def _with(s: Stmt, name: str, inner: Body) -> Stmt:
    changes: dict[str, Any] = {name: inner}
    return replace(s, **changes)


def other_variable(kernel: Kernel) -> list[Kernel]:
    """One read of an integer variable replaced by another one of its type that is in scope."""
    params = tuple(p.sym for p in kernel.params if isinstance(p.sym.type, Scalar) and not p.host)
    return [kernel.with_(body=b) for b in _with_other_reads(kernel.body, params)]


def _with_other_reads(body: Body, scope: tuple[Sym, ...]) -> Iterator[Body]:
    for k, s in enumerate(body):
        inside = (*scope, s.var) if isinstance(s, For) else scope
        for new in _swapped_reads(s, list(inside)):
            yield (*body[:k], new, *body[k + 1 :])
        for name in ("then", "orelse", "body"):
            for inner in _with_other_reads(getattr(s, name, ()), inside):
                yield (*body[:k], _with(s, name, inner), *body[k + 1 :])
        if isinstance(s, Decl) and isinstance(s.sym.type, Scalar):
            scope = (*scope, s.sym)


def _swapped_reads(s: Stmt, scope: list[Sym]) -> Iterator[Stmt]:
    """``s`` with one variable in an index or a bound (not in nested bodies) replaced, deterministically."""
    if not isinstance(s, Store | Assign | Decl | If | For):
        return
    bound = {s.var} if isinstance(s, For) else set()
    reads = {e.sym for top in stmt_exprs(s) for e in walk_expr(top) if isinstance(e, Var)} - bound
    for r in sorted(reads, key=lambda x: x.id):
        if not (isinstance(r.type, Scalar) and r.type.is_int):
            continue
        others = [x for x in scope if x != r and x.type == r.type and x not in bound]
        if others:
            other = others[-1 - (len(others) // 2)]

            def on(e: Expr, read: Sym = r, other: Sym = other) -> Expr:
                return Var(other) if isinstance(e, Var) and e.sym == read else e

            yield map_stmt_exprs(s, on)


def in_each_launch(change: Callable[[Kernel], list[Kernel]]) -> Callable[[Kernel], list[Kernel]]:
    """``change``, of a sequence made in one launch of it at a time."""

    def changed(kernel: Kernel) -> list[Kernel]:
        if not kernel.is_sequence:
            return change(kernel)
        return [put_back(kernel, s, new) for s in launches(kernel) for new in change(alone(kernel, s))]

    return changed


TABLE: dict[str, tuple[str, Callable[[Kernel], list[Kernel]]]] = {
    "one-block-fewer": ("launch", one_block_fewer),
    "half-grid": ("launch", half_grid),
    "half-block": ("launch", half_block),
    "swap-axes": ("launch", swap_axes),
    "drop-runtime-guard": ("launch", drop_assumption),
    "private-array": ("memory", private_array),
    "shared-array": ("memory", shared_array),
    "smaller-array": ("memory", smaller_array),
    "read-only-path": ("memory", read_only_path),
    "unflagged-fast-math": ("values", unflagged_fast_math),
    "late-barrier": ("sync", late_barrier),
    "other-variable": ("index", other_variable),
}

WHOLE = tuple(
    Operator(name, family, "kernel", change if change is drop_assumption else in_each_launch(change), name in BLIND)
    for name, (family, change) in TABLE.items()
)
