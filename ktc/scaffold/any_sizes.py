"""Quotients that the host makes of its own numbers, of which nothing else is made: they may be anything.

    int heads = hidden / head_size;     // hidden = x.numel() / tokens, and used for nothing else

As a formula of sizes that only it knows, a number of heads would be nothing where one is smaller than the other. A
draft makes it a size. (Where it divides by a number, ``hidden / 2``, what it divides is one all the same.)
"""

from __future__ import annotations

import dataclasses
from collections import Counter

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, Sym, Var
from ktc.ir.walk import used


def with_any_sizes(k: Kernel) -> Kernel:
    """``k`` without the formulas of what may be anything."""
    if k.launch is None:
        return k
    mentions = Counter(s for _, e in k.launch.passed for s in used(e))
    launch = (*k.launch.grid, *k.launch.block, *((k.launch.dynamic_shared,) if k.launch.dynamic_shared else ()))
    elsewhere = {s for e in launch for s in used(e)} | {p.sym for p in k.params if not p.host}
    told = {n for n, _ in k.launch.passed} | {n for n, _ in k.launch.given}
    own = {s for s, n in mentions.items() if n == 1 and s not in elsewhere and s.name not in told}
    kept = tuple((n, e) for n, e in k.launch.passed if not _is_any_quotient(e, own))
    if len(kept) == len(k.launch.passed):
        return k
    gone = {s for n, e in k.launch.passed if (n, e) not in kept for s in used(e) & own}
    params = tuple(p for p in k.params if p.sym not in gone)
    return k.with_(launch=dataclasses.replace(k.launch, passed=kept), params=params)


def _is_any_quotient(e: Expr, own: set[Sym]) -> bool:
    """Whether ``e`` is a quotient, and any integer above 0 for some values of its ``own`` numbers."""
    match without_casts(e):
        case Binary("/", a, b) if used(b):
            return _is_any(a, own) and not used(a) & used(b)
    return False


def _is_any(e: Expr, own: set[Sym]) -> bool:
    match e := without_casts(e):
        case Var(s):
            return s in own
        case Binary("*", a, b):
            return _is_any(a, own) and _is_any(b, own) and not used(a) & used(b)
    return _is_any_quotient(e, own)
