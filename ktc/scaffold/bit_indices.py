"""Indices that are read from the bits of other elements: integers in a struct of floats, in a buffer of bytes.

A workload gives a buffer one type. What such bits hold then is any number, so that trial runs reach anywhere: how long
the buffer is, and what its index is read from, only its author knows.
"""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.fields import children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Cast, Expr, Load, Sym, Var

from .given_values import definitions
from .inner_strides import accesses
from .roles import buffers_of


def read_from_bits(k: Kernel) -> dict[str, str]:
    """The buffers of ``k`` with an index that is made of bits of another's elements, each with the other's name."""
    sources, buffers = definitions(k), {p.sym.name for p in buffers_of(k)}
    found: dict[str, str] = {}
    for buffer, index in accesses(k):
        for e in _behind(index, sources):
            if isinstance(e, Cast) and e.style == "bit" and buffer in buffers:
                others = [x.buffer.name for x in _behind(e.x, sources) if isinstance(x, Load)]
                for other in (o for o in others if o in buffers and o != buffer):
                    found[buffer] = other
    return found


def _behind(e: Expr, sources: Mapping[Sym, list[Expr]]) -> list[Expr]:
    """``e`` and everything that it is made of, through variables, but for the places of what it loads."""
    left, seen, out = [e], set[Sym](), list[Expr]()
    while left:
        x = left.pop()
        out.append(x)
        if isinstance(x, Var) and x.sym not in seen:
            seen.add(x.sym)
            left += sources.get(x.sym, [])
        elif not isinstance(x, Load | Var):
            left += children(x)
    return out


__all__ = ["read_from_bits"]
