"""Lists of tensors that a struct keeps in one array, ``void* at[2][36]``: a parameter for each list.

before                                          after
    p = t_at[j] as.c (f32*)                         p = t_at_0[j] as.c (f32*)
    q = t_at[36 + j] as.c (f32*)                    q = t_at_1[j] as.c (f32*)

What is read of one list and what is written to another one are different tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ktc.ir.arith.integer_casts import without_widening
from ktc.ir.kernel import Param
from ktc.ir.nodes import AddrOf, Atomic, Binary, Body, Const, Expr, Load, Store, Sym, fresh
from ktc.ir.support.frozen import values_of
from ktc.ir.walk import all_exprs, keep, map_body, walk, walk_expr


def with_table_parts(
    body: Body, params: tuple[Param, ...], lengths: Mapping[str, int]
) -> tuple[Body, tuple[Param, ...]]:
    """``body`` and ``params`` with the lists of those arrays apart of which each access says by a number which list it
    is in; ``lengths``: of one list, by the parameter's name."""
    for p in params:
        length = lengths.get(p.sym.name)
        found = None if length is None else _lists(body, p.sym, length)
        if not found:
            continue
        own = {k: fresh(f"{p.sym.name}_{k}", p.sym.type) for k in sorted({k for k, _ in found.values()})}

        def read(e: Expr, table: Sym = p.sym, n: int = length or 1, own: Mapping[int, Sym] = own) -> Expr:
            if not isinstance(e, Load) or e.buffer != table:
                return e
            k, at = _place(e.index[0], n)
            return replace(e, buffer=own[k], index=(at,))

        body = map_body(body, keep, read)
        where = params.index(p)
        params = (*params[:where], *(replace(p, sym=s) for s in own.values()), *params[where + 1 :])
    return body, params


def _lists(body: Body, table: Sym, length: int) -> dict[int, tuple[int, Expr]]:
    """Where each load of ``table`` is, by its identity; nothing if something else is done with it, or a load does not
    say which list it is in."""
    found: dict[int, tuple[int, Expr]] = {}
    for e in all_exprs(body):
        if isinstance(e, AddrOf) and e.buffer == table:
            return {}
        if isinstance(e, Load) and e.buffer == table:
            if any(_steps_over_lists(x, length) for x in walk_expr(e.index[0])):
                return {}
            found[id(e)] = _place(e.index[0], length)
    for s in walk(body):
        if any(v == table for _, v in values_of(s)) or (isinstance(s, Store | Atomic) and s.buffer == table):
            return {}
    return found


def _steps_over_lists(e: Expr, length: int) -> bool:
    """Whether ``e`` is a number of lists that only a run tells, in elements."""
    sides = (e.a, e.b) if isinstance(e, Binary) and e.op == "*" else ()
    return any(isinstance(x := without_widening(n), Const) and int(x.value) % length == 0 for n in sides)


def _place(e: Expr, length: int) -> tuple[int, Expr]:
    """The list that the element ``e`` is in, and where in it: what is added to the number of the list's first element
    is less than ``length``, as in any array of C."""
    e = without_widening(e)
    if isinstance(e, Const):
        return int(e.value) // length, Const(int(e.value) % length, e.ty)
    if isinstance(e, Binary) and e.op == "+":
        for one, other in ((e.a, e.b), (e.b, e.a)):
            first = without_widening(one)
            if isinstance(first, Const) and int(first.value) % length == 0:
                return int(first.value) // length, other
    return 0, e


__all__ = ["with_table_parts"]
