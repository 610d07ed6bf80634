"""Semantic equality of integer expressions by evaluation at many points.

Used to *guess*: a wrong guess is caught by the exact check that every raise ends with.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from ktc.ir.fold import evaluate
from ktc.ir.nodes import Const, Expr, HwIndex, Knob, Var
from ktc.ir.types import I32
from ktc.ir.walk import map_expr, walk_expr

POINTS = 8


def same(a: Expr, b: Expr) -> bool:
    """Whether two integer expressions agree at ``POINTS`` random positive points (and can be evaluated at all)."""
    names = sorted({_name(x) for e in (a, b) for x in walk_expr(e) if isinstance(x, Var | Knob | HwIndex)})
    rng = random.Random(20)
    for _ in range(POINTS):
        env = {n: rng.randrange(1, 4000) for n in names}
        x, y = _value(a, env), _value(b, env)
        if x is None or x != y:
            return False
    return True


def never_beyond(a: Expr, b: Expr) -> bool:
    """Whether ``a <= b`` at random points, small and large: the launch covers what a guard lets through."""
    names = sorted({_name(x) for e in (a, b) for x in walk_expr(e) if isinstance(x, Var | Knob | HwIndex)})
    rng = random.Random(21)
    for k in range(8 * POINTS):
        env = {n: rng.randrange(1, 4000 if k % 2 else 70) for n in names}
        x, y = _value(a, env), _value(b, env)
        if x is None or y is None or x > y:
            return False
    return True


def _value(e: Expr, env: Mapping[str, int]) -> int | float | None:
    return evaluate(map_expr(e, lambda x: _bound(x, env)), {})


def _name(x: Expr) -> str:
    if isinstance(x, Var):
        return f"{x.sym.name}#{x.sym.id}"
    return f"${x.name}" if isinstance(x, Knob) else f"{x.level}.{x.axis}"  # type: ignore[attr-defined]


def _bound(x: Expr, env: Mapping[str, int]) -> Expr:
    return Const(env[_name(x)], I32) if isinstance(x, Var | Knob | HwIndex) else x
