"""A kernel's own part of a source or of a printed text, and what stands around it.

A file that a kernel is in may begin with a licence and end with ``main``; a printed kernel comes with the functions
that it calls. Who reads a report looks for the kernel itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ktc.exporting.launch_edits import blanked

_KERNEL = r"\b(?:__global__|__kernel|kernel)\b[^;{{}}]*\b{name}\s*\([^;{{}}]*\{{"
"""From the qualifier of a kernel to its body's brace, in C++, HIP and OpenCL C."""


@dataclass(frozen=True)
class Parts:
    """``kernel``: the lines of the kernel, '' where it was not found; ``rest``: all others, in order."""

    kernel: str
    rest: str


def parted(text: str, name: str, language: str) -> Parts:
    """The kernel ``name`` (its namespaces do not matter) in a text of a language of :mod:`.highlighting`. Functions in
    Python that are named after the kernel (``name_grid``, ``name_block``) are parts of it."""
    name = name.split("::")[-1]
    lines = text.split("\n")
    mine = _of_python(text, name) if language == "numba" else _of_c(text, name)
    kernel = "\n\n\n".join("\n".join(lines[a:b]) for a, b in mine)
    inside = {i for a, b in mine for i in range(a, b)}
    return Parts(kernel, "\n".join(line for i, line in enumerate(lines) if i not in inside))


def _of_python(text: str, name: str) -> list[tuple[int, int]]:
    """Ranges of lines, from 0, of the functions of the kernel."""
    try:
        statements = ast.parse(text).body
    except SyntaxError:
        return []
    named = re.compile(rf"{re.escape(name)}(_(block|grid|body)\w*)?")
    found = [f for f in statements if isinstance(f, ast.FunctionDef) and named.fullmatch(f.name)]
    return [(min([f.lineno, *(d.lineno for d in f.decorator_list)]) - 1, f.end_lineno or f.lineno) for f in found]


def _of_c(text: str, name: str) -> list[tuple[int, int]]:
    """The range of lines of the kernel's definition, with the template line and the comment directly above it."""
    code = blanked(text)
    found = re.search(_KERNEL.format(name=re.escape(name)), code)
    if found is None:
        return []
    depth, end = 1, found.end()
    while depth and end < len(code):
        depth += {"{": 1, "}": -1}.get(code[end], 0)
        end += 1
    lines, first = text.split("\n"), text.count("\n", 0, found.start())
    while first and re.match(r"\s*(//|\*|/\*|template\b|__launch_bounds__|__attribute__|extern\b)", lines[first - 1]):
        first -= 1
    return [(first, text.count("\n", 0, end) + 1)]


def holding(source: str, files: Iterable[str], name: str) -> str:
    """The text that defines the kernel ``name``: ``source``, or one of the ``files`` that it includes; ``source`` where
    none seems to."""
    return next((text for text in (source, *files) if parted(text, name, "cuda").kernel), source)


__all__ = ["Parts", "holding", "parted"]
