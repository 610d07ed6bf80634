"""Strides: integers that only say how far apart things lie, and what lies there.

``query[token * query_stride + head * head_stride + i]`` bounds nothing by its strides. One that is shorter than what
lies in between lets heads and tokens overlap: their blocks then write the same elements. What lies in between is what
is reached when the stride is 0, so a draft makes each stride as long as that, the inner ones first. Which row an
element of another buffer says is no matter then.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call, Const, Expr, For, HwIndex, Load, Sym, Var
from ktc.ir.support.memo import by_identity
from ktc.ir.walk import used, walk

from .bounding import bounding, places, values
from .extents.aligned_rows import aligned_pitch
from .given_values import definitions, made_of, spelled_out
from .inner_strides import accesses, addends, counted_in
from .probe import Prober, Seen
from .roles import Roles, buffers_of
from .shapes import fit
from .windows import names_in, spelled

MOST_HEADER = 64
"""Elements before those of a block."""


def stride_ties(k: Kernel, roles: Roles) -> dict[str, str]:
    """The strides among ``roles.sizes`` with what they have to be at least, in the other sizes; inner strides first.
    Where all of it begins in its buffer is no matter.

    Those whose footprint follows no product of sizes are left out, and so are other strides of their buffers.
    """
    offsets = dict.fromkeys(offsets_of(k) & {*roles.sizes}, 0)
    order = _inner_first(k, [n for n in _strides(k, roles) if n not in offsets])
    computed = computed_strides(k, roles)
    sizes = [n for n in roles.sizes if n not in {*offsets, *order, *(computed.get(n) for n in order)}]
    ties: dict[str, str] = {}
    unknown: set[str] = set()
    for i, name in enumerate(order):
        buffers = _indexed_by(k, name)
        if unknown & {*buffers}:
            unknown |= {*buffers}
            continue
        probe = Prober(k, roles, {**ties, **offsets, **dict.fromkeys(order[i:], 0)})
        seen = [s for at in probe.sizes() if (s := probe.look(at)) is not None]
        found = {_length(k, name, b, seen, sizes, roles) for b in buffers}
        found = {n for n in found if n is not None and n.isdigit()} or found  # others may have rows of no product
        length = found.pop() if len(found) == 1 and len(seen) > 2 else None
        within = any({*_indexed_by(k, n)} & {*buffers} for n in order[i + 1 :])
        if length is None or (length == "1" and not within):  # nothing is learnt of single elements
            unknown |= {*buffers}
        else:
            ties[name] = aligned_pitch(k, str(length), buffers)
    return ties


@by_identity(8)
def offsets_of(k: Kernel) -> frozenset[str]:
    """The parameters that indices only have added to them: where something begins, which no size says anything of."""
    given, params = definitions(k), {p.sym for p in k.params}
    sources = {s: found[0] for s, found in given.items() if len(found) == 1}
    added, others = set[Sym](), set[Sym]()
    for _, index in accesses(k):
        for term in addends(index, sources):
            if isinstance(term, Var) and term.sym in params:
                added.add(term.sym)
            else:
                others |= values(term, given)
    return frozenset(s.name for s in added - others - bounding(k))


def _length(k: Kernel, name: str, buffer: str, seen: list[Seen], sizes: list[str], roles: Roles) -> str | None:
    """What ``buffer``'s stride ``name`` has to be, as a product of sizes, where ``seen`` are probes with it at 0; None
    if that is none."""
    looks = [(s.sizes, s.extent(buffer)) for s in seen]
    extent = fit(looks, sizes, roles.quotients, _sums(k, sizes))
    unit = counted_in(k, buffer, name)
    if (extent is None or not extent.exact) and not unit and (block := _behind_a_header(looks, sizes)):
        return block
    if extent is None or not extent.exact or unit is None or not unit <= {*extent.factors}:
        return None
    factors = list(extent.factors)
    for n in unit:
        factors.remove(n)
    shape = replace(extent, factors=tuple(factors)).shape
    return (
        shape[0] if len(shape) == 1 else " * ".join(x if x.isalnum() or x.isidentifier() else f"({x})" for x in shape)
    )


def _behind_a_header(looks: Sequence[tuple[Mapping[str, int], int]], sizes: Sequence[str]) -> str:
    """The length of what has as many elements as one of ``sizes``, or half as many, behind a few more: a scale of two
    bytes before the numbers of a block, ``count + 2``. '' if that is not what ``looks`` show."""
    for n in sizes:
        for text, by in ((n, 1), (f"cdiv({n}, 2)", 2)):
            before = {reached - -(-at[n] // by) for at, reached in looks}
            if len(before) == 1 and 0 < (header := before.pop()) <= MOST_HEADER and len({at[n] for at, _ in looks}) > 1:
                return f"({text} + {header})"
    return ""


def _sums(k: Kernel, sizes: Collection[str]) -> list[str]:
    """The sums of ``sizes`` that loops end at, ``(left + right + 1)`` of a window around a frame."""
    params, sources = {p.sym for p in k.params}, definitions(k)
    ends = (s.cond.b for s in walk(k.body) if isinstance(s, For) and isinstance(s.cond, Binary) and s.cond.op == "<")
    texts = (spelled(e, params, sources) or "" for e in ends)
    sums = (f"({re.sub('[()]', '', t)})" for t in texts if re.fullmatch(r"[\w() +]*\+[\w() +]*", t))
    return [t for t in dict.fromkeys(sums) if {*names_in(t)} <= {*sizes}]


def computed_strides(k: Kernel, roles: Roles) -> dict[str, str]:
    """Strides that the host computes from a number of its own, ``x.stride(0) * sizeof(T) / 16``, with that number: it
    is whatever the stride asks for."""
    told = {n: {*names_in(text)} for n, text in roles.tied.items()}
    extents = () if k.launch is None else (*k.launch.grid, *k.launch.block, k.launch.dynamic_shared)
    launched = {s.name for e in extents if e is not None for s in used(e)}
    uses = Counter(n for names in told.values() for n in names)
    own = {n: (*names,) for n, names in told.items() if len(names) == 1}
    params = {p.sym.name for p in k.params}
    return {n: by for n, (by,) in own.items() if uses[by] == 1 and by in roles.sizes and by not in params | launched}


def _strides(k: Kernel, roles: Roles) -> list[str]:
    """Sizes that indices are made of and nothing else: no guard, no loop, no launch; but those beside what is loaded:
    what they reach is not known yet."""
    known = {*roles.sizes, *computed_strides(k, roles)}
    within = places(k)
    params = {p.sym for p in k.params if p.sym.name in known and p.sym.name not in within and not p.host} - bounding(k)
    sources = definitions(k)
    plain = set[Sym]()
    for _, e in accesses(k):
        chosen, rest = _chosen_by_data(e, params, sources)
        if not rest:
            plain |= values(e, sources) - (chosen if len(chosen) > 1 else set())
    return [p.sym.name for p in k.params if p.sym in params & plain - _scaling(k, sources)]


def _scaling(k: Kernel, sources: Mapping[Sym, list[Expr]]) -> set[Sym]:
    """What says which place is read, not how far apart places are: the ends that places are kept between, as in
    ``min(x + 1, width - 1)``, and what they are scaled by, as in ``x * width / out_width``."""
    found = set[Sym]()
    for x in (x for _, e in accesses(k) for x in made_of([e], sources, places=False)):
        if isinstance(x, Call) and x.fn in ("min", "max"):
            found |= {s for a in x.args for s in values(a, sources)}
        elif isinstance(x, Binary) and x.op in ("/", "%") and used(x.b):
            found |= values(x.a, sources)
    return found


def _chosen_by_data(e: Expr, strides: set[Sym], sources: Mapping[Sym, list[Expr]]) -> tuple[set[Sym], bool]:
    """Those of ``strides`` that something loaded says how many times a place is away, and whether it depends on what
    is loaded in any other way. Which row that is, is no matter to how long it is; where two say so, one does to the
    other."""
    e = without_casts(e)
    if isinstance(e, Binary) and e.op in ("+", "-"):
        (a, rest_a), (b, rest_b) = (_chosen_by_data(x, strides, sources) for x in (e.a, e.b))
        return a | b, rest_a or rest_b
    if isinstance(e, Var) and len(sources.get(e.sym, ())) == 1:
        return _chosen_by_data(sources[e.sym][0], strides, {v: x for v, x in sources.items() if v != e.sym})
    loads = any(isinstance(x, Load) for x in made_of([e], sources, places=False))
    if loads and isinstance(e, Binary) and e.op == "*":
        by = {x.sym for x in (spelled_out(y, sources) for y in (e.a, e.b)) if isinstance(x, Var)} & strides
        return by, not by
    return set(), loads


def _inner_first(k: Kernel, names: list[str]) -> list[str]:
    """``names``, those that blocks are apart by last, before them those that quotients are multiplied by, and before
    all others those that remainders are: ``i / n * outer + i % n * inner``."""
    sources = definitions(k)
    ranks: dict[str, int] = {}
    for _, e in accesses(k):
        for n, rank in _ranked(e, sources):
            ranks[n] = max(rank, ranks.get(n, rank))
    return sorted(names, key=lambda n: ranks.get(n, 0))


def _ranked(e: Expr, sources: Mapping[Sym, list[Expr]]) -> Iterator[tuple[str, int]]:
    """Parameters that something is multiplied by in ``e``, with how far out a stride between such things is."""
    for x in made_of([e], sources):
        if isinstance(x, Binary) and x.op == "*":
            for a, b in ((x.a, x.b), (x.b, x.a)):
                rank = _rank(a, sources)
                yield from ((s.name, rank) for s in values(b, sources))


def _rank(e: Expr, sources: Mapping[Sym, list[Expr]]) -> int:
    """How far out what lies ``e`` strides away is: what blocks or data choose 2, quotients 1, remainders -1, all else
    0."""
    e = spelled_out(e, sources)
    if isinstance(e, Binary) and e.op == "*" and isinstance(without_casts(e.b), Const):
        e = spelled_out(e.a, sources)  # of rows that are worked on several at a time
    if isinstance(e, Binary) and e.op in ("/", "%"):
        return 1 if e.op == "/" else -1
    parts = [x for x in made_of([e], sources, places=False) if isinstance(x, Load | HwIndex)]
    chosen = any(isinstance(x, Load) or x.level == "block" for x in parts)
    return 2 if chosen and not any(isinstance(x, HwIndex) and x.level == "thread" for x in parts) else 0


def _indexed_by(k: Kernel, name: str) -> list[str]:
    """Buffers that ``name`` is a stride of."""
    sources = definitions(k)
    found = {b for b, e in accesses(k) if any(s.name == name for s in values(e, sources))}
    return [p.sym.name for p in buffers_of(k) if p.sym.name in found]
