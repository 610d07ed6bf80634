"""Sizes between a run's measurements measured too: what an export chooses there against the original.

Each result is one more measurement of the run's recipe, beside the held-out scenarios, and decides as they do: where
the tuned kernel turns out no faster, the original runs in the neighbourhood.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ktc.api import Program, program_of
from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Scenario, Workload
from ktc.ir.workload.scenario_facts import runnable
from ktc.recipes import OpenedRecipe
from ktc.search.records.recipe import Recipe

from .building import build, integers
from .evidence import FASTER, measured
from .shipped.dispatch import Instance, python_name

TRIES = 50
"""Sizes drawn for each that is measured: of some the original runs anyhow."""


def probed(opened: OpenedRecipe, count: int, device: str | None, seed: int, say: Callable[[str], None]) -> OpenedRecipe:
    """``opened`` with ``count`` measurements more, as far as there are sizes between those that it has.

    Raises:
        KtcError: E-EXPORT-MEASURE (nothing was faster, or at one size alone); no such device.
    """
    from ktc.agent.bench import Bench
    from ktc.agent.build import Builder, Candidate
    from ktc.agent.planner import Proposal

    start = program_of(opened)
    work = start.workload
    assert work is not None and start.original is not None
    low, high = _box(opened.recipe, work)
    builder, draw = Builder(start.original), random.Random(seed)
    lab = Bench(work, start.original, variant=start.variant, device=device, seed=seed)
    try:
        for _ in range(count):
            found = _drawn(
                opened, start, low, high, draw, lambda sizes: lab.station.call_bytes(Scenario("", dict(sizes)))
            )
            if found is None:
                break
            sizes, script, knobs = found
            built = builder.build(Proposal(script, ""))
            if not isinstance(built, Candidate):
                raise KtcError(built.code, f"{script}: {built.detail}")
            name = "measured " + " ".join(f"{k}={v}" for k, v in sizes.items())
            c = lab.compare(built, knobs, Scenario(name, sizes))
            if c.verdict != "ok":
                raise KtcError("E-VERIFY-FAILED", f"{name}: what the timed launch left is wrong: {c.verdict}")
            runs = "the tuned kernel" if c.ratio[1] >= FASTER else "the original"
            say(f"{name}: {c.ratio[0]:.2f}x [{c.ratio[1]:.2f}, {c.ratio[2]:.2f}]: {runs} runs there")
            entry = {
                "sizes": sizes, "script": script, "knobs": dict(knobs), "ratio": list(c.ratio),
                "seconds": c.after.median, "low": c.after.low, "high": c.after.high,
                "baseline_seconds": c.before.median,
            }  # fmt: skip
            opened = replace(opened, recipe=replace(opened.recipe, heldout={**opened.recipe.heldout, name: entry}))
    finally:
        lab.close()
    return opened


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
    opened: OpenedRecipe,
    start: Program,
    low: Mapping[str, int],
    high: Mapping[str, int],
    draw: random.Random,
    bytes_at: Callable[[Mapping[str, int]], int],
) -> tuple[dict[str, int], str, Mapping[str, int]] | None:
    """Sizes that were not measured and at which a tuned kernel would run, with its script and knobs. The arrays take no
    more bytes than at any measurement: where all sizes are large at once, nobody said that there is room."""
    work = start.workload
    assert work is not None
    built = build([opened], [], opened.recipe.target)
    instance = built.artefact.instances[0]
    dispatch = Instance(built.artefact.to_json()["instances"][0], Path())
    known = [dict(m.sizes) for m in measured(opened.recipe, work)]
    most = max(map(bytes_at, known))
    for sizes in _candidates(low, high, draw):
        at = {python_name(k): v for k, v in integers(work, sizes).items()}
        which = dispatch.chosen(at)
        if which is None or sizes in known or bytes_at(sizes) > most:
            continue
        code = instance.variants[which]
        if runnable(built.texts[code.file].kernel, work, sizes):
            return sizes, code.script, code.knobs
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
