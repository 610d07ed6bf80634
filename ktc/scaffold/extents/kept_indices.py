"""Buffers that are read where the kernel itself has stored an index, kept below a size: ``if (at[i] >= n) at[i] = 0``.

The probes' numbers lead to a few places of such a buffer; what it has room for is what the kernel compares with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Load, Store
from ktc.ir.walk import all_exprs, walk

from ..given_values import definitions, spelled_out
from ..integer_values import compared
from ..probe import Prober, Seen
from ..shapes import Extent
from ..windows import names_in


def with_room(
    k: Kernel, probe: Prober, seen: Sequence[Seen], shapes: dict[str, Extent | None], names: Sequence[str]
) -> dict[str, Extent | None]:
    """``shapes`` with such buffers as long as what their indices are kept below, a formula over the sizes ``names``,
    where no run reaches beyond that."""
    out = dict(shapes)
    for buffer, bound in _read_by_stored(k):
        text = str(probe.meaning(bound))
        room = Extent((text if text.isidentifier() else f"({text})",), exact=True)
        if {*names_in(text)} <= {*names} and names_in(text):
            known = shapes.get(buffer)
            short = known is None or any(known.value(s.sizes) < room.value(s.sizes) for s in seen)
            if short and seen and all(s.extent(buffer) <= room.value(s.sizes) for s in seen):
                out[buffer] = room
    return out


def _read_by_stored(k: Kernel) -> Iterator[tuple[str, str]]:
    """Buffers that are read at an element of another that the kernel stores, with the parameter that elements of that
    are compared with, where it is one."""
    params, sources = {p.sym for p in k.params}, definitions(k)
    stored = {s.buffer for s in walk(k.body) if isinstance(s, Store)}
    for e in all_exprs(k.body):
        if isinstance(e, Load) and e.buffer in params and len(e.index) == 1:
            at = spelled_out(e.index[0], sources)
            bounds = compared(k, at.buffer) if isinstance(at, Load) and at.buffer in stored & params else set()
            if len(bounds) == 1:
                yield e.buffer.name, next(iter(bounds))


__all__ = ["with_room"]
