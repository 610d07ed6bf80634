"""What buffers held when a kernel was called: how a workload fills them alike, and what it says of indices."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from ktc.ir.kernel import Param
from ktc.ir.types import scalar_of
from ktc.ir.workload.input_data import numpy_dtype
from ktc.ir.workload.reference import FormulaError
from ktc.scaffold.contents import Content
from ktc.scaffold.model import Draft
from ktc.scaffold.shapes import Extent

from .observed_calls import ObservedCall, ObservedCalls

COLUMN = 23
"""Where comments begin in a workload file."""

NEARLY = 1.02
"""How far above the largest index that was held the end of what it counts may lie: of many random ones, the largest is
close to it."""

FEW = 16
"""Fewer numbers are in ascending order by chance."""


def said(line: str, comment: str) -> str:
    """A line of a workload file with a comment, if there is one."""
    return f"{line:<{COLUMN}} # {comment}" if comment else line


def tied_by_contents(d: Draft, o: ObservedCalls) -> Draft:
    """``d`` with sizes that only say below what an index stays tied to the parameter that the indices that were held
    show it to be, if there is one that is just above them in every call."""
    passed = [n for n in d.roles.sizes if all(n in c.scalars for c in o.calls)]
    for c in d.contents:
        if c.kind == "starts" or c.name in d.ties or any(c.name in call.scalars for call in o.calls):
            continue
        held = [(call, values_held(c, d, call)) for call in o.calls]
        known = [(call, n) for call, n in held if n is not None]
        enough = [p for p in passed if known and all(n <= int(call.scalars[p]) <= n * NEARLY for call, n in known)]
        if enough:
            size = min(enough, key=lambda p: int(known[0][0].scalars[p]))
            d.ties[c.name] = size
            d.shapes = {b: e and e.with_factor(c.name, (size,)) for b, e in d.shapes.items()}
    return d


def values_held(c: Content, d: Draft, call: ObservedCall) -> int | None:
    """How large the size behind ``c`` has to be for what the buffer held in ``call``; None where that is not known, or
    it held what is no index: memory that nobody had written, marks."""
    values = content_of(d.kernel.param(c.buffer), [call], [extent_at(d.shapes.get(c.buffer), call.scalars)])
    if values is None or not values.size or values.dtype.kind not in "iu" or int(values.min()) < c.first:
        return None
    return int(values.max()) - c.first + (c.kind != "offsets")


def content_of(p: Param, calls: Sequence[ObservedCall], extents: Sequence[int] = ()) -> np.ndarray | None:
    """What the buffer held in the call that took longest, of those whose memory was recorded; ``extents``: how many
    elements of it are the buffer's (0: not known), as an allocator may give out parts of what it holds itself."""
    for c, n in itertools.zip_longest(calls, extents, fillvalue=0):
        b = c.buffers.get(p.sym.name) if isinstance(c, ObservedCall) else None
        if b is not None and b.content is not None:
            dtype = numpy_dtype(scalar_of(p.sym.type).name)
            whole = b.content.size // dtype.itemsize * dtype.itemsize
            return b.content[:whole].view(dtype)[: n or None] if whole else None
    return None


def extent_at(e: Extent | None, sizes: Mapping[str, int | float]) -> int:
    """The elements that ``e`` gives at ``sizes``; 0 where it is not known, or needs a size that they do not have."""
    if e is None or not e.factors:
        return 0
    try:
        return max(0, e.value({n: int(v) for n, v in sizes.items() if not isinstance(v, float)}))
    except (FormulaError, KeyError):
        return 0


def as_held(values: np.ndarray, drafted: Sequence[str], steers: bool) -> list[str] | None:
    """How a buffer is to be filled, to hold such values; None where what was drafted says more: indices, offsets.

    ``steers``: its elements decide where something is or what is done, as those of a table that is searched.
    """
    kinds = ("index", "offsets", "distinct", "distinct-rows", "zeros")
    if any(line.startswith(f'init = "{k}"') for line in drafted for k in kinds):
        return None
    if values.dtype.kind in "iu":
        order = "sorted" if steers and _ascending(values) else "ints"
        return [f'init = "{order}"', said(f"range = [{int(values.min())}, {int(values.max())}]", "observed")]
    if values.dtype.kind == "b":
        return None
    finite = values.astype(np.float64)
    finite = finite[np.isfinite(finite)]
    low, high = (float(f"{x:.4g}") for x in (finite.min(), finite.max())) if finite.size else (0.0, 0.0)
    if not low < high:
        return None
    order = "sorted" if steers and _ascending(values) else "uniform"
    return [f'init = "{order}"', said(f"range = [{low!r}, {high!r}]", "observed")]


def _ascending(values: np.ndarray) -> bool:
    """Whether ``values`` are a table in ascending order, as one that is searched."""
    return values.size >= FEW and bool((values[1:] >= values[:-1]).all() and values[-1] > values[0])


def statistics_text(values: np.ndarray) -> str:
    """``1000 elements, -20 to 79.9, mean 30, 1 % zeros, 3 NaN``."""
    numbers = values.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    parts = [f"{values.size} elements"]
    if finite.size:
        parts += [f"{finite.min():.4g} to {finite.max():.4g}", f"mean {finite.mean():.4g}"]
    zeros = float((numbers == 0).mean()) if numbers.size else 0.0
    parts += [f"{zeros:.0%} zeros"] if zeros else []
    for what, n in (("NaN", np.isnan(numbers).sum()), ("infinite", np.isinf(numbers).sum())):
        parts += [f"{n} {what}"] if n else []
    return ", ".join(parts)
