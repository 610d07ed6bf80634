"""Ideas for convolutions of 16-bit elements as products on tensor cores: pixels by taps and channels.

All pixels are one loop, and so are steps through taps and channels. A step's tile of either factor is gathered in
shared memory, zeros beyond edges, some steps ahead: the product of the tiles is then one of any two matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod

from ktc.driver.printing import fragments_of
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.arith.affine import is_unit_stride
from ktc.ir.arith.counted_loops import counting
from ktc.ir.fold import evaluate
from ktc.ir.fragments import PANEL
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Const, For, Par
from ktc.ir.types import I32
from ktc.ir.walk import walk
from ktc.passes.core.catalogue import PASSES
from ktc.passes.core.places import find_loop, place_of
from ktc.passes.core.refusals import Refused
from ktc.search.target import DeviceInfo

from ..nest_shapes import Idea
from ..products import BY_WARPGROUPS, BY_WARPS, MOST_STAGES, STEP_RATES, Tile
from ..trials import after, counting_on_multiples
from .gathered_products import GatheredProduct, gathered_products

GAIN = 18.0
"""Nearly as of products of matrices as they lie: it only ranks the ideas."""

TRIED = 2
"""Tiles proposed of each kind of instruction."""

SLOWER = 2.0
"""Clocks that warps take for a product, in those of warpgroups."""

LEAST = 16
"""Terms of a step, at least: as many as an instruction takes."""

BY_GROUPS = (Tile(256, 64, PANEL, (4, 1), 64), Tile(128, 64, PANEL, (2, 1), 64), *BY_WARPGROUPS)
"""Tiles of warpgroups: layers of 64 channels have many pixels."""

WIDTHS = (8, 4, 2, 1)
"""Elements that a copy takes at once; asynchronous ones take two of 16 bits at least."""

WHY = "tensor cores: sums over taps as one product, its tiles gathered in shared memory"


def implicit_products(
    raised: Kernel, device: DeviceInfo, facts: Sequence[KernelFacts], able: Callable[[str], bool]
) -> Iterator[Idea]:
    """Steps after ``raise`` with why and a guess of the gain; ``able`` says whether steps can be lowered."""
    known = fragments_of(device.profile)
    before, kernel = _plain(raised)
    for found in gathered_products(kernel):
        plan = _Plan(raised, before, _nest(kernel, found, facts), found, facts)
        for tiles, rate in ((BY_GROUPS, 1.0), (BY_WARPS, SLOWER)):
            fits = [t for t in tiles if plan.instruction(t) in known and plan.step(t) and plan.is_used(t)]
            fits.sort(key=lambda t, p=plan, r=rate: p.clocks(t, device.compute_units, r))  # type: ignore[misc]
            ideas = (next(filter(able, plan.schedules(t, device.shared_per_block)), None) for t in fits)
            for _, steps in zip(range(TRIED), (x for x in ideas if x is not None)):
                yield steps, WHY, GAIN / rate


def _plain(raised: Kernel) -> tuple[str, Kernel]:
    """``raised`` with zeros for what conditions leave out of sums, where that can be, and counting in 32 bits."""
    before, kernel = "", raised
    zeros = (str(site.step) for site in PASSES["zero-terms"].sites(raised))
    counts = [] if all(s.var.type == I32 for s in walk(raised.body) if isinstance(s, Par)) else ["narrow-index"]
    for step in (*zeros, *counts):
        done = after(kernel, step)
        if done is not None:
            before, kernel = f"{before}{step} | ", done
    return before, kernel


@dataclass(frozen=True)
class _Nest:
    """The loops that are left once each side of a product is one loop, and the steps that lead there.

    ``outer``: the loops around the one through ``inner`` terms, which join steps of it; none where all terms are one
    loop. ``sizes``: rows, columns, terms and the batch, at the sizes that have most of them.
    """

    steps: str
    batch: str
    rows: str
    cols: str
    outer: tuple[str, ...]
    inner: str
    sizes: tuple[int, int, int, int]

    @property
    def joint(self) -> str:
        """The loop over steps."""
        return "_".join((*self.outer, f"{self.inner}_tile"))


def _nest(kernel: Kernel, found: GatheredProduct, facts: Sequence[KernelFacts]) -> _Nest:
    """How the loops of ``found`` become one for each side."""
    loops: tuple[Par | For, ...] = (*found.around, *found.terms)
    names = {s.var: place_of(kernel, s) for s in loops}
    trips = [{x.name: x.trip or 1 for x in f.loops} for f in facts]
    steps, order, wanted = "", list(found.around), [p.var for p in found.ordered]
    for _ in order:  # neighbours change places until the order is the one that is wanted
        for k in range(len(order) - 1):
            a, b = order[k : k + 2]
            if wanted.index(a.var) > wanted.index(b.var):
                steps += f"interchange{{outer={names[a.var]} inner={names[b.var]}}} | "
                order[k : k + 2] = b, a
    joined, sizes = [], []
    serial = found.terms
    last = serial[-1].var
    apart = all(t.get(names[last], 1) >= LEAST for t in trips) and any(
        is_unit_stride(f.load.index[0], last) for f in found.factors
    )
    for together in (found.batch, *found.in_order, () if apart else serial):
        mine = [names[p.var] for p in together]
        steps += f"linearise{{loops={','.join(mine)}}} | " if len(mine) > 1 else ""
        joined.append("_".join(mine))
    for every in (*found.in_order, serial, found.batch):
        sizes.append(max(prod(t.get(names[p.var], 1) for p in every) for t in trips))
    batch, rows, cols, terms = joined
    outer = tuple(names[s.var] for s in serial[:-1]) if apart else ()
    return _Nest(steps, batch, rows, cols, outer, names[last] if apart else terms, tuple(sizes))  # type: ignore[arg-type]


class _Plan:
    """Schedules of one sum: how wide copies are is asked at the first tile, and taken to be so for the others."""

    def __init__(
        self, raised: Kernel, before: str, nest: _Nest, found: GatheredProduct, facts: Sequence[KernelFacts]
    ) -> None:
        self.raised, self.before, self.nest, self.found, self.facts = raised, before, nest, found, facts
        self._widths: list[tuple[str, int]] = []

    def instruction(self, t: Tile) -> str:
        """The instruction of ``t`` for the factors' elements."""
        types = "_".join(dict.fromkeys(str(f.load.type) for f in self.found.factors))
        return f"m64n{t.fragment}k16_{types}" if t.fragment else f"m16n8k16_{types}"

    def step(self, t: Tile) -> int:
        """Terms of a step of ``t``: a number that divides those that there are at all sizes; 0 if there is none."""
        loops = self.found.terms[-1:] if self.nest.outer else self.found.terms
        ends = [form.hi for s in loops if (form := counting(s)) is not None]
        sizes = [{n: v for n, v in f.sizes.items() if isinstance(v, int)} for f in self.facts]
        counts = [prod(int(evaluate(e, each) or 0) for e in ends) for each in sizes]
        step = gcd(t.terms, *counts)
        return step if step == t.terms or (step >= LEAST and not t.fragment) else 0

    def is_used(self, t: Tile) -> bool:
        """Whether more than half of ``t`` has results in it, or there is nothing smaller."""
        rows, cols, *_ = self.nest.sizes
        return t.rows < 2 * max(rows, 64) and t.cols < 2 * max(cols, 64)

    def clocks(self, t: Tile, units: int, rate: float) -> float:
        """How long a device of ``units`` takes in tiles ``t``, in clocks, as products of matrices as they lie do;
        ``rate``: clocks that a product takes in those of the faster kind of instruction."""
        rows, cols, terms, batch = self.nest.sizes
        multiply, element, around = STEP_RATES
        step = max(t.rows * t.cols * rate / multiply, (t.rows + t.cols) / element)
        blocks = batch * -(-rows // t.rows) * -(-cols // t.cols)
        return max(1, -(-blocks // max(1, units))) * (step * terms + around)

    def schedules(self, t: Tile, shared: int) -> Iterator[str]:
        """What is tried for one tile, best first: copies as many steps ahead as there is room for."""
        n, step = self.nest, self.step(t)
        threads = 32 * (4 if t.fragment else 1) * t.warps[0] * t.warps[1]
        joined = f" | linearise{{loops={','.join((*n.outer, f'{n.inner}_tile'))}}}" * bool(n.outer)
        tiles = (
            f"{self.before}{n.steps}{self._whole(step)}tile{{loops={n.rows},{n.cols} sizes={t.rows},{t.cols}}}"
            f" | tile{{loops={n.inner} sizes={step} tail=exact}}{joined} | register-tile{{loop={n.joint}}}"
        )
        tiled = after(self.raised, tiles)
        if tiled is None:
            return
        rows, cols = (_pieces(tiled, x) for x in (n.rows, n.cols))
        blocks = f"{n.rows}_tile=[block.x] {n.cols}_tile=[block.y]{f' {n.batch}=[block.z]' * bool(n.batch)}"
        tiles += f" | map{{{rows}=[thread.y {threads // 16}, seq] {cols}=[thread.x 16, seq] {blocks}}}"
        self._widths = self._widths or self._found(tiles)
        gathered = "".join(_gathered(a, n.joint, width) for a, width in self._widths)
        named = f" fragment={self.instruction(t)}" if t.fragment else ""
        tensor = f" | tensorize{{loop={n.inner} {named} warps={t.warps[0]},{t.warps[1]} pairs=yes}}".replace("  ", " ")
        first, second = (f.load.buffer.name for f in self.found.factors)
        swizzled = f" | swizzle-shared{{array={first}_s}} | swizzle-shared{{array={second}_s}}"
        panels = [f" | panel-shared{{array={x}_s}}" for x in (second, first)] if t.fragment else []
        stages = max(2, min(MOST_STAGES["threads"], shared // (t.stage_bytes * step // t.terms)))
        for ahead in self._ahead(stages, bool(t.fragment)):
            for panel in ("", *panels):
                yield f"{tiles}{gathered}{tensor}{ahead}{panel}{swizzled} | launch-bounds{{blocks=$M:(1,2)}}"

    def _ahead(self, stages: int, rests: bool) -> Iterator[str]:
        """How copies come before they are needed; ``rests``: whether what reads a tile outlasts its round."""
        loop = self.nest.joint
        if all(width > 1 for _, width in self._widths):
            slack = " slack=1" if rests and stages > 2 else ""
            yield f" | async-copy{{loop={loop}}} | multi-buffer{{loop={loop} stages={stages}{slack}}}"
        else:
            yield f" | multi-buffer{{loop={loop} stages=2}} | prefetch{{loop={loop}}}"
            yield f" | multi-buffer{{loop={loop} stages=2}}"

    def _whole(self, step: int) -> str:
        """The step that counts on terms to be whole steps."""
        loops = self.found.terms[-1:] if self.nest.outer else self.found.terms
        ends = [form.hi for s in loops if (form := counting(s)) is not None]
        for e in ends:
            if isinstance(e, Const):
                step //= gcd(step, int(e.value))
        return counting_on_multiples([(e, step) for e in ends if not isinstance(e, Const)][:1], self.facts)

    def _found(self, tiles: str) -> list[tuple[str, int]]:
        """Each factor's array with how many elements its copies take at once: the most that all sizes allow."""
        out: list[tuple[str, int]] = []
        for f in self.found.factors:
            steps = tiles + "".join(_gathered(a, self.nest.joint, width) for a, width in out)
            name = f.load.buffer.name
            out.append((name, next((n for n in WIDTHS if self._holds(steps + _gathered(name, self.nest.joint, n))), 1)))
        return out

    def _holds(self, steps: str) -> bool:
        """Whether ``steps`` apply, and what they count on holds at all sizes."""
        done = after(self.raised, steps)
        sizes = [{n: v for n, v in f.sizes.items() if isinstance(v, int)} for f in self.facts]
        return done is not None and not any(
            evaluate(a.expr, each) in (False, 0) for a in done.assumptions for each in sizes
        )


def _pieces(kernel: Kernel, loop: str) -> str:
    """What a script calls all loops over a tile of ``loop`` together."""
    found = find_loop(kernel, loop)
    return loop if isinstance(found, Refused) else f"{found.var.stem}.*"


def _gathered(array: str, loop: str, width: int) -> str:
    return f" | stage-gathered{{array={array} loop={loop}{f' vec={width}' if width > 1 else ''}}}"


__all__ = ["implicit_products"]
