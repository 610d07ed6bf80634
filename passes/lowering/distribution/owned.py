"""Tiles in registers: each thread keeps the elements it owns.

A private array of an iteration that inner loops index by their own variables alone (``x_row[i]``, ``acc[row, col]``)
needs no memory: an element belongs to the thread that runs its iteration. It becomes one register per jam position of
those loops. All loops that touch it must be distributed alike along each dimension, without a run-time loop (``seq``),
since registers cannot be indexed by one. Further indices (``acc[ty, tx, k]``) pick from what one thread owns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.diagnostics import Loc
from ktc.ir.nodes import (
    Alloc,
    AsyncCopy,
    Atomic,
    Body,
    Decl,
    Dist,
    Expr,
    Load,
    Par,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    bodies,
    fresh,
)  # fmt: skip
from ktc.ir.types import Array
from ktc.ir.walk import stmt_exprs, walk_expr
from ktc.passes.lowering.errors import LoweringError
from ktc.passes.lowering.lowering_state import State
from ktc.passes.lowering.sync.accesses import THREAD_LEVELS

from .scope import Scope

Loops = tuple[Par | Reduce, ...]


@dataclass(frozen=True)
class Owner:
    """Who holds the elements along one dimension: the distribution, where it starts and, if open, ends."""

    dist: Dist
    lo: Expr
    hi: Expr | None


def register_arrays(body: Body) -> dict[Sym, tuple[Owner, ...]]:
    """Private arrays of ``body`` that loops spread over threads touch, with the owner of each dimension.

    Raises:
        LoweringError: E-LOWER-OWNER when two loops distribute one array differently.
    """
    arrays = {s.sym for s in body if isinstance(s, Alloc) and _private_array(s.sym)}
    owners: dict[Sym, tuple[Owner, ...]] = {}
    if not arrays:
        return owners
    by_all: dict[Sym, Loc | None] = {}
    for buffer, index, around in _accesses(body, ()):
        if buffer not in arrays:
            continue
        if not any(_threaded(s) for s in around):
            by_all.setdefault(buffer, around[-1].loc if around else None)
            continue
        at = around[-1].loc
        loops = list(itertools.takewhile(lambda s: s is not None, (_loop_of(i, around) for i in index)))
        alone = {id(s) for s in around if _threaded(s)} <= {id(s) for s in loops}  # no two threads have these indices
        if len({id(s) for s in loops}) != len(loops) or not (loops and (alone or len(loops) == len(index))):
            raise LoweringError("E-LOWER-OWNER", f"'{buffer.name}' is read at elements another thread owns", at)
        mine = tuple(_owner(s) for s in loops if s is not None)
        if owners.setdefault(buffer, mine) != mine:
            raise LoweringError(
                "E-LOWER-OWNER", f"the loops over '{buffer.name}' are distributed differently", at,
                hint="give both loops the same map, or keep the row in shared memory",
            )  # fmt: skip
        if any(lv.kind == "seq" for o in mine for lv in o.dist):
            raise LoweringError(
                "E-LOWER-OWNER", f"'{buffer.name}' lives in registers, which a 'seq' level cannot index", at,
                hint="replace seq by unroll with a size that covers the row",
            )  # fmt: skip
    for buffer in owners.keys() & by_all.keys():
        what = f"'{buffer.name}', which threads hold parts of, is touched by a loop that is not spread over them"
        raise LoweringError("E-LOWER-OWNER", what, by_all[buffer],
                            hint="give both loops the same map, or keep the row in shared memory")  # fmt: skip
    return owners


def _owner(s: Par | Reduce) -> Owner:
    open_ended = any(lv.n is None for lv in s.dist)
    return Owner(s.dist, s.lo, s.hi if open_ended else None)


def _threaded(s: Par | Reduce) -> bool:
    return any(lv.kind in THREAD_LEVELS for lv in s.dist)


def _loop_of(index: Expr, around: Loops) -> Par | Reduce | None:
    """The loop whose variable ``index`` is."""
    v = without_index_casts(index)
    return next((s for s in around if isinstance(v, Var) and v.sym == s.var), None)


def _private_array(s: Sym) -> bool:
    return isinstance(s.type, Array) and s.type.space == "local"


def _accesses(body: Body, around: Loops) -> Iterator[tuple[Sym, tuple[Expr, ...], Loops]]:
    """(buffer, index, parallel loops around it) of every access below ``body``."""
    for s in body:
        inner = (*around, s) if isinstance(s, Par | Reduce) else around
        exprs: list[Expr] = list(stmt_exprs(s))
        if isinstance(s, Store | Atomic):
            yield s.buffer, s.index, around
        if isinstance(s, AsyncCopy):
            yield s.dst, s.dst_index, around
            yield s.src, s.src_index, around
        for e in exprs:
            yield from ((x.buffer, x.index, inner) for x in walk_expr(e) if isinstance(x, Load))
        for b in bodies(s):
            yield from _accesses(b, inner)


def reserve(body: Body, scope: Scope, st: State) -> Body:
    """Registers for the arrays declared directly in ``body``: declarations to put in front of it.

    Raises:
        LoweringError: E-LOWER-OWNER.
    """
    out: list[Stmt] = []
    for sym, owners in register_arrays(body).items():
        if scope.jams:
            raise LoweringError("E-LOWER-OWNER", f"'{sym.name}' cannot be kept in registers for several rows at once")
        t = sym.type
        assert isinstance(t, Array)
        kept = tuple(n for o in owners for n in _slots(o.dist) if st.decide.value(n) != 1) + t.shape[len(owners) :]
        regs = fresh(sym.name, Array(t.elem, kept) if kept else t.elem)
        st.owned[sym] = (regs, len(owners))
        out.append(Alloc(regs) if kept else Decl(regs))
    return tuple(out)


def _slots(dist: Dist) -> list[Expr]:
    """Sizes of the jam levels, in the order in which lowering nests them: lanes innermost."""
    return [lv.n for kind in ("unroll", "vec") for lv in dist if lv.kind == kind and lv.n is not None]
