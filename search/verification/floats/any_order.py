"""What atomics sum: a device adds in any order; rounding errors and overflows are those of no order in particular."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ktc.ir.interp import run
from ktc.ir.interp.domains.rounding import LARGEST
from ktc.ir.interp.domains.terms import errors
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic
from ktc.ir.types import scalar_of
from ktc.ir.walk import walk
from ktc.search.verification.floats.accuracy import is_float


def unordered(kernel: Kernel) -> frozenset[str]:
    """The buffers whose floats ``kernel`` updates by atomic additions or products, in no particular order."""
    return frozenset(
        s.buffer.name
        for s in walk(kernel.body)
        if isinstance(s, Atomic) and s.op in ("add", "sub", "mul") and scalar_of(s.buffer.type).is_float
    )


def any_order(kernel: Kernel, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Error bounds, in whatever order the device adds, of what :func:`unordered` names."""
    free = unordered(kernel)
    terms = run(kernel, inputs, domain="terms", sanitize=False).outputs if free else {}
    return {n: errors(terms[n]) for n in free if n in terms}


def overflows(kernel: Kernel, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Elements of what :func:`unordered` names in which numbers alone may add up to an infinity, in one order or
    another: what an infinity among the terms then comes to, no order has to agree on (a large number twice, then minus
    infinity, is no number; minus infinity first is minus infinity)."""
    free = unordered(kernel)
    if not free:
        return {}
    numbers = {n: _finite(x) if isinstance(x, np.ndarray) and is_float(x.dtype) else x for n, x in inputs.items()}
    terms = run(kernel, numbers, domain="terms", sanitize=False).outputs
    largest = {p.sym.name: LARGEST[scalar_of(p.sym.type).name] for p in kernel.params if p.sym.name in free}
    return {n: terms[n]["size"] > largest[n] for n in free if n in terms}


def _finite(x: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(x), x, np.zeros((), x.dtype))


__all__ = ["any_order", "overflows", "unordered"]
