"""Operand fragments of the next step of a product, loaded while this step multiplies.

before                                          after
    for k in 0..4 unroll                            a[0, ..] = matrix_load of step 0; b[0, ..] = ...
      a[..] = matrix_load of step k                 for k in 0..4 unroll
      b[..] = matrix_load of step k                   if k + 1 < 4
      mma acc, a, b                                     a[(k + 1) % 2, ..] = matrix_load of step k + 1; b ...
                                                      mma acc, a[k % 2, ..], b[k % 2, ..]

A load into registers that a product still reads waits for it; a second set of registers does not. Worth it where a lane
has registers to spare beside its accumulators.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.fold import add, fold_node, i32, lt
from ktc.ir.nodes import Alloc, Binary, Body, Expr, If, Load, MatrixLoad, Stmt, Sym, Var, fresh
from ktc.ir.types import Array
from ktc.ir.walk import map_body, refresh, substitute, walk

FILE, MOST = 1 << 16, 255
"""Registers of a multiprocessor, and of a thread (CUDA C++ Programming Guide, technical specifications)."""
OTHERS = 55
"""Registers of a thread for addresses, counters and what else is not an operand."""


def two_sets(accumulators: int, operands: int, trips: int | None, threads: int | None) -> bool:
    """Whether a thread of so many has room for two sets of ``operands`` registers, and a next step to load."""
    if trips is None or trips < 2 or not threads:
        return False
    return accumulators + 2 * operands <= min(FILE // threads, MOST) - OTHERS


def loaded_ahead(
    loads: Body, sources: tuple[Expr, Expr], step: Sym, trips: Expr
) -> tuple[Body, Body, tuple[Expr, ...]] | None:
    """(in front of the loop over ``step``, at the start of its body, the operands); None unless matrices are loaded."""
    old = [s.sym for s in loads if isinstance(s, Alloc)]
    nests = tuple(s for s in loads if not isinstance(s, Alloc))
    matrices = [s for s in walk(nests) if isinstance(s, MatrixLoad)]
    if len(old) != 2 or {s.dst for s in matrices} != set(old) or not all(isinstance(x, Load) for x in sources):
        return None
    new = {r: fresh(r.name, Array(r.type.elem, (i32(2), *r.type.shape))) for r in old}  # type: ignore[attr-defined]

    def filled(at: Expr, to: Expr) -> Body:
        def on(s: Stmt) -> Stmt:
            if not isinstance(s, MatrixLoad):
                return s
            return dataclasses.replace(s, dst=new[s.dst], dst_index=(to, *s.dst_index))

        return map_body(substitute(refresh(nests), {step: at}), on, fold_node)

    following = add(Var(step), i32(1))
    front = (*(Alloc(r, align=16) for r in new.values()), *filled(i32(0), i32(0)))
    body = (If(lt(following, trips), filled(following, fold_node(Binary("%", following, i32(2))))),)
    now = Binary("%", Var(step), i32(2))
    held = tuple(Load(new[x.buffer], (now, *x.index), x.width) for x in sources)  # type: ignore[attr-defined]
    return front, body, held
