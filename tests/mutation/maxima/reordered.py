"""Rounds of a loop in another order, each of which works on cells of its own.

``for v in 0..n: let w = f(v); acc[.., w, ..] += ...`` does the same for every ``f`` that takes the same values, each
once: round ``w`` reads and writes cells whose subscript is ``w``, and nothing else that a round writes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import AddrOf, Assign, Body, Const, Decl, Expr, For, Load, Mma, Stmt, Store, Sym, Var, WarpOp
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import assigned, stmt_exprs, substitute_expr, used, used_in, walk, walk_expr
from tests.mutation.zeros.refilled import placed

MOST = 1 << 12
"""Rounds that are counted out, those of the loops around a loop included."""


def reordered(kernel: Kernel, s: For, t: For) -> bool:
    """Whether the loop ``s`` of ``kernel`` does the same as ``t``, which differs in the definition that its body begins
    with."""
    if not s.body or len(s.body) != len(t.body) or s.body[1:] != t.body[1:]:
        return False
    mine, theirs, rest = s.body[0], t.body[0], s.body[1:]
    if not (isinstance(mine, Decl) and isinstance(theirs, Decl) and mine.sym == theirs.sym):
        return False
    if mine.init is None or theirs.init is None or s.var in used_in(rest) or mine.sym in assigned(rest):
        return False
    return _apart(rest, mine.sym) and _permuted(kernel, s, mine.init, theirs.init)


def _permuted(kernel: Kernel, s: For, e: Expr, f: Expr) -> bool:
    """Whether both take the same values in the rounds of ``s``, each once, whatever the loops around it count."""
    found = [place for x, place in placed(kernel.body) if x is s]
    if len(found) != 1 or s.var in assigned(s.body):
        return False
    around = [x for body, k in found[0][:-1] if isinstance(x := body[k], For)]
    needed = (used(e) | used(f)) - {s.var}
    loops = [x for x in around if x.var in needed and x.var not in assigned(x.body)]
    if needed != {x.var for x in loops}:
        return False
    ranges = [_values(kernel, x) for x in (*loops, s)]
    if any(r is None for r in ranges):
        return False
    *outer, own = (r for r in ranges if r is not None)
    if math.prod(map(len, (*outer, own))) > MOST:
        return False
    for values in itertools.product(*outer):
        counted = {x.var: v for x, v in zip(loops, values)}
        one, other = ([_number(kernel, x, {**counted, s.var: v}) for v in own] for x in (e, f))
        if None in one or None in other or len(set(one)) != len(own) or set(one) != set(other):
            return False
    return True


def _number(kernel: Kernel, e: Expr, counted: dict[Sym, int]) -> int | None:
    """``e`` for these numbers of loop variables; several of them, or a knob, may have one name."""
    found = evaluate(substitute_expr(e, {v: Const(n, _scalar(v)) for v, n in counted.items()}), kernel.knob_values)
    return None if found is None else int(found)


def _scalar(sym: Sym) -> Scalar:
    assert isinstance(sym.type, Scalar)
    return sym.type


def _values(kernel: Kernel, s: For) -> list[int] | None:
    """What a loop between numbers counts; None for others."""
    value, out = _number(kernel, s.init, {}), list[int]()
    while value is not None and len(out) <= MOST:
        goes_on = _number(kernel, s.cond, {s.var: value})
        if goes_on is None:
            return None
        if not goes_on:
            return out
        out.append(value)
        value = _number(kernel, s.step, {s.var: value})
    return None


def _apart(body: Body, own: Sym) -> bool:
    """Whether two runs of ``body`` with different values of ``own`` touch no cell that either of them writes."""
    plain = (Assign, Decl, For, Mma, Store)
    made = {x.sym for x in walk(body) if isinstance(x, Decl)}
    if any(not isinstance(x, plain) for x in walk(body)):
        return False
    if any(isinstance(e, WarpOp) for x in walk(body) for top in stmt_exprs(x) for e in walk_expr(top)):
        return False
    written = assigned(body) - made
    if any(not isinstance(b.type, Array) or b.type.space == "shared" for b in written):
        return False
    for array in written:
        places = [_places(x, own) for x in _accesses(body, array)]
        if not places or not frozenset.intersection(*places):
            return False
    return not any(written & _whole(x) for x in walk(body))


def _accesses(body: Body, array: Sym) -> Iterator[Load | Store]:
    for s in walk(body):
        if isinstance(s, Store) and s.buffer == array:
            yield s
        for top in stmt_exprs(s):
            yield from (e for e in walk_expr(top) if isinstance(e, Load) and e.buffer == array)


def _places(e: Load | Store, own: Sym) -> frozenset[int]:
    """Which subscripts are ``own`` itself; none of a vector's last."""
    last = len(e.index) - 1 if e.width != 1 else len(e.index)
    return frozenset(k for k, i in enumerate(e.index) if i == Var(own) and k != last)


def _whole(s: Stmt) -> set[Sym]:
    """Arrays that ``s`` itself names otherwise than by their elements."""
    parts = [e for top in stmt_exprs(s) for e in walk_expr(top)]
    return {e.sym for e in parts if isinstance(e, Var)} | {e.buffer for e in parts if isinstance(e, AddrOf)}


__all__ = ["reordered"]
