"""Sizes for the scenarios: grown from the probes' until a scenario holds what its name promises."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ktc.ir.kernel import Kernel
from ktc.ir.support.time_limits import unless_late
from ktc.ir.types import scalar_of
from ktc.ir.workload.input_data import numpy_dtype

from .contents import values_of
from .footprints import offsets_of
from .integers.bit_positions import LARGE_EXPONENT, MOST_EXPONENT
from .integers.row_pointers import PART
from .model import Draft
from .named_dimensions import HEAD, TOKENS, Dimension, dimensions, of_models, proportions
from .probe import Prober, Seen
from .roles import buffers_of
from .scales.head_lengths import head_lengths, tokens
from .scales.resized import resized
from .windows import USUAL_WAYS, names_in

TARGETS = {"small": (1 << 18, 1 << 21), "medium": (1 << 23, 1 << 25), "large": (1 << 27, 1 << 32)}
"""Bytes of all buffers and scalars moved by all threads, at most, by scenario. Small fits a GPU's first-level caches,
medium its second level (and is timed on a CPU too), large neither."""

MOST = 1 << 24
"""No size becomes larger."""

MOST_SIZE = 1 << 30
"""No size is said to be larger."""

COUNTERS = 64
"""Counters in shared memory: experts, bins."""

LEAST_BINARY = 64
"""The least power of two of a size that has to be one."""

MEASURING = 0.4
"""The share of the time that is left in which runs may show how work grows, where somebody waits."""

NO_WORK = 1.1
"""A size that multiplies the work by no more when it is doubled brings none."""


MOST_POWER = 3.0
"""The work grows with no more than the cube of a size."""


@dataclass(frozen=True)
class Work:
    """How many scalars a launch moves: ``scale`` times the sizes to their powers, fitted to the probes."""

    scale: float
    powers: Mapping[str, float]

    def __call__(self, sizes: Mapping[str, int]) -> float:
        return self.scale * math.prod(sizes[n] ** p for n, p in self.powers.items())


def work_of(seen: Sequence[tuple[Mapping[str, int], int]], names: Sequence[str]) -> Work:
    """A power law through the probes, by least squares of logarithms. Powers that would be below none or above
    :data:`MOST_POWER` are these, and the others are fitted again: what they had explained is left to the scale."""
    rows = [(s, n) for s, n in seen if n > 0]
    if not rows or not names:
        return Work(float(max((n for _, n in rows), default=1)), {})
    powers: dict[str, float] = {}
    while True:
        open_ = [n for n in names if n not in powers]
        a = np.array([[1.0, *(math.log(s[n]) for n in open_)] for s, _ in rows])
        left = [math.log(n) - sum(p * math.log(s[m]) for m, p in powers.items()) for s, n in rows]
        scale, *found = np.linalg.lstsq(a, np.array(left), rcond=None)[0]
        beyond = {n: min(max(p, 0.0), MOST_POWER) for n, p in zip(open_, found) if not 0.0 <= p <= MOST_POWER}
        if not beyond:
            fitted = {**powers, **dict(zip(open_, map(float, found)))}
            return Work(math.exp(scale), {n: fitted[n] for n in names})
        powers |= beyond


def _more(d: Draft, probe: Prober, seen: Sequence[Seen]) -> list[Seen]:
    """Where there are as many sizes as probes, which any law goes through: the first with each size twice as large."""
    if not seen or len(seen) > len(d.names):
        return []
    first = seen[0].sizes
    twice = [{**first, n: 2 * first[n]} for n in d.names if n in d.roles.sizes]
    looks = (probe.look(sizes) for sizes in twice if probe.launches(sizes) and d.possible(sizes))
    return [s for s in looks if s is not None]


def grown(
    start: Mapping[str, int],
    limits: tuple[int, int],
    size_bytes: Callable[[Mapping[str, int]], int],
    work: Callable[[Mapping[str, int]], float],
    legal: Callable[[Mapping[str, int]], bool],
    fixed: Collection[str] = (),
    times: Mapping[str, int] = {},
    most: Mapping[str, int] = {},
    with_enough: Callable[[dict[str, int]], dict[str, int]] = dict,
) -> dict[str, int]:
    """``start`` with its smallest size doubled again and again while bytes, work and launch allow it.

    What is ``fixed`` stays, and so does what brings neither memory nor work. ``times``: how many times as large as
    others a size becomes; ``most``: how large at most, where that is less than for all; ``with_enough``: sizes with
    those larger that have to be for others.
    """
    sizes, open_ = dict(start), set(start) - set(fixed)
    while open_:
        name = min(sorted(open_, key=list(start).index), key=lambda n: sizes[n] / times.get(n, 1))
        more = with_enough({**sizes, name: sizes[name] * 2})
        idle = size_bytes(more) <= size_bytes(sizes) and work(more) <= work(sizes) * NO_WORK
        if (
            not idle
            and more[name] <= most.get(name, MOST)
            and size_bytes(more) <= limits[0]
            and work(more) <= limits[1]
            and legal(more)
        ):
            sizes = more
        else:
            open_.discard(name)
    return sizes


def shrunk(
    start: Mapping[str, int],
    limits: tuple[int, int],
    size_bytes: Callable[[Mapping[str, int]], int],
    work: Callable[[Mapping[str, int]], float],
    legal: Callable[[Mapping[str, int]], bool],
    steps: Mapping[str, int],
) -> dict[str, int]:
    """``start`` with its largest size halved again and again until bytes and work are within the limits; sizes stay
    multiples of their ``steps``, and what has none stays."""
    sizes, open_ = dict(start), set(steps)
    while open_ and (size_bytes(sizes) > limits[0] or work(sizes) > limits[1]):
        name = max(sorted(open_, key=list(start).index), key=lambda n: sizes[n])
        less = {**sizes, name: sizes[name] // 2}
        if less[name] >= 2 and less[name] % steps[name] == 0 and legal(less):
            sizes = less
        else:
            open_.discard(name)
    return sizes


def busied(idle_at: Mapping[str, int], busy_at: Mapping[str, int], idle: Callable[[dict[str, int]], bool]) -> set[str]:
    """The sizes, as few as can be found, that have to be as in ``busy_at`` for anything to be done, all others being as
    in ``idle_at``, where nothing is."""
    sizes, found = dict(idle_at), list[str]()
    for name in (n for n in sizes if sizes[n] != busy_at[n]):
        sizes[name] = busy_at[name]
        found.append(name)
        if not idle(sizes):
            break
    for name in found[:-1]:
        less = {**sizes, name: idle_at[name]}
        if not idle(less):
            sizes = less
    return {n for n in found if sizes[n] != idle_at[n]}


def scenarios(d: Draft, probe: Prober, seen: Sequence[Seen]) -> None:
    """Scenarios of each of ``TARGETS`` for ``d``, one held out, an odd one; and the most of each size."""
    widths = {p.sym.name: numpy_dtype(scalar_of(p.sym.type).name).itemsize for p in buffers_of(d.kernel)}
    more = unless_late(MEASURING, partial(_more, d, probe, seen), list[Seen])
    work = work_of([(s.sizes, s.accesses) for s in (*seen, *more)], d.names) if seen else Work(1.0, {})
    allowed_at = [s.sizes for s in seen[:1]] or probe.sizes()[:1]
    start = {n: allowed_at[0].get(n, 64) if allowed_at else 64 for n in d.names}
    start = {n: (g := d.steps.get(n, 1)) << max(v // g, 1).bit_length() - 1 for n, v in start.items()}
    windows = _usual_windows(d, probe, start)
    constants = {**d.given, **d.stops}
    windows |= constants
    start |= (
        windows | {n: COUNTERS for n in d.roles.few if n in start} | {n: PART for n in d.roles.wanted if n in start}
    )
    named = {
        n: x
        for n, x in (_attention(d.kernel, start) | dimensions(start)).items()
        if n not in {*windows, *d.roles.few, *d.roles.wanted, *d.roles.halves}
    }

    def size_bytes(sizes: Mapping[str, int]) -> int:
        return sum(n * widths[b] for b, n in d.elements(sizes).items())

    def legal(sizes: Mapping[str, int], threads: int = 1 << 31) -> bool:
        if not probe.launches(sizes, threads) or not d.possible(sizes):
            return False
        if probe.reached and any(v < d.least.get(n, v) for n, v in sizes.items()):
            return False
        return all(probe.value(n, sizes) > 0 for n in probe.differences)

    for name, dimension in named.items():
        step = d.steps.get(name, 1)
        if legal(sizes := probe.whole({**start, name: max(dimension.least // step, 1) * step}, d.steps)):
            start = sizes
    fixed = (
        (d.roles.divisors - {*named})
        | d.roles.halves
        | d.roles.few
        | d.roles.wanted
        | {*constants}
        | offsets_of(d.kernel)
    )
    usual = start = probe.whole(probe.less_taken(start, 1), d.steps)
    open_ = {n: d.steps.get(n, 1) for n in {*start} - fixed}
    rows = {n: by for n, by in open_.items() if n not in named or named[n].counts_rows}
    for by in (rows, open_):  # fewer rows before shorter ones
        start = shrunk(start, TARGETS["small"], size_bytes, work, legal, by)
    offsets = {c.name: c.buffer for c in d.contents if c.kind == "offsets" and c.name in start}

    def idle(sizes: Mapping[str, int]) -> bool:
        if offsets or not legal(sizes):  # offsets mean something in buffers of their length alone
            return False
        return probe.idle(sizes, d.fills(probe, sizes))

    if not probe.leads(start) and seen:
        start |= {n: v for n, v in seen[0].sizes.items() if n not in windows}
    related = [n for n in probe.related() if n in start and n not in windows]
    alike = start | {n: max(start[m] for m in related) for n in related}
    if alike != start and probe.leads(alike) and legal(alike):
        start = alike
    if idle(start) and not idle(usual):
        start |= {n: usual[n] for n in busied(start, usual, idle)}
    times = {n: v * (PART if n in offsets else 1) for n, v in proportions(start, named).items()}

    def full(sizes: Mapping[str, int]) -> bool:
        return all(2 * sizes[n] >= PART * (d.elements(sizes)[b] - 1) for n, b in offsets.items())

    def sensible(sizes: Mapping[str, int], threads: int) -> bool:
        return full(sizes) and legal(sizes, threads)

    def filled(sizes: dict[str, int]) -> dict[str, int]:
        sizes = probe.whole(sizes, d.steps)
        while not full(sizes):
            sizes = {**sizes, **{n: 2 * sizes[n] for n in offsets}}
        return sizes

    start = filled(start)
    typed = {c.name: values_of(d.kernel, c.buffer) for c in d.contents if c.kind in ("index", "distinct")}
    most = {n: x.most for n, x in named.items()} | dict.fromkeys(d.roles.exponents, LARGE_EXPONENT) | typed

    def grow(
        limits: tuple[int, int],
        allowed: Callable[[Mapping[str, int]], bool],
        fixed: frozenset[str],
        model: Mapping[str, int],
    ) -> dict[str, int]:
        """``start`` grown: one ``model`` is run on few tokens and on many, so that what each has of comes first."""
        others = {n for n in start if n not in model}
        sizes = grown(start, limits, size_bytes, work, allowed, others | fixed, model, model, filled)
        return grown(sizes, limits, size_bytes, work, allowed, fixed, times, most, filled)

    known: list[dict[str, int]] = []
    for name, limits in TARGETS.items():
        # threads that a guard sends home are work too: a grid of its own size is bounded
        allowed = partial(sensible, threads=min(limits[1], 1 << 31))
        model = of_models(named) if name != "small" else {}
        sizes = grow(limits, allowed, fixed, model)
        if idle(sizes) and not idle(start):
            fixed |= busied(sizes, start, idle)
            sizes = grow(limits, allowed, fixed, model)
        sizes = resized(d, sizes, allowed)
        if sizes not in known:
            known.append(sizes)
            d.scenarios.append((name, sizes, ""))
    last = known[-1]
    kept = {n for n, x in named.items() if x.least == x.most}
    parts = {n: v if n in kept else v // 2 if n in d.roles.binary else v * 3 // 4 for n, v in last.items()}
    held = probe.whole({n: max(g := d.steps.get(n, 1), v // g * g) for n, v in parts.items()} | windows, d.steps)
    held = resized(d, held, legal)
    if held not in known and legal(held):
        d.scenarios.append(("heldout", held, "heldout = true"))
    largest = _most(d, probe, {n: max(s[n] for s in (*known, held)) for n in last})
    room = {**dict.fromkeys(d.roles.exponents, MOST_EXPONENT), **typed, **d.roles.room}
    d.most = {n: min(v, room.get(n, v)) for n, v in largest.items()}
    odd = {n: 3 * d.steps[n] if n in d.steps else v + 5 for n, v in start.items()}
    odd |= {n: max(2 * d.steps.get(n, 1), LEAST_BINARY) for n in d.roles.binary if n in odd}
    odd |= {n: v + (n not in constants) for n, v in windows.items()}
    odd = probe.whole(odd, d.steps)
    if odd not in known and legal(odd):
        d.scenarios.append(("odd", odd, "weight = 0.0           # checked, not tuned for"))


def _attention(kernel: Kernel, names: Collection[str]) -> dict[str, Dimension]:
    """What ``names`` are by what attention does with them."""
    lengths = head_lengths(kernel) & {*names}
    counts = tokens(kernel) & {*names} if lengths else set()
    return dict.fromkeys(counts, TOKENS) | dict.fromkeys(lengths, HEAD)


def _usual_windows(d: Draft, probe: Prober, start: Mapping[str, int]) -> dict[str, int]:
    """How long windows are in scenarios: the most usual with which the source comes to the launch at ``start``."""
    found = {n: kind for n, kind in d.roles.windows.items() if n in start}
    ways = [{n: usual[kind] for n, kind in found.items()} for usual in USUAL_WAYS]
    return next((way for way in ways if probe.leads({**start, **way})), ways[0])


def as_launched(d: Draft, blocks: Mapping[str, int]) -> None:
    """Have the numbers of ``blocks`` that the source launches be those of the largest scenario; what is larger goes."""
    if not blocks or {*blocks} != {*d.names}:
        return
    count, odd = math.prod(blocks.values()), [x for x in d.scenarios if x[2]]
    less = [x for x in d.scenarios if not x[2] and 2 * math.prod(x[1].values()) <= count]
    d.scenarios = [*less, ("launched", dict(blocks), ""), *(x for x in odd if math.prod(x[1].values()) < count)]
    d.most = {n: max(d.most.get(n, 1), v) for n, v in blocks.items()}


def _most(d: Draft, probe: Prober, largest: Mapping[str, int]) -> dict[str, int]:
    """The most that each size may be: ``largest`` doubled while all elements and threads have numbers of 32 bits.

    Most kernels compute them so. Wider ranges allow products that wrap, and whatever might is refused for it. Sizes
    that decide whether the source comes to the launch are as large as that allows; those that a buffer of a fixed
    length has to have room for stay as they are.
    """
    most, held = dict(largest), {n for part, _ in d.parts for f in part.factors for n in names_in(f)}
    while max((v for n, v in most.items() if n not in held), default=MOST_SIZE) < MOST_SIZE:
        more = {n: v if n in held else 2 * v for n, v in most.items()}
        if not probe.leads(more) and (bound := [n for n in probe.deciding() if n in {*most} - held]):
            apart = [n for n in bound if not probe.leads({**most, n: 2 * most[n]})] or bound
            held |= {*apart}
            most |= {n: _last(probe, most, n) for n in apart}
            continue
        if max(d.elements(more, 0).values(), default=0) >= 1 << 31 or not probe.launches(more, (1 << 31) - 1):
            break
        most = more
    return most


def _last(probe: Prober, sizes: Mapping[str, int], name: str) -> int:
    """The largest value of a size, below twice what it is, for which the source comes to the launch, by halving."""
    low, high = sizes[name], 2 * sizes[name]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if probe.leads({**sizes, name: middle}) else (low, middle)
    return low
