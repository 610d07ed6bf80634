"""Launches that stand in another file than the kernel, as drafts of its workload have them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr
from ktc.ir.verifier import check
from ktc.ir.walk import used
from ktc.ir.workload import LaunchSpec
from ktc.project.launching_units import Joined, launching_units

from ..windows import spelled

if TYPE_CHECKING:
    from ktc.sources import SourceSpec


def launched_elsewhere(k: Kernel, source: SourceSpec) -> tuple[Kernel, Joined] | None:
    """``k``, which its own file does not launch, as a unit near by launches it; None where none does that can be
    followed, or in extents that a workload can say."""
    if k.launch is not None or not os.path.isfile(source.kernel):
        return None
    for joined in launching_units(source):
        try:
            found = load(
                joined.text,
                kernel=source.name,
                template=dict(source.template) or None,
                defines=joined.defines or None,
                include_dirs=joined.include_dirs,
                dialect=source.dialect,
            )
            check(found)
        except KtcError:
            continue
        same = [p.sym.name for p in found.params if not p.host] == [p.sym.name for p in k.params if not p.host]
        if same and found.launch is not None and as_formulas(found) is not None and _known_block(found):
            return found, joined
    return None


def _known_block(k: Kernel) -> bool:
    """Whether the launch says how many threads a block has, and not just the name of a variable that holds it."""
    host = {p.sym for p in k.params if p.host}
    return k.launch is not None and not any(used(n) & host for n in k.launch.block)


def as_formulas(k: Kernel) -> LaunchSpec | None:
    """The launch of ``k`` as a workload says it."""
    assert k.launch is not None
    grid, block = (tuple(map(_formula, dims)) for dims in (k.launch.grid, k.launch.block))
    shared = "0" if k.launch.dynamic_shared is None else _formula(k.launch.dynamic_shared)
    return None if None in (*grid, *block, shared) else LaunchSpec(grid, block, shared)  # type: ignore[arg-type]


def _formula(e: Expr) -> str | None:
    text = spelled(e, used(e))
    return text[1:-1] if text and text.startswith("(") and text.count("(") == 1 else text


__all__ = ["as_formulas", "launched_elsewhere"]
