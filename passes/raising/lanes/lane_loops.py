"""Loops over vectors as loops over their elements, a vector's on one thread: what was wide is the level ``vec``.

before                                                  after
    par i in 0..n / 4 @ [thread.x 256, block.x]             par i in 0..n @ [vec 4, thread.x 256, block.x]
      var v: f32x4 = x[i * 4 +: 4]                            y[i] = a * x[i]
      v[0] *= a                                             assume n % 4 == 0
      ...
      y[i * 4 +: 4] = v

Lowered as it is, the kernel does what it did, with the accesses that it had. What an iteration does besides its lanes,
or does with them as a whole, leaves its loop as it was. Nothing is proven here: the forms are guesses for raising to
check. ``assuming``: sizes are multiples of a vector's length, as the accesses of most kernels ask anyway; without, a
guard may stand for a loop over the rest.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ktc.ir.arith.polynomial import Polynomial, polynomial
from ktc.ir.fold import cast, evaluate, i32, is_const
from ktc.ir.kernel import Assume, Kernel, Param
from ktc.ir.nodes import (
    Acc,
    Binary,
    Body,
    Call,
    Const,
    Decl,
    Expr,
    For,
    If,
    Level,
    Load,
    Par,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.support.memo import by_identity
from ktc.ir.text import print_expr
from ktc.ir.types import Ptr, Scalar, scalar_of
from ktc.ir.walk import all_exprs, assigned, map_body, substitute_expr, used, walk, with_bodies
from ktc.passes.core.named_loops import narrowest_element
from ktc.passes.raising.raise_report import Region

from .assumed_sizes import Sizes, sizes_in
from .flat_buffers import flat_buffers, flattened, with_constants
from .joined_tails import joined_tails
from .loop_ends import elements_of, is_part, reaches
from .merged_index import Merged
from .rolled import Rolled
from .scalar_lanes import Conditions, Lanes, NotLanes
from .serial_vectors import as_reductions
from .vector_counters import counting_vectors, one_by_one
from .vector_sums import sums_of_parts
from .wide_accesses import has_wide, lanes_in, lanes_of, wide_in

WORD = 16
"""Bytes of the widest access."""

MOST_LANES = 64
"""Elements of an iteration."""


@dataclass(frozen=True)
class Form:
    """A body whose loops over vectors are loops over elements.

    ``facts``: what it assumes of sizes; ``aligned``: buffers that are moved in words of so many bytes; ``regions``:
    what is said of it; ``flat``: buffers of vectors, and those of elements that are in their place.
    """

    body: Body
    facts: tuple[Assume, ...] = ()
    aligned: tuple[tuple[Sym, int], ...] = ()
    regions: tuple[Region, ...] = ()
    flat: tuple[tuple[Sym, Sym], ...] = ()


def lane_forms(body: Body, params: Sequence[Param], tidied: Callable[[Body], Body]) -> Iterator[Form]:
    """``body`` with loops over vectors as loops over elements, likeliest first; nothing where no loop is over vectors.

    Where the rest of the elements has a loop of its own, beside the vectors' or behind it, it is one loop with theirs,
    of any length. ``tidied`` reads loops over threads as what they stride over.
    """
    if not any(map(has_wide, walk(body))):
        return
    body = with_constants(body)
    flat = flat_buffers(body)
    source = flattened(body, flat) if flat else body
    counted = as_reductions(sums_of_parts(one_by_one(counting_vectors(source))))
    source = tidied(counted) if counted is not source else source
    always, known_multiples = sizes_in(source, params), sizes_in(source, params)
    exact, assuming = _apart(source, False, always), _apart(source, True, known_multiples)
    if not any(map(_has_lanes, walk((*exact, *assuming)))):
        return
    exact, assuming = tidied(exact), tidied(assuming)
    whole = joined_tails(exact)
    beside = any(isinstance(s, If) and s.orelse and any(map(has_wide, walk(s.then))) for s in walk(source))
    known = [(assuming, tuple(known_multiples.facts)), (exact, tuple(always.facts))]
    if whole != exact:
        known.insert(0, (whole, tuple(always.facts)))
    elif beside:
        known.reverse()
    seen: list[Body] = []
    for form, given in known:
        if form in seen or not any(map(_has_lanes, walk(form))) or (flat and any(map(has_wide, walk(form)))):
            continue
        seen.append(form)
        said = (Region("assumed", print_expr(f.expr), "the source moves whole vectors") for f in given)
        yield Form(form, given, tuple(_words(source, form).items()), tuple(said), tuple(flat.items()))


def vectors_kept(kernel: Kernel) -> tuple[Region, ...]:
    """The loops of ``kernel`` that are over vectors, and why they are not over elements."""
    out: list[Region] = []
    body = flattened(with_constants(kernel.body), flat_buffers(kernel.body))
    for s in walk(body):
        if isinstance(s, Par | Reduce) and _is_innermost(s):
            try:
                _over_elements(s, True, sizes_in(body, kernel.params))
                why = "its elements are not what the source computes"
            except NotLanes as e:
                why = str(e)
            out.append(Region("vectors", f"the loop over '{s.var.name}' moves whole ones", why, s.loc))
    return tuple(out)


def _has_lanes(s: Stmt) -> bool:
    return isinstance(s, Par | Reduce) and any(lv.kind == "vec" for lv in s.dist)


def _is_innermost(s: Par | Reduce) -> bool:
    """Whether ``s`` moves vectors, and holds no other loop whose iterations are independent."""
    return any(map(has_wide, walk(s.body))) and not any(isinstance(x, Par | Reduce) for x in walk(s.body))


def _words(source: Body, form: Body) -> dict[Sym, int]:
    """The buffers that ``source`` moves in wide words, and the bytes of those in which ``form`` could."""
    wide = (x for s in walk(source) for x in wide_in(s))
    moved = {x.buffer for x in wide if lanes_of(x) and isinstance(x.buffer.type, Ptr)}
    out: dict[Sym, int] = {}
    for s in walk(form):
        count = evaluate(s.dist[0].n, {}) if isinstance(s, Par | Reduce) and _has_lanes(s) and s.dist[0].n else None
        for x in _accesses(s.body) if isinstance(s, Par | Reduce) and count else ():
            if x.buffer in moved:
                word = min(WORD, int(count or 0) * scalar_of(x.buffer.type).bytes)
                out[x.buffer] = max(out.get(x.buffer, 0), word)
    return out


def _accesses(body: Body) -> Iterator[Load | Store]:
    yield from (x for s in walk(body) for x in (s, *all_exprs((s,))) if isinstance(x, Load | Store))


def _apart(body: Body, assuming: bool, sizes: Sizes) -> Body:
    def on(s: Stmt) -> Stmt:
        if isinstance(s, Par) and any(map(has_wide, walk(s.body))):
            band = band_of(s)
            for k in range(len(band) - 1, -1, -1):
                with suppress(NotLanes):
                    return _in_band(band, k, assuming, sizes)
        elif isinstance(s, Reduce) and _is_innermost(s):
            with suppress(NotLanes):
                return _over_elements(s, assuming, sizes)
        return with_bodies(s, lambda b: tuple(map(on, b)))

    return tuple(map(on, body))


def band_of(s: Par) -> list[Par]:
    """``s`` and the loops right inside each other in it, with nothing beside them."""
    band = [s]
    while len(band[-1].body) == 1 and isinstance(inner := band[-1].body[0], Par):
        band.append(inner)
    return band


def bounds_inside(band: Sequence[Par], k: int) -> bool:
    """Whether the ends of loops inside depend on the ``k``-th of ``band``."""
    return any(band[k].var in used(e) for p in band[k + 1 :] for e in (p.lo, p.hi))


def _in_band(band: Sequence[Par], k: int, assuming: bool, sizes: Sizes) -> Par:
    """The loops of ``band``, the ``k``-th of which is over vectors, with that over elements.

    Raises:
        NotLanes: it is none, or the ends of loops inside depend on it.
    """
    if not _is_innermost(band[-1]) or bounds_inside(band, k):
        raise NotLanes("another loop is over vectors")
    nest = _over_elements(dataclasses.replace(band[k], body=band[-1].body), assuming, sizes)
    assert isinstance(nest, Par)
    inner: Body = nest.body
    for p in reversed(band[k + 1 :]):
        inner = (dataclasses.replace(p, body=inner),)
    nest = dataclasses.replace(nest, body=inner)
    for p in reversed(band[:k]):
        nest = dataclasses.replace(p, body=(nest,))
    return nest


def _over_elements(loop: Par | Reduce, assuming: bool, sizes: Sizes) -> Par | Reduce:
    """``loop`` over elements.

    Raises:
        NotLanes: its iterations are no vectors of lanes that are alike.
    """
    if not lanes_in(loop.body) or not is_const(loop.lo, 0):
        raise NotLanes("a loop over vectors that does not begin with the first")
    why: NotLanes | None = None
    for count in _counts(loop):
        here = sizes.anew()
        try:
            done = _by(loop, count, assuming, here)
        except NotLanes as e:
            why = why or e
            continue
        sizes.facts.update(here.facts)
        return done
    raise why or NotLanes("an access of open width")


def _counts(loop: Par | Reduce) -> list[int]:
    """How many elements an iteration may be of: those from one's to the next one's, those of the widest access."""
    widest = lanes_in(loop.body)
    steps = [p.get((Var(loop.var),), 0) for p in _wide_places(loop.body)]
    wide = [n for n in steps if n > widest and n % widest == 0 and n <= MOST_LANES]
    return [*sorted(set(wide), reverse=True), widest]


@by_identity(8)
def _wide_places(body: Body) -> list[Polynomial]:
    """Where the wide accesses of ``body`` are in rows of their buffers."""
    named = _integers(body)
    places = dict.fromkeys(x.index[-1] for s in walk(body) for x in wide_in(s) if lanes_of(x))
    return [polynomial(_expanded(place, named)) for place in places]


def _integers(body: Body) -> dict[Sym, Expr]:
    """What the integers of ``body`` that do not change are."""
    changed = assigned(body)
    known = {s.sym: s.init for s in walk(body) if isinstance(s, Decl) and s.init is not None}
    return {v: e for v, e in known.items() if v not in changed and isinstance(v.type, Scalar) and v.type.is_int}


def _by(loop: Par | Reduce, count: int, assuming: bool, sizes: Sizes) -> Par | Reduce:
    """``loop`` over elements, of which an iteration is ``count``."""
    one = _one_lane(loop.body, loop.accs if isinstance(loop, Reduce) else (), count, loop.var)
    if isinstance(one, NotLanes):
        raise NotLanes(*one.args)
    rolled, accs, given, body = one
    if rolled.is_loose and not assuming:
        raise NotLanes("lanes are guarded one by one")
    assert isinstance(loop.var.type, Scalar)
    j = fresh(loop.var.name, loop.var.type)
    merged = Merged(loop.var, rolled.lane, count, j, assuming)
    named = {s.sym: s.init for s in body if isinstance(s, Decl) and s.init is not None and s.const}
    guards = [merged.guard(_expanded(c, named)) for c in given]
    end, of = elements_of(loop.hi, count, assuming)
    if of is None and not guards and not isinstance(end, Const) and loop.var.type.bits <= 32 and not is_part(loop.hi):
        sizes.most(loop.hi, ((1 << 31) - 1) // count)  # elements are counted in 32 bits, as the vectors were
    multiples = [*(m for _, m in guards), of] if assuming else []
    test, multiple = guards[0] if len(guards) == 1 and assuming else (None, None)
    if multiple is not None and isinstance(test, Binary) and test.a == Var(j) and reaches(loop.hi, test.b, count):
        guards, end = [], cast(test.b, loop.var.type)
    body = merged.body(body)
    accs = tuple(dataclasses.replace(a, value=merged.of_names(a.value)) for a in accs)
    for m in (*multiples, *merged.multiples):
        if m is not None:
            sizes.multiple(_expanded(m, named), count)
    for m in merged.vectors:
        if not isinstance(m, Const):
            sizes.most(_expanded(m, named), ((1 << 31) - 1) // count)
    own = _integers(loop.body)
    whole = [x for s in walk(loop.body) for x in wide_in(s) if lanes_of(x)]
    for x in whole:
        sizes.aligned(_expanded(x.index[-1], own), lanes_of(x))
    wide = {x.buffer for x in whole}
    for x in _accesses(body):
        if x.buffer in wide and not all(map(merged.is_whole, x.index)):
            raise NotLanes(f"the elements of '{x.buffer.name}' are not taken in order")
    for test, _ in reversed(guards):
        if isinstance(loop, Par):
            body = (If(test, body),)
        elif isinstance(test, Binary) and test.op == "<" and test.a == Var(j) and end.type == test.b.type:
            end = Call("min", (end, test.b), loop.var.type)
        else:
            raise NotLanes("what is accumulated stands under a condition")
    more = {"accs": accs} if isinstance(loop, Reduce) else {}
    by_elements = dataclasses.replace(loop, var=j, hi=end, body=body, **more)  # type: ignore[arg-type]
    return dataclasses.replace(by_elements, dist=(*_levels_of(by_elements, count), *loop.dist))


@by_identity(16, subjects=2)
def _one_lane(
    body: Body, accs: tuple[Acc, ...], count: int, over: Sym
) -> tuple[Rolled, tuple[Acc, ...], Conditions, Body] | NotLanes:
    """The one lane that ``count`` lanes of the iteration ``body`` of a loop ``over`` vectors are, what it accumulates,
    the conditions of its effects, and its statements, whatever is assumed of sizes; or why there is none."""
    lanes = _lanes(body, over)
    if isinstance(lanes, NotLanes):
        return lanes
    rolled = Rolled(lanes, count)
    try:
        rolled.effects()
        one = tuple(rolled.accumulated(a, lanes) for a in accs)
        return rolled, one, rolled.conditions(one), rolled.body()
    except NotLanes as e:
        return NotLanes(*e.args)


@by_identity(8)
def _lanes(body: Body, over: Sym) -> Lanes | NotLanes:
    """The iteration ``body`` as scalars, for each number of lanes that it may be of; or why it is none."""
    try:
        return Lanes(over=over).run(_beside_tail(body))
    except NotLanes as e:
        return NotLanes(*e.args)


def _levels_of(loop: Par | Reduce, count: int) -> tuple[Level, ...]:
    """``count`` elements of an iteration: as many at once as the widest access moves, or a part of them."""
    at_once = math.gcd(count, WORD // narrowest_element(loop))
    rest = count // at_once
    return (Level("vec", i32(at_once)), *((Level("unroll", i32(rest)),) if rest > 1 else ()))


def _beside_tail(body: Body) -> Body:
    """``body`` without the loop over the rest of the elements, where there is no whole vector: the check says whether
    that does what the lanes do."""

    def on(s: Stmt) -> Stmt:
        tail = isinstance(s, If) and s.orelse and all(isinstance(x, For | Decl) for x in s.orelse)
        return dataclasses.replace(s, orelse=()) if tail and any(map(has_wide, walk(s.then))) else s  # type: ignore[attr-defined, arg-type, type-var, call-arg]

    return map_body(body, on)


def _expanded(e: Expr, named: dict[Sym, Expr]) -> Expr:
    while used(e) & named.keys():
        e = substitute_expr(e, named)
    return e


__all__ = ["band_of", "bounds_inside", "lane_forms"]
