"""share-array: a private array that every thread of a block fills alike is one in shared memory, filled once.

before                                          after share-array{array=w}
    par t in 0..tiles @ [block.x]                   par t in 0..tiles @ [block.x]
      par i in 0..256 @ [thread.x 256]                array w: shared f32[64]
        array w: f32[64]                              par k in 0..64 @ [thread.x 256, seq]
        for k in 0..64                                  w[k] = exp(-s * f32(k))
          w[k] = exp(-s * f32(k))                     par i in 0..256 @ [thread.x 256]
        y[i] = w[c[i]]                                  y[i] = w[c[i]]

Tables of colours, coefficients and weights are often built where they are used. A thread has no registers for an array
whose elements are chosen as it runs: each thread writes all of them to memory, to read a few.

Legal where the statements that write the array come before all that read it, depend on nothing of a thread, read no
memory, and could not fail where the source did not run them. A loop of theirs whose iterations are independent is
spread over the block's threads, another statement is left to one thread. Values are the same to the last bit.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from math import prod

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.dependence import iterations_independent
from ktc.ir.analysis.order import pinned, places
from ktc.ir.fold import cast, evaluate, i32
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    Assign,
    Body,
    Decl,
    Dist,
    Expr,
    For,
    HwIndex,
    If,
    Level,
    Load,
    Par,
    Stmt,
    Store,
    Sym,
    Var,
    bodies,
    fresh,
)
from ktc.ir.purity import is_movable
from ktc.ir.storage import is_local_array
from ktc.ir.types import I32, Array, Scalar
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    keep,
    map_body,
    mentions,
    rename,
    used_in,
    walk,
    walk_expr,
    with_list_around,
)
from ktc.passes.core.argument_kinds import Arrays
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.bands import band_around, with_arrays
from ktc.passes.shared.serial_sums import counted_to

from .tile_copy import thread_levels

MOST = 32 << 10
"""Bytes of an array at most."""


@dataclass(frozen=True)
class Arguments:
    array: Arrays = required("a private array, of a thread")


class ShareArray(Pass[Arguments]):
    name = "share-array"
    summary = "a private array that every thread of a block fills alike, in shared memory, filled once"
    refusals = ("E-PLACE", "E-PLACE-AMBIGUOUS", "E-SHARE-ARRAY", "E-SHARE-PLACE", "E-SHARE-VALUES")

    def sites(self, kernel: Kernel) -> list[Site]:
        if not kernel.is_parallel:
            return []
        doc = "filled once a block, not by every thread"
        arrays = [s for s in walk(kernel.body) if isinstance(s, Alloc) and is_local_array(s.sym)]
        return [Site(self.step(array=s.sym.name), doc) for s in arrays if allowed(shared_out, kernel, s)]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        array = args.array.one(kernel).stmt
        if not isinstance(array, Alloc) or not is_local_array(array.sym):
            raise Refusal("E-SHARE-ARRAY", f"'{args.array.name}' is no array of a thread")
        return Result(shared_out(kernel, array), (f"{array.sym.name}: filled once a block",))


def shared_out(kernel: Kernel, array: Alloc) -> Kernel:
    """``kernel`` with the elements of ``array`` in shared memory.

    Raises:
        Refusal: E-SHARE-....
    """
    name = array.sym.name
    _has_size(array)
    found = band_around(kernel, array)
    if found is None:
        why = f"'{name}' is declared in no loop over threads inside a loop over blocks or tiles"
        raise Refusal(
            "E-SHARE-PLACE", why, places(array), "tile makes loops over blocks of loops over threads and blocks"
        )
    if (stays := pinned(found.loop.body)) is not None:
        raise Refusal("E-SHARE-PLACE", "the loop over threads holds a barrier or opaque code", places(stays))
    band = found.loop
    around = next(b for s in walk((band,)) for b in bodies(s) if any(x is array for x in b))
    fill = _written_first(around, array)
    own = {band.var, *declared(band.body), *assigned(band.body)} - set(declared(fill))
    names = definitions(kernel.body)
    plain = map_body(fill, keep, lambda e: expand(e, names) if isinstance(e, Var) and e.sym in own else e)
    _is_everybodys(plain, array, own)
    t = array.sym.type
    assert isinstance(t, Array)
    new = fresh(name, dataclasses.replace(t, space="shared"))
    threads = (*thread_levels(kernel.body), Level("seq"))
    filled = tuple(_spread(s, threads) for s in rename(plain, {array.sym: new}))

    def without(before: Body, after: Body) -> Body:
        return rename((*before, *(s for s in after if not any(s is x for x in fill))), {array.sym: new})

    inside = with_list_around((band,), array, without)
    assert inside is not None
    held = map_body((found.holder,), lambda s: inside if s is band else s)
    return with_arrays(kernel, found.region, found.holder, [Alloc(new, align=16)], (*filled, *held))


def _has_size(array: Alloc) -> None:
    t = array.sym.type
    assert isinstance(t, Array)
    sizes = [evaluate(n, {}) for n in t.shape]
    known = [int(n) for n in sizes if n is not None]
    elem = t.elem
    bits = elem.bits if isinstance(elem, Scalar) else 128
    if len(known) < len(sizes) or prod(known) * bits // 8 > MOST:
        raise Refusal("E-SHARE-ARRAY", f"'{array.sym.name}' has more than {MOST >> 10} KiB, or no known size",
                      places(array))  # fmt: skip


def _written_first(around: Body, array: Alloc) -> Body:
    """The statements beside ``array`` that write it, all of them before those that read it."""
    sym = array.sym
    writing = [k for k, s in enumerate(around) if any(isinstance(x, Store) and x.buffer == sym for x in walk((s,)))]
    reading = [k for k, s in enumerate(around) if _reads(s, sym)]
    if not writing:
        raise Refusal("E-SHARE-VALUES", f"nothing beside '{sym.name}' writes it", places(array))
    if set(writing) & set(reading):
        why = f"'{sym.name}' is read where it is written"
        raise Refusal("E-SHARE-VALUES", why, places(array, around[writing[0]]))
    if reading and reading[0] < writing[-1]:
        why = f"'{sym.name}' is written after it was read"
        raise Refusal("E-SHARE-VALUES", why, places(around[reading[0]], around[writing[-1]]))
    return tuple(around[k] for k in writing)


def _reads(s: Stmt, array: Sym) -> bool:
    """Whether ``s`` uses ``array`` in any way but to store elements."""
    stores = [x for x in walk((s,)) if isinstance(x, Store) and x.buffer == array]
    read = any(isinstance(x, Load | AddrOf) and x.buffer == array for x in all_exprs((s,)))
    return read or (not stores and array in mentions(s))


def _is_everybodys(fill: Body, array: Alloc, own: set[Sym]) -> None:
    """Whether all threads run ``fill`` alike and it may run where the source does not, or it is refused."""
    name = array.sym.name
    inner = set(declared(fill))
    for s in walk(fill):
        fits = isinstance(s, Store) and s.buffer == array.sym
        fits |= isinstance(s, Decl | If) or (isinstance(s, Assign) and s.sym in inner)
        fits |= isinstance(s, For) and counted_to(s) is not None and s.var not in assigned(s.body)
        if not fits:
            raise Refusal("E-SHARE-VALUES", f"what writes '{name}' does something else, too", places(s))
    if not all(map(_may_run_anywhere, all_exprs(fill))):
        why = f"the elements of '{name}' come from memory, or from a division that may be one by zero"
        raise Refusal("E-SHARE-VALUES", why, places(array))
    theirs = used_in(fill) & own - {array.sym}
    if theirs:
        names = ", ".join(sorted(f"'{s.name}'" for s in theirs))
        raise Refusal("E-SHARE-VALUES", f"the elements of '{name}' depend on {names}, which each thread has of its own",
                      places(array))  # fmt: skip


def _may_run_anywhere(e: Expr) -> bool:
    return is_movable(e) and not any(isinstance(x, AddrOf | HwIndex) for x in walk_expr(e))


def _spread(s: Stmt, threads: Dist) -> Par:
    """``s`` by all threads if it is a loop of independent iterations, else by one."""
    if isinstance(s, For) and isinstance(s.var.type, Scalar) and iterations_independent(s):
        hi = counted_to(s)
        assert hi is not None
        t = s.var.type
        return Par(s.var, cast(s.init, t), cast(hi, t), threads, s.body, loc=s.loc, comments=s.comments, tags=s.tags)
    return Par(fresh("one", I32), i32(0), i32(1), threads, (s,))


__all__ = ["ShareArray", "shared_out"]
