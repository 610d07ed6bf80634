"""Memory that is seen as bytes but used as one element type: declare it as that type.

Shared memory has the type that every access says: dynamic, or an array of bytes (``__shared__ char pool[8192]``). A
parameter is a pointer to what the source says, however its places are computed,
``*(const float *)((const char *)x + row * pitch)``: an address that is used as a float's is a multiple of a float's
size.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ktc.ir.analysis.defs import definitions
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    AsyncCopy,
    Atomic,
    Binary,
    Cast,
    Const,
    Decl,
    Expr,
    Load,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
    i32,
)
from ktc.ir.types import I8, U8, Array, Ptr, Scalar, Type, Vec, scalar_of
from ktc.ir.walk import all_exprs, map_body, walk

Extent: TypeAlias = Callable[[Type], Expr]
"""How many elements of a type a buffer holds."""


def shared_bytes(body: tuple[Stmt, ...]) -> dict[Sym, Extent]:
    """The arrays of bytes in shared memory that ``body`` declares with a number of bytes."""
    out: dict[Sym, Extent] = {}
    for s in walk(body):
        match s:
            case Alloc(Sym(type=Array(elem, (Const(int(count)),), "shared"))) if elem in (I8, U8) and not s.dynamic:
                out[s.sym] = functools.partial(_elements, count)
    return out


def _elements(count: int, elem: Type) -> Expr:
    """As many of ``elem`` as ``count`` bytes hold."""
    return i32(count // scalar_of(elem).bytes)


def retype_bytes(body: tuple[Stmt, ...], buffers: Mapping[Sym, Extent]) -> tuple[Stmt, ...]:
    """Replace each of ``buffers`` whose every access is a whole ``T`` at a multiple of ``sizeof(T)``."""
    names = definitions(body) if buffers else {}
    for buffer, extent in buffers.items():
        elem = _only_type(body, buffer, names)
        if elem is not None:
            new = fresh(buffer.name, Array(elem, (extent(elem),), "shared"))
            body = _rewrite(body, buffer, new, lambda e, n: _divided(e, n, names))
    return body


def used_pointee(body: tuple[Stmt, ...], pointer: Sym, names: Mapping[Sym, Expr]) -> Type:
    """What the pointer variable points to, as every access to it has it: a whole ``T`` at a multiple of ``sizeof(T)``;
    what it is declared to point to if accesses differ."""
    assert isinstance(pointer.type, Ptr)
    return _only_type(body, pointer, names) or pointer.type.elem


def retype_pointee(body: tuple[Stmt, ...], pointer: Sym, names: Mapping[Sym, Expr]) -> tuple[Stmt, ...]:
    """``body`` with the pointer variable as one to :func:`used_pointee`."""
    elem = used_pointee(body, pointer, names)
    if not isinstance(pointer.type, Ptr) or elem == pointer.type.elem:
        return body
    new = fresh(pointer.name, dataclasses.replace(pointer.type, elem=elem))
    return _rewrite(body, pointer, new, lambda e, n: _divided(e, n, names))


def retype_as_declared(
    body: tuple[Stmt, ...], declared: Mapping[Sym, Scalar]
) -> tuple[tuple[Stmt, ...], dict[Sym, Sym]]:
    """``body`` with each of the parameters that is used as nothing but what it was ``declared`` as, as that; and the
    parameters by what they were."""
    names = definitions(body) if declared else {}
    renamed: dict[Sym, Sym] = {}
    for buffer, elem in declared.items():
        if (
            _agreed(t for _, _, t in _accesses(body, buffer)) == elem
            and isinstance(buffer.type, Ptr)
            and elem.bytes % scalar_of(buffer.type).bytes == 0
        ):
            new = renamed[buffer] = fresh(buffer.name, dataclasses.replace(buffer.type, elem=elem))
            body = _rewrite(body, buffer, new, lambda e, n: _whole(e, n, names))
    return body, renamed


MOVED: Literal["moved"] = "moved"
"""The type of what is only moved from place to place within one buffer: whatever the other accesses say."""


@dataclass(frozen=True)
class ConstantBits:
    """The type of a number that is stored as it stands, as ``__int_as_float(0x7fffffff)`` is: the bits of an element of
    any type that has as many, which is what other accesses say."""

    type: Scalar


UsedAs: TypeAlias = Type | ConstantBits | Literal["moved"] | None
"""What the bits of an access are used as; None: as what the buffer is declared as."""


def _agreed(accesses: Iterable[UsedAs]) -> Scalar | None:
    """The type that all accesses use the bits as; None where they differ."""
    types = {t for t in accesses if t != MOVED}
    bits = {t.type for t in types if isinstance(t, ConstantBits)}
    said = {scalar_of(t) if isinstance(t, Scalar | Vec) else None for t in types if not isinstance(t, ConstantBits)}
    elem = next(iter(said or bits)) if len(said or bits) == 1 else None
    return elem if elem is not None and all(b.bytes == elem.bytes for b in bits) else None


def _accesses(body: tuple[Stmt, ...], buffer: Sym) -> Iterator[tuple[tuple[Expr, ...], Expr | int, UsedAs]]:
    """(index, width, what the bits are used as) of every access."""
    casts = set()
    for s in walk(body):
        if (moved := _moved(s, buffer)) is not None:
            casts.add(id(moved[1]))
            yield moved[1].index, moved[1].width, MOVED
    for e in all_exprs(body):
        if isinstance(e, Cast) and e.style == "bit" and isinstance(e.x, Load) and e.x.buffer == buffer:
            casts.add(id(e.x))
            yield e.x.index, e.x.width, e.to
        elif isinstance(e, Load) and e.buffer == buffer and id(e) not in casts:
            yield e.index, e.width, None
        elif isinstance(e, AddrOf) and e.buffer == buffer:  # an address counts bytes of what is declared
            yield e.index, 1, None
    for s in walk(body):
        if isinstance(s, Store) and s.buffer == buffer:
            yield s.index, s.width, _stored(s.value) if _moved(s, buffer) is None else MOVED
        elif isinstance(s, Atomic) and s.buffer == buffer:
            yield s.index, 1, None
        elif isinstance(s, AsyncCopy) and buffer in (s.dst, s.src):
            yield s.dst_index if s.dst == buffer else s.src_index, s.width, None


def _stored(value: Expr) -> UsedAs:
    """What a store of ``value`` uses the bits as."""
    if not isinstance(value, Cast) or value.style != "bit":
        return None
    number = value.x
    return ConstantBits(number.ty) if isinstance(number, Const) and number.ty.is_int else number.type


def _only_type(body: tuple[Stmt, ...], buffer: Sym, names: Mapping[Sym, Expr]) -> Scalar | None:
    base = scalar_of(buffer.type)
    all_accesses = list(_accesses(body, buffer))
    elem = _agreed(t for _, _, t in all_accesses)
    if elem is None or elem.bytes % base.bytes:
        return None
    n = elem.bytes // base.bytes
    whole = all(isinstance(width, int) and width % n == 0 for _, width, t in all_accesses if t == MOVED)
    return elem if whole and all(_divided(i[-1], n, names) is not None for i, _, _ in all_accesses) else None


def _moved(s: Stmt, buffer: Sym) -> tuple[Store, Load] | None:
    """``s`` and what it copies from one place of ``buffer`` to another; None if it does something else."""
    if not isinstance(s, Store) or not isinstance(s.value, Load) or {s.buffer, s.value.buffer} != {buffer}:
        return None
    return (s, s.value) if s.width == s.value.width else None


def _divided(e: Expr, n: int, names: Mapping[Sym, Expr]) -> Expr | None:
    """``e / n`` when ``e`` is visibly a multiple of ``n``, or a name for something that is."""
    if n == 1:
        return e
    if isinstance(e, Const):
        return Const(int(e.value) // n, e.ty) if int(e.value) % n == 0 else None
    if isinstance(e, Binary) and e.op == "*" and isinstance(e.b, Const) and int(e.b.value) % n == 0:
        k = int(e.b.value) // n
        inner = e.a.x if isinstance(e.a, Cast) and e.a.style == "static" else e.a
        return inner if k == 1 else Binary("*", e.a, Const(k, e.b.ty))
    if isinstance(e, Binary) and e.op in "+-":
        a, b = _divided(e.a, n, names), _divided(e.b, n, names)
        if a is None or b is None:
            return None
        wide = e.a.type
        return Binary(
            e.op, a if a.type == wide else Cast(wide, a, "implicit"), b if b.type == wide else Cast(wide, b, "implicit")
        )
    if isinstance(e, Cast) and e.style != "bit":
        below = _divided(e.x, n, names)
        return None if below is None else dataclasses.replace(e, x=below)
    if isinstance(e, Var) and e.sym in names:
        below = _divided(names[e.sym], n, names)
        return below if below is None or below.type == e.type else Cast(e.type, below, "implicit")
    return None


def _whole(e: Expr, n: int, names: Mapping[Sym, Expr]) -> Expr:
    """``e / n``, of an ``e`` that is a multiple of ``n``: terms that visibly are by themselves, the others together."""
    terms, visible, rest = _terms(e), [], []
    for t in terms:
        below = _divided(t, n, names)
        visible += [below if below.type == t.type else Cast(t.type, below, "implicit")] if below is not None else []
        rest += [t] if below is None else []
    together = [Binary("/", _sum(rest), Const(n, rest[0].type))] if rest else []  # type: ignore[arg-type]
    return _sum([*together, *visible])


def _terms(e: Expr) -> list[Expr]:
    """What is added up in ``e``, all of one type."""
    if isinstance(e, Binary) and e.op == "+" and e.a.type == e.b.type == e.type:
        return [*_terms(e.a), *_terms(e.b)]
    return [e]


def _sum(terms: list[Expr]) -> Expr:
    return functools.reduce(lambda a, b: Binary("+", a, b), terms)


def _rewrite(
    body: tuple[Stmt, ...], buffer: Sym, new: Sym, divide: Callable[[Expr, int], Expr | None]
) -> tuple[Stmt, ...]:
    """``body`` with ``new`` in the place of ``buffer``, whose elements are several of its."""
    n = scalar_of(new.type).bytes // scalar_of(buffer.type).bytes

    def index(old: tuple[Expr, ...]) -> tuple[Expr, ...]:
        at = divide(old[-1], n)
        assert at is not None
        return (*old[:-1], at)

    def expr(e: Expr) -> Expr:
        if isinstance(e, Cast) and e.style == "bit" and isinstance(e.x, Load) and e.x.buffer == buffer:
            width = int(e.to.n) if isinstance(e.to, Vec) else 1  # type: ignore[arg-type]
            return Load(new, index(e.x.index), width, e.x.cache)
        return e

    def stmt(s: Stmt) -> Stmt:
        if (moved := _moved(s, buffer)) is not None:
            store, load = moved
            assert isinstance(load.width, int)
            width = load.width // n
            value = dataclasses.replace(load, buffer=new, index=index(load.index), width=width)
            return dataclasses.replace(store, buffer=new, index=index(store.index), value=value, width=width)
        if isinstance(s, Store) and s.buffer == buffer:
            assert isinstance(s.value, Cast)
            bits, elem = s.value.x, scalar_of(new.type)
            width = int(bits.type.n) if isinstance(bits.type, Vec) else 1  # type: ignore[arg-type]
            kept = bits if width > 1 or bits.type == elem else Cast(elem, bits, "bit")
            return dataclasses.replace(s, buffer=new, index=index(s.index), value=kept, width=width)
        if isinstance(s, Alloc) and s.sym == buffer:
            return dataclasses.replace(s, sym=new)
        if isinstance(s, Decl) and s.sym == buffer and s.init is not None and isinstance(s.init, Cast):
            return dataclasses.replace(s, sym=new, init=dataclasses.replace(s.init, to=new.type))
        return s

    return map_body(body, stmt, expr)
