"""Indices into several buffers at once: they stay below the length of each.

``cost[to] = ...; if (!visited[to])`` with ``cost[i]`` for all ``i < n`` as well: what ``to`` is read from holds numbers
below ``n``. Probes hold smaller ones, so that ``cost`` has ``n`` elements whatever ``to`` is, and ``visited`` as many
as that says; larger ones would reach beyond the end of ``cost``.

``if (from[i] == k) sum += part[i]``: how far ``part`` is read depends on what ``from`` holds. It is as long as that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fields import children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic, Binary, Body, Expr, For, If, Load, Select, Store, Sym, While, bodies
from ktc.ir.walk import stmt_exprs, used, walk

from .contents import Content
from .fitting import Found, badness, fitted
from .given_values import definitions, made_of
from .model import Draft
from .probe import Prober, Seen
from .probing.fills import constant
from .roles import buffers_of, lanes_of
from .shapes import value_of
from .windows import names_in


def below_all(d: Draft, found: Found) -> Found:
    """``found`` with each index tied to the length of the shortest buffer that it is an index into and whose shape does
    not follow it, where the shapes fit as well then."""
    for c in (c for c in d.contents if c.kind == "index"):
        ties, shapes, seen = found
        if c.name in ties or c.within or not seen:
            continue
        for length in _lengths(d, found, c):
            other = fitted(d, {**ties, c.name: length})
            if other[2] and badness(other[1]) <= badness(shapes):
                found = other
                break
    return found


def with_places_of_others(d: Draft, found: Found) -> Found:
    """``found`` with the shapes of others for buffers that are touched only where loaded values say so, at places where
    another is touched whatever was loaded, and no further; and for those that are touched in no probe, in the other
    branch of a condition, at the same places as another."""
    ties, shapes, seen = found
    for b, a in _at_places_of(d.kernel).items():
        mine, other = shapes.get(b), shapes.get(a)
        if other is None or lanes_of(d.kernel.param(a)) != lanes_of(d.kernel.param(b)):
            continue
        if all(s.extent(b) <= other.value(s.sizes) for s in seen) and (mine is None or mine != other):
            shapes = {**shapes, b: other}
    idle = {b for b in shapes if not any(s.extent(b) for s in seen)}
    for b, a in _alike_in_places(d.kernel, idle).items():
        if shapes.get(a) is not None and lanes_of(d.kernel.param(a)) == lanes_of(d.kernel.param(b)):
            shapes = {**shapes, b: shapes[a]}
    return ties, shapes, seen


def _at_places_of(k: Kernel) -> dict[str, str]:
    """Buffers whose places are all of them, under conditions on loaded values, places of another buffer, with that."""
    once = {s for s, given in definitions(k).items() if len(given) == 1} | {p.sym for p in k.params}
    sure, doubtful = dict[Sym, set[Expr]](), dict[Sym, set[Expr]]()
    for b, place, loaded_decides in _touched(k.body, definitions(k), False):
        (doubtful if loaded_decides else sure).setdefault(b, set()).add(place)
    buffers = [p.sym for p in buffers_of(k)]
    return {
        b.name: a.name
        for b in buffers
        for a in buffers
        if b not in sure and b in doubtful and doubtful[b] <= sure.get(a, set())
        if all(used(place) <= once for place in doubtful[b])
    }


def _alike_in_places(k: Kernel, idle: Collection[str]) -> dict[str, str]:
    """The buffers of those ``idle`` whose places are all of them places of another buffer, with that."""
    once = {s for s, given in definitions(k).items() if len(given) == 1} | {p.sym for p in k.params}
    once |= {s.var for s in walk(k.body) if isinstance(s, For)}
    places = dict[str, set[Expr]]()
    for b, place, _ in _touched(k.body, definitions(k), False) if idle else ():
        places.setdefault(b.name, set()).add(place)
    steady = {b for b, found in places.items() if all(used(place) <= once for place in found)}
    others = [p.sym.name for p in buffers_of(k) if p.sym.name in places and p.sym.name not in idle]
    found = ((b, next((a for a in others if places[b] <= places[a]), "")) for b in sorted({*idle} & steady))
    return {b: a for b, a in found if a}


def _touched(body: Body, sources: Mapping[Sym, Sequence[Expr]], decided: bool) -> Iterator[tuple[Sym, Expr, bool]]:
    """Buffers with the places at which they are touched, and whether loaded values decide that it is done."""
    for s in body:
        for e in stmt_exprs(s):
            yield from _read(e, sources, decided)
        if isinstance(s, Store | Atomic):
            yield s.buffer, without_casts(s.index[0]), decided
        under = decided or (isinstance(s, If | For | While) and _loaded(s.cond, sources))
        for part in bodies(s):
            yield from _touched(part, sources, under)


def _read(e: Expr, sources: Mapping[Sym, Sequence[Expr]], decided: bool) -> Iterator[tuple[Sym, Expr, bool]]:
    match e:
        case Load():
            yield e.buffer, without_casts(e.index[0]), decided
            parts = [(x, decided) for x in e.index]
        case Select(cond, a, b):
            under = decided or _loaded(cond, sources)
            parts = [(cond, decided), (a, under), (b, under)]
        case Binary("&&" | "||", a, b):
            parts = [(a, decided), (b, decided or _loaded(a, sources))]
        case _:
            parts = [(x, decided) for x in children(e)]
    for x, under in parts:
        yield from _read(x, sources, under)


def _loaded(e: Expr, sources: Mapping[Sym, Sequence[Expr]]) -> bool:
    return any(isinstance(x, Load) for x in made_of([e], sources))


def _lengths(d: Draft, found: Found, c: Content) -> Iterator[str]:
    """Lengths of buffers that elements of ``c.buffer`` reach beyond when they are larger than all lengths, and of their
    dimensions, the shortest first: how long a sequence is, is no more than there is room for."""
    ties, shapes, seen = found
    at, probe = seen[0], Prober(d.kernel, d.roles, ties)
    beyond = 2 * max((e.value(at.sizes) for e in shapes.values() if e is not None), default=1)
    before, after = (_with(d, probe, at, c, size) for size in (1, beyond))
    if before is None or after is None:
        return
    reached = [
        e
        for b, e in shapes.items()
        if e is not None and b != c.buffer and c.name not in {n for f in e.factors for n in names_in(f)}
        if after.extent(b) > max(before.extent(b), e.value(at.sizes))
    ]
    whole = [(e.value(at.sizes), " * ".join(e.factors)) for e in reached if e.is_product and e.factors]
    parts = [(value_of(f, at.sizes), f) for e in reached for f in e.factors if f.isidentifier()]
    yield from dict.fromkeys(text for _, text in (*sorted(whole), *sorted(parts)))


def _with(d: Draft, probe: Prober, at: Seen, c: Content, size: int) -> Seen | None:
    """What is reached at the sizes of ``at`` where ``c`` has the size ``size``."""
    fills = {o.buffer: o.fill(probe.value(o.name, at.sizes), at.extent(o.buffer)) for o in d.contents}
    return probe.look(at.sizes, {**fills, c.buffer: constant(size - 1)})


__all__ = ["below_all"]
