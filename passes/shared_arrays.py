"""Shared arrays as passes change them: found by name, all accesses known, given another shape or other indices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import AddrOf, Alloc, AsyncCopy, Atomic, Body, Expr, InlineAsm, Load, RawStmt, Stmt, Store, Sym
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import all_exprs, map_body, used_in, walk

from .base import Arg, Refused
from .places import find_places

Index = tuple[Expr, ...]


def shared_array(kernel: Kernel, place: Arg, code: str) -> Alloc | Refused:
    """The shared array that ``place`` names, if every use of it is an access by its own indices."""
    name = place if isinstance(place, str) and ":" in place else f"array:{place}"
    found = find_places(kernel, name)
    if isinstance(found, Refused):
        return found
    alloc = found[0].stmt
    if len(found) > 1 or not isinstance(alloc, Alloc) or getattr(alloc.sym.type, "space", "") != "shared":
        return Refused(code, f"'{place}' is not one array in shared memory")
    locs = (alloc.loc,) if alloc.loc else ()
    if alloc.dynamic or not isinstance(alloc.sym.type.elem, Scalar):  # type: ignore[attr-defined]
        return Refused(code, f"'{place}' is part of the launch's dynamic memory, or holds vectors", locs)
    rank = len(alloc.sym.type.shape)  # type: ignore[attr-defined]
    if not all(_plain(e, alloc.sym, rank) for e in all_exprs(kernel.body)):
        return Refused(code, f"an address inside '{place}' is taken", locs)
    opaque = [s for s in walk(kernel.body) if isinstance(s, RawStmt | InlineAsm) and alloc.sym in used_in((s,))]
    if opaque:
        return Refused(code, f"text that is not understood uses '{place}'", locs)
    return alloc


def _plain(e: Expr, array: Sym, rank: int) -> bool:
    if isinstance(e, AddrOf):
        return e.buffer != array
    return not (isinstance(e, Load) and e.buffer == array and len(e.index) != rank)


def shared_arrays(kernel: Kernel) -> list[Alloc]:
    """Every static shared array of scalars."""
    return [
        s
        for s in walk(kernel.body)
        if isinstance(s, Alloc) and isinstance(s.sym.type, Array) and s.sym.type.space == "shared" and not s.dynamic
    ]


def with_array(kernel: Kernel, old: Sym, new: Sym, index: Callable[[Index], Index] = lambda i: i) -> Kernel:
    """``kernel`` with ``new`` in the place of ``old``, its accesses at ``index`` of where they were."""

    def on(s: Stmt) -> Stmt:
        if isinstance(s, Alloc) and s.sym == old:
            return dataclasses.replace(s, sym=new)
        if isinstance(s, Store | Atomic) and s.buffer == old:
            return dataclasses.replace(s, buffer=new, index=index(s.index))
        if isinstance(s, AsyncCopy) and s.dst == old:
            return dataclasses.replace(s, dst=new, dst_index=index(s.dst_index))
        return s

    def read(e: Expr) -> Expr:
        return (
            dataclasses.replace(e, buffer=new, index=index(e.index)) if isinstance(e, Load) and e.buffer == old else e
        )

    body: Body = map_body(kernel.body, on, read)
    return kernel.with_(body=body)
