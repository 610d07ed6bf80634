"""Elements of private arrays that threads hand to each other, as variables of their own.

before                                                    after
    array sums: f32[2]                                        var sums_0: f32 = a
    ...                                                       var sums_1: f32 = b
    sums[0] += shfl_xor(sums[0], 16)                          sums_0 += shfl_xor(sums_0, 16)
    sums[1] += shfl_xor(sums[1], 16)                          sums_1 += shfl_xor(sums_1, 16)

Functions that combine several values at once take a pointer to them. What is exchanged is known of variables.
"""

from __future__ import annotations

from ktc.ir.analysis.defs import integer_constants
from ktc.ir.fold import simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Const, Load, WarpOp
from ktc.ir.storage import is_local_array
from ktc.ir.walk import all_exprs, substitute, walk_expr
from ktc.passes.shared.array_elements import with_elements_apart


def exchanged_apart(kernel: Kernel) -> Kernel:
    """``kernel`` with its small private arrays apart, if threads hand on elements of one; the same object if not."""
    moved = (x.value for x in all_exprs(kernel.body) if isinstance(x, WarpOp))
    handed = (y.buffer for value in moved for y in walk_expr(value) if isinstance(y, Load))
    if not any(map(is_local_array, handed)):
        return kernel
    named = {s: simplify(e) for s, e in integer_constants(kernel.body).items()}
    numbers = {s: e for s, e in named.items() if isinstance(e, Const)}
    return with_elements_apart(kernel.with_(body=substitute(kernel.body, numbers)), exchanging=True)


__all__ = ["exchanged_apart"]
