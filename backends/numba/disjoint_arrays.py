"""Whether arrays overlap, and how numba is told so.

LLVM moves loads over stores, and makes vector instructions of loops, where it knows that arrays do not overlap; else it
compares addresses first, and where there are many arrays it gives up. numba's compiler has a flag for that, which its
decorator lacks: the module adds it. On the other hand numba takes the arrays that a ``prange`` reaches for disjoint on
its own, unless one of them is a view of another.
"""

from __future__ import annotations

from collections.abc import Sequence

from ktc.ir.analysis.dependence import may_alias
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Sym
from ktc.ir.null_pointers import pointers_asked_about
from ktc.ir.types import Ptr
from ktc.ir.walk import assigned

from .numba_names import Names

NOALIAS = (("numba.core.cpu", "CPUTargetOptions"), ("numba.core.options", "TargetOptions"))
"""What the module imports to have the option."""


def apart(kernel: Kernel) -> bool:
    """Whether no array that the kernel writes overlaps another one."""
    known = {p.sym for p in kernel.params if p.noalias}
    buffers = [p.sym for p in kernel.params if isinstance(p.sym.type, Ptr)]
    written = assigned(kernel.body) & set(buffers)
    return not any(may_alias(w, b, known) for w in written for b in buffers if w != b)


def as_views(kernel: Kernel, x: Names, given: Sequence[Sym]) -> list[str]:
    """``given`` as arguments of a call inside a ``prange``: one array as a view of itself where arrays may overlap."""
    out = [x.name(v) for v in given]
    nullable = pointers_asked_about(kernel)
    arrays = [k for k, v in enumerate(given) if isinstance(v.type, Ptr) and v not in nullable]
    if arrays and not apart(kernel):
        out[arrays[0]] += "[:]"
    return out


__all__ = ["NOALIAS", "apart", "as_views"]
