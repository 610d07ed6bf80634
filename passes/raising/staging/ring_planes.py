"""Rings of planes in shared memory, of which each iteration fills one: an array for each plane that an iteration reads.

before                                                  after
    plane[0][x] = a[at]; plane[1][x] = a[at + n];           for (z = 1; z < m; ++z) {
    for (z = 1; z < m; ++z) {                                 plane0[x] = a[at + (z + 1) * n];
      plane[(z + 1) % 3][x] = a[at + (z + 1) * n];            plane2[x] = a[at + (z - 1) * n];
      barrier;                                                barrier;
      .. plane[(z + 1) % 3][x], plane[(z - 1) % 3][x] ..      .. plane0[x], plane2[x] ..

What is read ``d`` planes behind the one that is filled was stored ``d`` iterations ago. A guess: that what is stored
before the loop is what the iterations before the first would store is for the exact comparison with the source to find.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.affine import linear_form
from ktc.ir.fold import cast, evaluate, i32, is_const, simplify, sub
from ktc.ir.nodes import Alloc, Binary, Body, Decl, Expr, For, If, Load, Stmt, Store, Sym, Var, fresh
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import all_exprs, keep, map_body, refresh, substitute, walk


def in_each_iteration(body: Body, arrays: Iterable[Sym]) -> Body:
    """``body`` with those of ``arrays`` that are rings filled in each iteration, as far as it reads them."""
    for array in arrays:
        loops = [s for s in body if isinstance(s, For) and _reads(s, array)]
        if len(loops) == 1 and isinstance(array.type, Array) and len(array.type.shape) > 1:
            done = _unrolled(body, loops[0], array)
            body = body if done is None else done
    return body


def _unrolled(body: Body, loop: For, array: Sym) -> Body | None:
    """``body`` with an array for each plane of ``array`` that ``loop`` reads; None where that is no ring."""
    t = array.type
    assert isinstance(t, Array)
    planes, names = evaluate(t.shape[0], {}), definitions(loop.body)
    if planes is None or any(_reads(s, array) for s in body if s is not loop):
        return None
    inner = map_body(loop.body, keep, lambda e: expand(e, names) if isinstance(e, Var) else e)
    stores = [s for s in walk(inner) if isinstance(s, Store) and s.buffer == array]
    stored = {_phase(s.index[0], loop.var, int(planes)) for s in stores}
    loads = [x for x in all_exprs(inner) if isinstance(x, Load) and x.buffer == array]
    read = {_phase(x.index[0], loop.var, int(planes)) for x in loads}
    if len(stored) != 1 or None in stored | read or not read:
        return None
    (now,) = stored
    assert now is not None
    behind = sorted((now - c) % int(planes) for c in read if c is not None)
    own = {d: fresh(f"{array.name}{d}", dataclasses.replace(t, shape=t.shape[1:])) for d in behind}
    out: list[Stmt] = []
    for s in inner:
        fills = any(isinstance(x, Store) and x.buffer == array for x in walk((s,)))
        if fills and not _only_fills(s, array):
            return None
        out += [y for d in behind for y in _earlier(s, d, loop.var, array, own)] if fills else [s]
    whole = map_body(tuple(out), keep, lambda e: _plane_of(e, array, own, now, loop.var, int(planes)))

    def outside(s: Stmt) -> Stmt | Body | None:
        if isinstance(s, Alloc) and s.sym == array:
            return tuple(dataclasses.replace(s, sym=p) for p in own.values())
        return None if isinstance(s, Store) and s.buffer == array else s

    return map_body(tuple(dataclasses.replace(s, body=whole) if s is loop else s for s in body), outside)


def _reads(s: Stmt, array: Sym) -> bool:
    return any(isinstance(x, Load) and x.buffer == array for x in all_exprs((s,)))


def _phase(index: Expr, z: Sym, planes: int) -> int | None:
    """``c`` of ``(z + c) % planes``."""
    if not isinstance(index, Binary) or index.op != "%" or evaluate(index.b, {}) != planes:
        return None
    form = linear_form(index.a, (z,))
    if form is None or not is_const(form.coeff(z), 1):
        return None
    c = evaluate(simplify(form.rest), {})
    return None if c is None else int(c) % planes


def _only_fills(s: Stmt, array: Sym) -> bool:
    return all(isinstance(x, If | Decl) or (isinstance(x, Store) and x.buffer == array) for x in walk((s,)))


def _earlier(s: Stmt, d: int, z: Sym, array: Sym, own: Mapping[int, Sym]) -> Body:
    """What ``s`` did ``d`` iterations ago, to the array of what is so old."""
    assert isinstance(z.type, Scalar)
    then = substitute(refresh((s,)), {z: sub(Var(z), cast(i32(d), z.type))}) if d else (s,)

    def on(x: Stmt) -> Stmt:
        if isinstance(x, Store) and x.buffer == array:
            return dataclasses.replace(x, buffer=own[d], index=x.index[1:])
        return x

    return map_body(then, on, simplify)


def _plane_of(e: Expr, array: Sym, own: Mapping[int, Sym], now: int, z: Sym, planes: int) -> Expr:
    if not isinstance(e, Load) or e.buffer != array:
        return e
    c = _phase(e.index[0], z, planes)
    assert c is not None
    return dataclasses.replace(e, buffer=own[(now - c) % planes], index=e.index[1:])


__all__ = ["in_each_iteration"]
