"""Verdicts on disk, by content: a JSON file each, renamed into place, so that processes may share a folder."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path

from .verdict import Verdict

VERSION = "8"
"""Changes whenever the gate may answer differently for the same programs."""


def key_of(*parts: str) -> str:
    """SHA-256 over length-prefixed parts."""
    h = hashlib.sha256()
    for part in (VERSION, *parts):
        data = part.encode()
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.hexdigest()


def _path(folder: Path, key: str) -> Path:
    return folder / key[:2] / f"{key}.json"


def recall(folder: Path, key: str) -> Verdict | None:
    """The stored verdict, marked as cached; None if there is none, or the file is damaged."""
    try:
        data = json.loads(_path(folder, key).read_text(encoding="utf-8"))
        return replace(Verdict.from_json(data), cached=True, seconds=0.0)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember(folder: Path, key: str, verdict: Verdict) -> None:
    """Store a verdict; an unwritable folder costs the cache, not the verdict."""
    path = _path(folder, key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False, encoding="utf-8") as f:
            json.dump(verdict.to_json(), f)
        os.replace(f.name, path)
    except OSError:
        return
