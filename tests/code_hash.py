"""Which code made a row of a campaign's log: a hash of the product and of the campaign's own files.

A figure is of one state of the code. A campaign that goes on where it was interrupted takes over the rows of this hash
and no others.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from tests.paths import ROOT

PRODUCT = ("ktc", "ir", "passes", "backends", "search", "agent", "kernels")
NO_CODE = {".md", ".pyc"}


@cache
def code_hash(*own: str) -> str:
    """Sixteen hex digits for the product and the files and folders ``own``, which are relative to the root."""
    digest = hashlib.sha256()
    for path in sorted(p for name in (*PRODUCT, *own) for p in _files(ROOT / name)):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [p for p in path.rglob("*") if p.is_file() and p.suffix not in NO_CODE]
