"""Device libraries that kernels use, written in the language that the front-end reads.

Cooperative groups, cub and their like are C++ headers over the machine's own operations, so what they mean is said in
C++ here too: ``library/NAME.cuh`` declares one namespace, its functions are inlined like the user's, and every backend
gets plain shuffles, barriers and indices. A library is read when the file names its namespace, whether or not the
header was found.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

PREFIX = "<library>/"
"""How the file of a library function is called in coordinates: messages name the user's call instead."""

NAMESPACES: dict[str, tuple[str, ...]] = {
    "cooperative_groups": ("cooperative_groups",),
    "cub": ("cub",),
    "hipcub": ("cub",),
}
"""Library files by the namespace that a source must mention to get them."""

_FOLDER = os.path.join(os.path.dirname(__file__), "library")


@dataclass(frozen=True)
class Library:
    """A parsed library: its declarations, and the names that the parser must know as types and templates."""

    items: tuple[Any, ...]
    types: frozenset[str]
    templates: frozenset[str]


def libraries_of(text: str) -> list[Library]:
    """The libraries that the preprocessed ``text`` mentions, in the table's order."""
    wanted = dict.fromkeys(
        name for namespace, names in NAMESPACES.items() if re.search(rf"\b{namespace}\b", text) for name in names
    )
    return [_library(name) for name in wanted]


def in_library(file: str | None) -> bool:
    """Whether a coordinate's file is one of these libraries."""
    return bool(file) and str(file).startswith(PREFIX)


@cache
def _library(name: str) -> Library:
    from .parser import CudaParser

    with open(os.path.join(_FOLDER, f"{name}.cuh"), encoding="utf-8") as f:
        text = f.read()
    parser = CudaParser()
    items = parser.parse_unit(re.sub(r"//[^\n]*", "", text), f"{PREFIX}{name}.cuh")
    return Library(tuple(items), frozenset(_types(items)), frozenset(parser._templates))


def _types(items: Iterable[Any]) -> set[str]:
    """Names of records and aliases at any namespace depth."""
    from .cxx_ast import Alias, Bad, Namespace, Record, Template

    found: set[str] = set()
    for item in items:
        if isinstance(item, Namespace):
            found |= _types(item.items)
        elif isinstance(item, Template):
            found |= _types(item.decl)
        elif isinstance(item, Record | Alias) and item.name:
            found.add(item.name)
        elif isinstance(item, Bad):
            raise item.error
    return found
