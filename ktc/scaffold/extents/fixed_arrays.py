"""How large sizes may become before an array of a fixed length is too short for them.

``__constant__ float centers[1024]`` holds ``clusters * features`` numbers: the probes are small enough for any array,
and the scenarios must not outgrow it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, Param
from ktc.ir.workload.size_expressions import evaluate

from ..largest_index import Largest
from ..probe import Prober, Seen
from ..roles import buffers_of, lanes_of
from ..shapes import Extent, fit
from ..size_polynomials import text_of
from ..windows import names_in


def used_parts(k: Kernel, probe: Prober, seen: Sequence[Seen], names: Sequence[str]) -> tuple[tuple[Extent, int], ...]:
    """For each buffer of a fixed length, how much of it sizes need, and how long it is; none for those of which neither
    the probes nor the largest index of the source show a formula over the sizes ``names``."""
    out: list[tuple[Extent, int]] = []
    fixed = {p: length for p in buffers_of(k) if (length := _length(p))} if len(seen) > 1 else {}
    told = Largest(k, probe.roles.tied).extents_of() if fixed else {}
    for p, length in fixed.items():
        name = p.sym.name
        part = fit([(s.sizes, s.extent(name)) for s in seen], names, probe.roles.quotients)
        if part is None or not part.exact or not part.factors:
            texts = (text_of(x) for x in told.get(name, ()))
            part = next((Extent((f"({t})",)) for t in texts if _covers(t, name, seen, names)), None)
        if part is not None:
            out.append((part, length))
    return tuple(out)


def _covers(text: str, buffer: str, seen: Sequence[Seen], names: Sequence[str]) -> bool:
    """Whether ``text`` is a formula over sizes below which all probes stay."""
    inside = {*names_in(text)}
    if not inside or not inside <= {*names}:
        return False
    try:
        return all(evaluate(text, s.sizes) >= s.extent(buffer) for s in seen)
    except KtcError:
        return False


def _length(p: Param) -> int:
    """Elements of a buffer whose length the source says; 0 for others."""
    return p.extent * lanes_of(p) if p.extent else len(p.init or ())


__all__ = ["used_parts"]
