"""What one thread makes of a result in the place where threads put it together, in a place of its own.

before                                              after
    tree(s)                                             tree(s)
    if tid == 0                                         if tid == 0
      s[0] = s[0] / n                                     own[0] = s[0] / n
    barrier                                             barrier
    mean = s[0]                                         mean = own[0]
    s[tid] = x - mean                                   s[tid] = x - mean

The array then holds what the threads exchanged until they bring something else, so that what they exchange is known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.integer_casts import without_integer_casts
from ktc.ir.fold import i32, is_const
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Barrier, Body, Expr, HwIndex, If, Load, Stmt, Store, Sym, fresh
from ktc.ir.storage import is_shared
from ktc.ir.types import Array
from ktc.ir.walk import all_exprs, assigned, map_body, walk, with_bodies

THREAD = HwIndex("thread", "x")


def with_finished_values(kernel: Kernel) -> Kernel:
    """``kernel``, in SPMD form, with such values in places of their own; the same object where there are none."""
    finder = _Finder(kernel)
    body = finder.rewritten(kernel.body, last=True)
    return kernel.with_(body=(*map(Alloc, finder.own), *body)) if finder.own else kernel


class _Finder:
    """``own``: the arrays that were made, of one element."""

    def __init__(self, kernel: Kernel) -> None:
        self.named = definitions(kernel.body)
        self.own: list[Sym] = []

    def rewritten(self, body: Body, last: bool) -> Body:
        """``body``, behind which the kernel ends if it is the ``last``."""
        out = tuple(with_bodies(s, lambda b: self.rewritten(b, last=False)) for s in body)
        for k in range(len(out)):
            out = self._apart(out, k, last) or out
        return out

    def _apart(self, body: Body, at: int, last: bool) -> Body | None:
        """``body`` with what its statement ``at`` finishes in a place of its own; None where it finishes nothing, or
        where something else may read that place of the array."""
        b = _finished(body[at])
        if b is None:
            return None
        end = next((k for k in range(at + 1, len(body)) if b in assigned((body[k],))), len(body))
        if (end < len(body) and not self._brings_anew(body[end], b)) or (end == len(body) and not last):
            return None
        reading = body[at + 1 : end + 1]
        if not any(isinstance(s, Barrier) and s.scope == "block" for s in reading) or not _reads_first(reading, b):
            return None
        assert isinstance(b.type, Array)
        own = fresh(f"{b.name}_own", Array(b.type.elem, (i32(1),), b.type.space))
        self.own.append(own)

        def stored(s: Stmt) -> Stmt:
            return dataclasses.replace(s, buffer=own) if isinstance(s, Store) and s.buffer == b else s

        def read(e: Expr) -> Expr:
            return dataclasses.replace(e, buffer=own) if isinstance(e, Load) and e.buffer == b else e

        first = map_body((body[at],), stored)
        return (*body[:at], *first, *map_body(reading, lambda s: s, read), *body[end + 1 :])

    def _brings_anew(self, s: Stmt, b: Sym) -> bool:
        """Whether ``s`` stores to the first element of ``b`` what the first thread brings."""
        if not isinstance(s, Store) or s.buffer != b or len(s.index) != 1:
            return False
        return without_integer_casts(expand(s.index[0], self.named)) == THREAD


def _finished(s: Stmt) -> Sym | None:
    """The shared array to whose first element a branch ``s`` stores what it makes of this element."""
    if not isinstance(s, If) or s.orelse:
        return None
    for store in (x for x in s.then if isinstance(x, Store) and is_shared(x.buffer)):
        others = sum(store.buffer in assigned((x,)) for x in walk(s.then))
        if others == 1 and _is_first(store.index) and _reads_first((s,), store.buffer):
            return store.buffer if any(_loads(s.then, store.buffer)) else None
    return None


def _reads_first(body: Body, b: Sym) -> bool:
    """Whether all that ``body`` reads of ``b`` is its first element, by plain loads."""
    return all(_is_first(e.index) and e.width == 1 for e in _loads(body, b)) and not any(
        b in (getattr(e, "buffer", None), getattr(e, "sym", None)) and not isinstance(e, Load) for e in all_exprs(body)
    )


def _loads(body: Body, b: Sym) -> Iterator[Load]:
    return (e for e in all_exprs(body) if isinstance(e, Load) and e.buffer == b)


def _is_first(index: tuple[Expr, ...]) -> bool:
    return len(index) == 1 and is_const(index[0], 0)


__all__ = ["with_finished_values"]
