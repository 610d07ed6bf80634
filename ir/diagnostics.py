"""Places in the user's source, and errors that can draw a caret under them.

Errors are types with data: a stable ``code`` (``E-PARSE-SYNTAX``), a sentence, a place, a hint and the process's exit
code (1: the kernel or script is at fault, 2: usage, 3: the environment).
"""

from __future__ import annotations

import os
import traceback

from ktc.ir.support.frozen import frozen


@frozen
class Loc:
    """A place: 1-based ``line`` and ``col`` in ``file``."""

    file: str
    line: int
    col: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}"


class KtcError(Exception):
    """An error a user can act on. Anything else that escapes is a bug in ktc."""

    def __init__(
        self,
        code: str,
        message: str,
        loc: Loc | None = None,
        hint: str = "",
        exit_code: int = 1,
        source: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.loc = loc
        self.hint = hint
        self.exit_code = exit_code
        self.source = source

    def __str__(self) -> str:
        return render(self)

    def to_json(self) -> dict:
        """The error as plain data, for ``--json``."""
        place = {"file": self.loc.file, "line": self.loc.line, "col": self.loc.col} if self.loc else None
        return {"error": self.code, "message": self.message, "loc": place, "hint": self.hint}


EXIT_BUG = 70
"""The process's exit code for an error of our own."""


class InternalError(KtcError):
    """An error of ours that would otherwise look like one of the user's: whoever handles errors of the source must not
    take it for one. With ``KTC_DEBUG`` set what was raised is raised on."""

    def __init__(self, raised: BaseException, loc: Loc | None = None) -> None:
        if os.environ.get("KTC_DEBUG"):
            raise raised
        super().__init__(
            "E-INTERNAL", f"internal error: {described(raised)}", loc, hint=what_to_send(), exit_code=EXIT_BUG
        )
        self.__cause__ = raised


def described(raised: BaseException) -> str:
    """An exception of ours with its place in our code."""
    frames = traceback.extract_tb(raised.__traceback__)
    if not frames:
        return f"{type(raised).__name__}: {raised}"
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    file = frames[-1].filename.removeprefix(here + os.sep).replace(os.sep, "/").rpartition("/site-packages/")[2]
    return f"{type(raised).__name__}: {raised} ({file}:{frames[-1].lineno} in {frames[-1].name})"


def what_to_send() -> str:
    """What somebody who meets an error of ours can do about it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        this = f"ktc {version('ktc')}"
    except PackageNotFoundError:
        this = "the version"
    return (
        f"this is a bug in ktc: please send the source file, the kernel's name, the command, {this} and the traceback "
        "that KTC_DEBUG=1 shows"
    )


def render(error: KtcError) -> str:
    """``file:line:col: error: message [CODE]`` with the source line, a caret and the hint below it."""
    lines = [
        f"{error.loc}: error: {error.message} [{error.code}]" if error.loc else f"error: {error.message} [{error.code}]"
    ]
    text = _source_line(error)
    if text is not None and error.loc:
        lines.append("    " + text.replace("\t", " "))
        lines.append("    " + " " * (error.loc.col - 1) + "^")
    if error.hint:
        lines.append(f"  hint: {error.hint}")
    return "\n".join(lines)


def _source_line(error: KtcError) -> str | None:
    if error.loc is None:
        return None
    source = error.source
    if source is None:
        try:
            with open(error.loc.file, encoding="utf-8", errors="replace") as f:
                source = f.read(4 << 20)
        except (OSError, ValueError):
            return None
    rows = source.splitlines()
    return rows[error.loc.line - 1] if 0 < error.loc.line <= len(rows) else None
