"""Sizes of windows, how far they reach and what they leave of other sizes; integer expressions as a workload's text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Cast, Const, Expr, For, Sym, Unary, Var
from ktc.ir.walk import all_exprs, walk, walk_expr

COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})


def names_in(text: str) -> list[str]:
    """The names of an integer expression."""
    return re.findall(r"[A-Za-z_]\w*", text)


def bare(e: Expr) -> Expr:
    while isinstance(e, Cast):
        e = e.x
    return e


def spelled(e: Expr, params: set[Sym], sources: Mapping[Sym, Sequence[Expr]] = {}) -> str | None:
    """An integer expression over parameters as a workload writes it, variables by what ``sources`` say that they are
    given; None for anything else."""
    match e:
        case Const(int() as v, _):
            return str(int(v))
        case Var(s) if s in params:
            return s.name
        case Var(s) if len(sources.get(s, ())) == 1:
            return spelled(sources[s][0], params, {k: v for k, v in sources.items() if k != s})
        case Cast(_, x):
            return spelled(x, params, sources)
        case Binary(op, a, b) if op in ("+", "-", "*", "/"):
            left, right = spelled(a, params, sources), spelled(b, params, sources)
            return f"({left} {op} {right})" if left and right else None
    return None


def halves_of(k: Kernel, sources: Mapping[Sym, Sequence[Expr]]) -> Iterator[str]:
    """Parameters that a loop's variable starts minus of, or that are taken off another size: how far windows reach.

    ``sources``: what variables of the body are given.
    """
    params = {p.sym for p in k.params}
    starts = [x for s in walk(k.body) if isinstance(s, For) for x in walk_expr(_spelled_out(s.init, sources))]
    extents = () if k.launch is None else (*k.launch.grid, *k.launch.block)
    for e in (*starts, *(x for y in (*extents, *all_exprs(k.body)) for x in walk_expr(y))):
        match e:
            case Unary("-", x):
                window, whole = bare(x), None
            case Binary("-", a, b):
                window, whole = bare(b), _spelled_out(a, sources)
            case _:
                continue
        if isinstance(window, Var) and window.sym in params:
            of_a_size = isinstance(whole, Var) and whole.sym in params and whole.sym != window.sym
            if of_a_size or any(e is x for x in starts):
                yield window.sym.name


def windows(k: Kernel, halves: Collection[str], sources: Mapping[Sym, Sequence[Expr]]) -> list[str]:
    """What is left of sizes where a window of one of ``halves`` does not fit, as text: ``(W - KS + 1)``."""
    params = {p.sym for p in k.params}
    found: dict[str, None] = {}
    for e in (x for y in all_exprs(k.body) for x in walk_expr(y)):
        for side in (e.a, e.b) if isinstance(e, Binary) and e.op in (*COMPARISONS, "*") else ():
            text = spelled(side, params, sources)
            if text is not None and re.search(rf"- ({'|'.join(halves)})\b", text) and not re.search(r"[*/]|- \(", text):
                found[f"({re.sub('[()]', '', text)})"] = None
    return list(found)


def _spelled_out(e: Expr, sources: Mapping[Sym, Sequence[Expr]]) -> Expr:
    while isinstance(e, Cast) or (isinstance(e, Var) and len(sources.get(e.sym, ())) == 1):
        e = e.x if isinstance(e, Cast) else sources[e.sym][0]
    return e
