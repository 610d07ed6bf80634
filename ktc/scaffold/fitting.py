"""Shapes that explain the probes: extents fitted to what is reached, with as few integers tied to others as need be."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Param
from ktc.ir.nodes import Var
from ktc.ir.support.time_limits import unless_late
from ktc.ir.walk import walk_expr
from ktc.ir.workload.size_expressions import evaluate

from .bounding import bounding, places
from .contents import scattering
from .extents.accessors import whole_tensors
from .extents.allocated_extents import as_allocated
from .extents.chained_strides import chained
from .extents.computed_lengths import computed_lengths, folded
from .extents.row_pitches import widest_pitches
from .extents.tying import names_behind
from .footprints import offsets_of
from .given_values import definitions
from .inner_strides import inner_first
from .integer_values import parts_of as parts_of_values
from .integers.paged_tables import lengths_in_pages
from .integers.row_pointers import PART
from .integers.row_starts import row_starts
from .integers.starts_and_lengths import row_lengths
from .largest_index import Largest
from .model import Draft
from .named_dimensions import in_common
from .probe import Prober, Seen
from .probing.fills import Fill, constant, one_each
from .quotients.divided_sizes import divided_sizes
from .roles import buffers_of, lanes_of
from .shapes import Extent, fit, fit_sum
from .size_polynomials import MOST_PRODUCTS, Polynomial, dimensions, number, text_of, times
from .windows import names_in, windows

MOST_TIES, TIES_WORK = 4, 120_000
"""How many integers are tied to others, and what may be spent on it (``RunResult.work``; 10,000 are about a second)."""

TYING = 0.5
"""The share of the time that integers may be tied in, where somebody waits."""

LESS = re.compile(r"-\s?(\d+ \* )?[A-Za-z_(]")
"""A size that is taken off in a text."""

SHORT = 8
"""What the length of rows in probes is divided by that loops go over."""

ROUNDED = re.compile(r"\+ \d+\)* / \d+\)*$")
"""A quotient that is rounded up."""

SOME = re.compile(r"-\s?\d+\)?$")
"""A number that is taken off in the end."""

MOST_LEFT_OUT = 16

MOST_UNREACHED = 3
"""Elements at the end that a loop over vectors of four may not reach."""

MOST_PITCH = 1 << 16
"""Elements of a struct, or of a row of it."""

MOST_ELEMENTS = 1 << 40
"""What is reached beyond so many elements is no shape: no memory holds them."""

Found = tuple[dict[str, "str | int"], dict[str, "Extent | None"], list[Seen]]


def tied(d: Draft) -> Found:
    """Shapes that explain the probes; where no product of sizes does, what the source's largest index says."""
    ties, shapes, seen = _tied(d)
    open_ = [b for b, e in shapes.items() if e is None or not e.plausible or (not e.exact and _made_up(e))]
    return ties, shapes | _largest(d, Prober(d.kernel, d.roles, ties), seen, open_, differences=True), seen


def _tied(d: Draft) -> Found:
    """Shapes that explain the probes: of independent sizes if that is possible, else with integers tied to others.

    A row's stride is its length, a grid of rows the number of rows, a label less than the number of classes:
    independent numbers for those fit no shape.
    """
    named = {c.name for c in d.contents}
    whole = {r.total: f"{r.count} * {r.apart}" for r in row_lengths(d.kernel).values() if r.total and r.apart in named}
    best = fitted(d, {**d.limits, **whole, **{c.name: c.within for c in d.contents if c.within}})
    found = [best]  # better and better ones

    def until_now() -> Found:
        d.doubts.append("shapes: those that were found first: no time was left to tie sizes to others")
        return found[-1]

    return unless_late(TYING, lambda: _with_ties(d, found), until_now)


def _with_ties(d: Draft, found_so_far: list[Found]) -> Found:
    """The last of ``found_so_far``, or what explains the probes better: each such is put behind those."""
    best = found_so_far[-1]
    touched = _touched(best)
    end = d.work + TIES_WORK
    if badness(best[1]) and (steps := _steps(d, best[0])):
        found = fitted(d, {**best[0], **steps})
        best = found if found[2] and badness(found[1]) < badness(best[1]) else best
        found_so_far.append(best)
    for _ in range(MOST_TIES):
        before = best
        for ties in _ties(d, before[0]):
            if not best[2] or d.work > end or not badness(best[1]):
                return best
            plausible = not misfits(best[1])
            if plausible and not _by_threads(ties):
                continue
            found = fitted(d, ties)
            if plausible and badness(found[1]):
                continue  # no better than what is there: a page whose last rows nobody reads
            idle = len(touched - _touched(found))  # no rows, no sums: that fits anything
            if found[2] and badness(found[1]) + 2 * idle < badness(best[1]):
                best = found
                found_so_far.append(best)
        if best is before:
            break
    return best


def apart(d: Draft, found: Found) -> Found:
    """``found``, with as many values as elements for indices that plain stores go to, or as many blocks where a value
    is a place in a block: threads write places of their own."""
    ties, shapes, seen = found
    scattered = scattering(d.kernel)
    for c in d.contents:
        mine = shapes.get(c.buffer)
        if c.kind != "index" or c.buffer not in scattered or mine is None or not (mine.is_product and mine.factors):
            continue
        if c.name in ties:
            if len(mine.factors) > 1 and c.name not in d.limits:
                d.contents = [replace(x, kind="distinct-rows") if x is c else x for x in d.contents]
            continue
        d.contents = [replace(x, kind="distinct") if x is c else x for x in d.contents]
        factors = (*mine.factors, *sorted(d.roles.parts))
        ties = {**ties, c.name: " * ".join(factors)}
        shapes = {b: e and e.with_factor(c.name, factors) for b, e in shapes.items()}
        seen = [replace(s, sizes={n: v for n, v in s.sizes.items() if n != c.name}) for s in seen]
    return ties, shapes, seen


def by_strides(d: Draft) -> dict[str, Extent | None]:
    """The shapes with their outermost sizes first; where strides do not tell, as the grid counts them."""
    strides = inner_first(d.kernel)
    grid = d.kernel.launch.grid if d.kernel.launch is not None else ()
    counted = {
        x.sym.name: i for i, x in enumerate(x for e in reversed(grid) for x in walk_expr(e) if isinstance(x, Var))
    }

    computed = {f"({text})": n for n in d.roles.tied if isinstance(text := d.tied(n), str)}
    products = [names_in(text) for text in d.roles.tied.values() if not set(text) & set("+-/(")]
    inside = {n: names_in(str(d.tied(n) or "")) for counts in strides.values() for n in counts}

    def place(buffer: str, factor: str) -> tuple[int, int, int]:
        counts = strides[buffer]
        if (name := computed.get(factor, "")) in counts:
            return counts[name], 0, 0
        inner = sum(c for n, c in counts.items() for m in (n, *inside[n]) if m in names_in(factor))
        written = next((p.index(factor) for p in products if factor in p), 0)
        return inner, counted.get(factor, -1) if not inner else 0, written

    out, rooms = dict(d.shapes), {*row_starts(d.kernel).values()}
    for b, e in d.shapes.items():
        if (
            e is not None
            and b in strides
            and (not e.told or all(strides[b].get(computed.get(f, f)) for f in e.factors[1:]))
        ):
            out[b] = replace(e, factors=tuple(sorted(e.factors, key=lambda f: (f in rooms, place(b, f)))))
    return out


def _touched(found: Found) -> set[str]:
    return {b for s in found[2] for b in s.reach}


def _steps(d: Draft, known: Mapping[str, str | int]) -> dict[str, str]:
    """Strides that bound nothing with what they step over, where arrays' largest indices show it of several. What would
    be made of itself is no such stride: rows that are chosen by a quotient, ``y * rows / out_rows``, are as many as
    they are."""
    probe, bounds = Prober(d.kernel, d.roles, known), {s.name for s in bounding(d.kernel)}
    meanings = {n: m for n in {p.sym.name for p in d.kernel.params} if (m := probe.meaning(n)) != n}
    extents = Largest(d.kernel, meanings).extents_of()
    free = [n for n in d.roles.sizes if n not in known and n not in bounds]
    steps = chained((p for found in extents.values() for p in found), free)
    texts = {n: str(t) for n, t in known.items()} | steps
    return {n: t for n, t in steps.items() if n not in names_behind(t, texts)}


def _ties(d: Draft, known: Mapping[str, str | int]) -> Iterator[dict[str, str | int]]:
    """``known`` and one integer more that equals another size, the threads of an axis, or 1. That there is one value
    for indices comes last: rows that nobody chooses among are as long as anything. Sizes that bound nothing come before
    others: a stride is as long as a row is read. What is taken apart by a size, ``at / rows`` and ``at % rows``, may be
    a place in as many parts as another size says."""
    chosen = [c.name for c in d.contents]
    within, bounds = places(d.kernel), {s.name for s in bounding(d.kernel)}
    sizes = sorted(d.roles.sizes, key=lambda n: n in bounds)
    free = [n for n in (*chosen, *sizes) if n not in known and n not in d.given]
    held = [c.name for c in d.contents if c.kind == "index"]
    offsets = offsets_of(d.kernel)
    for name in free:
        sizes = sorted((n for n in d.roles.sizes if n not in within), key=lambda n: -in_common(name, n))
        wholes = [f"{n} * {by}" for by in sorted(d.roles.parts) for n in sizes if n != by] if name in chosen else []
        others: tuple[str | int, ...] = (*(held if name in held else ()), *_threads(d), *wholes, *sizes)
        if name in offsets:
            others = (0,)
        elif name in within:
            others = (*(f"{n} / 2" for n in sizes), 0)
        elif name not in bounds and name not in chosen:  # of one row, or one element, nothing is learnt
            others = (*others, 1)
        used_by_others = {n for v in known.values() if isinstance(v, str) for n in names_in(v)}
        for other in others:
            inside = set(names_in(other)) if isinstance(other, str) else set()
            if name not in inside and not inside & known.keys() and name not in used_by_others:
                yield {**known, name: other}
    for name in chosen:
        if name in free and name not in within and name not in bounds:
            yield {**known, name: 1}


def _by_threads(ties: Mapping[str, str | int]) -> bool:
    """Whether the last of ``ties`` is to the threads of an axis: worth a try where all shapes are plausible but one is
    not exact, for what is only nearly as long as the grid overruns its rows at other sizes."""
    return "*" in str(list(ties.values())[-1])


def _threads(d: Draft) -> list[str]:
    """Threads of a guessed grid along its axes: a row of an unguarded kernel is as long."""
    if d.launch is None:
        return []
    axes = zip(d.launch.grid, d.launch.block)
    return [f"{threads} * {blocks}" for blocks, threads in axes if blocks in d.roles.sizes and threads != "1"]


def misfits(shapes: Mapping[str, Extent | None]) -> int:
    """How many shapes are not plausible; those that are not known count twice."""
    return sum(2 if e is None else 1 - e.plausible for e in shapes.values())


def badness(shapes: Mapping[str, Extent | None]) -> float:
    """Misfits first, then how loose the others are."""
    return misfits(shapes) + 0.01 * sum(min(e.loose, 2.0) - 1 for e in shapes.values() if e is not None)


def fitted(d: Draft, ties: Mapping[str, str | int]) -> Found:
    """Probes with ``ties``, and the extents that fit them."""
    probe = Prober(d.kernel, d.roles, ties)
    names = [n for n in (*(c.name for c in d.contents), *d.roles.sizes) if n not in ties]
    parts = {c.name: parts_of_values(d.kernel, d.kernel.param(c.buffer).sym) for c in d.contents}
    paged = lengths_in_pages(d.kernel)
    short = {r.apart for r in row_lengths(d.kernel).values()}  # loops go over each whole row, one after the other
    seen: list[Seen] = []
    for k, sizes in enumerate(probe.sizes()):
        for i, c in enumerate(d.contents):
            if c.name not in ties:
                sizes[c.name] = 24 + 8 * ((3 * k + 5 * i) % 7) + 3 * (k % 2 if parts[c.name] else 0)
                sizes[c.name] *= PART if c.uneven else 1
                sizes[c.name] //= SHORT if c.name in short else 1
        fills: dict[str, Fill] = {}
        found = probe.look(sizes)
        for c in d.contents:
            if found is not None:
                fills[c.buffer] = c.fill(probe.value(c.name, sizes), found.extent(c.buffer))
                found = probe.look(sizes, fills) or found
        found = _with_spread_parts(d, probe, sizes, fills, found)
        if found is not None and (whole := {c.buffer: c for c in d.contents if c.buffer in paged}):
            longest = {b: constant(probe.value(c.name, sizes) - 1 + c.first) for b, c in whole.items()}
            found = found.joined(probe.look(sizes, {**fills, **longest}))  # to the end of each page
        if found is not None and any(c.counted for c in d.contents):
            spread = {c.buffer: one_each(probe.value(c.name, sizes)) for c in d.contents if c.counted}
            found = found.joined(probe.look(sizes, {**fills, **spread}))
        seen += [found] if found is not None else []
    d.work += probe.work
    quotients = (*d.roles.quotients, *((c.name, b) for c in d.contents for b in d.roles.divisors))
    quotients += tuple((n, str(by)) for n, found in parts.items() for by in sorted(found))
    left = windows(d.kernel, d.roles.halves, definitions(d.kernel)) if d.roles.halves else []
    hosts = {p.sym.name for p in d.kernel.params if p.host}
    own = ((n, text) for n, text in d.roles.tied.items() if n not in hosts)
    computed = (f"({d.tied(n)})" for n, text in own if "+" in text or "-" in text)
    lengths = (folded(d.in_sizes(t)) for t in computed_lengths(d.kernel))
    terms = [t for t in dict.fromkeys((*left, *computed, *lengths)) if {*names_in(t)} <= {*names}]
    given = definitions(d.kernel)
    shapes: dict[str, Extent | None] = {}
    for p in buffers_of(d.kernel):
        parts_of = divided_sizes(d.kernel, given, p.sym.name)
        mine = [(a, b) for a, b in quotients if a not in d.roles.sizes or a in parts_of.get(b, {a})]
        shapes[p.sym.name] = _shape(p, seen, names, mine, terms)
    shapes |= _whole_vectors(d, seen, terms)
    for b, e in _largest(d, probe, seen, [b for b, e in shapes.items() if _conjectural(e)]).items():
        known = shapes[b]
        if known is not None and (_short_of(e, known, seen) or (known.plausible and not e.exact)):
            continue
        if known is None or not known.exact or not any(" + " in f or "- " in f for f in e.factors):
            shapes[b] = e  # where the product of quotients is exact as well, only for a simpler one
    shapes |= whole_tensors(d.kernel, probe, seen, names)
    shapes |= _in_rows(d, probe, seen, names, [b for b, e in shapes.items() if e is None or not e.plausible])
    if d.roles.few:
        loose = (b for b, e in shapes.items() if e is None or not e.plausible)
        blocks = (*quotients, *((n, by) for by in d.roles.parts for n in names if n != by))
        sums = ((b, fit_sum([(s.sizes, s.extent(b)) for s in seen], names, blocks)) for b in [*loose])
        shapes |= {b: e for b, e in sums if e is not None}
    shapes |= as_allocated(probe, seen, names, shapes)
    return dict(ties), shapes, seen


def _whole_vectors(d: Draft, seen: Sequence[Seen], terms: Sequence[str]) -> dict[str, Extent]:
    """The extents of buffers of as many vectors as the host rounds a number of elements up to: ``(n + 1) / 2`` pairs,
    of which a caller allocates the last whole."""
    found: dict[str, Extent] = {}
    for p in (p for p in buffers_of(d.kernel) if lanes_of(p) > 1):
        looks = [(s.sizes, s.extent(p.sym.name)) for s in seen if p.sym.name in s.reach]
        for text in (t for t in terms if ROUNDED.search(t)):
            if len(looks) > 1 and all(lanes_of(p) * evaluate(text, sizes) == n for sizes, n in looks):
                found[p.sym.name] = Extent((text,), times=lanes_of(p), exact=True)
    return found


def _with_spread_parts(
    d: Draft, probe: Prober, sizes: Mapping[str, int], fills: dict[str, Fill], found: Seen | None
) -> Seen | None:
    """``found`` with parts that begin all over as much of their buffer as is reached by now: which rows of a matrix are
    taken another buffer may say, and only the first had any elements before that was filled."""
    ends = [c for c in d.contents if c.kind == "offsets"]
    if found is None or not any(c.kind in ("index", "distinct") for c in d.contents) or not ends:
        return found
    spread = {c.buffer: c.fill(probe.value(c.name, sizes), found.extent(c.buffer)) for c in ends}
    fills |= spread
    return found.joined(probe.look(sizes, fills))


def _largest(
    d: Draft, probe: Prober, seen: Sequence[Seen], wanted: Collection[str], differences: bool = False
) -> dict[str, Extent]:
    """The extents of the ``wanted`` buffers that the largest index of the source gives, where all probes reach just as
    far, or as far but for :data:`MOST_UNREACHED` elements: ``scales[i / by]`` in steps of vectors. ``differences``:
    even such from which sizes are taken off, as the last row's padding is; a stride that is as long as its row leaves
    none."""
    if len(seen) < 2 or not wanted:
        return {}
    names = (p.sym.name for p in d.kernel.params)
    largest = Largest(d.kernel, {n: m for n in names if (m := probe.meaning(n)) != n})
    factors, found = largest.factors(), {}
    for b, conjectures in largest.extents_of().items():
        if b not in wanted:
            continue
        lanes = number(lanes_of(d.kernel.param(b)))
        wholes = [whole for p in conjectures if len(whole := times(p, lanes)) <= MOST_PRODUCTS]
        for most_left, whole in itertools.product((0, MOST_UNREACHED), wholes):
            looks = [(_value(whole, probe, s), s.extent(b)) for s in seen if b in s.reach]
            if all(value is not None and 0 <= value - reached <= most_left for value, reached in looks):
                count, texts = dimensions(whole, factors)
                if any(LESS.search(t) for t in texts) and not differences:
                    continue
                loose = max((value / reached for value, reached in looks if value and reached), default=1.0)
                whole_texts = tuple(t if _atomic(t) else f"({t})" for t in texts)
                found[b] = Extent(whole_texts, times=count, exact=most_left == 0, loose=loose)
                break
    return found


def _in_rows(
    d: Draft, probe: Prober, seen: Sequence[Seen], names: Sequence[str], wanted: Collection[str]
) -> dict[str, Extent]:
    """The extents of the ``wanted`` buffers that are whole rows of a literal pitch, as many as a product of sizes says
    exactly: of a struct the last members need not be read, least of all at once."""
    if len(seen) < 2 or not wanted:
        return {}
    params = (p.sym.name for p in d.kernel.params)
    found: dict[str, Extent] = {}
    for b, pitch in widest_pitches(d.kernel, {n: m for n in params if (m := probe.meaning(n)) != n}).items():
        if b in wanted and pitch <= MOST_PITCH:
            pitch *= lanes_of(d.kernel.param(b))
            rows = fit([(s.sizes, -(-s.extent(b) // pitch)) for s in seen], names)
            if rows is not None and rows.exact and rows.factors and rows.plus == 0 and rows.over == 1:
                found[b] = replace(rows, times=rows.times * pitch)
    return found


def _conjectural(e: Extent | None) -> bool:
    """Whether an extent is not known, or holds quotients that the sizes of the probes may have made up."""
    return e is None or not e.exact or e.over > 1 or any("cdiv" in f for f in e.factors)


def _short_of(e: Extent, rows: Extent, seen: Sequence[Seen]) -> bool:
    """Whether ``e`` leaves out but a number of the elements of whole ``rows``, as a stencil does that never reads the
    last corner: nobody allocates that."""
    plain = rows.plausible and rows.is_product and len(rows.factors) > 1
    return (
        plain
        and SOME.search(" ".join(e.factors)) is not None
        and all(0 <= rows.value(s.sizes) - e.value(s.sizes) <= MOST_LEFT_OUT for s in seen)
    )


def _made_up(e: Extent) -> bool:
    """Whether an extent is a part or a multiple of a part, as fits the sizes of the probes by chance."""
    return e.over > 1 or (e.times > 1 and any("cdiv" in f for f in e.factors))


def _atomic(text: str) -> bool:
    """Whether a text is one name, or one pair of parentheses with all that is in it."""
    head, _, rest = text.partition("(")
    depth = itertools.accumulate({"(": 1, ")": -1}.get(c, 0) for c in "(" + rest)
    return text.isidentifier() or (head in ("", "cdiv") and 0 not in [*depth][:-1])


def _value(p: Polynomial, probe: Prober, seen: Seen) -> int | None:
    text = text_of(p)
    try:
        return evaluate(text, {n: probe.value(n, seen.sizes) for n in names_in(text)})
    except KtcError:
        return None


def _shape(
    p: Param,
    seen: Sequence[Seen],
    names: Sequence[str],
    quotients: Collection[tuple[str, str]],
    terms: Sequence[str],
) -> Extent | None:
    if p.extent:
        return Extent((), times=p.extent * lanes_of(p), exact=True)
    if any(s.extent(p.sym.name) > MOST_ELEMENTS for s in seen):
        return None
    return fit([(s.sizes, s.extent(p.sym.name)) for s in seen], names, quotients, terms) if seen else None
