"""Arrays of structs whose fields differ in type, as an array for each field.

before                                          after
    array part: shared f32[64]                      array part_0: shared f32[32]
    part[w * 2] = v                                 array part_1: shared i32[32]
    part[w * 2 + 1] = i as.bit f32                  part_0[w] = v
    j = part[t * 2 + 1] as.bit i32                  part_1[w] = i
                                                    j = part_1[t]

A struct lies in words of one type; what has another keeps its bits in them. Where each access says which field it
means, fields are values of their own: exact arithmetic knows no bits of numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd

from ktc.ir.fold import add, evaluate, mul, simplify
from ktc.ir.nodes import Alloc, Binary, Body, Cast, Const, Expr, Load, Stmt, Store, Sym, fresh
from ktc.ir.storage import is_local_array, is_shared
from ktc.ir.types import Array, Scalar, Type
from ktc.ir.walk import commented, keep, map_body, stmt_exprs, walk, walk_expr

from .member_arrays import whole_uses

MOST_WORDS = 16


def with_field_arrays(body: Body) -> Body:
    """``body`` with such arrays, of those that only this kernel's code can reach, by field."""
    if not any(_bits(e) is not None for s in walk(body) for x in stmt_exprs(s) for e in walk_expr(x)):
        return body
    allocs = [
        s
        for s in walk(body)
        if isinstance(s, Alloc)
        and not s.dynamic
        and isinstance(s.sym.type, Array)
        and isinstance(s.sym.type.elem, Scalar)
        and _length(s.sym) is not None
    ]
    whole = set().union(*(whole_uses(s, wide=True) for s in walk(body)))
    for s in allocs:
        if s.sym not in whole and (is_shared(s.sym) or is_local_array(s.sym)):
            body = _by_field(body, s)
    return body


def _length(array: Sym) -> int | None:
    t = array.type
    known = evaluate(t.shape[0], {}) if isinstance(t, Array) and len(t.shape) == 1 else None
    return None if known is None else int(known)


@dataclass
class Field:
    """A field of a struct of which an array is: how many words it has, the types in which it is stored and loaded."""

    width: int
    types: set[Type]


def _by_field(body: Body, alloc: Alloc) -> Body:
    """``body`` with the array of ``alloc`` by field; as it is where accesses do not say which field they mean, or all
    fields have one type."""
    array, length = alloc.sym, _length(alloc.sym) or 0
    assert isinstance(array.type, Array) and isinstance(array.type.elem, Scalar)
    accesses = [a for s in walk(body) for a in _accesses(s) if a.buffer == array]
    words = gcd(length, *(f for a in accesses for f in _factors(a.index[0])))
    fields = _fields(body, array, words) if 1 < words <= MOST_WORDS else None
    types = {k: next(iter(f.types)) for k, f in fields.items()} if fields is not None else {}
    if len(set(types.values())) < 2:
        return body
    shape = (Const(length // words, array.type.shape[0].type),)  # type: ignore[arg-type]
    arrays = {
        k: fresh(f"{array.name}_{n}", dataclasses.replace(array.type, elem=types[k], shape=shape))
        for n, k in enumerate(sorted(types))
    }

    def place(index: tuple[Expr, ...]) -> tuple[int, tuple[Expr, ...]]:
        parted = _parted(index[0], words)
        assert parted is not None
        return parted[1], (simplify(parted[0]),)

    def loaded(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == array:
            k, index = place(e.index)
            load = Load(arrays[k], index)
            return load if types[k] == e.type else Cast(e.type, load, "bit")  # type: ignore[arg-type]
        inner = _bits(_bits(e))
        return inner if inner is not None and inner.type == e.type else e

    def stored(s: Stmt) -> Stmt | Body:
        if isinstance(s, Alloc) and s.sym == array:
            return commented(tuple(Alloc(a, loc=s.loc) for a in arrays.values()), s.comments)
        if not isinstance(s, Store) or s.buffer != array:
            return s
        k, index = place(s.index)
        value = None if types[k] == s.value.type else _bits(s.value)
        return dataclasses.replace(s, buffer=arrays[k], index=index, width=1, value=s.value if value is None else value)

    return map_body(map_body(body, stored), keep, loaded)


def _fields(body: Body, array: Sym, words: int) -> dict[int, Field] | None:
    """The fields of ``array``, whose elements have so many words, by the first of these; None where accesses do not say
    which they mean, or mean one of several types."""
    out: dict[int, Field] = {}

    def note(index: tuple[Expr, ...], width: int | Expr, t: Type) -> bool:
        parted = _parted(index[0], words)
        if parted is None or not isinstance(width, int):
            return False
        field = out.setdefault(parted[1], Field(width, set()))
        field.types.add(t)
        return field.width == width and len(field.types) == 1

    for s in walk(body):
        if isinstance(s, Store) and s.buffer == array:
            value = _bits(s.value)
            if not note(s.index, s.width, s.value.type if value is None else value.type):
                return None
        for e in stmt_exprs(s):
            taken = {id(inner): x.type for x in walk_expr(e) if (inner := _bits(x)) is not None}
            for x in walk_expr(e):
                if isinstance(x, Load) and x.buffer == array and not note(x.index, x.width, taken.get(id(x), x.type)):
                    return None
    apart = all(k + f.width <= words and not {*range(k + 1, k + f.width)} & out.keys() for k, f in out.items())
    single = all(isinstance(t, Scalar) for f in out.values() for t in f.types)
    return out if apart and single else None


def _bits(e: Expr | None) -> Expr | None:
    """What ``e`` has the bits of, as those of another type; None where it is no such."""
    return e.x if isinstance(e, Cast) and e.style == "bit" else None


def _accesses(s: Stmt) -> Iterator[Load | Store]:
    yield from (x for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Load))
    if isinstance(s, Store):
        yield s


def _factors(e: Expr) -> Iterable[int]:
    """What the parts of the index ``e`` that are not known are multiples of."""
    if isinstance(e, Const):
        return ()
    if isinstance(e, Cast):
        return _factors(e.x)
    if isinstance(e, Binary) and e.op == "+":
        return (*_factors(e.a), *_factors(e.b))
    if isinstance(e, Binary) and e.op == "*":
        known = evaluate(e.b, {}) if isinstance(e.b, Const) else evaluate(e.a, {})
        return (1,) if known is None else (int(known),)
    return (1,)


def _parted(e: Expr, n: int) -> tuple[Expr, int] | None:
    """``e`` as ``n`` times something, and what is left; None where that is not seen."""
    t = e.type
    assert isinstance(t, Scalar)
    if isinstance(e, Const):
        return Const(int(e.value) // n, t), int(e.value) % n
    if isinstance(e, Cast) and e.style != "bit" and t.is_int:
        parted = _parted(e.x, n)
        return None if parted is None else (dataclasses.replace(e, x=parted[0]), parted[1])
    if isinstance(e, Binary) and e.op == "+":
        parts = _parted(e.a, n), _parted(e.b, n)
        if parts[0] is None or parts[1] is None:
            return None
        left = parts[0][1] + parts[1][1]
        return add(add(parts[0][0], parts[1][0]), Const(left // n, t)), left % n
    if isinstance(e, Binary) and e.op == "*":
        for x, by in ((e.a, e.b), (e.b, e.a)):
            if isinstance(by, Const) and int(by.value) % n == 0:
                return mul(x, Const(int(by.value) // n, t)), 0
    return None


__all__ = ["with_field_arrays"]
