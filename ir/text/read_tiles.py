"""Parse trees of what a block or a warp does as one: copies to shared memory, matrix loads, tensor-core products."""

from __future__ import annotations

from ktc.ir import nodes as n
from ktc.ir.nodes import Stmt
from ktc.ir.types import U64

from .read_exprs import ExprReader
from .read_types import Node, plain
from .syntax import coerce


class TileReader(ExprReader):
    """Reads copies by a block and the instructions of matrix units."""

    def s_async_copy(self, t: Node) -> Stmt:
        dst, dst_index, width, _ = self.access(t.children[0])
        src, src_index, _, cache = self.access(t.children[1])
        valid = None if t.children[2] is None else self.expr(t.children[2])
        return n.AsyncCopy(dst, dst_index, src, src_index, width, cache, valid)

    def s_async_commit(self, t: Node) -> Stmt:
        return n.AsyncCommit(spread=t.children[0] is not None)

    def s_async_wait(self, t: Node) -> Stmt:
        return n.AsyncWait(self.count(t.children[0]))

    def s_group_copy(self, t: Node) -> Stmt:
        event, to, source, count, stride, after = t.children
        if event.data != "name":
            self.fail(event, "the event of a copy goes to a variable")
        dst, dst_index, *_ = self.access(to)
        src, src_index, *_ = self.access(source)
        many, apart = (None if e is None else coerce(self.expr(e), U64) for e in (count, stride))
        assert many is not None
        joined = None if after is None else self.expr(after)
        return n.GroupCopy(dst, dst_index, src, src_index, many, self.symbol(event.children[0]), joined, apart)

    def s_group_wait(self, t: Node) -> Stmt:
        return n.GroupWait(self.expr(t.children[0]))

    def s_bulk_copy(self, t: Node) -> Stmt:
        dst, rows, shared, src, origin, extent, pitch = t.children
        blocks = 1 if shared is None else self.sint(shared)
        to, index, *_ = self.access(dst)
        (row, col), (height, width) = ([self.expr(e) for e in x.children] for x in (origin, extent))
        place = (row, col), (height, width)
        return n.BulkCopy(to, index, self.symbol(src), *place, self.expr(pitch), self.sint(rows), blocks)

    def s_matrix_load(self, t: Node) -> Stmt:
        dst, dst_index, width, _ = self.access(t.children[0])
        buffer, index, one, _ = self.access(t.children[1])
        if not isinstance(width, int) or one != 1:
            self.fail(t, "matrix_load is written dst[i +: 8] = src[j]")
        return n.MatrixLoad(dst, dst_index, buffer, index, width, t.children[2] is not None)

    def s_mma(self, t: Node) -> Stmt:
        fragment, acc, a, b = t.children
        return n.Mma(plain(fragment), tuple(self.expr(e) for e in acc.children), self.expr(a), self.expr(b))

    def s_tile_mma(self, t: Node) -> Stmt:
        fragment, acc, a, b, trans, depth, pending, keep = t.children
        (a_sym, a_index, *_), (b_sym, b_index, *_) = self.access(a), self.access(b)
        places = tuple(self.expr(e) for e in acc.children)
        flight = 0 if pending is None else self.sint(pending)
        added = None if keep is None else self.expr(keep)
        operands = (a_sym, a_index, b_sym, b_index)
        return n.TileMma(plain(fragment), places, *operands, self.sint(depth), flight, added, trans is not None)

    def s_tile_mma_wait(self, t: Node) -> Stmt:
        return n.TileMmaWait(self.sint(t.children[0]))
