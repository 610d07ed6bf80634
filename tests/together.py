"""Texts compiled side by side: a compiler takes longer to read its headers than to compile most kernels.

Only texts that begin with the very same headers and macros meet, each in a namespace of its own, so that none has what
it did not ask for.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping

from ktc.backends import CompileReport, check_compile
from ktc.backends.base import CompileFailure, Emitted, accelerated


def compiled_together(texts: Mapping[str, Emitted], arch: str | None = None) -> dict[str, CompileReport]:
    """By name, what the real compiler says of the text, or of all that it was compiled beside.

    Raises:
        AssertionError: the compiler refuses some; they are named, each with its own log.
        KtcError: E-TOOL-MISSING, there is no compiler.
    """
    groups = defaultdict[object, list[str]](list)
    for name, e in texts.items():
        head, rest = _parted(e.text)
        defines = any(line.lstrip().startswith(("#include", "#define", "#undef")) for line in rest.splitlines())
        groups[name if defines else (e.target, head, e.options, accelerated("sm_90", e.text))].append(name)
    reports: dict[str, CompileReport] = {}
    refused: list[str] = []
    for names in groups.values():
        try:
            reports |= dict.fromkeys(names, check_compile(_joined([texts[n] for n in names]), arch))
        except CompileFailure:
            for n in names:
                try:
                    reports[n] = check_compile(texts[n], arch)
                except CompileFailure as why:
                    refused.append(f"{n}:\n{why.log}")
    assert not refused, "\n".join(refused)
    return reports


def _parted(text: str) -> tuple[str, str]:
    """The headers and macros that a text begins with, and the rest."""
    lines = text.splitlines(keepends=True)
    first = next((k for k, s in enumerate(lines) if s.strip() and not s.startswith(("#", "//"))), len(lines))
    return "".join(s for s in lines[:first] if s.startswith("#")), "".join(lines[first:])


def _joined(texts: list[Emitted]) -> Emitted:
    if len(texts) == 1:
        return texts[0]
    parts = [f"namespace text{k} {{\n{_parted(e.text)[1]}\n}}\n" for k, e in enumerate(texts)]
    return dataclasses.replace(texts[0], text=_parted(texts[0].text)[0] + "".join(parts))


__all__ = ["compiled_together"]
