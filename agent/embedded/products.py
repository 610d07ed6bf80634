"""Ideas for sums of products that tensor cores take: staged, pipelined tiles, by warpgroups and by warps.

The names of loops and factors come from the product itself. Tiles are those at which one instruction's accumulators (a
thread's sums) fill the registers of a thread without spilling; which of them come first follows from the sizes: how
often the device has to be filled with blocks, and how long a block's steps take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from ktc.driver.printing import fragments_of
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.fragments import FRAGMENTS, PANEL, takes
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Load
from ktc.ir.types import BF16, E4M3, E5M2, F16, I32, Scalar
from ktc.passes.lowering.value_facts import ACCESS_BYTES
from ktc.passes.tensor.contractions import Product, products
from ktc.search.target import DeviceInfo

from .thread_products import UNKNOWN_TRIP, results, runs_along

GAIN = 20.0
"""What tensor cores give over one element a thread, to order of magnitude: it only ranks the ideas."""

BEST = 3
"""Tiles proposed: the first by the formula, and two in case that it errs."""
BEHIND = 2
"""Tiles proposed of the slower kind of instruction, for sizes at which no step of the faster kind is whole."""


@dataclass(frozen=True)
class Tile:
    """A block's tile: ``rows`` and ``cols``; ``terms`` of a step, of 16 bits an element and twice as many of bytes;
    ``warps`` (warpgroups) along rows and columns. ``fragment``: columns of the instruction of a warpgroup, 0 for that
    of a warp."""

    rows: int
    cols: int
    terms: int
    warps: tuple[int, int]
    fragment: int = 0

    @property
    def stage_bytes(self) -> int:
        """Shared memory of one step's two factors."""
        return 2 * (self.rows + self.cols) * self.terms


BY_WARPGROUPS = (
    Tile(128, 256, PANEL, (2, 1), 256),
    Tile(192, 192, PANEL, (3, 1), 192),
    Tile(128, 192, PANEL, (2, 1), 192),
    Tile(128, 128, PANEL, (2, 1), 128),
    Tile(64, 256, PANEL, (1, 1), 256),
    Tile(64, 192, PANEL, (1, 1), 192),
    Tile(64, 128, PANEL, (1, 1), 128),
    Tile(64, 64, PANEL, (1, 1), 64),
)
BY_WARPS = (Tile(128, 256, 32, (2, 4)), Tile(128, 128, 32, (2, 2)), Tile(64, 128, 32, (2, 2)), Tile(64, 64, 64, (2, 2)))

MOST_STAGES = {"producer": 8, "threads": 5}
"""Steps in flight, at most, by who copies: a step takes longer than a seventh of the time in which its factors arrive,
and threads that copy are held up by each step more."""

STEP_RATES = (2048.0, 23.5, 3000.0)
"""Products and elements of the factors (16 bits) that a compute unit takes a clock, and clocks that a block needs
before its first and after its last step. Measured on an H100 with the tiles above at 1024, 2048 and 4096 rows: the
order by these is that of the times, but for neighbours within 6 %. Of bytes twice as many are taken."""


def tensor_products(
    raised: Kernel, device: DeviceInfo, facts: Sequence[KernelFacts], applies: Callable[[str], bool]
) -> Iterator[tuple[str, str, float]]:
    """Steps after ``raise`` with why and a guess of the gain, for each product of ``raised`` that ``device`` has an
    instruction for: of each of the best tiles, the best staging that ``applies``."""
    known = fragments_of(device.profile)
    trips = {x.name: x.trip for f in facts for x in f.loops}
    for p in products(raised):
        along = runs_along(raised, p, p.b)
        groups = [t for t in BY_WARPGROUPS if _fits(p, _of_warpgroups(p, t, along), known)]
        warps = list(BY_WARPS) if _fits(p, _of_warps(p, along), known) else []
        kinds = (
            ("warpgroups read shared tiles", GAIN, groups),
            ("warps load fragments from shared tiles", GAIN / 2, warps),
        )
        before = 0
        for why, gain, tiles in kinds:
            found, enough = 0, BEHIND if before else BEST
            for t in sorted(tiles, key=lambda t: clocks(p, t, trips, device.compute_units)):
                waves = _waves(p, t, trips, device.compute_units)
                steps = next(filter(applies, _schedules(raised, p, t, device.shared_per_block, waves)), None)
                if steps is not None:
                    yield steps, f"tensor cores: {why}", gain
                    found += 1
                if found == enough:
                    break
            before += found


def _of_warpgroups(p: Product, t: Tile, along: bool) -> str:
    """The instruction of warpgroups for ``p``, whose second factor lies ``along`` the terms or not; "" if there is
    none: of bytes they read rows along the terms alone, and they convert nothing."""
    if not along and _bytes(p.a) == 1:
        return ""
    return f"m64n{t.fragment}k{32 // _bytes(p.a)}_{_types(p)}"


def _types(p: Product) -> str:
    """The factors' types as names of instructions have them."""
    return "_".join(dict.fromkeys(str(x.type) for x in (p.a, p.b)))


def _of_warps(p: Product, along: bool) -> str:
    """The instruction of warps for ``p``: that of two factors of 8 bits, or of the wider one's type."""
    if _operand_bytes(p) == 1:
        return f"m16n{8 if along else 16}k32_{_types(p)}"
    return f"m16n8k16_{BF16 if BF16 in (p.a.type, p.b.type) else F16}"


def _fits(p: Product, name: str, known: frozenset[str]) -> bool:
    """Whether the device, which has the instructions ``known``, has the one called ``name``, and it takes the factors:
    floats of 8 bits where the device converts them by itself."""
    f = FRAGMENTS.get(name) if name in known else None
    if any(x.type in (E4M3, E5M2) and f"m16n8k32_{x.type}" not in known for x in (p.a, p.b)):
        return False
    return f is not None and p.value.type == f.accumulator and takes(f, p.a.type, p.b.type)


def _bytes(x: Load) -> int:
    """Bytes of an element of the factor ``x``."""
    assert isinstance(x.type, Scalar)
    return x.type.bytes


def _operand_bytes(p: Product) -> int:
    """Bytes of an element as the instruction takes it."""
    return 1 if p.value.type == I32 or p.a.type == p.b.type in (E4M3, E5M2) else 2


def clocks(p: Product, t: Tile, trips: dict[str, int | None], units: int) -> float:
    """How long a device of ``units`` takes for ``p`` in tiles ``t``, in clocks: blocks of a wave run beside each other,
    and each step takes as long as its products, or as its factors take to arrive."""
    product, element, around = STEP_RATES
    step = max(t.rows * t.cols / product, (t.rows + t.cols) / element) * _operand_bytes(p) / 2
    return _waves(p, t, trips, units) * (step * (trips.get(p.loop.var.name) or UNKNOWN_TRIP) + around)


def _waves(p: Product, t: Tile, trips: dict[str, int | None], units: int) -> int:
    """How often a device of ``units`` is filled with blocks, one a unit."""
    sizes = {p.rows.var: t.rows, p.cols.var: t.cols}
    blocks = prod(-(-(trips.get(x.var.name) or UNKNOWN_TRIP) // sizes.get(x.var, 1)) for x in p.around)
    return max(1, -(-blocks // max(1, units)))


def _schedules(kernel: Kernel, p: Product, t: Tile, shared: int, waves: int) -> Iterator[str]:
    """What is tried for one tile, best first, on a device with ``shared`` bytes a block: copies by a producer, results
    stored over a factor's tile; then with fewer of these. As many steps are in flight as memory has room for: over a
    tile of unknown depth no results can be stored.

    Warpgroups take whole steps only; warps take what is left of the terms as well."""
    a, b = p.a.buffer.name, p.b.buffer.name
    term, whole = p.loop.var.name, f"{p.loop.var.name}_tile"
    exact = bool(t.fragment)
    k, terms = (whole, term) if exact else (f"{p.loop.var.stem}_tile.*", f"{p.loop.var.stem}.*")
    order = [x.var.name for x in p.around if x in (p.rows, p.cols)]
    sizes = {p.rows.var.name: t.rows, p.cols.var.name: t.cols}
    terms_ = t.terms * 2 // _operand_bytes(p)
    x_lanes, y_lanes = (ACCESS_BYTES // _bytes(x) for x in (p.a, p.b))
    along = runs_along(kernel, p, p.b)
    fragment = _of_warpgroups(p, t, along) if exact else _of_warps(p, along)
    named = f" fragment={fragment}" if exact or _operand_bytes(p) == 1 else ""
    product = (
        f"tile{{loops={','.join(order)} sizes={','.join(str(sizes[x]) for x in order)}}}"
        f" | tile{{loops={term} sizes={terms_} tail={'exact' if exact else 'cut'}}} | register-tile{{loop={k}}}"
        f" | tensorize{{loop={terms}{named} warps={t.warps[0]},{t.warps[1]} pairs=yes}}"
        f" | stage-shared{{array={a} loop={k} vec={x_lanes}}} | stage-shared{{array={b} loop={k} vec={y_lanes}}}"
        f" | async-copy{{loop={whole}}}"
    )
    panels = f" | panel-shared{{array={b}_s}}" if exact and not along else ""
    swizzles = f"{panels} | swizzle-shared{{array={a}_s}} | swizzle-shared{{array={b}_s}}"
    order_of_blocks = f" | block-swizzle{{loop={order[0]}_tile group=8}}" if waves > 1 else ""
    apart = f" | offset-sums{{loop={terms}}}" if p.offsets else ""
    stored = {x.buffer.name for x in results(kernel, p)}
    stores = [f" | stage-store{{array={c} over={b}_s}}" for c in stored if len(stored) == 1]
    by_producer = [("producer", f" by=producer}}{x}") for x in (*stores, "")] if exact else []
    for who, copied in (*by_producer, ("threads", " slack=1}" if exact else "}")):
        most = max(2, min(MOST_STAGES[who], shared // t.stage_bytes))
        for last in dict.fromkeys((order_of_blocks, "")):
            yield f"{product} | multi-buffer{{loop={whole} stages={most}{copied}{swizzles}{last}{apart}"
