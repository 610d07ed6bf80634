"""Kernels whose code and whose launch call one number by different names.

    k<<<(batch * length + 63) / 64, 64>>>(out, batch * length)      __global__ void k(float* out, int rows)
                                                                      if (row < rows) out[row] = ...

Over the launch's sizes the loop runs to ``64 * ((batch * length + 63) / 64)`` and the guard stays; over those of the
code it runs to ``rows``. That the two are equal is declared by the user, or shown by the launch in the source: then it
is assumed, and the launcher tests it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktc.ir.arith.size_equalities import equalities, launched_alike, relied_on, shown_by_launch
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Expr, If, Par, Select, Sym
from ktc.ir.text import print_expr
from ktc.ir.walk import all_exprs, used, walk, walk_expr
from ktc.passes.raising.raise_report import Region


def in_equal_sizes(kernel: Kernel) -> Kernel | None:
    """``kernel`` launched over the sizes that its code speaks of, with what that assumes beyond what it assumes; None
    where its launch speaks of the same ones already."""
    known, shown = equalities(kernel), shown_by_launch(kernel)
    launch = launched_alike(kernel, (*known, *shown))
    if launch is None:
        return None
    added = tuple(e.fact for e in relied_on(kernel, known, shown))
    return kernel.with_(launch=launch, assumptions=(*kernel.assumptions, *added))


def is_asked_about(raised: Kernel, kernel: Kernel, form: Kernel) -> bool:
    """Whether a condition of ``raised``, made of ``kernel``, compares an iteration of a loop over sizes of the launch
    with one that ``form`` knows to be the same: in loops over the latter it would not."""
    assert kernel.launch is not None and form.launch is not None
    before, after = (_sizes((*k.launch.grid, *k.launch.block)) for k in (kernel, form) if k.launch is not None)
    launched = {s.var for s in walk(raised.body) if isinstance(s, Par) and used(s.hi) & (before - after)}
    return any(used(c) & launched and used(c) & _equal(form, before, after) for c in _conditions(raised))


def said(facts: Sequence[Assume]) -> Iterator[Region]:
    why = "the launch in the source or the workload has it so, and the launcher tests it"
    yield from (Region("assumed", print_expr(a.expr), why) for a in facts)


def _equal(form: Kernel, before: set[Sym], after: set[Sym]) -> set[Sym]:
    """The sizes that the launch of ``form`` speaks of and that of its kernel did not, and what they are made of."""
    return (after - before) or {s for e in equalities(form) for s in (e.sym, *used(e.value))} - (before - after)


def _sizes(exprs: tuple[Expr, ...]) -> set[Sym]:
    return {s for e in exprs for s in used(e)}


def _conditions(kernel: Kernel) -> Iterator[Expr]:
    for s in walk(kernel.body):
        if isinstance(s, If):
            yield s.cond
    yield from (x.cond for e in all_exprs(kernel.body) for x in walk_expr(e) if isinstance(x, Select))


__all__ = ["in_equal_sizes", "is_asked_about", "said"]
