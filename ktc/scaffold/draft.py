"""What a kernel is called with: sizes, launch, shapes and contents of its buffers, scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ktc.ir.kernel import Kernel
from ktc.ir.support.time_limits import unless_late
from ktc.ir.text import print_expr
from ktc.passes.raising.recognise.magic_quotients import with_quotients
from ktc.passes.raising.recognise.vector_components import as_components

from .any_sizes import with_any_sizes
from .as_seen.byte_strides import with_strides_in_elements
from .as_seen.whole_loops import with_whole_loops
from .bit_indices import read_from_bits
from .bounding import of_arrays, of_one_block
from .checking.allocations import check_allocations
from .checking.coarser_sizes import coarser
from .checking.confirming import confirm_in_time, large_enough, needs_positive, with_windows
from .checking.modes import modes
from .checking.smaller_buffers import with_room_in_memory
from .checking.stopped_sizes import without_stops
from .contents import FEW, Content, contents_of, deciding, values_of
from .drafted_launches import counted, guessed, needs_launch, of_the_block, smaller
from .extents.accessors import with_contiguous, with_equal_extents
from .extents.allocated_extents import allocated_extents
from .extents.anywhere_rows import row_doubts, row_lengths, row_shapes, with_loaded_lengths
from .extents.constant_extents import constant_extents
from .extents.fixed_arrays import used_parts
from .extents.flat_indices import with_whole_rows
from .extents.host_lengths import lengthened
from .extents.kept_indices import with_room
from .extents.level_tables import with_levels
from .extents.padded_windows import window_counts
from .extents.ranked_tensors import in_one_dimension, with_one_dimension
from .extents.row_pitches import longest_rows
from .extents.told_extents import told_extents
from .extents.tying import tying
from .extents.walked_tensors import with_dimensions, with_orders
from .fitting import apart, by_strides, tied
from .footprints import stride_ties
from .given_values import without_copies
from .guarded_launches import guarded, most_apart, unfollowed
from .host_steps import in_rounds, middles
from .integers.chosen_parts import with_parts
from .integers.element_marks import with_marks
from .integers.paged_tables import pages_of_a_row, with_pages, with_pages_apart
from .integers.tensor_lists import most_tensors, with_list_ties, with_tensor_lists
from .joint_indices import below_all, with_places_of_others
from .model import Draft
from .observed_roles import observed_roles
from .probe import Prober, Seen
from .probing.probe_sizes import THREADS
from .quotients.exact_quotients import with_whole_parts
from .roles import roles_of
from .scenarios import as_launched, scenarios
from .source_sizes import closed, opened

COARSEST = (16, 8, 4, 2, 1)
"""What sizes are multiples of at most, in the probes of kernels whose loops are long."""

LOOKING = ENLARGING = 0.4
"""The share of the time that is left in which runs may show what buffers are for, and at which sizes all of a kernel is
seen, where somebody waits."""

USUAL, ENOUGH = 1_500, 10_000
"""Statements of a probe that are enough, wherever smaller sizes make it as short: there are some twenty of them; that
are few enough if at smaller sizes there is one block."""


def draft(k: Kernel) -> Draft:
    """Everything that a workload says about ``k``, guessed and, where that is possible, confirmed by running it."""
    k = with_whole_loops(with_whole_parts(in_one_dimension(with_any_sizes(without_copies(k)))))
    k = k.with_(body=as_components(k.body, in_memory=False)[0])  # sizes are found in variables, not in vectors of them
    spec, why = None, needs_launch(k)
    blocks: dict[str, int] = {}
    if why:
        k, spec = guessed(k)
    elif (by_count := counted(k)) is not None:
        k, spec, blocks = by_count
    whole = k = with_strides_in_elements(_with_quotients(k))
    k, given = opened(_tried(k))
    d = Draft(k, roles_of(k), spec, doubts=[f"the launch: {why}"] if why else [], given=given)
    d.doubts += [f"{n}: taken for the number of threads of a block" for n in (of_the_block(k) if spec else ())]
    starts = k.launch.first if k.launch is not None else ()
    d.doubts += [f"the launch: it is that of a loop's first round, where {n} is {print_expr(e)}" for n, e in starts]
    d.roles = with_whole_rows(k, with_contiguous(k, with_equal_extents(k, with_one_dimension(k, d.roles))))
    d.roles = with_levels(k, with_dimensions(k, d.roles))
    before, d.roles = d.roles, guarded(k, d.roles, given)
    told = ((n, f"the launch: {n} follows the guards, {t}") for n, t in d.roles.tied.items() if n not in before.tied)
    d.doubts += [f"{what}: how the host computes {n} is not known" for n, what in told]
    free = unfollowed(k, d.roles)
    d.doubts += [f"the launch: how the host computes {n} is not known; it is a size of its own" for n in free]
    places = {**middles(k, d.roles), **in_rounds(k, d.roles)}
    d.roles = replace(tying(k, d.roles, places), places=frozenset(places))
    d.roles = tying(k, d.roles, row_lengths(k, d.roles))
    d.roles = tying(k, d.roles, stride_ties(k, d.roles))
    d.roles = tying(k, d.roles, told_extents(k, d.roles))
    d.roles = tying(k, d.roles, window_counts(k, d.roles.sizes))
    said = Prober(k, d.roles)
    meanings = {p.sym.name: said.meaning(p.sym.name) for p in k.params}
    room: dict[str, int] = {}
    rooms = (
        of_one_block(k),
        of_arrays(k),
        longest_rows(k, d.roles.sizes, meanings),
        most_apart(d.roles),
        most_tensors(k),
    )
    for found_room in rooms:
        room |= {n: min(most, room.get(n, most)) for n, most in found_room.items() if n in d.roles.sizes}
    d.roles = replace(d.roles, room=room)
    d.roles = replace(d.roles, numbers={**d.roles.numbers, **modes(k, d.roles)})
    d.roles = replace(d.roles, counts=d.roles.counts | (pages_of_a_row(k) & {*d.roles.sizes}))
    d.roles = with_marks(k, d.roles, frozenset(deciding(k)))
    probe, first = _first_looks(d)
    if not first:
        d.doubts.append(f"shapes and sizes: the kernel could not be run in the interpreter{_why(d, probe)}")
    probe, d.contents = _contents(d, probe, first)
    d.contents = with_tensor_lists(k, with_parts(k, with_pages(k, d.contents)))
    d.contents = with_loaded_lengths(k, d.roles, d.contents)
    d.positive = probe.positive
    d.limits = {c.name: n for c in d.contents if c.kind == "index" and (n := c.most or values_of(k, c.buffer)) <= FEW}
    d.ties, d.shapes, seen = with_places_of_others(d, apart(d, below_all(d, tied(d))))
    d.contents = with_pages_apart(k, d.contents)
    d.ties, d.shapes = with_list_ties(d)
    d.shapes = row_shapes(replace(d, shapes=by_strides(d)), seen)
    d.doubts += row_doubts(d)
    d.parts = used_parts(k, Prober(k, d.roles, d.ties), seen, d.names)
    probe = Prober(k, d.roles, d.ties)
    d.access = probe.access = unless_late(LOOKING, partial(observed_roles, d, probe, seen), dict)
    bits = read_from_bits(k)
    d.doubts += [
        f"{b}: its index is read from the bits of {of}, and what those hold is not known" for b, of in bits.items()
    ]
    for b, span in ((b, s.reach[b]) for s in seen[:1] for b in s.reach):
        if span[0] < 0 and b not in bits:
            d.doubts.append(f"{b}: read before its first element")
    d.shapes = with_room(k, probe, seen, lengthened(d, probe, seen), d.names)
    d.shapes = d.shapes if seen or d.names else constant_extents(k, d.shapes, allocated_extents(probe, d.names))
    seen = with_room_in_memory(d, probe, seen)
    seen = unless_late(ENLARGING, partial(_with_work, d, probe, seen), partial(list, seen))
    confirm_in_time(d, probe, seen)
    d.shapes = {b: e and e.with_quotients(d.multiples) for b, e in d.shapes.items()}
    d.positive = d.positive or needs_positive(d, probe, seen)
    scenarios(d, probe, seen)
    as_launched(d, blocks)
    d.scenarios = with_orders(d.scenarios, d.roles)
    closed(d, whole)
    check_allocations(d, seen)
    return d


def _with_work(d: Draft, probe: Prober, seen: list[Seen]) -> list[Seen]:
    """``seen`` at sizes at which buffers are as long as they are reached, and each thread has something to do."""
    seen = large_enough(d, probe, with_windows(d, probe, seen))
    return coarser(d, probe, without_stops(d, probe, seen))


def _with_quotients(k: Kernel) -> Kernel:
    """``k`` with quotients where it multiplies by what the host has made of a divisor: how large they are is known."""
    divided = with_quotients(k, usual=True)
    return k if divided is None else k.with_(body=divided.read.body)


def _tried(k: Kernel) -> Kernel:
    """``k``, or, where its launch is large at all sizes and its loops go over the whole grid, in a smaller launch: as
    long as buffers are not as large as the grid is. The fewer threads there are, the longer each of them may run."""
    few = smaller(k, THREADS)
    if not few:
        return k
    roles = roles_of(k)
    probes = [Prober(x, roles) for x in few]
    looks = [[s.reach for at in probes[0].sizes() if (s := p.look(at)) is not None] for p in probes]
    return few[1] if looks[0] and looks[0] == looks[1] else k


def _why(d: Draft, probe: Prober) -> str:
    """What stands in the way of a probe, where that is known: '' if it is not."""
    if probe.endless:
        return ": it does not end soon at any size that was tried"
    if d.kernel.launch is not None and not probe.sizes():
        return f": no size that was tried gives a legal launch of at most {probe.most} threads"
    if (e := probe.refused) is not None:
        return f": {f'{e.loc}: ' if e.loc is not None else ''}{e.message}"
    return ""


def _first_looks(d: Draft) -> tuple[Prober, list[Seen]]:
    """What is seen at the usual sizes or, where the kernel does not end soon at one of those, at smaller ones.

    A single look would show extents that grow with nothing. Where nothing is stored, as where a window is larger than
    its tile, smaller sizes are tried as well.
    """
    for coarsest in _units(d):
        probe, first = _looks(d, coarsest)
        if not probe.endless:
            break
    if probe.endless or not first or _storing(first):
        return probe, first
    best = d.roles, probe, first
    for finer in (n for n in COARSEST if n < coarsest):
        probe, first = _looks(d, finer)
        if not probe.endless and _storing(first) > _storing(best[2]):
            best = d.roles, probe, first
    d.roles, probe, first = best
    return probe, first


def _contents(d: Draft, probe: Prober, first: list[Seen]) -> tuple[Prober, list[Content]]:
    """What integer buffers hold, at sizes at which the kernel ends soon whatever they hold: loops that go up to what
    was loaded may be long only then."""
    found = contents_of(d.kernel, probe, first)
    for finer in (n for n in COARSEST if n < d.roles.coarsest):
        if not probe.endless:
            break
        before = d.roles
        later, looks = _looks(d, finer)
        if not looks:
            d.roles = before
            break
        probe, found = later, contents_of(d.kernel, later, looks)
    return probe, found


def _storing(looks: Sequence[Seen]) -> int:
    """In how many looks anything is stored."""
    return sum(bool(s.run.stored) for s in looks)


def _looks(d: Draft, coarsest: int) -> tuple[Prober, list[Seen]]:
    """What is seen at sizes that are multiples of ``coarsest`` at most; up to the first that does not end."""
    d.roles = replace(d.roles, coarsest=coarsest)
    probe = Prober(d.kernel, d.roles)
    first: list[Seen] = []
    for sizes in probe.sizes():
        found = probe.look(sizes)
        if probe.endless and (coarsest != COARSEST[-1] or not first):
            break
        first += [found] if found is not None else []
    return probe, first


def _units(d: Draft) -> list[int]:
    """What sizes are multiples of at most in the first probes, from the coarsest that makes them short; just one where
    no size makes them any shorter. The last with which grids differ will do, too: if all probes have the same grid,
    what grows with it looks like a constant. One that leaves no launch at all is no shorter."""
    units = [d.roles.coarsest, *COARSEST]
    lengths: list[float] = []
    before = 0
    for k, unit in enumerate(units):
        probe = Prober(d.kernel, replace(d.roles, coarsest=unit))
        probes = probe.sizes()
        if k > before and lengths[before] <= ENOUGH and probes and not probe.grids_differ(probes):
            return units[before:]
        lengths.append(max((probe.length(sizes) for sizes in probes), default=max(lengths, default=0.0)))
        if probes and lengths[-1] <= USUAL:
            return units[k:]
        if probe.grids_differ(probes):
            before = k
    return units if min(lengths) < max(lengths) else units[:1]
