"""Where a program names a kernel's instance in a string: for a compiler that runs while the program does.

    name = format("ns::scale<{}, {}>", type, width); compile(source, {name});

No launch says the template arguments then; the string says how many there are, and beside it stands what they are made
of.
"""

from __future__ import annotations

import os
import re

from .project_roots import project_root
from .source_trees import HEADERS, SKIPPED_FOLDERS, UNITS, read_bytes

HOSTS = UNITS | HEADERS | {".py", ".rs", ".jl"}
MOST_FILES = 4_000
"""Files that are looked at."""


def named_at_run_time(file: str, kernel: str) -> str | None:
    """A note that says where the project of ``file`` names an instance of the template ``kernel`` in a string; None
    where it does not."""
    root, looked_at = project_root(file) or os.path.dirname(os.path.abspath(file)), 0
    name = re.escape(kernel.rpartition("::")[2])
    named = re.compile(rf'"[^"\n]*\b{name}\s*<[^"\n]*>[^"\n]*"')
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS)
        for path in (os.path.join(folder, n) for n in sorted(names) if os.path.splitext(n)[1].lower() in HOSTS):
            looked_at += 1
            if looked_at > MOST_FILES:
                return None
            text = read_bytes(path).decode("latin-1")
            if kernel in text and (found := named.search(text)) is not None:
                line = text.count("\n", 0, found.start()) + 1
                where = f"{os.path.relpath(path)}:{line}"
                return f"{where} names it in a string, {found[0]}: what its template arguments are is said there"
    return None


__all__ = ["named_at_run_time"]
