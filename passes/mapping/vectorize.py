"""vectorize: put a vec level in front of a loop's distribution (32- to 128-bit accesses where alignment is known).

before                                     after vectorize{loop=i width=$V}
    par i in 0..n @ [thread.x 256, seq]        par i in 0..n @ [vec $V, thread.x 256, seq]
"""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.analysis.order import places
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Const as ConstNode
from ktc.ir.nodes import Knob, Level, Var
from ktc.passes.core.base import Arg, DistSpec, KnobRef, LevelSpec, ParamSpec, Pass, Refused, Result, Site
from ktc.passes.core.named_loops import find_loops, loops
from ktc.passes.core.places import PARALLEL, places_of

from .distribute import set_distribution


class Vectorize(Pass):
    name = "vectorize"
    summary = "wide accesses along a parallel loop: a vec level in front of its distribution"
    params = (
        ParamSpec("loop", "a parallel loop, several, or i.* for all called i", required=True),
        ParamSpec("width", "elements an access", default="$V"),
    )
    knobs = ("V: 1,2,4,8,16: elements a vector access moves",)
    refusals = ("E-PLACE", "E-VEC-TWICE", "E-VEC-MAP")

    def sites(self, kernel: Kernel) -> list[Site]:
        names = places_of(kernel, [s for s in loops(kernel) if _can(s.dist)], PARALLEL)
        return [Site(f"vectorize{{loop={n} width=$V}}", "fewer, wider accesses") for n in names]

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        found = find_loops(kernel, args["loop"])
        if isinstance(found, Refused):
            return found
        locs = places(*found)
        if any(s.dist and s.dist[0].kind == "vec" for s in found):
            return Refused("E-VEC-TWICE", "the loop has a vec level already", locs)
        maps = {s.dist for s in found}
        spec = _spec(found[0].dist)
        if len(maps) > 1 or spec is None:
            return Refused("E-VEC-MAP", "the loops are distributed differently", locs, "use distribute")
        width = args.get("width", KnobRef("V"))
        if not isinstance(width, int | KnobRef):
            return Refused("E-ARG-TYPE", "width is a number or a knob")
        return set_distribution(kernel, found, DistSpec((LevelSpec("vec", width), *spec.levels)), owner=self.name)


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
