"""The translation units of a project that call a function, looked for near the file that defines it.

A wrapper around a launch is called from another file, often through a header that spells it for C++:

    k.cu: extern "C" void scale_f(dim3 g, dim3 b, float* x, int n)      k.h: inline void scale(..) { scale_f(..); }
    m.cc: scale(grid, block, data, n)
"""

from __future__ import annotations

import os
import re

from .including_units import Surroundings
from .source_trees import is_header, read_bytes

MOST_UNITS = 2
"""Units that are read for what they call."""

MOST_BYTES = 1 << 19
"""Of the text of a unit that is read."""

_HEAD = re.compile(rb"\b(\w+)\s*\([^;{}()]*\)\s*\{")
_NO_FUNCTIONS = frozenset({b"if", b"for", b"while", b"switch"})


def units_calling(file: str, root: str, function: str) -> list[str]:
    """Units near ``file``, in the project ``root``, that call ``function`` or what a header makes of it by calling it:
    those that do so most first, tests last."""
    own = os.path.realpath(file)
    texts = {f: read_bytes(f) for f in Surroundings(file, root).files if os.path.realpath(f) != own}
    names = {function.encode()}
    names |= {caller for f, text in texts.items() if is_header(f) for caller in _callers(text, function.encode())}
    call = re.compile(rb"\b(?:" + b"|".join(map(re.escape, sorted(names))) + rb")\s*\(")
    counts = {f: len(call.findall(text)) for f, text in texts.items() if not is_header(f)}
    found = [f for f, n in counts.items() if n and len(texts[f]) <= MOST_BYTES]
    return sorted(found, key=lambda f: ("test" in os.path.basename(f).lower(), -counts[f], f))[:MOST_UNITS]


def _callers(text: bytes, function: bytes) -> set[bytes]:
    """The functions of a header whose bodies call ``function``, by what stands before the call."""
    found: set[bytes] = set()
    for m in re.finditer(rb"\b" + re.escape(function) + rb"\s*\(", text):
        before = [h[1] for h in _HEAD.finditer(text, max(0, m.start() - 4096), m.start()) if h[1] not in _NO_FUNCTIONS]
        found |= {*before[-1:]}
    return found


__all__ = ["units_calling"]
