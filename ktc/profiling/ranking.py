"""The kernels of a profile in the order of what a faster one would give the whole program.

Amdahl: a program of W seconds, t of them in one kernel, takes W - t (1 - 1/s) once that kernel is s times as fast. What
can be saved of t is all but the kernel's bound where that is known (:mod:`.kernel_bounds`). Kernels that overlap on
several streams share the time in which the device was busy, in proportion to their own.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from .profile_format import Geometry, Launched, Process, Profile, Shape, Times
from .shape_groups import grouped

GRAPHS = "launches of CUDA graphs"
"""What stands for the kernels of graphs where the clock does not tell them apart."""


@dataclass(frozen=True)
class Ranked:
    """A kernel's part in a program.

    ``launches``: of its own, ``in_graphs``: by graphs, ``unseen``: past the functions that are watched. ``seconds``: of
    the device; ``elapsed``: the part of the program's time that these stand for. ``program``: its seconds, ``device``:
    those of all kernels. ``least``: the bound of all launches together, seconds; None where it is not known.
    """

    symbol: str
    kernel: str
    launched: tuple[Launched, ...]
    launches: int
    in_graphs: int
    unseen: int
    seconds: float
    elapsed: float
    median: float
    program: float
    device: float
    shapes: tuple[Shape, ...]
    source: str = ""
    least: float | None = None
    limiter: str = ""

    @property
    def geometries(self) -> int:
        return len({s.geometry for s in self.shapes})

    @property
    def of_device(self) -> float:
        """Its share of all kernels' time."""
        return self.seconds / self.device if self.device else 0.0

    @property
    def of_program(self) -> float:
        """Its share of the program's time."""
        return self.elapsed / self.program if self.program else 0.0

    @property
    def of_bound(self) -> float | None:
        """bound / time: 1 cannot be improved upon."""
        return None if self.least is None or not self.seconds else min(1.0, self.least / self.seconds)

    def gain(self, times_as_fast: float) -> float:
        """How many times as fast the program would be if the kernel were ``times_as_fast``, or at its bound."""
        return _faster(self.program, min(self.savable, self.elapsed * (1 - 1 / times_as_fast)))

    @property
    def most(self) -> float:
        """How many times as fast the program can become by this kernel alone: at its bound, or at no time at all."""
        return _faster(self.program, self.savable)

    @property
    def savable(self) -> float:
        """Seconds of the program that it can give back at most."""
        return self.elapsed * (1 - (self.of_bound or 0.0))


def _faster(whole: float, less: float) -> float:
    return whole / (whole - less) if less < whole else float("inf")


def ranked(profile: Profile) -> list[Ranked]:
    """Every kernel of ``profile``, the one that can give the program most first."""
    launched: dict[str, list[Launched]] = {}
    graphs: dict[str, Times] = {}
    unseen: dict[str, Times] = {}
    names: dict[str, str] = {}
    shapes: dict[str, list[Shape]] = {}
    for process in profile.processes:
        for f in process.launched:
            launched.setdefault(f.symbol, []).append(f)
            shapes.setdefault(f.symbol, []).extend(grouped(f))
            names[f.symbol] = f.kernel
        for s in process.strays:
            table = graphs if s.in_graph else unseen
            table[s.symbol] = table.get(s.symbol, Times()) + s.times
            shapes[s.symbol] = with_stray(shapes.get(s.symbol, []), s.geometry, s.times)
            names[s.symbol] = s.kernel
        if process.graph_times.count:
            names[GRAPHS] = GRAPHS
            graphs[GRAPHS] = graphs.get(GRAPHS, Times()) + process.graph_times
    rows = []
    device = sum(s.times.total for of in shapes.values() for s in of) + sum_of(graphs, GRAPHS)
    scale = overlap(profile.processes, device)
    for symbol, kernel in names.items():
        own = shapes.get(symbol, [])
        times = sum((s.times for s in own), graphs[GRAPHS] if symbol == GRAPHS else Times())
        launches = sum(f.launches - sum(s.captured for s in f.shapes) for f in launched.get(symbol, ()))
        rows.append(
            Ranked(symbol, kernel, tuple(launched.get(symbol, ())), launches, graphs.get(symbol, Times()).count,
                   unseen.get(symbol, Times()).count, times.total, times.total * scale, median_of(own, times),
                   profile.seconds, device, tuple(sorted(own, key=lambda s: -s.times.total)))
        )  # fmt: skip
    return in_order(rows)


def in_order(rows: Iterable[Ranked]) -> list[Ranked]:
    return sorted(rows, key=lambda r: (-r.savable, -r.launches, r.kernel))


def with_bound(row: Ranked, source: str, least: float | None, limiter: str) -> Ranked:
    return replace(row, source=source, least=least, limiter=limiter)


def with_stray(shapes: list[Shape], geometry: Geometry, times: Times) -> list[Shape]:
    """``shapes`` with the ``times`` of launches of which only the geometry is known: those of the one shape that a
    graph recorded with it, else of a shape without arguments."""
    same = [i for i, s in enumerate(shapes) if _alike(s.geometry, geometry) and s.captured]
    if len(same) == 1:
        at = same[0]
        return [*shapes[:at], replace(shapes[at], times=shapes[at].times + times), *shapes[at + 1 :]]
    return [*shapes, Shape(geometry, 0, 0, b"", (), times, others=True)]


def _alike(a: Geometry, b: Geometry) -> bool:
    """Whether a launch of ``a`` can be what the device reports as ``b``, which says nothing of clusters."""
    return (a.grid, a.block, a.shared) == (b.grid, b.block, b.shared)


def sum_of(times: Mapping[str, Times], name: str) -> float:
    return times.get(name, Times()).total


def overlap(processes: Iterable[Process], device: float) -> float:
    """By how much kernels' own times exceed the time in which the device was busy with them: what to scale them by."""
    busy = sum(p.busy for p in processes)
    return min(1.0, busy / device) if busy and device else 1.0


def median_of(shapes: Iterable[Shape], times: Times) -> float:
    """The median time of a launch: of the samples, each weighted by the launches that it stands for."""
    weighted = [(t, s.times.count / len(s.times.kept)) for s in shapes for t in s.times.kept]
    if not weighted:
        return statistics.median(times.kept) if times.kept else 0.0
    weighted.sort()
    half, seen = sum(w for _, w in weighted) / 2, 0.0
    for t, w in weighted:
        seen += w
        if seen >= half:
            return t
    return weighted[-1][0]
