"""The events of a run as lines of text, for logs, pipes and notebooks: few, and no time that is not verified.

The lines are a function of where the run stands and what happens next; the view on a terminal keeps them above itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ktc.ir.support.quantities import clock, duration, percent, times, with_spread

from .board import Board, Event, Mark, Row, cause_of

LONG = 5.0
"""Seconds of a check that are worth a line: whoever waits should see for what."""

APART = 0.05
"""Share by which a time in the finals differs from that of the search before this is said."""

AUTHORS = ("llm", "given")
"""Planners whose refused scripts are worth a line: somebody wrote them for this kernel."""

SILENCE = 60.0
"""Seconds after which a line says how far the run has come."""


def lines(board: Board, event: Event) -> Iterator[str]:
    """What to say of ``event``, which happens to a run that stands at ``board``; mostly nothing."""
    writer = _WRITERS.get(event["event"])
    if writer is not None:
        yield from writer(board, event)


def how_far(board: Board) -> str:
    """One line about a run that had nothing to say for a while."""
    left = f", {clock(board.left)} left at most" if board.left is not None else ""
    return f"{board.phase} {board.scenario}: {board.spent}/{board.budget} measured in {clock(board.elapsed)}{left}"


def timed(mark: Mark) -> str:
    """``69.5 µs ±0.9 %``; without the interval where none is known."""
    return with_spread(mark.seconds, *mark.interval) if mark.interval else duration(mark.seconds)


def knobs_of(e: Event) -> str:
    """`` V=8 T=256``, with a space before each."""
    return "".join(f" {k}={v}" for k, v in (e.get("knobs") or {}).items())


def of_bound(row: Row, seconds: float) -> str:
    """``24 % of the bound (memory)``, or nothing."""
    return f"{percent(row.of_bound(seconds))} of the bound ({row.limiter})" if row.bound else ""


def _begin(board: Board, e: Event) -> Iterator[str]:
    limit = f" or {clock(e['time_limit'])}" if e["time_limit"] else ""
    device = f"{e['device']['name']} ({e['device']['backend']})"
    yield f"{e['kernel']} on {device}, planner {e['planner']}, {e['budget']} measurements{limit} at most"


def _original(board: Board, e: Event) -> Iterator[str]:
    mark = Mark(e["seconds"], tuple(e["interval"]) if e.get("interval") else None)
    yield f"{e['scenario']}: the original takes {timed(mark)}"


def _refused(board: Board, e: Event) -> Iterator[str]:
    if e.get("planner") in AUTHORS:
        yield f"  refused: {e['script']}: {e['why']} [{e['code']}]"


def _verified(board: Board, e: Event) -> Iterator[str]:
    if e["seconds"] > LONG:
        yield f"  {e['status']} after {duration(e['seconds'])}: {e['script']}{knobs_of(e)}"


def _rejected(board: Board, e: Event) -> Iterator[str]:
    yield f"  rejected: {e['script']}{knobs_of(e)}: {e['why']}"


def _failed(board: Board, e: Event) -> Iterator[str]:
    for group in e["failures"]:
        if cause_of(e, group) not in board.causes:
            yield f"  failed: {group}: {e['script']}"


def _improvement(board: Board, e: Event) -> Iterator[str]:
    if board.row(e["scenario"]).result is not None:
        return
    interval = tuple(e["interval"]) if e.get("interval") else None
    mark = Mark(e["seconds"], interval)
    share = of_bound(board.row(e["scenario"]), e["seconds"])
    more = ", ".join(filter(None, (f"{e['original'] / e['seconds']:.2f}x", share)))
    yield f"{e['scenario']}: {timed(mark)} verified, {more}: {e['script']}{knobs_of(e)}"


def _withdrawn(board: Board, e: Event) -> Iterator[str]:
    yield f"{e['scenario']}: withdrawn, {duration(e['seconds'])} is none: {e['script']}{knobs_of(e)}: {e['why']}"


def _result(board: Board, e: Event) -> Iterator[str]:
    before, after = (with_spread(t["median"], t["low"], t["high"]) for t in (e["before"], e["after"]))
    if not e["script"]:
        yield f"{e['scenario']}: result: {e['verdict']}, {before}"
        return
    yield (
        f"{e['scenario']}: result: {after} against {before}, {times(*e['ratio'])}, {e['verdict']}: "
        f"{e['script']}{knobs_of(e)}"
    )
    yield from _changed(board.row(e["scenario"]), e)


def _changed(row: Row, e: Event) -> Iterator[str]:
    """Why a result is not what was shown before."""
    shown, now = row.verified, {"original": e["before"]["median"], "this": e["after"]["median"]}
    if shown is not None and not shown.is_of(e):
        met = next((m for m in row.duels if m.script == shown.script and m.knobs == shown.knobs), None)
        here = f"takes {duration(met.seconds)} in turns" if met else "did not meet the original again"
        yield f"  the fastest of the search, {timed(shown)}, {here}: {shown.script}{knobs_of(vars(shown))}"
    alone = {"original": row.original, "this": shown if shown and shown.is_of(e) else None}
    if any(m and abs(now[what] / m.seconds - 1) > APART for what, m in alone.items()):
        said = ", ".join(f"{what} {duration(m.seconds)}" for what, m in alone.items() if m)
        yield f"  as the search measured them, each alone: {said}"


_WRITERS: dict[str, Callable[[Board, Event], Iterator[str]]] = {
    "begin": _begin,
    "original": _original,
    "refused": _refused,
    "verified": _verified,
    "rejected": _rejected,
    "tune": _failed,
    "improvement": _improvement,
    "withdrawn": _withdrawn,
    "result": _result,
}


__all__ = ["SILENCE", "how_far", "knobs_of", "lines", "of_bound", "timed"]
