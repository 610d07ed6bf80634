"""The extents of buffers, as a draft has them or as the allocations were that calls were passed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Store, Sym
from ktc.ir.types import scalar_of
from ktc.ir.walk import all_exprs, loads_in, walk
from ktc.ir.workload.input_data import numpy_dtype
from ktc.ir.workload.reference import FormulaError
from ktc.scaffold.given_values import definitions, symbols_behind
from ktc.scaffold.model import Draft
from ktc.scaffold.roles import buffers_of
from ktc.scaffold.shapes import Extent
from ktc.scaffold.windows import names_in

from .call_fit import Fit, Sizes, own
from .observed_calls import ObservedBuffer

MOST_FACTORS = 3
"""Sizes whose product is tried as what an allocation holds."""

MOST_IN_RECORD = 16
"""Elements of a record, or rows of a table, whose number the source alone knows: more are no such number."""

FAR_LESS = 2
"""A constant extent that fits so often into the allocation is what probes happened to reach of it."""

GRAIN = 512
"""Bytes to which allocators round up."""


def fit_extents(d: Draft, fit: Fit) -> None:
    """The extents of buffers: as the draft has them, where they fit into what was passed."""
    for b in buffers_of(d.kernel):
        name, e = b.sym.name, d.shapes.get(b.sym.name)
        seen = [c.buffers.get(name) for c in fit.calls]
        e = _told_apart(fit, e, seen, b)
        fit.extents[name] = e
        if any(x is None or (not x.null and not x.bytes) for x in seen):
            continue
        width = numpy_dtype(scalar_of(b.sym.type).name).itemsize
        room = [x.bytes // width for x in seen if x is not None]
        missing = [x is not None and x.null for x in seen]
        if any(missing):
            own(fit, f"no_{name}", [int(m) for m in missing])
            fit.nulls[name] = f"no_{name} == 1"
        there = [(s, r) for s, r, m in zip(fit.sizes, room, missing) if not m]
        fits = e is not None and all(0 <= _extent(e, s) <= r for s, r in there)
        # A constant is what probes happened to touch; a formula that gives the allocation has the source's strides.
        sized = e is not None and bool(e.factors)
        plain = sized and e is not None and e.is_product
        passed = sized and e is not None and {n for x in e.shape for n in names_in(x)} <= fit.calls[0].scalars.keys()
        whole_of_it = passed and e is not None and all(_extent(e, s) == r for s, r in there)
        if fits and (plain or whole_of_it):
            continue
        held = [x for x in seen if x is not None]
        whole = None if plain else _allocated_product(fit, held, width)
        reached_part = not fits or e is None or all(FAR_LESS * _extent(e, s) <= r for s, r in there)
        if whole is None and not plain and reached_part:
            whole = _records(fit, held, width, _sizes_of_subscripts(d.kernel, b.sym))
        if fits or whole is not None:
            fit.extents[name] = whole or e
            continue
        if e is not None:
            fit.doubts.append(f"{name}: the drafted shape {' x '.join(e.shape)} is larger than what was passed")
        fit.extents[name] = Extent((f"{name}_elements",), exact=True)
        own(fit, f"{name}_elements", [max(1, r) for r in room])


def _told_apart(fit: Fit, e: Extent | None, seen: Sequence[ObservedBuffer | None], b: Param) -> Extent | None:
    """``e`` with those sizes in it that runs of the kernel could not tell from others and calls can (``fit.apart``):
    of all ways, the largest that fits into the allocations."""
    if e is None or any(x is None or not x.bytes for x in seen):
        return e
    width = numpy_dtype(scalar_of(b.sym.type).name).itemsize
    room = [x.bytes // width for x in seen if x is not None]
    ways = [e]
    for name, taken_for in fit.apart.items():
        ways += [
            replace(w, factors=(*w.factors[:i], name, *w.factors[i + 1 :]))
            for w in ways
            for i, f in enumerate(w.factors)
            if f == taken_for
        ]
    fitting = [w for w in ways if all(0 <= n <= r for n, r in zip(_values(w, fit), room))]
    return max(fitting, key=lambda w: sum(_values(w, fit)), default=e)


def _values(e: Extent, fit: Fit) -> list[int]:
    return [_extent(e, s) for s in fit.sizes]


def _allocated_product(fit: Fit, seen: Sequence[ObservedBuffer], width: int) -> Extent | None:
    """The product of sizes, of as few as possible, that gives the elements of the whole allocations in all calls."""
    return next(_giving(fit, seen, width, 1), None)


def _records(fit: Fit, seen: Sequence[ObservedBuffer], width: int, spelled: Collection[str]) -> Extent | None:
    """The product of sizes and a small constant that gives the whole allocations in all calls: records of a few
    numbers, tables of a few rows. Of several, the one with the most sizes that subscripts of the buffer are made of
    (``spelled``), and of those the one with the least constant."""
    found = [e for times in range(2, MOST_IN_RECORD + 1) for e in _giving(fit, seen, width, times)]
    return min(found, key=lambda e: (-len({*e.factors} & {*spelled}), e.times, len(e.factors)), default=None)


def _giving(fit: Fit, seen: Sequence[ObservedBuffer], width: int, times: int) -> Iterator[Extent]:
    """Products of sizes with ``times`` elements each that give the whole allocations, those of few sizes first."""
    known = [(s, x) for s, x in zip(fit.sizes, seen) if not x.null]
    names = [n for n in fit.sizes[0] if n not in fit.own]
    if not known or any(x.address != x.base for _, x in known):
        return
    for degree in range(1, MOST_FACTORS + 1):
        for factors in itertools.combinations_with_replacement(names, degree):
            counts = [(math.prod(s[n] for n in factors) * times * width, x.bytes) for s, x in known]
            if all(x in (n, -(-n // GRAIN) * GRAIN) for n, x in counts):
                yield Extent(factors, times=times, exact=True)


def _sizes_of_subscripts(k: Kernel, buffer: Sym) -> set[str]:
    """The names that subscripts of ``buffer`` are made of, through variables."""
    loads = [i for e in all_exprs(k.body) for x in loads_in(e) if x.buffer == buffer for i in x.index]
    stores = [i for s in walk(k.body) if isinstance(s, Store) and s.buffer == buffer for i in s.index]
    return {s.name for s in symbols_behind([*loads, *stores], definitions(k))}


def _extent(e: Extent, sizes: Sizes) -> int:
    try:
        return e.value(sizes)
    except (FormulaError, KeyError):
        return -1
