"""A hash of the code that decides an answer: what is kept on disk holds for that code alone."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np


@cache
def package_hash(*packages: ModuleType) -> str:
    """SHA-256 of all sources and tables of ``packages``, and of the versions of Python and numpy."""
    digest = hashlib.sha256(f"{sys.version} {np.__version__}".encode())
    for package in packages:
        folder = Path(package.__file__ or "").parent
        for path in sorted(p for p in folder.rglob("*") if p.suffix in (".py", ".txt", ".lark", ".cuh")):
            data = path.read_bytes()
            digest.update(f"\n{path.relative_to(folder).as_posix()} {len(data)}\n".encode() + data)
    return digest.hexdigest()


__all__ = ["package_hash"]
