"""Integers that bound something, and integers that only say where in something a launch works.

``stage(dist, n, k)`` of Floyd-Warshall reads row ``k`` and column ``k`` of ``n``: no guard, no loop and no launch asks
for ``k``, and an index adds it as it is. It is a place in a row, below the row's length, and no size of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktc.ir.analysis.defs import expand, integer_constants
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    COMPARISONS,
    Alloc,
    Assign,
    Binary,
    Const,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Load,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    While,
)
from ktc.ir.types import Array
from ktc.ir.walk import all_exprs, stmt_exprs, used, walk, walk_expr

from .given_values import definitions, made_of, spelled_out
from .inner_strides import accesses


def bounding(k: Kernel) -> set[Sym]:
    """Everything that guards, loops, divisions and the launch are made of, through variables: what the launch passes
    for a parameter among it, too."""
    bounds: list[Expr] = []
    for s in walk(k.body):
        bounds += [s.cond] if isinstance(s, If | While) else [s.init, s.cond, s.step] if isinstance(s, For) else []
        bounds += [x.cond for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Select)]
    bounds += [x.b for x in all_exprs(k.body) if isinstance(x, Binary) and x.op in ("/", "%")]
    if k.launch is not None:
        bounds += [*k.launch.grid, *k.launch.block]
    sources = definitions(k)
    found = {s for e in bounds for s in values(e, sources)}
    passed = {
        p.sym: e for p in k.params for n, e in (k.launch.passed if k.launch is not None else ()) if p.sym.name == n
    }
    while more := {s for v, e in passed.items() if v in found for s in values(e, sources)} - found:
        found |= more
    return found


def of_one_block(k: Kernel) -> dict[str, int]:
    """The parameters that nothing but a thread's number in its block is compared with, ``if (threadIdx.x < n)``, with
    how many threads there are: what is beyond is left to nobody."""
    if k.launch is None:
        return {}
    sources, params = definitions(k), {p.sym for p in k.params}
    threads = {a: evaluate(e, {}) for a, e in zip("xyz", k.launch.block)}
    most, other = dict[str, int](), {s.name for e in k.launch.grid for s in used(e)}
    for s in walk(k.body):
        loops = [s.init, s.cond, s.step] if isinstance(s, For) else [s.cond] if isinstance(s, While) else []
        other |= {v.name for e in loops for v in used(e)}
        for c in (x for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Binary) and x.op in COMPARISONS):
            for a, b in ((c.a, c.b), (c.b, c.a)):
                bound, parts = _part(spelled_out(b, sources))
                if isinstance(bound, Var) and bound.sym in params:
                    place = spelled_out(a, sources)
                    known = threads[place.axis] if isinstance(place, HwIndex) and place.level == "thread" else None
                    most |= {bound.sym.name: int(known) * parts} if known is not None else {}
                    other |= {bound.sym.name} if known is None else set()
    return {n: most[n] for n in most if n not in other}


def _part(e: Expr) -> tuple[Expr, int]:
    """What ``e`` is a part of, and how many of it make that up: ``n`` and 2 of ``n / 2``."""
    if isinstance(e, Binary) and e.op == "/" and isinstance(by := without_casts(e.b), Const) and by.value > 0:
        return without_casts(e.a), int(by.value)
    return e, 1


def of_arrays(k: Kernel) -> dict[str, int]:
    """The parameters that are the number of rounds of a loop which goes through an array of a fixed size in the body,
    ``float best[100]``, with how many rounds there is room for. The launch's dynamic memory is no such array where it
    gives none: another launch will."""
    sources, params = definitions(k), {p.sym for p in k.params}
    none = k.launch is not None and k.launch.dynamic_shared is None
    open_ = {s.sym for s in walk(k.body) if isinstance(s, Alloc) and s.dynamic and none}
    most, numbers = dict[str, int](), integer_constants(k.body)
    for s in walk(k.body):
        match s:
            case For(cond=Binary("<", Var(i), last)) if i == s.var and isinstance(n := spelled_out(last, sources), Var):
                rooms = [room for x in s.body for room in _rounds(x, i, open_, numbers)] if n.sym in params else []
                most |= {n.sym.name: min([*rooms, most.get(n.sym.name, min(rooms))])} if rooms else {}
    return most


def _rounds(s: Stmt, i: Sym, open_: set[Sym], numbers: Mapping[Sym, Expr]) -> Iterator[int]:
    """For how many values of ``i`` from 0 on the arrays that ``s`` itself touches have room, ``open_`` ones aside;
    ``numbers``: the variables that stand for one."""
    touched: list[Load | Store] = [s] if isinstance(s, Store) else []
    touched += [x for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Load)] if isinstance(s, PLAIN) else []
    for x in touched:
        shape = x.buffer.type.shape if isinstance(x.buffer.type, Array) and x.buffer not in open_ else ()
        for e, extent in zip(x.index, shape):
            form, n = linear_form(expand(e, numbers), {i}), evaluate(extent, {})
            by, first = (None, None) if form is None else (evaluate(form.coeff(i), {}), evaluate(form.rest, {}))
            if n and by and by > 0 and first is not None and n > first >= 0:
                yield (int(n) - 1 - int(first)) // int(by) + 1


PLAIN = Decl | Assign | Store
"""Statements that every round does."""


def values(e: Expr, sources: Mapping[Sym, Sequence[Expr]]) -> set[Sym]:
    """Variables that ``e`` is made of, but for the places of what it loads."""
    return {x.sym for x in made_of([e], sources, places=False) if isinstance(x, Var)}


def places(k: Kernel) -> list[str]:
    """The integer parameters that bound nothing and that an index adds as they are, and multiplies no thread's or
    block's number by: those are strides, ``(width + 1) * row + width + 1``."""
    sources, bounds = definitions(k), bounding(k)
    added = {s for _, e in accesses(k) for s in _terms(e, sources)}
    strides = {s for _, e in accesses(k) for s in _factors(e, sources)}
    return [p.sym.name for p in k.params if p.sym in added - bounds - strides]


def _factors(e: Expr, sources: Mapping[Sym, Sequence[Expr]]) -> Iterator[Sym]:
    """The variables that something made of a thread's or a block's number is multiplied by in ``e``."""
    for x in made_of([e], sources, places=False):
        if isinstance(x, Binary) and x.op == "*":
            for a, b in ((x.a, x.b), (x.b, x.a)):
                if _of_hardware(a, sources):
                    yield from values(b, sources)


def _of_hardware(e: Expr, sources: Mapping[Sym, Sequence[Expr]]) -> bool:
    """Whether ``e`` is made of a thread's or a block's number, through variables."""
    made = [y for s in values(e, sources) for y in sources.get(s, ())]
    return any(isinstance(x, HwIndex) and x.level in ("thread", "block") for y in (e, *made) for x in walk_expr(y))


def _terms(e: Expr, sources: Mapping[Sym, Sequence[Expr]]) -> Iterator[Sym]:
    """The variables that are terms of a sum by themselves."""
    match without_casts(e):
        case Binary("+" | "-", a, b):
            yield from _terms(a, sources)
            yield from _terms(b, sources)
        case Var(s) if len(sources.get(s, ())) == 1:
            yield from _terms(sources[s][0], {v: x for v, x in sources.items() if v != s})
        case Var(s):
            yield s
