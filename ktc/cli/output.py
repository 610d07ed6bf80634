"""What commands print: text that is readable on a terminal and greppable elsewhere, or JSON."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from ktc.ir.diagnostics import KtcError, render

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


def colours(stream: TextIO) -> bool:
    """Whether to colour ``stream``: a terminal, ``NO_COLOR`` unset (no-color.org), not a dumb one."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str, stream: TextIO | None = None) -> str:
    stream = sys.stdout if stream is None else stream
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if colours(stream) else text


def colour_error(text: str) -> str:
    """A rendered error with its first line in bold and the word ``error:`` in red, on a terminal."""
    if not colours(sys.stderr):
        return text
    head, _, rest = text.partition("\n")
    head = re.sub(r"\berror:", "\x1b[31merror:\x1b[39m", head, count=1)
    return f"\x1b[1m{head}\x1b[0m" + (f"\n{rest}" if rest else "")


def ended(error: KtcError, json_: bool) -> BaseException:
    """What to raise for ``error`` once a result is printed: with ``json_`` standard output holds its one document, and
    the error goes to standard error alone."""
    if not json_:
        return error
    print(colour_error(render(error)), file=sys.stderr)
    return SystemExit(error.exit_code)


def print_json(value: Any) -> None:
    """``value`` as one indented JSON document; NaN and infinities become null, for strict parsers."""
    print(as_json(value))


def as_json(value: Any) -> str:
    """What :func:`print_json` prints."""
    return json.dumps(_plain(value), indent=2, allow_nan=False)


def _plain(v: Any) -> Any:
    if isinstance(v, dict):
        return {str(k): _plain(x) for k, x in v.items()}
    if isinstance(v, list | tuple | set | frozenset):
        return [_plain(x) for x in v]
    if isinstance(v, float):
        return v if v == v and abs(v) != float("inf") else None
    if v is None or isinstance(v, str | int | bool):
        return v
    return v.item() if hasattr(v, "item") else str(v)


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[int] = ()) -> str:
    """Aligned columns, two spaces apart; ``right`` lists right-aligned columns; the last column is not padded."""
    cells = [[str(c) for c in row] for row in rows]
    widths = [max(len(r[i]) for r in [list(headers), *cells]) for i in range(len(headers))]

    def line(row: Sequence[str]) -> str:
        padded = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths))]
        return "  ".join(padded).rstrip()

    return "\n".join([styled(line(list(headers)), "bold"), *map(line, cells)])


def write_file(path: str | Path, text: str) -> None:
    """Write a text file, whole or not at all.

    Raises:
        KtcError: E-WRITE (exit code 3) when the folder cannot be written.
    """
    target = Path(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        os.replace(part, target)
    except OSError as e:
        part.unlink(missing_ok=True) if part.parent.is_dir() and os.access(part.parent, os.W_OK) else None
        raise KtcError(
            "E-WRITE", f"cannot write {target}: {e.strerror}", hint="choose another place with -o", exit_code=3
        ) from e


def put(text: str, output: str) -> None:
    """Print ``text``, or write it to the file ``output`` and say so on standard error."""
    if not output or output == "-":
        print(text, end="" if text.endswith("\n") else "\n")
        return
    write_file(output, text if text.endswith("\n") else text + "\n")
    note(f"wrote {output}")


def columns() -> int:
    """The width of the terminal that standard output is; 0 where it is none."""
    import shutil

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def note(text: str) -> None:
    """A line for the reader that is not part of the result: standard error; broken between words on a terminal."""
    if sys.stderr.isatty():
        import shutil

        text = textwrap.fill(
            text, max(20, shutil.get_terminal_size().columns), subsequent_indent="  ", break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip
    print(styled(text, "dim", sys.stderr), file=sys.stderr)


class Progress:
    """Progress of a long command: a bar on a terminal, one plain line an event elsewhere."""

    def __init__(self, bar: Any = None, task: Any = None) -> None:
        self._bar, self._task = bar, task

    def say(self, text: str) -> None:
        """One event, kept on screen."""
        if self._bar is not None:
            self._bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def update(self, done: float, total: float, text: str = "") -> None:
        """Move the bar; silent where there is none."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, description=text)

    def doing(self, text: str) -> None:
        """What takes time now, beside the bar, as far as a line holds it; silent where there is none."""
        if self._bar is not None:
            self._bar.update(self._task, description=text[:60])


PATIENCE = 5.0
"""Seconds after which somebody who sees plain lines is told what takes so long."""


def drafting(kernel: str) -> str:
    """What is done while a workload is drafted, for whoever waits for it."""
    return f"drafting a workload for {kernel}, which is run on a few threads"


@contextmanager
def waiting(title: str, quiet: bool = False) -> Iterator[None]:
    """Says on standard error what is done in the meantime: at once, with the time that it takes, on a terminal; in a
    line elsewhere, if it takes more than :data:`PATIENCE`."""
    if quiet:
        yield
    elif not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        late = threading.Timer(PATIENCE, note, [f"{title} ..."])
        late.daemon = True
        late.start()
        try:
            yield
        finally:
            late.cancel()
    else:
        from rich.console import Console
        from rich.progress import Progress as Bar
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True, no_color=bool(os.environ.get("NO_COLOR")))
        with Bar(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console,
                 transient=True) as bar:  # fmt: skip
            bar.add_task(title, total=None)
            yield


@contextmanager
def progress(title: str, quiet: bool = False) -> Iterator[Progress]:
    """A :class:`Progress` on standard error."""
    if quiet or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield Progress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True, no_color=bool(os.environ.get("NO_COLOR")))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        yield Progress(bar, bar.add_task(title, total=None))
