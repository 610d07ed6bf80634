"""Loops that take an index apart, dimension by dimension, by extents and strides in buffers.

    for (d = num_dims - 1; d >= 0; d--) { at += idx % dims[d] * strides[d]; idx /= dims[d]; }

What such a loop divides by are extents, the innermost first, and what it multiplies the remainders by are strides.
Arrays in structs that a kernel is passed are such buffers as well: each element is a parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ktc.ir.analysis.defs import expand
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Binary, Expr, For, Load, Store, Sym, Var
from ktc.ir.walk import initial_values, stmt_exprs, used, walk, walk_expr

from ..given_values import definitions, spelled_out
from .kept_below import bounds

RANK = 3
"""How many dimensions a draft passes where the kernel's launch says nothing of it."""

Place = tuple[str, int]
"""An element of a buffer."""


@dataclass(frozen=True)
class Walk:
    """One such loop: where it finds extents and strides, the innermost dimension first.

    ``rank``: the parameter that says how many dimensions there are, with its number; ``strides`` has one row for each
    tensor; ``below``: the parameters that the index stays below; ``rows``: those that it stays below in units of one of
    the dimensions (``idx = row * dims[last]``, ``row < rows``), with its place.
    """

    rank: Mapping[str, int]
    dims: tuple[Place, ...]
    strides: tuple[tuple[Place, ...], ...]
    below: tuple[str, ...]
    rows: tuple[tuple[str, Place], ...] = ()


def walks(k: Kernel, rank: int = RANK) -> list[Walk]:
    """The loops over dimensions of ``k``, of a rank that is its own if that is a number, else ``rank``."""
    params, given, once = {p.sym for p in k.params}, definitions(k), initial_values(k.body)
    arrays = params | {*passed_arrays(k)}
    below = list(bounds(k, params, given))
    found = []
    for loop in (s for s in walk(k.body) if isinstance(s, For)):
        asked = {s for e in (loop.init, _counting(loop), loop.step) for s in used(expand(e, once))} - {loop.var}
        if len(asked) > 1 or not asked <= params:
            continue
        ranks = {s.name: rank for s in asked}
        steps = steps_of(loop, ranks, once)
        inside = {**once, **{x.sym: x.value for x in loop.body if isinstance(x, Assign) and _first(loop, x)}}
        for index, divisor in _divided(loop, arrays, once):
            dims = _places(divisor, loop.var, steps, ranks, once)
            strides = (_places(x, loop.var, steps, ranks, once) for x in _multiplied(loop, index, divisor, inside))
            if dims is not None and len(dims) > 1:
                roots, units = _roots(index, given), [*_units(index, given)]
                ends = tuple(n for root, n in below if root in roots)
                places = [
                    (n, _places(by, loop.var, [0], ranks, once)) for root, by in units for s, n in below if s == root
                ]
                rows = tuple((n, at[0]) for n, at in places if at is not None and at[0] in dims)
                found.append(Walk(ranks, dims, tuple(dict.fromkeys(r for r in strides if r)), ends, rows))
    return found


def passed_arrays(k: Kernel) -> dict[Sym, dict[int, str]]:
    """The arrays of the body of which each element is a parameter, with the names of these."""
    params = {p.sym for p in k.params}
    held: dict[Sym, dict[int, str]] = {}
    spoilt = set[Sym]()
    for s in (s for s in walk(k.body) if isinstance(s, Store) and s.buffer not in params):
        at = evaluate(s.index[0], {}) if len(s.index) == 1 else None
        if at is not None and isinstance(s.value, Var) and s.value.sym in params:
            held.setdefault(s.buffer, {})[int(at)] = s.value.sym.name
        else:
            spoilt.add(s.buffer)
    return {b: names for b, names in held.items() if b not in spoilt}


def _counting(loop: For) -> Expr:
    """The part of the loop's condition that its variable decides: ``d >= 0`` of ``d >= 0 && idx > 0``."""
    parts = [loop.cond]
    while any(isinstance(e, Binary) and e.op == "&&" for e in parts):
        parts = [x for e in parts for x in ((e.a, e.b) if isinstance(e, Binary) and e.op == "&&" else (e,))]
    mine = [e for e in parts if loop.var in used(e)]
    return mine[0] if len(mine) == 1 else loop.cond


def _units(index: Sym, given: Mapping[Sym, list[Expr]]) -> Iterator[tuple[Sym, Load]]:
    """The variables that ``index`` begins as a multiple of, each with the element that it is multiplied by."""
    for e in map(without_casts, given.get(index, ())):
        if isinstance(e, Binary) and e.op == "*":
            for a, b in ((e.a, e.b), (e.b, e.a)):
                row, by = without_casts(a), spelled_out(b, given)
                if isinstance(row, Var) and isinstance(by, Load):
                    yield row.sym, by


def steps_of(loop: For, ranks: Mapping[str, int], once: Mapping[Sym, Expr]) -> list[int]:
    """The values of the loop's variable, in order; none where that is not known or there are many."""
    known, out, goes_on = dict(ranks), list[int](), expand(_counting(loop), once)
    at = evaluate(expand(loop.init, once), known)
    while at is not None and len(out) < 2 * RANK + 3:
        known[loop.var.name] = int(at)
        more = evaluate(goes_on, known)
        if not more:
            return out if more is not None else []
        out.append(int(at))
        at = evaluate(expand(loop.step, once), known)
    return []


def _first(loop: For, s: Assign) -> bool:
    """Whether ``s`` is the only assignment of its variable in the loop's body, at its top."""
    return sum(isinstance(x, Assign) and x.sym == s.sym for x in walk(loop.body)) == 1


def _divided(loop: For, arrays: set[Sym], once: Mapping[Sym, Expr]) -> Iterator[tuple[Sym, Load]]:
    """The variables that the loop divides by an element of a buffer, again and again, with that element."""
    for s in (x for x in walk(loop.body) if isinstance(x, Assign)):
        value = without_casts(expand(s.value, once))
        if isinstance(value, Binary) and value.op == "/" and _is(value.a, s.sym):
            by = without_casts(value.b)
            if isinstance(by, Load) and by.buffer in arrays:
                yield s.sym, by


def _multiplied(loop: For, index: Sym, divisor: Load, inside: Mapping[Sym, Expr]) -> Iterator[Load]:
    """What remainders of ``index`` by ``divisor`` are multiplied by."""
    rest = {k: v for k, v in inside.items() if k != index}
    for e in (x for s in walk(loop.body) for whole in stmt_exprs(s) for x in walk_expr(expand(whole, _plain(rest)))):
        if isinstance(e, Binary) and e.op == "*":
            for a, b in ((e.a, e.b), (e.b, e.a)):
                a, b = without_casts(a), without_casts(b)
                left = isinstance(a, Binary) and a.op == "%" and _is(a.a, index) and without_casts(a.b) == divisor
                if left and isinstance(b, Load):
                    yield b


def _plain(given: Mapping[Sym, Expr]) -> dict[Sym, Expr]:
    """The variables of ``given`` that are not made of themselves."""
    return {s: e for s, e in given.items() if s not in used(e)}


def _places(
    x: Load, var: Sym, steps: list[int], ranks: Mapping[str, int], once: Mapping[Sym, Expr]
) -> tuple[Place, ...] | None:
    """The elements that ``x`` is in the rounds of the loop; None where that is not known."""
    if len(x.index) != 1 or x.width != 1:
        return None
    index = expand(x.index[0], once)
    found = [evaluate(index, {**ranks, var.name: at}) for at in steps]
    return None if None in found else tuple((x.buffer.name, int(n)) for n in found if n is not None)


def _roots(index: Sym, given: Mapping[Sym, list[Expr]]) -> set[Sym]:
    """The variables that ``index`` begins as, through copies."""
    out, left = {index}, [index]
    while left:
        for e in map(without_casts, given.get(left.pop(), ())):
            if isinstance(e, Var) and e.sym not in out:
                out.add(e.sym)
                left.append(e.sym)
    return out


def _is(e: Expr, s: Sym) -> bool:
    e = without_casts(e)
    return isinstance(e, Var) and e.sym == s


__all__ = ["RANK", "Place", "Walk", "passed_arrays", "steps_of", "walks"]
