"""Parameters that are as long as an array which each block has for itself.

    array own: shared u32[256]
    for k in 0..bins: own[k] = 0
    ..
    for k in 0..bins: atomic add count[k], own[k]

The launch says how long the array is, and a parameter how much of it is used. With the array's length in its place
(``specialize``) it is cleared and added as a whole, and the block need not have it (``unprivatize-atomics``).
"""

from __future__ import annotations

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import evaluate, is_const
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Par, Store, Var
from ktc.ir.storage import is_shared
from ktc.ir.types import Array
from ktc.ir.walk import walk


def whole_lengths(kernel: Kernel) -> dict[str, int]:
    """The lengths of the shared arrays of ``kernel``, by the parameter up to which a loop of a block stores in them."""
    params = {p.sym for p in kernel.params if not p.host}
    lengths = {s.sym: evaluate(s.sym.type.shape[0], {}) for s in walk(kernel.body)
               if isinstance(s, Alloc) and is_shared(s.sym) and isinstance(s.sym.type, Array)
               and len(s.sym.type.shape) == 1}  # fmt: skip
    out: dict[str, int] = {}
    for loop in walk(kernel.body):
        if not isinstance(loop, Par) or not is_const(loop.lo, 0):
            continue
        end = without_casts(loop.hi)
        for s in loop.body if isinstance(end, Var) and end.sym in params else ():
            if isinstance(s, Store) and s.index == (Var(loop.var),) and (n := lengths.get(s.buffer)) is not None:
                assert isinstance(end, Var)
                out[end.sym.name] = int(n)
    return out


__all__ = ["whole_lengths"]
