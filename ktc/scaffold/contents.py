"""What integer buffers hold, and integers that are kept as floats: indices into something else, or offsets of its
parts, found by what changing them does.

Indices that plain stores go to are drawn without repetition: blocks that write one element in turn are a race.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Atomic, Expr, For, Load, Store, Sym, While
from ktc.ir.types import Array, scalar_of
from ktc.ir.walk import all_exprs, stmt_exprs, walk, walk_expr

from .extents.accessors import counted_extent, indexed_extent
from .extents.told_extents import chosen_extent
from .given_values import definitions, loaded, made_of, staged, steering
from .inner_strides import limited_by, row_of
from .integer_values import bins, compared, counters, label_of, parts_of, whole_floats
from .integers.packed_indices import packed_values
from .integers.row_pointers import part_limits, part_starts, row_pointers
from .integers.row_starts import row_starts
from .integers.starts_and_lengths import row_lengths
from .plain_integers import values_compared
from .probe import STOPS, Prober, Seen
from .probing.fills import Fill, constant, distinct, in_rows, offsets, spaced
from .roles import access_role, buffers_of

PROBED = {"index": 16, "offsets": 64, "starts": 64}
"""The size of what an integer buffer is supposed to hold, to see whether it does."""

FAR = 1 << 12
"""The size of an index into what is read from end to end as well: a label in its row of scores."""

FEW = 1 << 12
"""Up to so many values are a number in the workload, as 256 of a byte are; more are a size: rows in a new order are
rather as many as there are than as 16 bits have values."""


DIGITS = {"f16": 11, "bf16": 8, "f64": 53}
"""Up to how many bits every integer is a number of the type; 24 of any other."""

TRUTHS = 2
"""How many values a mask has: all but 0 do the same."""


@dataclass(frozen=True)
class Content:
    """What an integer buffer holds: ``kind`` index (below the size ``name``), distinct (the same, no two alike),
    distinct-rows (no two alike in a row), offsets (from 0 to the size) or starts (the size apart)."""

    buffer: str
    kind: str
    name: str
    within: str = ""
    """The size that an index stays below, where it is known: what it reaches is read from end to end as well, or
    nothing is done for larger ones."""

    counted: bool = False
    """Whether it chooses counters: how often each value comes says how much is stored."""

    most: int = 0
    """How many values there are, where that is known: 2 of a mask, all of whose values but 0 do the same."""

    row: tuple[int, int] = (1, 0)
    """How long rows are of which just one element is an index, and which; other numbers are what they are."""

    first: int = 0
    """The least index: 1 where they are counted from 1, as labels of Lua are."""

    packed: bool = False
    """Whether a few bits at a time are an index, below ``most``: all of them are 1 where each is the last."""

    uneven: bool = False
    """Whether parts are as different in length as they can be, as something is done for longer ones than others."""

    def fill(self, size: int, elements: int) -> Fill:
        if self.kind == "starts":
            return spaced(size)
        if self.kind.startswith("distinct"):
            return lambda n: distinct(size)(n) + self.first
        last = constant(-1 if self.packed else max(size, 1) - 1 + self.first)
        if self.row[0] > 1:
            return in_rows(last, *self.row)
        if self.kind == "index":
            return last
        return lambda n: offsets(size, elements, self.uneven)(n) + self.first


def contents_of(k: Kernel, probe: Prober, seen: Sequence[Seen]) -> list[Content]:
    """Which integer buffers hold indices or offsets: what else is reached when they hold something else.

    Columns of a sparse row are only read once the rows have some, so what is found is put in and the rest asked again.
    """
    found: list[Content] = []
    fills: dict[str, Fill] = {}
    steers = steering(k)
    asked = [p for p in buffers_of(k) if p.sym in steers or p.sym.name in row_pointers(k)]
    before = seen[0] if seen else None
    while before is not None:
        new = [c for p in asked if p.sym.name not in fills and (c := _content(k, p, probe, before, fills))]
        if not new:
            break
        new = [replace(c, first=1) if _from_one(c, probe, before, fills) else c for c in new]
        found += new
        fills |= {c.buffer: _filled(k, c, before) for c in new}
        before = probe.look(before.sizes, fills)
        spread = {c.buffer: _filled(k, c, before) for c in found if before is not None and c.kind == "offsets"}
        if before is not None and spread:  # parts are now chosen that may be behind the last of before
            fills |= spread
            before = probe.look(before.sizes, fills)
    return [_once_more(k, c, probe, seen[0], fills) for c in found]


def _filled(k: Kernel, c: Content, seen: Seen) -> Fill:
    """What ``c`` holds to see what it reaches, where runs reach as far as in ``seen``."""
    size = PROBED[c.kind] * max(parts_of(k, k.param(c.buffer).sym), default=1)
    size = min(size, c.most or values_of(k, c.buffer)) if c.kind == "index" else PROBED[c.kind]
    return c.fill(size, seen.extent(c.buffer))


def _once_more(k: Kernel, c: Content, probe: Prober, seen: Seen, fills: Mapping[str, Fill]) -> Content:
    """``c``; or, where it was taken for a mask before others were known, what it is among those: a row of a batch does
    nothing for its length while all others have none."""
    others = {b: f for b, f in fills.items() if b != c.buffer}
    before = probe.look(seen.sizes, others) if c.most == TRUTHS and others else None
    return (_content(k, k.param(c.buffer), probe, before, others) or c) if before is not None else c


def _content(k: Kernel, p: Param, probe: Prober, before: Seen, fills: Mapping[str, Fill]) -> Content | None:
    """What ``p`` holds, where the buffers of ``fills`` are known."""
    name, t = p.sym.name, scalar_of(p.sym.type)
    if (
        (not t.is_int and name not in whole_floats(k))
        or t.bits < 8
        or t.kind == "bool"
        or p.init
        or name in probe.filled
        or name in probe.roles.listed
        or name in probe.searched
        or name in probe.positions
    ):
        return None
    if access_role(p, k) == "out" or name in counters(k) or name in part_starts(k):
        return None  # with zeros, the last part is as long as any can be
    if t.is_float:
        return _whole(p, whole_floats(k)[name], probe, before, fills)
    if parts := packed_values(k, p.sym):
        return Content(name, "index", f"{name}_values", most=parts, packed=True)
    if name in row_pointers(k):
        return Content(name, "offsets", f"{name}_last", uneven=bool(part_limits(k)))
    lengths = row_lengths(k)
    for rows in (r for r in lengths.values() if r.starts == name):
        return Content(name, "starts", rows.apart)
    if name in lengths:
        return Content(name, "index", f"{name}_values", within=f"{lengths[name].apart} + 1")
    if (room := row_starts(k).get(name)) is not None:
        return Content(name, "starts", f"{name}_apart", within=room if room in before.sizes else "")
    counted, first = bins(k, p.sym)
    if counted or _room(k, name) is not None:
        return Content(
            name, "index", f"{name}_values", within=f"{counted} - {first}" if first else counted, counted=bool(counted)
        )
    label = label_of(k, p.sym)
    if label in before.sizes:
        return Content(name, "index", f"{name}_values", within=label)
    chooses = values_compared(k, p, {}) is not None and name not in deciding(k)  # what is done, not where
    for kind, most in (("index", PROBED["index"]), ("index", FAR), ("offsets", PROBED["offsets"]))[
        : 1 if chooses else 3
    ]:
        content = Content(name, kind, f"{name}_values" if kind == "index" else f"{name}_last")
        size = min(most * max(parts_of(k, p.sym), default=1), values_of(k, name)) if kind == "index" else most
        after = probe.look(before.sizes, {**fills, name: content.fill(size, before.extent(name))})
        if after is not None and _further(before, after):
            if kind == "index" and not _further(_at(1, name, probe, before, fills), after):
                return replace(content, most=TRUTHS)
            if chooses:
                return None
            if kind == "index" and (count := limited_by(k, p.sym) or counted_extent(k, name, probe)) in before.sizes:
                return replace(content, within=f"{count} + 1")
            if kind == "index" and (extent := indexed_extent(k, name, probe) or chosen_extent(k, name)) in before.sizes:
                return replace(content, within=extent)
            if kind == "index" and (row := row_of(k, p.sym)) in before.sizes:
                return replace(content, within=row)
            if kind == "index" and (ends := compared(k, p.sym) & {*before.sizes}):
                return replace(content, within=_ends(p, ends, probe, before, fills))
            return replace(content, within=_within(p, probe, before, fills)) if most == FAR else content
    return None


def _whole(p: Param, row: tuple[int, int], probe: Prober, before: Seen, fills: Mapping[str, Fill]) -> Content | None:
    """What the floating-point numbers of ``p`` hold, those at one place of each ``row`` being taken as integers."""
    name = p.sym.name
    content = Content(name, "index", f"{name}_values", row=row)
    first = probe.look(before.sizes, {**fills, name: content.fill(1, 0)})
    later = (probe.look(before.sizes, {**fills, name: content.fill(n, 0)}) for n in (PROBED["index"], FAR))
    return content if first is not None and any(_further(first, after) for after in later) else None


def _ends(p: Param, ends: set[str], probe: Prober, before: Seen, fills: Mapping[str, Fill]) -> str:
    """The one of ``ends``, sizes that elements of ``p`` are compared with, from which on they reach nothing, or the
    kernel stops itself: ``if (id >= words) __trap();``."""

    def reaches(value: int) -> bool:
        after = _at(value, p.sym.name, probe, before, fills)
        return _further(before, after) and not any(f.kind in STOPS for f in after.run.findings)

    return next((n for n in sorted(ends) if reaches(before.sizes[n] - 1) and not reaches(before.sizes[n])), "")


def _at(value: int, name: str, probe: Prober, before: Seen, fills: Mapping[str, Fill]) -> Seen:
    """What is reached where all elements of ``name`` are ``value``; ``before`` where that cannot be seen."""
    return probe.look(before.sizes, {**fills, name: constant(value)}) or before


def _within(p: Param, probe: Prober, before: Seen, fills: Mapping[str, Fill]) -> str:
    """The size that elements of ``p`` stay below where they reach no further than ``before``; '' if it is none."""

    def fits(size: int) -> bool:
        return not _further(before, probe.look(before.sizes, {**fills, p.sym.name: constant(size - 1)}))

    return next((n for n, v in before.sizes.items() if v > 1 and fits(v) and not fits(v + 1)), "")


def values_of(k: Kernel, buffer: str) -> int:
    """How many values from 0 on the elements of an index buffer can have: what its type holds, and what arrays of a
    fixed size hold that are indexed with them."""
    t = scalar_of(k.param(buffer).sym.type)
    most = 1 << (DIGITS.get(t.name, 24) if t.is_float else t.bits - (1 if t.is_signed else 0))
    return min(most, _room(k, buffer) or most)


def _room(k: Kernel, buffer: str) -> int | None:
    """The least array of a fixed size that elements of ``buffer`` index; None if there is none."""
    sym, sources = k.param(buffer).sym, definitions(k)
    rooms = []
    indexed = [x for s in walk(k.body) for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Load)]
    for x in (*indexed, *(s for s in walk(k.body) if isinstance(s, Store | Atomic))):
        if isinstance(x.buffer.type, Array):
            found = [evaluate(n, {}) for e, n in zip(x.index, x.buffer.type.shape) if loaded(e, sources, sym)]
            rooms += [int(n) for n in found if n]
    return min(rooms, default=None)


def scattering(k: Kernel) -> set[str]:
    """The buffers whose elements say where a plain store goes; that they end a loop says nothing."""
    ends = {e for s in walk(k.body) if isinstance(s, For) for e in (s.cond,)}
    sources = staged(k) | {v: [e for e in found if e not in ends] for v, found in definitions(k).items()}
    return _behind((e for s in walk(k.body) if isinstance(s, Store) for e in s.index), sources)


def deciding(k: Kernel) -> set[str]:
    """The buffers whose elements say where something is, or how long a loop goes on."""
    wanted = [i for e in all_exprs(k.body) if isinstance(e, Load) for i in e.index]
    for s in walk(k.body):
        wanted += s.index if isinstance(s, Store | Atomic) else ()
        wanted += [s.init, s.cond, s.step] if isinstance(s, For) else [s.cond] if isinstance(s, While) else []
    return _behind(wanted, definitions(k))


def _behind(exprs: Iterable[Expr], sources: Mapping[Sym, list[Expr]]) -> set[str]:
    """The buffers that the expressions depend on, through variables."""
    return {x.buffer.name for x in made_of(exprs, sources) if isinstance(x, Load)}


def _from_one(c: Content, probe: Prober, before: Seen, fills: Mapping[str, Fill]) -> bool:
    """Whether indices or offsets are counted from 1: with 0 there is read before the first element of something, with 1
    not as far before it, which leaves other indices to be looked at."""
    if c.kind == "starts" or c.most == TRUTHS or all(low >= 0 for low, _ in before.reach.values()):
        return False
    zero, one = (_at(n, c.buffer, probe, before, fills) for n in (0, 1))
    return any(low < 0 and one.reach[b][0] > low for b, (low, _) in zero.reach.items() if b in one.reach)


def _further(before: Seen, after: Seen | None) -> bool:
    return after is not None and any(after.extent(b) > before.extent(b) for b in after.reach)
