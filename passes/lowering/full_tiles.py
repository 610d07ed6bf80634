"""Tiles that no edge cuts off, in code of their own: there the loops over a tile have constant ends.

before                                              after
    array acc: local f32[4, 64]                         array acc: local f32[4, 64]
    for k in 0..K                                       if M - R >= 4 && N - C >= 64
      par row in 0..min(4, M - R) @ [unroll 4, seq]       for k in 0..K
        par col in 0..min(64, N - C) @ [seq]                par row in 0..4 @ [unroll 4, seq]
          acc[row, col] += ...                                par col in 0..64 @ [seq]
                                                                acc[row, col] += ...
                                                        else
                                                          (as it was, without unroll levels)

For targets whose loops are printed as loops. An array whose elements loops with such ends go through can stay in
registers; with an end that is known at run time alone, each access is one of memory. Iterations that run together
(:mod:`.jammed`) are written out for whole tiles alone: what an edge leaves is little, and its code would be as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from ktc.ir.fold import both, evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Binary, Body, Call, Decl, Expr, If, Level, Par, Stmt, Sym, bodies
from ktc.ir.types import Array, scalar_of
from ktc.ir.walk import declared, loads_in, map_body, refresh, used, walk, with_bodies

REGISTER_BYTES = 4096
"""Twice what the largest register file of an x86 core holds: of more than that, most accesses are of memory anyway."""


def with_full_tiles(kernel: Kernel) -> Kernel:
    """``kernel`` with code of their own for whole tiles, where it has private arrays that may be registers, or
    iterations of a tile that run together; at the values that its knobs have."""
    body = _in(kernel.body, kernel.knob_values)
    return kernel if body is kernel.body else kernel.with_(body=body)


def _in(body: Body, knobs: Mapping[str, int]) -> Body:
    """Outermost first: what is inside has no cut tiles any more, or is at an edge."""
    split = _split(body, knobs)
    if split is not None:
        return split
    out = tuple(with_bodies(s, lambda b: _in(b, knobs)) for s in body)
    return body if all(a is b for a, b in zip(out, body)) else out


def _split(body: Body, knobs: Mapping[str, int]) -> Body | None:
    inside = set(declared(body))
    cut = {s.var: end for s in walk(body) if isinstance(s, Par) and (end := _end(s, knobs, inside)) is not None}
    held = any(_fits_registers(s, knobs) for s in body) and not _holds_smaller(body, knobs)
    if not cut or not (held or any(s.var in cut and _together(s) for s in _pars(body))):
        return None
    whole: Expr | None = None
    for size, rest in dict.fromkeys(cut.values()):
        whole = both(whole, Binary(">=", rest, size))
    assert whole is not None
    arrays = tuple(s for s in body if isinstance(s, Alloc))
    rest_ = tuple(s for s in body if not isinstance(s, Alloc))

    def full(s: Stmt) -> Stmt:
        return replace(s, hi=cut[s.var][0]) if isinstance(s, Par) and s.var in cut else s

    def edge(s: Stmt) -> Stmt:
        if not (isinstance(s, Par) and _together(s)):
            return s
        return replace(s, dist=tuple(lv for lv in s.dist if lv.kind != "unroll") or (Level("seq"),))

    return (*arrays, If(whole, map_body(rest_, full), refresh(map_body(rest_, edge))))


def _holds_smaller(body: Body, knobs: Mapping[str, int]) -> bool:
    """Whether tiles of the tile have such arrays: those are the registers then."""
    return any(_fits_registers(s, knobs) for outer in body for b in bodies(outer) for s in walk(b))


def _pars(body: Body) -> list[Par]:
    """The parallel loops that are directly in ``body``, or in a perfect nest there."""
    out: list[Par] = []
    for s in body:
        while isinstance(s, Par):
            out.append(s)
            if len(s.body) != 1:
                break
            s = s.body[0]
    return out


def _together(s: Par) -> bool:
    return any(lv.kind == "unroll" for lv in s.dist)


def _fits_registers(s: Stmt, knobs: Mapping[str, int]) -> bool:
    """Whether ``s`` declares a private array that vector registers may hold."""
    if not isinstance(s, Alloc | Decl) or not isinstance(s.sym.type, Array) or s.sym.type.space != "local":
        return False
    counts = [n if isinstance(n, int) else evaluate(n, knobs) or 0 for n in s.sym.type.shape]
    return 0 < prod(counts) * scalar_of(s.sym.type).bytes <= REGISTER_BYTES


def _end(s: Par, knobs: Mapping[str, int], inside: set[Sym]) -> tuple[Expr, Expr] | None:
    """(size, what is left) of a loop up to the lesser of both, where the second is known before the body begins."""
    if not isinstance(s.hi, Call) or s.hi.fn != "min" or len(s.hi.args) != 2:
        return None
    for size, rest in (s.hi.args, s.hi.args[::-1]):
        if evaluate(size, knobs) is not None and evaluate(rest, knobs) is None:
            return None if used(rest) & inside or any(loads_in(rest)) else (size, rest)
    return None


__all__ = ["with_full_tiles"]
