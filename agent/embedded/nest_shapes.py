"""The loop nest of a raised kernel as a planner sees it: which loops are rows, columns or serial, and of what shape it
is. Looks at loops, access patterns and counts, never at names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ktc.ir.analysis.planner_facts import KernelFacts, LoopFacts

Idea = tuple[str, str, float]
"""Steps after ``raise``, the reason, the speed-up an expert would expect over naive code."""

SHORT_ROW = 1024
"""Elements; below it one block per row leaves threads idle or launches too many blocks."""

RESIDENT = 2048
"""Threads that a compute unit of today's devices holds at once."""


@dataclass(frozen=True)
class Shape:
    """The loop nest as a planner sees it: ``rows`` are spread over blocks alone, ``cols`` over threads."""

    rows: tuple[LoopFacts, ...]
    cols: tuple[LoopFacts, ...]
    serial: tuple[LoopFacts, ...]
    facts: KernelFacts

    @property
    def col_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c.name for c in self.cols))

    @property
    def has_reduction(self) -> bool:
        return any(c.kind == "reduce" for c in self.cols)

    @property
    def is_flat(self) -> bool:
        """One loop over everything: threads and blocks on the same loop."""
        return not self.rows and len(self.col_names) == 1

    @property
    def is_plane(self) -> bool:
        """Two or more loops, each spread over its own axis of threads and blocks; loops over blocks alone around them
        are a batch of planes."""
        return len(self.col_names) >= 2 and all(has(c, "block") for c in self.cols)

    @property
    def is_rows(self) -> bool:
        return bool(self.rows) and bool(self.cols) and not self.is_plane

    @property
    def short(self) -> bool:
        return all(c.trip is not None and c.trip <= SHORT_ROW for c in self.cols)

    @property
    def free_block_axis(self) -> str:
        """A grid axis that no loop uses yet ('' if there is none)."""
        used = {level for x in (*self.rows, *self.cols) for level in x.levels}
        return next((a for a in "yz" if f"block.{a}" not in used), "")


def shape_of(f: KernelFacts) -> Shape:
    """Loops of a raised kernel by their role, those that the source calls alike under the name of all of them."""
    loops = _together(f.loops)
    parallel = [x for x in loops if x.kind in ("par", "reduce")]
    cols = tuple(x for x in parallel if has(x, "thread", "lane", "warp"))
    rows = tuple(x for x in parallel if x not in cols and has(x, "block"))
    serial = tuple(x for x in loops if x not in cols and x not in rows)
    return Shape(rows, cols, serial, f)


def _together(loops: Sequence[LoopFacts]) -> list[LoopFacts]:
    """``loops``; of several parallel (or serial) ones with one stem each is called ``i.*``: what is done to a sweep of
    a row is done to all."""

    def kin(x: LoopFacts) -> tuple[bool, str]:
        return x.kind in ("par", "reduce"), x.stem

    counts = Counter(map(kin, loops))
    return [replace(x, name=f"{x.stem}.*") if counts[kin(x)] > 1 else x for x in loops]


def has(x: LoopFacts, *kinds: str) -> bool:
    return any(level.partition(".")[0] in kinds for level in x.levels)


def vectors(s: Shape) -> tuple[str, str]:
    """A level of vector lanes and its factor in a product of sizes, for a distribution of the columns; '' and '' where
    no access moves by one element an iteration: each is a vector by hand already, and lanes would only spread threads
    apart."""
    wide = any(c.strided for c in s.cols) and not any(c.unit for c in s.cols)
    return ("", "") if wide else ("vec $V, ", "V * ")


def in_tiles(names: Sequence[str], sizes: Sequence[str], levels: Sequence[str]) -> str:
    """Steps by which blocks take tiles of the loops ``names``, and ``levels`` the iterations of each loop in a tile."""
    spread = (f"distribute{{loop={name} map=[{level}]}}" for name, level in zip(names, levels))
    return f"tile{{loops={','.join(names)} sizes={','.join(sizes)}}} | {' | '.join(spread)}"


def block_axis(x: LoopFacts) -> str:
    return next((level[6:] for level in x.levels if level.startswith("block.")), "x")


__all__ = ["RESIDENT", "SHORT_ROW", "Idea", "Shape", "block_axis", "has", "in_tiles", "shape_of", "vectors"]
