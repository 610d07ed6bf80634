"""Addresses in shared memory that PTX statements take, as the pointers that they were made of.

unsigned at = __cvta_generic_to_shared(&s[2 * t]);
asm("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at));        v = s[2 * t];
"""

from __future__ import annotations

from collections.abc import Sequence

from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.frontend.meaning.values import PtrVal, RVal, Value
from ktc.ir.nodes import AddrOf, Body, Call, Decl, Expr, Stmt, Var
from ktc.ir.types import Array
from ktc.ir.walk import assigned, map_body, used, used_in


def shared_place(address: Value | None, before: Sequence[Stmt]) -> PtrVal | None:
    """The pointer that an ``address`` in shared memory was made of, by the statements ``before`` it in its block; None
    where that is not known, or where it may have changed since."""
    if not isinstance(address, RVal):
        return None
    e = without_index_casts(address.expr)
    if isinstance(e, Var):
        at = next((n for n, s in enumerate(before) if isinstance(s, Decl) and s.sym == e.sym), None)
        init = None if at is None else before[at].init  # type: ignore[attr-defined]
        if at is None or init is None or assigned(tuple(before[at + 1 :])) & {e.sym, *used(init)}:
            return None
        e = without_index_casts(init)
    place = _taken_of(e)
    if place is None or not isinstance(t := place.buffer.type, Array) or t.space != "shared":
        return None
    return PtrVal(place.buffer, place.index[:-1], place.index[-1], t.elem)


def without_unused_addresses(body: Body) -> Body:
    """``body`` without variables for addresses in shared memory that nothing needs."""
    needed = used_in(body) | assigned(body)

    def stmt(s: Stmt) -> Stmt | None:
        unused = isinstance(s, Decl) and s.init is not None and s.sym not in needed
        return None if unused and _taken_of(without_index_casts(s.init)) is not None else s  # type: ignore[attr-defined]

    return map_body(body, stmt)


def _taken_of(e: Expr) -> AddrOf | None:
    """The element whose address in shared memory ``e`` is."""
    place = e.args[0] if isinstance(e, Call) and e.fn == "shared_address" else None
    return place if isinstance(place, AddrOf) else None


__all__ = ["shared_place", "without_unused_addresses"]
