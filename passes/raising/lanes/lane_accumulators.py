"""Sums that a loop over vectors keeps lane by lane, and that are added up after it, as one sum.

before                                     after
    acc[0] = 0.0 ... acc[3] = 0.0              part = 0.0
    for i in tid..n / 4 step 256               for i in tid..n / 4 step 256
      v = x[i * 4 +: 4]                          v = x[i * 4 +: 4]
      acc[0] += v[0] ... acc[3] += v[3]          part += v[0] ... part += v[3]
    sum = 0.0                                  sum = 0.0
    for k in 0..4                              sum += part
      sum += acc[k]

Sums are taken in another order then, as in every reduction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial

from ktc.ir.analysis.accumulators import combine, identity, is_identity
from ktc.ir.arith.counted_loops import counting
from ktc.ir.fold import evaluate, simplify
from ktc.ir.nodes import Alloc, Assign, Body, Decl, Expr, For, Load, Stmt, Store, Sym, Var, fresh
from ktc.ir.storage import is_local_array
from ktc.ir.types import Array, Scalar, Type
from ktc.ir.walk import assigned, declared, map_body, map_expr, mentions, used_in, walk, with_list_around
from ktc.passes.shared.accumulations import Accumulation, accumulation


def with_summed_lanes(body: Body) -> Body:
    """``body`` with such arrays of sums as one sum each."""
    for s in [s for s in walk(body) if isinstance(s, Alloc) and is_local_array(s.sym)]:
        changed = with_list_around(body, s, partial(_summed, s))
        body = body if changed is None else changed
    return body


def _summed(made: Alloc, before: Body, behind: Body) -> Body | None:
    """The list around ``made``, an array of sums, with one sum in its place; None where it is no such array."""
    array, t = made.sym, made.sym.type
    if not isinstance(t, Array) or not isinstance(t.elem, Scalar) or len(t.shape) != 1:
        return None
    final = next(((s, a) for s in behind if isinstance(s, For) for a in _totals(s, array)), None)
    if final is None:
        return None
    last, total = final
    op, own = total.op, _start_of(total, behind[: behind.index(last)])
    part = total.sym if own is not None else fresh(array.name, t.elem)
    out: list[Stmt] = [*before, Decl(part, identity(op, t.elem), loc=made.loc)]
    updated = False
    for s in behind:
        if s is last:
            rest = tuple(x for x in last.body if not (isinstance(x, Assign) and x.sym == total.sym))
            out += [dataclasses.replace(last, body=rest)] if rest else []
            out += [] if own else [Assign(total.sym, combine(op, Var(total.sym), Var(part)), loc=last.loc)]
        elif s is own or (not updated and _starts(s, array, op)):
            continue
        elif array in mentions(s):
            updated = True
            out += map_body((s,), partial(_update, array, part, op))
        else:
            out.append(s)
    return None if array in used_in(tuple(out)) | assigned(tuple(out)) | set(declared(tuple(out))) else tuple(out)


def _start_of(total: Accumulation, before: Body) -> Decl | None:
    """The declaration in ``before`` that starts ``total`` from what adds nothing, if nothing else is done with it."""
    v, t = total.sym, total.sym.type
    first = next((s for s in before if isinstance(s, Decl) and s.sym == v and s.init is not None), None)
    if first is None or not isinstance(t, Scalar) or v in used_in(before) | assigned(before):
        return None
    return first if first.init is not None and is_identity(simplify(first.init), total.op, t) else None


def _totals(s: For, array: Sym) -> Iterator[Accumulation]:
    """The sum of all elements of ``array`` that ``s`` takes, if it does nothing else with it."""
    form = counting(s)
    sizes = [evaluate(n, {}) for n in array.type.shape]  # type: ignore[attr-defined]
    if form is not None and form.from_zero_by_one and evaluate(form.hi, {}) == sizes[0]:
        found = (accumulation(x) for x in s.body if isinstance(x, Assign))
        yield from (a for a in found if a is not None and _is_element(a.value, array, Var(s.var), a.sym.type))


def _is_element(e: Expr, array: Sym, index: Expr, t: Type) -> bool:
    """Whether ``e`` is the element of ``array`` at ``index``, and a ``t`` as the variable is that it is added to."""
    return isinstance(e, Load) and e.buffer == array and e.index == (index,) and e.width == 1 and e.type == t


def _starts(s: Stmt, array: Sym, op: str) -> bool:
    """Whether ``s`` starts elements of ``array`` from what adds nothing, and does nothing else."""
    stores = s.body if isinstance(s, For) else (s,)
    return bool(stores) and all(_is_start(x, array, op) for x in stores)


def _is_start(x: Stmt, array: Sym, op: str) -> bool:
    if not isinstance(x, Store) or x.buffer != array or x.width != 1:
        return False
    return is_identity(simplify(x.value), op, array.type.elem)  # type: ignore[attr-defined]


def _update(array: Sym, part: Sym, op: str, s: Stmt) -> Stmt:
    """``s``, if it adds something to an element of ``array``, with ``part`` in its place."""
    if not isinstance(s, Store) or s.buffer != array or s.width != 1:
        return s
    element = fresh(array.name, part.type)
    a = accumulation(Assign(element, map_expr(s.value, lambda e: Var(element) if e == Load(array, s.index) else e)))
    if a is None or a.op != op:
        return s
    return Assign(part, combine(op, Var(part), a.value), loc=s.loc, comments=s.comments)


__all__ = ["with_summed_lanes"]
