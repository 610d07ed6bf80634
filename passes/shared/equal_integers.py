"""Semantic equality of integer expressions by evaluation at many points.

Used to *guess*, where a source is raised: a wrong guess is caught by the exact check that every raise ends with.
:class:`ktc.ir.arith.Facts` would show fewer equalities, not surer ones: two spellings of a thread's number are one
wherever they are tried, and no range or guard of the source says so before it is understood. Scans come to it too,
through :mod:`.independence`, and ask ``Facts`` beside it.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping

from ktc.ir.fold import evaluate
from ktc.ir.nodes import COMPARISONS, Binary, Call, Const, Expr, HwIndex, Knob, Select, Sym, Var
from ktc.ir.types import I32, Scalar
from ktc.ir.walk import map_expr, walk_expr

POINTS = 8
MAGNITUDES = (4000, 70, 10)
"""Quotients of a block's size by a knob are zero wherever the knob is larger."""

FAR = 1_000_003
"""A size far beyond the others."""

FARS = (1, 1 << 13, FAR, (1 << 31) - 1)
"""Sizes at which an expression that chooses by size may have chosen otherwise."""


def same(a: Expr, b: Expr) -> bool:
    """Whether two integer expressions agree at ``POINTS`` random positive points of each magnitude, with each name in
    turn far beyond the others (and can be evaluated at all)."""
    names = sorted({_name(x) for e in (a, b) for x in walk_expr(e) if isinstance(x, Var | Knob | HwIndex)})
    rng = random.Random(20)
    for k in range(len(MAGNITUDES) * POINTS):
        env = {n: rng.randrange(1, MAGNITUDES[k % len(MAGNITUDES)]) for n in names}
        x, y = _value(a, env), _value(b, env)
        if x is None or x != y:
            return False
    for name in names if any(_is_choice(x) for e in (a, b) for x in walk_expr(e)) else ():
        for far in FARS:
            env = {n: rng.randrange(1, 4000) for n in names} | {name: far}
            if _value(a, env) != _value(b, env):
                return False
    return True


def _is_choice(e: Expr) -> bool:
    return isinstance(e, Select | Call) or (isinstance(e, Binary) and e.op in COMPARISONS)


def never_beyond(a: Expr, b: Expr, counted: Collection[Sym] = ()) -> bool:
    """Whether ``a <= b`` wherever tried: the launch covers what a guard lets through.

    Values are small and large, each name in turn far from the others, and negative unless the name is ``counted`` (a
    loop variable) or unsigned: a bound that has nothing to do with the launch does not pass.
    """
    leaves = {_name(x): x for e in (a, b) for x in walk_expr(e) if isinstance(x, Var | Knob | HwIndex)}
    below = {n for n, x in leaves.items() if isinstance(x, Var) and x.sym not in counted and _signed(x.sym.type)}
    rng = random.Random(21)
    for k in range(8 * POINTS):
        env = {n: rng.randrange(1, 4000 if k % 2 else 70) for n in leaves}
        if not _at_most(a, b, env):
            return False
    for name in leaves:
        for far in (2, *FARS, FAR + 1) + ((0, -1, -FAR) if name in below else ()):
            for near in (1, 2, 3, 7):
                env = dict.fromkeys(leaves, near) | {name: far}
                if not _at_most(a, b, env):
                    return False
    return True


def _at_most(a: Expr, b: Expr, env: Mapping[str, int]) -> bool:
    x, y = _value(a, env), _value(b, env)
    if x is None or y is None:
        return False
    if y <= 0 and isinstance(a.type, Scalar) and a.type.kind == "uint" and x >= 1 << (a.type.bits - 1):
        x -= 1 << a.type.bits  # a negative size read as unsigned: there is nothing to launch
    return x <= y


def _signed(t: object) -> bool:
    return isinstance(t, Scalar) and t.is_signed


def _value(e: Expr, env: Mapping[str, int]) -> int | float | None:
    return evaluate(map_expr(e, lambda x: _bound(x, env)), {})


def _name(x: Expr) -> str:
    if isinstance(x, Var):
        return f"{x.sym.name}#{x.sym.id}"
    return f"${x.name}" if isinstance(x, Knob) else f"{x.level}.{x.axis}"  # type: ignore[attr-defined]


def _bound(x: Expr, env: Mapping[str, int]) -> Expr:
    return Const(env[_name(x)], I32) if isinstance(x, Var | Knob | HwIndex) else x
