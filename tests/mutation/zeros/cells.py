"""Stores that fill an array: the loops around one, and which cells it reaches, by counting."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import KNOB_MARK, Binary, Cast, Expr, For, HwIndex, If, Stmt, Store, Sym, Unary, Var, fresh
from ktc.ir.types import Array, Scalar, Type
from ktc.ir.walk import assigned, map_expr, walk_expr

MOST = 1 << 16
"""Stores of a block that are followed to see which cells they reach."""


@dataclass(frozen=True)
class Filling:
    """The store that fills an array, and the loops and ``guards`` around it in its ``statement``, outermost first. It
    reaches all subscripts below ``extents``, which are the array's own or less."""

    store: Store
    loops: tuple[For, ...]
    statement: Stmt
    guards: tuple[Expr, ...] = ()
    extents: tuple[int, ...] = ()


def shape(t: Array, kernel: Kernel) -> tuple[int, ...]:
    """The extents of an array, if they are numbers."""
    found = [evaluate(n, kernel.knob_values) for n in t.shape]
    return tuple(int(n) for n in found if n is not None) if None not in found else ()


def reached(filling: Filling, kernel: Kernel, given: Mapping[Sym, Expr], threads: tuple[int, ...]) -> tuple[int, ...]:
    """Below which subscripts the threads of a block, so many along each axis, together store to every cell, and to no
    others; empty if that is not so. No threads: any one thread does. ``given``: what is defined once."""
    t = filling.store.buffer.type
    assert isinstance(t, Array)
    most = shape(t, kernel)
    if not most or filling.store.width != 1:
        return ()
    plain = _Plain(kernel, given, {s.var: fresh(f"loop {k}", s.var.type) for k, s in enumerate(filling.loops)})
    index = [_Known(plain.of(i)) for i in filling.store.index]
    counts = [[_Known(plain.of(e)) for e in (s.init, s.cond, s.step)] for s in filling.loops]
    guards = [_Known(plain.of(e)) for e in filling.guards]
    if any(e.cut_short for e in itertools.chain(index, guards, *counts)):
        return ()
    loops = [(plain.names[s.var].name, *count) for s, count in zip(filling.loops, counts)]
    knobs = {KNOB_MARK + name: value for name, value in kernel.knob_values.items()}
    cells: set[Any] = set()
    rounds = 0
    for numbers in itertools.product(*map(range, threads)):
        for here in _rounds(loops, {**knobs, **dict(zip(_NAMES, numbers))}):
            comes = [e.value(here) for e in guards]
            rounds += 1
            if rounds > MOST or None in comes:
                return ()
            if not all(comes):
                continue
            places = [e.value(here) for e in index]
            if None in places:
                return ()
            cells.add(tuple(int(i or 0) for i in places))
    extents = tuple(max(i) + 1 for i in zip(*cells))
    small = len(extents) == len(most) and all(n <= m for n, m in zip(extents, most))
    return extents if small and cells == set(itertools.product(*map(range, extents))) else ()


class _Known:
    """An expression whose value is asked for many times."""

    def __init__(self, e: Expr) -> None:
        self.expr = e
        parts = list(walk_expr(e))
        self.cut_short = any(isinstance(x, Cast) and not _wide(x.to) for x in parts)
        """Whether it cuts numbers short, which is not followed."""
        self.unsigned = [x for x in parts if isinstance(x, Binary | Unary | Cast) and _is_unsigned(x.type)]

    def value(self, env: Mapping[str, int]) -> int | bool | None:
        """None where it is not known, or something in it wraps around zero."""
        inside = all(v is not None and v >= 0 for v in (evaluate(x, env) for x in self.unsigned))
        return evaluate(self.expr, env) if inside else None


@dataclass
class _Plain:
    """Expressions with the thread's indices and the loops' variables by ``names`` that nothing else has, and without
    definitions."""

    kernel: Kernel
    given: Mapping[Sym, Expr]
    names: dict[Sym, Sym]

    def of(self, e: Expr) -> Expr:
        return map_expr(e, self._on)

    def _on(self, x: Expr) -> Expr:
        if isinstance(x, Var) and x.sym in self.names:
            return Var(self.names[x.sym])
        if isinstance(x, Var) and x.sym in self.given:
            return self.of(self.given[x.sym])
        if isinstance(x, HwIndex) and x.level == "thread":
            return Var(fresh(_NAMES["xyz".index(x.axis)], x.type))
        if isinstance(x, HwIndex) and x.level == "block_dim" and self.kernel.launch is not None:
            return self.kernel.launch.block["xyz".index(x.axis)]
        return x


_NAMES = ("thread x", "thread y", "thread z")


def _wide(t: Type) -> bool:
    """Whether integers of the type ``t`` hold all subscripts."""
    return isinstance(t, Scalar) and t.is_int and t.bits >= 32


def _is_unsigned(t: Type) -> bool:
    return isinstance(t, Scalar) and t.is_int and not t.is_signed


def store_in(s: Stmt, array: Sym) -> Filling | None:
    """The one statement in ``s`` that writes ``array``, behind nothing but loops and guards."""
    loops: list[For] = []
    guards: list[Expr] = []
    at = s
    while (isinstance(at, For) and at.var not in assigned(at.body)) or (isinstance(at, If) and not at.orelse):
        if isinstance(at, For):
            loops.append(at)
        else:
            guards.append(at.cond)
        rest = [x for x in (at.body if isinstance(at, For) else at.then) if array in assigned((x,))]
        if len(rest) != 1:
            return None
        at = rest[0]
    stores = isinstance(at, Store) and at.buffer == array
    return Filling(at, tuple(loops), s, tuple(guards)) if stores else None  # type: ignore[arg-type]


def _rounds(loops: list[Any], env: dict[str, int]) -> Iterator[dict[str, int]]:
    """The numbers of every round of the loops, as far as they are known."""
    if not loops:
        yield env
        return
    (name, init, cond, step), *inner = loops
    value = init.value(env)
    for _ in range(MOST):
        if value is None or not cond.value({**env, name: int(value)}):
            return
        here = {**env, name: int(value)}
        yield from _rounds(inner, here)
        value = step.value(here)


__all__ = ["Filling", "reached", "shape", "store_in"]
