"""distribute: set how a parallel loop is spread over vector lanes, registers, threads, blocks and time.

before                                          after distribute{loop=i map=[vec $V, thread.x $T, unroll $U, seq]}
    par i in 0..d @ [thread.x 256, seq]             par i in 0..d @ [vec $V, thread.x $T, unroll $U, seq]

Iterations are independent, so every complete factorisation is legal; what it needs is stated as constraints on the
knobs (16-byte accesses, 1024 threads) and assumptions on the sizes (whole vectors; the range covered), which the
launcher checks. ``align=32`` counts the iterations of a loop that starts at 1 from 0 instead, and skips those before
its start: the rows of a stencil's interior then start where whole memory transactions do.

The last tile may be beyond the range. ``tail=guard`` asks each iteration; ``tail=cut`` asks once for all iterations of
an ``unroll`` level whether they are in range, and runs them without conditions if so; ``tail=exact`` assumes that they
are, which the launcher checks.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

from ktc.ir.analysis.order import places
from ktc.ir.analysis.uniformity import THREAD_LEVELS
from ktc.ir.fold import KnobValues, evaluate, i32, product, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Const, Dist, Expr, If, Level, Par, Reduce, Sym, Var
from ktc.passes.core.argument_kinds import KnobSpec, Loops
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.distribution_limits import nests
from ktc.passes.core.knobs import POWERS, declared_size
from ktc.passes.core.named_loops import Loop, loops, narrowest_element, replace_loops, with_launch_bounds
from ktc.passes.core.places import PARALLEL, places_of
from ktc.passes.core.refusals import Refusal, Result
from ktc.passes.core.script import DistSpec, KnobRef, LevelSpec
from ktc.passes.shared.distribution_coverage import assume, needed
from ktc.passes.shared.grid_reductions import is_last_act, spans_blocks

from .lane_strides import scalar_accesses

DOMAINS = {
    "vec": (1, 2, 4, 8, 16),
    "unroll": (1, 2, 4, 8),
    "seq": (1, 2, 4, 8, 16),
    "lane": (32,),
    "warp": (1, 2, 4, 8, 16),
    "thread": (32, 64, 128, 256, 512, 1024),
    "block": POWERS,
}
DOCS = {
    "vec": "elements a vector access moves",
    "unroll": "iterations a thread keeps in flight",
    "seq": "iterations a thread runs one after another",
    "lane": "lanes of a warp",
    "warp": "warps of a block",
    "thread": "threads of a block on this axis",
    "block": "blocks of the grid on this axis",
}
MAX_THREADS = 1024
BLOCK = 256
"""Threads of the block that an expert starts with."""

KNOBS = tuple(KnobSpec(kind, domain, DOCS[kind]) for kind, domain in DOMAINS.items())
TAILS = "iterations beyond the range: asked one by one, unrolled rounds apart that are whole, or assumed none"


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the loop")
    map: DistSpec = required("levels, fastest first", knobs=KNOBS)
    tail: Literal["guard", "cut", "exact"] = option("guard", TAILS)
    align: int = option(
        1, "count from a multiple of this and skip what is before the loop's start", code="E-DIST-ALIGN", least=1
    )


class Distribute(Pass[Arguments]):
    name = "distribute"
    summary = "spread a parallel loop over vec, unroll, thread, warp, block and seq levels"
    refusals = (
        "E-PLACE", "E-PLACE-SPMD", "E-DIST-LEVELS", "E-DIST-AXIS", "E-DIST-REDUCE-BLOCK", "E-DIST-COVER",
        "E-DIST-ALIGN", "E-ARG-MISSING",
    )  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        out = []
        for name, found in places_of(kernel, loops(kernel), PARALLEL).items():
            now = [lv for s in found for lv in s.dist]
            blocks = [lv for lv in now if lv.kind == "block"]
            threads = [lv for lv in now if lv.kind in ("thread", "lane")]
            if threads and blocks:
                levels = DistSpec.of("vec $V", f"thread.{threads[0].axis or 'x'} $T", f"block.{blocks[0].axis or 'x'}")
            elif threads:
                levels = DistSpec.of("vec $V", "thread.x $T", "unroll $U", "seq")
            else:
                continue
            out.append(Site(self.step(loop=name, map=levels), "wide accesses, tunable block shape"))
        return out

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        found = args.loop.spread(kernel)
        for loop in found:
            check_levels(loop, args.map)
        if args.align != 1:
            kernel, found = _aligned(kernel, found, args.align)
        done = set_distribution(kernel, found, args.map, tail=args.tail, owner=self.name)
        _check_waiting(done.kernel, {s.var for s in found})
        return done


def _aligned(kernel: Kernel, found: list[Loop], align: int) -> tuple[Kernel, list[Loop]]:
    """The loops from the last multiple of ``align`` before their start, their bodies guarded by the old one."""
    for s in found:
        if isinstance(s, Reduce):
            locs = places(s)
            raise Refusal("E-DIST-ALIGN", f"'{s.var.name}' is a reduction, whose iterations cannot be skipped", locs)
        if not isinstance(s.lo, Const) or s.lo.value < 0:
            raise Refusal("E-DIST-ALIGN", f"where '{s.var.name}' starts is not a known number", places(s))

    def on(s: Loop) -> Loop:
        assert isinstance(s.lo, Const) and isinstance(s, Par)
        start = dataclasses.replace(s.lo, value=int(s.lo.value) // align * align, spelling="")
        if start == s.lo:
            return s
        return dataclasses.replace(s, lo=start, body=(If(Binary(">=", Var(s.var), s.lo), s.body),))

    kernel = replace_loops(kernel, found, on)
    return kernel, [s for s in loops(kernel) if s.var in {f.var for f in found}]


def _check_waiting(kernel: Kernel, changed: set[Sym]) -> None:
    """A reduction may span blocks where nothing else in the loops around it would have to wait for them."""
    for s in loops(kernel):
        if s.var in changed and isinstance(s, Reduce) and spans_blocks(s) and not is_last_act(kernel.body, s):
            why = f"what else the loops around '{s.var.name}' do would have to wait for all blocks of the reduction"
            raise Refusal("E-DIST-REDUCE-BLOCK", why, places(s), "spread it over threads of one block")


def check_levels(loop: Loop, spec: DistSpec) -> None:
    """Well-formed: only the last level open-ended, each hardware axis once."""
    locs = places(loop)
    axes: set[tuple[str, str]] = set()
    for k, lv in enumerate(spec.levels):
        if lv.n is None and (k + 1 < len(spec.levels) or lv.kind not in ("seq", "block", "thread")):
            raise Refusal(
                "E-DIST-LEVELS", f"'{lv.kind}' needs a size here: only a last seq, thread or block level is open", locs
            )
        if lv.kind == "cluster":
            why = f"'{loop.var.name}' cannot be given a cluster level: blocks share copies, not iterations"
            raise Refusal("E-DIST-LEVELS", why, locs, "multi-buffer{by=producer cluster=2} makes clusters of blocks")
        if lv.kind not in DOMAINS:
            raise Refusal("E-DIST-LEVELS", f"unknown level '{lv.kind}'", locs, hint=f"levels: {', '.join(DOMAINS)}")
        if lv.kind in ("thread", "lane", "warp", "block"):
            axis = (
                ("block" if lv.kind == "block" else "thread"),
                {"lane": "x", "warp": "y"}.get(lv.kind, lv.axis or "x"),
            )
            if axis in axes:
                raise Refusal("E-DIST-AXIS", f"{axis[0]} axis {axis[1]} appears twice", locs)
            axes.add(axis)
    if len({lv.kind for lv in spec.levels if lv.kind == "vec"}) and spec.levels[0].kind != "vec":
        raise Refusal("E-DIST-LEVELS", f"vec must be the first (fastest) level of '{loop.var.name}'", locs)


def set_distribution(kernel: Kernel, found: list[Loop], spec: DistSpec, *, owner: str, tail: str = "guard") -> Result:
    """Give ``spec`` to each loop, with the constraints and assumptions it needs."""
    kernel, dist = sized_levels(kernel, found, spec, owner)
    levels = tuple(dataclasses.replace(lv, cut=tail == "cut" and lv.kind == "unroll") for lv in dist)
    kernel, found = with_launch_bounds(kernel, found)
    kernel = replace_loops(kernel, found, lambda s: dataclasses.replace(s, dist=levels))  # type: ignore[arg-type, return-value]
    constraints = [c for c in _constraints(levels) if c not in kernel.constraints]
    spread = {s.var: s for s in loops(kernel)}
    facts = [a for s in found for a in needed(kernel, spread[s.var], levels, tail == "exact")]
    kernel = assume(kernel.with_(constraints=(*kernel.constraints, *constraints)), facts)
    lanes = next((lv.n for lv in levels if lv.kind == "vec" and lv.n is not None), i32(1))
    scalar = () if lanes == i32(1) else (note for s in found for note in scalar_accesses(kernel, s, lanes))
    return Result(kernel, (*(f"{s.var.name}: {len(levels)} levels" for s in found), *scalar))


def sized_levels(kernel: Kernel, found: list[Loop], spec: DistSpec, owner: str) -> tuple[Kernel, Dist]:
    """The levels of ``spec`` for the loops ``found``, and the kernel with the knobs they name declared."""
    dist: list[Level] = []
    for lv in spec.levels:
        n: Expr | None = None
        if lv.n is not None:
            domain = _domain(lv, found)
            wish = _threads(kernel, found, lv, domain) if lv.kind == "thread" else _wish(lv, found)
            kernel, n = declared_size(kernel, lv.n, domain, DOCS[lv.kind], owner, wish)
        axis = (lv.axis or "x") if lv.kind in ("thread", "block", "cluster") else ""
        dist.append(Level(lv.kind, n, axis))
    return kernel, tuple(dist)


def _wish(lv: LevelSpec, found: list[Loop]) -> int | None:
    """Where an expert starts: 16-byte accesses, two of them in flight."""
    return {"vec": _widest(found), "unroll": 2}.get(lv.kind)


def _threads(kernel: Kernel, found: list[Loop], lv: LevelSpec, domain: tuple[int, ...]) -> int | None:
    """Where a number of threads begins that has to be lower than the middle of its domain, as the other loops of the
    nest have threads of the block as well: at most :data:`BLOCK` with what theirs begin with."""
    asked = lv.n.domain if isinstance(lv.n, KnobRef) and lv.n.domain is not None else domain
    spread = {s.var for s in found}
    together = (nest for nest in nests(kernel.body) if any(s.var in spread for s in nest))
    others = {s.var: s for nest in together for s in nest if s.var not in spread}
    levels = (lv.n for s in others.values() for lv in s.dist if lv.kind in THREAD_LEVELS and lv.n is not None)
    begun = KnobValues({k.name: k.default if k.value is None else k.value for k in kernel.knobs})
    taken = math.prod(int(evaluate(n, begun) or 1) for n in levels)
    if taken * asked[len(asked) // 2] <= MAX_THREADS:
        return None
    return max((n for n in asked if taken * n <= BLOCK), default=min(asked))


def _widest(found: list[Loop]) -> int:
    """Lanes of the widest access that each of the loops can make."""
    return min(16 // narrowest_element(s) for s in found)


def _domain(lv: LevelSpec, found: list[Loop]) -> tuple[int, ...]:
    if lv.kind == "vec":
        return tuple(v for v in DOMAINS["vec"] if v <= _widest(found))
    if lv.kind == "thread" and (lv.axis or "x") != "x":
        return (1, 2, 4, 8, 16, 32)
    return DOMAINS[lv.kind]


def _constraints(dist: Dist) -> list[Expr]:
    """Threads of one loop fit a block."""
    threads = [lv.n for lv in dist if lv.kind in ("thread", "lane", "warp") and lv.n is not None]
    total = simplify(product(threads))
    from ktc.ir.walk import knobs_in

    return [Binary("<=", total, i32(MAX_THREADS))] if knobs_in(total) and len(threads) > 1 else []


__all__ = ["Distribute", "check_levels", "set_distribution", "sized_levels"]
