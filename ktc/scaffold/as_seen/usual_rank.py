"""Kernels on tensors of any number of dimensions, as calls with a usual number of them launch them.

Extents and strides are passed in arrays in structs that a host loop fills, as many of them as a tensor has dimensions:
what the loop makes of each is known once that number is.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.supposed_rank import launched_of_rank
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import Expr, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import substitute_expr
from ktc.sources import IR_SUFFIX

if TYPE_CHECKING:
    from ktc.sources import SourceSpec

RANKS = (4, 3, 2)
"""Numbers of dimensions that are tried, the most usual first."""

_ELEMENT = re.compile(r"(?P<array>.+?)_(?P<at>\d+)(?:_.+)?")


def with_supposed_rank(k: Kernel, source: SourceSpec) -> tuple[Kernel, int | None]:
    """``k`` with what its host code passes for tensors of so many dimensions, and that number; None where that says no
    more of elements of arrays than its launch does."""
    arrays = _arrays(k)
    if k.launch is None or not arrays or not Path(source.kernel).is_file() or Path(source.kernel).suffix == IR_SUFFIX:
        return k, None
    for rank in RANKS:
        try:
            found = launched_of_rank(
                source.kernel,
                rank,
                kernel=source.name,
                template=dict(source.template) or None,
                defines=source.defines or None,
                include_dirs=tuple(source.include_dirs),
                dialect=source.dialect,
            )
        except KtcError:
            return k, None
        launch = found.launch
        if launch is not None and any(len(_told(launch) & elements) >= rank for elements in arrays):
            return k.with_(launch=_joined(k, found, _beyond(arrays, rank))), rank
    return k, None


def _arrays(k: Kernel) -> list[set[str]]:
    """The integer parameters that are elements of arrays in structs, by array, as far as the launch says nothing of
    any."""
    told = _told(k.launch) if k.launch is not None else set()
    arrays: dict[str, set[str]] = {}
    for p in k.params:
        if isinstance(t := p.sym.type, Scalar) and t.is_int and (m := _ELEMENT.fullmatch(p.sym.name)):
            arrays.setdefault(m["array"], set()).add(p.sym.name)
    return [names for names in arrays.values() if len(names) > 1 and not names & told]


def _told(launch: Launch) -> set[str]:
    return {n for n, _ in (*launch.passed, *launch.given)}


def _beyond(arrays: list[set[str]], rank: int) -> set[str]:
    """The elements of ``arrays`` for dimensions beyond ``rank``, which nobody asks for."""
    each = ((n, _ELEMENT.fullmatch(n)) for names in arrays for n in names)
    return {n for n, m in each if m is not None and int(m["at"]) >= rank}


def _joined(k: Kernel, found: Kernel, beyond: set[str]) -> Launch:
    """The launch of ``k`` with what that of ``found``, the same kernel, says beside; members ``beyond`` are any
    number."""
    assert k.launch is not None and found.launch is not None
    own = {p.sym.name: p.sym for p in k.params}
    to: dict[Sym, Expr] = {p.sym: Var(own[p.sym.name]) for p in found.params if p.sym.name in own}
    given = {**dict.fromkeys(sorted(beyond), 1), **dict(found.launch.given)}
    passed = tuple((n, substitute_expr(e, to)) for n, e in found.launch.passed)
    kept = tuple((n, e) for n, e in k.launch.passed if n not in {*given, *dict(passed)})
    known = tuple((n, v) for n, v in k.launch.given if n not in {*given, *dict(passed)})
    return replace(k.launch, passed=(*kept, *passed), given=(*known, *given.items()))


__all__ = ["with_supposed_rank"]
