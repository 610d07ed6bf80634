"""Printing a kernel for a target: lowered first, except for the target that reads the parallel form itself."""

from __future__ import annotations

from ktc.backends.base import Emitted
from ktc.ir.kernel import Kernel

READS_PARALLEL = frozenset({"numba"})
"""Targets whose emitter takes the parallel form as it is."""


def printed(kernel: Kernel, target: str, mode: str = "source") -> Emitted:
    """Code of ``kernel`` (knobs bound, or open in ``template`` mode) for ``target``.

    Raises:
        KtcError: E-BACKEND-... or a lowering error: the target cannot express it.
    """
    from ktc.backends import emit

    if target not in READS_PARALLEL and kernel.is_parallel:
        from ktc.passes.lowering import materialise

        kernel = materialise(kernel)
    return emit(kernel, target, mode)
