"""What values that are read from memory vary with.

``int c = col[j]`` is another value in each iteration of ``j``: an address with ``c`` in it moves with that loop, by
nobody knows how much.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from ktc.ir.nodes import Body, Expr, For, HwIndex, Sym, Var
from ktc.ir.walk import initial_values, loads_in, walk, walk_expr

Index: TypeAlias = Sym | HwIndex


def varying(body: Body) -> dict[Sym, frozenset[Index]]:
    """For each variable of ``body`` that keeps what it was declared as, and is read from memory, the loop variables and
    hardware indices that this is made of, through other variables. Conditions are not followed."""
    values = initial_values(body)
    counters = {s.var: s.init for s in walk(body) if isinstance(s, For)}
    direct = {sym: _mentions(e) for sym, e in {**values, **counters}.items()}
    return {sym: frozenset(_closed(sym, direct, counters)) for sym, e in values.items() if any(loads_in(e))}


def _mentions(e: Expr) -> set[Index]:
    return {x.sym if isinstance(x, Var) else x for x in walk_expr(e) if isinstance(x, Var | HwIndex)}


def _closed(sym: Sym, direct: Mapping[Sym, set[Index]], counters: Mapping[Sym, Expr]) -> set[Index]:
    """All indices that ``sym`` is made of: variables of counted loops are such, and vary with what they begin at."""
    found: set[Index] = set()
    seen, left = {sym}, [sym]
    while left:
        for x in direct.get(left.pop(), ()):
            if not isinstance(x, Sym) or x in counters or x not in direct:
                found.add(x)
            if isinstance(x, Sym) and x not in seen:
                seen.add(x)
                left.append(x)
    return found
