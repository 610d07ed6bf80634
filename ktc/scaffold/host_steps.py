"""Integers that say where in something a launch works: the step of a loop of the host over launches.

``eliminate(a, n, k)`` works on what lies beyond row ``k`` of ``n``: threads with ``j > k && j < n`` do something. As a
size of its own ``k`` would be as large as ``n``, where nothing is left to do. What makes a place: each comparison with
it leaves less to do as it grows; or the host counts it, in a loop around the launch. A draft puts it in the middle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fields import children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    MIRRORED,
    NEGATED,
    ORDERINGS,
    Binary,
    Body,
    Break,
    Call,
    Const,
    Continue,
    Expr,
    For,
    If,
    Return,
    Select,
    Sym,
    Unary,
    Var,
    While,
    i32,
)
from ktc.ir.walk import stmt_exprs, used, walk, walk_expr

from .bounding import values
from .given_values import definitions
from .inner_strides import accesses
from .roles import Roles
from .windows import spelled

Signs = dict[Sym, int]


def middles(k: Kernel, roles: Roles) -> dict[str, str]:
    """The sizes among ``roles`` that are places, with the middle of the size that they lie in: ``n / 2``."""
    given = definitions(k)
    sources = {s: found[0] for s, found in given.items() if len(found) == 1}
    open_ = {n for n in roles.sizes if n not in roles.divisors and n not in roles.tied}
    params = {p.sym: p.sym.name for p in k.params if p.sym.name in open_ and not p.host}
    passed = [] if k.launch is None else [e for _, e in k.launch.passed]
    extents = [] if k.launch is None else [*k.launch.grid, *k.launch.block]
    indexed = {s for _, e in accesses(k) for s in values(e, given)}
    steps = indexed & {*params} - {s for e in passed for s in used(e)}
    told = [_signs_of(e, sources) for e in (*orderings(k.body), *(Binary("<", i32(0), e) for e in extents))]
    out: dict[str, str] = {}
    for s in (p.sym for p in k.params if p.sym in steps):
        mine = [signs for signs in told if s in signs and len(signs) > 1]  # 0 < k is said of any place
        ends = [params[e] for e in _ends(mine, told) if e in params and e != s and params[e] not in out]
        if ends and all(signs[s] > 0 for signs in mine):
            out[params[s]] = f"{ends[0]} / 2"
    return out


def in_rounds(k: Kernel, roles: Roles) -> dict[str, str]:
    """The sizes among ``roles`` that the launch passes the counter of a loop of the host for, with the middle of the
    values that this has, whatever the kernel does with it."""
    known = {p.sym for p in k.params if p.sym.name in {*roles.sizes, *roles.tied, *roles.fixed}}
    out: dict[str, str] = {}
    for name, *values_of in k.launch.rounds if k.launch is not None else ():
        least, end, step = (spelled(e, known) for e in values_of)
        if name in roles.sizes and least and end and step:
            out[name] = _middle(least, end, step)
    return out


def _middle(least: str, end: str, step: str) -> str:
    """The value in the middle of those from ``least`` on, below ``end``, that are ``step`` apart."""
    length = end if least == "0" else f"({end} - {least})"
    half = f"{length} / 2" if step == "1" else f"{length} / (2 * {step}) * {step}"
    return half if least == "0" else f"{least} + {half}"


def _ends(mine: Sequence[Signs], told: Sequence[Signs]) -> Iterator[Sym]:
    """What a place lies below, as it is compared with it or with a variable that is."""
    beyond = [s for signs in mine for s, sign in signs.items() if sign < 0]
    yield from beyond
    for signs in told:
        if any(signs.get(s, 0) > 0 for s in beyond):
            yield from (s for s, sign in signs.items() if sign < 0)


def orderings(body: Body) -> Iterator[Binary]:
    """What holds where something is done, as ``a < b`` or ``a <= b``."""
    for s in walk(body):
        if isinstance(s, If):
            leaves = not s.then or (isinstance(s.then[-1], Return | Continue | Break) and not s.orelse)
            yield from _orderings(s.cond, not leaves)
        elif isinstance(s, For | While):
            yield from _orderings(s.cond, True)
        if isinstance(s, For):
            yield Binary("<=", s.init, Var(s.var))
        for e in (x for y in stmt_exprs(s) for x in walk_expr(y)):
            if isinstance(e, Select):
                yield from _orderings(e.cond, True)


def _orderings(e: Expr, truth: bool) -> Iterator[Binary]:
    """The orderings in a condition as they are where it is ``truth``."""
    if isinstance(e, Binary) and e.op in ORDERINGS:
        op = e.op if truth else NEGATED[e.op]
        yield Binary(op, e.a, e.b) if op in ("<", "<=") else Binary(MIRRORED[op], e.b, e.a)
    for x in children(e):
        yield from _orderings(x, truth != (isinstance(e, Unary) and e.op == "!"))


def _signs_of(e: Binary, sources: Mapping[Sym, Expr]) -> Signs:
    """The variables of ``a < b``: above 0 those with which fewer are, as they grow; below 0 those with which more are;
    0 where it depends."""
    out: Signs = {}
    for side, sign in ((e.a, 1), (e.b, -1)):
        for s, n in _signs(side, sign, sources):
            out[s] = n if out.get(s, n) == n else 0
    return out


def _signs(e: Expr, sign: int, sources: Mapping[Sym, Expr]) -> Iterator[tuple[Sym, int]]:
    match without_casts(e):
        case Var(s):
            yield s, sign
            if s in sources:
                yield from _signs(sources[s], sign, {v: x for v, x in sources.items() if v != s})
        case Unary("-", x):
            yield from _signs(x, -sign, sources)
        case Binary("+" | "-" | "*" as op, a, b):
            yield from _signs(a, sign, sources)
            yield from _signs(b, -sign if op == "-" else sign, sources)
        case Binary("/", a, Const()) | Call(fn="cdiv", args=(a, Const())):
            yield from _signs(a, sign, sources)
        case Call(fn="min" | "max", args=args):
            for x in args:
                yield from _signs(x, sign, sources)
        case x:
            yield from ((s, 0) for s in used(x))


__all__ = ["in_rounds", "middles"]
