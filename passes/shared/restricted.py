"""``restrict`` on the pointers that are known to overlap no other: what lets compilers move loads over stores."""

from __future__ import annotations

import dataclasses

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Sym
from ktc.ir.types import Ptr
from ktc.ir.walk import rename


def restricted(kernel: Kernel) -> Kernel:
    """``kernel`` with ``restrict`` on each pointer whose ``noalias`` fact is known."""
    new: dict[Sym, Sym] = {}
    for p in kernel.params:
        t = p.sym.type
        if isinstance(t, Ptr) and p.noalias and not t.restrict:
            new[p.sym] = dataclasses.replace(p.sym, type=dataclasses.replace(t, restrict=True))
    params = tuple(dataclasses.replace(p, sym=new.get(p.sym, p.sym)) for p in kernel.params)
    return kernel.with_(params=params, body=rename(kernel.body, new)) if new else kernel


__all__ = ["restricted"]
