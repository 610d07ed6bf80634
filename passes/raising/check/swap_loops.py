"""What to say of compare-and-swap loops that were not read as atomic updates: their iterations depend on each other."""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic
from ktc.ir.walk import walk


def hint_of_swaps(kernel: Kernel) -> str:
    """A hint if ``kernel`` has a compare-and-swap, else ''."""
    swap = next((s for s in walk(kernel.body) if isinstance(s, Atomic) and s.op == "cas"), None)
    if swap is None:
        return ""
    return (
        f"the compare-and-swap of '{swap.buffer.name}' is read as an atomic maximum, sum, ... only where every attempt "
        "writes what follows from the value that it compares with, one that fails is tried again, bits are compared "
        "and not floats, and the operation has a name"
    )


__all__ = ["hint_of_swaps"]
