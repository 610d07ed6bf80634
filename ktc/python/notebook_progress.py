"""Progress where Python runs: one table that changes in a notebook, a view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from ktc.ir.support.quantities import clock
from ktc.live.board import Board, Event, after
from ktc.live.plain_lines import timed
from ktc.live.showing import Listener, showing

EVERY = 0.5
"""Seconds between two changes of what a notebook shows, at least."""


@contextmanager
def showing_here(quiet: bool = False) -> Iterator[Listener]:
    """What to call with each event of a run, to have it shown to whoever runs this Python."""
    display = None if quiet else _notebook_display()
    if display is not None:
        shown = InNotebook(display)
        yield shown
        shown.refresh()
    else:
        with showing(quiet) as listener:
            yield listener


def _notebook_display() -> Any:
    """IPython's ``display`` where it draws HTML; None elsewhere. IPython is looked at only if somebody loaded it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display


class InNotebook:
    """A table of the scenarios that is drawn again as events come."""

    def __init__(self, display: Any) -> None:
        self._board, self._drawn = Board(), 0.0
        self._handle = display(_Standing(self._board), display_id=True)

    def __call__(self, event: Event) -> None:
        self._board = after(self._board, event)
        if time.monotonic() - self._drawn > EVERY:
            self.refresh()

    def refresh(self) -> None:
        """Draw what stands now."""
        self._drawn = time.monotonic()
        if self._handle is not None:
            self._handle.update(_Standing(self._board))


class _Standing:
    """Where a run stands: a table in a notebook, lines where only text is shown."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def __repr__(self) -> str:
        return "\n".join([_head(self._board), *("  ".join(c for c in row if c) for row in _rows(self._board))])

    def _repr_html_(self) -> str:
        return board_html(self._board)


def board_html(board: Board) -> str:
    """Where a run stands, as a table."""
    from .reprs import in_notebook

    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in _rows(board))
    heads = "".join(f"<th>{h}</th>" for h in ("scenario", "original", "best", "speed-up", ""))
    bar = f'<progress max="1" value="{board.done:.3f}"></progress> {escape(_head(board))}'
    return in_notebook(f'{bar}<table class="ktc-table"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>')


def _head(board: Board) -> str:
    """Phase, measurements and time."""
    left = f", {clock(board.left)} left at most" if board.left is not None and board.phase != "done" else ""
    return f"{board.phase} {board.scenario}: {board.spent}/{board.budget} measured, {clock(board.elapsed)}{left}"


def _rows(board: Board) -> list[tuple[str, str, str, str, str]]:
    """Of each scenario its name, the original's time, the best one, how much faster that is, and what is faster and not
    verified yet."""
    rows = []
    for r in board.rows:
        waits = f"{timed(r.pending)}, not yet verified" if r.pending else ""
        original = timed(r.original) if r.original else ""
        if r.result is not None:
            best, gain = f"{timed_result(r.result)}, {r.result['verdict']}", f"{r.result['ratio'][0]:.2f}x"
        else:
            best = f"{timed(r.verified)}, verified" if r.verified else ""
            gain = f"{r.gain(r.verified):.2f}x" if r.verified else ""
        rows.append((r.scenario, original, best, gain, waits))
    return rows


def timed_result(e: Event) -> str:
    """The winner's time of an event ``result``."""
    from ktc.ir.support.quantities import with_spread

    t = e["after"]
    return with_spread(t["median"], t["low"], t["high"])


__all__ = ["InNotebook", "board_html", "showing_here"]
