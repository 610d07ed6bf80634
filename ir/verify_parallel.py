"""Rules for distributions: complete, and no hardware axis used twice on the way in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .nodes import LEVELS, Const, Level, Par, Reduce
from .uniformity import THREAD_LEVELS

AXES = {"thread": "xyz", "block": "xyz", "cluster": "xyz"}
"""Levels that name an axis of the launch."""

REDUCE_OPS = frozenset({"+", "*", "min", "max", "&", "|", "^"})
STRATEGIES = frozenset({"auto", "serial", "shuffle", "shared"})
_AXIS_OF = {"lane": ("thread", "x"), "warp": ("thread", "y")}
"""Lanes run along x and warps along y when a loop is spread over both (see lowering)."""

Complaint = tuple[str, str]


def spread_over_threads(s: Par | Reduce) -> bool:
    """Whether different threads of a block run different iterations of ``s``."""
    return any(lv.kind in THREAD_LEVELS for lv in s.dist)


def check_distribution(s: Par | Reduce, outer: Sequence[Par | Reduce]) -> Iterator[Complaint]:
    """Problems of the distribution of ``s`` inside the loops ``outer``, as (code, message)."""
    name = s.var.name
    for position, lv in enumerate(s.dist):
        if lv.kind not in LEVELS:
            yield "V-DIST", f"'{name}': unknown level '{lv.kind}'"
        elif lv.axis not in AXES.get(lv.kind, "") or (lv.kind in ("thread", "block") and not lv.axis):
            yield "V-DIST", f"'{name}': '{lv.kind}' cannot have the axis '{lv.axis}'"
        if lv.n is None and position + 1 < len(s.dist):
            yield "V-DIST", f"'{name}': only the last level may lack a size, '{lv.kind}' is not"
        if isinstance(lv.n, Const) and lv.n.value < 1:
            yield "V-DIST", f"'{name}': level '{lv.kind}' has the size {lv.n.value}"
        if lv.kind == "vec" and position:
            yield "V-DIST", f"'{name}': vec must be the fastest level"
    yield from _clashes(s, outer)
    if isinstance(s, Reduce):
        for a in s.accs:
            if a.op not in REDUCE_OPS:
                yield "V-REDUCE", f"'{a.sym.name}': '{a.op}' is not a reduction"
        if s.strategy not in STRATEGIES:
            yield "V-REDUCE", f"'{name}': unknown strategy '{s.strategy}'"


def _clashes(s: Par | Reduce, outer: Sequence[Par | Reduce]) -> Iterator[Complaint]:
    used = {axis: p.var.name for p in outer for axis in map(_axis, p.dist) if axis}
    own: set[tuple[str, str]] = set()
    for axis in filter(None, map(_axis, s.dist)):
        if axis in used:
            yield "V-DIST", f"'{s.var.name}': {'.'.join(axis)} is already used by the enclosing loop '{used[axis]}'"
        if axis in own:
            yield "V-DIST", f"'{s.var.name}': {'.'.join(axis)} appears twice"
        own.add(axis)


def _axis(lv: Level) -> tuple[str, str] | None:
    if lv.kind in _AXIS_OF:
        return _AXIS_OF[lv.kind]
    return (lv.kind, lv.axis or "x") if lv.kind in AXES else None
