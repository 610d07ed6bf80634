"""Which elements of its buffers a kernel can touch, as formulas over its scalar parameters.

``out[i * w + j]`` behind ``if (i > 0 && i < h - 1 && j > 0 && j < w - 1)`` touches the elements from ``w + 1`` to
``h * w - w - 2``. Nothing is taken from shapes and ranges that somebody stated: a subscript is a polynomial in which
every variable is replaced by what bounds it where the access happens (:mod:`ktc.ir.arith.symbolic_bounds`). Taken for
granted is that parameters are at least zero, and those that something is divided by at least one; which of them a
result needs, it says, for whoever builds on it to test.

What else it rests on is :data:`TRUSTED`, and of subscripts that their arithmetic does not wrap around: they number
elements.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from ktc.ir.arith import Facts, Trust
from ktc.ir.arith.elimination import atoms
from ktc.ir.arith.polynomial import Polynomial, constant, from_polynomial, minus, plus, polynomial, scaled, times
from ktc.ir.arith.symbolic_bounds import largest, least, lower_bound, upper_bound
from ktc.ir.fields import children
from ktc.ir.fold import evaluate, simplify
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Binary,
    Break,
    Cast,
    Const,
    Continue,
    Decl,
    Eval,
    Expr,
    Fence,
    For,
    GridDependency,
    HwIndex,
    If,
    Load,
    Return,
    Store,
    Sym,
    Var,
    While,
)  # fmt: skip
from ktc.ir.own_variables import with_own_variables
from ktc.ir.sequences.launches import launch_kernels
from ktc.ir.types import I64, Ptr, Scalar
from ktc.ir.walk import all_exprs, assigned, walk, walk_expr

from .defs import definitions, expand
from .guarded_accesses import GuardedAccess, guarded_accesses
from .own_iterations import own_iterations
from .scalars.counted_values import with_counted_values
from .scalars.loop_locals import with_loop_locals

STATEMENTS = (
    Alloc, Assign, Atomic, Barrier, Break, Continue, Decl, Eval, Fence, For, GridDependency, If, Return, Store, While,
)  # fmt: skip
"""Statements whose accesses are seen; where a kernel has others, nothing is known of it."""

TRUSTED = Trust(parameters=True, indices=True, counters=True, launch=True)
"""Hypotheses about parameters, which the result names; launches of the size that the kernel says; indices that number
threads."""

SUBSCRIPTS = dataclasses.replace(TRUSTED, no_wrap=True, no_borrow=True)

Ends = tuple[Polynomial, Polynomial]


@dataclass(frozen=True)
class _Found:
    """Of each buffer the first and the last element; ``natural``: what is taken to be at least zero beside the
    hypotheses, so that the ends of several accesses are joined term by term."""

    ends: dict[Sym, Ends | None]
    natural: tuple[Expr, ...]


@dataclass(frozen=True)
class TouchedRange:
    """The elements from ``low`` to ``high`` of one buffer, in 64 bits, where all of ``least_zero`` are at least 0."""

    low: Expr
    high: Expr
    least_zero: tuple[Expr, ...] = ()


def touched_ranges(kernel: Kernel) -> dict[Sym, TouchedRange | None]:
    """The range of every pointer parameter that a kernel in SPMD form touches; None where it is not known."""
    if kernel.is_parallel or kernel.launch is None or any(not isinstance(s, STATEMENTS) for s in walk(kernel.body)):
        return {p.sym: None for p in kernel.params if isinstance(p.sym.type, Ptr)}
    kernel = kernel.with_(body=with_own_variables(kernel.body))
    body, spare = own_iterations(kernel, Facts(_supposing(kernel, _hypotheses(kernel)), TRUSTED))
    kernel, rounds = _with_names(kernel.with_(body=body))
    guesses = _hypotheses(kernel) | dict.fromkeys((*rounds, *spare), 0)
    found = _ends(kernel, guesses)
    needed = _needed(kernel, guesses, found) | dict.fromkeys((*found.natural, *spare), 0)
    passed_on = {x.sym for x in all_exprs(kernel.body) if isinstance(x, Var)}
    least_zero = tuple(from_polynomial(minus(polynomial(e), constant(n)), I64) for e, n in needed.items())
    return {
        b: None if ends is None or b in passed_on else TouchedRange(_formula(ends[0]), _formula(ends[1]), least_zero)
        for b, ends in {**dict.fromkeys(passed_on), **found.ends}.items()
        if isinstance(b.type, Ptr)
    }


def touched_by_launches(kernel: Kernel) -> dict[Sym, TouchedRange | None]:
    """:func:`touched_ranges` of a kernel; of a sequence, what all its launches touch together."""
    found: dict[Sym, TouchedRange | None] = {}
    for k in launch_kernels(kernel):
        for b, r in touched_ranges(k).items():
            before = found.get(b, r)
            found[b] = None if r is None or before is None else _together(before, r)
    return found


def _together(a: TouchedRange, b: TouchedRange) -> TouchedRange:
    """The elements of both and those between them, where everything that either is made of is at least 0."""
    if a == b:
        return a
    lows, highs = ([polynomial(e) for e in ends] for ends in ((a.low, b.low), (a.high, b.high)))
    natural = (from_polynomial({(x,): 1}, I64) for p in (*lows, *highs) for x in atoms(p))
    conditions = tuple(dict.fromkeys((*a.least_zero, *b.least_zero, *natural)))
    return TouchedRange(_formula(least(lows)), _formula(largest(highs)), conditions)


def _with_names(kernel: Kernel) -> tuple[Kernel, list[Expr]]:
    """``kernel`` with a name for each value that a thread counts on to, and what is taken to be at least 0 for it: the
    iterations of loops that count."""
    given, names = {p.sym for p in kernel.params} - assigned(kernel.body), definitions(kernel.body)
    rounds: list[Expr] = []

    def runs(n: Expr) -> bool:
        n = simplify(expand(n, names))
        rounds.extend([n] if _is_given(n, given) and n not in rounds else [])
        return _is_given(n, given)

    return kernel.with_(body=with_counted_values(with_loop_locals(kernel.body), runs)), rounds


def _hypotheses(kernel: Kernel) -> dict[Expr, int]:
    """Numbers that a launcher has, each with the least that it is taken to be."""
    given = {p.sym for p in kernel.params} - assigned(kernel.body)
    out: dict[Expr, int] = {
        Var(p.sym): 0 for p in kernel.params if isinstance(p.sym.type, Scalar) and p.sym.type.is_int and p.sym in given
    }
    for e in all_exprs(kernel.body):
        if not isinstance(e, Binary) or e.op not in ("/", "%") or isinstance(e.b, Const):
            continue
        if isinstance(e.type, Scalar) and e.type.is_int and _is_given(e.b, given):
            out[e.b] = 1
    return out


def _formula(p: Polynomial) -> Expr:
    """``p`` in 64 bits, its number last."""
    return from_polynomial({f: k for f, k in p.items() if f} | {f: k for f, k in p.items() if not f}, I64)


def _is_given(e: Expr, params: set[Sym]) -> bool:
    return not any(isinstance(x, Load | HwIndex) or (isinstance(x, Var) and x.sym not in params) for x in walk_expr(e))


def _ends(kernel: Kernel, guesses: dict[Expr, int]) -> _Found:
    """What is touched if ``guesses`` hold."""
    facts = Facts(_supposing(kernel, guesses), TRUSTED)
    given = {p.sym for p in kernel.params} - facts.symbols.changing
    found: dict[Sym, Ends | None] = {}
    natural: dict[Expr, None] = {}
    outside: set[Sym] = set()
    for a in guarded_accesses(facts):
        ends = _of_access(a, kernel, given)
        before = found.get(a.buffer, ends)
        if ends is not None and a.buffer not in outside and not a.facts.never_positive(scaled(ends[0], -1)):
            outside.add(a.buffer)  # it may begin before the buffer does
        both = None if ends is None or before is None else _joined(before, ends, facts, a.facts)
        if both is not None and a.buffer not in outside and not facts.never_positive(scaled(both[0], -1)):
            both = ({}, both[1])
        found[a.buffer] = both
        natural |= dict.fromkeys(x for p in ends or () for x in atoms(p) if not facts.never_negative(x))
    return _Found(found, tuple(natural))


def _joined(before: Ends, now: Ends, facts: Facts, there: Facts) -> Ends:
    """What ``before`` and ``now`` reach together; ``there``: what is known where ``now`` is touched."""
    (low, high), (first, last) = before, now
    if not there.never_positive(minus(low, first)):
        low = first if facts.never_positive(minus(first, low)) else least((low, first))
    if not there.never_positive(minus(last, high)):
        high = last if facts.never_positive(minus(high, last)) else largest((high, last))
    return low, high


def _of_access(a: GuardedAccess, kernel: Kernel, params: set[Sym]) -> Ends | None:
    width = evaluate(a.width, kernel.knob_values) if isinstance(a.width, Expr) else a.width
    if len(a.index) != 1 or width is None or not isinstance(a.buffer.type, Ptr):
        return None
    if not a.facts.whole(a.index[0]):
        return None
    here = _of_subscript(a.index[0], a.facts)
    p = here.polynomial(a.index[0])
    low = lower_bound(p, here, lambda e: _is_given(e, params))
    high = None if low is None else upper_bound(plus(p, constant(int(width) - 1)), here, lambda e: _is_given(e, params))
    return None if low is None or high is None else (scaled(_in_parameters(scaled(low, -1)), -1), _in_parameters(high))


def _in_parameters(p: Polynomial) -> Polynomial:
    """``p``, or something larger that is plainer: ``64 * (n / 64)`` is at most ``n``, and it is ``n`` where the launch
    has whole blocks of it."""
    out: Polynomial = {}
    for factors, k in p.items():
        for at, f in enumerate(factors):
            if isinstance(f, Binary) and f.op == "/" and isinstance(f.a, Var) and isinstance(f.b, Const):
                by = int(f.b.value)
                if k > 0 and by > 0 and k % by == 0:
                    term = times({(f.a,): k // by}, {(*factors[:at], *factors[at + 1 :]): 1})
                    return plus(_in_parameters(minus(p, {factors: k})), _in_parameters(term))
        out = plus(out, {factors: k})
    return out


def _of_subscript(e: Expr, facts: Facts) -> Facts:
    """``facts`` where arithmetic that ``e`` is made of does not wrap, in what guards say of it too."""
    here = facts.trusting(SUBSCRIPTS)
    parts, left = set[Expr](), [e]
    while left:
        x = left.pop()
        if x not in parts:
            parts.add(x)
            left += children(x)
            left += [facts.symbols.names[x.sym]] if isinstance(x, Var) and x.sym in facts.symbols.names else []

    def product(factors: tuple[Expr, ...], k: int) -> Polynomial:
        out = constant(k)
        for f in factors:
            own = isinstance(f, Binary | Cast | Var) and f in parts
            out = times(out, here.polynomial(f) if own else {(f,): 1})
        return out

    here.conditions = tuple(
        reduce(plus, (product(factors, k) for factors, k in q.items()), constant(0)) for q in facts.conditions
    )
    return here


def _supposing(kernel: Kernel, guesses: dict[Expr, int]) -> Kernel:
    """``kernel`` with ``guesses`` in place of what is stated of its parameters."""
    params = tuple(
        dataclasses.replace(p, range=(guesses.get(Var(p.sym)), None), divisible_by=1, origins=()) for p in kernel.params
    )
    others = [(e, n) for e, n in guesses.items() if not isinstance(e, Var)]
    if kernel.launch is not None:  # else nothing is touched
        others += [(e, 1) for e in (*kernel.launch.grid, *kernel.launch.block) if not isinstance(e, Const)]
    assumed = tuple(Assume(Binary(">=", e, Const(n, e.type))) for e, n in others)  # type: ignore[arg-type]
    return kernel.with_(params=params, assumptions=assumed)


def _needed(kernel: Kernel, guesses: dict[Expr, int], found: _Found) -> dict[Expr, int]:
    """Those of ``guesses`` without which something else would be found."""
    if all(ends is None for ends in found.ends.values()):
        return {}
    named = _names(p for ends in found.ends.values() if ends is not None for p in ends)
    kept: dict[Expr, int] = {e: n for e, n in guesses.items() if isinstance(e, Var) and e.sym in named}
    if _ends(kernel, kept) == found:
        return kept
    kept = dict(guesses)
    for e in guesses:
        fewer = {x: n for x, n in kept.items() if x != e}
        if not (isinstance(e, Var) and e.sym in named) and _ends(kernel, fewer) == found:
            kept = fewer
    return kept


def _names(several: Iterable[Polynomial]) -> set[Sym]:
    return {x.sym for p in several for a in atoms(p) for x in walk_expr(a) if isinstance(x, Var)}


__all__ = ["TouchedRange", "touched_ranges"]
