"""How many elements are true: what the interpreter asks of arrays more often than anything else.

``numpy.count_nonzero`` first asks whether another array library is meant, for longer than it takes to count a few
hundred lanes. What it then calls counts alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from numpy._core.multiarray import count_nonzero
except ImportError:  # numpy 1, or one that keeps it elsewhere
    from numpy import count_nonzero

count_true: Callable[[Any], int] = count_nonzero


def all_true(x: Any) -> bool:
    """Whether all elements hold (one, of no dimensions, may); of none, they do."""
    return bool(x if x.ndim == 0 else count_true(x) == x.size)


def any_true(x: Any) -> bool:
    """Whether an element holds."""
    return bool(x if x.ndim == 0 else count_true(x))


__all__ = ["all_true", "any_true", "count_true"]
