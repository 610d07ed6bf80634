"""Logs of campaigns: one JSON object a line, which a command that goes on reads first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def rows_of(log: Path) -> list[dict[str, Any]]:
    """The rows of ``log``, in their order.

    Raises:
        OSError: there is no such file.
    """
    return [json.loads(x) for x in log.read_text().splitlines()]


def logged(log: Path) -> list[dict[str, Any]]:
    """The rows that ``log`` has so far: none where there is no such file yet."""
    return rows_of(log) if log.is_file() else []


def append(log: Path, row: Mapping[str, Any]) -> None:
    """``row`` as the last line of ``log``."""
    with log.open("a") as f:
        f.write(json.dumps(row) + "\n")
