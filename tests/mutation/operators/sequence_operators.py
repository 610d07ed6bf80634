"""Mutations of what sequences of launches have and kernels have not: the launches, their order, their temporaries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from ktc.ir.fold import sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Const, Load, Sym
from ktc.ir.sequences import launches
from ktc.ir.types import Ptr, Scalar
from ktc.ir.walk import all_exprs, keep, map_body

from .operators import Operator


def drop_launch(kernel: Kernel) -> list[Kernel]:
    """A launch that does not happen."""
    return [kernel.with_(body=tuple(s for s in kernel.body if s is not gone)) for gone in launches(kernel)]


def launch_again(kernel: Kernel) -> list[Kernel]:
    """A launch that happens twice."""
    found = launches(kernel)
    return [kernel.with_(body=(*found[: k + 1], *found[k:])) for k in range(len(found))]


def swap_launches(kernel: Kernel) -> list[Kernel]:
    """Two neighbours in the other order."""
    found = launches(kernel)
    return [kernel.with_(body=(*found[:k], b, a, *found[k + 2 :])) for k, (a, b) in enumerate(pairwise(found))]


def smaller_temporary(kernel: Kernel) -> list[Kernel]:
    """A temporary with one element too few."""
    out = []
    for k, p in enumerate(kernel.params):
        if p.temporary and p.scratch is not None and isinstance(p.scratch.type, Scalar):
            less = replace(p, scratch=sub(p.scratch, Const(1, p.scratch.type)))
            out.append(kernel.with_(params=(*kernel.params[:k], less, *kernel.params[k + 1 :])))
    return out


def other_buffer(kernel: Kernel) -> list[Kernel]:
    """A launch that reads another buffer of the type than it is passed."""
    buffers = [p.sym for p in kernel.params if isinstance(p.sym.type, Ptr)]
    out = []
    for s in launches(kernel):
        read = {e.buffer for e in all_exprs(s.body) if isinstance(e, Load) and e.buffer in buffers}
        for b in sorted(read, key=lambda b: b.id):
            for other in buffers:
                if other != b and _element(other) == _element(b):
                    body = map_body(s.body, keep, _reading(b, other))
                    out.append(kernel.with_(body=tuple(replace(x, body=body) if x is s else x for x in kernel.body)))
    return out


def _reading(old: Sym, new: Sym) -> Callable:  # type: ignore[type-arg]
    return lambda e: replace(e, buffer=new) if isinstance(e, Load) and e.buffer == old else e


def _element(b: Sym) -> object:
    assert isinstance(b.type, Ptr)
    return b.type.elem


TABLE: dict[str, Callable[[Kernel], list[Kernel]]] = {
    "drop-launch": drop_launch,
    "launch-again": launch_again,
    "swap-launches": swap_launches,
    "smaller-temporary": smaller_temporary,
    "other-buffer": other_buffer,
}

SEQUENCES = tuple(Operator(name, "sequence", "kernel", change, True) for name, change in TABLE.items())
"""None of them fits a kernel. They were written before any check was tuned to them."""
