"""A run on a terminal: lines that stay, and below them what stands now: phase, bar, time left, a row a scenario.

A time that is not verified yet is shown here and nowhere else, and says so. Rows lose columns where the terminal is
narrow, and no line is wider than it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ktc.ir.support.quantities import clock, duration, percent

from .board import Board, Event, Mark, Row
from .plain_lines import lines, timed

MOST_ROWS = 8
"""Scenarios that are shown at a time: the one at work, and its neighbours."""

GAP, LEAST_BAR = 2, 10
NARROW = 76
"""Columns of a terminal below which rows are shorter."""


def lasting_lines(board: Board, event: Event) -> Iterator[Text]:
    """What stays above the view: the plain lines, and what became of a time that was shown before its verdict."""
    short = event["event"] in _SHORT
    for line in lines(board, event):
        yield Text(line, style=_STYLES.get(event["event"], ""), no_wrap=short, overflow="ellipsis" if short else "fold")
    if event["event"] == "rejected":
        for row in board.rows:
            if row.pending is not None and row.pending.is_of(event):
                shown = f"{duration(row.pending.seconds)} ({row.gain(row.pending):.2f}x)"
                yield Text(f"  withdrawn: {shown}, which was shown as not yet verified", style="red")


_SHORT = ("improvement", "result")
"""Events whose lines are cut at the edge: the table at the end, and the report, have the scripts in full."""

_STYLES = {"improvement": "green", "result": "bold", "rejected": "red", "withdrawn": "red", "refused": "dim"}


@dataclass(frozen=True)
class View:
    """The view of ``board`` after ``elapsed`` seconds."""

    board: Board
    elapsed: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        board, width = self.board, options.max_width
        yield self._progress(width)
        rows = _window(board)
        if rows:
            yield _table(board, rows, width)
        yield _cropped(f"now: {board.doing}" if board.doing else "", width, "dim")

    def _progress(self, width: int) -> Table:
        """Phase, bar, measurements, time so far and left."""
        board = self.board
        left = f"  {clock(board.left)} left at most" if board.left is not None and width >= NARROW else ""
        if board.left is not None and width < NARROW:
            left = f"  ≤ {clock(board.left)}"
        numbers = f"{board.spent}/{board.budget}  {clock(self.elapsed)}{left}"
        phase = board.phase if width < NARROW else f"{board.phase}: {board.scenario}"
        shown = _cropped(phase, max(8, width - len(numbers) - LEAST_BAR - 2 * GAP), "")
        room = width - len(shown) - len(numbers) - 2 * GAP
        bar = ProgressBar(1.0, board.done, width=room, complete_style="cyan", finished_style="cyan")
        line = Table.grid(padding=(0, GAP, 0, 0))
        line.add_row(shown, bar, Text(numbers, no_wrap=True))
        return line


def _cropped(text: str, width: int, style: str) -> Text:
    cut = Text(text, style=style, no_wrap=True)
    cut.truncate(width, overflow="ellipsis")
    return cut


def _window(board: Board) -> tuple[Row, ...]:
    """The rows around the scenario at work."""
    at = next((i for i, r in enumerate(board.rows) if r.scenario == board.scenario), 0)
    first = max(0, min(at - MOST_ROWS // 2, len(board.rows) - MOST_ROWS))
    return board.rows[first : first + MOST_ROWS]


@dataclass(frozen=True)
class _Column:
    """A column: its head, its width, a cell of (row, mark, what it is), and whether it is shown on a wide terminal, on
    a narrow one, or on both."""

    head: str
    width: int
    cell: Callable[[Row, Mark | None, str], str]
    wide: bool = True
    narrow: bool = True
    right: bool = True


def _ratio(row: Row, mark: Mark | None, state: str) -> str:
    if row.result and state not in (_PENDING,):
        return f"{row.result['ratio'][0]:.2f}x"
    return f"{row.gain(mark):.2f}x" if mark and row.original else ""


def _share(row: Row, mark: Mark | None, state: str) -> str:
    return percent(row.of_bound(mark.seconds)) if mark and row.bound else ""


def _time(row: Row, mark: Mark | None, state: str) -> str:
    return duration(mark.seconds) if mark else ""


def _with_interval(row: Row, mark: Mark | None, state: str) -> str:
    return timed(mark) if mark else ""


def _original(row: Row, mark: Mark | None, state: str) -> str:
    if state == _PENDING:
        return ""
    if row.result:
        return duration(row.result["before"]["median"])
    return duration(row.original.seconds) if row.original else ""


_PENDING, _VERIFIED, _FINAL, _KEPT = "not yet verified", "verified", "result", "original kept"

_COLUMNS = (
    _Column("original", 8, _original, narrow=False),
    _Column("best", 14, _with_interval, narrow=False),
    _Column("best", 7, _time, wide=False),
    _Column("speed-up", 8, _ratio),
    _Column("of bound", 8, _share),
    _Column("", 16, lambda row, mark, state: state, right=False),
)


def _states(row: Row) -> Iterator[tuple[Mark | None, str]]:
    """The lines of a scenario: what is verified (or won), then what is faster and is not verified yet."""
    if row.result is not None:
        e, t = row.result, row.result["after"]
        yield Mark(t["median"], (t["low"], t["high"]), e["script"]), _FINAL if e["script"] else _KEPT
    else:
        yield row.verified, _VERIFIED if row.verified else ""
        if row.pending is not None:
            yield row.pending, _PENDING


def _table(board: Board, rows: tuple[Row, ...], width: int) -> Table:
    columns = [c for c in _COLUMNS if (c.wide if width >= NARROW else c.narrow)]
    taken = sum(c.width for c in columns) + GAP * len(columns)
    name_width = max(8, min(max(len(r.scenario) for r in rows), width - taken))
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("scenario", width=name_width, no_wrap=True, overflow="ellipsis")
    for c in columns:
        table.add_column(c.head, width=c.width, no_wrap=True, justify="right" if c.right else "left")
    for row in rows:
        for i, (mark, state) in enumerate(_states(row)):
            at_work = row.scenario == board.scenario and board.phase != "done"
            style = {_PENDING: "yellow", _FINAL: "bold", _VERIFIED: "green"}.get(state, "" if at_work else "dim")
            name = Text(row.scenario if i == 0 else "", style="bold" if at_work else "")
            table.add_row(name, *(Text(c.cell(row, mark, state), style=style) for c in columns))
    return table


__all__ = ["View", "lasting_lines"]
