"""Sizes between a run's measurements measured too, and everything that an export could choose at each of them.

Each size is one more measurement of the run's recipe, beside the held-out scenarios, and decides as they do: where the
tuned kernels turn out no faster, the original runs in the neighbourhood. A kernel that won at one size is timed at the
others, too: of two that are faster than the original at one measurement, only one may be so a little further on.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ktc.api import program_of
from ktc.contest import Contest
from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload
from ktc.ir.workload.scenario_facts import runnable
from ktc.recipes import OpenedRecipe
from ktc.search.records.recipe import Recipe

from .building import Built, build, integers
from .evidence import measured
from .shipped.dispatch import Instance, python_name

TRIES = 50
"""Sizes drawn for each that is measured: of some the original runs anyhow."""


def probed(opened: OpenedRecipe, count: int, device: str | None, seed: int, say: Callable[[str], None]) -> OpenedRecipe:
    """``opened`` with every configuration that won somewhere timed at each of its measurements, and at ``count`` sizes
    more, as far as there are sizes between those that it has.

    Raises:
        KtcError: E-EXPORT-MEASURE (nothing was faster, or at one size alone); no such device.
    """
    start = program_of(opened)
    assert start.workload is not None
    low, high = _box(opened.recipe, start.workload)
    with Contest(start, device, say, seed) as contest:
        opened = _with_others(opened, contest)
        draw = random.Random(seed)
        for _ in range(count):
            found = _drawn(opened, contest, low, high, draw)
            if found is None:
                break
            sizes, configurations = found
            name = "measured " + " ".join(f"{k}={v}" for k, v in sizes.items())
            entries = [contest.timed(*c, name, sizes) for c in configurations]
            first, *others = sorted(entries, key=lambda e: -e["ratio"][1])
            opened = _with_entry(opened, name, first | ({"others": others} if others else {}))
    return opened


def _with_others(opened: OpenedRecipe, contest: Contest) -> OpenedRecipe:
    """``opened`` with the configurations that won somewhere timed at its other measurements, where they may run."""
    built = build([opened], [], opened.recipe.target)
    known = {p.name: {v for v, _ in p.speedups} for p in built.artefact.instances[0].points}
    for m in list(measured(opened.recipe, contest.work)):
        running = _running(built, contest.work, m.sizes)
        missing = [c for v, c in running.items() if v not in known.get(m.name, running)]
        entries = [contest.timed(*c, m.name, m.sizes) for c in missing]
        if entries:
            kept = {**opened.recipe.heldout, **opened.recipe.timings}[m.name]
            opened = _with_entry(opened, m.name, {**kept, "others": [*kept.get("others", ()), *entries]})
    return opened


def _with_entry(opened: OpenedRecipe, name: str, entry: Mapping[str, Any]) -> OpenedRecipe:
    """``opened`` with this measurement: of a scenario that it was tuned for, or of another size."""
    r = opened.recipe
    if name in r.timings:
        return replace(opened, recipe=replace(r, timings={**r.timings, name: entry}))
    return replace(opened, recipe=replace(r, heldout={**r.heldout, name: entry}))


def _running(built: Built, work: Workload, sizes: Mapping[str, int]) -> dict[int, tuple[str, Mapping[str, int]]]:
    """The variants of an export that may run at ``sizes``, each with its script and knobs."""
    return {
        k: (v.script, v.knobs)
        for k, v in enumerate(built.artefact.instances[0].variants)
        if runnable(built.texts[v.file].kernel, work, sizes)
    }


def _box(recipe: Recipe, work: Workload) -> tuple[dict[str, int], dict[str, int]]:
    """The least and the greatest of each size where something was faster."""
    won = [m.sizes for m in measured(recipe, work) if m.winner is not None]
    low = {s: min(w[s] for w in won) for s in (won[0] if won else {})}
    high = {s: max(w[s] for w in won) for s in low}
    if low == high:
        what = "one size alone" if won else "no size"
        raise KtcError(
            "E-EXPORT-MEASURE", f"the run was faster at {what}: there is nothing between measurements",
            hint="give the workload scenarios at the least and greatest sizes that matter, and optimize again",
        )  # fmt: skip
    return low, high


def _drawn(
    opened: OpenedRecipe, contest: Contest, low: Mapping[str, int], high: Mapping[str, int], draw: random.Random
) -> tuple[dict[str, int], list[tuple[str, Mapping[str, int]]]] | None:
    """Sizes that were not measured and at which a tuned kernel would run, with all configurations that may. The arrays
    take no more bytes than at any measurement: where all sizes are large at once, nobody said that there is room."""
    work = contest.work
    built = build([opened], [], opened.recipe.target)
    dispatch = Instance(built.artefact.to_json()["instances"][0], Path())
    known = [dict(m.sizes) for m in measured(opened.recipe, work)]
    most = max(map(contest.bytes_at, known))
    for sizes in _candidates(low, high, draw):
        at = {python_name(k): v for k, v in integers(work, sizes).items()}
        which = dispatch.chosen(at)
        if which is None or sizes in known or contest.bytes_at(sizes) > most:
            continue
        running = _running(built, work, sizes)
        if which in running:
            return sizes, list(running.values())
    return None


def _candidates(low: Mapping[str, int], high: Mapping[str, int], draw: random.Random) -> Iterator[dict[str, int]]:
    """Sizes of the box (:func:`drawn_size`)."""
    for _ in range(TRIES):
        yield {name: drawn_size(draw, least, high[name]) for name, least in low.items()}


def drawn_size(draw: random.Random, least: int, most: int) -> int:
    """A number from ``least`` to ``most``, even in its logarithm, as it comes or as a multiple of 8 or 64."""
    value = round(math.exp(draw.uniform(math.log(max(least, 1)), math.log(max(most, 1)))))
    grain = draw.choice((1, 8, 64))
    return min(max(value // grain * grain, least), most)
