"""Private arrays of a few small numbers that nothing changes, as digits of one constant.

before                                          after
    array order: i32[4]
    order[0] = 0
    order[1] = 8
    order[2] = 4
    order[3] = 12
    y[i] = w >> order[i % 4] & 15                   y[i] = w >> (i32(12816_u32 >> i % 4 * 4 & 15_u32) * 4) & 15

In which order the fields of a word are taken is often said so. An element that is chosen as the kernel runs puts the
array into memory of the thread, and its statements between loops that are one nest without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import gcd

from ktc.ir.fold import add, cast, evaluate, i32, is_const, mul, plus_number, simplify
from ktc.ir.nodes import Alloc, Binary, Body, Const, Expr, Load, Stmt, Store, Sym
from ktc.ir.storage import is_local_array
from ktc.ir.types import U32, U64, Array, Scalar
from ktc.ir.walk import assigned, keep, map_body, used_in, walk, with_list_around

MOST = 64
"""Elements of such an array: the bits of a constant."""


def digits(values: Sequence[int], at: Expr, t: Scalar) -> Expr | None:
    """The expression of the type ``t`` that is the element ``at`` of ``values``; None where they take more bits than a
    constant has."""
    low = min(values)
    each = gcd(*(v - low for v in values)) or 1
    largest = (max(values) - low) // each
    bits = next((n for n in (1, 2, 4, 8, 16) if largest < 1 << n), MOST + 1)
    word = U32 if len(values) * bits <= U32.bits else U64
    if len(values) * bits > word.bits:
        return None
    packed = sum((v - low) // each << bits * k for k, v in enumerate(values))
    shifted = Binary(">>", Const(packed, word), mul(at, cast(i32(bits), at.type)))  # type: ignore[arg-type]
    digit = cast(Binary("&", shifted, Const((1 << max(1, largest.bit_length())) - 1, word)), t)
    return add(mul(digit, Const(each, t)), Const(low, t)) if low > 0 else plus_number(mul(digit, Const(each, t)), low)


def with_digits(body: Body) -> Body:
    """``body`` with a constant's digits in place of each array that is such a table."""
    for s in [s for s in walk(body) if isinstance(s, Alloc) and is_local_array(s.sym)]:
        changed = with_list_around(body, s, partial(_without, s))
        body = body if changed is None else changed
    return body


def _without(made: Alloc, before: Body, behind: Body) -> Body | None:
    """The list around ``made`` without the array; None where it is no such table."""
    array, t = made.sym, made.sym.type
    count = evaluate(t.shape[0], {}) if isinstance(t, Array) and len(t.shape) == 1 else None
    if count is None or not 1 < count <= MOST or not isinstance(t, Array) or not isinstance(t.elem, Scalar):
        return None
    stores, rest = behind[: int(count)], behind[int(count) :]
    values = _values(stores, array)
    if not t.elem.is_int or values is None or array in assigned(rest):
        return None
    elem = t.elem

    def read(e: Expr) -> Expr:
        if not isinstance(e, Load) or e.buffer != array or e.width != 1 or e.cache:
            return e
        index = simplify(e.index[0])
        if isinstance(index, Const):
            return Const(values[int(index.value)], elem) if 0 <= index.value < len(values) else e
        found = digits(values, index, elem)
        return e if found is None else found

    changed = map_body(rest, keep, read)
    return None if array in used_in(changed) else (*before, *changed)


def _values(stores: Sequence[Stmt], array: Sym) -> list[int] | None:
    """What ``stores`` put into ``array``, element by element."""
    values = []
    for k, s in enumerate(stores):
        if not isinstance(s, Store) or s.buffer != array or s.width != 1 or not is_const(simplify(s.index[0]), k):
            return None
        value = evaluate(simplify(s.value), {})
        if value is None:
            return None
        values.append(int(value))
    return values


__all__ = ["digits", "with_digits"]
