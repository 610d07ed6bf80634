"""Accumulators that are combined together: where an extreme is found goes with the extreme.

An accumulator of a :class:`~ktc.ir.nodes.Reduce` with the operation ``at`` follows a ``min`` or ``max``, its *key*, and
starts at the largest number of its (integer) type. It ends as the least of the values that belong to iterations whose
key is the extreme, or as that largest number where no key is better than the one that the key starts with (the
identity). A key that is no number (NaN) is never better, so such iterations win nothing.

    reduce(max) top: f32 = -inf, (at) first: i32 = 2147483647 over i in 0..n
      yield x[i], i

As ties go to the least value, pairs may be combined in any order and any association.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from ktc.ir.expr_nodes import Binary, Call, Cast, Const, Expr, Select, Var
from ktc.ir.fold import INT_OPS
from ktc.ir.loop_nodes import Acc, Reduce
from ktc.ir.types import Scalar

AT = "at"
BETTER = {"max": ">", "min": "<"}
"""The comparison by which one key beats another."""

IDEMPOTENT = ("min", "max", "&", "|")
"""Operations for which a start value combined once per thread is the same as combined once."""

Pair = tuple[Expr, Expr]
"""A key and its place."""


def identity(op: str, t: Scalar) -> Const:
    """The neutral element of ``op``: what an idle thread contributes."""
    if op in ("+", "|", "^"):
        return Const(0.0 if t.is_float else 0, t)
    if op == "*":
        return Const(1.0 if t.is_float else 1, t)
    if t.is_float:
        return Const(float("inf") if op == "min" else float("-inf"), t)
    low, high = t.extremes
    return Const({"min": high, AT: high, "max": low, "&": -1 if t.is_signed else high}[op], t)


def is_identity(e: Expr, op: str, t: Scalar) -> bool:
    """Whether ``e`` is the neutral element of ``op``, be it written in another type: ``f16(0.0)``."""
    while t.is_float and isinstance(e, Cast) and e.style != "bit":
        e = e.x
    one = identity(op, t)
    return e == one or (t.is_float and isinstance(e, Const) and e.value == one.value)


def combine(op: str, a: Expr, b: Expr) -> Expr:
    """``a op b``; min and max are calls."""
    if op in ("min", "max"):
        return Call(op, (a, b), a.type)
    assert op in INT_OPS
    return Binary(op, a, b)


def combining(e: Expr | None) -> str:
    """The operation by which ``e`` puts two values together, if in any order; else ''."""
    if isinstance(e, Call):
        return e.fn if e.fn in ("min", "max") and len(e.args) == 2 else ""
    return e.op if isinstance(e, Binary) and e.op in ("+", "*", "&", "|", "^") else ""


def operands(e: Expr, op: str) -> list[Expr]:
    """What ``e`` puts together by ``op``."""
    if combining(e) != op:
        return [e]
    parts = e.args if isinstance(e, Call) else (e.a, e.b) if isinstance(e, Binary) else ()
    return [y for x in parts for y in operands(x, op)]


def together(accs: Sequence[Acc]) -> list[tuple[Acc, ...]]:
    """``accs`` in the groups that are combined as one: each alone, or a key with the ``at`` right after it."""
    out: list[tuple[Acc, ...]] = []
    for a in accs:
        if a.op == AT and out and len(out[-1]) == 1:
            out[-1] = (*out[-1], a)
        else:
            out.append((a,))
    return out


def misplaced(accs: Sequence[Acc]) -> Iterator[str]:
    """What is wrong with the ``at`` accumulators among ``accs``."""
    for group in together(accs):
        if group[0].op == AT:
            yield f"'{group[0].sym.name}': 'at' follows the min or max whose place it is"
        elif len(group) == 2:
            key, at = group
            t, key_type = at.sym.type, key.sym.type
            if key.op not in BETTER or not isinstance(key_type, Scalar) or key.init != identity(key.op, key_type):
                yield f"'{key.sym.name}': a place goes with a min or max that starts at its identity"
            if not isinstance(t, Scalar) or t.is_float or at.init != identity(AT, t):
                yield f"'{at.sym.name}': a place starts at the largest number of its integer type"


def in_two_sweeps(s: Reduce) -> tuple[Reduce, ...]:
    """What ``s`` means in plain reductions: the extremes, then the least value that belongs to each.

    The body runs in both, so it may do nothing that does not bear repeating.
    """
    pairs = [g for g in together(s.accs) if len(g) == 2]
    if not pairs:
        return (s,)
    first = tuple(a for a in s.accs if a.op != AT)
    return dataclasses.replace(s, accs=first), dataclasses.replace(s, accs=tuple(_among(*g) for g in pairs))


def _among(key: Acc, at: Acc) -> Acc:
    mine = Binary("&&", Binary("==", key.value, Var(key.sym)), Binary(BETTER[key.op], key.value, key.init))
    return dataclasses.replace(at, op="min", value=Select(mine, at.value, at.init))


def beats(key: Acc, mine: Pair, other: Pair) -> Expr:
    """Whether ``other`` wins over ``mine``, both (key, place) of some iterations, or of none (the start)."""
    tie = Binary("&&", Binary("==", other[0], mine[0]), Binary("<", other[1], mine[1]))
    return Binary("||", Binary(BETTER[key.op], other[0], mine[0]), tie)


def joins(key: Acc, mine: Pair, own: Pair, ascending: bool) -> Expr:
    """Whether the (key, place) ``own`` of one iteration wins over ``mine``, those of the iterations before it.

    ``ascending``: each place is larger than those before it, so that ties change nothing.
    """
    better = Binary(BETTER[key.op], own[0], mine[0])
    if ascending:
        return better
    tie = Binary("&&", Binary("==", own[0], mine[0]), Binary("<", own[1], mine[1]))
    return Binary("||", better, Binary("&&", tie, Binary(BETTER[key.op], own[0], key.init)))


def is_own_place(s: Reduce, at: Acc) -> bool:
    """Whether the places of ``at`` are the numbers of the iterations."""
    return at.value == Var(s.var)


__all__ = [
    "AT", "BETTER", "beats", "combine", "combining", "identity", "in_two_sweeps", "is_identity", "is_own_place",
    "joins", "misplaced", "operands", "together",
]  # fmt: skip
