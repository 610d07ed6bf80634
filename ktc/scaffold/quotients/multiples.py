"""Sizes that are multiples of others: ``K / group`` groups of elements, ``heads / kv_heads`` queries a key.

A quotient of two sizes that is not rounded up counts whole groups, as a rule, and so does that of a loop's variable,
``k / group`` with ``k < K``, or of the elements of its words, ``8 * i / group`` with ``i < K / 8``. Where the last
elements are in none, a kernel reads beyond the scales that its host allocates, or leaves elements out. Drafts look at
whole groups alone, and where the others are seen to go wrong a workload says so (:mod:`..checking.confirming`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.arith.polynomial import polynomial
from ktc.ir.fold import is_const
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, For, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, walk, walk_expr
from ktc.passes.shared.loop_bounds import upper_bound

from ..given_values import spelled_out

Group = tuple[str, str]
"""A size, and that which it is a multiple of."""

ROUNDS = 4
"""How often sizes are made multiples of others, which may be multiples themselves."""


def whole_groups(k: Kernel, names: Collection[str], sources: Mapping[Sym, Sequence[Expr]]) -> tuple[Group, ...]:
    """The sizes, of ``names``, that the kernel or its host code divides by another one. ``sources``: what variables are
    given."""
    equal = [*k.launch.reached] if k.launch is not None else []  # scales that the host compares need not be whole
    host = [e for _, e in (*k.launch.passed, *k.launch.allocated)] if k.launch is not None else []
    host += [*k.launch.grid] if k.launch is not None else []
    ends = {s.var: upper_bound(s.cond, s.var) for s in walk(k.body) if isinstance(s, For)}
    counted = {v: end for v, end in ends.items() if end is not None}
    exprs = (*all_exprs(k.body), *host)
    found, compared = (dict.fromkeys(_quotients(x, sources, counted)) for x in (exprs, equal))
    return tuple((a, b) for a, b in found if {a, b} <= {*names} and (b, a) not in found and (a, b) not in compared)


def _quotients(
    exprs: Iterable[Expr], sources: Mapping[Sym, Sequence[Expr]], counted: Mapping[Sym, Expr]
) -> Iterator[Group]:
    """What is divided by what, of two parameters, in ``exprs``; ``counted``: loops' variables with what they go up
    to, all of which is divided with them."""
    for e in (x for y in exprs for x in walk_expr(y)):
        if isinstance(e, Binary) and e.op == "/" and isinstance(e.type, Scalar) and e.type.is_int:
            all_of_it = _all_of(without_casts(e.a), sources, counted)
            whole, by = (without_casts(spelled_out(x, sources)) for x in (all_of_it, e.b))
            if isinstance(whole, Var) and isinstance(by, Var) and whole.sym != by.sym:
                yield whole.sym.name, by.sym.name


def _all_of(place: Expr, sources: Mapping[Sym, Sequence[Expr]], counted: Mapping[Sym, Expr]) -> Expr:
    """What ``place`` goes up to as loops count: the end of ``k``, and ``n`` of ``8 * i + j``, ``i`` up to ``n / 8``."""
    if isinstance(place, Var):
        return counted.get(place.sym, place)
    words = [(f[0], n) for f, n in polynomial(place).items() if n > 1 and len(f) == 1 and isinstance(f[0], Var)]
    if len(words) != 1 or not isinstance(v := words[0][0], Var) or v.sym not in counted:
        return place
    end = without_casts(spelled_out(counted[v.sym], sources))
    return end.a if isinstance(end, Binary) and end.op == "/" and is_const(end.b, words[0][1]) else place


def in_whole_groups(sizes: Mapping[str, int], groups: Sequence[Group], steps: Mapping[str, int] = {}) -> dict[str, int]:
    """``sizes`` with those larger that are multiples of others, or of their ``steps``."""
    out = dict(sizes)
    known = [(a, b) for a, b in groups if a in out and b in out]
    for _ in range(ROUNDS if known else 0):
        for whole in dict.fromkeys(a for a, _ in known):
            step = math.lcm(steps.get(whole, 1), *(max(out[b], 1) for a, b in known if a == whole))
            out[whole] = max(-(-out[whole] // step), 1) * step
    return out


def are_whole(sizes: Mapping[str, int], groups: Sequence[Group]) -> bool:
    """Whether the sizes that are multiples of others are."""
    return all(sizes[b] > 0 and sizes[a] % sizes[b] == 0 for a, b in groups if a in sizes and b in sizes)


__all__ = ["Group", "are_whole", "in_whole_groups", "whole_groups"]
