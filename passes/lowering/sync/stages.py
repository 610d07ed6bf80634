"""Stages of a kernel: what one loop over blocks leaves in an array, the next one reads once all blocks are done.

before                                              after
    array parts: f32[8, d]                              (parts: a scratch parameter of 8 * d elements)
    par part in 0..8 @ [block.y]                        par part in 0..8 @ [block.y]
      par j in 0..d @ [block.x]                           par j in 0..d @ [block.x]
        parts[part, j] = f(part, j)                         parts[part * d + j] = f(part, j)
    par j in 0..d @ [block.x]                           grid barrier
      reduce(+) s over part in 0..8 @ [seq]             par j in 0..d @ [block.x]
        yield parts[part, j]                              reduce(+) s over part in 0..8 @ [seq]
                                                            yield parts[part * d + j]

In parallel form a loop begins when the one before it has ended. A CPU's text says just that. Here, where blocks are
threads of one launch, the array is memory that all of them see, and a barrier of the whole grid stands between the
loops: this is how such kernels are checked. GPU texts are not printed with a barrier that the source does not have
(:func:`ktc.driver.printing.printed`): the blocks of a launch are in general not all resident at once.

No barrier is needed for what a reduction over blocks leaves in an array beside its results: what follows it runs in the
block that ends last (``collectives.grid_reduce``), which finds there what all of them wrote.

    array parts: f32[8, n]                              (parts: a scratch parameter of 8 * n elements)
    par i in 0..n @ [block.x]
      reduce(max) m over part in 0..8 @ [block.y]
        parts[part, i] = g(part, i); yield f(part, i)
      out[i] = h(m, parts[.., i])
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from ktc.ir.fold import add, cast, mul, product, simplify
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import (
    Alloc,
    Atomic,
    Barrier,
    Binary,
    Body,
    Const,
    Expr,
    If,
    Load,
    Par,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.storage import is_local_array
from ktc.ir.types import I64, Array, Ptr
from ktc.ir.walk import assigned, map_body, mentions, used_in, walk
from ktc.passes.shared.grid_reductions import spans_blocks


def staged(kernel: Kernel) -> Kernel:
    """``kernel`` with the arrays that its loops over blocks pass on to each other in memory, and barriers between."""
    arrays = _passed_on(kernel.body)
    return _in_scratch(kernel, arrays, _with_barriers(_by_own_blocks(kernel.body), arrays)) if arrays else kernel


def handed_on(kernel: Kernel) -> Kernel:
    """``kernel`` with the arrays in memory that its reductions over blocks fill for what follows them."""
    declared = [s.sym for s in kernel.body if isinstance(s, Alloc) and is_local_array(s.sym)]
    sums = [s for s in walk(kernel.body) if isinstance(s, Reduce) and spans_blocks(s)] if declared else []
    filled = set[Sym]().union(*(assigned(s.body) for s in sums))
    beside = map_body(kernel.body, lambda s: None if any(s is x for x in sums) else s)
    arrays = [a for a in declared if a in filled & used_in(beside)]
    body = tuple(s for s in kernel.body if not (isinstance(s, Alloc) and s.sym in arrays))
    return _in_scratch(kernel, arrays, body) if arrays else kernel


def _in_scratch(kernel: Kernel, arrays: Sequence[Sym], body: Body) -> Kernel:
    """``kernel`` with ``body``, the ``arrays`` of which are scratch parameters."""
    taken = {p.sym.name for p in kernel.params}
    memory: dict[Sym, Sym] = {}
    params: list[Param] = []
    for a in arrays:
        assert isinstance(a.type, Array)
        unique = next(n for n in (a.name, *(f"{a.name}{k}" for k in range(2, 99))) if n not in taken)
        taken.add(unique)
        memory[a] = fresh(unique, Ptr(a.type.elem, "global", restrict=True))  # type: ignore[arg-type]
        size = simplify(product([cast(n, I64) for n in a.type.shape]))
        params.append(Param(memory[a], align=16, scratch=size))
    return kernel.with_(body=_in_memory(body, memory), params=(*kernel.params, *params))


def is_stage_barrier(s: Stmt) -> bool:
    """Whether ``s`` makes all blocks wait for each other."""
    return isinstance(s, Barrier) and s.scope == "grid"


def _passed_on(body: Body) -> list[Sym]:
    """Arrays declared beside loops over blocks, of which one fills them and another statement reads them."""
    out = []
    for a in (s.sym for s in body if isinstance(s, Alloc) and is_local_array(s.sym)):
        users = [s for s in body if not isinstance(s, Alloc) and a in mentions(s)]
        if len(users) > 1 and any(_over_blocks(s) and a in assigned((s,)) for s in users):
            out.append(a)
    return out


def _over_blocks(s: Stmt) -> bool:
    return bool(_axes(s))


def _axes(s: Stmt) -> set[str]:
    """The axes of the grid that ``s`` shares its iterations out along."""
    loops = (x for x in walk((s,)) if isinstance(x, Par | Reduce))
    return {lv.axis for x in loops for lv in x.dist if lv.kind == "block"}


def _by_own_blocks(body: Body) -> Body:
    """``body`` with each loop over blocks run by the first ones of the axes that it does not use and others do: along
    these, blocks would do the same work again, and read what another one has written already."""
    along = {x.dist[0].axis: x for x in walk(body) if isinstance(x, Par) and [lv.kind for lv in x.dist] == ["block"]}

    def first_only(s: Stmt) -> Stmt:
        for axis in sorted(along.keys() - _axes(s)) if isinstance(s, Par) and _over_blocks(s) else ():
            other = along[axis]
            var = fresh(other.var.name, other.var.type)
            first = If(Binary("==", Var(var), other.lo), (s,), loc=s.loc)
            s = Par(var, other.lo, other.hi, other.dist, (first,), loc=s.loc)
        return s

    return tuple(map(first_only, body))


def _with_barriers(body: Body, arrays: Collection[Sym]) -> Body:
    """``body`` without the declarations of ``arrays``, and a barrier before what touches one that may be written still;
    what is written after it was read waits, too."""
    out: list[Stmt] = []
    read: set[Sym] = set()
    written: set[Sym] = set()
    for s in body:
        if isinstance(s, Alloc) and s.sym in arrays:
            continue
        reads, writes = used_in((s,)) & set(arrays), assigned((s,)) & set(arrays)
        if (reads | writes) & written or writes & read:
            out.append(Barrier("grid", loc=s.loc))
            read, written = set(), set()
        read |= reads
        written |= writes
        out.append(s)
    return tuple(out)


def _in_memory(body: Body, memory: Mapping[Sym, Sym]) -> Body:
    """``body`` with the arrays in ``memory``, row by row."""

    def on(s: Stmt) -> Stmt:
        if isinstance(s, Store | Atomic) and s.buffer in memory:
            return dataclasses.replace(s, buffer=memory[s.buffer], index=(_flat(s.buffer, s.index),))
        return s

    def read(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in memory:
            return dataclasses.replace(e, buffer=memory[e.buffer], index=(_flat(e.buffer, e.index),))
        return e

    return map_body(body, on, read)


def _flat(a: Sym, index: tuple[Expr, ...]) -> Expr:
    """The position of an element, row-major: an array may have more elements than any of its dimensions counts."""
    assert isinstance(a.type, Array)
    out: Expr = Const(0, I64)
    for i, n in zip(index, a.type.shape):
        out = add(mul(out, cast(n, I64)), cast(i, I64))
    return simplify(out)


__all__ = ["handed_on", "is_stage_barrier", "staged"]
