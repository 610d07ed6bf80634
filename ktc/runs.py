"""A run's folder read back, and as a report page. The format is ``report.json``'s (:mod:`ktc.agent.report`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktc.ir.diagnostics import KtcError

from .page import Chart, Page, Point, Table


@dataclass(frozen=True)
class Run:
    """A run: its report as data, the source it started from and the code it ended with (empty where they are gone)."""

    folder: Path
    data: Mapping[str, Any]
    before: str
    after: str


def load_run(folder: Path) -> Run:
    """The run in ``folder``.

    Raises:
        KtcError: E-FILE (exit code 2) when there is no readable ``report.json``.
    """
    data = load_json(folder / "report.json" if folder.is_dir() else folder, "a run's report.json")
    for key in ("kernel", "device", "scenarios"):
        if key not in data:
            raise KtcError("E-FILE", f"{folder} is not a run's report: no '{key}'", exit_code=2)
    after = data.get("files", {}).get("kernel", "")
    return Run(folder, data, _text(data.get("source", "")), _text(after) or _text(folder / Path(after).name))


def load_json(path: Path, what: str) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        KtcError: E-FILE, a usage error: the file cannot be read, or is something else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise KtcError("E-FILE", f"cannot read {what}, {path}: {e.strerror}", exit_code=2) from e
    except ValueError as e:
        raise KtcError("E-FILE", f"{path} is not JSON: {e}", exit_code=2) from e
    if not isinstance(data, dict):
        raise KtcError("E-FILE", f"{path} is not {what}", exit_code=2)
    return data


def page_of(run: Run) -> Page:
    """The run as a page: scenarios, outcomes of every script, trajectories, code."""
    d = run.data
    device = d["device"]
    summary = [
        f"{device.get('name', '?')} ({device.get('backend', '?')}), planner {d.get('planner', '?')}: "
        f"{d.get('speedup', 1.0):.2f}x over the tuned scenarios.",
        *_winners(d),
        f"{d.get('measured', 0)} configurations measured, {d.get('recalled', 0)} recalled from the ledger, "
        f"{d.get('failed', 0)} failed, {len(d.get('rejected', ()))} rejected, {d.get('seconds', 0.0):.0f} s.",
        *_internal(d.get("failures", ())),
    ]
    return Page(
        title=f"{d['kernel']}: original against optimised",
        summary=summary,
        tables=(
            _scenarios(d["scenarios"]),
            _shares(d["scenarios"]),
            _outcomes(d.get("outcomes", ())),
            _failures(d.get("failures", ())),
            _rejected(d.get("rejected", ())),
        ),
        charts=[_chart(s, d.get("history", ())) for s in d["scenarios"] if not s["heldout"]],
        before=run.before,
        after=run.after,
        notes=d.get("notes", ()),
    )


def _winners(d: Mapping[str, Any]) -> list[str]:
    """The script and knobs that won; where no one kernel did at all tuned sizes, what did at each."""
    best, tuned = d.get("best_script"), [s for s in d["scenarios"] if not s["heldout"]]
    won = [s for s in tuned if s.get("script")]
    if best or not won:
        script = best or f"none: {_nothing(d)}"
        return [f"Script: {script}", f"Knobs: {_knobs(d.get('best_knobs', {}))}"]
    head = "Script: none for all sizes: no one kernel beat the original at each of them, which is kept"
    return [head, *(f"At {s['name']}: {_winner(s)}" for s in tuned)]


def _winner(s: Mapping[str, Any]) -> str:
    if not s.get("script"):
        return s["verdict"] if ": " in s["verdict"] else "nothing verified beat the original"
    return f"{s['script']} ({_knobs(s['knobs'])}), {s['ratio'][0]:.2f}x"


def _scenarios(scenarios: list[Mapping[str, Any]]) -> Table:
    rows = []
    for s in scenarios:
        mid, low, high = s["ratio"]
        share = f"{100 * s['bound'] / s['after']['median']:.0f} %" if s.get("bound") else "unknown"
        name = s["name"] + (" (held out)" if s["heldout"] else "")
        speed = f"{mid:.2f}x [{low:.2f}, {high:.2f}]"
        rows.append((name, _time(s["before"]), _time(s["after"]), speed, share, s["verdict"], _knobs(s["knobs"])))
    return Table("Scenarios", ("scenario", "before", "after", "speed-up", "of bound", "verdict", "knobs"), rows)


def _shares(scenarios: list[Mapping[str, Any]]) -> Table:
    """What each step of each winner is worth (see :mod:`ktc.agent.step_shares`)."""
    from ktc.agent.report import StepShare

    found = [(s["name"], StepShare(**x)) for s in scenarios for x in s.get("shares", ())]
    rows = [(name, x.step, str(x)) for name, x in found]
    return Table("What each step is worth", ("scenario", "step", "without it the kernel takes"), rows)


def _outcomes(outcomes: list[Mapping[str, Any]]) -> Table:
    rows = []
    for o in outcomes:
        gain = f"{o['gain']:.2f}x" if o.get("gain") else ""
        rows.append((o["script"] or "(as it is)", o["status"], gain, o.get("detail", ""), o.get("reason", "")))
    return Table("Scripts tried", ("script", "status", "gain", "detail", "why it was tried"), rows)


def _nothing(d: Mapping[str, Any]) -> str:
    """Why no script won: "nothing was better" is said only where something was timed."""
    compared = any(o.get("status") == "tuned" and o.get("script") for o in d.get("outcomes", ()))
    return f"nothing {'verified beat' if compared else 'was measured against'} the original"


def _failures(failures: list[Mapping[str, Any]]) -> Table:
    rows = [(str(f["count"]), f["status"], f["message"], f["script"], _knobs(f["knobs"])) for f in failures]
    return Table("Tried and not timed, by cause", ("configurations", "status", "why", "for example", "knobs"), rows)


def _internal(failures: list[Mapping[str, Any]]) -> list[str]:
    from ktc.agent.failures import INTERNAL, WHAT_TO_SEND

    ours = sum(f["count"] for f in failures if f["status"] == INTERNAL)
    return [f"{ours} of these failed inside ktc: {WHAT_TO_SEND}."] if ours else []


def _rejected(rejected: list[Mapping[str, Any]]) -> Table:
    rows = [(r.get("script", ""), _knobs(r.get("knobs", {})), r.get("verdict", "")) for r in rejected]
    return Table("Rejected: wrong or broken, never timed as winners", ("script", "knobs", "verdict"), rows)


def _chart(s: Mapping[str, Any], history: list[Mapping[str, Any]]) -> Chart:
    """One point a step of the race: the best of the script that just ran, at the number of measurements so far.

    ``spent`` in the history counts over the whole run; the chart counts from where its scenario began. The original's
    time is that of the search, as the others' are: the finals measure under other conditions.
    """
    mine = [h for h in history if h["scenario"] == s["name"]]
    began = max((h["spent"] for h in history[: history.index(mine[0])]), default=0) if mine else 0
    original = next((h["best"] for h in mine if not h["script"]), s["before"]["median"])
    points = [Point(0, original, "the original")]
    points += [Point(h["spent"] - began, h["best"], h["script"]) for h in mine if h["script"]]
    return Chart(f"Search on {s['name']}", points, original, s.get("bound") or None)


def _time(t: Mapping[str, float]) -> str:
    half = 50.0 * (t["high"] - t["low"]) / t["median"] if t["median"] else 0.0
    return f"{t['median'] * 1e6:.4g} us ±{half:.1f} %"


def _knobs(knobs: Mapping[str, Any]) -> str:
    return " ".join(f"{k}={v}" for k, v in knobs.items()) or "none"


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace") if str(path) else ""
    except OSError:
        return ""
