"""Private arrays that every thread fills with what the launch passes, filled in each iteration that reads them.

before                                            after
    array stride: i32[2]                              for at in tid..n step 256
    stride[0] = stride_0                                array stride: i32[2]
    stride[1] = stride_1                                stride[0] = stride_0
    for at in tid..n step 256                           stride[1] = stride_1
      y[at] = x[at / 2 * stride[at % 2]]                y[at] = x[at / 2 * stride[at % 2]]

Extents and strides that a kernel is passed in a structure are such arrays. In front of a loop that threads stride over
they would be something that each of them carries into its iterations; so the loop is over elements.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Body, For, Load, Stmt, Store, Sym, fresh
from ktc.ir.storage import is_local_array
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, assigned, mentions, rename, used, walk


def with_alike_arrays(body: Body, kernel: Kernel) -> Body:
    """``body``, of ``kernel``, with these arrays in the outermost loops that read them, where nothing else does."""
    given = {p.sym for p in kernel.params if isinstance(p.sym.type, Scalar)} - assigned(body)
    for s in (s for s in body if isinstance(s, Alloc) and is_local_array(s.sym)):
        body = _in_loops(body, s, given)
    return body


def _in_loops(body: Body, array: Alloc, given: Collection[Sym]) -> Body:
    b = array.sym
    about = [s for s in body if b in mentions(s) and s is not array]
    fills = [s for s in about if _fills(s, b, given)]
    loops = about[len(fills) :]
    if about[: len(fills)] != fills or not loops or not all(_only_reads(s, b) for s in loops):
        return body
    gone, reading = {id(s) for s in (array, *fills)}, {id(s) for s in loops}
    out: list[Stmt] = []
    for s in body:
        if id(s) in reading and isinstance(s, For):
            own = fresh(b.name, b.type)
            inside = (dataclasses.replace(array, sym=own), *rename((*fills, *s.body), {b: own}))
            out.append(dataclasses.replace(s, body=inside))
        elif id(s) not in gone:
            out.append(s)
    return tuple(out)


def _fills(s: Stmt, b: Sym, given: Collection[Sym]) -> bool:
    """Whether ``s`` stores what the launch passes at a known place of ``b``."""
    if not isinstance(s, Store) or s.buffer != b or any(evaluate(i, {}) is None for i in s.index):
        return False
    return used(s.value) <= set(given) and not any(isinstance(e, Load) for e in all_exprs((s,)))


def _only_reads(s: Stmt, b: Sym) -> bool:
    """Whether ``s`` is a loop that reads ``b`` in its iterations alone, and never changes it."""
    if not isinstance(s, For) or any(b in assigned((x,)) for x in walk(s.body)):
        return False
    return b not in {x for e in (s.init, s.cond, s.step) for x in used(e)}


__all__ = ["with_alike_arrays"]
