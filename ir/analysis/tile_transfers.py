"""What one instruction moves for a block or a warpgroup: bulk copies of boxes, and products that read shared tiles."""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.device_nodes import BulkCopy, TileMma
from ktc.ir.fragments import INSTRUCTIONS, panel_of
from ktc.ir.nodes import Expr
from ktc.ir.types import scalar_of

from .access_nests import Access


@dataclass(frozen=True)
class Transfer:
    """``elements`` moved by one of ``lanes`` threads that share the instruction; 0 lanes: by one thread of a block,
    from a matrix of ``extent`` rows and columns."""

    elements: int
    lanes: int = 0
    extent: tuple[Expr, ...] = ()

    def times(self, blocks: int, threads: int) -> float:
        """How often all of a launch's blocks do it where each thread comes by once."""
        return blocks * max(1.0, threads / self.lanes) if self.lanes else float(blocks)


def transfer_of(a: Access) -> Transfer | None:
    """What the access is part of; None where every lane makes it for itself."""
    s = a.stmt
    if isinstance(s, BulkCopy):
        return Transfer(s.rows * panel_of(scalar_of(s.dst.type)) // s.shared, extent=s.extent)
    if isinstance(s, TileMma):
        f = INSTRUCTIONS[s.fragment]
        return Transfer((f.m if a.buffer is s.a else f.n) * s.depth, f.warp)
    return None
