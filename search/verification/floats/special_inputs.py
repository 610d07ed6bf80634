"""Which special values two programs are run on, and in which draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Call, Cast, Expr, Stmt, Store
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, stmt_exprs, walk, walk_expr
from ktc.ir.workload import Workload
from ktc.passes.scalar.fast_math import FAST, GIVES_UP

from .special_values import VALUES, SpecialRows

DRAWS = 5
"""Inputs with special values that an instance is run on, at most: few rows take several."""

ALONE = 3
"""Of an instance with several float inputs: so many of them have special values alone, the others none."""


def kinds_of(kernels: Iterable[Kernel], workload: Workload) -> tuple[str, ...]:
    """The special values that the workload does not exclude, and no approximation of the programs gives up."""
    called = {e.fn for k in kernels for e in all_exprs(k.body) if isinstance(e, Call)}
    lost = {kind for name, fn in FAST.items() if fn in called for kind in GIVES_UP[name]}
    return tuple(k for k in VALUES if k in workload.special and k not in lost)


def draws(
    inputs: Mapping[str, np.ndarray], kinds: tuple[str, ...], most: int = DRAWS, alone: int = ALONE
) -> Iterator[SpecialRows]:
    """Draws for the float ``inputs``: as many as show every kind, ``most`` at most; one in which all come to arrays
    that are one row; then ``alone`` inputs by themselves, and the last rows of matrices among them."""
    if not inputs or not kinds:
        return
    rows = max(max(1, x.size // max(1, x.shape[-1])) for x in inputs.values())
    turns = len(SpecialRows(kinds).turns())
    a_draw = max(1, rows // 2)
    for k in range(min(most, -(-turns // a_draw))):
        yield SpecialRows(kinds, k * a_draw)
    if turns > most * a_draw:
        yield SpecialRows(kinds, cut=True)
    names = list(inputs)[:alone] if len(inputs) > 1 else []
    yield from (SpecialRows(kinds, 2 * k, name) for k, name in enumerate(names))
    matrices = [name for name, x in inputs.items() if x.ndim > 1][:alone]
    yield from (SpecialRows(kinds, 0, name, last=True) for name in matrices)


def rounds_to_integers(kernel: Kernel) -> bool:
    """Whether floats become integers, which has no meaning for infinities and NaN."""
    return any(map(_to_integer, all_exprs(kernel.body)))


def steers_by_integers(kernel: Kernel) -> bool:
    """Whether what floats become as integers is more than a value that is stored: an index, a condition, a count."""
    return any(_to_integer(x) for s in walk(kernel.body) for e in _steering(s) for x in walk_expr(e))


def _steering(s: Stmt) -> Iterator[Expr]:
    yield from s.index if isinstance(s, Store) else stmt_exprs(s)


def _to_integer(e: Expr) -> bool:
    return (
        isinstance(e, Cast) and isinstance(e.to, Scalar) and isinstance(e.x.type, Scalar) and e.to.is_int
        and e.x.type.is_float and e.style != "bit"
    )  # fmt: skip


__all__ = ["draws", "kinds_of", "rounds_to_integers", "steers_by_integers"]
