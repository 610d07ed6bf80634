"""raise: from threads and barriers to the loops they mean.

before                                                   after
    for (i = threadIdx.x; i < d; i += blockDim.x)            par token in 0..n @ [block.x]
        sum += x[blockIdx.x * d + i]                           reduce(+) sum over i in 0..d @ [thread.x 256, seq]
    smem[threadIdx.x] = sum; ...tree...; use(smem[0])          use(sum)

A guess (``raising``) followed by an exact comparison with the source in the interpreter: nothing is raised that was not
checked. One thing is taken on trust: pointer parameters of different names do not overlap where one of them is written
(loops over independent iterations have no order, so an in-place launch may be raised only from a kernel that takes the
one buffer once). The distributions attached reproduce the source's mapping, so lowering again gives the same work
assignment; what was staged in shared memory by hand is staged again where no pass comes after this one (``restage``).
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from ktc.ir.arith import REWRITES
from ktc.ir.arith.size_equalities import shown_by_launch
from ktc.ir.diagnostics import KtcError
from ktc.ir.fact_origins import facts_of, without
from ktc.ir.grid_dependencies import as_flags
from ktc.ir.kernel import Assume, Kernel, Launch, Param
from ktc.ir.nodes import Acc, Body, Par, Reduce, Scan, Sym
from ktc.ir.own_variables import with_own_variables
from ktc.ir.support.time_limits import OutOfTime, is_limited, is_over
from ktc.ir.text import named_apart
from ktc.ir.walk import walk
from ktc.passes.core.base import NoArguments, Pass, Site
from ktc.passes.core.refusals import Refusal, Refused, Result, accepted
from ktc.passes.raising.check.host_sized_launches import (
    at_numbers,
    block_facts,
    numbered,
    of_known_size,
    with_decided_extents,
    with_launched_ranges,
    with_numbers,
    with_whole_ranges,
)
from ktc.passes.raising.check.rounded_launches import without_rounding
from ktc.passes.raising.check.swap_loops import hint_of_swaps
from ktc.passes.raising.general_forms import generally_raised, left, not_lowered, unlike
from ktc.passes.raising.loop_names import called_apart
from ktc.passes.raising.recognise.block import Blocked
from ktc.passes.raising.recognise.statement_kinds import Left, refuse_waiting_blocks

if TYPE_CHECKING:
    from ktc.ir.interp.sanitizer.findings import Finding
    from ktc.passes.raising.check.exact_check import Reference

    from .candidates import Guess
    from .raise_report import Region

MAX_CANDIDATES = 16
KEPT = 16
_outcomes: OrderedDict[int, tuple[Kernel, Result | Refused, bool]] = OrderedDict()
"""What became of the kernels raised last, and whether that was all: a search applies scores of scripts to one kernel,
and most begin alike. What the clock stopped is all for who has no more time either.

By identity, with the kernel itself, so that its ``id`` stays its own.
"""

TOO_LATE = "no loops were found in the time that there was for it"
LATE = "the time limit was over before all ways to read it were tried"


class Raise(Pass[NoArguments]):
    name = "raise"
    summary = "threads, strides and barriers to parallel loops and reductions, checked exactly"
    refusals = ("E-RAISE-DONE", "E-RAISE-LAUNCH", "E-RAISE-THREAD", "E-RAISE-CARRIED", "E-RAISE-BARRIER",
                "E-RAISE-DEPENDENCE", "E-RAISE-GRID-REDUCTION", "E-RAISE-MIXED", "E-RAISE-CHECK",
                "E-RAISE-BUDGET", "E-RAISE-OPAQUE", "E-RAISE-WARP", "E-RAISE-DIVERGENT", "E-RAISE-TIME")  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        if kernel.is_parallel:
            return []
        outcome = self.run(kernel)
        if not isinstance(outcome, Result):
            return []
        left = [n for n in outcome.notes if "left: " in n]
        said = f"; {len(left)} parts stay loops over threads: {left[0]}" if left else ""
        return [Site(self.step(), f"the kernel's loops become explicit{said}")]

    def apply(self, kernel: Kernel, args: NoArguments) -> Result:
        if kernel.is_parallel:
            raise Refusal("E-RAISE-DONE", "the kernel is in parallel form already")
        if kernel.launch is None:
            raise Refusal(
                "E-RAISE-LAUNCH",
                "the launch geometry is unknown",
                hint="keep <<<>>> in the file, or give [launch]: `ktc init FILE` writes a workload.toml with a guess",
            )
        known = _outcomes.get(id(kernel))
        if known is None or not (known[2] or is_limited()):
            known = _outcomes[id(kernel)] = kernel, *self._in_time(kernel, kernel.launch)
            if len(_outcomes) > KEPT:
                _outcomes.popitem(last=False)
        return accepted(known[1])

    def _in_time(self, kernel: Kernel, launch: Launch) -> tuple[Result | Refused, bool]:
        """What becomes of ``kernel``, and whether there was all the time for it."""
        try:
            outcome = self._outcome(kernel, launch)
        except OutOfTime:
            hint = "give it more time (--time-limit), or none to end by"
            return Refused("E-RAISE-TIME", TOO_LATE, hint=hint), False
        return outcome, not is_over()

    def _outcome(self, kernel: Kernel, launch: Launch) -> Result | Refused:
        """What becomes of ``kernel``, which is the same wherever its buffers begin: kernels that differ in alignments
        alone share the search, which is most of the work."""
        from ktc.passes.raising.outcome_cache import remembered  # numpy: not for who only asks what passes there are

        kernel = as_flags(kernel)
        anywhere = _beginning_anywhere(kernel)
        outcome = remembered(anywhere, lambda: self._attempt(anywhere, launch))
        if anywhere is kernel or not isinstance(outcome, Result):
            return outcome
        return dataclasses.replace(outcome, kernel=_aligned_as(kernel, outcome.kernel))

    def _attempt(self, kernel: Kernel, launch: Launch) -> Result | Refused:
        launch = with_decided_extents(kernel, launch)
        try:
            return generally_raised(kernel.with_(launch=launch), launch, self._checked, _likeliest)
        except KtcError as error:
            if not error.code.startswith("E-INTERP"):
                raise
            locs = (error.loc,) if error.loc else ()
            return Refused("E-RAISE-CHECK", f"nothing could be checked: {error.message}", locs, error.hint)

    def _checked(self, kernel: Kernel, launch: Launch) -> Result | Refused:
        """The kernel for every size of its block; else for the sizes that its source is written for."""
        from ktc.passes.raising.check.exact_check import Reference
        from ktc.passes.raising.recognise.magic_quotients import with_quotients

        from .raise_report import Region

        if (divided := with_quotients(kernel)) is not None:
            outcome, _ = self._for_sizes(Reference(divided.given), _forms(divided.read, launch), launch)
            if isinstance(outcome, Result) and not left(outcome):
                return dataclasses.replace(outcome, kernel=divided.raised(outcome.kernel))
        reference = Reference(kernel)
        outcome, refuted = self._for_sizes(reference, _forms(kernel, launch), launch)
        most = left(outcome)
        for fact, what in block_facts(kernel, launch) if refuted and most else ():
            assumed, refuted = self._better(_given(kernel, fact), launch, most)
            if isinstance(assumed, Result) and left(assumed) < most:
                note = Region("assumed", what, "for other sizes of the block the source computes something else")
                return dataclasses.replace(assumed, notes=(*assumed.notes, str(note)))
            if not refuted:
                break
        ways = (
            lambda most: self._without_spare(reference, launch, most),
            lambda most: self._in_stated_block(kernel, launch, most),
        )
        for way in ways:
            try:
                outcome = (way(left(outcome)) if left(outcome) else None) or outcome
            except OutOfTime:
                if not isinstance(outcome, Result):
                    raise
                return dataclasses.replace(outcome, notes=(*outcome.notes, LATE))
        return outcome

    def _in_stated_block(self, kernel: Kernel, launch: Launch, most: float) -> Result | None:
        """The kernel for launches in blocks as its workload has them, if fewer than ``most`` parts of it stay loops
        over threads then."""
        from ktc.passes.raising.check.stated_blocks import in_stated_block

        from .raise_report import Region

        if (stated := in_stated_block(kernel, launch)) is None:
            return None
        outcome, _ = self._better(stated.kernel, stated.launch, most)
        if not isinstance(outcome, Result) or left(outcome) >= most:
            return None
        why = "for other blocks the source computes something else, or is not understood"
        notes = (*outcome.notes, str(Region("assumed", stated.what, why)))
        return dataclasses.replace(outcome, kernel=_given(outcome.kernel, stated.fact), notes=notes)

    def _without_spare(self, reference: Reference, launch: Launch, most: float) -> Result | None:
        """The source of ``reference`` with the threads that it sends away idle, or for launches in which they do not
        exist, or are whole groups, as far as fewer than ``most`` parts of it stay loops over threads."""
        from ktc.passes.raising.normalise.idle_exits import idle_exits
        from ktc.passes.raising.normalise.spare_threads import without_spare
        from ktc.passes.raising.normalise.whole_groups import whole_groups

        from .raise_report import Region

        ends = ((idle_exits, ""),
                (without_spare, "threads beyond it leave before the others meet"),
                (whole_groups, "an end in the midst of threads that exchange values"))  # fmt: skip
        best: Result | None = None
        kernel = reference.source
        for (fact, what, read), why in ((found, why) for made, why in ends for found in made(kernel, launch)):
            given = kernel if fact is None else _given(kernel, fact)
            known = reference.anew() if fact is None else None
            assumed, refuted = self._better(given, launch, most, read, known)
            said: tuple[str, ...] = (str(Region("assumed", what, why)),) if fact is not None else ()
            own = said
            for more, also in block_facts(kernel, launch) if refuted else ():
                further, refuted = self._better(_given(given, more), launch, min(most, left(assumed)), read)
                if left(further) < left(assumed):
                    note = Region("assumed", also, "for other sizes of the block the source computes something else")
                    assumed, said = further, (*own, str(note))
                if not refuted:
                    break
            if isinstance(assumed, Result) and left(assumed) < most:
                best, most = dataclasses.replace(assumed, notes=(*assumed.notes, *said)), left(assumed)
            if not most:
                break
        return best

    def _better(
        self,
        kernel: Kernel,
        launch: Launch,
        most: float,
        read: Kernel | None = None,
        as_idle: Reference | None = None,
    ) -> tuple[Result | Refused, bool]:
        """``_for_sizes`` of those forms of ``kernel`` that leave fewer than ``most`` parts to threads. Where there is
        none, nothing is chosen that it could be compared on: that takes longer than to look at all forms.

        ``read``: what to make forms of, where that is plainer; they are compared with the source. ``as_idle``: what is
        known of ``kernel`` already. Threads that leave it stay in it then, which says something only where the source
        means something without them.
        """
        from ktc.passes.raising.check.exact_check import Reference
        from ktc.passes.raising.check.undefined_exits import unmet_exits

        from .tried_forms import leaving_fewer

        if as_idle is not None and unmet_exits(as_idle.never_run):
            return unlike("in no small launch in which threads leave do the others compute something"), False
        forms = leaving_fewer(_forms(read or kernel, launch), most)
        try:
            first = next(forms, None)
        except (Blocked, Left) as b:
            return Refused(b.code, b.why, (b.loc,) if b.loc else ()), False
        if first is None:
            return unlike("no form leaves less to threads"), False
        return self._for_sizes(as_idle or Reference(kernel), chain((first,), forms), launch)

    def _for_sizes(
        self, reference: Reference, guesses: Iterator[Guess], launch: Launch
    ) -> tuple[Result | Refused, bool]:
        """What becomes of the source of ``reference``, and whether the check refuted a form that understood more of
        it: the first of the ``guesses`` that does what the source does."""
        from ktc.passes.raising.check.undefined_exits import exits_before_meetings, leaves_its_buffers, unmet_exits
        from ktc.passes.raising.check.work_budget import is_unchecked

        from .lanes.lane_loops import vectors_kept
        from .loops_of_one import in_parts
        from .normalise.offsets import from_row_starts
        from .raise_report import assumed_apart, assumed_unseen, defective, threads_left, unchecked
        from .staging.registers import KEPT as KEPT_IN_REGISTERS
        from .summed_cells import with_summed_cells
        from .tried_forms import apart, by_work_left, some

        kernel = reference.source
        why, blocked, refuted = "", None, False
        unmet = unmet_exits(reference.never_run)
        beyond = unmet or exits_before_meetings(kernel)
        forms = by_work_left(some(apart(kernel, guesses), MAX_CANDIDATES), lambda: reference.is_short)
        while True:
            try:
                guess = next(forms)
            except StopIteration:
                break
            except (Blocked, Left) as b:
                blocked = blocked or b
                break
            guess = dataclasses.replace(guess, body=from_row_starts(guess.body))
            given = (*kernel.assumptions, *guess.facts)
            params = _moved_in_words(kernel, dict(guess.aligned), dict(guess.flat))
            raised = with_summed_cells(kernel.with_(body=guess.body, assumptions=given, params=params))
            said = guess.regions
            wrong = threads_left(guess.body)
            facts: tuple[Assume, ...] = ()
            if not wrong:
                raised, facts, more, wrong = _spaced(raised)
                facts, said = guess.facts + facts, said + more
            if guess.online and not wrong:
                raised, more, wrong = _joined(raised, reference)
                said += more
            if not wrong:
                wrong = reference.differs_at_once(raised, guess.domains, facts)
                refuted = refuted or bool(wrong)
            if not wrong and _not_lowered(raised) and (parts := in_parts(raised)) is not None:
                raised = parts
            if not wrong and (wrong := _not_lowered(raised)):  # found out in the time of one run
                known = of_known_size(raised, launch)
                wrong = _not_lowered(known) if known is not raised else wrong
            if not wrong:
                wrong = reference.differs(raised, guess.domains, None, facts)
                wrong = wrong or reference.differs_beyond(raised, facts)
                refuted = refuted or bool(wrong)
            if not wrong and (wrong := _lowers(reference, raised, guess.domains[:1], facts)):
                raised, known = of_known_size(raised, launch), raised
                if raised is not known:
                    wrong = _lowers(reference, raised, guess.domains[:1], facts)
            if not wrong:
                wrong = reference.differs_afresh(raised, guess.domains, facts)
                if not wrong and any(r.kind == KEPT_IN_REGISTERS for r in guess.regions):
                    wrong = reference.reaches_further(raised, facts)
                refuted = refuted or bool(wrong)
            if not wrong and beyond and (wrong := leaves_its_buffers(kernel, raised)):
                refuted = True
            wrong = wrong or assumed_unseen(kernel.body, reference.never_run, said)
            if not wrong:
                said = (*said, *unchecked(reference.never_run), *assumed_apart(raised), *vectors_kept(raised))
                said += defective(reference.defect)
                flagged = _flagged(raised, guess.domains, guess.reordered)
                named = named_apart(called_apart(flagged, kernel), kernel)  # staging names loops
                staged = _with_staging(named, guess, reference, facts)
                return Result(staged, _notes(staged, said)), refuted
            why = why or wrong
            if reference.late or (refuted and not reference.sets):
                break
        hint = hint_of_swaps(kernel) or next(map(str, defective(reference.defect)), "")
        if blocked is not None and not why:
            return Refused(blocked.code, blocked.why, (blocked.loc,) if blocked.loc else (), hint), refuted
        if reference.defect is not None and not is_unchecked(why):
            return _of_no_meaning(reference.defect, hint_of_swaps(kernel) or f"of the guessed loops: {why}"), refuted
        return unlike(why, hint), refuted


def _of_no_meaning(defect: Finding, hint: str) -> Refused:
    """The reason for a source that does something undefined in each launch of the check: loops that do the same cannot
    be told from loops that do not."""
    why = "the source has a defect in every small launch that was tried, so that no loops can be compared with it"
    locs = (defect.loc,) if defect.loc else ()
    return Refused("E-RAISE-CHECK", f"{why}: {defect.kind}: {defect.message}", locs, hint)


def _given(kernel: Kernel, fact: Assume) -> Kernel:
    """``kernel`` for the launches of which ``fact`` holds."""
    return kernel.with_(assumptions=(*kernel.assumptions, fact))


def _beginning_anywhere(kernel: Kernel) -> Kernel:
    """``kernel`` without the alignments that no access is too wide for: a run of it is the same without them."""
    from ktc.ir.interp.memory.access import WIDEST_ACCESS

    facts = [f for f in facts_of(kernel) if f.kind == "align" and f.param.align >= WIDEST_ACCESS]
    return without(kernel, facts) if facts else kernel


def _aligned_as(kernel: Kernel, raised: Kernel) -> Kernel:
    """``raised`` with the alignments that ``kernel`` knows of its parameters, and where it has them from."""
    own = {p.sym.name: p for p in kernel.params}

    def aligned(p: Param) -> Param:
        before = own.get(p.sym.name, p)
        if p.align > before.align:
            return p
        p = dataclasses.replace(p, origins=tuple(o for o in p.origins if o[0] != "align"))
        kept = tuple(o for o in before.origins if o[0] == "align" or o in p.origins)
        origins = kept + tuple(o for o in p.origins if o not in kept)
        return dataclasses.replace(p, align=before.align, origins=origins)

    return raised.with_(params=tuple(map(aligned, raised.params)))


def _moved_in_words(kernel: Kernel, words: Mapping[Sym, int], flat: Mapping[Sym, Sym]) -> tuple[Param, ...]:
    """The parameters of ``kernel``, its buffers aligned to the ``words`` in which it moves them: the launcher tests
    that, and the source would not work otherwise. Those of ``flat`` are pointers to elements."""

    def aligned(p: Param) -> Param:
        p = dataclasses.replace(p, sym=flat.get(p.sym, p.sym))
        to = words.get(p.sym, 0)
        if to <= p.align:
            return p
        others = tuple(o for o in p.origins if o[0] != "align")
        return dataclasses.replace(p, align=to, origins=(*others, ("align", "guessed")))

    return tuple(map(aligned, kernel.params))


def _forms(kernel: Kernel, launch: Launch) -> Iterator[Guess]:
    """Candidate parallel forms, likeliest first, those that leave parts of the kernel to threads last; the reason why
    there is none, if there is none."""
    from ktc.ir.analysis.scalars.loop_locals import with_loop_locals
    from ktc.passes.raising.lanes.exchanged_lanes import lanes_apart
    from ktc.passes.raising.lanes.lane_accumulators import with_summed_lanes
    from ktc.passes.raising.lanes.packed_lanes import with_packed_lanes
    from ktc.passes.raising.lanes.vector_counters import counting_parts
    from ktc.passes.raising.lanes.whole_places import at_whole_places
    from ktc.passes.raising.normalise.block_shapes import deals_out
    from ktc.passes.raising.normalise.exchanged_elements import exchanged_apart
    from ktc.passes.raising.normalise.extremes import with_extremes
    from ktc.passes.raising.normalise.first_elements import with_first_elements
    from ktc.passes.raising.normalise.nests import closed_forms
    from ktc.passes.raising.normalise.same_rounds import with_same_rounds
    from ktc.passes.raising.normalise.scopes.alike_arrays import with_alike_arrays
    from ktc.passes.raising.normalise.scopes.branch_locals import with_branch_locals
    from ktc.passes.raising.normalise.scopes.uniform_ways import with_uniform_ways
    from ktc.passes.raising.normalise.single_rounds import with_own_rounds, without_single_rounds
    from ktc.passes.raising.normalise.straight import counted, versioned
    from ktc.passes.raising.normalise.strided_rounds import by_elements
    from ktc.passes.raising.normalise.thread_numbers import with_whole_numbers
    from ktc.passes.raising.normalise.tidy import tidied
    from ktc.passes.raising.recognise.coordinates import prepare
    from ktc.passes.raising.recognise.double_counters import with_guarded_counters
    from ktc.passes.raising.recognise.guards import sizes_of
    from ktc.passes.raising.recognise.joined_grids import with_joined_grid
    from ktc.passes.raising.recognise.launched_strides import from_own_index
    from ktc.passes.raising.recognise.single_trips import with_single_trips
    from ktc.passes.raising.staging.chosen_values import with_chosen_values
    from ktc.passes.raising.staging.finished_values import with_finished_values
    from ktc.passes.raising.staging.row_ends import with_row_ends
    from ktc.passes.raising.warps.aggregated_atomics import with_single_atomics
    from ktc.passes.raising.warps.votes import with_summed_votes

    from .tried_forms import some

    refuse_waiting_blocks(kernel.body, launch)
    kernel = with_finished_values(kernel.with_(body=with_own_variables(kernel.body)))
    kernel, launch = with_joined_grid(kernel, launch)
    kernel, trips, assumed = with_single_trips(
        exchanged_apart(lanes_apart(with_summed_votes(with_single_atomics(kernel)))), launch
    )
    blocked: Blocked | Left | None = None
    partial: list[Guess] = []
    shared: list[Guess] = []
    launches = [(launch, {}, kernel), *((known, numbers, kernel) for known, numbers in numbered(kernel, launch))]
    bound = [(known, numbers, at_numbers(kernel, numbers)) for known, numbers, _ in launches]
    launches += [(known, numbers, at) for known, numbers, at in bound if at.body != kernel.body]
    for known, numbers, at in launches:
        try:
            whole = with_own_rounds(at.with_(body=with_guarded_counters(prepare(at, known)), launch=known))
            whole = without_single_rounds(whole, but_of_arrays=True)
            whole = with_packed_lanes(with_whole_numbers(whole, known))
            whole = with_uniform_ways(with_alike_arrays(whole, kernel))
            whole = with_summed_lanes(with_loop_locals(versioned(with_branch_locals(whole))))
            whole = with_chosen_values(with_extremes(with_first_elements(with_same_rounds(whole), known)))
            body, facts = by_elements(without_single_rounds(whole, but_of_arrays=True), known, shown_by_launch(kernel))
            body = with_first_elements(counted(closed_forms(body)), known)
            body = at_whole_places(counting_parts(body), kernel)
            body = with_numbers(from_own_index(body, known), numbers)
            for guess in some(_forms_at(kernel, body, known), MAX_CANDIDATES // len(launches)):
                if (whole := with_whole_ranges(kernel, guess.body, numbers)) != guess.body:
                    guess = dataclasses.replace(guess, body=tidied(whole, sizes_of(known)))
                if facts or trips:
                    said = (*guess.regions, *assumed)
                    guess = dataclasses.replace(guess, facts=(*guess.facts, *facts, *trips), regions=said)
                by_threads = any(r.is_left or r.is_by_threads for r in guess.regions)
                if not by_threads and (spread := with_launched_ranges(guess.body, launch, known)) != guess.body:
                    spread = tidied(with_row_ends(spread, of_any_length=True), sizes_of(known))
                    yield dataclasses.replace(guess, body=spread)
                if any(r.is_left for r in guess.regions):
                    partial.append(guess)
                elif deals_out(guess.body) or any(r.is_by_threads for r in guess.regions):
                    shared += _up_to_guards(guess, known)
                else:
                    yield from _up_to_guards(guess, known)
        except (Blocked, Left) as b:
            blocked = blocked or b
    yield from shared
    yield from partial
    if blocked is not None:
        raise blocked


def _up_to_guards(guess: Guess, launch: Launch) -> Iterator[Guess]:
    """``guess``, before it that without the threads of a last block that has more than are needed."""
    from ktc.passes.raising.normalise.tidy import tidied
    from ktc.passes.raising.recognise.guards import sizes_of

    if (whole := without_rounding(guess.body)) != guess.body:
        yield dataclasses.replace(guess, body=tidied(whole, sizes_of(launch)))
    yield guess


def _likeliest(kernel: Kernel) -> Body | None:
    """The first of the forms of ``kernel``, as long as nothing is compared with it."""
    if kernel.launch is None:
        return None
    try:
        guess = next(_forms(kernel, kernel.launch), None)
    except (Blocked, Left):
        return None
    return guess.body if guess is not None else None


def _forms_at(kernel: Kernel, body: Body, launch: Launch) -> Iterator[Guess]:
    """The forms of ``body`` in a launch of this shape."""
    from ktc.passes.raising.normalise.single_rounds import without_single_rounds
    from ktc.passes.raising.recognise.grid import candidates

    from .candidates import Guess, guesses

    blocked: Blocked | Left | None = None
    try:
        for form in candidates(without_single_rounds(body), launch):
            yield from _shared(kernel, Guess(form, ()), launch)
    except Blocked as b:
        blocked = b
    try:
        for guess in guesses(kernel, body, launch):
            yield from _shared(kernel, guess, launch)
    except Left as b:  # of all forms the most general one says best what stands in the way, if it says where
        raise (blocked if blocked is not None and b.loc is None else b) from None
    if blocked is not None:
        raise blocked


def _shared(kernel: Kernel, guess: Guess, launch: Launch) -> Iterator[Guess]:
    """``guess``, before it that with loops over what threads or blocks share out, where it has such; before each, it
    with loops over the elements of vectors; before all, that with sums over the numbers in words."""
    from ktc.passes.raising.lanes.lane_loops import lane_forms
    from ktc.passes.raising.lanes.packed_sums import packed_sums
    from ktc.passes.raising.normalise.tidy import tidied
    from ktc.passes.raising.recognise.guards import sizes_of
    from ktc.passes.raising.recognise.launched_strides import shared_out
    from ktc.passes.shared.known_ranges import decided

    from .raise_report import left_as_threads

    def read(body: Body) -> Body:
        return shared_out(tidied(body, sizes_of(launch)), launch)

    def said(body: Body) -> tuple[Region, ...]:
        """What is said of ``body``, made of ``guess``: which of its loops are loops over threads may have changed."""
        if body is guess.body or not any(r.is_by_threads for r in guess.regions):
            return guess.regions
        return (*(r for r in guess.regions if not r.is_by_threads), *left_as_threads(body))

    shared = shared_out(guess.body, launch)
    packed, reordered = packed_sums(shared)
    if packed != shared:
        numbers = decided(kernel.with_(body=tidied(packed, sizes_of(launch))), REWRITES)
        yield dataclasses.replace(guess, body=numbers, regions=said(numbers), reordered=reordered)
    for form in (shared, guess.body) if shared is not guess.body else (shared,):
        for elements in lane_forms(form, kernel.params, read):
            yield dataclasses.replace(
                guess,
                body=elements.body,
                regions=(*said(elements.body), *elements.regions),
                facts=elements.facts,
                aligned=elements.aligned,
                flat=elements.flat,
            )
        yield dataclasses.replace(guess, body=form, regions=said(form))


def _lowers(reference: Reference, raised: Kernel, domains: tuple[str, ...], given: tuple[Assume, ...]) -> str:
    """'' if ``raised`` can be lowered again as it is, to a program that does the same without races."""
    from ktc.passes.lowering import materialise

    return _not_lowered(raised) or reference.differs(materialise(raised), domains, 2, given)


def _not_lowered(raised: Kernel) -> str:
    """Why ``raised`` cannot be lowered again as it is; '' where it can, to a program of which nothing else is known."""
    from ktc.passes.core.distribution_limits import unsound_distribution

    if (unsound := unsound_distribution(raised)) is not None:
        return f"its loops cannot be spread so: {unsound.why}"
    return not_lowered(raised)


def _spaced(raised: Kernel) -> tuple[Kernel, tuple[Assume, ...], tuple[Region, ...], str]:
    """``raised`` for rows that do not overlap, where its loops share out rows; what that assumes, and how it is said;
    and why there is no such form."""
    from ktc.passes.raising.check.assumed_independence import spaced_rows

    found = spaced_rows(raised)
    if found is None:
        return raised, (), (), "how far apart the rows lie that a loop shares out is nothing that the launcher knows"
    facts, said = found
    return raised.with_(assumptions=(*raised.assumptions, *facts)) if facts else raised, facts, said, ""


def _joined(raised: Kernel, reference: Reference) -> tuple[Kernel, tuple[Region, ...], str]:
    """``raised``, in which threads' maxima and sums below them are joined, for rows in which that is no NaN, where the
    source leaves one in others; what is said of them; and why there are none."""
    from ktc.passes.raising.check.single_sweeps import long_rows

    found = long_rows(raised)
    if found is None:
        return raised, (), "rows of a length that only the device knows may leave threads nothing to join"
    facts, said = found
    if reference.reaches_beyond(facts) and not reference.other_nan(raised):
        return raised, (), ""
    resting = raised.with_(assumptions=(*raised.assumptions, *facts))
    return resting, said, reference.other_nan(resting)


def _with_staging(raised: Kernel, guess: Guess, reference: Reference, given: tuple[Assume, ...]) -> Kernel:
    """``raised`` with the steps that stage, or keep in registers, what its source did, if there are any that hold."""
    from ktc.passes.raising.check.single_sweeps import one_sweep
    from ktc.passes.raising.staging.destage import Staged
    from ktc.passes.raising.staging.registers import keeping
    from ktc.passes.raising.staging.restage import staging_of

    steps = staging_of(raised, [r for r in guess.regions if isinstance(r, Staged)]) or keeping(raised, guess.regions)
    steps = steps or (one_sweep(raised) if guess.online else ())
    if not steps:
        return raised
    staged = raised.with_(staging=steps)
    return raised if _lowers(reference, staged, guess.domains[:1], given) else staged


def _flagged(kernel: Kernel, domains: tuple[str, ...], reordered: bool = False) -> Kernel:
    """Floating-point sums lose their order when a tree becomes a ``reduce`` or a ``scan``, or where they were
    ``reordered``; what is compared in the field alone is the same by rational arithmetic."""
    if domains == ("field",):
        kernel = kernel.with_(flags=kernel.flags | {"rational"})
    accs: list[Acc] = [a for s in walk(kernel.body) if isinstance(s, Reduce) for a in s.accs]
    accs += [s.acc for s in walk(kernel.body) if isinstance(s, Scan)]
    floating = any(getattr(a.sym.type, "is_float", False) and a.op in "+*" for a in accs)
    return kernel.with_(flags=kernel.flags | {"reassociates"}) if floating or reordered else kernel


def _notes(kernel: Kernel, regions: tuple[Region, ...]) -> tuple[str, ...]:
    loops = [s for s in walk(kernel.body) if isinstance(s, Par | Reduce)]
    names = ", ".join(f"{type(s).__name__.lower()} {s.var.name}" for s in loops)
    staging = (f"staging, put back where no pass follows: {' | '.join(kernel.staging)}",) if kernel.staging else ()
    return (f"raised and checked exactly: {names}", *map(str, regions), *staging)
