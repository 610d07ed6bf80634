"""One text that holds everything: the original kernel, the tuned one, and the host code that chooses between them.

CUDA, HIP   the original's sections, then those of the tuned kernel that are not there yet, then the launcher
torch       the same, as a custom operator
CuPy        a Python module, which holds both texts as strings as it is
OpenCL      C host code: both kernels in one program, whose source is a string, then the launcher
"""

from __future__ import annotations

import json

from ktc.backends.base import Emitted, unit_of

from .cuda_launcher import emit_launcher

WHOLE = frozenset({"cupy"})
"""Launchers that hold the kernels themselves."""


def emit_program(emitted: Emitted, kind: str | None = None, original: Emitted | None = None) -> str:
    """What a compiler takes as it is: ``original`` and ``emitted`` (of one target) with their launcher of ``kind``.

    Raises:
        KtcError: as :func:`~ktc.backends.launchers.cuda_launcher.emit_launcher`.
    """
    kind = kind or emitted.target
    launcher = emit_launcher(emitted, kind, original)
    if kind in WHOLE:
        return launcher
    code = joined(original, emitted)
    if kind == "opencl":
        return f"#include <CL/cl.h>\n\n{_as_string(f'{emitted.entry}_source', code)}\n\n{launcher}"
    return f"{code}\n{launcher}"


def joined(original: Emitted | None, emitted: Emitted) -> str:
    """Both kernels as one translation unit: helpers and types that they share stand there once.

    The original goes first, so that no constant of the tuned kernel (a macro, in OpenCL) can touch it.
    """
    if original is None:
        return emitted.text
    first = list(original.sections)
    known = set(first)
    lines = {line for section in first for line in section.splitlines() if _is_directive(line)}
    second = [_without(section, lines) for section in emitted.sections if section not in known]
    return unit_of([*first, *filter(None, second)])


def _is_directive(line: str) -> bool:
    return line.startswith(("#include", "#pragma OPENCL EXTENSION"))


def _without(section: str, lines: set[str]) -> str:
    """``section`` without directives that are among ``lines``, where it is made of nothing else."""
    own = section.splitlines()
    if not all(_is_directive(line) for line in own):
        return section
    return "\n".join(line for line in own if line not in lines)


def _as_string(name: str, code: str) -> str:
    """``code`` as a C string constant, a line of it a line."""
    body = "\n".join(f"    {json.dumps(line + chr(10))}" for line in code.splitlines())
    what = "/* The source of both kernels: build it once, and create a kernel of each. */"
    return f"{what}\nstatic const char* {name} =\n{body};"
