"""Launches of more threads than the check runs often, whatever the sizes are: ``<<<dim3(32, 32), dim3(32, 32)>>>``.

Such a kernel is raised for a grid of any number of blocks, of which a few are run; the number that its source gives is
one of them: it is run once where it can be. Nothing is understood of a number of blocks by running it: a part that
needs many stays unchecked, and that is said.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from math import prod

from ktc.ir.fold import evaluate, simplify
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Const, Expr, Par, Reduce, Stmt, Sym, Var, fresh
from ktc.ir.types import I32
from ktc.ir.walk import map_body, substitute, substitute_expr
from ktc.passes.raising.normalise.tidy import signed_sums
from ktc.passes.raising.raise_report import Region

from .small_launches import MAX_FIXED

Numbers = Mapping[Sym, Expr]


def of_any_grid(kernel: Kernel, most: int = MAX_FIXED) -> tuple[Kernel, Numbers] | None:
    """``kernel`` with a parameter for each extent of its grid that is a number, and these numbers; None where it has at
    most so many threads: the check runs it as it is."""
    launch = kernel.launch
    assert launch is not None
    known = [evaluate(e, kernel.knob_values) for e in (*launch.grid, *launch.block)]
    if prod(int(n) for n in known if n is not None) <= most:
        return None
    sizes = [fresh(f"blocks_{a}", I32) if n is not None and n > 1 else None for a, n in zip("xyz", known)]
    grid = tuple(e if s is None else Var(s) for s, e in zip(sizes, launch.grid))
    numbers = {s: Const(int(n), I32) for s, n in zip(sizes, known) if s is not None and n is not None}
    if not numbers:
        return None
    params = tuple(Param(s, range=(1, int(n.value)), host=True) for s, n in numbers.items())
    general = dataclasses.replace(launch, grid=grid)  # type: ignore[arg-type]
    return kernel.with_(params=(*kernel.params, *params), launch=general), numbers


def at_its_grid(raised: Kernel, kernel: Kernel, numbers: Numbers) -> Kernel:
    """``raised``, a form of ``kernel`` in any grid, in its own."""

    def known(s: Stmt) -> Stmt:
        if not isinstance(s, Par | Reduce):
            return s
        levels = (lv if lv.n is None else dataclasses.replace(lv, n=_at(lv.n, numbers)) for lv in s.dist)
        return dataclasses.replace(s, dist=tuple(levels))

    body = signed_sums(map_body(substitute(raised.body, numbers), known, simplify))
    facts = tuple(dataclasses.replace(a, expr=_at(a.expr, numbers)) for a in raised.assumptions)
    params = tuple(p for p in raised.params if p.sym not in numbers)
    return raised.with_(body=body, params=params, launch=kernel.launch, assumptions=facts)


def said(kernel: Kernel) -> Region:
    launch = kernel.launch
    assert launch is not None
    blocks = prod(int(evaluate(e, kernel.knob_values) or 1) for e in launch.grid)
    return Region("assumed", f"a grid of {blocks:,} blocks does what smaller ones do", "the check ran smaller ones")


def _at(e: Expr, numbers: Numbers) -> Expr:
    return simplify(substitute_expr(e, numbers))


__all__ = ["at_its_grid", "of_any_grid", "said"]
