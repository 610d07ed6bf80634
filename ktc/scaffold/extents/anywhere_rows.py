"""Rows that lie anywhere (:mod:`ktc.ir.pointer_rows`): how long they are, and how many.

How far they are apart in a run is nobody's number. With all of them at one place a run reaches as far as the longest of
them, so that is what a draft has them be apart; with them far apart, the highest row that it reaches says how many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Load
from ktc.ir.pointer_rows import row_pitches
from ktc.ir.workload.size_expressions import evaluate

from ..contents import Content
from ..given_values import definitions, made_of, symbols_behind
from ..grains import bounds
from ..inner_strides import accesses
from ..integers.tensor_lists import tensor_lists
from ..largest_index import Largest
from ..model import Draft
from ..probe import Prober, Seen
from ..roles import Roles
from ..shapes import Extent, fit
from ..size_polynomials import text_of


def row_lengths(k: Kernel, roles: Roles) -> dict[str, str]:
    """For each parameter that says how far rows are apart that lie anywhere, how long they are, in other sizes; those
    that follow none are left out."""
    pitches = {b.name: s.name for b, s in row_pitches(k).items()}
    if not pitches:
        return {}
    sizes, lists = [n for n in roles.sizes if n not in pitches.values()], tensor_lists(k)
    at_one_place = dict.fromkeys(pitches.values(), 0)
    probe = Prober(k, roles, at_one_place)
    seen = [s for at in probe.sizes() if (s := probe.look(at)) is not None]
    said = Largest(k, {n: probe.meaning(n) for n in (p.sym.name for p in k.params)}).extents_of()
    out: dict[str, str] = {}
    for buffer, pitch in pitches.items():
        looks = [(s.sizes, s.extent(buffer)) for s in seen]
        texts = [text_of(p) for p in said.get(buffer, ())]
        length = _of_sizes(looks, sizes, roles) or _as_written(looks, texts) or (lists.length if lists else "")
        if length:
            out[pitch] = length
    return out | _alike(k, [s.name for s in row_pitches(k).values() if s.name not in out])


def _alike(k: Kernel, pitches: Sequence[str]) -> dict[str, str]:
    """Those of ``pitches`` whose rows are as long as those of the first one: as what is loaded says, for both the same
    (``i < sizes[t]``)."""
    told = _loaded_lengths(k) if len(pitches) > 1 else {}
    same = [p for p in pitches if told.get(p) and told[p] == told.get(pitches[0])]
    return dict.fromkeys(same[1:], pitches[0]) if same else {}


def with_loaded_lengths(k: Kernel, roles: Roles, contents: Sequence[Content]) -> list[Content]:
    """``contents`` with the lengths of rows, which buffers hold, up to how far rows are apart."""
    lengths = {b: pitch for pitch, loaded in _loaded_lengths(k).items() for b in loaded if pitch in roles.sizes}
    return [
        replace(c, within=lengths[c.buffer], first=1) if c.kind == "index" and c.buffer in lengths else c
        for c in contents
    ]


def _loaded_lengths(k: Kernel) -> dict[str, set[str]]:
    """The buffers whose elements places in rows are compared with, for each parameter that says how far rows are
    apart."""
    pitches = {s.name for s in row_pitches(k).values()}
    if not pitches:
        return {}
    sources, told = definitions(k), dict[str, set[str]]()
    sides = [(i, {x.buffer.name for x in made_of([b], sources) if isinstance(x, Load)}) for i, b in bounds(k)]
    for buffer, index in accesses(k):
        pitch = k.param(buffer).rows if any(p.sym.name == buffer for p in k.params) else ""
        if pitch in pitches:
            inside = symbols_behind([index], sources) - {p.sym for p in k.params}
            loaded = (by for i, by in sides if by and symbols_behind([i], sources) & inside)
            told.setdefault(pitch, set()).update(*loaded)
    return told


def _of_sizes(looks: Sequence[tuple[Mapping[str, int], int]], sizes: Sequence[str], roles: Roles) -> str:
    extent = fit(looks, sizes, roles.quotients)
    return " * ".join(extent.shape) if extent is not None and extent.exact and len(looks) > 2 else ""


def _as_written(looks: Sequence[tuple[Mapping[str, int], int]], texts: Sequence[str]) -> str:
    """The one of ``texts`` that no look goes beyond, and that most of them reach; '' if there is none."""
    within = [t for t in texts if all(evaluate(t, at) >= n for at, n in looks)]
    return max(within, key=lambda t: sum(evaluate(t, at) == n for at, n in looks), default="")


def row_shapes(d: Draft, seen: Sequence[Seen]) -> dict[str, Extent | None]:
    """The shapes of ``d``, with a dimension of rows and one of their elements for each buffer of rows that lie anywhere
    whose shape is no product with the length of a row."""
    out = dict(d.shapes)
    for b, s in row_pitches(d.kernel).items():
        length = str(d.tied(s.name) or s.name)
        if (shape := out.get(b.name)) is not None and _is_of_rows(shape, length):
            if length.isdigit() and shape.times == int(length):
                out[b.name] = replace(shape, factors=(*shape.factors, _factor(length)), times=1)
            continue
        looks = [(x.sizes, -(-x.extent(b.name) // max(evaluate(length, x.sizes), 1))) for x in seen]
        rows = fit(looks, [n for n in d.names if n != s.name], d.roles.quotients)
        if rows is not None and rows.exact:
            out[b.name] = replace(rows, factors=(*map(_factor, rows.shape), _factor(length)), times=1, over=1, plus=0)
    return out


def row_doubts(d: Draft) -> list[str]:
    """What a draft supposes of such rows, for its reader to confirm."""
    lengths = {b.name: d.tied(s.name) or s.name for b, s in row_pitches(d.kernel).items()}
    supposed = "long, and none to be null or in another one"
    return [f"{b}: an array of pointers; its rows are taken to be {n} {supposed}" for b, n in lengths.items()]


def _is_of_rows(shape: Extent, length: str) -> bool:
    factors = [f.strip("()") for f in shape.factors]
    whole = length in factors or str(shape.times) == length or all(f in factors for f in length.split(" * "))
    return whole and shape.over == 1 and not shape.plus


def _factor(text: str) -> str:
    return text if text.isidentifier() else f"({text})"


__all__ = ["row_doubts", "row_lengths", "row_shapes"]
