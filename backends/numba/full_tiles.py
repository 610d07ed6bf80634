"""Tiles that no edge cuts off, in code of their own: there the loops over a tile have constant ends.

before                                              after
    array acc: local f32[4, 64]                         array acc: local f32[4, 64]
    for k in 0..K                                       if M - R >= 4 && N - C >= 64
      par row in 0..min(4, M - R)                         for k in 0..K
        par col in 0..min(64, N - C)                        par row in 0..4
          acc[row, col] += ...                                par col in 0..64
                                                                acc[row, col] += ...
                                                        else
                                                          (as it was)

An array whose elements loops with such ends go through can stay in registers (:mod:`.local_arrays`); with an end that
is known at run time alone, each access is one of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from ktc.ir.fold import both
from ktc.ir.nodes import Alloc, Binary, Body, Call, Decl, Expr, Par, Stmt, Sym
from ktc.ir.types import BOOL, Array, scalar_of
from ktc.ir.walk import declared, loads_in, map_body, used, walk

REGISTER_BYTES = 4096
"""Twice what the largest register file of an x86 core holds: of more than that, most accesses are of memory anyway."""

Constant = Callable[[int | Expr], int | None]


def full_tiles(body: Body, constant: Constant) -> tuple[Expr, Body] | None:
    """The condition under which all tiles of ``body`` are whole, and ``body`` for that case; None where it declares no
    private array for registers, or nothing cuts a tile off."""
    if not any(_fits_registers(s, constant) for s in body):
        return None
    inside = set(declared(body)) | {s.var for s in walk(body) if hasattr(s, "var")}
    ends = {s.hi: end for s in walk(body) if isinstance(s, Par) and (end := _cut(s, constant, inside)) is not None}
    if not ends:
        return None
    whole: Expr | None = None
    for size, rest in dict.fromkeys(ends.values()):
        test = Binary(">=", rest, size)
        whole = test if whole is None else both(whole, test)
    assert whole is not None and whole.type == BOOL

    def full(s: Stmt) -> Stmt:
        return replace(s, hi=ends[s.hi][0]) if isinstance(s, Par) and s.hi in ends else s

    return whole, map_body(body, full)


def _fits_registers(s: Stmt, constant: Constant) -> bool:
    """Whether ``s`` declares a private array that vector registers may hold."""
    if not isinstance(s, Alloc | Decl) or not isinstance(s.sym.type, Array) or s.sym.type.space != "local":
        return False
    counts = [constant(n) or 0 for n in s.sym.type.shape]
    return 0 < prod(counts) * scalar_of(s.sym.type).bytes <= REGISTER_BYTES


def _cut(s: Par, constant: Constant, inside: set[Sym]) -> tuple[Expr, Expr] | None:
    """(size, what is left) of a loop up to the lesser of both, where the second is known before the body begins."""
    match s.hi:
        case Call("min", (size, rest)) if constant(size) is not None:
            pass
        case Call("min", (rest, size)) if constant(size) is not None:
            pass
        case _:
            return None
    return None if used(rest) & inside or any(loads_in(rest)) else (size, rest)


__all__ = ["full_tiles"]
