"""What buffers are for, by what runs do with each element: read before it is written, written, or left alone.

``m[i] = 0; m[i] += x`` reads only what it wrote, so ``m`` is an output; ``if (r <= c) o[r * n + c] = ...`` leaves a
half of ``o`` as it was, which a caller may rely on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktc.ir.interp import RunResult

from .model import Draft
from .probe import Prober, Seen
from .roles import access_role, buffers_of

RUNS = 2
"""Sizes that buffers are looked at with."""


def observed_roles(d: Draft, probe: Prober, seen: Sequence[Seen]) -> dict[str, str]:
    """``out`` or ``inout`` for each buffer that is written, where runs at the drafted shapes show which."""
    if any(e is None for e in d.shapes.values()):
        return {}
    sizes = [s.sizes for s in seen if d.possible(s.sizes) and probe.launches(s.sizes)][:RUNS]
    out: dict[str, str] = {}
    for p in buffers_of(d.kernel):
        if access_role(p, d.kernel) != "in" and not p.init:
            runs = [_run(d, probe, at, p.sym.name) for at in sizes]
            kept = [_keeps(result, p.sym.name) for result in runs if result is not None]
            if kept and len(kept) == len(sizes):
                out[p.sym.name] = "inout" if any(kept) else "out"
    return out


def _run(d: Draft, probe: Prober, sizes: Mapping[str, int], buffer: str) -> RunResult | None:
    shapes = d.elements(sizes)
    fills = {c.buffer: c.fill(probe.value(c.name, sizes), shapes[c.buffer]) for c in d.contents}
    result = probe.exact(sizes, shapes, fills, undefined=(buffer,))
    return None if result is None or any(f.kind in ("fuel", "out-of-bounds") for f in result.findings) else result


def _keeps(result: RunResult, buffer: str) -> bool:
    """Whether what ``buffer`` held before matters: to results, or because some of it is still there."""
    return any(f.kind == "uninitialised" for f in result.findings) or not result.written[buffer].all()
