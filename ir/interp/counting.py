"""How many elements are true: what the interpreter asks of arrays more often than anything else.

``numpy.count_nonzero`` first asks whether another array library is meant, for longer than it takes to count a few
hundred lanes. What it then calls counts alone.
"""

from __future__ import annotations

try:
    from numpy._core.multiarray import count_nonzero as count_true
except ImportError:  # numpy 1, or one that keeps it elsewhere
    from numpy import count_nonzero as count_true

__all__ = ["count_true"]
