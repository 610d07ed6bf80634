"""Ideas for products of 16-bit floats and weights in few bits, on tensor cores.

What a weight is made of its bits is a whole number, which 16 bits hold exactly: the block unpacks each once, as an
element of a table (``stage-factors``), and warps multiply that. What a group of terms has in common, its scale, is
multiplied after the group's sum, so that nothing is rounded that the source does not round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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

from ..grouped_sums import groups_of
from ..nest_shapes import Idea
from ..thread_products import UNKNOWN_TRIP
from .computed_factors import Sums, sums_of_factors

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

STAGES, WORD = 3, 4
"""Steps that copies are ahead, with the one at work, and bytes that an asynchronous copy moves at least."""

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
        reads = _reads(raised, sums)
        halves = [x for x, along in sums.copied if along and reads.get(x) in (F16, BF16)]
        if len(halves) != 1:
            continue
        size = tuple(trips.get(x.var.name) or UNKNOWN_TRIP for x in (sums.down, sums.across, sums.terms))
        plan, found = _Plan(sums, reads, halves[0], able), 0
        for t in sorted(TILES, key=lambda t: _clocks(t, size, device.compute_units)):
            steps = next(filter(able, plan.schedules(t)), None)
            if steps is not None:
                yield steps, "tensor cores: weights are unpacked once a block, scales are multiplied after sums", GAIN
                found += 1
            if found == TRIED:
                break


def _clocks(t: Tile, size: Sequence[int], units: int) -> float:
    """How long a device of ``units`` takes for ``size`` (rows, columns, terms) in tiles ``t``: a unit's blocks run one
    after the other as far as they keep it busy, which is what they do beside each other."""
    rows, cols, terms = size
    blocks = -(-rows // t.rows) * -(-cols // t.cols)
    step = t.cols * FILL + t.rows * t.cols * PRODUCTS
    return -(-blocks // max(1, units)) * step * terms + AROUND


class _Plan:
    """Schedules of one sum: what its copies are is asked at the first tile, and taken to be that of the others."""

    def __init__(self, sums: Sums, reads: Mapping[str, Scalar], name: str, able: Callable[[str], bool]) -> None:
        """``reads``: the arrays of numbers that the sum reads; ``name``: its factor of 16 bits, which lies as it is."""
        self.sums, self.name, self.held, self._able = sums, name, reads[name], able
        self.whole = f"{sums.terms.var.name}_tile"
        self.words = {x: e for x, e in reads.items() if not e.is_float}
        self.scales = {x: e for x, e in reads.items() if e.is_float and x != name}
        self._copies: tuple[str, str, str] | None = None
        self._apart = ""

    def schedules(self, t: Tile) -> Iterator[str]:
        """What is tried for one tile, best first: all that a step reads is copied steps ahead; or words are read as
        they are unpacked."""
        if self._copies is None:
            term = self.sums.terms.var.name
            apart = (f" | licm{{loop={term}}} | factor-out{{loop={term}}}", f" | factor-out{{loop={term}}}")
            self._apart = next((x for x in apart if self._able(self._before(t, x) + self._product(t))), "")
        before, product = self._before(t, self._apart), self._product(t)
        if self._copies is None:
            self._copies = self._found(before, product)
        words, scales, rest = self._copies
        wide, ahead = ACCESS_BYTES // self.held.bytes, f" | async-copy{{loop={self.whole}}}"
        laid = f"pad-shared{{array=factor_s by={wide}}} | swizzle-shared{{array={self.name}_s}}"
        for copied in dict.fromkeys((words, "")):
            for scaled in dict.fromkeys((scales + ahead + rest, ahead)):
                yield f"{before}{copied}{product}{scaled} | multi-buffer{{loop={self.whole} stages={STAGES}}} | {laid}"

    def _before(self, t: Tile, apart: str) -> str:
        """``apart``: steps by which what terms share is multiplied after their sum, if they share anything."""
        down, across, term = (x.var.name for x in (self.sums.down, self.sums.across, self.sums.terms))
        threads = 32 * t.warps[0] * t.warps[1]
        return (
            f"tile{{loops={down},{across} sizes={t.rows},{t.cols}}}"
            f" | tile{{loops={term} sizes={_step(self.sums.terms)} tail=exact}}"
            f"{apart} | register-tile{{loop={self.whole}}}"
            f" | map{{{down}.*=[thread.y {threads // 16}, seq] {across}.*=[thread.x 16, seq]}}"
        )

    def _product(self, t: Tile) -> str:
        return (
            f" | stage-factors{{loop={self.whole} type={self.held}}}"
            f" | tensorize{{loop={self.sums.terms.var.name} warps={t.warps[0]},{t.warps[1]} pairs=yes}}"
            f" | stage-shared{{array={self.name} loop={self.whole} vec={ACCESS_BYTES // self.held.bytes}}}"
        )

    def _found(self, before: str, product: str) -> tuple[str, str, str]:
        """Copies of words, of scales that go past registers, and of other scales."""
        words = self._copied(self.words, lambda steps: f"{before}{steps}{product}")
        scales = self._copied(self.scales, lambda steps: f"{before}{words}{product}{steps}")
        rest = (x for x in self.scales if f"{{array={x} " not in scales)
        return words, scales, "".join(f" | stage-shared{{array={x} loop={self.whole}}}" for x in rest)

    def _copied(self, arrays: Mapping[str, Scalar], script: Callable[[str], str]) -> str:
        """Steps that copy ``arrays``, each by accesses as wide as can be, of a word at least."""
        steps = ""
        for x, e in arrays.items():
            lanes = [n for n in (width // e.bytes for width in (ACCESS_BYTES, ACCESS_BYTES // 2, WORD)) if n]
            tried = (f" | stage-shared{{array={x} loop={self.whole}{f' vec={n}' if n > 1 else ''}}}" for n in lanes)
            steps += next((s for s in tried if self._able(script(steps + s))), "")
        return steps


def _step(terms: For) -> int:
    """Terms of a step: those that share a scale, or a part of them."""
    groups = [n for g in groups_of(terms) if (n := gcd(g, STEP)) >= LEAST]
    return min(groups, default=STEP // 2)


def _reads(kernel: Kernel, sums: Sums) -> dict[str, Scalar]:
    """The arrays of numbers that a sum reads, with the types of their elements."""
    reads = (a for a in accesses(kernel) if a.mode == "read" and any(y.stmt is sums.terms for y in a.axes))
    types = ((a.buffer.name, getattr(a.buffer.type, "elem", None)) for a in reads)
    return {x: e for x, e in types if isinstance(e, Scalar)}


__all__ = ["packed_weights"]
