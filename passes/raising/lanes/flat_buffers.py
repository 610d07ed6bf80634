"""Vectors in memory, and constant ones, as what they are made of.

``x[i]`` of a ``float4*`` is ``x[i * 4 +: 4]`` of a ``float*``: the launcher passes the same address, which is aligned
to the vectors as it was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping

from ktc.ir.fold import add, cast, i32, mul
from ktc.ir.nodes import Body, Cast, Const, Decl, Expr, Load, Stmt, Store, Sym, Var, VecGet, VecMake, fresh
from ktc.ir.types import I32, Ptr, Scalar, Vec
from ktc.ir.walk import all_exprs, assigned, keep, map_body, used_in, walk


def flat_buffers(body: Body) -> dict[Sym, Sym]:
    """The buffers of vectors that ``body`` only loads from and stores to, each with one of the elements."""
    found = {s for s in (*used_in(body), *assigned(body)) if _of_vectors(s) is not None}
    plain = {x.buffer for x in _accesses(body)}
    others = {y for s in walk(body) for x in (s, *all_exprs((s,))) if not isinstance(x, Load | Store)
              for y in _named(x) if y in found}  # fmt: skip
    return {s: _flat(s) for s in sorted((found & plain) - others, key=lambda s: s.id)}


def flattened(body: Body, flat: Mapping[Sym, Sym]) -> Body:
    """``body`` with the buffers of ``flat`` as those of elements."""

    def on(s: Stmt) -> Stmt:
        if not isinstance(s, Store) or s.buffer not in flat:
            return s
        index, width = _place(s.buffer, s.index)
        return dataclasses.replace(s, buffer=flat[s.buffer], index=index, width=width)

    def expr(e: Expr) -> Expr:
        if not isinstance(e, Load) or e.buffer not in flat:
            return e
        index, width = _place(e.buffer, e.index)
        return dataclasses.replace(e, buffer=flat[e.buffer], index=index, width=width)

    return map_body(body, on, expr)


def with_constants(body: Body) -> Body:
    """``body`` with vectors of literals, or of other names, that never change where they are used."""
    changed = assigned(body)
    known = {
        s.sym: s.init
        for s in walk(body)
        if isinstance(s, Decl) and isinstance(s.init, VecMake) and s.sym not in changed
        and all(_is_plain(x, changed) for x in s.init.args)
    }  # fmt: skip
    return map_body(body, keep, lambda e: _lane(e, known)) if known else body


def _is_plain(e: Expr, changing: Collection[Sym]) -> bool:
    """Whether ``e`` is a number, or a name of what does not change, converted or not."""
    if isinstance(e, Cast) and e.style != "bit":
        return _is_plain(e.x, changing)
    return isinstance(e, Const) or (isinstance(e, Var) and e.sym not in changing)


def _lane(e: Expr, known: Mapping[Sym, VecMake]) -> Expr:
    if isinstance(e, Var) and e.sym in known:
        return known[e.sym]
    if isinstance(e, Load) and e.buffer in known:
        return VecGet(known[e.buffer], e.index[-1])
    return e


def _accesses(body: Body) -> Iterator[Load | Store]:
    for s in walk(body):
        yield from (x for x in (s, *all_exprs((s,))) if isinstance(x, Load | Store) and x.width == 1)


def _named(x: object) -> Collection[Sym]:
    return [v for v in (getattr(x, "buffer", None), getattr(x, "dst", None), getattr(x, "src", None)) if v is not None]


def _of_vectors(s: Sym) -> Vec | None:
    t = s.type
    plain = isinstance(t, Ptr) and isinstance(t.elem, Vec) and isinstance(t.elem.n, int)
    return t.elem if plain else None  # type: ignore[attr-defined, no-any-return]


def _flat(s: Sym) -> Sym:
    v = _of_vectors(s)
    assert v is not None and isinstance(s.type, Ptr)
    return fresh(s.name, dataclasses.replace(s.type, elem=v.elem))


def _place(buffer: Sym, index: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], int]:
    """Where the vector, or the lane of one, at ``index`` of ``buffer`` lies among the elements, and how many it is."""
    v = _of_vectors(buffer)
    assert v is not None and isinstance(v.n, int)
    t = index[0].type
    at = mul(index[0], cast(i32(v.n), t if isinstance(t, Scalar) else I32))
    return ((at,), v.n) if len(index) == 1 else ((add(at, index[1]),), 1)


__all__ = ["flat_buffers", "flattened", "with_constants"]
