"""Built-ins defined in ``prelude.cuh`` and ``opencl.cuh``, parsed when first called."""

from __future__ import annotations

import os
import re
from functools import cache

from ktc.ir.frontend.syntax.program import Entity, Function

from . import simd
from .device_libraries import PREFIX


@cache
def _prelude_lines(file: str) -> dict[str, str]:
    path = os.path.join(os.path.dirname(__file__), file)
    out = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            m = re.search(r"(\w+)\(", line.partition("__device__")[2])
            if m:
                out[m.group(1)] = line
    return out


@cache
def prelude_function(name: str, file: str = "prelude.cuh") -> Entity:
    """The entity of a built-in that is defined in ``file``."""
    text = simd.text(name) or _prelude_lines(file)[name.removeprefix("std::")]
    return function_of(text, file, name)


@cache
def function_of(text: str, file: str, name: str = "") -> Entity:
    """The function that ``text`` defines, as one of ``file``."""
    from ktc.ir.frontend.syntax.cxx_ast import Template
    from ktc.ir.frontend.syntax.cxx_parser import CudaParser

    item = CudaParser().parse_unit(text, PREFIX + file)[0]
    if isinstance(item, Template):
        return Entity(name, item.decl[0], (), tuple(item.params))
    assert isinstance(item, Function)
    return Entity(name or item.name, item, ())
