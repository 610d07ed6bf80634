"""What atomics sum: a device adds in any order, and its rounding errors are those of no order in particular."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ktc.ir.interp import run
from ktc.ir.interp.domains.terms import errors
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic
from ktc.ir.types import scalar_of
from ktc.ir.walk import walk


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


__all__ = ["any_order", "unordered"]
