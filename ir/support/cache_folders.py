"""Folders for what may be computed again: below ``$KTC_CACHE``, else ``$XDG_CACHE_HOME/ktc``, else ``~/.cache/ktc``."""

from __future__ import annotations

import os
from pathlib import Path


def private_folder(kind: str, root: str | None = None) -> Path | None:
    """The folder of one kind of cache, below ``root`` if given, when it is ours alone; it is made where it is missing.
    None if there is no such place."""
    root = root or os.environ.get("KTC_CACHE")
    try:
        base = Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ktc"
        folder = base / kind
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
    except (OSError, RuntimeError):
        return None
    foreign = hasattr(os, "getuid") and (about.st_uid != os.getuid() or about.st_mode & 0o022)
    return None if foreign or not os.access(folder, os.W_OK) else folder
