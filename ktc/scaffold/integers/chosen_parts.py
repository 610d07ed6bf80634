"""Indices of elements of parts: below the end of the last part.

for (e = ptr[v]; e < ptr[v + 1]; e++) .. col[e] ..      as many columns as the last part ends at
.. col[picked[i]] ..                                    so ``picked`` holds numbers below that
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, Load, Sym, Var
from ktc.ir.types import Ptr, scalar_of

from ..contents import Content
from ..given_values import definitions, spelled_out
from ..inner_strides import accesses, addends


def with_parts(k: Kernel, contents: Sequence[Content]) -> list[Content]:
    """``contents`` with indices into what parts lie in kept below the end of the last of these."""
    parts = {c.buffer: c.name for c in contents if c.kind == "offsets"}
    sources = definitions(k)
    ends, chosen = dict[str, str](), dict[str, set[str]]()
    for buffer, index in accesses(k) if parts else ():
        for terms in _sums(index, sources):
            begins = {parts[b] for b in terms if b in parts}
            if len(begins) == 1:
                ends[buffer] = begins.pop()
            elif len(terms) == 1:
                chosen.setdefault(terms[0], set()).add(buffer)
    within = {c: found for c, into in chosen.items() if len({*(found := [ends[b] for b in into if b in ends])}) == 1}
    return [
        replace(c, within=within[c.buffer][0]) if c.kind == "index" and not c.within and c.buffer in within else c
        for c in contents
    ]


def _sums(index: Expr, sources: dict[Sym, list[Expr]]) -> list[list[str]]:
    """The integer buffers whose elements are terms of ``index``, for each way in which it is made up."""
    single = {s: given[0] for s, given in sources.items() if len(given) == 1}
    ways: list[list[str]] = [[]]
    for term in addends(index, single):
        term = spelled_out(term, sources)
        given = sources.get(term.sym, []) if isinstance(term, Var) and term.sym not in single else [term]
        found = [x.buffer.name for e in given if isinstance(x := spelled_out(e, sources), Load) and _is_whole(x)]
        ways = [[*way, *([b] if b else [])] for way in ways for b in dict.fromkeys(found or [""])]
    return ways


def _is_whole(x: Load) -> bool:
    return isinstance(x.buffer.type, Ptr) and scalar_of(x.buffer.type).is_int


__all__ = ["with_parts"]
