"""What a kernel is called with: sizes, launch, shapes and contents of its buffers, scenarios."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from ktc.ir.inputs import numpy_dtype
from ktc.ir.kernel import Kernel, Param
from ktc.ir.types import scalar_of
from ktc.ir.workload import LaunchSpec

from .contents import FEW, Content, contents_of, scattering, values_of
from .launches import guessed, needs_launch
from .probe import Fill, Prober, Seen
from .roles import Roles, buffers_of, definitions, roles_of
from .scenarios import TARGETS, Work, grown, work_of
from .shapes import Extent, fit
from .strides import inner_first
from .windows import names_in, windows

STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

MOST_TIES, TIES_WORK = 4, 120_000
"""How many integers are tied to others, and what may be spent on it (``RunResult.work``; 10,000 are about a second)."""

MOST_SIZE = 1 << 30
"""No size is said to be larger."""

COARSEST = (16, 8, 4, 2, 1)
"""What sizes are multiples of at most, in the probes of kernels whose loops are long."""

LEAST = (1, 2, 3, 4, 5, 8, 16, 32)
"""What the least value of a size is looked for among: a border of the grid needs some width."""


@dataclass
class Draft:
    """What was found out about a kernel's calls.

    ``doubts`` are for the author to look at; ``ties`` are integers that are no size of their own: what they equal, in
    sizes, or a number. ``limits``: how many values an index buffer may hold, where that is a number. ``positive``: with
    numbers of both signs some results are no numbers.
    """

    kernel: Kernel
    roles: Roles
    launch: LaunchSpec | None = None
    contents: list[Content] = field(default_factory=list)
    ties: dict[str, str | int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    positive: bool = False
    shapes: dict[str, Extent | None] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    scenarios: list[tuple[str, dict[str, int], str]] = field(default_factory=list)  # name, sizes, more
    work: float = 0.0  # of all probes of its shapes
    doubts: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The sizes that scenarios give."""
        return [n for n in (*(c.name for c in self.contents), *self.roles.sizes) if n not in self.ties]

    def tied(self, name: str) -> str | int | None:
        """What the parameter ``name`` is in the sizes of the scenarios; None for one that is not tied."""
        text = self.ties.get(name, self.roles.tied.get(name))
        if text is None or isinstance(text, int):
            return text
        inner = {n: self.tied(n) for n in names_in(text)}
        return re.sub(r"[A-Za-z_]\w*", lambda m: m[0] if inner[m[0]] is None else f"({inner[m[0]]})", text)

    @property
    def constants(self) -> list[str]:
        """Parameters that got a number, to be looked at."""
        return [n for n, v in self.ties.items() if isinstance(v, int) and n not in self.limits]

    def elements(self, sizes: Mapping[str, int], unknown: int = 1 << 16) -> dict[str, int]:
        """Elements of each buffer at ``sizes``."""
        return {b: e.value(sizes) if e is not None else unknown for b, e in self.shapes.items()}


def draft(k: Kernel) -> Draft:
    """Everything that a workload says about ``k``, guessed and, where that is possible, confirmed by running it."""
    spec, why = None, needs_launch(k)
    if why:
        k, spec = guessed(k)
    d = Draft(k, roles_of(k), spec, doubts=[f"the launch: {why}"] if why else [])
    probe, first = _first_looks(d)
    if not first:
        d.doubts.append("shapes and sizes: the kernel could not be run in the interpreter")
    d.contents = contents_of(k, probe, first)
    d.limits = {c.name: n for c in d.contents if c.kind == "index" and (n := values_of(k, c.buffer)) <= FEW}
    d.ties, d.shapes, seen = _apart(d, _tied(d))
    d.shapes = _by_strides(d)
    probe = Prober(k, d.roles, d.ties)
    for b, span in ((b, s.reach[b]) for s in seen[:1] for b in s.reach):
        if span[0] < 0:
            d.doubts.append(f"{b}: read before its first element")
    _confirm(d, probe, seen)
    d.positive = _needs_positive(d, probe, seen)
    _scenarios(d, probe, seen)
    return d


def _first_looks(d: Draft) -> tuple[Prober, list[Seen]]:
    """What is seen at the usual sizes or, where the kernel does not end soon at those, at smaller ones."""
    for coarsest in (d.roles.coarsest, *COARSEST):
        d.roles = replace(d.roles, coarsest=coarsest)
        probe = Prober(d.kernel, d.roles)
        first = [s for r in probe.sizes() if (s := probe.look(r))]
        if first or not probe.endless:
            break
    return probe, first


# ------------------------------------------------------------------------------------------------------------- shapes


Found = tuple[dict[str, "str | int"], dict[str, "Extent | None"], list[Seen]]


def _tied(d: Draft) -> Found:
    """Shapes that explain the probes: of independent sizes if that is possible, else with integers tied to others.

    A row's stride is its length, a grid of rows the number of rows, a label less than the number of classes:
    independent numbers for those fit no shape.
    """
    best = _fitted(d, {**d.limits, **{c.name: c.within for c in d.contents if c.within}})
    touched = _touched(best)
    end = d.work + TIES_WORK
    for _ in range(MOST_TIES):
        before = best
        for ties in _ties(d, before[0]):
            if not best[2] or d.work > end or not _badness(best[1]):
                return best
            if not _misfits(best[1]) and not _by_threads(ties):
                continue
            found = _fitted(d, ties)
            idle = len(touched - _touched(found))  # no rows, no sums: that fits anything
            if found[2] and _badness(found[1]) + 2 * idle < _badness(best[1]):
                best = found
        if best is before:
            break
    return best


def _apart(d: Draft, found: Found) -> Found:
    """``found``, with as many values as elements for indices that plain stores go to, or as many blocks where a value
    is a place in a block: threads write places of their own."""
    ties, shapes, seen = found
    scattered = scattering(d.kernel)
    for c in d.contents:
        mine = shapes.get(c.buffer)
        if c.kind != "index" or c.buffer not in scattered or c.name in ties or mine is None or not mine.is_product:
            continue
        d.contents = [replace(x, kind="distinct") if x is c else x for x in d.contents]
        factors = (*mine.factors, *sorted(d.roles.parts))
        ties = {**ties, c.name: " * ".join(factors)}
        shapes = {b: e and e.with_factor(c.name, factors) for b, e in shapes.items()}
        seen = [replace(s, sizes={n: v for n, v in s.sizes.items() if n != c.name}) for s in seen]
    return ties, shapes, seen


def _by_strides(d: Draft) -> dict[str, Extent | None]:
    """The shapes with their outermost sizes first."""
    strides = inner_first(d.kernel)

    def place(buffer: str, factor: str) -> int:
        return sum(strides[buffer][n] for n in names_in(factor))

    out = dict(d.shapes)
    for b, e in d.shapes.items():
        if e is not None and b in strides:
            out[b] = replace(e, factors=tuple(sorted(e.factors, key=lambda f: place(b, f))))
    return out


def _touched(found: Found) -> set[str]:
    return {b for s in found[2] for b in s.reach}


def _ties(d: Draft, known: Mapping[str, str | int]) -> Iterator[dict[str, str | int]]:
    """``known`` and one integer more that equals another size, the threads of an axis, or 1."""
    free = [n for n in (*(c.name for c in d.contents), *d.roles.sizes) if n not in known]
    for name in free:
        others: tuple[str | int, ...] = (*_threads(d), *d.roles.sizes, 1)
        used_by_others = {n for v in known.values() if isinstance(v, str) for n in names_in(v)}
        for other in others:
            inside = set(names_in(other)) if isinstance(other, str) else set()
            if name not in inside and not inside & known.keys() and name not in used_by_others:
                yield {**known, name: other}


def _by_threads(ties: Mapping[str, str | int]) -> bool:
    """Whether the last of ``ties`` is to the threads of an axis: worth a try where all shapes are plausible but one is
    not exact, for what is only nearly as long as the grid overruns its rows at other sizes."""
    return "*" in str(list(ties.values())[-1])


def _threads(d: Draft) -> list[str]:
    """Threads of a guessed grid along its axes: a row of an unguarded kernel is as long."""
    if d.launch is None:
        return []
    axes = zip(d.launch.grid, d.launch.block)
    return [f"{threads} * {blocks}" for blocks, threads in axes if blocks in d.roles.sizes and threads != "1"]


def _misfits(shapes: Mapping[str, Extent | None]) -> int:
    return sum(2 if e is None else 1 - e.plausible for e in shapes.values())


def _badness(shapes: Mapping[str, Extent | None]) -> float:
    """Misfits first, then how loose the others are."""
    return _misfits(shapes) + 0.01 * sum(min(e.loose, 2.0) - 1 for e in shapes.values() if e is not None)


def _fitted(d: Draft, ties: Mapping[str, str | int]) -> Found:
    """Probes with ``ties``, and the extents that fit them."""
    probe = Prober(d.kernel, d.roles, ties)
    names = [n for n in (*(c.name for c in d.contents), *d.roles.sizes) if n not in ties]
    seen: list[Seen] = []
    for k, sizes in enumerate(probe.sizes()):
        for i, c in enumerate(d.contents):
            if c.name not in ties:
                sizes[c.name] = 24 + 8 * ((3 * k + 5 * i) % 7)
        fills: dict[str, Fill] = {}
        found = probe.look(sizes)
        for c in d.contents:
            if found is not None:
                fills[c.buffer] = c.fill(probe.value(c.name, sizes), found.extent(c.buffer))
                found = probe.look(sizes, fills) or found
        seen += [found] if found is not None else []
    d.work += probe.work
    quotients = (*d.roles.quotients, *((c.name, b) for c in d.contents for b in d.roles.divisors))
    left = windows(d.kernel, d.roles.halves, definitions(d.kernel)) if d.roles.halves else []
    terms = [t for t in left if {*names_in(t)} <= {*names}]
    shapes = {p.sym.name: _shape(p, seen, names, quotients, terms) for p in buffers_of(d.kernel)}
    return dict(ties), shapes, seen


def _shape(
    p: Param,
    seen: Sequence[Seen],
    names: Sequence[str],
    quotients: Collection[tuple[str, str]],
    terms: Sequence[str],
) -> Extent | None:
    if p.extent:
        return Extent((), times=p.extent, exact=True)
    return fit([(s.sizes, s.extent(p.sym.name)) for s in seen], names, quotients, terms) if seen else None


# ------------------------------------------------------------------------------------------------------- confirmation


def _confirm(d: Draft, probe: Prober, seen: Sequence[Seen]) -> None:
    """Run at the exact shapes: as probed, then with odd sizes, which shows what sizes have to be multiples of, and with
    the smallest, which shows how small they may be."""
    if not seen or any(e is None for e in d.shapes.values()):
        return
    even = dict(seen[0].sizes)
    for s in seen[:3]:
        if why := _defect(d, probe, s.sizes):
            d.doubts.append(f"run at {dict(s.sizes)}: {why}")
            return
    own = [n for n in d.names if n in d.roles.sizes]
    if _defect(d, probe, {n: v + 1 if n in own else v for n, v in even.items()}):
        for name in own:
            steps = [n for n in STEPS if n <= even[name]]
            clean = (n for n in steps if not any(_defect(d, probe, {**even, name: m * n}) for m in (3, 1)))
            d.steps[name] = next(clean, even[name])
        _joint_steps(d, probe, even, own)
    if _defect(d, probe, {n: d.steps.get(n, 1) if n in own else v for n, v in even.items()}):
        for name in own:
            sizes = [n for n in LEAST if n < even[name] and n % d.steps.get(name, 1) == 0]
            d.least[name] = next((n for n in sizes if not _defect(d, probe, {**even, name: n})), even[name])


def _joint_steps(d: Draft, probe: Prober, even: Mapping[str, int], own: Sequence[str]) -> None:
    """Larger steps where sizes that pass one by one do not pass together: a block takes 256 elements of all rows."""
    while any(_defect(d, probe, {**even, **{n: m * d.steps[n] for n in own}}) for m in (3, 1)):
        open_ = [n for n in own if 2 * d.steps[n] <= even[n]]
        if not open_:
            return
        d.steps[min(open_, key=lambda n: d.steps[n])] *= 2


def _needs_positive(d: Draft, probe: Prober, seen: Sequence[Seen]) -> bool:
    """Whether results that are no numbers go away with positive input: roots, logarithms."""
    if not seen or any(e is None for e in d.shapes.values()):
        return False
    both = _numbers(d, probe, seen[0].sizes, positive=False)
    return not both and _numbers(d, probe, seen[0].sizes, positive=True)


def _numbers(d: Draft, probe: Prober, sizes: Mapping[str, int], positive: bool) -> bool:
    """Whether all results of a run at ``sizes`` are finite."""
    shapes = d.elements(sizes)
    fills = {c.buffer: c.fill(probe.value(c.name, sizes), shapes[c.buffer]) for c in d.contents}
    result = probe.exact(sizes, shapes, fills, positive)
    return result is None or all(np.isfinite(v).all() for v in result.outputs.values() if v.dtype.kind == "f")


def _defect(d: Draft, probe: Prober, sizes: Mapping[str, int]) -> str:
    """The first thing that the sanitizer has against a run of these sizes; '' if it is clean."""
    if not probe.launches(sizes):
        return "no legal launch"
    shapes = d.elements(sizes)
    fills = {c.buffer: c.fill(probe.value(c.name, sizes), shapes[c.buffer]) for c in d.contents}
    result = probe.exact(sizes, shapes, fills)
    if result is None:
        return "the interpreter cannot run it"
    return next((str(f) for f in result.findings if f.kind not in ("fuel", "redundant-store")), "")


# ---------------------------------------------------------------------------------------------------------- scenarios


def _scenarios(d: Draft, probe: Prober, seen: Sequence[Seen]) -> None:
    widths = {p.sym.name: numpy_dtype(scalar_of(p.sym.type).name).itemsize for p in buffers_of(d.kernel)}
    work = work_of([(s.sizes, s.accesses) for s in seen], d.names) if seen else Work(1.0, {})
    start = dict(seen[0].sizes) if seen else dict.fromkeys(d.names, 64)
    start = {n: 1 << (v.bit_length() - 1) for n, v in start.items()}

    def size_bytes(sizes: Mapping[str, int]) -> int:
        return sum(n * widths[b] for b, n in d.elements(sizes).items())

    def legal(sizes: Mapping[str, int], threads: int = 1 << 31) -> bool:
        return probe.launches(sizes, threads)

    known: list[dict[str, int]] = []
    for (
        name,
        limits,
    ) in TARGETS.items():  # threads that a guard sends home are work too: a grid of its own size is bounded
        allowed = partial(legal, threads=min(limits[1], 1 << 31))
        sizes = grown(start, limits, size_bytes, work, allowed, fixed=d.roles.divisors | d.roles.halves)
        if sizes not in known:
            known.append(sizes)
            d.scenarios.append((name, sizes, ""))
    last = known[-1]
    held = {n: max(1, v // 4 * 3) for n, v in last.items()}
    if all(v % d.steps.get(n, 1) == 0 for n, v in held.items()) and held not in known and legal(held):
        d.scenarios.append(("heldout", held, "heldout = true"))
    d.most = _most(d, probe, {n: max(s[n] for s in (*known, held)) for n in last})
    odd = {n: 3 * d.steps[n] if n in d.steps else v + 5 for n, v in start.items()}
    if odd not in known and legal(odd):
        d.scenarios.append(("odd", odd, "weight = 0.0           # checked, not tuned for"))


def _most(d: Draft, probe: Prober, largest: Mapping[str, int]) -> dict[str, int]:
    """The most that each size may be: ``largest`` doubled while all elements and threads have numbers of 32 bits.

    Most kernels compute them so. Wider ranges allow products that wrap, and whatever might is refused for it.
    """
    most = dict(largest)
    while max(most.values(), default=MOST_SIZE) < MOST_SIZE:
        more = {n: 2 * v for n, v in most.items()}
        if max(d.elements(more, 0).values(), default=0) >= 1 << 31 or not probe.launches(more, (1 << 31) - 1):
            break
        most = more
    return most
