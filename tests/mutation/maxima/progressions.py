"""Loops that take a maximum over every so many elements, on symbols: ``for i = a; i < n; i + s: m = max(m, f(i))``.

Where ``a`` and ``s`` are numbers, the elements are some residue classes modulo any multiple of ``s``, the *period*: of
each, those from a first one on, below ``n``. A maximum over them is a set of such classes, of which the one that starts
first covers the others; so it does not matter which threads visited an element, nor how often.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ktc.ir.fold import evaluate, i32
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Binary, Body, Call, Decl, Expr, For, HwIndex, Var, WarpOp
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, map_expr, used, walk, walk_expr
from ktc.search.verification.integers.formulas import increment
from tests.mutation.symbolic.memories import Classes
from tests.mutation.symbolic.symbolic_values import Active, Threads
from tests.mutation.symbolic.terms import Term

if TYPE_CHECKING:
    from tests.mutation.symbolic.lockstep import Run

LONGEST = 1024
"""The largest period: so many classes there are at most."""


@dataclass(frozen=True)
class Progression:
    """A loop that does nothing but ``leaf``, ``m = fn(m, value)``, behind the definitions ``given``, as long as its
    variable is below ``bound``, ``stride`` further in each round."""

    loop: For
    given: tuple[Decl, ...]
    leaf: Assign
    fn: str
    value: Expr
    bound: Expr
    stride: Expr


def progression(s: For) -> Progression | None:
    """``s`` read so; None if it is anything else."""
    *given, leaf = s.body or (s,)
    stride, cond = increment(s), s.cond
    if stride is None or not isinstance(cond, Binary) or cond.op != "<" or cond.a != Var(s.var):
        return None
    if not isinstance(leaf, Assign) or not isinstance(leaf.value, Call) or leaf.value.fn not in ("max", "min"):
        return None
    mine = Var(leaf.sym)
    rest = [e for e in leaf.value.args if e != mine]
    if (
        len(rest) != 1
        or len(leaf.value.args) != 2
        or not (isinstance(leaf.sym.type, Scalar) and leaf.sym.type.is_float)
    ):
        return None
    plain = [x for x in given if isinstance(x, Decl) and isinstance(x.sym.type, Scalar) and x.init is not None]
    if len(plain) != len(given) or not _keeps_apart(s, leaf, plain, [rest[0], s.init, cond.b, stride]):
        return None
    return Progression(s, tuple(plain), leaf, leaf.value.fn, rest[0], cond.b, stride)


def _keeps_apart(s: For, leaf: Assign, given: list[Decl], parts: list[Expr]) -> bool:
    """Whether nothing hangs on what earlier rounds did, and the first value, the bound and the stride on no round."""
    parts = [*parts, *(x.init for x in given if x.init is not None)]
    pure = not any(
        isinstance(e, WarpOp) or (isinstance(e, Call) and e.effects != "pure") for p in parts for e in walk_expr(p)
    )
    rounds = {s.var, leaf.sym, *(x.sym for x in given)}
    steady = not any(used(e) & rounds for e in (*parts[1:4],))
    alone = s.var not in assigned(s.body) and leaf.sym not in {s for p in parts for s in used(p)}
    names = [s.var, leaf.sym, *(x.sym for x in given)]
    return pure and steady and alone and len(set(names)) == len(names)


def period(kernel: Kernel, bodies: tuple[Body, ...], threads: Threads) -> int:
    """A number of which all strides of such loops in ``bodies`` are divisors; 0 if there is none that is small."""
    extents = threads.extents or ()
    known: dict[Expr, Expr] = {HwIndex("block_dim", axis): i32(n) for axis, n in zip("xyz", extents)}
    strides = [
        evaluate(map_expr(found.stride, lambda e: known.get(e, e)), kernel.knob_values)
        for body in bodies
        for s in walk(body)
        if isinstance(s, For) and (found := progression(s)) is not None
    ]
    numbers = [int(n) for n in strides if n is not None and n > 0]
    least = math.lcm(*numbers) if numbers else 0
    return least if least <= LONGEST else 0


def starts(first: int, stride: int, period: int) -> range:
    """The first element of each class modulo ``period`` that is visited from ``first`` on; none if there is no way."""
    return range(first, first + period, stride) if stride > 0 and period and period % stride == 0 else range(0)


def visit(run: Run, p: Progression, act: Active) -> bool:
    """Runs ``p`` for the threads ``act``; False if it has to be followed round by round, or cannot be."""
    t, classes = run.t, dict[int, Classes]()
    for k in act:
        first, stride = (run.number(run.of(e, k, act)) for e in (p.loop.init, p.stride))
        bound = run.of(p.bound, k, act)
        found = starts(first, stride, run.period) if first is not None and stride is not None else range(0)
        if not found or run.number(bound) is not None:
            return False
        kind = str(p.loop.var.type)
        classes[k] = tuple(((kind, bound, n % run.period), n) for n in found)
    element, new = t.make("element", str(p.loop.var.type)), dict[int, Term]()
    for k in act:
        run.classes = classes[k]
        try:
            run.env[k][p.loop.var] = element
            for s in p.given:
                assert s.init is not None
                run.env[k][s.sym] = run.of(s.init, k, act)
            value = run.of(p.value, k, act)
        finally:
            run.classes = ()
        old = t.given(run.var(p.leaf.sym, k), act[k])
        new[k] = t.extremes(p.fn, [old, *(t.make("class", p.fn, value, *which, n) for which, n in classes[k])])
    for k, v in new.items():
        run.env[k][p.leaf.sym] = t.choose(act[k], v, run.var(p.leaf.sym, k))
    return True


__all__ = ["period", "progression", "visit"]
