"""Rows on a CPU of which a value that takes long to compute is needed twice: computed once, and kept beside the row.

A GPU's threads compute ``exp(x[i] - m)`` once for the sum and once more for the store, as reading a row again costs
them less than keeping it. A core has its row in a cache, and an exponential takes as long as ten loads from there. What
is merely loaded, or takes an addition, is not worth an array; but where it is stored anyway, it is read from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Call, Expr, Par, Reduce
from ktc.ir.walk import walk_expr
from ktc.passes.core.named_loops import loops
from ktc.passes.core.places import place_of
from ktc.passes.shared.sweeps import kept_values

from ..nest_shapes import Idea
from ..trials import after

if TYPE_CHECKING:
    from .cpu_nests import Cores

KEPT = 1.4
"""The gain that it is ranked by: a row with one exponential less of two."""

LONG = frozenset({
    "exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "asin", "acos", "atan", "atan2", "erf", "erfc", "pow", "hypot", "lgamma", "tgamma",
})  # fmt: skip
"""Functions that a CPU computes in ten instructions and more, by the names of their exact versions."""


def kept_rows(kernel: Kernel, cores: Cores, facts: Sequence[KernelFacts]) -> Iterator[Idea]:
    """One array for each value that several sweeps of a row compute, where it fits in the core's own cache."""
    found = [s for s in loops(kernel) if isinstance(s, Par | Reduce)]
    trips = {x.name: x.trip for f in facts for x in f.loops}
    named = {s.var: place_of(kernel, s) for s in found}
    rows = {tuple(named[v] for v in (k.origin, *k.later)): k for k in reversed(kept_values(kernel.body, found))}
    for names, kept in reversed(rows.items()):
        sweeps = f"row-cache{{loop={','.join(names)} where="
        if after(kernel, f"{sweeps}stored}}") is not None:
            yield f"{sweeps}stored}}", "what is stored anyway is stored by the first sweep and read from there", KEPT
        elif _takes_long(kept.value) and 4 * (trips.get(names[0]) or 0) <= cores.own_cache:
            yield f"{sweeps}shared}}", "what takes long to compute is computed once a row", KEPT


def _takes_long(e: Expr) -> bool:
    return any(isinstance(x, Call) and x.fn.removeprefix("fast_") in LONG for x in walk_expr(e))


__all__ = ["kept_rows"]
