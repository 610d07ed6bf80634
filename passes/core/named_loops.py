"""Finding and editing the distributed loops of a kernel by the names a reader would use."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ktc.ir.analysis.defs import MAX_DEPTH, integer_constants
from ktc.ir.fold import simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, Expr, For, Load, Par, Reduce, Stmt, Store, Sym
from ktc.ir.types import Ptr, scalar_of
from ktc.ir.walk import map_body, stmt_exprs, substitute_expr, used, walk, walk_expr

from . import places
from .refusals import Refused
from .script import Arg

Loop = Par | Reduce


def loops(kernel: Kernel) -> list[Loop]:
    """Every ``par`` and ``reduce``, outermost first."""
    return [s for s in walk(kernel.body) if isinstance(s, Par | Reduce)]


def find_loops(kernel: Kernel, place: Arg | None) -> list[Loop] | Refused:
    """The parallel loops and reductions that ``place`` names (``place_names`` has the rule)."""
    if not loops(kernel):
        return Refused("E-PLACE-SPMD", "the kernel has no parallel loops", hint="run raise first")
    found = places.find_loops(kernel, place, places.PARALLEL)
    return found if isinstance(found, Refused) else [s for s in found if isinstance(s, Loop)]


def replace_loops(kernel: Kernel, targets: list[Loop], f: Callable[[Loop], Stmt | Body]) -> Kernel:
    """``kernel`` with each loop of ``targets`` (by identity) replaced by ``f`` of its rebuilt self."""
    wanted = {(t.var.id, type(t)) for t in targets}

    def on(s: Stmt) -> Stmt | Body:
        return f(s) if isinstance(s, Par | Reduce) and (s.var.id, type(s)) in wanted else s

    return kernel.with_(body=map_body(kernel.body, on))


def with_launch_bounds(kernel: Kernel, found: list[Loop]) -> tuple[Kernel, list[Loop]]:
    """``found`` with bounds that name local constants (``half = d / 2``) spelled over what the launcher knows.

    Assumptions about the range can then be checked at launch. Bounds that depend on more stay as they are.
    """
    params = {p.sym for p in kernel.params}
    constants = integer_constants(kernel.body)

    def spelled(e: Expr) -> Expr:
        out = e
        for _ in range(MAX_DEPTH):
            if used(out) <= params:
                return simplify(out)
            out = substitute_expr(out, constants)
        return e

    def on(s: Loop) -> Loop:
        return dataclasses.replace(s, lo=spelled(s.lo), hi=spelled(s.hi))

    if all((used(s.lo) | used(s.hi)) <= params for s in found):
        return kernel, found
    wanted = {s.var for s in found}
    kernel = replace_loops(kernel, found, on)
    return kernel, [s for s in loops(kernel) if s.var in wanted]


def narrowest_element(loop: Loop | For) -> int:
    """Bytes of the narrowest global element the loop touches, 4 at most: it bounds the vector width.

    A loop that touches none has 1: its lanes follow those of the loops it shares values with.
    """
    sizes: list[int] = []
    for s in walk((loop,)):
        buffers: list[Sym] = [s.buffer] if isinstance(s, Store) else []
        buffers += [x.buffer for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Load)]
        sizes += [scalar_of(b.type).bytes for b in buffers if isinstance(b.type, Ptr)]
    return min(*sizes, 4) if sizes else 1
