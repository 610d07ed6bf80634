"""The questions for the verification ladder that are open, as folders, in which who has nothing to do finds work.

A folder is made when its question is asked and goes when that is answered. It says what was asked; what runs are
wanted is said by the process that leads (:mod:`ktc.search.verification.sharing.shared_runs`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ktc.search.verification.sharing.run_files import write_whole

PREFIX = "verdict-"
REQUEST = "question.json"


def folder_of(number: int, questions: Path) -> Path:
    """That of the ``number``-th question; the names of younger ones sort behind it."""
    return questions / f"{PREFIX}{number:06}"


def post(own: Path, request: Mapping[str, Any]) -> None:
    """Open a question. Raises OSError."""
    own.mkdir(parents=True, exist_ok=True)
    write_whole(own / REQUEST, [json.dumps(request).encode()])


def asked_in(own: Path) -> dict[str, Any]:
    """The question. Raises OSError where it is answered."""
    request: dict[str, Any] = json.loads((own / REQUEST).read_text(encoding="utf-8"))
    return request


def open_in(questions: Path) -> list[Path]:
    """The folders of the open questions, the oldest first."""
    try:
        names = sorted(n for n in os.listdir(questions) if n.startswith(PREFIX))
    except OSError:
        return []
    return [questions / n for n in names]


__all__ = ["asked_in", "folder_of", "open_in", "post"]
