"""Printing a kernel for a backend and asking its compiler, with the answers kept by content."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

from ktc.backends import check_compile
from ktc.backends.base import CompileFailure, Emitted
from ktc.backends.runtimes.file_cache import cache_root
from ktc.emission import plainest_profile
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel

_TOOLS = {"cuda": "nvcc", "hip": "hipcc", "opencl": "clinfo"}


def printed(kernel: Kernel, backend: str) -> tuple[Emitted, str]:
    """``kernel`` as source for ``backend``, and the plainest profile that has all it needs.

    Raises:
        KtcError: what the most capable one lacks, when all of them lack something.
    """
    from ktc.api import Program

    program = Program(kernel, original=kernel)
    profile = plainest_profile(program, backend, {})
    return program.lower(profile), profile


def compiled(emitted: Emitted) -> str:
    """The tool and architecture that accept ``emitted``.

    Raises:
        KtcError: E-COMPILE with the first error lines; E-TOOL-MISSING.
    """
    entry = _entry(emitted)
    try:
        answer = json.loads(entry.read_text())
    except (OSError, ValueError):
        answer = _ask(emitted)
        _keep(entry, answer)
    if answer["error"]:
        raise KtcError("E-COMPILE", answer["error"])
    return answer["tool"]


def _ask(emitted: Emitted) -> dict[str, str]:
    try:
        report = check_compile(emitted)
    except CompileFailure as e:
        return {"tool": "", "error": _first_errors(e.log) or "the compiler refuses the text"}
    return {"tool": f"{report.tool} {report.arch}", "error": ""}


def _first_errors(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if "error" in line.lower()]
    return "; ".join(lines[:2])[:400] or log.strip()[:400]


def _entry(emitted: Emitted) -> Path:
    tool = shutil.which(_TOOLS.get(emitted.target, "")) or ""
    stamp = os.path.getmtime(tool) if tool else 0
    text = json.dumps([1, emitted.target, emitted.text, list(emitted.options), tool, stamp])
    key = hashlib.sha256(text.encode()).hexdigest()
    return cache_root() / "survey" / key[:2] / f"{key}.json"


def _keep(entry: Path, answer: dict[str, str]) -> None:
    part = entry.with_suffix(f".{os.getpid()}.part")
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(answer))
        os.replace(part, entry)
    except OSError:
        part.unlink(missing_ok=True)
