"""Ideas for products of 16-bit floats and weights in few bits, on tensor cores.

What a weight is made of its bits is a whole number, which 16 bits hold exactly: the block unpacks each once, as an
element of a table (``stage-factors``), and warps multiply that. What a group of terms has in common, its scale, is
multiplied after the group's sum, so that nothing is rounded that the source does not round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd

from ktc.driver.printing import fragments_of
from ktc.ir.analysis.access_nests import accesses
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import For
from ktc.ir.types import BF16, F16, Scalar
from ktc.passes.lowering.value_facts import ACCESS_BYTES
from ktc.search.target import DeviceInfo

from .computed_factors import Sums, sums_of_factors
from .grouped_sums import groups_of
from .nest_shapes import Idea
from .thread_products import UNKNOWN_TRIP

GAIN = 15.0
"""Between products of elements as they lie on tensor cores and sums by threads: it only ranks the ideas."""

TRIED = 3
"""Tiles proposed."""

STEP, LEAST = 128, 16
"""Terms of a step at most, as many as often share a scale, and at least, as an instruction takes."""


@dataclass(frozen=True)
class Tile:
    """A block's tile and its warps along rows and columns."""

    rows: int
    cols: int
    warps: tuple[int, int]


TILES = (
    Tile(128, 128, (2, 4)), Tile(128, 64, (4, 2)), Tile(64, 128, (2, 4)), Tile(64, 64, (2, 2)), Tile(64, 32, (2, 2)),
    Tile(32, 64, (1, 4)), Tile(32, 32, (1, 4)), Tile(16, 64, (1, 4)), Tile(16, 32, (1, 4)),
)  # fmt: skip

FILL, PRODUCTS, AROUND = 5 / 128, 1 / 2048, 3000.0
"""Clocks that a unit takes to unpack a weight (about five operations) and for a product, and that a block takes before
its first step and after its last: by the units' rates."""


def packed_weights(
    raised: Kernel, device: DeviceInfo, facts: Sequence[KernelFacts], able: Callable[[str], bool]
) -> Iterator[Idea]:
    """Steps after ``raise`` with why and a guess of the gain; ``able`` says whether steps can be lowered."""
    if not any(x.endswith("k16_f16") for x in fragments_of(device.profile)):
        return
    trips = {x.name: x.trip for f in facts for x in f.loops}
    for sums in sums_of_factors(raised):
        halves = [(name, t) for name, t in _halves(raised, sums)]
        if len(halves) != 1:
            continue
        size = tuple(trips.get(x.var.name) or UNKNOWN_TRIP for x in (sums.down, sums.across, sums.terms))
        found = 0
        for t in sorted(TILES, key=lambda t: _clocks(t, size, device.compute_units)):
            steps = next(filter(able, _schedules(raised, sums, t, *halves[0])), None)
            if steps is not None:
                yield steps, "tensor cores: weights are unpacked once a block, scales are multiplied after sums", GAIN
                found += 1
            if found == TRIED:
                break


def _halves(kernel: Kernel, sums: Sums) -> Iterator[tuple[str, Scalar]]:
    """The factors of 16 bits that are read as they lie, along the terms."""
    types = {p.sym.name: getattr(p.sym.type, "elem", None) for p in kernel.params}
    for name, along in sums.copied:
        t = types.get(name)
        if along and t in (F16, BF16):
            yield name, t


def _clocks(t: Tile, size: Sequence[int], units: int) -> float:
    """How long a device of ``units`` takes for ``size`` (rows, columns, terms) in tiles ``t``: a unit's blocks run one
    after the other as far as they keep it busy, which is what they do beside each other."""
    rows, cols, terms = size
    blocks = -(-rows // t.rows) * -(-cols // t.cols)
    step = t.cols * FILL + t.rows * t.cols * PRODUCTS
    return -(-blocks // max(1, units)) * step * terms + AROUND


def _schedules(kernel: Kernel, sums: Sums, t: Tile, name: str, held: Scalar) -> Iterator[str]:
    """What is tried for one tile, best first: what else is read in the tile's loop lies in shared memory, or not."""
    term, down, across = sums.terms.var.name, sums.down.var.name, sums.across.var.name
    whole, size = f"{term}_tile", _step(sums.terms)
    apart = f" | licm{{loop={term}}} | factor-out{{loop={term}}}"
    tiles = f"tile{{loops={down},{across} sizes={t.rows},{t.cols}}} | tile{{loops={term} sizes={size} tail=exact}}"
    threads = 32 * t.warps[0] * t.warps[1]
    spread = f"map{{{down}.*=[thread.y {threads // 16}, seq] {across}.*=[thread.x 16, seq]}}"
    wide = ACCESS_BYTES // held.bytes
    product = (
        f"register-tile{{loop={whole}}} | {spread} | stage-factors{{loop={whole} type={held}}}"
        f" | tensorize{{loop={term} warps={t.warps[0]},{t.warps[1]} pairs=yes}}"
        f" | stage-shared{{array={name} loop={whole} vec={wide}}} | async-copy{{loop={whole}}}"
    )
    laid = f"pad-shared{{array=factor_s by={wide}}} | swizzle-shared{{array={name}_s}}"
    last = f"multi-buffer{{loop={whole} stages=2}} | {laid}"
    scales = "".join(f" | stage-shared{{array={x} loop={whole}}}" for x in _scales(kernel, sums, name))
    for common in dict.fromkeys((apart, "")):
        for copied in dict.fromkeys((scales, "")):
            yield f"{tiles}{common} | {product}{copied} | {last}"


def _step(terms: For) -> int:
    """Terms of a step: those that share a scale, or a part of them."""
    groups = [n for g in groups_of(terms) if (n := gcd(g, STEP)) >= LEAST]
    return min(groups, default=STEP // 2)


def _scales(kernel: Kernel, sums: Sums, factor: str) -> list[str]:
    """Arrays of floats that the sum reads beside its ``factor``."""
    reads = (a for a in accesses(kernel) if a.mode == "read" and any(y.stmt is sums.terms for y in a.axes))
    floats = (a.buffer.name for a in reads if getattr(getattr(a.buffer.type, "elem", None), "is_float", False))
    return [x for x in dict.fromkeys(floats) if x != factor]


__all__ = ["packed_weights"]
