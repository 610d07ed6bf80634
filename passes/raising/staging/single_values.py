"""Private arrays whose elements are updated, as arrays of which each element has one value.

before                                           after
    for k in 0..3                                    for k in 0..3
      v[k, 0] = x[k * 256 + tid]                       v_0[k] = x[k * 256 + tid]
      s += v[k, 0]                                     s += v_0[k]
    mean = total(s)                                  mean = total(s)
    for k in 0..3                                    for k in 0..3
      v[k, 0] -= mean                                  v_0_1[k] = v_0[k] - mean
    for k in 0..3                                    for k in 0..3
      y[k * 256 + tid] = v[k, 0] * scale               y[k * 256 + tid] = v_0_1[k] * scale

Where an update stands under a condition, the elements that it leaves out are taken for such that nothing reads: a
guess, which the exact comparison with the source refutes where it is wrong.
"""

from __future__ import annotations

import dataclasses
from functools import partial

from ktc.ir.fold import evaluate, is_const
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    AsyncCopy,
    Atomic,
    Body,
    Expr,
    For,
    If,
    Load,
    Par,
    RawStmt,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.storage import is_local_array, is_shared
from ktc.ir.types import Array
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    map_body,
    mentions,
    rename,
    used_in,
    walk,
    with_bodies,
    with_list_around,
)


def kept_rows(body: Body) -> list[Alloc]:
    """Arrays that keep a row between its sweeps: a thread's own, and shared ones whose elements loops go through one
    by one."""
    shared = {s.sym for s in walk(body) if isinstance(s, Alloc) and is_shared(s.sym)}
    for s in walk(body) if shared else ():
        if isinstance(s, Store) and not _of_one(s):
            shared.discard(s.buffer)
        elif isinstance(s, Atomic | AsyncCopy | RawStmt):
            shared -= mentions(s)
    for e in all_exprs(body) if shared else ():
        if (isinstance(e, Load) and not _of_one(e)) or isinstance(e, AddrOf):
            shared.discard(e.buffer)
    return [s for s in walk(body) if isinstance(s, Alloc) and (is_local_array(s.sym) or s.sym in shared)]


def _of_one(x: Load | Store) -> bool:
    """Whether an access is of one element, at a variable."""
    return x.width == 1 and len(x.index) == 1 and isinstance(x.index[0], Var)


def with_single_values(body: Body) -> Body:
    """``body`` with such arrays apart: a column each, and from each update on a new one."""
    for s in [s for s in walk(body) if isinstance(s, Alloc) and is_local_array(s.sym)]:
        body = _columns_apart(body, s.sym)
    todo = kept_rows(body)
    while todo:
        s = todo.pop()
        renewed = dataclasses.replace(s, sym=fresh(s.sym.name, s.sym.type))
        changed = with_list_around(body, s, partial(_updated_apart, s, renewed))
        if changed is not None:
            body = changed
            todo.append(renewed)
    return body


def _columns_apart(body: Body, array: Sym) -> Body:
    """``body`` with an array for each of the last indices of ``array``, where all of them are numbers."""
    t = array.type
    columns = evaluate(t.shape[-1], {}) if isinstance(t, Array) and len(t.shape) > 1 else None
    if columns is None or not isinstance(t, Array):
        return body
    column = dataclasses.replace(t, shape=t.shape[:-1])
    apart = [fresh(f"{array.name}_{k}", column) for k in range(int(columns))]

    def place(x: Load | Store) -> dict[str, object]:
        """What changes of an access to ``array``; nothing where it is not of one element of a known column."""
        if x.buffer != array or x.width != 1 or len(x.index) != len(column.shape) + 1 or not is_const(x.index[-1]):
            return {}
        k = int(evaluate(x.index[-1], {}) or 0)
        return {"buffer": apart[k], "index": x.index[:-1]} if 0 <= k < len(apart) else {}

    def on(s: Stmt) -> Stmt | Body:
        if isinstance(s, Alloc) and s.sym == array:
            return tuple(dataclasses.replace(s, sym=a) for a in apart)
        return dataclasses.replace(s, **place(s)) if isinstance(s, Store) else s  # type: ignore[arg-type]

    def value(e: Expr) -> Expr:
        return dataclasses.replace(e, **place(e)) if isinstance(e, Load) else e  # type: ignore[arg-type]

    changed = map_body(body, on, value)
    return body if array in used_in(changed) | assigned(changed) | set(declared(changed)) else changed


def _updated_apart(made: Alloc, renewed: Alloc, before: Body, behind: Body) -> Body | None:
    """The list around ``made`` with ``renewed`` in its place from the first update of all elements on; None where there
    is no such update."""
    array = made.sym
    touched = [k for k, s in enumerate(behind) if _stores(s, array)]
    if len(touched) < 2 or (at := touched[1]) is None or len(_stores(behind[at], array)) != 1:
        return None
    update = _stores(behind[at], array)[0]
    loops = [s for s in walk((behind[at],)) if isinstance(s, For | Par | Reduce) and _stores(s, array)]
    if len(loops) != 1 or update.index != (Var(loops[0].var),) or update.width != 1:
        return None
    if any(e.index != update.index for e in all_exprs(tuple(loops)) if isinstance(e, Load) and e.buffer == array):
        return None
    new = {array: renewed.sym}
    here = _from(update, behind[at], new)
    return (*before, made, renewed, *behind[:at], here, *rename(behind[at + 1 :], new))


def _stores(s: Stmt, array: Sym) -> list[Store]:
    return [x for x in walk((s,)) if isinstance(x, Store) and x.buffer == array]


def _from(update: Store, s: Stmt, new: dict[Sym, Sym]) -> Stmt:
    """``s`` with arrays renamed in what ``update`` stores to, and in what comes after it."""
    if s is update:
        return dataclasses.replace(update, buffer=new[update.buffer])

    def inside(body: Body) -> Body:
        at = next((k for k, x in enumerate(body) if any(y is update for y in walk((x,)))), None)
        if at is None:
            return body
        return (*body[:at], _from(update, body[at], new), *rename(body[at + 1 :], new))

    if isinstance(s, Reduce):  # what is accumulated is known at the end of the body
        (head,) = rename((dataclasses.replace(s, body=()),), new)
        return dataclasses.replace(head, body=inside(s.body))  # type: ignore[call-arg]
    return with_bodies(s, inside) if isinstance(s, If | For | Par) else s


__all__ = ["kept_rows", "with_single_values"]
