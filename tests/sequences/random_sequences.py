"""A sequence of two or three launches drawn at random: which kernels, over which buffers, of which sizes.

Launches read what was passed in or what an earlier one wrote, and write a new buffer or one that is there already. What
differs between them is drawn too: the length of a row (a parameter, a number that is passed, a number of the source),
rows and columns that change places, threads of a block, and whether the caller promises that buffers are apart.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ktc.ir.workload import Workload
from tests.passes.launches.sequence_sources import Launch, workload

from .step_kernels import STEPS, THREADS, Step

Pick = Callable[[Sequence[Any]], Any]

LITERALS = (8, 10, 32)
"""Lengths of rows that sources have as numbers."""


LARGEST = 4096
"""Rows and columns that are promised at most: a grid may have one of them along any axis, and an ``int`` has the number
of elements."""


@dataclass(frozen=True)
class Drawn:
    """``kernels``: the source; ``args`` and ``launches`` of the workload, as :func:`workload` takes them. ``literal``:
    the length of a row where it is a number, else 0. ``apart``: buffers that the source of some launch promises to be
    apart from each other (``__restrict__``). ``bounded``: sizes are promised to be at most :data:`LARGEST`."""

    kernels: str
    args: tuple[str, ...]
    launches: tuple[Launch, ...]
    literal: int
    apart: tuple[frozenset[str], ...] = ()
    bounded: bool = False

    def promised(self) -> Drawn:
        """The same with the promises that no two buffers overlap, and of how large sizes are: of sizes that nobody
        bounds, a mutant whose indices are larger would be right as far as anyone asks."""
        apart = tuple(a if a.endswith(" apart") else f"{a} apart" for a in self.args)
        return replace(self, args=apart, bounded=True)

    def work(self, folder: Path) -> Workload:
        """The workload, with its source in ``folder``."""
        sizes = {"rows": 6} if self.literal else {"rows": 6, "d": 10}
        bounds = [f"{n} i32 1,{LARGEST} scalar" for n in sizes] if self.bounded else []
        usual = ", ".join(f"{n} = {v}" for n, v in sizes.items())
        return workload(folder, (*self.args, *bounds), self.launches, usual, self.kernels)

    def __str__(self) -> str:
        lines = [f"{kernel}({passed}) grid {grid} block {block}" for kernel, passed, grid, block in self.launches]
        return "\n".join([*self.args, *lines, self.kernels])


def draw(pick: Pick) -> Drawn:
    """A sequence. It may be of no use: a launch may race, or read what nobody wrote."""
    literal = pick((0, 0, *LITERALS))
    count, promised = pick((2, 2, 3)), pick((True, True, False))
    apart = list[frozenset[str]]()
    written, out = list[str](), "x"
    sources, launches = list[str](), list[Launch]()
    changed, read, unread = set[str](), set[str](), set[str]()
    for k in range(count):
        name = pick(list(STEPS))
        step = STEPS[name]
        there = ["x", *written]
        into = there[-1] if k and pick((True, True, True, False)) else pick(there)
        out = _destination(pick, there, into, step.own, last=k == count - 1)
        unread -= {into}
        if out in unread:  # what nobody has read would be lost, and the launch that wrote it do nothing
            out = f"w{k}"
        unread |= {out}
        text, passed = _length(pick, step.body, literal)
        more = pick((None, None, pick(there)))
        threads = pick(THREADS)
        also = more is not None and step.own
        restrict = pick((False, False, True)) and len({out, into, *([more] if also else [])}) == 2 + also
        sources.append(_source(f"step{k}", text, also, threads, restrict))
        buffers = {"OUT": out, "IN": into} | ({"MORE": more} if also else {})
        grid = _grid(step, passed.get("rows", "rows"), literal or passed.get("d", "d"), threads)
        launches.append((f"step{k}", {**buffers, **passed}, grid, str(threads)))
        changed.add(out)
        read |= {into, *([more] if also else [])}
        apart += [frozenset(buffers.values())] * restrict
        written += [out] if out not in there else []
    shape = f"rows*{literal}" if literal else "rows*d"
    args = [f"{b} f32 {shape} {_role(b, changed, read, out)}{' apart' * promised}" for b in ("x", *written)]
    temporaries = pick((True, True, False))
    args = [a if temporaries or " temp" not in a else a.replace(" temp", " out") for a in args]
    return Drawn("\n".join(sources), tuple(args), tuple(launches), literal, tuple(apart), pick((True, False)))


def single(step: Step) -> Drawn:
    """One launch, from ``x`` to ``z``."""
    threads = THREADS[0]
    source = _source("step0", re.sub(r"\bD\b", "d", step.body), False, threads, False)
    launch = ("step0", {"OUT": "z", "IN": "x"}, _grid(step, "rows", "d", threads), str(threads))
    return Drawn(source, ("x f32 rows*d in", "z f32 rows*d out"), (launch,), 0)


def _grid(step: Step, rows: object, length: object, threads: int) -> str:
    return step.grid.replace("ROWS", str(rows)).replace("D", str(length)).replace("W", str(threads))


def _destination(pick: Pick, there: list[str], into: str, own: bool, last: bool) -> str:
    """A new buffer, what is read itself, or one that is there."""
    new = "z" if last else f"y{len(there)}"
    return str(pick((new, new, new, into if own else new, pick(there))))


def _length(pick: Pick, body: str, literal: int) -> tuple[str, dict[str, object]]:
    """The body, and what is passed for rows and their length: names, numbers, or each for the other."""
    if literal:
        return re.sub(r"\bD\b", str(literal) if pick((True, False)) else "d", body), {"d": literal}
    return re.sub(r"\bD\b", "d", body), pick(({}, {}, {}, {"rows": "d", "d": "rows"}))


def _source(name: str, body: str, more: bool, threads: int, restrict: bool) -> str:
    body = body.replace("[W]", f"[{threads}]")
    if more:
        at = body.rindex("IN[")
        index = body[at + 3 : body.index("]", at)]
        body = f"{body[:at]}7.0f * MORE[{index}] + {body[at:]}"
    star = "*__restrict__" if restrict else "*"
    also = f", const float{star} MORE" if more else ""
    return f"__global__ void {name}(float{star} OUT, const float{star} IN{also}, int rows, int d) {{ {body} }}"


def _role(b: str, changed: set[str], read: set[str], last: str) -> str:
    if b == "x":
        return "inout" if "x" in changed else "in"
    return "temp" if b in read and b != last else "out"


def numbered(seed: object) -> Drawn:
    """The sequence of a seed."""
    return draw(random.Random(f"sequence {seed}").choice)


__all__ = ["Drawn", "draw", "numbered", "single"]
