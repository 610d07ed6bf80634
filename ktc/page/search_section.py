"""How a run searched: trajectories, what each knob is worth, every script and configuration, what failed and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ktc.ir.support.quantities import count, duration, with_spread
from ktc.runs import Configuration, Run

from .blocks import Block, Figure, Folded, Paragraph, Section, Table
from .figures.knob_plots import Setting, knob_worths, parallel_coordinates, worths
from .figures.trajectory_plot import Measurement, Search, trajectory
from .result_section import knobs_text

SHOWN = 20
"""Configurations of a scenario that are shown at once; the others are there on demand."""

ENOUGH = 4
"""Configurations of a template from which on its knobs are plotted."""


def search_section(run: Run) -> Section:
    d = run.data
    found = run.configurations
    blocks: list[Block] = []
    for s in d["scenarios"]:
        if not s["heldout"]:
            mine = [c for c in found if c.scenario == s["name"]]
            blocks += [*_trajectory(run, s, mine), *_knobs(s, mine), *_configurations(s["name"], mine)]
    tables = (_outcomes(d.get("outcomes", ())), _failures(d.get("failures", ())), _rejected(d.get("rejected", ())))
    return Section("Search", [*blocks, *tables, *_internal(d.get("failures", ()))])


def search_of(run: Run, s: Mapping[str, Any], mine: Sequence[Configuration]) -> Search:
    """The measurements on a scenario; without a trajectory, the best of each script as the report has it."""
    original = s.get("in_search", [0.0])[0] or s["before"]["median"]
    measured = [Measurement(c.number, c.seconds, f"{c.script} {knobs_text(c.knobs)}") for c in mine]
    verified = run.verified(s["name"])
    if not mine:
        history = run.data.get("history", ())
        steps = [h for h in history if h["scenario"] == s["name"]]
        began = max((h["spent"] for h in history[: history.index(steps[0])]), default=0) if steps else 0
        original = next((h["best"] for h in steps if not h["script"]), original)
        measured = [Measurement(h["spent"] - began, h["best"], h["script"]) for h in steps if h["script"]]
        verified = []
    return Search(measured, verified, original, s.get("bound") or None)


def _trajectory(run: Run, s: Mapping[str, Any], mine: Sequence[Configuration]) -> Iterator[Figure]:
    search = search_of(run, s, mine)
    if search.measurements:
        caption = (
            "Dots: configurations as the search measured them, each alone (red: they failed). Line: the best that was "
            "verified by then."
        )
        yield Figure(f"Search on {s['name']}.", lambda width: trajectory(search, width), caption)


def _knobs(s: Mapping[str, Any], mine: Sequence[Configuration]) -> Iterator[Block]:
    """Of the winner's template, or of the one that was measured most."""
    scripts = [c.script for c in mine if c.knobs]
    if not scripts:
        return
    template = s["script"] if s["script"] in scripts else max(scripts, key=scripts.count)
    settings = [Setting(c.knobs, c.seconds) for c in mine if c.script == template]
    if sum(bool(x.seconds) for x in settings) < ENOUGH:
        return
    found = worths(settings)
    inner: list[Block] = [Paragraph("Of the template", code=template)]
    if found:
        caption = "The best time with each value over the best of all, whatever the other knobs are."
        inner.append(Figure("What each knob is worth.", lambda width: knob_worths(found, width), caption))
    caption = "A line a configuration, through the values of its knobs to its time; blue: the fastest tenth."
    inner.append(Figure("All configurations.", lambda width: parallel_coordinates(settings, width), caption))
    yield Folded(f"Knobs on {s['name']}", inner, open=bool(found))


def _configurations(name: str, mine: Sequence[Configuration]) -> Iterator[Block]:
    ranked = sorted(mine, key=lambda c: (c.seconds is None, c.seconds or 0.0, c.number))
    heads = ("time", "script", "knobs", "measurement", "status")
    rows = [(_time(c), c.script or "(as it is)", knobs_text(c.knobs), str(c.number), _status(c)) for c in ranked]
    if rows:
        inner: list[Block] = [Table("", heads, rows[:SHOWN], code=(1, 2))]
        if len(rows) > SHOWN:
            inner.append(Folded(f"The other {len(rows) - SHOWN}", [Table("", heads, rows[SHOWN:], code=(1, 2))]))
        yield Folded(f"{count(len(rows), 'configuration')} on {name}, the fastest first", inner)


def _time(c: Configuration) -> str:
    if c.seconds is None:
        return "–"
    return with_spread(c.seconds, *c.interval) if c.interval else duration(c.seconds)


def _status(c: Configuration) -> str:
    return "measured" if c.status == "ok" else f"{c.status}: {c.error}" if c.error else c.status


def _outcomes(outcomes: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    for o in outcomes:
        gain = f"{o['gain']:.2f}x" if o.get("gain") else ""
        at = o.get("scenario", "") or ("all" if "scenario" in o else "")
        rows.append((at, o["script"] or "(as it is)", o["status"], gain, o.get("detail", ""), o.get("reason", "")))
    heads = ("scenario", "script", "status", "gain", "what came of it", "why it was tried")
    return Table("Scripts tried", heads, rows, code=(1,))


def _failures(failures: Sequence[Mapping[str, Any]]) -> Table:
    rows = [(str(f["count"]), f["status"], f["message"], f["script"], knobs_text(f["knobs"])) for f in failures]
    heads = ("configurations", "status", "why", "for example", "knobs")
    return Table("Tried and not timed, by cause", heads, rows, code=(3, 4))


def _internal(failures: Sequence[Mapping[str, Any]]) -> list[Paragraph]:
    from ktc.agent.failures import INTERNAL, WHAT_TO_SEND

    ours = sum(f["count"] for f in failures if f["status"] == INTERNAL)
    return [Paragraph(f"{ours} of these failed inside ktc: {WHAT_TO_SEND}.")] if ours else []


def _rejected(rejected: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (r.get("script", ""), knobs_text(r.get("knobs", {})), r.get("verdict") or r.get("why", "")) for r in rejected
    ]
    return Table("Rejected: wrong or broken, never timed as winners", ("script", "knobs", "verdict"), rows, code=(0, 1))


__all__ = ["search_of", "search_section"]
