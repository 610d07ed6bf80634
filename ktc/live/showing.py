"""Who listens to a run and shows it: a view where there is a terminal, lines elsewhere, nobody if asked to be quiet."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from .board import Board, Event, after
from .plain_lines import SILENCE, how_far, lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from .terminal_view import View

Listener = Callable[[Event], None]


@contextmanager
def showing(quiet: bool = False, stream: TextIO | None = None) -> Iterator[Listener]:
    """What to call with each event of a run, to have it shown on ``stream`` (standard error)."""
    stream = sys.stderr if stream is None else stream
    if quiet:
        yield _nothing
    elif not stream.isatty() or os.environ.get("TERM") == "dumb":
        yield Lines(lambda text: print(text, file=stream, flush=True))
    else:
        from rich.console import Console

        with on_terminal(Console(file=stream, no_color=bool(os.environ.get("NO_COLOR")))) as shown:
            yield shown


def _nothing(event: Event) -> None:
    pass


class Lines:
    """Each event as lines that ``say`` writes; one more after a minute of silence."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._board, self._said = say, Board(), 0.0

    def __call__(self, event: Event) -> None:
        said = list(lines(self._board, event))
        self._board = after(self._board, event)
        if not said and self._board.elapsed - self._said > SILENCE and self._board.phase != "done":
            said = [how_far(self._board)]
        for line in said:
            self._say(line)
            self._said = self._board.elapsed


class Shown:
    """The view of a run and the lines above it, on a terminal that ``live`` refreshes."""

    def __init__(self) -> None:
        self._board, self._began = Board(), time.monotonic()
        self.live: Live | None = None

    def __call__(self, event: Event) -> None:
        from .terminal_view import lasting_lines

        for line in lasting_lines(self._board, event):
            if self.live is not None:
                self.live.console.print(line, no_wrap=line.no_wrap, overflow=line.overflow)
        self._board = after(self._board, event)

    def view(self) -> View:
        """What stands now."""
        from .terminal_view import View

        return View(self._board, time.monotonic() - self._began)


@contextmanager
def on_terminal(console: Console) -> Iterator[Shown]:
    """The live view; when it ends, the lines above it remain."""
    from rich.live import Live

    shown = Shown()
    with Live(get_renderable=shown.view, console=console, refresh_per_second=8, transient=True) as live:
        shown.live = live
        yield shown


__all__ = ["Lines", "Listener", "Shown", "on_terminal", "showing"]
