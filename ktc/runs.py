"""A run's folder read back, whether it has ended, goes on, or was killed.

``report.json`` (:mod:`ktc.agent.report`) has what a finished run found; ``run.json`` and ``trajectory.jsonl``
(:mod:`ktc.agent.about`, :mod:`ktc.agent.trajectory`) what happened on the way, also of one that is not finished.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktc.agent.about import About, load_about
from ktc.agent.trajectory import NAME as TRAJECTORY
from ktc.ir.diagnostics import KtcError
from ktc.live.board import Board, Event, Mark, Row, after

FINISHED, RUNNING, KILLED = "finished", "running", "not finished"


@dataclass(frozen=True)
class Configuration:
    """A measured configuration: the ``number`` of the measurement on its scenario, seconds with their interval (None:
    it failed), its status (:data:`ktc.search.records.outcome.STATUSES`) and what went wrong."""

    scenario: str
    number: int
    script: str
    knobs: Mapping[str, int]
    status: str
    seconds: float | None
    interval: tuple[float, float] | None = None
    error: str = ""


@dataclass(frozen=True)
class Run:
    """``data`` is the report, or what there is of it; ``events`` those of the trajectory's last run. ``before`` and
    ``after``: the source it started from and the code it ended with (empty where they are gone)."""

    folder: Path
    data: Mapping[str, Any]
    state: str = FINISHED
    about: About | None = None
    events: Sequence[Event] = field(default_factory=tuple, repr=False)
    before: str = field(default="", repr=False)
    after: str = field(default="", repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    """All source files that the recipe holds, the one of ``before`` among them."""

    @property
    def board(self) -> Board:
        """Where the run stands."""
        board = Board()
        for e in self.events:
            board = after(board, e)
        return board

    @property
    def configurations(self) -> list[Configuration]:
        """All that was measured, in order."""
        counts: dict[str, int] = {}
        out = []
        for e in self.events:
            for t in _trials(e):
                at = e["scenario"]
                counts[at] = counts.get(at, 0) + 1
                interval = tuple(t["interval"]) if t.get("interval") else None
                found = (t["status"], t["seconds"], interval, t.get("error", ""))
                out.append(Configuration(at, counts[at], e["script"], t["knobs"], *found))
        return out

    def verified(self, scenario: str) -> list[tuple[int, float]]:
        """(number of measurements on the scenario, best verified seconds from then on)."""
        count, out = 0, []
        for e in self.events:
            if e.get("scenario") != scenario:
                continue
            count += len(_trials(e))
            if e["event"] == "improvement":
                out.append((count, float(e["seconds"])))
            elif e["event"] == "withdrawn":
                out.append((count, float(e["original"])))
        return out

    @property
    def verdicts(self) -> list[Event]:
        """What the verification ladder said, in order."""
        return [e for e in self.events if e["event"] == "verified"]


def _trials(e: Event) -> list[Mapping[str, Any]]:
    """The configurations that an event of a trajectory measured; earlier trajectories have them as text, and none."""
    found = e.get("trials", ()) if e["event"] == "tune" else ()
    return [t for t in found if isinstance(t, Mapping)]


def load_run(folder: Path) -> Run:
    """The run in ``folder`` (or that of its ``report.json``).

    Raises:
        KtcError: E-FILE (exit code 2) when there is nothing of a run.
    """
    folder = folder if folder.is_dir() or not folder.is_file() else folder.parent
    if not any((folder / name).is_file() for name in ("report.json", TRAJECTORY)):
        raise KtcError("E-FILE", f"{folder} holds no run", hint=_runs_near(folder), exit_code=2)
    about, events = load_about(folder), list(_last_run(folder / TRAJECTORY))
    ended = not events or events[-1]["event"] == "done"
    if ended or about is None:
        data = load_json(folder / "report.json", "a run's report.json")
        for key in ("kernel", "device", "scenarios"):
            if key not in data:
                raise KtcError("E-FILE", f"{folder} is not a run's report: no '{key}'", exit_code=2)
        state = FINISHED
    else:
        state = RUNNING if about.is_running else KILLED
        data = _so_far(about, events)
    code = data.get("files", {}).get("kernel", "")
    source, files = _sources_of(folder / "recipe.json") if state == FINISHED else ("", {})
    before = source or _text(data.get("source", ""))
    return Run(folder, data, state, about, events, before, _text(code) or _text(folder / Path(code).name), files)


def _runs_near(folder: Path) -> str:
    """Where runs are that may have been meant: those in a folder of runs."""
    inside = sorted(str(p.parent) for name in ("report.json", TRAJECTORY) for p in folder.glob(f"*/{name}"))
    found = ", ".join(dict.fromkeys(inside))
    return f"it holds those of {found}" if found else "name the folder that `ktc optimize` or `ktc tune` wrote"


def _last_run(path: Path) -> Iterator[Event]:
    """The events of the last run that wrote to a trajectory; a line that was cut off as it was killed is left out."""
    found: list[Event] = []
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event.get("n") == 0:
            found = []
        found.append(event)
    yield from found


def _so_far(about: About, events: Sequence[Event]) -> dict[str, Any]:
    """A report of a run that has not ended, as far as its events give one."""
    board = Board()
    for e in events:
        board = after(board, e)
    rows = [r for r in board.rows if r.original is not None]
    return {
        "kernel": about.kernel, "source": about.source, "workload": about.workload, "variant": about.variant,
        "device": dict(about.device), "planner": about.planner, "budget": about.budget,
        "scenarios": [_scenario(r, r.original) for r in rows if r.original],
        "measured": board.spent, "seconds": board.elapsed,
        "rejected": [e for e in events if e["event"] == "rejected"],
        "outcomes": [{"script": e["script"], "status": "refused", "detail": e["why"]}
                     for e in events if e["event"] == "refused"],
    }  # fmt: skip


def _scenario(row: Row, original: Mark) -> dict[str, Any]:
    """What stands of a scenario: its result, or the fastest verified configuration against the original, each alone."""
    if row.result is not None:
        return {"name": row.scenario, **row.result}
    best = row.verified or original
    ratio = original.seconds / best.seconds
    verdict = "verified, not yet timed in turns with the original" if row.verified else "nothing is verified yet"
    return {
        "name": row.scenario, "heldout": False, "before": _timed(original), "after": _timed(best),
        "ratio": [ratio] * 3, "script": best.script, "knobs": dict(best.knobs), "verdict": verdict,
        "bound": row.bound, "limiter": row.limiter,
    }  # fmt: skip


def _timed(m: Mark) -> dict[str, float]:
    low, high = m.interval or (m.seconds, m.seconds)
    return {"median": m.seconds, "low": low, "high": high}


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


def _sources_of(recipe: Path) -> tuple[str, Mapping[str, str]]:
    """The source as a recipe holds it, and all files that it holds."""
    try:
        held = json.loads(recipe.read_text(encoding="utf-8"))["sources"]
        return str(held["files"][held["source"]]), held["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return "", {}


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace") if str(path) else ""
    except OSError:
        return ""


__all__ = ["FINISHED", "KILLED", "RUNNING", "Configuration", "Run", "load_json", "load_run"]
