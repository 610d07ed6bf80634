"""Contents of integer buffers that are no indices: values on both sides of the kernel's comparisons, and counters.

A byte that is compared with ``'1'`` is one of the digits around it, a mask is 0, 1 or 2 (a caller may have any number
for true), and what only atomics count starts at 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import COMPARISONS, Atomic, Binary, Cast, Expr, If, Load, Select, Store, Sym, Unary, Var, While
from ktc.ir.types import scalar_of
from ktc.ir.walk import all_exprs, stmt_exprs, walk, walk_expr

from .given_values import definitions, loaded

COUNTING = frozenset({"add", "sub", "inc", "dec", "or", "xor"})
"""Atomics that something is counted or collected with, from 0 on."""

TRUTH_VALUES = 0, 2
"""What is asked only whether it is zero may be any other number."""


def counted(k: Kernel, p: Param) -> bool:
    """Whether the body does nothing with ``p``'s integers but count in them: bins of a histogram."""
    if not scalar_of(p.sym.type).is_int:
        return False
    atomics = [s for s in walk(k.body) if isinstance(s, Atomic) and s.buffer == p.sym]
    stored = any(isinstance(s, Store) and s.buffer == p.sym for s in walk(k.body))
    read = any(isinstance(x, Load) and x.buffer == p.sym for x in all_exprs(k.body))
    return bool(atomics) and not stored and not read and all(s.op in COUNTING for s in atomics)


def values_compared(k: Kernel, p: Param, fixed: Mapping[str, int]) -> tuple[int, int] | None:
    """The range that reaches both sides of each comparison of ``p``'s integers with a number; None if there is none.

    ``fixed``: what integer parameters are.
    """
    t = scalar_of(p.sym.type)
    if t.kind == "bool":
        return 0, 1
    if not t.is_int:
        return None
    sources, known = definitions(k), {q.sym: fixed[q.sym.name] for q in k.params if q.sym.name in fixed}
    lowest = -(1 << t.bits - 1) if t.is_signed else 0
    highest = (1 << t.bits - (1 if t.is_signed else 0)) - 1
    # numbers beyond what an element holds are compared with words that are made of several
    numbers = {(n, how) for n, how in _numbers(k, p.sym, sources, known) if lowest <= n <= highest}
    if not numbers:
        return None
    if numbers == {(0, "==")}:
        return TRUTH_VALUES
    ends = [n for n, _ in numbers]
    return max(min(ends) - 1, lowest), min(max(ends) + 1, highest)


def sentinel_of(k: Kernel, p: Param, fixed: Mapping[str, int]) -> int | None:
    """The number by which an integer of ``p`` says that there is none, at an end of what its type holds: the only one
    that they are compared with, ``key == 0xffffffff``. Numbers around it are not what others are like."""
    t = scalar_of(p.sym.type)
    if not t.is_int or t.bits < 16:
        return None
    known = {q.sym: fixed[q.sym.name] for q in k.params if q.sym.name in fixed}
    found = {*_numbers(k, p.sym, definitions(k), known)}
    lowest = -(1 << t.bits - 1) if t.is_signed else 0
    ends = {lowest, lowest + 1, lowest + (1 << t.bits) - 1, lowest + (1 << t.bits) - 2} - {0, 1}
    (number, how) = next(iter(found)) if len(found) == 1 else (0, "")
    return number if how == "==" and number in ends else None


def told_apart(k: Kernel, p: Param) -> bool:
    """Whether integers of ``p`` that are one number other than 0 are told from all others."""
    found = _numbers(k, p.sym, definitions(k), {}) if scalar_of(p.sym.type).is_int else ()
    return any(number and how == "==" for number, how in found)


def _numbers(
    k: Kernel, buffer: Sym, sources: Mapping[Sym, list[Expr]], known: Mapping[Sym, int]
) -> Iterator[tuple[int, str]]:
    """(number, comparison) of each comparison; what decides by itself whether it is 0 is compared with that."""
    for e in all_exprs(k.body):
        if isinstance(e, Binary) and e.op in COMPARISONS:
            for x, y in ((e.a, e.b), (e.b, e.a)):
                other = without_casts(y)
                value = known.get(other.sym) if isinstance(other, Var) else evaluate(other, {})
                if value is not None and loaded(x, sources, buffer):
                    yield int(value), "==" if e.op in ("==", "!=") else "<"
        elif isinstance(e, Select | Unary) and _truth(e.cond if isinstance(e, Select) else e.x, buffer, sources):
            yield from ((0, "=="),) if isinstance(e, Select) or e.op == "!" else ()
    for s in walk(k.body):
        if isinstance(s, If | While) and _truth(s.cond, buffer, sources):
            yield 0, "=="
    for e in (x for s in walk(k.body) for y in stmt_exprs(s) for x in walk_expr(y)):
        if isinstance(e, Binary) and e.op in ("&&", "||"):
            yield from ((0, "==") for x in (e.a, e.b) if _truth(x, buffer, sources))


def _truth(e: Expr, buffer: Sym, sources: Mapping[Sym, list[Expr]]) -> bool:
    return isinstance(e, Cast | Load | Var) and loaded(e, sources, buffer)


__all__ = ["TRUTH_VALUES", "counted", "sentinel_of", "told_apart", "values_compared"]
