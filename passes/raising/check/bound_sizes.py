"""Kernels whose parameters were bound to numbers before they were raised: ``specialize{length=8192} | raise``.

At these numbers runs are too long for a check, and no small launch has them. What was bound is one of the sizes that
the kernel is written for: it is raised for any, with a parameter in place of each number again, and the form that was
checked is taken at the numbers.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Const, Sym
from ktc.ir.walk import used
from ktc.passes.raising.raise_report import Region

from .constant_sizes import FEW_ROUNDS, with_sizes
from .huge_launches import Numbers, at_its_grid
from .invented_arguments import invented_arguments


def of_free_sizes(kernel: Kernel) -> tuple[Kernel, Numbers] | None:
    """``kernel`` with a parameter for each number that one of its parameters is bound to, and these numbers; None where
    some small launch has them, or nothing is bound."""
    bound = _bound(kernel)
    if not bound or any(True for _ in invented_arguments(kernel, 1, 7)):
        return None
    facts = tuple(a for a in kernel.assumptions if not used(a.expr) <= bound.keys())
    params = tuple(dataclasses.replace(p, range=(None, None)) if p.sym in bound else p for p in kernel.params)
    large = (n for n in bound.values() if n > FEW_ROUNDS)
    found = with_sizes(kernel.with_(params=params, assumptions=facts), large)
    if found is None:
        return None
    form, numbers = found  # what is bound may be a distance, which has to be as large as what lies between
    free = (dataclasses.replace(p, range=(1, None)) if p.sym in numbers else p for p in form.params)
    return form.with_(params=tuple(free)), numbers


def at_its_sizes(raised: Kernel, kernel: Kernel, numbers: Numbers) -> Kernel | None:
    """``raised``, a form of ``kernel`` at any sizes, at its own; None where it assumes of them what they are not."""
    there = at_its_grid(raised, kernel, numbers)
    known = set(kernel.assumptions)
    facts = [a for a in there.assumptions if a not in known]
    if any(isinstance(a.expr, Const) and not a.expr.value for a in facts):
        return None
    added = (a for a in facts if not isinstance(a.expr, Const))
    return there.with_(params=kernel.params, assumptions=(*kernel.assumptions, *added))


def said(kernel: Kernel, numbers: Numbers) -> Region:
    """What was not run."""
    values = {n.value for n in numbers.values() if isinstance(n, Const)}
    names = ", ".join(f"{s.name}={n}" for s, n in _bound(kernel).items() if n in values)
    return Region("assumed", f"{names} is a size as any other", "the check ran smaller ones")


def _bound(kernel: Kernel) -> dict[Sym, int]:
    """Parameters of one value, and that."""
    out: dict[Sym, int] = {}
    for p in kernel.params:
        low, high = p.range
        if low is not None and low == high:
            out[p.sym] = low
    return out


__all__ = ["at_its_sizes", "of_free_sizes", "said"]
