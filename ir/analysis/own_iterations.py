"""Loops over the threads of a grid that have an iteration a thread, as that iteration.

before                                          after
    var row: i64 = 0                                let i = thread
    for i = thread; i < n; i + threads              if i < n
      row += i * 3                                    var row: i64 = 0
      y[row] = f(i)                                   row += i * 3
                                                      y[row] = f(i)

A variable that each iteration moves on says where the first one reads and writes, and what later ones would touch is
far from what anybody means. That there are as many threads as iterations is a condition on the sizes, which whoever
builds on the result has to test.
"""

from __future__ import annotations

from collections import Counter

from ktc.ir.arith import Facts
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.fold import cast, mul, simplify, sub
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import (
    Assign,
    Binary,
    Body,
    Break,
    Cast,
    Const,
    Continue,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Load,
    Stmt,
    Sym,
    Var,
    While,
    bodies,
)  # fmt: skip
from ktc.ir.types import I64, Scalar
from ktc.ir.walk import assigned, declared, substitute_expr, used, used_in, walk, walk_expr

from .defs import definitions, expand


def own_iterations(kernel: Kernel, facts: Facts) -> tuple[Body, list[Expr]]:
    """The body of ``kernel``, in SPMD form, with such loops of its outermost list as their only iteration, and what has
    to be at least 0 for it: how many threads there are beyond those that are needed. ``facts`` are of the kernel."""
    out: list[Stmt] = list(kernel.body)
    needed: list[Expr] = []
    for s in kernel.body:
        spare = _spare_threads(s, kernel, facts) if isinstance(s, For) else None
        moved = None if spare is None else _moved(s, out)  # type: ignore[arg-type]
        if spare is None or not moved:
            continue
        assert isinstance(s, For)
        needed.append(spare)
        at = out.index(s)
        once = If(substitute_expr(s.cond, {s.var: s.init}), (Decl(s.var, s.init, loc=s.loc), *moved, *s.body), ())
        out[at : at + 1] = [once]
        out = [x for x in out if x not in moved]
    return tuple(out), needed


def _spare_threads(s: For, kernel: Kernel, facts: Facts) -> Expr | None:
    """How many more threads there are than iterations of ``s``, if its variable goes on by all threads of an axis."""
    by, t = loop_step(s), s.var.type
    match s.cond:
        case Binary("<", Var(v), hi) if v == s.var and by is not None and kernel.launch is not None:
            pass
        case _:
            return None
    names = definitions(kernel.body)
    threads, end = _threads(expand(by, names), kernel.launch), expand(hi, names)
    params = {p.sym for p in kernel.params} - assigned(kernel.body)
    if threads is None or used(end) - params or any(isinstance(x, Load | HwIndex) for x in walk_expr(end)):
        return None
    if not (isinstance(t, Scalar) and t.is_signed) or s.var in assigned(s.body) or _ends_early(s.body):
        return None
    return simplify(sub(threads, cast(end, I64))) if facts.never_negative(s.init) else None


def _threads(step: Expr, launch: Launch) -> Expr | None:
    """``step``, if it is a product of sizes of the grid and of its blocks, as the launch has them; else None."""
    match step:
        case Cast(x=x):
            return _threads(x, launch)
        case HwIndex(level="grid_dim" | "block_dim" as level, axis=axis):
            return cast((launch.grid if level == "grid_dim" else launch.block)["xyz".index(axis)], I64)
        case Binary("*", a, b):
            first, second = _threads(a, launch), _threads(b, launch)
            return None if first is None or second is None else mul(first, second)
    return None


def _moved(s: For, around: list[Stmt]) -> list[Decl]:
    """The declarations before ``s`` of what its iterations move on, if nothing else has to do with these variables."""
    names = set(assigned(s.body)) - set(declared(s.body)) - {s.var}
    writes = Counter(x.sym for x in walk(tuple(around)) if isinstance(x, Assign))
    mine = Counter(x.sym for x in walk(s.body) if isinstance(x, Assign))
    others = tuple(x for x in around if x is not s)
    found = [x for x in others if isinstance(x, Decl) and x.sym in names and isinstance(x.init, Const)]
    alone = all(writes[d.sym] == mine[d.sym] and d.sym not in used_in(others) for d in found)
    return found if alone and {d.sym for d in found} >= _integers(names) else []


def _integers(names: set[Sym]) -> set[Sym]:
    return {v for v in names if isinstance(v.type, Scalar) and v.type.is_int}


def _ends_early(body: Body) -> bool:
    """Whether ``break`` or ``continue`` ends an iteration of the loop around ``body``."""
    return any(
        isinstance(s, Break | Continue) or (not isinstance(s, For | While) and any(map(_ends_early, bodies(s))))
        for s in body
    )


__all__ = ["own_iterations"]
