"""Shared arrays as passes change them: found by name, all accesses known, given another shape or other indices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ktc.ir.analysis.order import places
from ktc.ir.fold import binary, cast, evaluate, i32, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    AsyncCopy,
    Atomic,
    Body,
    Expr,
    InlineAsm,
    Load,
    MatrixLoad,
    RawStmt,
    Stmt,
    Store,
    Sym,
    TileMma,
)  # fmt: skip
from ktc.ir.text import print_expr
from ktc.ir.types import I32, Array, Ptr, Scalar, Type
from ktc.ir.walk import all_exprs, knobs_in, map_body, mentions, walk
from ktc.passes.core.argument_kinds import Arrays
from ktc.passes.core.place_names import Place
from ktc.passes.core.refusals import Refusal, Refused

Index = tuple[Expr, ...]


def shared_array(kernel: Kernel, named: Arrays, code: str, opaque: str = "") -> Alloc:
    """The shared array that is ``named``, if every use of it is an access by its own indices.

    ``code`` is that of refusals, ``opaque`` that of refusals for a use that is not followed (``code`` by default).
    """
    return _checked(kernel, named.one(kernel, _unfit(code)), code, opaque)


def shared_tiles(kernel: Kernel, named: Arrays, code: str) -> list[Alloc]:
    """All shared arrays that are ``named``, as :func:`shared_array` gives one."""
    return [_checked(kernel, p, code) for p in named.find(kernel, _unfit(code))]


def _unfit(code: str) -> Callable[[Place], Refused | None]:
    def unfit(p: Place) -> Refused | None:
        t = p.sym.type if p.sym is not None else None
        if isinstance(p.stmt, Alloc) and getattr(t, "space", "") == "shared":
            return None
        what = "a buffer in global memory" if isinstance(t, Ptr) else "an array of each thread's own"
        return Refused(code, f"'{p.name}' is {what}, not a shared array", places(p.stmt) if p.stmt is not None else ())

    return unfit


def _checked(kernel: Kernel, found: Place, code: str, opaque: str = "") -> Alloc:
    assert isinstance(found.stmt, Alloc)
    check_followed(kernel, found.stmt, code, opaque or code)
    return found.stmt


def check_followed(kernel: Kernel, alloc: Alloc, code: str, opaque: str) -> None:
    """Every use of a shared array is an access by its own indices, or it is refused."""
    place, locs = alloc.sym.name, places(alloc)
    if alloc.dynamic or not isinstance(alloc.sym.type.elem, Scalar):  # type: ignore[attr-defined]
        raise Refusal(code, f"'{place}' is part of the launch's dynamic memory, or holds vectors", locs)
    rank = len(alloc.sym.type.shape)  # type: ignore[attr-defined]
    if not all(_plain(e, alloc.sym, rank) for e in all_exprs(kernel.body)):
        raise Refusal(opaque, f"an address inside '{place}' is taken", locs)
    uses = [s for s in walk(kernel.body) if alloc.sym in mentions(s)]
    if any(isinstance(s, RawStmt | InlineAsm) for s in uses):
        raise Refusal(opaque, f"text that is not understood uses '{place}'", locs)
    if any(isinstance(s, MatrixLoad | TileMma) for s in uses):
        raise Refusal(opaque, f"tensor-core instructions read '{place}' already", locs, "do it before lowering")


def accesses_of(kernel: Kernel, array: Sym) -> list[tuple[int | None, Index]]:
    """(elements moved at once, index) of every access of ``array``; None for a number that is open."""
    return [(known(kernel, w), index) for w, index in _accesses(kernel, array)]


def _accesses(kernel: Kernel, array: Sym) -> list[tuple[int | Expr, Index]]:
    """(elements moved at once, index) of every access of ``array``, numbers as they stand."""
    found: list[tuple[int | Expr, Index]] = [
        (e.width, e.index) for e in all_exprs(kernel.body) if isinstance(e, Load) and e.buffer == array
    ]
    for s in walk(kernel.body):
        if isinstance(s, Store) and s.buffer == array:
            found.append((s.width, s.index))
        elif isinstance(s, Atomic) and s.buffer == array:
            found.append((1, s.index))
        elif isinstance(s, AsyncCopy) and s.dst == array:
            found.append((s.width, s.dst_index))
    return found


def rows_aligned(kernel: Kernel, array: Sym, code: str) -> Kernel:
    """``kernel`` with what its knobs must satisfy for every row of ``array`` to start where its vectors may; refused
    with ``code`` where none does."""
    *rows, length = array.type.shape  # type: ignore[attr-defined]
    widths = {width for width, _ in _accesses(kernel, array)}
    for width in sorted(widths - {1}, key=str) if rows else ():
        n = i32(width) if isinstance(width, int) else width
        fits = simplify(binary("==", binary("%", cast(length, I32), n), i32(0)))
        if evaluate(fits, kernel.knob_values) == 0 and not knobs_in(fits):
            why = f"rows of '{array.name}' would not start where vectors of {print_expr(n)} elements may"
            raise Refusal(code, why, (), f"make them a multiple of {print_expr(n)} elements long")
        if knobs_in(fits) and fits not in kernel.constraints:
            kernel = kernel.with_(constraints=(*kernel.constraints, fits))
    return kernel


def known(kernel: Kernel, e: int | Expr) -> int | None:
    """The value of a size, if numbers and bound knobs give it."""
    if isinstance(e, int):
        return e
    value = evaluate(e, kernel.bound_knobs)
    return None if value is None else int(value)


def _plain(e: Expr, array: Sym, rank: int) -> bool:
    if isinstance(e, AddrOf):
        return e.buffer != array
    return not (isinstance(e, Load) and e.buffer == array and len(e.index) != rank)


def shared_arrays(kernel: Kernel) -> list[Alloc]:
    """Every static shared array of scalars."""
    return [s for s in walk(kernel.body) if isinstance(s, Alloc) and not s.dynamic and _of_scalars(s.sym.type)]


def _of_scalars(t: Type) -> bool:
    return isinstance(t, Array) and t.space == "shared" and isinstance(t.elem, Scalar)


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
