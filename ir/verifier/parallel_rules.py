"""Rules for distributions: complete, and no hardware axis used twice on the way in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktc.ir.analysis.accumulators import AT, misplaced
from ktc.ir.analysis.uniformity import THREAD_LEVELS
from ktc.ir.fragments import FRAGMENTS
from ktc.ir.nodes import LEVELS, Const, Level, Par, Reduce, Scan

AXES = {"thread": "xyz", "block": "xyz", "cluster": "xyz"}
"""Levels that name an axis of the launch."""

PARTS = tuple("0123456789")
"""A thread axis may be split: ``thread.x0 4`` and ``thread.x1 8`` are the fast and the slow part of ``threadIdx.x``."""

REDUCE_OPS = frozenset({"+", "*", "min", "max", "&", "|", "^"})
STRATEGIES = frozenset({"auto", "serial", "shuffle", "shared", "atomic", "ticket"})
SCAN_STRATEGIES = frozenset({"auto", "shared"})
_AXIS_OF = {"lane": ("thread", "x"), "warp": ("thread", "y")}
"""Lanes run along x and warps along y when a loop is spread over both (see lowering)."""

Complaint = tuple[str, str]


def spread_over_threads(s: Par | Reduce | Scan) -> bool:
    """Whether different threads of a block run different iterations of ``s``."""
    return any(lv.kind in THREAD_LEVELS for lv in s.dist)


def check_distribution(s: Par | Reduce | Scan, outer: Sequence[Par | Reduce | Scan]) -> Iterator[Complaint]:
    """Problems of the distribution of ``s`` inside the loops ``outer``, as (code, message)."""
    name = s.var.name
    for position, lv in enumerate(s.dist):
        if lv.kind not in LEVELS:
            yield "V-DIST", f"'{name}': unknown level '{lv.kind}'"
        elif not _known_axis(lv) or (lv.kind in ("thread", "block") and not lv.axis):
            yield "V-DIST", f"'{name}': '{lv.kind}' cannot have the axis '{lv.axis}'"
        if lv.n is None and position + 1 < len(s.dist):
            yield "V-DIST", f"'{name}': only the last level may lack a size, '{lv.kind}' is not"
        if isinstance(lv.n, Const) and lv.n.value < 1:
            yield "V-DIST", f"'{name}': level '{lv.kind}' has the size {lv.n.value}"
        if lv.kind == "vec" and position:
            yield "V-DIST", f"'{name}': vec must be the fastest level"
    yield from _clashes(s, outer)
    if isinstance(s, Scan) and s.acc.op not in REDUCE_OPS:
        yield "V-REDUCE", f"'{s.acc.sym.name}': '{s.acc.op}' is not a reduction"
    if isinstance(s, Scan) and s.strategy not in SCAN_STRATEGIES:
        yield "V-REDUCE", f"'{name}': unknown strategy '{s.strategy}'"
    if isinstance(s, Reduce):
        for a in s.accs:
            if a.op not in REDUCE_OPS | {AT}:
                yield "V-REDUCE", f"'{a.sym.name}': '{a.op}' is not a reduction"
        yield from (("V-REDUCE", message) for message in misplaced(s.accs))
        if s.strategy not in STRATEGIES and s.strategy not in FRAGMENTS:
            yield "V-REDUCE", f"'{name}': unknown strategy '{s.strategy}'"


def _known_axis(lv: Level) -> bool:
    """An axis of the launch, or (threads) one of its parts: x0 is the fastest part of x."""
    if not lv.axis:
        return True
    axis, number = lv.axis[0], lv.axis[1:]
    return axis in AXES.get(lv.kind, "") and (not number or (lv.kind == "thread" and number in PARTS))


def _clashes(s: Par | Reduce | Scan, outer: Sequence[Par | Reduce | Scan]) -> Iterator[Complaint]:
    used = {axis: p.var.name for p in outer for axis in map(_axis, p.dist) if axis}
    own: set[tuple[str, str]] = set()
    for axis in filter(None, map(_axis, s.dist)):
        taken = next((a for a in used if _overlap(a, axis)), None)
        if taken is not None:
            yield "V-DIST", f"'{s.var.name}': {'.'.join(axis)} is already used by the enclosing loop '{used[taken]}'"
        if axis in own:
            yield "V-DIST", f"'{s.var.name}': {'.'.join(axis)} appears twice"
        own.add(axis)


def _overlap(a: tuple[str, str], b: tuple[str, str]) -> bool:
    """The same axis or part, or an axis and a part of it."""
    return a[0] == b[0] and (a[1] == b[1] or (a[1][0] == b[1][0] and 1 in (len(a[1]), len(b[1]))))


def _axis(lv: Level) -> tuple[str, str] | None:
    if lv.kind in _AXIS_OF:
        return _AXIS_OF[lv.kind]
    return (lv.kind, lv.axis or "x") if lv.kind in AXES else None
