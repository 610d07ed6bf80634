"""Built-ins defined in ``prelude.cuh``, parsed when first called."""

from __future__ import annotations

import os
import re
from functools import cache

from .program import Entity, Function


@cache
def _prelude_lines() -> dict[str, str]:
    path = os.path.join(os.path.dirname(__file__), "prelude.cuh")
    out = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            m = re.search(r"(\w+)\(", line.partition("__device__")[2])
            if m:
                out[m.group(1)] = line
    return out


@cache
def prelude_function(name: str) -> Entity:
    """The entity of a built-in that is defined in ``prelude.cuh``."""
    from .cxx_ast import Template
    from .parser import CudaParser

    item = CudaParser().parse_unit(_prelude_lines()[name], "prelude.cuh")[0]
    if isinstance(item, Template):
        return Entity(name, item.decl[0], (), tuple(item.params))
    assert isinstance(item, Function)
    return Entity(name, item, ())
