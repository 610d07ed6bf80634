"""Rules for what a block or a warp does as one: copies by the block, matrix loads, products on tensor cores."""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.fold import evaluate
from ktc.ir.fragments import BOX_ROWS, FRAGMENTS, INSTRUCTIONS, MATRIX_ROW, PANEL_BYTES, Fragment, panel_of
from ktc.ir.nodes import BulkCopy, GroupCopy, Load, MatrixLoad, Mma, TileMma, Var, accessed_type
from ktc.ir.types import BOOL, EVENT, U64, Array, Scalar, Vec, scalar_of

from .shared_rules import Complaint, access, is_global, same

MATRICES = (1, 2, 4)
"""Matrices of a load: a lane receives 32 bits of each."""


def group_copy(s: GroupCopy) -> Iterator[Complaint]:
    """A copy by the block is between shared and global memory, of elements of one type."""
    bad = [*access(s.dst, s.dst_index), *access(s.src, s.src_index)]
    yield from bad
    spaces = {getattr(b.type, "space", "local") for b in (s.dst, s.src)}
    if "shared" not in spaces or not spaces <= {"shared", "global", "generic", "const"} or len(spaces) != 2:
        yield "V-SPACE", f"a copy by the block from '{s.src.name}' to '{s.dst.name}' is not between shared and global"
    if not bad:
        types = (accessed_type(b, len(i)) for b, i in ((s.dst, s.dst_index), (s.src, s.src_index)))
        yield from same("the elements that are copied", *types)
    for e, t in ((Var(s.event), EVENT), (s.after, EVENT), (s.count, U64), (s.stride, U64)):
        if e is not None:
            yield from same("an operand of a copy by the block and its type", t, e.type)


def bulk_copy(s: BulkCopy) -> Iterator[Complaint]:
    """A bulk copy brings a box of a matrix to a shared tile that tensor cores read."""
    bad = list(access(s.dst, s.dst_index))
    yield from bad
    t = s.dst.type
    tile = t if isinstance(t, Array) and t.space == "shared" and len(t.shape) > 1 and not bad else None
    if tile is None or scalar_of(t).bits not in (8, 16) or not _in_panels(tile):
        yield "V-BULK", f"'{s.dst.name}' is no shared tile of bytes or 16-bit elements in rows of {PANEL_BYTES} bytes"
    if not is_global(s.src.type) or scalar_of(s.src.type) != scalar_of(t):
        yield "V-BULK", f"'{s.src.name}' is no matrix in global memory of the elements of '{s.dst.name}'"
    if not 1 <= s.rows <= BOX_ROWS:
        yield "V-BULK", f"a box of {s.rows} rows; it has 1 to {BOX_ROWS}"
    if s.shared < 1 or (s.shared > 1 and s.rows % (s.shared * MATRIX_ROW)):
        yield "V-BULK", f"{s.rows} rows are not {s.shared} parts of whole groups of {MATRIX_ROW}"


def _in_panels(tile: Array) -> bool:
    """Whether the rows of ``tile`` are as long as the instructions read them, or of open length."""
    return evaluate(tile.shape[-1], {}) in (panel_of(scalar_of(tile)), None)


def matrix_load(s: MatrixLoad) -> Iterator[Complaint]:
    """A warp loads matrices of 16-bit elements or of bytes from shared memory."""
    bad = [*access(s.dst, s.dst_index), *access(s.buffer, s.index)]
    yield from bad
    if bad:
        return
    elem = accessed_type(s.buffer, len(s.index))
    if getattr(s.buffer.type, "space", "") != "shared" or not isinstance(elem, Scalar) or elem.bits not in (8, 16):
        yield "V-MMA", f"'{s.buffer.name}' is not shared memory of 16-bit elements or of bytes"
        return
    yield from same(f"matrices of '{s.buffer.name}' and '{s.dst.name}'", elem, accessed_type(s.dst, len(s.dst_index)))
    turned = s.trans and elem.bits == 8
    widths = [n * 32 // elem.bits for n in (MATRICES[-1:] if turned else MATRICES)]
    if s.width not in widths:
        yield "V-MMA", f"a lane receives {' or '.join(map(str, widths))} elements, not {s.width}"


def tile_mma(s: TileMma) -> Iterator[Complaint]:
    """A warpgroup's product: two shared tiles, the fragment's accumulators."""
    f = FRAGMENTS.get(s.fragment)
    if f is None or not f.from_shared:
        yield "V-MMA", f"'{s.fragment}' is no fragment of a warpgroup that reads shared tiles"
        return
    most = panel_of(f.operand)
    yield from _accumulators(s, f)
    bad = [*access(s.a, s.a_index), *access(s.b, s.b_index)]
    yield from bad
    for sym, dims, elem in zip((s.a, s.b), (2, 2 if s.trans else 3), f.operands) if not bad else ():
        t = sym.type
        tile = t if isinstance(t, Array) and t.space == "shared" and t.elem == elem else None
        if tile is None or len(tile.shape) < dims or not _in_panels(tile):
            yield "V-MMA", f"'{sym.name}' is no shared tile of {elem} in rows of {most}"
    if s.depth < 1 or s.depth % f.k or s.depth > most:
        yield "V-MMA", f"{f.name} takes {f.k} to {most} terms in steps of {f.k}, not {s.depth}"
    if f.operand.bits == 8 and not s.trans:
        yield "V-MMA", f"{f.name} reads its second factor in rows along the terms alone"
    if s.keep is not None:
        yield from same("the condition of a sum of products and its type", BOOL, s.keep.type)
    if s.pending < 0:
        yield "V-MMA", f"{s.pending} products cannot be in flight"


def _accumulators(s: Mma | TileMma, f: Fragment) -> Iterator[Complaint]:
    if len(s.acc) != f.c.slots:
        yield "V-MMA", f"{f.name} has {f.c.slots} accumulators a lane, not {len(s.acc)}"
    for x in s.acc:
        if not isinstance(x, Var | Load) or (
            isinstance(x, Load) and getattr(x.buffer.type, "space", "local") != "local"
        ):
            yield "V-MMA", "an accumulator must be a private variable or an element of a private array"
        yield from same(f"an accumulator of {f.name} and its type", f.accumulator, x.type)


def mma(s: Mma) -> Iterator[Complaint]:
    """A warp's product: the operands' registers and the accumulators are the fragment's."""
    f = INSTRUCTIONS.get(s.fragment)
    if f is None or f.a is None or f.b is None:
        known = ", ".join(name for name, g in INSTRUCTIONS.items() if not g.from_shared)
        yield "V-MMA", f"no fragment '{s.fragment}' in registers; there are {known}"
        return
    yield from _accumulators(s, f)
    for what, x, layout, operand in (("a", s.a, f.a, f.operands[0]), ("b", s.b, f.b, f.operands[1])):
        t = x.type
        n, elem = (t.n, t.elem) if isinstance(t, Vec) else (1, t)
        if elem != operand or n != layout.slots:
            yield "V-MMA", f"operand {what} of {f.name} is {layout.slots} elements of {operand} a lane"
