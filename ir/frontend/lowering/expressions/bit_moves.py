"""Values that only travel under another type: held as what they are.

int4 bits = *(const int4*)p; memcpy(payload, &bits, 16)      ->      half8 bits = *(const half8*)p; payload = bits

Packed 128-bit vectors are moved as integers and used as floats. Variables that are only ever given the bits of ``T``,
zeros, or each other, and whose bits are only ever taken as ``T``, hold ``T``: nothing is computed on the bits, so their
type has no say. Lanes may part on the way, as in PTX, whose vector loads fill a word each:

    u32x4 v = x[i +: 8] as.bit u32x4; u32 w = v[1]; h[2 +: 2] = w as.bit f16x2
    f16x8 v = x[i +: 8];            f16x2 w = {v[2], v[3]}; h[2 +: 2] = w

and private arrays are such variables, too:

    f16 v[8]; v[i * 2 +: 2] = x as.bit f16x2; y = v[4 +: 2] as.bit f32       ->      f32 v[4]; v[i] = x; y = v[2]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeGuard

from ktc.ir.arith.polynomial import from_polynomial, polynomial
from ktc.ir.fold import add, cast, evaluate, i32
from ktc.ir.frontend.meaning.constants import of_bits
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Body,
    Cast,
    Const,
    Decl,
    Expr,
    Load,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    VecGet,
    VecMake,
    fresh,
)
from ktc.ir.purity import is_removable
from ktc.ir.storage import is_local_array
from ktc.ir.types import BOOL, EVENT, F16, F32, F64, Array, Scalar, Type, Vec, scalar_of
from ktc.ir.walk import all_exprs, assigned, map_body, used, used_in, walk, walk_expr

LEAST = {F16: 2.0**-14, F32: 2.0**-126, F64: 2.0**-1022}
"""The least numbers that are not subnormal."""


def plain_moves(body: Body) -> Body:
    """``body`` with variables of the type whose bits they carry."""
    for elem in _travelling(body):
        body = _held_as(elem, body)
    return body


def _travelling(body: Body) -> tuple[Scalar, ...]:
    """The scalars whose bits ``body`` takes as something else, or the other way round."""
    found: dict[Scalar, None] = {}
    for e in all_exprs(body):
        if _is_bits(e):
            found |= dict.fromkeys((scalar_of(e.x.type), scalar_of(e.to)))
    return tuple(t for t in found if t not in (BOOL, EVENT))


def _held_as(elem: Scalar, body: Body) -> Body:
    """``body`` with the variables that carry bits of ``elem`` as variables of ``elem``.

    All that may be one are taken for one first; those that something else is done with drop out, until there are none.
    """
    carriers = _reached(elem, body)
    while carriers:
        held = _Held(elem, {v: fresh(v.name, t) for v, t in carriers.items()})
        new = map_body(body, held.statement, held.expression)
        wrong = held.failed | ((used_in(new) | assigned(new)) & carriers.keys())
        if not wrong:
            return new
        carriers = {v: t for v, t in carriers.items() if v not in wrong}
    return body


def _reached(elem: Scalar, body: Body) -> dict[Sym, Type]:
    """The variables that bits of ``elem`` may come to or from, with the types that they have as such."""
    types = {s.sym: _as_seen(s.sym.type, elem) for s in walk(body) if isinstance(s, Decl)}
    types |= {s.sym: _cells_as_seen(s.sym, elem) for s in walk(body) if isinstance(s, Alloc) and not s.dynamic}
    movable = {v: t for v, t in types.items() if t is not None and t != v.type}
    found = {v for e in all_exprs(body) if _is_bits(e) and scalar_of(e.to) == elem for v in used(e.x)}
    links: dict[Sym, set[Sym]] = {}
    for s in walk(body):
        to, value = _given(s)
        if value is None or to not in movable:
            continue
        if any(map(_is_bits, walk_expr(value))):
            found.add(to)
        for v in used(value) & movable.keys():
            links.setdefault(to, set()).add(v)
            links.setdefault(v, set()).add(to)
    todo = list(found)
    while todo:
        new = links.get(todo.pop(), set()) - found
        found |= new
        todo += new
    return {v: t for v, t in movable.items() if v in found}


def _given(s: Stmt) -> tuple[Sym, Expr] | tuple[None, None]:
    """The variable that ``s`` gives a value to, in whole or in part, and the value."""
    if isinstance(s, Decl) and s.init is not None:
        return s.sym, s.init
    if isinstance(s, Assign):
        return s.sym, s.value
    return (s.buffer, s.value) if isinstance(s, Store) else (None, None)


class _Held:
    """Statements and expressions with variables of ``elem``, ``new``, in place of others.

    ``failed``: those of the others that are given something else than bits of ``elem``.
    """

    def __init__(self, elem: Scalar, new: Mapping[Sym, Sym]) -> None:
        self.elem, self.new = elem, new
        self.failed: set[Sym] = set()

    def statement(self, s: Stmt) -> Stmt | Body:
        v, value = _given(s)
        if isinstance(s, Decl | Alloc) and value is None and s.sym in self.new:
            return dataclasses.replace(s, sym=self.new[s.sym])
        if v is None or value is None or v not in self.new:
            return s
        seen = self.seen(value)
        stored = self._stored(s, seen) if isinstance(s, Store) and seen is not None else ()
        if seen is None or stored is None:
            self.failed.add(v)
            return s
        if isinstance(s, Decl):
            return dataclasses.replace(s, sym=self.new[v], init=seen)
        return dataclasses.replace(s, sym=self.new[v], value=seen) if isinstance(s, Assign) else stored

    def _stored(self, s: Store, value: Expr) -> Body | None:
        """``s``, which stores ``value`` to a lane, or to cells of an array; None where these are parts of others."""
        new = self.new[s.buffer]
        if isinstance(s.buffer.type, Array):
            place = _place(s, new)
            return None if place is None else (dataclasses.replace(s, buffer=new, value=value, **place),)
        each = _per_lane(s.buffer.type, new.type)
        lane = s.index[0]
        if not each or s.width != 1 or len(s.index) != 1 or not isinstance(lane, Const):
            return None
        first = int(lane.value) * each
        return tuple(
            dataclasses.replace(s, buffer=new, index=(i32(first + k),), value=x) for k, x in enumerate(_lanes(value))
        )

    def expression(self, e: Expr) -> Expr:
        seen = self.seen(e.x) if _is_bits(e) and scalar_of(e.to) == self.elem else None
        return e if seen is None else seen

    def seen(self, e: Expr) -> Expr | None:
        """``e`` as a value of ``elem``; None where it is not known to be bits of such."""
        t = _as_seen(e.type, self.elem)
        if t is None or e.type == t:
            return None if t is None else e
        if isinstance(e, Var) and e.sym in self.new:
            return Var(self.new[e.sym])
        if isinstance(e, Const):
            return _number(e, t)
        if isinstance(e, Cast) and (e.style == "bit" or _is_same_word(e)):
            return self.seen(e.x)
        if isinstance(e, Select):
            a, b = self.seen(e.a), self.seen(e.b)
            return None if a is None or b is None else Select(e.cond, a, b)
        if isinstance(e, VecMake):
            args = [self.seen(x) for x in e.args]
            return _joined(args, t) if len(args) == e.ty.n else None
        if isinstance(e, VecGet):
            return self._lane(self.seen(e.x), e.x.type, e.lane, t)
        if isinstance(e, Load) and e.buffer in self.new and isinstance(e.buffer.type, Array):
            place = _place(e, self.new[e.buffer])
            return None if place is None else dataclasses.replace(e, buffer=self.new[e.buffer], **place)
        if isinstance(e, Load) and e.buffer in self.new and len(e.index) == 1 and e.width == 1:
            return self._lane(Var(self.new[e.buffer]), e.buffer.type, e.index[0], t)
        return None

    def _lane(self, x: Expr | None, was: Type, lane: Expr, t: Type) -> Expr | None:
        """What ``lane`` of a vector of the type ``was`` is of ``x``, which is in its place; of the type ``t``."""
        each = _per_lane(was, x.type) if x is not None else 0
        if x is None or not each:
            return None
        if not isinstance(lane, Const) or not is_removable(x):
            return VecGet(x, lane) if each == 1 else None
        first = int(lane.value) * each
        if isinstance(x, Load) and x.width != 1 and is_local_array(x.buffer):
            last = x.index[-1]
            index = (*x.index[:-1], add(last, cast(i32(first), last.type)))  # type: ignore[arg-type]
            return dataclasses.replace(x, index=index, width=each)
        return VecMake(t, _lanes(x)[first : first + each]) if isinstance(t, Vec) else _lanes(x)[first]


def _is_bits(e: Expr) -> TypeGuard[Cast]:
    return isinstance(e, Cast) and e.style == "bit" and isinstance(e.x.type, Scalar | Vec)


def _is_same_word(e: Cast) -> bool:
    """Whether ``e`` is a conversion between integers that keeps all bits."""
    a, b = e.x.type, e.to
    return isinstance(a, Scalar) and isinstance(b, Scalar) and a.is_int and b.is_int and a.bits == b.bits


def _as_seen(t: Type, elem: Scalar) -> Type | None:
    """The type of values of ``elem`` that have the bits of one of type ``t``; None where there is none."""
    if not isinstance(t, Scalar | Vec) or (isinstance(t, Vec) and not isinstance(t.n, int)):
        return None
    bits = scalar_of(t).bits * (int(t.n) if isinstance(t, Vec) else 1)  # type: ignore[arg-type]
    n = bits // elem.bits
    if bits % elem.bits or scalar_of(t) in (BOOL, EVENT):
        return None
    return elem if n == 1 else Vec(elem, n)


def _cells_as_seen(array: Sym, elem: Scalar) -> Type | None:
    """The type of the private ``array`` with cells of ``elem``; None where there is none, or cells are parts of it."""
    t = array.type
    if not isinstance(t, Array) or t.space != "local":
        return None
    if isinstance(t.elem, Vec):
        seen = _as_seen(t.elem, elem)
        return None if seen is None else dataclasses.replace(t, elem=seen)
    cells = evaluate(t.shape[-1], {})
    if not isinstance(t.elem, Scalar) or t.elem in (BOOL, EVENT) or cells is None:
        return None
    bits = int(cells) * t.elem.bits
    return None if bits % elem.bits else Array(elem, (*t.shape[:-1], i32(bits // elem.bits)), t.space)


def _place(x: Load | Store, new: Sym) -> dict[str, Any] | None:
    """Which cells of ``new`` are in the place of those that ``x`` touches; None where they are parts of its cells."""
    t, now = x.buffer.type, new.type
    assert isinstance(t, Array) and isinstance(now, Array)
    if isinstance(t.elem, Vec):  # as a whole, or lane by lane where there are as many
        whole = len(x.index) == len(t.shape) or _per_lane(t.elem, now.elem) == 1
        return {} if whole and x.width == 1 else None
    was, elem = scalar_of(t), scalar_of(now)
    if was.bits == elem.bits:
        return {}
    last, width = x.index[-1], x.width
    if len(x.index) != len(t.shape) or not isinstance(width, int) or not isinstance(last.type, Scalar):
        return None
    cells = {factors: k * was.bits for factors, k in polynomial(last).items()}
    if width * was.bits % elem.bits or any(k % elem.bits for k in cells.values()):
        return None
    at = from_polynomial({factors: k // elem.bits for factors, k in cells.items()}, last.type)
    return {"index": (*x.index[:-1], at), "width": width * was.bits // elem.bits}


def _per_lane(was: Type, now: Type) -> int:
    """How many lanes of ``now`` are in the place of one of ``was``; 0 where that is no whole number."""
    if not isinstance(was, Vec) or not isinstance(now, Vec):
        return 0
    return 0 if was.elem.bits % now.elem.bits else was.elem.bits // now.elem.bits


def _lanes(e: Expr) -> tuple[Expr, ...]:
    if not isinstance(e.type, Vec):
        return (e,)
    n = int(e.type.n)  # type: ignore[arg-type]
    return e.args if isinstance(e, VecMake) and len(e.args) == n else tuple(VecGet(e, i32(k)) for k in range(n))


def _joined(parts: list[Expr | None], t: Type) -> Expr | None:
    """A vector of the lanes of ``parts``."""
    if not isinstance(t, Vec) or not all(x is not None and is_removable(x) for x in parts):
        return None
    return VecMake(t, tuple(lane for x in parts if x is not None for lane in _lanes(x)))


def _number(e: Const, t: Type) -> Expr | None:
    """The numbers of type ``t`` that the bits of ``e`` are; None where one is no number, or so small that it rather is
    an integer."""
    elem, n = scalar_of(t), int(t.n) if isinstance(t, Vec) else 1  # type: ignore[arg-type]
    if str(e.value) in ("0", "0.0"):
        lanes: list[Const | None] = [Const(0.0 if elem.is_float else 0, elem)] * n
    elif isinstance(e.value, float) or not elem.is_float:
        return None
    else:
        word, mask = Scalar("uint", elem.bits), (1 << elem.bits) - 1
        lanes = [of_bits(Const(int(e.value) >> k * elem.bits & mask, word), elem) for k in range(n)]
    known = tuple(x for x in lanes if x is not None and (x.value == 0 or abs(x.value) >= LEAST.get(elem, 0)))
    if len(known) < n:
        return None
    return VecMake(t, known) if isinstance(t, Vec) else known[0]
