"""OpenCL C's asynchronous copies by a work-group, and the waits for their events."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ktc.ir.frontend.lowering.memory.null_uses import NULL_ACCESS
from ktc.ir.frontend.lowering.memory.pointer_choices import as_choice
from ktc.ir.frontend.meaning.cxx_types import show
from ktc.ir.frontend.meaning.values import ElemPlace, NullVal, PtrToPlace, PtrVal, RVal, Value
from ktc.ir.nodes import (
    Binary,
    Body,
    Const,
    Decl,
    Expr,
    GroupCopy,
    GroupWait,
    If,
    Select,
    Stmt,
    Var,
    accessed_type,
    fresh,
    i32,
)  # fmt: skip
from ktc.ir.types import EVENT, U64, Array, scalar_of

if TYPE_CHECKING:
    from ktc.ir.frontend.lowering.calls.calls import Calls

MOST_EVENTS = 64
"""Events that one wait may name: each is a statement."""


def _copy(low: Calls, raw: list, node: Any) -> Value:
    """``async_work_group_copy(to, from, count, event)``: the event that names the copy."""
    return _copies(low, raw, node, strided=False)


def _strided_copy(low: Calls, raw: list, node: Any) -> Value:
    """``async_work_group_strided_copy(to, from, count, stride, event)``."""
    return _copies(low, raw, node, strided=True)


def _copies(low: Calls, raw: list, node: Any, strided: bool) -> Value:
    if len(raw) != (5 if strided else 4):
        low.fail("E-SEMA-OVERLOAD", f"an asynchronous copy with {len(raw)} arguments", node)
    to, source, *rest = (low.load(low.eval(a), node) for a in raw)
    numbers = [low.convert(low.rvalue(v, node), U64).expr for v in rest[:-1]]
    count, *apart = (e if isinstance(e, Const) else low.temp(e, "count") for e in numbers)
    joined = low.convert(low.rvalue(rest[-1], node), EVENT, node=node).expr
    event = fresh("event", EVENT)
    after = None if isinstance(joined, Const) else joined

    def copy(dst: PtrVal, src: PtrVal) -> Stmt:
        a, b, many = _one_type(low, dst, src, count, node)
        return GroupCopy(a.buffer, a.index, b.buffer, b.index, many, event, after, *apart, loc=low.loc)

    copies = _at(low, to, lambda a: _at(low, source, lambda b: (copy(a, b),), node), node)
    for s in (Decl(event, loc=low.loc), *copies):
        low.emit(s)
    return RVal(Var(event))


NOWHERE: Body = (NULL_ACCESS,)


def _at(low: Calls, v: Value, then: Callable[[PtrVal], Body], node: Any) -> Body:
    """``then`` of the place that the pointer ``v`` is; a trap where it points nowhere."""
    found = as_choice(v)
    if isinstance(v, NullVal):
        return NOWHERE
    if found is None or not found.choices:
        low.fail("E-UNSUPPORTED-POINTER", "an asynchronous copy between these pointers is not supported", node)
    places = [_at_once(low, c) for c in found.choices]
    if isinstance(found.which, Const) and found.which.value >= 0:
        return then(places[int(found.which.value)])
    which = low.temp(found.which, "which")
    out = NOWHERE
    if _somewhere(found.which):
        out = then(places.pop())
    for k in range(len(places) - 1, -1, -1):
        out = (If(Binary("==", which, i32(k)), then(places[k]), out, loc=low.loc),)
    return out


def _somewhere(which: Expr) -> bool:
    """Whether a choice is none of ``nullptr``."""
    if isinstance(which, Select):
        return _somewhere(which.a) and _somewhere(which.b)
    return isinstance(which, Const) and which.value >= 0


def _at_once(low: Calls, p: PtrVal) -> PtrVal:
    """``p`` with its offset computed here, once."""
    if p.offset is None or isinstance(p.offset, Const | Var):
        return p
    return dataclasses.replace(p, offset=low.temp(p.offset, "at"))


def _one_type(low: Calls, to: PtrVal, source: PtrVal, count: Expr, node: Any) -> tuple[ElemPlace, ElemPlace, Expr]:
    """The two places as elements of one type, and the number of them."""
    for p in (to, source):
        t = p.buffer.type
        if isinstance(t, Array) and len(t.shape) > 1 and not p.flat:
            low.need_flat(p.buffer, node)
    small, large = sorted((to, source), key=lambda p: scalar_of(p.buffer.type).bytes)
    if scalar_of(small.buffer.type).bytes < scalar_of(large.buffer.type).bytes:
        low.need_unit(large.buffer, scalar_of(small.buffer.type), node)
    places = [low.deref(p, None, node) for p in (to, source)]
    known = [p for p in places if isinstance(p, ElemPlace)]
    types = [accessed_type(p.buffer, len(p.index)) for p in known]
    if len(known) == 2 and types[0] == types[1]:
        size, unit = low.layout(to.elem, node)[0], low.layout(types[0], node)[0]
        if all(p.width * unit == size for p in known):
            scaled = count if size == unit else Binary("*", count, Const(size // unit, U64))
            return known[0], known[1], scaled
        if unit % size == 0 and isinstance(count, Const) and int(count.value) * size % unit == 0:
            return known[0], known[1], Const(int(count.value) * size // unit, U64)
    low.fail("E-UNSUPPORTED-POINTER", f"an asynchronous copy of '{show(to.elem)}' between these arrays", node,
             hint="copy between arrays of one type")  # fmt: skip


def _wait(low: Calls, raw: list, node: Any) -> Value:
    """``wait_group_events(count, events)``."""
    if len(raw) != 2:
        low.fail("E-SEMA-OVERLOAD", f"'wait_group_events' with {len(raw)} arguments", node)
    count = low.constant(low.rval(raw[0]).expr)
    if count is None or not 0 <= int(count.value) <= MOST_EVENTS:
        low.fail("E-SEMA-CONSTANT", f"the number of events to wait for must be a constant up to {MOST_EVENTS}", node)
    events = low.load(low.eval(raw[1]), node)
    for k in range(int(count.value)):
        if isinstance(events, PtrToPlace) and k == 0:
            place: Value = events.place
        elif isinstance(events, PtrVal):
            place = low.deref(low.pointer_add(events, i32(k), node), None, node)
        else:
            low.fail("E-UNSUPPORTED-POINTER", "events behind this pointer", node, hint="name the array of events")
        event = low.rvalue(place, node)
        if event.type != EVENT:
            low.fail("E-SEMA-CONVERT", f"'{show(event.type)}' is no event", node)
        low.emit(GroupWait(event.expr, loc=low.loc))
    return NullVal()


GROUP_CALLS: dict[str, Callable[[Calls, list, Any], Value]] = {
    "async_work_group_copy": _copy,
    "async_work_group_strided_copy": _strided_copy,
    "wait_group_events": _wait,
}
"""OpenCL's functions on asynchronous copies by name, to what lowers a call of one."""

__all__ = ["GROUP_CALLS"]
