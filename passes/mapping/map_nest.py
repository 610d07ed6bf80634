"""map: the levels of several loops of a nest, set at once.

before                                          after map{token=[block.x] c=[vec 8, thread.x $T, seq]}
    par token in 0..n @ [thread.x 256, block.x]     par token in 0..n @ [block.x]
      for c = 0; c < width; c + 1                     par c in 0..width @ [vec 8, thread.x $T, seq]
        out[token * width + c] = ...                    out[token * width + c] = ...

Moving threads from one loop to another takes two steps of ``distribute`` and ``parallelize``, and between them the nest
may be one that no launch can run: an axis used twice, blocks of too many threads. Here only what comes out is judged.
Every loop named keeps its own rules: a parallel one may be spread in any way (``distribute``), a serial one becomes
parallel where its iterations are independent or only add up (``parallelize``). Loops that are not named keep their
levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import For, Par, Sym
from ktc.ir.walk import walk
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import option, rest
from ktc.passes.core.base import Arg, Pass, Site
from ktc.passes.core.distribution_limits import unsound_distribution
from ktc.passes.core.named_loops import Loop, loops
from ktc.passes.core.places import SERIAL, place_of, places_of
from ktc.passes.core.refusals import Refusal, Result, allowed, attempted
from ktc.passes.core.script import DistSpec, Step

from .distribute import KNOBS, TAILS, check_levels, set_distribution
from .parallelize import reassociated, serial, spread


@dataclass(frozen=True)
class Arguments:
    nest: tuple[tuple[str, Arg], ...] = rest("loop=levels, of each loop that changes", knobs=KNOBS)
    tail: Literal["guard", "cut", "exact"] = option("guard", TAILS)


class MapNest(Pass[Arguments]):
    name = "map"
    summary = "the levels of several loops of a nest at once; serial ones become parallel"
    refusals = (
        "E-PLACE", "E-PLACE-SPMD", "E-ARG-MISSING", "E-MAP-LEVELS", "E-MAP-TWICE", "E-DIST-LEVELS", "E-DIST-AXIS",
        "E-DIST-NEST", "E-DIST-COVER", "E-PARALLEL-LOOP", "E-PARALLEL-CARRIED",
    )  # fmt: skip
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        doc = "blocks take the outer loop, the threads of a block what each of its iterations went through alone"
        return [Site(step, doc) for outer in loops(kernel) if (step := self._lanes_inside(kernel, outer)) is not None]

    def _lanes_inside(self, kernel: Kernel, outer: Loop) -> Step | None:
        """The step that takes the threads of ``outer`` for the serial loops inside it, if it has both."""
        if not isinstance(outer, Par) or not any(lv.kind == "thread" for lv in outer.dist):
            return None
        inside = [s for s in serial(kernel) if any(s is x for x in walk(outer.body))]
        named = places_of(kernel, inside, SERIAL)
        able = [n for n in named if allowed(spread, kernel, Loops(n))]
        if not able:
            return None
        for levels in (DistSpec.of("vec $V", "thread.x $T", "seq"), DistSpec.of("thread.x $T", "seq")):
            nest: dict[str, Arg] = {place_of(kernel, outer): DistSpec.of("block.x"), **dict.fromkeys(able, levels)}
            done = attempted(self.apply, kernel, Arguments(nest=tuple(nest.items())))
            if isinstance(done, Result) and unsound_distribution(done.kernel) is None:
                return self.step(**nest)
        return None

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        if not args.nest:
            raise Refusal("E-ARG-MISSING", "map names no loop", hint="map{row=[block.x] c=[thread.x $T, seq]}")
        chosen: list[tuple[set[Sym], DistSpec]] = []
        for name, levels in args.nest:
            if not isinstance(levels, DistSpec):
                raise Refusal("E-MAP-LEVELS", f"'{name}' wants a list of levels", hint=f"{name}=[thread.x $T, seq]")
            kernel, variables = parallel(kernel, Loops(name))
            twice = next((v for seen, _ in chosen for v in seen & variables), None)
            if twice is not None:
                raise Refusal("E-MAP-TWICE", f"'{twice.name}' is given levels twice", hint="name each loop once")
            chosen.append((variables, levels))
        notes: list[str] = []
        for variables, levels in chosen:
            found = [s for s in loops(kernel) if s.var in variables]
            for s in found:
                check_levels(s, levels)
            done = set_distribution(kernel, found, levels, owner=self.name, tail=args.tail)
            kernel, notes = done.kernel, [*notes, *done.notes]
        new = [s for s in loops(kernel) if any(s.var in variables for variables, _ in chosen)]
        return Result(kernel.with_(flags=kernel.flags | reassociated(new)), tuple(notes))


def parallel(kernel: Kernel, named: Loops) -> tuple[Kernel, set[Sym]]:
    """``kernel`` with the serial ones of the loops ``named`` so parallel, and the variables of them all.

    Raises:
        Refusal: there is none; one cannot be parallel.
    """
    found = named.find(kernel)
    variables = {s.var for s in found if not isinstance(s, For)}
    names = tuple(place_of(kernel, s) for s in found if isinstance(s, For))
    if names:
        kernel, made = spread(kernel, Loops(names))
        variables |= {s.var for s in made}
    return kernel, variables
