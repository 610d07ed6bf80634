"""What became of kernels raised before, on disk: every command of a session raises the same kernel.

Entries are named by SHA-256 of the kernel, exactly (its text, its facts, its places in the source), and of the code and
versions that raise it. They hold the outcome in full; one that is damaged, or does not come back as what was stored,
reads as missing. They lie in a folder that nobody else can write; ``KTC_RAISE_CACHE`` is ``off``, ``on`` (as when it is
not set), or another root than that of the other caches.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import TypeAlias

import ktc.ir
import ktc.passes
from ktc.ir.kernel import Kernel
from ktc.ir.support.cache_folders import private_folder
from ktc.ir.support.package_hash import package_hash
from ktc.ir.support.time_limits import is_over
from ktc.ir.text.plain_kernels import Reader, Writer
from ktc.passes.core.base import Refused, Result
from ktc.passes.raising.check.work_budget import BACKSTOP_SECONDS

Outcome: TypeAlias = Result | Refused


def remembered(kernel: Kernel, attempt: Callable[[], Outcome]) -> Outcome:
    """``attempt()``, or what it gave for the same kernel before."""
    asked_for = os.environ.get("KTC_RAISE_CACHE", "on")
    elsewhere = None if asked_for in ("on", "") else asked_for
    folder = None if asked_for == "off" else private_folder("raised", elsewhere)
    asked = Writer()
    try:
        question = json.dumps(asked.plain(kernel)) if folder is not None else ""
    except (TypeError, RecursionError):
        folder = None
    if folder is None:
        return attempt()
    key = hashlib.sha256(f"{_code()} {question}".encode()).hexdigest()
    path = folder / f"{key}.json"
    found = _recalled(path, asked)
    if found is not None:
        return found
    began = process_time()
    outcome = attempt()
    if process_time() - began < BACKSTOP_SECONDS and not is_over():  # what the clock stopped may go further elsewhere
        _store(path, asked, outcome)
    return outcome


def _written(asked: Writer, outcome: Outcome) -> str:
    """``outcome`` as text, with the symbols of the kernel that was asked about."""
    writer = Writer(asked.symbols)
    if isinstance(outcome, Result):
        return json.dumps(["raised", writer.plain(outcome.kernel), list(outcome.notes)])
    return json.dumps(["refused", outcome.code, outcome.why, writer.plain(outcome.locs), outcome.hint])


def _read(asked: Writer, text: str) -> Outcome:
    kind, *rest = json.loads(text)
    reader = Reader(asked.symbols)
    if kind == "raised":
        kernel, notes = rest
        return Result(reader.value(kernel), tuple(notes))
    code, why, locs, hint = rest
    return Refused(code, why, reader.value(locs), hint)


def _recalled(path: Path, asked: Writer) -> Outcome | None:
    try:
        digest, text = path.read_text(encoding="utf-8").split("\n", 1)
        return _read(asked, text) if digest == hashlib.sha256(text.encode()).hexdigest() else None
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return None


def _store(path: Path, asked: Writer, outcome: Outcome) -> None:
    """Keep ``outcome`` if it comes back as it is; a folder that is full costs the entry, not the outcome."""
    try:
        text = _written(asked, outcome)
        if _written(asked, _read(asked, text)) != text:
            return
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False, encoding="utf-8") as f:
            f.write(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}")
        os.replace(f.name, path)
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return


def _code() -> str:
    """A hash of all that decides how a kernel is raised."""
    return package_hash(ktc.ir, ktc.passes)


__all__ = ["remembered"]
