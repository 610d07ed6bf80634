"""Where a run stands: a fold over the events of :func:`ktc.agent.optimize.optimize`, for whoever shows it.

``board = after(board, event)``; a board is immutable, and the same events give the same board, whether they come from
a run that goes on or from its ``trajectory.jsonl``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ktc.agent.scripts import built_on

Event = Mapping[str, Any]

UNITS_OF_A_FINAL = 6
"""What the finals of a scenario take, in measurements of the search: some duels, each longer than a measurement."""


@dataclass(frozen=True)
class Mark:
    """A configuration and its time on a scenario, in seconds, with the 95 % interval where it is known."""

    seconds: float
    interval: tuple[float, float] | None = None
    script: str = ""
    knobs: Mapping[str, int] = field(default_factory=dict)

    def is_of(self, e: Event) -> bool:
        """Whether an event is about this configuration."""
        return self.script == e.get("script") and dict(self.knobs) == dict(e.get("knobs") or {})


@dataclass(frozen=True)
class Row:
    """One scenario. ``verified``: the fastest configuration that the ladder accepted; ``pending``: a faster one that it
    has not judged yet; ``duels``: those that met the original, timed in turns with it; ``result``: what the finals
    gave, as the event ``result`` has it. ``bound`` in seconds (0: not known)."""

    scenario: str
    original: Mark | None = None
    bound: float = 0.0
    limiter: str = ""
    verified: Mark | None = None
    pending: Mark | None = None
    duels: tuple[Mark, ...] = ()
    result: Event | None = None

    def gain(self, mark: Mark) -> float:
        """How many times as fast as the original."""
        return self.original.seconds / mark.seconds if self.original else 1.0

    def of_bound(self, seconds: float) -> float:
        """Share of the least possible time (0: not known)."""
        return self.bound / seconds if seconds else 0.0


@dataclass(frozen=True)
class Board:
    """A run. ``held_out``: scenarios, at most, that are timed and not tuned for; ``phase``: starting, search, finals,
    unseen sizes, done; ``doing``: what takes time now; ``causes``: why configurations failed so far, as (script,
    status, message)."""

    kernel: str = ""
    device: str = ""
    planner: str = ""
    budget: int = 0
    time_limit: float | None = None
    rows: tuple[Row, ...] = ()
    tuned: tuple[str, ...] = ()
    held_out: int = 0
    phase: str = "starting"
    scenario: str = ""
    doing: str = ""
    spent: int = 0
    elapsed: float = 0.0
    refused: int = 0
    rejected: int = 0
    causes: frozenset[tuple[str, str, str]] = frozenset()

    def row(self, scenario: str) -> Row:
        return next((r for r in self.rows if r.scenario == scenario), Row(scenario))

    @property
    def done(self) -> float:
        """Share of the run's work that is done, by count; a search may end before it has spent its budget."""
        total = self.budget + UNITS_OF_A_FINAL * max(len(self.tuned) + self.held_out, len(self.rows))
        searched = self.spent if self.phase in ("starting", "search") else self.budget
        finals = sum(r.result is not None for r in self.rows)
        if self.phase == "done":
            return 1.0
        return min(1.0, (searched + UNITS_OF_A_FINAL * finals) / total) if total else 0.0

    @property
    def left(self) -> float | None:
        """Seconds that are left at most, by what was done so far; None while there is nothing to go by."""
        by_count = self.elapsed * (1 / self.done - 1) if self.done > 0.02 else None
        if self.time_limit is None or self.phase not in ("starting", "search"):
            return by_count
        by_clock = max(0.0, self.time_limit - self.elapsed)
        return by_clock if by_count is None else min(by_clock, by_count)


def after(board: Board, event: Event) -> Board:
    """The board once ``event`` has happened."""
    handler = _HANDLERS.get(event["event"])
    board = replace(board, elapsed=float(event.get("elapsed", board.elapsed)))
    return handler(board, event) if handler else board


def _with(board: Board, row: Row) -> Board:
    """``board`` with ``row`` in the place of its scenario's, or added."""
    if any(r.scenario == row.scenario for r in board.rows):
        return replace(board, rows=tuple(row if r.scenario == row.scenario else r for r in board.rows))
    return replace(board, rows=(*board.rows, row))


def _begin(board: Board, e: Event) -> Board:
    device = f"{e['device']['name']} ({e['device']['backend']})"
    started = replace(board, kernel=e["kernel"], device=device, planner=e["planner"], budget=e["budget"],
                      time_limit=e["time_limit"], tuned=tuple(e["scenarios"]),
                      held_out=e.get("held_out", 0))  # fmt: skip
    return replace(started, rows=tuple(Row(s) for s in e["scenarios"]))


def _original(board: Board, e: Event) -> Board:
    row = replace(board.row(e["scenario"]), original=_mark(e))
    phase = "search" if board.phase == "starting" else board.phase
    return _with(replace(board, phase=phase, scenario=e["scenario"], doing=""), row)


def _bound(board: Board, e: Event) -> Board:
    return _with(board, replace(board.row(e["scenario"]), bound=e["seconds"], limiter=e["limiter"]))


def _tune(board: Board, e: Event) -> Board:
    board = replace(board, spent=e["spent"], budget=e["budget"], scenario=e["scenario"], doing="measuring",
                    causes=board.causes | {cause_of(e, g) for g in e["failures"]})  # fmt: skip
    row = board.row(e["scenario"])
    if (lead := e.get("leader")) is None:
        return board
    mark = _mark({**lead, "script": e["script"]})
    known = [m for m in (row.original, row.verified, row.pending) if m is not None]
    if any(m.seconds <= mark.seconds for m in known):
        return board
    return _with(board, replace(row, pending=mark))


def _improvement(board: Board, e: Event) -> Board:
    row, mark = board.row(e["scenario"]), _mark(e)
    faster = row.pending if row.pending and row.pending.seconds < mark.seconds else None
    return _with(board, replace(row, verified=mark, pending=faster))


def _withdrawn(board: Board, e: Event) -> Board:
    row = board.row(e["scenario"])
    return _with(board, replace(row, verified=None)) if row.verified and row.verified.is_of(e) else board


def _rejected(board: Board, e: Event) -> Board:
    """A configuration that waits for its verdict and was built on what is rejected now goes with it."""
    for row in board.rows:
        if row.pending and (row.pending.is_of(e) or built_on(row.pending.script, e["script"])):
            board = _with(board, replace(row, pending=None))
    return replace(board, rejected=board.rejected + 1)


def _result(board: Board, e: Event) -> Board:
    row = replace(board.row(e["scenario"]), result=e, pending=None, bound=e["bound"], limiter=e["limiter"])
    return _with(board, row)


def _compare(board: Board, e: Event) -> Board:
    row = board.row(e["scenario"])
    met = Mark(e["after"], None, e["script"], dict(e["knobs"]))
    return replace(_with(board, replace(row, duels=(*row.duels, met))), doing=f"against the original: {met.script}")


def _doing(text: str, **changes: Any) -> Callable[[Board, Event], Board]:
    """A handler that says what takes time now; braces name fields of the event."""
    return lambda board, e: replace(
        board, doing=text.format_map(e), scenario=e.get("scenario", board.scenario), **changes
    )


def cause_of(e: Event, group: Any) -> tuple[str, str, str]:
    """Why configurations of the event's script failed; ``group`` is a FailureGroup, or its fields by name."""
    said = group if isinstance(group, Mapping) else vars(group)
    return e["script"], said["status"], said["message"]


def _mark(e: Event) -> Mark:
    interval = e.get("interval")
    return Mark(e["seconds"], tuple(interval) if interval else None, e.get("script", ""), dict(e.get("knobs") or {}))


_HANDLERS: dict[str, Callable[[Board, Event], Board]] = {
    "begin": _begin,
    "original": _original,
    "bound": _bound,
    "propose": lambda board, e: replace(board, doing="" if e["scripts"] else f"{e['planner']} has no further ideas"),
    "refused": lambda board, e: replace(board, refused=board.refused + 1),
    "verify": _doing("verifying {script}"),
    "tune": _tune,
    "improvement": _improvement,
    "withdrawn": _withdrawn,
    "rejected": _rejected,
    "finals": _doing("against the original, in turns", phase="finals"),
    "compare": _compare,
    "left_out": _doing("without {step}"),
    "held_out": _doing("the original", phase="unseen sizes"),
    "result": _result,
    "done": lambda board, e: replace(board, phase="done", doing=""),
}


__all__ = ["Board", "Event", "Mark", "Row", "after", "cause_of"]
