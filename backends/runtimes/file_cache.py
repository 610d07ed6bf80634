"""A content-addressed cache on disk: JSON descriptions beside binary or text files, named by SHA-256; no pickle."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path

from ktc.ir.diagnostics import KtcError


def cache_root() -> Path:
    """``$KTC_CACHE``, else ``$XDG_CACHE_HOME/ktc``, else ``~/.cache/ktc``."""
    explicit = os.environ.get("KTC_CACHE")
    return Path(explicit) if explicit else user_caches() / "ktc"


def user_caches() -> Path:
    """``$XDG_CACHE_HOME``, else ``~/.cache``. A relative path is no cache by that standard: code that is kept there and
    run again would come from the current folder."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return Path(named) if os.path.isabs(named) else Path.home() / ".cache"


def key_of(*parts: str) -> str:
    """SHA-256 over ``parts``; the boundaries count."""
    h = hashlib.sha256()
    for p in parts:
        data = p.encode()
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.hexdigest()


class Cache:
    """Entries ``<key>.bin`` with ``<key>.json`` (which holds the binary's own SHA-256) in a folder.

    Writes are atomic (rename), so readers in other processes see all of an entry or none of it; a damaged entry reads
    as missing.
    """

    def __init__(self, kind: str, root: Path | None = None) -> None:
        self.folder = (root or cache_root()) / kind

    def get(self, key: str) -> tuple[bytes, dict] | None:
        try:
            info = json.loads((self.folder / f"{key}.json").read_text("utf-8"))
            data = (self.folder / f"{key}.bin").read_bytes()
        except (OSError, ValueError):
            return None
        return (
            (data, info) if isinstance(info, dict) and info.get("sha256") == hashlib.sha256(data).hexdigest() else None
        )

    def put(self, key: str, data: bytes, info: dict) -> None:
        """Store. Raises KtcError E-CACHE-WRITE when the folder cannot be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomic(self.folder / f"{key}.bin", data)
            entry = json.dumps({**info, "sha256": hashlib.sha256(data).hexdigest()}, sort_keys=True)
            write_atomic(self.folder / f"{key}.json", entry.encode())
        except OSError as e:
            raise KtcError(
                "E-CACHE-WRITE", f"cannot write the compile cache {self.folder}: {e.strerror}", exit_code=3,
                hint="set KTC_CACHE to a writable folder with free space",
            ) from None  # fmt: skip


def write_atomic(path: Path, data: bytes) -> None:
    """Replace ``path`` by ``data`` in one step."""
    fd, tmp = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    try:
        with os.fdopen(fd, "wb") as f:
            f.write(data)
        os.replace(tmp, path)
    except BaseException:
        Path(tmp).unlink(missing_ok=True)
        raise
