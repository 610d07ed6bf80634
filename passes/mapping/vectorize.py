"""vectorize: put a vec level in front of a loop's distribution (32- to 128-bit accesses where alignment is known).

before                                     after vectorize{loop=i width=$V}
    par i in 0..n @ [thread.x 256, seq]        par i in 0..n @ [vec $V, thread.x 256, seq]
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.analysis.order import places
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Const as ConstNode
from ktc.ir.nodes import Knob, Level, Var
from ktc.passes.core.argument_kinds import Factor, Loops
from ktc.passes.core.arguments import knob, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import loops
from ktc.passes.core.places import PARALLEL, places_of
from ktc.passes.core.refusals import Refusal, Result
from ktc.passes.core.script import DistSpec, KnobRef, LevelSpec

from .distribute import set_distribution


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the loop")
    width: Factor = knob("V", (1, 2, 4, 8, 16), "elements a vector access moves")


class Vectorize(Pass[Arguments]):
    name = "vectorize"
    summary = "wide accesses along a parallel loop: a vec level in front of its distribution"
    refusals = ("E-PLACE", "E-VEC-TWICE", "E-VEC-MAP")

    def sites(self, kernel: Kernel) -> list[Site]:
        names = places_of(kernel, [s for s in loops(kernel) if _can(s.dist)], PARALLEL)
        return [Site(self.step(loop=n, width=KnobRef("V")), "fewer, wider accesses") for n in names]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        found = args.loop.spread(kernel)
        locs = places(*found)
        if any(s.dist and s.dist[0].kind == "vec" for s in found):
            raise Refusal("E-VEC-TWICE", "the loop has a vec level already", locs)
        maps = {s.dist for s in found}
        spec = _spec(found[0].dist)
        if len(maps) > 1 or spec is None:
            raise Refusal("E-VEC-MAP", "the loops are distributed differently", locs, "use distribute")
        lanes = LevelSpec("vec", args.width.written)
        return set_distribution(kernel, found, DistSpec((lanes, *spec.levels)), owner=self.name)


def _can(dist: tuple[Level, ...]) -> bool:
    return bool(dist) and dist[0].kind in ("thread", "lane") and _spec(dist) is not None


def _spec(dist: tuple[Level, ...]) -> DistSpec | None:
    """A distribution back as pipeline values; None if a size is more than a number, knob or parameter."""
    out = []
    for lv in dist:
        n: int | str | KnobRef | None
        if lv.n is None:
            n = None
        elif isinstance(lv.n, ConstNode):
            n = int(lv.n.value)
        elif isinstance(lv.n, Knob):
            n = KnobRef(lv.n.name)
        elif isinstance(lv.n, Var):
            n = lv.n.sym.name
        else:
            return None
        out.append(LevelSpec(lv.kind, n, lv.axis))
    return DistSpec(tuple(out))
