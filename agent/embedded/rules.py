"""The embedded planner: what helps most kernels on the best script so far, then ideas from structure, then any site."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from itertools import chain, islice

from ktc.agent.expectations import Expectations, behind
from ktc.agent.planner import Observation, Outcome, Proposal
from ktc.agent.relief import urgency
from ktc.driver.printing import exchanges_lanes, prints_loops
from ktc.ir.analysis.planner_facts import KernelFacts, facts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Par
from ktc.ir.walk import walk
from ktc.passes.core.catalogue import PASSES
from ktc.passes.core.script import DistSpec
from ktc.passes.scalar.window_sizes import ranks

from .atomics.inner_updates import inner_updates
from .blocks.block_phases import phases
from .blocks.lone_threads import shared_by_the_block
from .carried import carried, whole_sums
from .convolutions import convolutions
from .cpu.cpu_nests import cpu_nests
from .factors.computed_factors import computed_factors
from .factors.packed_weights import packed_weights
from .gathered.implicit_products import implicit_products
from .grouped_sums import grouped_sums
from .halos import halo_tiles, register_windows
from .ideas import CONTRACTION, LONG, RULES, packed_elements
from .joined_sums import joined_sums
from .lanes import lanes
from .nest_shapes import Idea, Shape, shape_of
from .planes import planes
from .products import tensor_products
from .rows import is_spread, parts_of_rows, plain_sweeps, rows_alone, shared_rows, warp_rows
from .rows_together import rows_together
from .shared_inputs import shared_inputs
from .softmaxes.online_softmaxes import online_softmaxes
from .staged_convolutions import staged_convolutions
from .thread_products import staged_products
from .trials import after, wherever
from .turned import along_memory, turned
from .updates import repeated_updates
from .walked_layers import side_by_side
from .walked_points import walked_points


class Rules:
    """The ``rules`` planner."""

    name = "rules"

    def propose(self, observation: Observation, k: int) -> list[Proposal]:
        return list(self.ideas(observation, k))

    def ideas(self, observation: Observation, k: int) -> Iterator[Proposal]:
        """The ``k`` proposals, one by one: each costs the lowering of what it tries, and no more are looked for.

        What is remembered and what the rules think of take turns: where lessons are wrong, the first idea of the rules
        is not late. Where schedules won on other kernels, ideas of such schedules come before the others.
        """
        known = {o.script for o in observation.history}
        precedent = observation.precedent
        own = self._fresh(observation, known, k)
        if precedent is not None:
            own = iter(sorted(own, key=lambda p: _precedence(p, precedent)))
        remembered = (p for p in observation.remembered if p.script not in known and observation.runs(p.script))
        said: set[str] = set()
        for p in _in_turns(remembered, own):
            if p.script not in said:
                said.add(p.script)
                k -= 1
                yield p
            elif p.planner == self.name:  # what was remembered is an idea of ours, too
                yield p
            if k <= 0:
                return

    def _fresh(self, observation: Observation, known: Set[str], k: int) -> Iterator[Proposal]:
        """At most ``k`` ideas that are not ``known`` and may run, each once."""
        seen = set(known)
        for p in self._ideas(observation):
            if k <= 0:
                return
            if p.script not in seen and observation.runs(p.script):
                seen.add(p.script)
                k -= 1
                yield p

    def _ideas(self, o: Observation) -> Iterator[Proposal]:
        yield from self._refinements(o, 0, EARLY if not _on_a_cpu(o) else REFINING_ON_A_CPU)
        waiting: list[Proposal] = []
        if o.raised is not None:
            yield from self._of_known_rank(o, *_of_known_rank(o.raised, o), waiting)
            yield from self._behind(o, *_busy(o.raised), waiting)
            yield from self._behind(o, *shared_by_the_block(o.raised), waiting)
            yield from self._behind(o, *wherever(o.raised, "widen-accumulators"), waiting)  # sums in any order
        yield from self._structural(o, waiting)
        refining = REFINING if not _on_a_cpu(o) else REFINING_ON_A_CPU
        for place in range(REFINED):
            yield from self._refinements(o, place, refining)
        if o.raised is None or not _on_a_cpu(o):
            yield from self._sites(o)
        yield from waiting

    def _of_known_rank(self, o: Observation, before: str, known: Kernel, waiting: list[Proposal]) -> Iterator[Proposal]:
        """Ideas from the structure of ``known``, which has numbers of dimensions bound; each first with divisions by
        extents in memory as multiplications, where there are any: they take longer than all else."""
        divides = not _on_a_cpu(o) and before and after(known, DIVIDED) is not None
        for p in islice(self._behind(o, before, known, waiting), OF_KNOWN_RANK):
            if divides:
                yield replace(p, script=_then(p.script, DIVIDED), reason=f"{p.reason}; quotients by reciprocals")
            yield p

    def _behind(self, o: Observation, before: str, kernel: Kernel, waiting: list[Proposal]) -> Iterator[Proposal]:
        """Ideas from the structure of ``kernel``, which the steps ``before`` lead to; none where there are no steps."""
        if before:
            there, whole = behind(o, before, kernel)
            late: list[Proposal] = []
            yield from map(whole, self._structural(there, late))
            waiting += map(whole, late)

    def _structural(self, o: Observation, waiting: list[Proposal]) -> Iterator[Proposal]:
        """Ideas from the structure of the raised kernel; those of which little is expected are put off."""
        if o.raised is not None and _on_a_cpu(o):
            yield from self._on_cores(o, o.raised)
        elif o.raised is not None:
            yield from Expectations(o).hopeful(self._on_gpu(o, o.raised), waiting)

    def _on_gpu(self, o: Observation, raised: Kernel) -> Iterator[Proposal]:
        """Ideas from structure, what experts would try first in front."""
        gpu = o.device.profile.startswith(GPUS)
        units = max(1, o.device.compute_units)
        for steps, why, gain in online_softmaxes(raised, units, o.facts, _able(o)) if gpu else ():
            yield Proposal(f"raise | {steps}", why, gain, self.name)
        for before, kernel in (("", raised), *_with(raised, "delinearise", loops=AXES)):
            inside = inner_updates(kernel, [facts(kernel, f.sizes) for f in o.facts], _able(o, before))
            for steps, why, gain in inside:
                yield Proposal(f"raise | {before}{steps}", why, gain, self.name)
        for before, kernel in forms(raised) if gpu else ():
            seen = o.facts if kernel is raised else [facts(kernel, f.sizes) for f in o.facts]
            for steps, why, gain in implicit_products(kernel, o.device, seen, _able(o, before)):
                yield Proposal(f"raise | {before}{steps}", why, gain, self.name)
        for before, kernel in hidden_products(raised) if gpu else ():  # no one else tiles products by threads
            yield from self._products(o, before, kernel)
        for before, kernel in along_memory(raised):
            for more, form in forms(kernel):
                yield from self._reuse(o, before + more, form)
            yield from self._after(o, before, kernel, frozenset())
        for before, kernel in forms(raised):
            yield from self._reuse(o, before, kernel)
        for before, kernel in _few_axes(raised) if gpu else ():
            able = _able(o, before)
            for steps, why, gain in chain(register_windows(kernel, able), halo_tiles(kernel, able)):
                yield Proposal(f"raise | {before}{steps}", why, gain, self.name)
        able = _able(o)
        sums = list(whole_sums(raised, units))
        first = chain(
            sums,
            () if sums else repeated_updates(raised, units, o.facts, able),  # one sum is more than updates that repeat
            phases(raised, able, units, o.facts) if gpu else (),
            walked_points(raised, units, o.facts, able) if gpu else (),
            joined_sums(raised, units, o.facts, able) if gpu else (),
        )
        for steps, why, gain in first:
            yield Proposal(f"raise | {steps}", why, gain, self.name)
        rows = list(self._rows(o, raised))
        yield from rows
        for before, kernel in _with(raised, "delinearise", loops=AXES) if not rows else ():
            seen = [facts(kernel, f.sizes) for f in o.facts]
            for steps, why, gain in lanes(kernel, _able(o, before), seen, o.extents):
                yield Proposal(f"raise | {before}{steps}", why, gain, self.name)
        for steps, why, gain in chain(grouped_sums(raised, o.facts, able), rows_together(raised, o.facts, able)):
            yield Proposal(f"raise | {steps}", why, gain, self.name)
        beside = [] if rows else list(lanes(raised, able, o.facts, o.extents))
        for steps, why, gain in beside:
            yield Proposal(f"raise | {steps}", why, gain, self.name)
        for steps, why, gain in carried(raised, units, o.facts, gpu, o.extents):
            if o.attempt(script := f"raise | {steps}") is None:
                yield Proposal(script, why, gain, self.name)
        without = frozenset({LONG} if beside else ())
        for before, kernel in side_by_side(raised):
            without |= {CONTRACTION}  # nothing is summed
            yield from self._after(o, before, kernel, without)
        for before, kernel in _with(raised, "split-range"):  # no element asks which part of its row it is in
            yield from self._after(o, before, kernel, without)
        for before, kernel in _promoted(raised):  # what is updated again and again, in registers
            yield from self._after(o, before, kernel, without)
        nests = list(_with(raised, "delinearise", loops=AXES))  # no quotients of each element's index
        for before, kernel in (n for n in nests if is_spread(n[1])):
            for more, split in parts_of_rows(kernel):
                yield from self._after(o, before + more, split, without)
            yield from self._after(o, before, kernel, without)
        for before, kernel in _with(raised, "join-stores"):  # what lies side by side is stored at once
            yield from self._after(o, before, kernel, without)
        for f in o.facts:
            shape = shape_of(f)
            yield from self._packed(o, shape)
            yield from self._rules(o, shape, without=without)
        for before, kernel in (n for n in nests if not is_spread(n[1])):
            yield from self._after(o, before, kernel, without)
        for f in o.facts:
            shape = shape_of(f)
            yield Proposal(_then("raise", _combining(shape, o)), "the same mapping, printed anew", 1.0, self.name)

    def _on_cores(self, o: Observation, raised: Kernel) -> Iterator[Proposal]:
        """Nests for a CPU, and the kernel as loops, whatever these do."""

        def seen(kernel: Kernel) -> Sequence[KernelFacts]:
            return o.facts if kernel is raised else [facts(kernel, f.sizes) for f in o.facts]

        for steps, why, gain in cpu_nests(raised, o.device, seen, _able(o)):
            yield Proposal(f"raise | {steps}", why, gain, self.name)
        yield Proposal("raise", "loops instead of threads", 1.2, self.name)

    def _reuse(self, o: Observation, before: str, kernel: Kernel) -> Iterator[Proposal]:
        """What keeps values that several threads read where they reach them: fragments, tiles, halos, planes.
        ``before``: the steps after ``raise`` that lead to ``kernel``."""
        able = _able(o, before)
        products = self._products(o, before, kernel)
        found = next(products, None)
        if found is not None:
            yield found
            yield from products
        if not o.device.profile.startswith(GPUS):
            return
        units = max(1, o.device.compute_units)
        seen = o.facts if kernel is o.raised else [facts(kernel, f.sizes) for f in o.facts]
        tilings = chain(
            () if found is not None else packed_weights(kernel, o.device, seen, able),
            () if found is not None else computed_factors(kernel, units, seen, able),
            () if found is not None else planes(kernel, able),
            staged_convolutions(kernel, units, seen, able),
            convolutions(kernel, units, seen, able),
            (x for x in shared_inputs(kernel) if able(x[0])),
            turned(kernel, able),
            register_windows(kernel, able),
            halo_tiles(kernel, able),
        )
        for steps, why, gain in tilings:
            yield Proposal(f"raise | {before}{steps}", why, gain, self.name)

    def _products(self, o: Observation, before: str, kernel: Kernel) -> Iterator[Proposal]:
        """Tiles of sums of products, by tensor cores or by threads: of each the ways that suit the sizes, too."""
        applies = _able(o, before)

        def able(steps: str) -> bool:
            return applies(steps) and o.runs(f"raise | {before}{steps}")

        seen = o.facts if kernel is o.raised else [facts(kernel, f.sizes) for f in o.facts]
        ideas: Iterator[Idea] = tensor_products(kernel, o.device, seen, able)
        if o.device.profile.startswith(GPUS):
            ideas = chain(ideas, staged_products(kernel, max(1, o.device.compute_units), seen, able))
        for steps, why, gain in ideas:
            yield Proposal(f"raise | {before}{steps}", why, gain, self.name)

    def _rows(self, o: Observation, raised: Kernel) -> Iterator[Proposal]:
        """A row a thread, or rows side by side: what experts do with rows, once each is a block's."""
        before, plain = plain_sweeps(raised)
        for f in o.facts:
            for steps, why, gain in warp_rows(plain, f):
                if o.attempt(script := f"raise | {before}{steps}") is None:
                    yield Proposal(script, why, gain, self.name)
            for given in (shared_rows(plain, f), rows_alone(plain, f)):
                if given is not None:
                    yield from self._rules(o, given[1], f"{before}{given[0]} | ")
        if before:
            gpu = o.device.profile.startswith(GPUS)
            for steps, why, gain in carried(plain, max(1, o.device.compute_units), o.facts, gpu, o.extents):
                if o.attempt(script := f"raise | {before}{steps}") is None:
                    yield Proposal(script, why, gain, self.name)

    def _rules(
        self, o: Observation, shape: Shape, before: str = "", without: frozenset[str] = frozenset()
    ) -> Iterator[Proposal]:
        """What the table says of a loop nest; ``before``: the steps that lead to it; ``without``: rows left out."""
        after = _combining(shape, o)
        for name, applies, scripts in RULES:
            if applies(shape) and name not in without:
                for steps, why, gain in scripts(shape, max(1, o.device.compute_units)):
                    script = _then(f"raise | {before}{steps}", after)
                    if "launch-bounds" in steps and not o.device.profile.startswith(GPUS):
                        continue  # no other compiler is told
                    if o.attempt(script) is None:
                        yield Proposal(script, f"{name}: {why}", gain, self.name)

    def _after(self, o: Observation, before: str, kernel: Kernel, without: frozenset[str]) -> Iterator[Proposal]:
        """What the table says of the loop nest of ``kernel``, which the steps ``before`` lead to."""
        for f in o.facts:
            yield from self._rules(o, shape_of(facts(kernel, f.sizes)), before, without)

    def _packed(self, o: Observation, shape: Shape) -> Iterator[Proposal]:
        """What threads that are spread already go through one after another, in wide accesses."""
        for site in o.sites:
            levels = site.step.kwargs.get("map")
            if site.step.name == "parallelize" and isinstance(levels, DistSpec) and levels.levels[0].kind == "vec":
                for steps, why, gain in packed_elements(shape, str(site.step)):
                    if o.attempt(script := f"raise | {steps}") is None:
                        yield Proposal(script, why, gain, self.name)

    def _sites(self, o: Observation) -> Iterator[Proposal]:
        """A kernel that cannot be raised, or that no rule knows: whatever the catalogue says applies."""
        if o.raised is None or len(o.history) >= 2:
            first = "raise | " if o.raised is not None else ""
            for site in o.sites:
                if site.step.name not in UNASKED:
                    yield Proposal(f"{first}{site.step}", site.doc or "applicable here", None, self.name)

    def _refinements(self, o: Observation, place: int, names: Sequence[str]) -> Iterator[Proposal]:
        """One more step, of the passes ``names``, on the script that came in at ``place`` so far."""
        best = sorted((h for h in o.history if h.gain is not None), key=_gain, reverse=True)[place : place + 1]
        for h in best:
            fresh = [s for s in o.sites if s.step.name in names and s.step.name not in h.script]
            limiters = o.limiters if h.script == o.leader else ()
            for s in sorted(fresh, key=lambda s: (urgency(s.step.name, limiters), names.index(s.step.name))):
                why = f"on the best so far: {s.doc or s.step.name}"
                yield Proposal(_then(h.script, str(s.step)), why, None, self.name)


def _precedence(p: Proposal, precedent: Callable[[str], int | None]) -> float:
    """What won elsewhere, the best precedent first, and then what did not."""
    place = precedent(p.script)
    return math.inf if place is None else place


def _in_turns(first: Iterator[Proposal], second: Iterator[Proposal]) -> Iterator[Proposal]:
    """One of each, and what is left of the longer."""
    for p in first:
        yield p
        yield from islice(second, 1)
    yield from second


def _on_a_cpu(o: Observation) -> bool:
    """Whether the device runs a kernel's loops as loops."""
    return prints_loops(o.device.profile)


def _able(o: Observation, before: str = "") -> Callable[[str], bool]:
    """Whether steps can be lowered after ``raise`` and ``before``."""
    return lambda steps: o.attempt(f"raise | {before}{steps}") is None


AXES = 3
"""Axes of blocks, and so of loops that blocks are spread over."""


def forms(raised: Kernel) -> Iterator[tuple[str, Kernel]]:
    """The kernel as its nests show what they do, each with the steps that lead to it.

    Sums that it updates in memory are sums in variables in all of them (``promote``): no schedule is better off with a
    store a term. Flat indices are tried as they are, and as the loops that they are made of (``delinearise``).
    """
    for before, kernel in _lighter(*next(_promoted(raised), ("", raised))):
        yield before, kernel
        yield from ((before + more, done) for more, done in _with(kernel, "delinearise"))


def _promoted(raised: Kernel) -> Iterator[tuple[str, Kernel]]:
    """The steps by which what loops update in memory is in variables, out of loops around them too, and the kernel
    then; nothing if there are none."""
    before, kernel = wherever(raised, "promote")
    while (again := wherever(kernel, "promote"))[0]:
        before, kernel = before + again[0], again[1]
    if before:
        yield before, kernel


def _few_axes(raised: Kernel) -> Iterator[tuple[str, Kernel]]:
    """The kernel with a flat index taken apart in as many loops as blocks have axes, where :func:`forms` has more."""
    before, kernel = next(_promoted(raised), ("", raised))
    whole = [nests for _, nests in _with(kernel, "delinearise")]
    if any(sum(isinstance(s, Par) for s in walk(nests.body)) > AXES for nests in whole):
        yield from ((before + more, done) for more, done in _with(kernel, "delinearise", loops=AXES))


def _lighter(before: str, kernel: Kernel) -> Iterator[tuple[str, Kernel]]:
    """``kernel``, which the steps ``before`` lead to, with what its sums are multiplied by taken out of them, if that
    changes anything; and as it is, which rounds as the source does."""
    yield from ((before + more, done) for more, done in _with(kernel, "factor-out"))
    yield before, kernel


def hidden_products(raised: Kernel) -> Iterator[tuple[str, Kernel]]:
    """Forms in which products show that no other form has: the steps, and the kernel.

    What conditions hide is computed whatever they say, and sums of several products are a loop each; a flat index is
    taken apart first, in as many loops as blocks have axes, or what is summed in memory is in variables.
    """
    whole = (("", raised), *_promoted(raised), *_with(raised, "delinearise", loops=AXES))
    for before, kernel in (form for each in whole for form in _lighter(*each)):
        for name in ("unmask", "part-sums"):
            yield from ((before + more, done) for more, done in _with(kernel, name))


def _of_known_rank(raised: Kernel, o: Observation) -> tuple[str, Kernel]:
    """The step (with a bar behind it) that binds numbers of dimensions, and the kernel after it."""
    step = PASSES["specialize"].step(**ranks(raised, [f.sizes for f in o.facts]))
    known = after(raised, str(step)) if step.args else None
    return ("", raised) if known is None else (f"{step} | ", known)


def _busy(raised: Kernel) -> tuple[str, Kernel]:
    """Steps (each with a bar behind it) that leave out iterations which do nothing, or what others did, and the kernel
    after them: no schedule is better off with such iterations."""
    tight, kernel = wherever(raised, "tighten")
    alone, kernel = wherever(kernel, "narrow")
    return tight + alone, kernel


def _with(kernel: Kernel, name: str, **more: int) -> Iterator[tuple[str, Kernel]]:
    """The steps of the pass ``name`` that apply to ``kernel``, and it after them; nothing if none does."""
    before, done = wherever(kernel, name, **more)
    if before:
        yield before, done


GPUS = ("cuda", "hip")
"""Profiles of devices that have shared memory worth the name, and whose compilers are told how many blocks to plan
for."""

REFINING = ("fast-math", "cache-hints", "invariant-division", "unroll", "licm", "simplify")
"""Passes worth adding to a script that already won, best first. What ``fast-math`` costs in accuracy is for the gate to
judge: the optimiser accepts it only where the error stays within the bound and at most doubles."""

UNASKED = ("raise", "specialize", "fast-math", "rfactor", "rfactor-atomics")
"""Passes that are no idea of their own: the first is everywhere, the second gives up generality, which of sizes is the
user's to decide, the third is worth its accuracy only on a winner, the last two are for a
CPU's schedules (:mod:`.cpu.cpu_nests`)."""

EARLY = ("fast-math",)
"""Of these, what is tried on the best script before any other idea."""

REFINING_ON_A_CPU = (*EARLY, "cache-hints")
"""The same where a compiler of loops does the rest itself: stores past the caches are for us to ask for."""

DIVIDED = "invariant-division"

OF_KNOWN_RANK = 4
"""Ideas for tensors of as many dimensions as those that were seen, before others: code that is written out for each of
them may be one that no run of the check reaches."""

REFINED = 2
"""Scripts that are refined, the best first, once there are no other ideas."""


def _combining(s: Shape, o: Observation) -> str:
    """Steps by which reductions go through shared memory, on devices whose threads cannot exchange registers."""
    if exchanges_lanes(o.device.profile):
        return ""
    names = dict.fromkeys(c.name for c in s.cols if c.kind == "reduce")
    return " | ".join(f"reduce-strategy{{loop={n} strategy=shared}}" for n in names)


def _gain(h: Outcome) -> float:
    return h.gain or 0.0


def _then(script: str, step: str) -> str:
    """``script`` with ``step`` (if any) at its end, before any constraints."""
    if not step:
        return script
    steps, where, constraints = script.partition(" where ")
    return f"{steps.rstrip(' |')} | {step}{where}{constraints}" if steps else step
