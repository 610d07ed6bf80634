"""Runs at the drafted shapes, with the sanitizer on: what sizes are multiples of, how small they may be, and whether
results are numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ktc.ir.sequences import launch_extents
from ktc.ir.support import time_limits
from ktc.ir.walk import used

from ..model import Draft
from ..probe import Prober, Seen
from ..roles import lanes_of
from ..windows import PROBED, names_in

PASSED_OVER = ("fuel", "redundant-store")
"""Findings that say nothing of shapes and sizes: a run that is cut off, what many kernels do."""

STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

WINDOWS = PROBED["window"]

OWN = (3, 5, 7, 11, 17)
"""Sizes of groups by which it is tried whether another size has to be a multiple of them."""

LEAST = (1, 2, 3, 4, 5, 8, 16, 32)
"""What the least value of a size is looked for among: a border of the grid needs some width."""


LARGER, ONE_LARGER = (2, 4, 8), (2, 4, 8, 16, 32)
"""Times as large as in the probes sizes are tried where those have a defect, all of them or one alone."""


def _has_a_border(d: Draft, name: str) -> bool:
    """Whether the size ``name`` is that of windows with a border, or of the border: neither is a multiple of anything,
    and one without the other leaves windows beyond what they go over."""
    return d.roles.windows.get(name) in ("padded", "border")


def large_enough(d: Draft, probe: Prober, seen: list[Seen]) -> list[Seen]:
    """``seen``, or the same at larger sizes, all or one of them, where runs have a defect only at smaller ones: shared
    memory that is as long as a size holds the numbers of a block only from some size on."""
    looked_at = [s.sizes for s in seen[:3] if d.possible(s.sizes)]
    if any(e is None for e in d.shapes.values()):
        return seen
    wrong = next(filter(None, (defect(d, probe, sizes) for sizes in looked_at)), "")
    if not wrong or beyond_a_constant(d, wrong):
        return seen
    each = {n for n in d.names if n in d.roles.sizes} - {*d.roles.windows}
    own = each - d.roles.divisors
    ways = [(times, own) for times in LARGER if own] + [(times, {n}) for n in sorted(each) for times in ONE_LARGER]
    for times, larger in ways:
        more = [{n: v * times if n in larger else v for n, v in s.sizes.items()} for s in seen]
        if not any(defect(d, probe, sizes) for sizes in more[: len(looked_at)]):
            found = [probe.look(sizes, d.fills(probe, sizes)) for sizes in more]
            return [s for s in found if s is not None] or seen
    return seen


def beyond_a_constant(d: Draft, found: str) -> bool:
    """Whether a run reached beyond a buffer whose length no size makes, as :func:`defect` says: at larger sizes it
    would as well."""
    fixed = (b for b, e in d.shapes.items() if e is not None and not e.factors)
    return any(f"out-of-bounds: {b}[" in found for b in fixed)


def confirm_in_time(d: Draft, probe: Prober, seen: Sequence[Seen]) -> None:
    """:func:`confirm`, in half of the time that there is where somebody waits for an answer. What was not tried by then
    is not promised: sizes are multiples of those of the first probe, which ran."""

    def probed() -> None:
        d.steps = {n: seen[0].sizes[n] for n in _own(d)}
        d.least = dict(d.steps)
        d.doubts.append("sizes: only those that were probed, and multiples of them: no time was left to try others")

    time_limits.unless_late(0.5, lambda: confirm(d, probe, seen), probed)


def _own(d: Draft) -> list[str]:
    """The sizes of which it is asked what they are multiples of."""
    own = [n for n in d.names if n in d.roles.sizes and n not in d.stops and not _has_a_border(d, n)]
    return [n for n in own if d.roles.windows.get(n) != "step"]  # whatever it is, windows are that far apart


def confirm(d: Draft, probe: Prober, seen: Sequence[Seen]) -> None:
    """Run at the exact shapes: as probed, then with odd sizes, which shows what sizes have to be multiples of, and with
    the smallest, which shows how small they may be."""
    if not seen or any(e is None for e in d.shapes.values()):
        return
    seen = [s for s in seen if d.possible(s.sizes)] or seen
    even = dict(seen[0].sizes)
    for s in seen[:3]:
        if why := defect(d, probe, s.sizes):
            d.doubts.append(f"run at {dict(s.sizes)}: {why}")
            d.races = True
            if defect(d, probe, s.sizes):
                return
            break  # it is only a race: what sizes have to be can be asked nevertheless
    own = _own(d)
    d.steps = {n: by for n, by in _grains(d).items() if n in own and not _rest_is_done(d, probe, even, n, by)}
    d.steps |= d.coarse
    moved = ({n: v + s * d.steps.get(n, 1) or v if n in own else v for n, v in even.items()} for s in (1, -1))
    odd = [probe.whole(sizes, d.steps) for sizes in moved]
    # one more may be left to nobody, one less asked for by all, and either may be for another launch
    if any(not probe.leads(sizes) or defect(d, probe, sizes) for sizes in odd):
        for name in own:
            steps = [n for n in STEPS if n <= even[name] and n % d.steps.get(name, 1) == 0]
            clean = (n for n in steps if _are_clean(d, probe, _multiples(probe, even, name, n)))
            d.steps[name] = next(clean, even[name])
        _joint_steps(d, probe, even, own)
    d.multiples = [(a, b) for a, b in d.roles.multiples if {a, b} <= {*even} and _goes_wrong(d, probe, even, a, b)]
    if defect(d, probe, probe.whole({n: d.steps.get(n, 1) if n in own else v for n, v in even.items()}, d.steps)):
        beside = probe.whole({n: v + (d.steps.get(n, 1) if n in own else 0) for n, v in even.items()}, d.steps)
        bases = [even, *([beside] if not defect(d, probe, beside) else [])]  # what is odd may need more of others
        for name in own:
            tried = sorted({*LEAST, *_first(probe, even, name, d.steps.get(name, 1))})
            sizes = [n for n in tried if n < even[name] and n % d.steps.get(name, 1) == 0]
            at = {n: [probe.whole({**base, name: n}, d.steps) for base in bases] for n in sizes}
            clean = (n for n, tried in at.items() if not any(defect(d, probe, x) for x in tried))
            d.least[name] = next(clean, even[name])


def with_windows(d: Draft, probe: Prober, seen: list[Seen]) -> list[Seen]:
    """``seen`` with the sizes that are found to be windows as long as those are, where runs have a defect without:
    sizes that neither buffers nor the launch show, and that are no longer than what they are moved over."""
    looked_at = [s.sizes for s in seen[:3]]
    if any(e is None for e in d.shapes.values()) or not any(defect(d, probe, sizes) for sizes in looked_at):
        return seen
    k = d.kernel
    shown = {n for e in d.shapes.values() if e is not None for text in e.shape for n in names_in(text)}
    shown |= {n for text in (*d.roles.tied.values(), *d.ties.values()) for n in names_in(str(text))}
    shown |= {s.name for e in launch_extents(k) for s in used(e)}
    for name in (n for n in d.names if n in d.roles.sizes and n not in shown):
        if not any(defect(d, probe, {**sizes, name: length}) for sizes in looked_at for length in WINDOWS):
            d.roles = replace(d.roles, windows={**d.roles.windows, name: "window"}, halves=d.roles.halves | {name})
            return [replace(s, sizes={**s.sizes, name: WINDOWS[i % len(WINDOWS)]}) for i, s in enumerate(seen)]
    return seen


def _first(probe: Prober, even: Mapping[str, int], name: str, step: int) -> Iterator[int]:
    """Small values of the size ``name``: the least multiple of ``step`` from which on, up to ``even``, the source comes
    to the launch, and halves of ``even`` beyond; nothing where that does not depend on the size."""
    low, high = 0, max(even[name] // step, 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if probe.leads({**even, name: middle * step}) else (middle, high)
    if name in probe.deciding():
        yield high * step
        yield from (n for k in range(1, 32) if (n := even[name] >> k) > high * step)


def _grains(d: Draft) -> dict[str, int]:
    """What sizes are whole multiples of, those of what equals them with their own."""
    out: dict[str, int] = {}
    for name, by in d.roles.grains.items():
        size = name if (tied := d.tied(name)) is None else str(tied)
        out[size] = math.lcm(out.get(size, 1), by)
    return out


def _rest_is_done(d: Draft, probe: Prober, even: Mapping[str, int], name: str, by: int, step: int = 1) -> bool:
    """Whether what is left of the size ``name`` when it is divided by ``by`` is done as well as the whole parts are:
    by a block more, however that is counted, by a loop over all blocks, by a loop for the rest. Nothing is promised of
    such a size. What is left where there is no rest (beyond the place where the launch works) may be left in
    proportion. The size is a multiple of ``step`` anyway."""
    for rest in {step, (by - 1) * step}:
        sizes = {**even, name: even[name] + rest}
        if defect(d, probe, sizes):
            return False
        fills = {
            c.buffer: c.fill(probe.value(c.name, sizes), n) for c in d.contents if (n := _elements(d, c.buffer, sizes))
        }
        seen, before = probe.look(sizes, fills), probe.look(even, fills)
        if seen is None or before is None:
            return False
        whole, larger = d.elements(even), d.elements(sizes)
        grown = [b for b in d.shapes if larger[b] > whole[b]]
        left = {b: (whole[b] - before.extent(b)) * larger[b] / whole[b] for b in grown}  # as much of the larger one
        for b, lanes in ((b, lanes_of(d.kernel.param(b))) for b in grown):
            left[b] += lanes - 1 if larger[b] % lanes == 0 else 0  # the last vector may have fewer elements than lanes
        if not grown or any(larger[b] - seen.extent(b) > left[b] for b in grown):
            return False
    return True


def _goes_wrong(d: Draft, probe: Prober, even: Mapping[str, int], name: str, by: str) -> bool:
    """Whether the kernel goes wrong, or leaves something out, where the size ``name`` is no multiple of ``by``, though
    it is one of whatever else it has to be. Groups longer than a step are tried, where
    steps are short: a step more is then a part of one."""
    step = d.steps.get(name, 1)
    own = next((n for n in OWN if n > step), None) or next(n for n in OWN if step % n)
    other = even if step % even[by] and even[by] > step else probe.whole({**even, by: own}, d.steps)
    free = Prober(d.kernel, replace(d.roles, multiples=()), d.ties)
    return not _rest_is_done(d, free, other, name, other[by], step)


def _elements(d: Draft, buffer: str, sizes: Mapping[str, int]) -> int:
    return d.elements(sizes)[buffer]


def _are_clean(d: Draft, probe: Prober, tried: Sequence[Mapping[str, int]]) -> bool:
    return bool(tried) and not any(defect(d, probe, s) for s in tried)


def _multiples(probe: Prober, even: Mapping[str, int], name: str, step: int) -> list[dict[str, int]]:
    """Sizes of which one is a small multiple of ``step``; if nothing is launched for those, with the others that decide
    about the launch as much larger (of ``n % row == 0``), or beside the ``even`` one, as far as the source comes to the
    launch for them."""
    small = [probe.whole({**even, name: m * step}) for m in (3, 1)]
    if all(probe.launches(s) for s in small):
        return small
    with_others = [{**even, **{n: m * even[n] for n in probe.deciding()}, name: m * step} for m in (3, 1)]
    if name in probe.deciding() and all(probe.launches(s) for s in with_others):
        return with_others
    beside = [{**even, name: even[name] + step}, *([{**even, name: even[name] - step}] if even[name] > step else [])]
    return [s for s in beside if probe.leads(s)]


def _joint_steps(d: Draft, probe: Prober, even: Mapping[str, int], own: Sequence[str]) -> None:
    """Larger steps where sizes that pass one by one do not pass together: a block takes 256 elements of all rows."""
    own = [n for n in own if n not in probe.deciding()]

    def together() -> list[dict[str, int]]:
        tried = [probe.whole({**even, **{n: m * d.steps[n] for n in own}}, d.steps) for m in (3, 1)]
        return [sizes for sizes in tried if probe.launches(sizes)] or tried[:1]

    while any(defect(d, probe, sizes) for sizes in together()):
        open_ = [n for n in own if 2 * d.steps[n] <= even[n]]
        if not open_:
            return
        d.steps[min(open_, key=lambda n: d.steps[n])] *= 2


def needs_positive(d: Draft, probe: Prober, seen: Sequence[Seen]) -> bool:
    """Whether results that are no numbers go away with positive input: roots, logarithms."""
    if not seen or any(e is None for e in d.shapes.values()):
        return False
    both = _numbers(d, probe, seen[0].sizes, positive=False)
    return not both and _numbers(d, probe, seen[0].sizes, positive=True)


def _numbers(d: Draft, probe: Prober, sizes: Mapping[str, int], positive: bool) -> bool:
    """Whether all results of a run at ``sizes`` are finite."""
    result = probe.exact(sizes, d.elements(sizes), d.fills(probe, sizes), positive)
    return result is None or all(np.isfinite(v).all() for v in result.outputs.values() if v.dtype.kind == "f")


def defect(d: Draft, probe: Prober, sizes: Mapping[str, int]) -> str:
    """The first thing that the sanitizer has against a run of these sizes; '' if it is clean."""
    if not probe.launches(sizes):
        return "no legal launch"
    if not d.possible(sizes):
        return "fewer values than must differ, or rows longer than their pitch"
    shapes = d.elements(sizes)
    if min(shapes.values(), default=0) < 0:
        return "an array that is as long as its formula says would have less than no elements"
    result = probe.exact(sizes, shapes, d.fills(probe, sizes))
    if result is None:
        return "the interpreter cannot run it"
    passed_over = (*PASSED_OVER, "race") if d.races else PASSED_OVER
    return next((str(f) for f in result.findings if f.kind not in passed_over), "")
