"""How a block's threads share the rows of an attention: several lanes a row, several rows a thread.

A lane has its part of a row of queries and of the sums in registers (``each`` elements of both), and reads the same
part of each key and value for all of its ``rows``. What one position takes of a warp, in instructions:

    products     2 * each * rows              the score's, and the sums'
    loads        2 * each / lanes of a load   from shared memory, once for all rows
    exchanges    log2(lanes) * rows           the score's parts, by shuffles
    the rest     :data:`REST` * rows          exponential, maximum, what is kept so far brought down to it
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ktc.passes.lowering.value_facts import ACCESS_BYTES

REST = 12
"""Instructions of a row and position beside products, loads and exchanges."""

REGISTERS, SPARE, MOST_REGISTERS = 65536, 48, 224
"""Of a unit, 32 bits each; of a thread beside rows; and of a thread at most, of the 255 that there are."""

ISSUED, ALONE = 3.2, 0.55
"""Instructions a cycle that a unit starts with many warps, and that one warp starts alone."""

BANKS, SHUFFLE = 128, 2
"""Bytes of shared memory that a unit reads in a cycle, and the cycles of a shuffle."""

L2_BYTES = 24
"""That reach a unit from the L2 cache in a cycle, where all of them read."""

WARP, LANES = 32, (1, 2, 4, 8, 16, 32)
EACH, ROWS, THREADS = (16, 32, 8), (4, 2, 1), (128, 64, 256)


@dataclass(frozen=True)
class RowTile:
    """``lanes`` threads a row of ``length`` elements, ``rows`` a thread, ``threads`` a block; ``wide``: elements of a
    load, of ``bytes`` each."""

    length: int
    lanes: int
    rows: int
    threads: int
    wide: int
    bytes: int

    @property
    def each(self) -> int:
        return self.length // self.lanes

    @property
    def down(self) -> int:
        """Threads along the rows of a block."""
        return self.threads // self.lanes

    @property
    def block_rows(self) -> int:
        return self.down * self.rows

    @property
    def registers(self) -> int:
        return self.rows * (2 * self.each + 12) + (self.rows - 1) * self.each + SPARE

    @property
    def loads(self) -> float:
        """Of a warp, for each position: keys and values, once for all rows."""
        return 2 * self.each / self.wide

    @property
    def exchanges(self) -> float:
        return self.rows * math.log2(self.lanes)

    @property
    def instructions(self) -> float:
        """Of a warp, for each position."""
        return self.rows * (2 * self.each + REST) + self.exchanges + self.loads

    @property
    def exchange_cycles(self) -> float:
        """Of the path to shared memory, for each position of a warp: what lanes read alike is read once."""
        return self.loads * max(1, self.lanes * self.wide * self.bytes / BANKS) + SHUFFLE * self.exchanges

    def cycles(self, rows: int, outer: int, units: int) -> float:
        """Cycles of a unit for each position, of ``outer`` attentions with ``rows`` rows each: of instructions, of
        reads from shared memory, or of what comes from the L2 cache, which each block reads for itself."""
        blocks = math.ceil(rows / self.block_rows) * outer
        at_once = max(1, REGISTERS // (self.registers * self.threads))
        resident = min(at_once, math.ceil(blocks / units))
        warps = resident * self.threads / WARP
        rounds = math.ceil(blocks / (units * resident))
        started = warps * self.instructions / min(ISSUED, warps * ALONE)
        brought = resident * 2 * self.length * self.bytes / L2_BYTES
        return rounds * max(started, warps * self.exchange_cycles, brought)

    @property
    def row_levels(self) -> str:
        return f"unroll {self.rows}, thread.y {self.down}" if self.rows > 1 else f"thread.y {self.down}"

    @property
    def lane_levels(self) -> str:
        parts = [f"vec {self.wide}"] if self.wide > 1 else []
        parts += [f"thread.x {self.lanes}"]
        parts += [f"unroll {n}"] if (n := self.each // self.wide) > 1 else []
        return ", ".join(parts)


def row_tiles(length: int, bytes_each: int, rows: int, outer: int, units: int) -> list[RowTile]:
    """Those that hold rows of ``length`` elements, of ``bytes_each``, in registers, the fastest first: of each number
    of lanes and of rows a thread, the best number of threads."""

    def found() -> Iterator[RowTile]:
        for lanes in LANES:
            each = length // lanes
            wide = math.gcd(each, ACCESS_BYTES // bytes_each) if not length % lanes else 0
            for down in ROWS if wide else ():
                for threads in THREADS:
                    tile = RowTile(length, lanes, down, threads, wide, bytes_each)
                    if min(EACH) <= each <= max(EACH) and tile.registers <= MOST_REGISTERS:
                        yield tile

    best: dict[tuple[int, int], RowTile] = {}
    for tile in sorted(found(), key=lambda t: t.cycles(rows, outer, units)):
        best.setdefault((tile.lanes, tile.rows), tile)
    return list(best.values())


__all__ = ["RowTile", "row_tiles"]
