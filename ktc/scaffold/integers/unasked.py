"""Integers that a kernel is passed and asks for nowhere: what a caller passes for them is no matter."""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.ir.sequences import launch_extents
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Scalar
from ktc.ir.walk import used, used_in


@by_identity(8)
def unasked(k: Kernel) -> frozenset[str]:
    """The scalar parameters of ``k`` that neither its body nor its launch mentions."""
    asked = used_in(k.body).union(*(used(e) for e in launch_extents(k)))
    told = {s for _, e in k.launch.passed for s in used(e)} if k.launch is not None else set()
    scalars = (p.sym for p in k.params if isinstance(p.sym.type, Scalar))
    return frozenset(s.name for s in scalars if s not in asked | told)


__all__ = ["unasked"]
