"""Launches of programs that have their sizes written in them, ``int n = 4096;``, as drafts of workloads have them.

Sizes of a workload may be others than those of the one run. Grid, what is passed and what is allocated are formulas of
them; the numbers make a scenario of their own (:mod:`.run_sizes`).
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.verifier import check
from ktc.ir.walk import used
from ktc.sources import IR_SUFFIX

from ..roles import roles_of
from .launched_elsewhere import as_formulas

if TYPE_CHECKING:
    from ktc.sources import SourceSpec


def launched_in_sizes(k: Kernel, source: SourceSpec) -> Kernel | None:
    """``k`` with the numbers that its file's host code launches it with as sizes; None where there are none, or a
    workload cannot say such a launch. Numbers that decide nothing of sizes (flags) stay what they are."""
    if k.launch is None or not os.path.isfile(source.kernel) or Path(source.kernel).suffix == IR_SUFFIX:
        return None
    try:
        found = load(
            str(source.kernel),
            kernel=source.name,
            template=dict(source.template) or None,
            defines=dict(source.defines) or None,
            include_dirs=tuple(source.include_dirs),
            dialect=source.dialect,
            numbers_as_sizes=True,
        )
        check(found)
    except KtcError:
        return None
    same = [p.sym.name for p in found.params if not p.host] == [p.sym.name for p in k.params if not p.host]
    if not same or found.launch is None or _is_as_open(k.launch, found.launch) or as_formulas(found) is None:
        return None
    sizes, known = {*roles_of(found).sizes}, {n for n, _ in (*found.launch.given, *found.launch.passed)}
    kept = tuple((n, v) for n, v in k.launch.given if n not in sizes | known)
    return found.with_(launch=replace(found.launch, given=(*found.launch.given, *kept)))


def _is_as_open(k: Launch, found: Launch) -> bool:
    """Whether ``found`` has no more sizes than ``k``."""
    extents = [{s.name for e in x.grid for s in used(e)} for x in (k, found)]
    return extents[0] == extents[1] and {n for n, _ in k.given} <= {n for n, _ in found.given}


__all__ = ["launched_in_sizes"]
