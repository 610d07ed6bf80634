"""A kernel and the numbers in it: the same statements with others in their places.

A pass that binds a size leaves numbers where the size stood: ``i / 1024 % 1024 * 768``. What such a kernel is for other
sizes is the same tree with other numbers. Widths of vectors stay, for they are part of the types.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable

from ktc.ir.fields import with_children
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import Alloc, Body, Const, Decl, Expr, Stmt, Sym, fresh
from ktc.ir.text import canonical
from ktc.ir.types import BOOL, Array
from ktc.ir.walk import map_body, rename, walk

Number = int | float

Replacement = Callable[[Number], Number]
"""Is asked for the number that takes another one's place, place after place, always in the same order."""

BLANK = 7
"""What stands in all places where only the statements around them are of interest."""


def numbers(kernel: Kernel) -> list[Number]:
    """The numbers of ``kernel``, in the order of their places."""
    found: list[Number] = []

    def seen(n: Number) -> Number:
        found.append(n)
        return n

    _replaced(kernel, seen)
    return found


def with_numbers(kernel: Kernel, others: Iterable[Number]) -> Kernel:
    """``kernel`` with other numbers, one for each place."""
    given = iter(others)
    made = _replaced(kernel, lambda _: next(given))
    assert next(given, None) is None
    return made


def same_statements(a: Kernel, b: Kernel) -> bool:
    """Whether two kernels differ in their numbers alone."""
    return _skeleton(a) == _skeleton(b)


def without_extents(kernel: Kernel) -> Kernel:
    """``kernel`` without what is known of the elements that it touches: that follows from its numbers."""
    return kernel.with_(params=tuple(dataclasses.replace(p, touches=()) for p in kernel.params))


def _skeleton(kernel: Kernel) -> Kernel:
    blank = without_extents(_replaced(kernel, lambda _: BLANK))
    return canonical(blank.with_(flags=frozenset(), knobs=(), trace=()))


def _replaced(kernel: Kernel, number: Replacement) -> Kernel:
    def on(e: Expr) -> Expr:
        return _expression(e, number)

    return kernel.with_(
        params=tuple(_parameter(p, number) for p in kernel.params),
        assumptions=tuple(dataclasses.replace(a, expr=on(a.expr)) for a in kernel.assumptions),
        constraints=tuple(map(on, kernel.constraints)),
        launch=kernel.launch and _launched(kernel.launch, on),
        body=map_body(_with_extents(kernel.body, number), lambda s: _statement(s, number)),
    )


def _parameter(p: Param, number: Replacement) -> Param:
    low, high = p.range
    if low is not None and low == high:
        value = int(number(low))
        p = dataclasses.replace(p, range=(value, value))
    return p if p.scratch is None else dataclasses.replace(p, scratch=_expression(p.scratch, number))


def _launched(launch: Launch, on: Callable[[Expr], Expr]) -> Launch:
    (x, y, z), (bx, by, bz) = map(on, launch.grid), map(on, launch.block)
    cluster = launch.cluster and (on(launch.cluster[0]), on(launch.cluster[1]), on(launch.cluster[2]))
    shared, most, least = (
        None if e is None else on(e) for e in (launch.dynamic_shared, launch.max_threads, launch.min_blocks)
    )
    return dataclasses.replace(
        launch, grid=(x, y, z), block=(bx, by, bz), cluster=cluster,
        dynamic_shared=shared, max_threads=most, min_blocks=least,
    )  # fmt: skip


def _with_extents(body: Body, number: Replacement) -> Body:
    """``body`` with arrays of other extents."""
    other: dict[Sym, Sym] = {}
    for s in walk(body):
        if isinstance(s, Alloc | Decl) and isinstance(s.sym.type, Array):
            shape = tuple(_expression(e, number) for e in s.sym.type.shape)
            if shape != s.sym.type.shape:
                other[s.sym] = fresh(s.sym.name, dataclasses.replace(s.sym.type, shape=shape))
    return rename(body, other) if other else body


def _statement(s: Stmt, number: Replacement) -> Stmt:
    width = getattr(s, "width", None)
    return with_children(s, lambda e: e if e is width else _expression(e, number))


def _expression(e: Expr, number: Replacement) -> Expr:
    if isinstance(e, Const):
        if e.ty == BOOL or (isinstance(e.value, float) and not math.isfinite(e.value)):
            return e
        other = number(e.value)
        return e if other == e.value else Const(float(other) if e.ty.is_float else other, e.ty)
    width = getattr(e, "width", None)
    return with_children(e, lambda x: x if x is width else _expression(x, number))


__all__ = ["Number", "numbers", "same_statements", "with_numbers", "without_extents"]
