"""What buffers are for, by what runs do with each element: read before it is written, written, or left alone.

``m[i] = 0; m[i] += x`` reads only what it wrote, so ``m`` is an output; ``if (r <= c) o[r * n + c] = ...`` leaves a
half of ``o`` as it was, which a caller may rely on. So may what other numbers than a probe's lead to: where a mask is
false here and there (``if (mask[i]) y[i] = x[i]``), or where zeros hid what was read (``y[i] *= x[i]``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ktc.ir.interp import RunResult
from ktc.ir.types import scalar_of

from .contents import TRUTHS
from .integer_values import mark_of
from .model import Draft
from .probe import Prober, Seen
from .probing.fills import Fill
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
            role = _role(d, probe, sizes, p.sym.name)
            out |= {p.sym.name: role} if role else {}
    return out


def _role(d: Draft, probe: Prober, sizes: Sequence[Mapping[str, int]], buffer: str) -> str:
    """``out`` or ``inout``; '' where runs do not show it."""
    runs = [_run(d, probe, at, buffer) for at in sizes]
    kept = [_keeps(result, buffer) for result in runs if result is not None]
    if not kept or len(kept) < len(sizes):
        return ""
    if not any(kept) and (mixed := _run(d, probe, sizes[0], buffer, mixed=True)) is not None:
        kept.append(_keeps(mixed, buffer) or _tells_apart(d, probe, sizes[0], buffer))
    return "inout" if any(kept) else "out"


def _run(d: Draft, probe: Prober, sizes: Mapping[str, int], buffer: str, *, mixed: bool = False) -> RunResult | None:
    """A run in which ``buffer`` holds nothing before; None if it cannot be run to its end, or leaves some buffer.

    ``mixed``: with :func:`_mixed` contents.
    """
    shapes = d.elements(sizes)
    fills = d.fills(probe, sizes)
    result = probe.exact(sizes, shapes, fills | _mixed(d, fills) if mixed else fills, undefined=(buffer,))
    return None if result is None or any(f.kind in ("fuel", "out-of-bounds") for f in result.findings) else result


def _tells_apart(d: Draft, probe: Prober, sizes: Mapping[str, int], buffer: str) -> bool:
    """Whether results differ with what ``buffer`` holds, where its elements differ from each other: of memory that
    holds one number everywhere, ``x[i] - x[0]`` is 0 whatever that is."""
    shapes = d.elements(sizes)
    fills = d.fills(probe, sizes)
    if buffer in fills:
        return False
    results = [probe.exact(sizes, shapes, {**fills, buffer: f}, undefined=()) for f in (_unsigned, _squares)]
    outputs = [r.outputs for r in results if r is not None]
    if len(outputs) < len(results):
        return False
    return any(not np.array_equal(v, outputs[1][n], equal_nan=v.dtype.kind == "f") for n, v in outputs[0].items())


def _mixed(d: Draft, fills: Mapping[str, Fill]) -> dict[str, Fill]:
    """Contents with more values than a probe's: large numbers of both signs where nothing is known of them, true and
    false in masks, and among indices the mark that there is none."""
    known, out = {c.buffer: c for c in d.contents}, dict[str, Fill]()
    for p in buffers_of(d.kernel):
        name, element = p.sym.name, scalar_of(p.sym.type)
        mark = mark_of(d.kernel, p.sym, d.roles.fixed)
        if p.init:
            continue
        if element.kind == "bool" or (name in known and known[name].most == TRUTHS):
            out[name] = _truths
        elif name in known and known[name].kind == "index" and mark is not None:
            out[name] = _marked(fills[name], mark)
        elif name not in known:
            out[name] = _large if element.is_float else _signed if element.is_signed else _unsigned
    return out


def _truths(n: int) -> np.ndarray:
    return np.arange(n) % 2


def _signed(n: int) -> np.ndarray:
    return np.arange(n) % 7 - 3


def _unsigned(n: int) -> np.ndarray:
    return np.arange(n) % 7


def _squares(n: int) -> np.ndarray:
    return np.arange(n) ** 2 % 5


def _large(n: int) -> np.ndarray:
    return (np.arange(n) % 7 - 3) * 4096.0


def _marked(fill: Fill, mark: int) -> Fill:
    """``fill`` with ``mark`` in place of every eighth element, the first among them."""
    return lambda n: np.where(np.arange(n) % 8 == 0, mark, fill(n))


def _keeps(result: RunResult, buffer: str) -> bool:
    """Whether what ``buffer`` held before matters: to results, or because some of it is still there."""
    return any(f.kind == "uninitialised" for f in result.findings) or not result.written[buffer].all()
