"""Extremes that are kept by a condition, as operations.

before                              after
    if x[i] > m                         m = max(m, x[i])
      m = x[i]

The same where ``m`` is a number, whatever ``x[i]`` is: ``max`` passes over a NaN as the comparison does. A ``m`` that
is a NaN stays one in the source, so only variables that never can be are taken; and only where threads exchange values,
whose extreme is then that of all of them: of two zeros the comparison keeps the first, and ``max`` either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ktc.ir.fold import simplify
from ktc.ir.nodes import Assign, Body, Call, Cast, Const, Decl, Expr, If, Select, Stmt, Sym, Unary, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import map_body, walk
from ktc.passes.raising.recognise.exchange_regions import exchanges
from ktc.passes.shared.serial_extremes import extreme_update


def with_extremes(body: Body) -> Body:
    """``body``, of threads that exchange values, with the extremes of variables that never are NaN as calls."""
    updates = {u.sym for s in walk(body) if (u := extreme_update(s)) is not None}
    if not updates or not any(exchanges(s) for s in walk(body)):
        return body
    numbers = _never_nan(tuple(walk(body)), updates)

    def on(s: Stmt) -> Stmt:
        update = extreme_update(s)
        return s if update is None or update.sym not in numbers else update

    return map_body(body, on)


def is_number(e: Expr) -> bool:
    """Whether ``e`` is an integer that is written down, if as a float, or infinity, or a choice between such: the exact
    check computes in integers, of which others are none."""
    return _is_written(e, lambda n: math.isinf(n) or n.is_integer())


def _is_no_nan(e: Expr) -> bool:
    """Whether ``e`` is a number that is written down, or a choice between such."""
    return _is_written(e, lambda n: not math.isnan(n))


def _is_written(e: Expr, fits: Callable[[float], bool]) -> bool:
    """Whether ``e`` is a constant whose digits ``fits`` holds for, or a choice between such."""
    e = simplify(e)
    if isinstance(e, Select):
        return _is_written(e.a, fits) and _is_written(e.b, fits)
    if isinstance(e, Unary) or (isinstance(e, Cast) and e.style != "bit"):
        return _is_written(e.x, fits)
    return isinstance(e, Const) and fits(float(e.value))


def _never_nan(statements: Sequence[Stmt], among: set[Sym]) -> set[Sym]:
    """Which of the variables ``among`` are numbers from their declaration on, or from their first assignment on."""
    declared = {s.sym for s in statements if isinstance(s, Decl) and (s.init is None or _is_no_nan(s.init))}
    updates = [s for s in statements if extreme_update(s) is not None]
    conditional = {id(s.then[0]) if isinstance(s, If) else id(s) for s in updates}
    out = {v for v in among if v in declared or (isinstance(v.type, Scalar) and v.type.is_int)}
    while True:
        changed = {
            s.sym
            for s in statements
            if isinstance(s, Assign) and s.sym in out and id(s) not in conditional and not _stays(s.value, out)
        }
        if not changed:
            return out
        out -= changed


def _stays(e: Expr, numbers: set[Sym]) -> bool:
    """Whether ``e`` is a number where all of ``numbers`` are."""
    if isinstance(e, Call) and e.fn in ("min", "max"):
        return any(_stays(x, numbers) for x in e.args)
    return _is_no_nan(e) or (isinstance(e, Var) and e.sym in numbers)


__all__ = ["is_number", "with_extremes"]
