"""From a proposed script to a template: parse, apply, lower; whatever says no is data, not an exception."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ktc.driver.printing import why_not_lowered
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import For, Par, Reduce, Var
from ktc.ir.support import time_limits
from ktc.ir.walk import walk
from ktc.passes.core.base import Refused, Result

from .embedded.trials import wherever
from .planner import MAX_SCRIPT_CHARS, MAX_STEPS, Outcome, Proposal
from .stopping import TimeShares

if TYPE_CHECKING:
    from ktc.passes.core.pipeline import Memo


@dataclass(frozen=True)
class Candidate:
    """A template that can be tuned. ``key`` identifies what it lowers to: scripts with one key are one candidate."""

    script: str
    kernel: Kernel
    key: str
    notes: tuple[str, ...] = ()
    proposal: Proposal | None = field(default=None, compare=False)

    @property
    def label(self) -> str:
        return self.script or "(as it is)"


RAISE = "raise"

OUT_OF_TIME = "E-TIME-LIMIT"
"""The code of a script that there was no time to build."""

LOOPS = (For, Par, Reduce)

Sizes = Mapping[str, int | float]
"""What a call passes for scalar parameters, by name."""


def _start_of(original: Kernel) -> tuple[str, tuple[str, ...]]:
    """What scripts on ``original`` begin with, and what to know about it."""
    if not original.is_sequence:
        return RAISE, ()
    from ktc.passes.launches.whole_fusion import whole_fusion

    found = whole_fusion(original, unfit=why_not_lowered)
    apart = tuple(f"{a} and {b} stay launches of their own: {no.why}" for a, b, no in found.refused)
    return (str(found.script) or RAISE), apart


def _raised(original: Kernel, until: float) -> Result | Refused:
    """What ``raise`` makes of ``original`` until then (of :func:`time.monotonic`)."""
    from ktc.passes.core.pipeline import apply_step
    from ktc.passes.core.script import Step

    try:
        with time_limits.until(until):
            return apply_step(original, Step(RAISE))
    except time_limits.OutOfTime:
        return Refused("E-RAISE-TIME", "no loops were found in the time that there was for it")


def _with_enough_threads(raised: Kernel, sizes: Sequence[Sizes]) -> tuple[str, Kernel]:
    """The step after ``raise`` that counts on a launch to have a thread for each element, where it has at all of
    ``sizes``, and the kernel then; '' and as it is raised where that is nothing to count on."""
    from ktc.passes.core.catalogue import PASSES
    from ktc.passes.core.pipeline import apply_step

    step = PASSES["enough-threads"].step()
    done = apply_step(raised, step)
    if isinstance(done, Refused):
        return "", raised
    facts = done.kernel.assumptions[len(raised.assumptions) :]
    whole = all(evaluate(a.expr, done.kernel.environment(dict(at))) in (True, 1) for a in facts for at in sizes)  # type: ignore[arg-type]
    return (f" | {step}", done.kernel) if whole else ("", raised)


def _sure_values(raised: Kernel, sizes: Sequence[Sizes]) -> tuple[str, Kernel]:
    """The steps that bind strides and dilations of ``raised`` which are 1 at all of ``sizes``; flags that choose
    between loop nests, or what is done to an element, and sizes of windows and of groups, which are the same at all of
    them; and lengths that are those of blocks' own arrays; and the kernel then; '' and ``raised`` where there are none.
    Windows are gone over whole, where edges clip them."""
    from ktc.passes.loops.tighten import dilations
    from ktc.passes.mapping.lane_strides import strides
    from ktc.passes.scalar.group_sizes import group_sizes
    from ktc.passes.scalar.nest_flags import nest_flags
    from ktc.passes.scalar.whole_arrays import whole_lengths

    moved = {p.name for kernel in _taken_apart(raised) for p in strides(kernel)} | dilations(raised)
    bound = {name: 1 for name in sorted(moved) if all(at.get(name) == 1 for at in sizes)}
    bound |= {name: n for name, n in whole_lengths(raised).items() if all(at.get(name) == n for at in sizes)}
    for name in (*nest_flags(raised), *group_sizes(raised)):
        values = {at.get(name) for at in sizes}
        value = values.pop() if len(values) == 1 else None
        bound |= {} if value is None else {name: int(value)}
    before, whole = wherever(raised, "unclip")
    taps = _window_sizes(whole, bound, sizes) if before else {}
    if taps:
        step, known = _bound(whole, bound | taps)
        return f" | {before.removesuffix(' | ')}{step}", known
    clipped = _clipped_windows(raised, bound, sizes)
    return clipped or _bound(raised, bound | _window_sizes(raised, bound, sizes))


def _clipped_windows(raised: Kernel, bound: Mapping[str, int], sizes: Sequence[Sizes]) -> tuple[str, Kernel] | None:
    """The steps that bind, beside ``bound``, the fewest parameters by which more loops of ``raised`` go over all of a
    few taps, and the kernel then; None where none do."""
    from ktc.passes.scalar.window_sizes import MOST_TAPS, clip_sizes
    from ktc.passes.shared.serial_sums import known_count

    def taps(values: Mapping[str, int]) -> tuple[int, str, Kernel]:
        step, known = _bound(raised, {**bound, **values})
        steps, whole = wherever(known, "unclip")
        counts = (known_count(s) for s in walk(whole.body) if isinstance(s, For))
        found = sum(n is not None and 1 <= n <= MOST_TAPS for n in counts)
        return found, f"{step} | {steps}".removesuffix(" | "), whole

    values = clip_sizes(raised, sizes)
    best = taps(values)
    if not values or best[0] <= taps({})[0]:
        return None
    for name in tuple(values):
        fewer = {v: n for v, n in values.items() if v != name}
        if (found := taps(fewer))[0] >= best[0]:
            values, best = fewer, found
    return best[1:]


def _window_sizes(raised: Kernel, bound: Mapping[str, int], sizes: Sequence[Sizes]) -> dict[str, int]:
    """Sizes of windows in ``raised``, and what else says where they lie, that are the same at all of ``sizes``, where
    the parameters ``bound`` have these values."""
    from ktc.passes.scalar.window_sizes import tap_counts, window_sizes

    out: dict[str, int] = {}
    for kernel in _taken_apart(raised):
        counts = tap_counts(kernel, sizes)
        written, known = _bound(raised, {**bound, **{name: n for each in counts.values() for name, n in each.items()}})
        for form in _taken_apart(known if written else kernel) if counts else ():
            out |= window_sizes(form, counts, sizes)
    return out


def _bound(raised: Kernel, values: Mapping[str, int]) -> tuple[str, Kernel]:
    """The step that binds parameters of ``raised`` to ``values``, and the kernel then; '' and ``raised`` where there is
    nothing to bind, or none of it may be bound."""
    from ktc.passes.core.catalogue import PASSES
    from ktc.passes.core.pipeline import apply_step
    from ktc.passes.core.refusals import Refused

    step = PASSES["specialize"].step(**values)
    done = apply_step(raised, step) if step.args else None
    return ("", raised) if done is None or isinstance(done, Refused) else (f" | {step}", done.kernel)


def _taken_apart(raised: Kernel) -> Iterator[Kernel]:
    """``raised``, and it with loops for the digits of flat indices, which show how far apart in memory these are."""
    yield raised
    steps, nests = wherever(raised, "delinearise")
    if steps:
        yield nests


def _multiples(raised: Kernel, sizes: Sequence[Sizes]) -> str:
    """The step that says what rows of ``raised`` have to be multiples of to begin where wide accesses may, as far as
    all of ``sizes`` have them so; '' where nothing is to be said.

    The ends of loops are left out: a vec level asks for them itself, and only for as much as it needs.
    """
    from ktc.passes.core.catalogue import PASSES
    from ktc.passes.mapping.lane_strides import pitches
    from ktc.passes.shared.serial_sums import counted_to

    shown: dict[str, int] = {}
    for kernel in _taken_apart(raised):
        ends = {counted_to(s) if isinstance(s, For) else s.hi for s in walk(kernel.body) if isinstance(s, LOOPS)}
        shown |= {
            p.name: math.gcd(n, *(int(at.get(p.name, 1)) for at in sizes))
            for p, n in pitches(kernel).items()
            if Var(p) not in ends
        }
    step = PASSES["divisible-by"].step(**{name: n for name, n in shown.items() if n > 1})
    return f" | {step}" if step.args else ""


def _rows_of(start: str) -> tuple[str, ...]:
    """The arrays in shared memory that hold rows of what launches pass on."""
    return tuple(f"{name}_row" for name in re.findall(r"contract\{array=(\w+) where=shared\}", start))


class Builder:
    """Builds scripts on one kernel, each at most once, and steps that scripts begin with alike (``raise``) once too.
    ``as_loops``: loops are printed as they stand, so that two orders are two candidates.

    What takes longer than ``shares`` leaves for it is no part of what scripts begin with; ``raise`` itself is refused
    then, and stays so.

    ``start``: what scripts that begin with ``raise`` begin with here. Of a sequence of launches that is the script that
    makes one kernel of them, or as few as may be; who proposes scripts needs not know of launches. Where ``sizes``, the
    scalars of each scenario, have a thread for each element, strides that are 1, pitches that are multiples, or one
    value of a flag that chooses between loop nests, that is counted on from the start."""

    def __init__(
        self,
        original: Kernel,
        as_loops: bool = False,
        sizes: Sequence[Sizes] = (),
        shares: TimeShares = TimeShares(),  # noqa: B008  frozen
    ) -> None:
        self.original, self.as_loops, self._shares = original, as_loops, shares
        try:
            with time_limits.until(shares.until("raised")):
                self._whole, self.start_notes = _start_of(original)
        except time_limits.OutOfTime:
            self._whole, self.start_notes = RAISE, ("the launches stay apart: there was no time to join them",)
        self._multiples = ""
        self._steps: Memo = {}
        if sizes and not original.is_sequence:
            raised = self._steps[RAISE,] = _raised(original, shares.until("raised"))
            with suppress(time_limits.OutOfTime), time_limits.until(shares.until("begun")):
                self._begin_with(raised, sizes)
        self.rows = _rows_of(self._whole)
        self._built: dict[str, Candidate | Outcome] = {}

    def _begin_with(self, raised: Result | Refused, sizes: Sequence[Sizes]) -> None:
        """Learn what scripts begin with after ``raise``, one part after the other."""
        if isinstance(raised, Refused):
            return
        enough, kernel = _with_enough_threads(raised.kernel, sizes)
        self._whole += enough
        bound, known = _sure_values(kernel, sizes)
        self._whole += bound
        self._multiples = _multiples(known, sizes)

    @property
    def start(self) -> str:
        return self._whole if self.as_loops else self._whole + self._multiples

    def build(self, proposal: Proposal) -> Candidate | Outcome:
        """The candidate, or an outcome of status ``refused`` (the script's fault) or ``failed`` (a bug of a pass)."""
        proposal = self.whole(proposal)
        found = self._built.get(proposal.script)
        if found is None:
            found = self._build(proposal)
            if isinstance(found, Candidate) or found.code != OUT_OF_TIME:
                self._built[proposal.script] = found
        return found

    def whole(self, proposal: Proposal) -> Proposal:
        """``proposal`` with all that scripts here begin with, unless it was asked for as it is."""
        script = proposal.script
        if proposal.whole or self.start == RAISE or script.startswith(self.start):
            return proposal
        if script != RAISE and not script.startswith(f"{RAISE} |"):
            return proposal
        return replace(proposal, script=self.start + script.removeprefix(RAISE))

    def variants(self, proposal: Proposal) -> Iterator[Proposal]:
        """What is worth trying of ``proposal``: where rows that launches pass on are in shared memory and its loops let
        threads keep what they own of them, that first."""
        from ktc.passes.core.language import parse_script
        from ktc.passes.core.script import Script

        whole = self.whole(proposal)
        if self.rows and whole.script.startswith(self.start) and not whole.whole:
            script = parse_script(whole.script)
            steps = tuple(parse_script(f"contract{{array={row} where=registers}}").steps[0] for row in self.rows)
            kept = replace(whole, script=str(Script((*script.steps, *steps), script.where)))
            if self.attempt(kept.script) is None:
                yield kept
        yield whole

    def attempt(self, script: str) -> Refused | None:
        """Why ``script`` does not apply, or None."""
        built = self.build(Proposal(script, ""))
        return None if isinstance(built, Candidate) else Refused(built.code, built.detail)

    def kernel(self, script: str) -> Kernel | None:
        """The kernel after ``script``, knobs open; None where it does not apply."""
        built = self.build(Proposal(script, ""))
        return built.kernel if isinstance(built, Candidate) else None

    def _build(self, p: Proposal) -> Candidate | Outcome:
        from ktc.ir.text import canonical, print_kernel
        from ktc.passes.core.language import parse_script
        from ktc.passes.core.pipeline import PassBug, apply_script
        from ktc.passes.lowering import materialise

        def no(code: str, why: str, status: str = "refused") -> Outcome:
            return Outcome(p.script, status, why, code=code, planner=p.planner, reason=p.reason)

        if len(p.script) > MAX_SCRIPT_CHARS:
            return no("E-SCRIPT-LIMIT", f"the script is longer than {MAX_SCRIPT_CHARS} characters")
        try:
            script = parse_script(p.script)
            if len(script.steps) > MAX_STEPS:
                return no("E-SCRIPT-LIMIT", f"{len(script.steps)} steps; the limit is {MAX_STEPS}")
            with time_limits.until(self._shares.until("planned") if script.steps else math.inf):
                applied = apply_script(self.original, script, self._steps)
                if applied.refused is not None:
                    r, step = applied.refused, applied.step
                    hint = f" ({r.hint})" if r.hint else ""
                    return no(r.code, f"{step.name if step else ''}: {r.why}{hint}")
                lowered = materialise(applied.kernel)
        except PassBug as e:
            return no("E-PASS-BUG", str(e).partition("\n---")[0], "failed")
        except KtcError as e:
            return no(e.code, e.message)
        except time_limits.OutOfTime:
            if time_limits.is_over():  # of who asks
                raise
            return no(OUT_OF_TIME, "the time limit was over before it was built")
        text = print_kernel(canonical(lowered.with_(trace=()))) + repr(
            [(k.name, k.domain, k.value) for k in applied.kernel.knobs]
        )
        if self.as_loops:
            text += print_kernel(canonical(applied.kernel.with_(trace=())))
        notes = tuple(n for r in applied.results for n in r.notes)
        return Candidate(p.script, applied.kernel, hashlib.sha256(text.encode()).hexdigest()[:16], notes, p)
