"""The least time of launches that ran: from the kernel's source, and the scalars that it was launched with."""

from __future__ import annotations

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.host.captured import Instance
from ktc.ir.types import Scalar
from ktc.ir.workload.input_data import numpy_dtype
from ktc.search.bounds.compulsory_work import compulsory_work
from ktc.search.bounds.speed_of_light import bound, datasheet
from ktc.search.bounds.workload_work import SECTOR

from .kernel_sources import SourceTree
from .profile_format import Launched, Shape
from .ranking import Ranked, with_bound

MOST_ROWS = 16
"""Rows of a kernel whose bound is computed; the others are taken to be as far from theirs."""


def scalars_of(found: Instance, arguments: bytes) -> dict[str, int | float]:
    """Values of the scalar parameters of a launch, by the name that the kernel of ``found`` gives them."""
    values: dict[str, int | float] = {}
    for s in found.slots:
        if not isinstance(s.type, Scalar) or s.inline or s.offset + s.size > len(arguments):
            continue
        raw = arguments[s.offset : s.offset + s.size]
        if s.bits is not None:
            first, count = s.bits
            word = int.from_bytes(raw, "little") >> first & (1 << count) - 1
            values[s.name] = word - (1 << count) if s.type.name.startswith("i") and word >> count - 1 else word
        else:
            value = np.frombuffer(raw, numpy_dtype(s.type.name))[0]
            values[s.name] = float(value) if s.type.is_float else int(value)
    return values


def bounded(row: Ranked, tree: SourceTree, device: str) -> Ranked:
    """``row`` with its place in the sources and, where it can be computed, the bound of its launches on ``device``."""
    places = tree.places(row.kernel)
    if not places:
        return row
    source, terms = f"{places[0].file}:{places[0].line}", dict[str, float]()
    least = taken = 0.0
    for f, shape in _sample(row):
        try:
            place, seconds, why = _least(f, shape, row.kernel, tree, device)
        except (KtcError, RecursionError, OverflowError):
            continue
        source = place
        least += seconds * shape.times.count
        taken += shape.times.total
        terms[why] = terms.get(why, 0.0) + seconds * shape.times.count
    if not taken:
        return with_bound(row, source, None, "")
    return with_bound(row, source, least / taken * row.seconds, max(terms, key=lambda t: terms[t]))


def _sample(row: Ranked) -> list[tuple[Launched, Shape]]:
    """Rows whose bound is computed: each of a few, else the one that took longest and others at even distances."""
    rows = [(f, s) for f in row.launched for s in f.shapes if s.times.count and not s.others]
    rows.sort(key=lambda fs: -fs[1].times.total)
    step = -(-len(rows) // MOST_ROWS)
    return rows[:: max(1, step)]


def _least(f: Launched, shape: Shape, kernel: str, tree: SourceTree, device: str) -> tuple[str, float, str]:
    """The place of the kernel, and the least seconds of one launch of ``shape`` with what sets them.

    Raises:
        KtcError: the source cannot be read as this kernel's, or its arguments are not known.
    """
    if shape.others or not f.sized:
        raise KtcError("E-PROFILE", "its arguments are not known")
    found = tree.instance(kernel, f.parameters, shape.geometry)
    if found is None:
        raise KtcError("E-KERNEL-UNKNOWN", f"no source has {kernel}")
    place, inst = found
    work = compulsory_work(inst.kernel, scalars_of(inst, shape.arguments), granule=SECTOR)
    b = bound(work, datasheet(device))
    return f"{place.file}:{place.line}", b.seconds, b.limiter
