"""Windows that elements are spread to, as a transposed convolution does: how far they reach, how far apart they are.

    rows = (height - 1) * step - 2 * border + window        // each element of the input makes a window of the output

The host computes the extents of the output so; the kernel goes from these back to the elements, which says little.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import is_const
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, Sym, Var

from ..windows import summands
from .factors import factors_of


def spread_windows(k: Kernel) -> Iterator[tuple[str, str]]:
    """Parameters of such windows, with what they are (:data:`~ktc.scaffold.windows.USUAL`)."""
    params = {p.sym for p in k.params}
    for _, formula in k.launch.passed if k.launch is not None else ():
        more, less = summands(formula)
        steps = [name for e in more for name in _step(e, params)]
        windows = [name for e in more for name in _names(e, params)]
        if steps and windows:
            yield from ((n, "step") for n in steps)
            yield from ((n, "padded") for n in windows)
            yield from ((n, "border") for e in less for n in _border(e, params))


def _step(e: Expr, params: set[Sym]) -> list[str]:
    """``step`` of ``(height - 1) * step``."""
    factors = [without_casts(f) for f in factors_of(e)]
    less_one = [f for f in factors if isinstance(f, Binary) and f.op == "-" and is_const(without_casts(f.b), 1)]
    return [n for f in factors for n in _names(f, params)] if len(factors) == 2 and len(less_one) == 1 else []


def _border(e: Expr, params: set[Sym]) -> list[str]:
    """``border`` of ``2 * border``."""
    factors = list(factors_of(e))
    twice = len(factors) == 2 and any(is_const(f, 2) for f in factors)
    return [n for f in factors for n in _names(f, params)] if twice else []


def _names(e: Expr, params: set[Sym]) -> list[str]:
    e = without_casts(e)
    return [e.sym.name] if isinstance(e, Var) and e.sym in params else []


__all__ = ["spread_windows"]
