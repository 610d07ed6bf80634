"""Units that a program links with a source, whose device functions it calls: ``seed.cu`` beside ``seed.cuh``.

    seed.cuh:  __device__ int lower(const Seed& s);        walk.cu:  #include "seed.cuh"
    seed.cu:   __device__ int lower(const Seed& s) { .. }            __global__ void walk(..) { .. lower(s) .. }

A build with relocatable device code compiles each by itself. Here the definitions are read behind the source, as if it
included them there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from .source_text import read_source

EXTENSIONS = (".cu", ".cpp", ".cc", ".cxx", ".hip")
"""What units are called."""

MOST_UNITS = 8
"""Units that are read behind one source."""

_DECLARED = re.compile(r"\b__device__\b[^;{}()=]*?\b(\w+)\s*\([^;{}]*?\)\s*(?:noexcept\s*)?;")
"""A device function that is only declared, by its name."""

_DEFINED = re.compile(r"\b(\w+)\s*\([^;{}]*\)\s*(?:noexcept\s*)?\{")


def linked_units(file: str, sources: Mapping[str, str], linked: Sequence[str] = ()) -> list[str]:
    """The units, by their paths, that define device functions which ``file``, or those already ``linked``, call and a
    header declares that these include, each beside that header and of its name. ``sources``: what was read, text by
    path. Units with kernels of their own are left out, which are launched otherwise."""
    texts = {os.path.realpath(p): t for p, t in sources.items()}
    called = "\n".join(texts.get(os.path.realpath(p), "") for p in (file, *linked))
    found: list[str] = []
    for header, text in texts.items():
        declared = {n for n in _DECLARED.findall(text) if re.search(rf"\b{n}\s*\(", called)}
        unit = _beside(header, {*texts, *linked}) if declared else ""
        body = read_source(unit) if unit else ""
        if "__global__" not in body and declared & {*_DEFINED.findall(body)}:
            found.append(unit)
    return found[: MOST_UNITS - len(linked)]


def _beside(header: str, known: set[str]) -> str:
    """The unit of the name of ``header``, in its folder; '' where there is none that is not ``known``."""
    stem = os.path.splitext(header)[0]
    there = (os.path.realpath(stem + e) for e in EXTENSIONS)
    return next(
        (u for u in there if u not in known and os.path.dirname(u) == os.path.dirname(header) and os.path.isfile(u)), ""
    )


def with_units(text: str, file: str, units: list[str]) -> str:
    """``text``, of ``file``, with ``units`` included behind it."""
    here = os.path.dirname(os.path.abspath(file))
    return text + "".join(f'\n#include "{os.path.relpath(u, here)}"' for u in units) + "\n"


__all__ = ["linked_units", "with_units"]
