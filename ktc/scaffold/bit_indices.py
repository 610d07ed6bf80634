"""Indices that are read from the bits of other elements: integers in a struct of floats, in a buffer of bytes.

A workload gives a buffer one type. What such bits hold then is any number, so that trial runs reach anywhere: how long
the buffer is, and what its index is read from, only its author knows.
"""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Cast, Load

from .given_values import definitions, made_of
from .inner_strides import accesses
from .roles import buffers_of


def read_from_bits(k: Kernel) -> dict[str, str]:
    """The buffers of ``k`` with an index that is made of bits of another's elements, each with the other's name."""
    sources, buffers = definitions(k), {p.sym.name for p in buffers_of(k)}
    found: dict[str, str] = {}
    for buffer, index in accesses(k):
        for e in made_of([index], sources, places=False):
            if isinstance(e, Cast) and e.style == "bit" and buffer in buffers:
                others = [x.buffer.name for x in made_of([e.x], sources, places=False) if isinstance(x, Load)]
                for other in (o for o in others if o in buffers and o != buffer):
                    found[buffer] = other
    return found


__all__ = ["read_from_bits"]
