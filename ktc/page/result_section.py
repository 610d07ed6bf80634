"""What a run found: the scenarios, how near the bound each kernel comes, the winner and what its steps are worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ktc.ir.support.quantities import duration, percent, times, with_spread
from ktc.runs import FINISHED, Run

from .blocks import Block, Figure, Paragraph, Section, Table
from .figures.bound_bars import Bar, Group, bound_bars
from .figures.roofline_plot import Place, Roof, roofline

NOT_ARITHMETIC = ("memory", "launch", "issue")
"""Terms of a bound that are no rate of arithmetic."""


def result_section(run: Run) -> Section:
    """Scenarios, speed of light, the winning script."""
    scenarios = run.data["scenarios"]
    ended = run.state == FINISHED
    bars = _bars(scenarios, "winner" if ended else "so far")
    return Section("Result", [scenario_table(scenarios, ended), *bars, *_winner(run)])


def roofline_section(run: Run) -> Section:
    """Where the kernels stand under what the device attains."""
    figure = _roofline(run.data["scenarios"])
    return Section("Roofline", [figure] if figure else [])


def name_of(s: Mapping[str, Any]) -> str:
    return s["name"] + (" (held out)" if s["heldout"] else "")


def knobs_text(knobs: Mapping[str, Any]) -> str:
    return " ".join(f"{k}={v}" for k, v in knobs.items()) or "none"


def timed(t: Mapping[str, float]) -> str:
    return with_spread(t["median"], t["low"], t["high"])


def share_text(s: Mapping[str, Any]) -> str:
    """Share of the bound that the winner reaches."""
    if not s.get("bound"):
        return "unknown"
    return f"{percent(s['bound'] / s['after']['median'])} ({s.get('limiter', '')})".replace(" ()", "")


def scenario_table(scenarios: Sequence[Mapping[str, Any]], finished: bool = True) -> Table:
    rows = []
    for s in scenarios:
        ratio = times(*s["ratio"]) if finished else times(s["ratio"][0])
        row = (name_of(s), timed(s["before"]), timed(s["after"]), ratio, share_text(s), s["verdict"])
        rows.append((*row, knobs_text(s["knobs"])))
    heads = ("scenario", "before", "after", "speed-up", "of bound", "verdict", "knobs")
    about = "Original and winner took turns in one process; times per launch with half the width of the 95 % interval."
    return Table("Scenarios", heads, rows, code=(6,), about=about if finished and rows else "")


def _bars(scenarios: Sequence[Mapping[str, Any]], best: str) -> Iterator[Block]:
    """The original and, where something beat it, the ``best``."""
    known = [s for s in scenarios if s.get("bound")]
    if not known:
        return
    groups = []
    for s in known:
        both = [(s["before"]["median"], "original", "before")]
        both += [(s["after"]["median"], best, "after")] if s["script"] else []
        bars = [Bar(name, seconds, s["bound"] / seconds, kind) for seconds, name, kind in both]
        groups.append(Group(s["name"], duration(s["bound"]), bars))
    caption = (
        "100 % is the least time that the device allows for the bytes and operations that the source must move and do. "
        "Longer bars are faster kernels."
    )
    yield Figure("Speed of light.", lambda width: bound_bars(groups, width), caption)


def _roofline(scenarios: Sequence[Mapping[str, Any]]) -> Figure | None:
    """For scenarios of which the bound's terms are known; the roof is that of the one that moves the most."""
    known = [s for s in scenarios if s.get("amounts", {}).get("memory") and _unit(s)]
    if not known:
        return None
    largest = max(known, key=lambda s: s["amounts"]["memory"])
    unit = _unit(largest)
    known = [s for s in known if _unit(s) == unit]
    bytes_a_second, operations_a_second = (largest["amounts"][u] / largest["terms"][u] for u in ("memory", unit))
    roof = Roof(bytes_a_second, operations_a_second, unit)
    places = []
    for s in known:
        work, moved = s["amounts"][unit], s["amounts"]["memory"]
        places += [
            Place(work / moved, work / s["before"]["median"], f"{s['name']}, original", "before"),
            Place(work / moved, work / s["after"]["median"], f"{s['name']}, winner", "after"),
        ]
    caption = (
        "Grey: the original, blue: the winner, joined by scenario. Bytes are those that must move, each read and "
        "written once; roofs are what this device attains."
    )
    return Figure("Roofline.", lambda width: roofline(roof, places, width), caption)


def _unit(s: Mapping[str, Any]) -> str:
    """The arithmetic that takes the most time; '' where there is none."""
    terms = {k: v for k, v in s.get("terms", {}).items() if k not in NOT_ARITHMETIC and s["amounts"].get(k)}
    return max(terms, key=lambda k: terms[k], default="")


def _winner(run: Run) -> Iterator[Block]:
    """The script and knobs that won; where no one kernel did at all tuned sizes, what did at each."""
    d = run.data
    if run.state != FINISHED:
        return
    best, tuned = d.get("best_script"), [s for s in d["scenarios"] if not s["heldout"]]
    won = [s for s in tuned if s.get("script")]
    if best or not won:
        yield Paragraph("Script:", "lead", best) if best else Paragraph(f"Script: none: {_nothing(d)}")
        yield Paragraph("Knobs:", code=knobs_text(d["best_knobs"])) if d.get("best_knobs") else Paragraph("Knobs: none")
    else:
        yield Paragraph("Script: none for all sizes: no one kernel beat the original at each of them, which is kept")
        yield from (Paragraph(f"At {s['name']}: {_at(s)}") for s in tuned)
    yield _shares(d["scenarios"])
    limits = [(name_of(s), line) for s in d["scenarios"] for line in s.get("limited", ())]
    yield Table("What limits the winner", ("scenario", "limited by"), limits)


def _at(s: Mapping[str, Any]) -> str:
    if not s.get("script"):
        return s["verdict"] if ": " in s["verdict"] else "nothing verified beat the original"
    return f"{s['script']} ({knobs_text(s['knobs'])}), {s['ratio'][0]:.2f}x"


def _nothing(d: Mapping[str, Any]) -> str:
    """Why no script won: "nothing was better" is said only where something was timed."""
    compared = any(o.get("status") == "tuned" and o.get("script") for o in d.get("outcomes", ()))
    return f"nothing {'verified beat' if compared else 'was measured against'} the original"


def _shares(scenarios: Sequence[Mapping[str, Any]]) -> Table:
    """What each step of each winner is worth (see :mod:`ktc.agent.step_shares`)."""
    from ktc.agent.report import StepShare

    found = [(s["name"], StepShare(**x)) for s in scenarios for x in s.get("shares", ())]
    rows = [(name, x.step, str(x)) for name, x in found]
    return Table("What each step is worth", ("scenario", "step", "without it the kernel takes"), rows, code=(1,))


__all__ = ["knobs_text", "name_of", "result_section", "roofline_section", "scenario_table", "share_text", "timed"]
