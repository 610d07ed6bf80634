"""Raising in general: candidates from the most understood to the least, for the exact check to choose from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ktc.ir.arith import Interval
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Assume, Kernel, Launch
from ktc.ir.nodes import Alloc, Body, Cast, Decl, Expr, HwIndex, Sym, Var, fresh
from ktc.ir.storage import is_shared
from ktc.ir.types import I32, Array, Scalar
from ktc.ir.walk import assigned, substitute, used, walk, without
from ktc.passes.raising.check.host_sized_launches import usual_size
from ktc.passes.raising.check.invented_arguments import invented_sizes
from ktc.passes.raising.lanes.lane_accumulators import with_summed_lanes
from ktc.passes.raising.lanes.rolled_copies import rolled_copies
from ktc.passes.raising.lanes.vector_sums import sums_of_parts
from ktc.passes.raising.lanes.whole_places import at_whole_places
from ktc.passes.raising.normalise.block_shapes import shapes
from ktc.passes.raising.normalise.idle_threads import without_idle
from ktc.passes.raising.normalise.nests import closed_forms, guarded, guards_outward, joined, unswitched
from ktc.passes.raising.normalise.range_digits import resolved
from ktc.passes.raising.normalise.single_rounds import without_single_rounds
from ktc.passes.raising.normalise.straight import counted, straightened
from ktc.passes.raising.normalise.strided_rounds import by_elements
from ktc.passes.raising.normalise.tidy import tidied, without_dead
from ktc.passes.raising.recognise.axis_phases import in_phases, over_axis
from ktc.passes.raising.recognise.coordinates import AXES
from ktc.passes.raising.recognise.exchange import Exchange
from ktc.passes.raising.recognise.grid import block_loops, mixed
from ktc.passes.raising.recognise.guards import sizes_of
from ktc.passes.raising.recognise.phases import opened
from ktc.passes.raising.recognise.statement_kinds import Left, with_hardware
from ktc.passes.raising.recognise.threads import Team, ThreadLoops, thread_sizes
from ktc.passes.raising.staging.destage import destaged
from ktc.passes.raising.staging.equal_ways import without_equal_ways
from ktc.passes.raising.staging.plain_sums import plain_sums
from ktc.passes.raising.staging.registers import recomputed, unrolled
from ktc.passes.raising.staging.rotated_planes import filled_planes
from ktc.passes.raising.staging.row_ends import with_row_ends

from .raise_report import Region, left_as_threads


@dataclass(frozen=True)
class Guess:
    """A parallel form, what is said of its parts, and the domains in which equality with the source can be expected.

    ``online``: sums below maxima were joined, which NaN may come of. ``reordered``: floats are summed in another order.
    ``facts``: what it assumes of sizes. ``aligned``: buffers that the source moves in wide words, and how many bytes
    these are. ``flat``: parameters that are pointers to vectors, and the pointers to their elements in their place.
    """

    body: Body
    regions: tuple[Region, ...]
    domains: tuple[str, ...] = ("int", "field")
    online: bool = False
    reordered: bool = False
    facts: tuple[Assume, ...] = ()
    aligned: tuple[tuple[Sym, int], ...] = ()
    flat: tuple[tuple[Sym, Sym], ...] = ()


def guesses(kernel: Kernel, body: Body, launch: Launch) -> Iterator[Guess]:
    """Parallel forms of a prepared body, those with the fewest parts left as threads first.

    Raises:
        Left: when none can be made.
    """
    body, names = thread_names(closed_forms(counted(body)))
    numbers = _numbers(kernel)
    sized = kernel.launch is not None and all(evaluate(n, {}) is not None for n in kernel.launch.block)
    by_threads: list[Guess] = []
    in_turn: list[Guess] = []
    left, found = None, False
    for variant in _variants(kernel, body, launch):
        for team in _teams(thread_sizes(variant.launch)):
            for exchanging in (True, False):
                try:
                    for guess, phased in _guess(variant, team, names, numbers, exchanging, sized):
                        found = True
                        if phased:
                            in_turn.append(guess)
                        elif any(r.is_by_threads for r in guess.regions):
                            by_threads.append(guess)
                        else:
                            yield guess  # before the next ones are made: it is most often the last one asked for
                except Left as why:
                    left = left or why
    yield from sorted((*in_turn, *by_threads), key=lambda g: sum(r.is_by_threads for r in g.regions))
    if left is not None and not found:
        raise left


@dataclass(frozen=True)
class Variant:
    """One reading of the thread program: its body and block shape, the staging that was ``found`` in it, and what
    threads ``kept`` in registers by hand."""

    body: Body
    launch: Launch
    found: tuple[Region, ...] = ()
    kept: tuple[Region, ...] = ()


def _variants(kernel: Kernel, body: Body, launch: Launch) -> Iterator[Variant]:
    """The body with and without its staging, in its own block shape and in those that its index arithmetic suggests."""
    again, kept = recomputed(body)
    body = without_single_rounds(body)
    block = [evaluate(n, {}) for n in launch.block]  # ranges hold for every launch, not for an invented one
    if None not in block:
        sizes = (int(block[0] or 1), int(block[1] or 1), int(block[2] or 1))
        ranges: dict[Expr, Interval] = {HwIndex("thread", a): Interval(0, n - 1) for a, n in zip(AXES, sizes)}
        own = closed_forms(straightened(body))
        filled = filled_planes(kernel, own)
        for rims in (False, True):
            plain, staged = destaged(filled, sizes, rims=rims)
            if staged:
                plain = at_whole_places(without_equal_ways(resolved(without_dead(plain), ranges)), kernel)
                plain = guarded(unswitched(joined(unswitched(plain), ranges)))
                yield from (Variant(b, at, staged) for b, at in shapes(plain, launch))
            if not any(s.untested for s in staged):
                break
    if kept:
        again = sums_of_parts(with_summed_lanes(without_single_rounds(by_elements(again, launch)[0])))
        yield from (Variant(b, at, kept=kept) for b, at in shapes(again, launch))
    yield from (Variant(b, at) for b, at in shapes(body, launch))


def _teams(sizes: dict[str, Expr]) -> Iterator[tuple[str, ...]]:
    yield tuple(sizes)
    if len(sizes) > 1 and "x" in sizes:
        yield ("x",)
        yield from ((a,) for a in sizes if a != "x")  # columns: what lies beside each other stays apart


def _numbers(kernel: Kernel) -> dict[str, int]:
    """A number for every scalar; that of a block's size is one that trees and warps are written for, and of those that
    shared arrays are as long as there are enough for all threads."""
    first = next(invented_sizes(kernel, 1, 7), None)
    numbers = {k: v for k, v in first.scalars.items() if isinstance(v, int)} if first is not None else {}
    block = kernel.launch.block if kernel.launch is not None else ()
    sizes = map(without_index_casts, block)
    names = [e.sym.name for e in sizes if isinstance(e, Var) and e.sym.name in numbers]
    numbers |= dict.fromkeys(names, 1)
    numbers |= {n: usual_size(block, n, numbers) for n in names[:1]}  # a block has 1024 threads at most
    threads = prod(int(evaluate(e, numbers) or 1) for e in block)
    return numbers | {n: max(numbers[n], threads) for n in _lengths(kernel.body) & numbers.keys() - set(names)}


def _lengths(body: Body) -> set[str]:
    """The variables that lengths of shared arrays are made of."""
    arrays = (s.sym.type for s in walk(body) if isinstance(s, Alloc) and is_shared(s.sym))
    return {v.name for t in arrays if isinstance(t, Array) for n in t.shape for v in used(n)}


def _guess(
    variant: Variant,
    team: tuple[str, ...],
    names: dict[str, str],
    numbers: dict[str, int],
    exchanging: bool,
    sized: bool,
) -> Iterator[tuple[Guess, bool]]:
    """Forms of ``variant`` for one team, and whether each has loops of an axis in phases. ``sized``: whether all
    launches have blocks of this size."""
    launch = variant.launch
    sizes = thread_sizes(launch)
    outer = [a for a in sizes if a not in team]
    domains: tuple[str, ...] = ("int", "field")
    shaped, names = thread_names(variant.body, names)
    loop_vars = {a: fresh(names[a], I32) for a in outer}
    body = with_hardware(shaped, {HwIndex("thread", a): Var(v) for a, v in loop_vars.items()})
    regions = variant.found + variant.kept
    online = False
    if exchanging:
        exchange = Exchange(launch, {a: sizes[a] for a in team}, numbers, frozenset(loop_vars.values()), sized=sized)
        body = exchange.replaced(body)
        if not exchange.regions:
            return
        regions += tuple(exchange.regions)
        domains = ("field",) if exchange.algebraic else domains
        online = exchange.online
    out = ThreadLoops(Team(tuple((a, names[a], sizes[a]) for a in team)), launch).raised(body)
    for form, phased in _around(out, [(loop_vars[a], sizes[a], a) for a in outer], launch, team):
        body = tidied(block_loops(form, launch), sizes_of(launch))
        if variant.found and (busy := without_idle(guards_outward(body))) != body:
            body = tidied(busy, sizes_of(launch))
        if outer and exchanging:
            body = tidied(guards_outward(body), sizes_of(launch))  # a column beyond the last has nothing to add up
        if variant.kept:
            body = unrolled(body)
        if variant.found:
            body = plain_sums(body)
        again, kept = recomputed(body)
        forms = [(again, kept)] if kept else []
        if (single := rolled_copies(body)) != body:
            forms.append((single, ()))
        forms = [(tidied(form, sizes_of(launch)), more) for form, more in forms]
        for form, more in (*forms, (body, ())):
            if (ended := with_row_ends(form)) != form:
                ended = tidied(ended, sizes_of(launch))
                yield Guess(ended, regions + more + left_as_threads(ended), domains, online), phased
            yield Guess(form, regions + more + left_as_threads(form), domains, online), phased


def _around(
    body: Body, outer: list[tuple[Sym, Expr, str]], launch: Launch, team: tuple[str, ...]
) -> Iterator[tuple[Body, bool]]:
    """``body``, which is that of a team, for each thread of the axes beside it; and, of one such axis, in phases, which
    is said of it."""
    whole = body
    for v, size, axis in outer:
        whole = over_axis(whole, v, size, axis)
    yield from ((form, False) for form in (_opened(whole, launch) if team == ("x",) else (whole,)))
    if len(outer) == 1 and (apart := in_phases(body, *outer[0])) is not None:
        yield apart, True


def _opened(body: Body, launch: Launch) -> Iterator[Body]:
    """``body`` with the loops over threads that are others in part, then with those only that are others as a whole,
    then as it is: without those that put loops over all blocks beside what is one block's."""
    forms = opened(body, launch, parts=True), opened(body, launch, parts=False), body
    apart = [f for k, f in enumerate(forms) if f not in forms[:k] and not mixed(f, launch)]
    yield from apart or [body]


def thread_names(body: Body, names: dict[str, str] | None = None) -> tuple[Body, dict[str, str]]:
    """``int tx = threadIdx.x`` dropped in favour of the index; the names the source uses for each axis."""
    names = dict(names) if names is not None else {a: f"t{a}" for a in AXES}
    changed = assigned(body)
    for s in [s for s in walk(body) if isinstance(s, Decl)]:
        t = s.sym.type
        if s.init is None or s.sym in changed or not (isinstance(t, Scalar) and t.is_int and t.bits >= 32):
            continue
        h = s.init.x if isinstance(s.init, Cast) else s.init
        if isinstance(h, HwIndex) and h.level == "thread":
            names[h.axis] = s.sym.name
            body = substitute(without(body, s), {s.sym: s.init})
    return body, names


__all__ = ["Guess", "guesses", "thread_names"]
