"""What a region reads of an array: the boxes that its accesses touch, and its body with copies of them in their place.

Passes that copy an array, to shared memory or to registers, have this in common: nothing may write the array, all of
its uses are reads of single elements, it is known which of them are reached, and together they touch boxes of known
size (``ir/analysis/footprint.py``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.dependence import may_alias, noalias
from ktc.ir.analysis.footprint import Footprint, Touch, Unknown, footprint
from ktc.ir.analysis.order import places
from ktc.ir.arith import REWRITES, facts_of
from ktc.ir.diagnostics import Loc
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, Expr, For, Load, Par, RawStmt, Select, Stmt, Sym, Var
from ktc.ir.purity import is_volatile
from ktc.ir.types import Ptr
from ktc.ir.walk import all_exprs, assigned, map_body, used, walk
from ktc.passes.core.argument_kinds import Arrays
from ktc.passes.core.knobs import largest
from ktc.passes.core.refusals import Refusal, allowed
from ktc.passes.shared.serial_sums import counted_to

from .guarded_reads import Read, reads, unclamped
from .tile_contents import Contents, NotOfPlace, contents


def read_only(kernel: Kernel, named: Arrays) -> Sym:
    """The buffer in global memory called so, which the kernel only reads, and writes through no other pointer either.

    Raises:
        Refusal: E-PLACE, E-STAGE-ARRAY, E-STAGE-WRITTEN.
    """
    sym = only_read(kernel, named)
    others = written_over(kernel, sym)
    if others:
        names = ", ".join(sorted(b.name for b in others))
        hint = "say __restrict__ in the source, or noalias = true in the workload"
        raise Refusal("E-STAGE-WRITTEN", f"what is written to {names} may alias '{sym.name}'", hint=hint)
    return sym


def only_read(kernel: Kernel, named: Arrays) -> Sym:
    """The buffer in global memory called so, which the kernel only reads by this name.

    Raises:
        Refusal: E-PLACE, E-STAGE-ARRAY, E-STAGE-WRITTEN.
    """
    sym = named.find(kernel)[0].sym
    if sym is None or not isinstance(sym.type, Ptr) or sym.type.volatile:
        raise Refusal("E-STAGE-ARRAY", f"'{named.name}' is not a buffer in global memory")
    if any(x.buffer == sym and is_volatile(x) for x in all_exprs(kernel.body) if isinstance(x, Load)):
        raise Refusal("E-STAGE-ARRAY", f"'{named.name}' is read through a volatile pointer")
    if sym in assigned(kernel.body) or any(isinstance(s, RawStmt) for s in walk(kernel.body)):
        raise Refusal("E-STAGE-WRITTEN", f"the kernel writes '{sym.name}': a copy of it could be stale")
    return sym


def written_over(kernel: Kernel, buffer: Sym) -> set[Sym]:
    """Buffers that the kernel writes and that may share elements with ``buffer``, which it only reads."""
    written = {b for b in assigned(kernel.body) if isinstance(b.type, Ptr)}
    apart = noalias(kernel)
    return {b for b in written if may_alias(b, buffer, apart)}


@dataclass(frozen=True)
class Region:
    """A loop whose body is to read the tiles, the loops around it, and the footprints there, a tile each."""

    loop: For | Par
    path: tuple[Stmt, ...]
    boxes: tuple[tuple[Footprint, Contents], ...]
    taps: Mapping[tuple[Expr, ...], tuple[int, int]]  # index of a load -> its footprint and tap
    padded: frozenset[Select]  # choices between a load and the constant that the tile holds in its place


def region_of(kernel: Kernel, buffer: Sym, s: For | Par, path: tuple[Stmt, ...]) -> Region:
    """What the body of ``s``, the last of the loops ``path``, reads of ``buffer``, as far as boxes have it; other reads
    are left as they are.

    Raises:
        Refusal: E-STAGE-NONE, E-STAGE-FOOTPRINT, E-STAGE-GUARD, E-STAGE-OPAQUE.
    """
    locs = places(s)
    names = definitions(kernel.body)
    made: list[Read] = []
    for read in reads(s.body, buffer):
        if isinstance(read, Read):
            made.append(read)
        elif read.why:
            why = f"where '{buffer.name}' is read, {read.why} is not known"
            raise Refusal("E-STAGE-GUARD", why, locs, "write the condition as an if around the read")
        else:
            raise Refusal("E-STAGE-OPAQUE", f"'{buffer.name}' is used in a way that is not followed", locs)
    if not made:
        raise Refusal("E-STAGE-NONE", f"'{buffer.name}' is not read in '{s.var.name}'", locs)
    groups: list[list[Read]] = []
    for read in made:
        for group in groups:
            if allowed(_tile, kernel, [*group, read], names, buffer, locs):
                group.append(read)
                break
        else:  # at an unknown distance from the others: a tile of its own
            groups.append([read])
    groups = [g for g in groups if allowed(_tile, kernel, g, names, buffer, locs)] or groups
    groups = [g for g in groups if _reused(g, names)] or groups
    boxes: list[tuple[Footprint, Contents]] = []
    for group in groups:
        tile = _tile(kernel, group, names, buffer, locs)
        boxes.append(tile)
    taps = {r.load.index: (k, n) for k, group in enumerate(groups) for n, r in enumerate(group)}
    wanted = [r for r in made if r.padded is not None and r.load.index in taps]
    padded = (r.padded for r in wanted if r.padded is not None and boxes[taps[r.load.index][0]][1].pad is not None)
    return Region(s, path, tuple(boxes), taps, frozenset(padded))


def _reused(group: Sequence[Read], names: Mapping[Sym, Expr]) -> bool:
    """Whether several iterations may read one element. Where some tiles have that, others are left where they are."""
    if len({r.load.index for r in group}) > 1:
        return True
    return any({s.var for s in r.loops} - used(expand(r.load.index[0], names)) for r in group)


def _tile(
    kernel: Kernel, group: Sequence[Read], names: Mapping[Sym, Expr], buffer: Sym, locs: tuple[Loc, ...]
) -> tuple[Footprint, Contents]:
    """One tile for the reads of ``group``: its box, and what it holds."""
    touches = [Touch(unclamped(expand(r.load.index[0], names), r.loops), r.loops) for r in group]
    facts = facts_of(kernel, REWRITES)
    box = footprint(touches, lambda e: _most(kernel, e), facts.multiple_of, facts.never_positive)
    if isinstance(box, Unknown):
        why = f"the footprint of '{buffer.name}' is not a box: {box.why}"
        raise Refusal("E-STAGE-FOOTPRINT", why, locs, _known_by(kernel, group))
    try:
        return box, contents(box, group, names)
    except NotOfPlace:
        why = f"what stands before '{buffer.name}', a condition or a clamp, is no function of where it is read"
        hint = "peel the boundary, or tile without the condition"
        raise Refusal("E-STAGE-GUARD", why, locs, hint) from None


def _known_by(kernel: Kernel, group: Sequence[Read]) -> str:
    """What makes the ends of loops around ``group`` numbers: the parameters that they are."""
    uppers = (counted_to(s) for r in group for s in r.loops if isinstance(s, For))
    ends = {e.sym for e in uppers if isinstance(e, Var)}
    named = [p.sym.name for p in kernel.params if p.sym in ends]
    return f"specialize makes a parameter a number, as in specialize{{{named[0]}=3}}" if named else ""


def _most(kernel: Kernel, e: Expr) -> int | None:
    """The largest value of a static expression: knobs at their largest."""
    value = evaluate(e, largest(kernel))
    return None if value is None else int(value)


def reading(r: Region, buffer: Sym, copied: Callable[[int, tuple[Expr, ...]], Expr]) -> Body:
    """The region's body with ``copied(k, coords)`` for a read of the element at ``coords`` of the ``k``-th box."""

    def on(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == buffer and e.index in r.taps:
            k, tap = r.taps[e.index]
            return copied(k, r.boxes[k][0].taps[tap].coords)
        return e.a if e in plain else e

    plain = {dataclasses.replace(p, a=on(p.a)) for p in r.padded}  # as they are once their loads are replaced
    return map_body(r.loop.body, lambda s: s, on)


__all__ = ["Region", "only_read", "read_only", "reading", "region_of", "written_over"]
