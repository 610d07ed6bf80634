"""The exact check that ends every raise: source and guess run in the interpreter on small synthetic launches.

Inputs are invented from the signature: small integers that respect the assumptions, buffers of random exact values.
Equality is bit for bit in the integer and finite-field domains, where reassociation is invisible and a wrong term is
not.

What a check may cost is counted in work of the interpreter, not in seconds: all machines raise the same.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.interp import run
from ktc.ir.interp.equivalence import Mismatch, compare
from ktc.ir.interp.run import RunResult
from ktc.ir.interp.sanitizer.findings import Finding
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Atomic, Stmt, Store
from ktc.ir.walk import walk

from .buffer_extents import with_room
from .invented_arguments import (
    MAX_FIXED,
    SIZES,
    Arguments,
    acceptable,
    chooses,
    constants,
    extreme_arguments,
    far_apart,
    invented_arguments,
    launched,
    values_around,
)
from .large_arguments import far_arguments
from .size_ties import tied_arguments

MOST_TRIED = 40
CHECK_FUEL = 20_000
CHOOSING_WORK, CHECK_WORK = 30_000, 200_000
"""Work (``RunResult.work``) for choosing sets, and for a whole check; 10,000 are about a second."""

FAR_FUEL, FAR_WORK = 10_000, 4_000
"""Statements and work of one run at sizes beyond what the source reaches at once."""

BACKSTOP_SECONDS = 300.0
TOO_LONG = f"the check takes more than {CHECK_WORK:,} statements on small sizes"
NONE_SUCH = "no small launch satisfies what would have to be assumed"
FRESH, FRESH_SEED, FRESH_SIZES, FRESH_DRAWS = 3, 20011, range(1, 160), 3
AROUND = 2
"""How many sets are repeated with values around the source's constants."""


@dataclass
class Budget:
    """What a check has used up."""

    work: float = 0.0
    began: float = field(default_factory=time.process_time)

    @property
    def spent(self) -> bool:
        """The seconds only stop what the work does not measure: far beyond what it takes anywhere."""
        return self.work > CHECK_WORK or time.process_time() - self.began > BACKSTOP_SECONDS

    def run(
        self, kernel: Kernel, args: Arguments, domain: str, fuel: int, known: Container[str] | None = None
    ) -> RunResult:
        """A run at the cost of this budget, up to the first defect of a kind that is not ``known`` (None: all are)."""
        fatal = None if known is None else lambda f: f.kind not in known
        result = run(kernel, args, domain=domain, fuel=fuel, fatal=fatal)
        self.work += result.work
        return result


def differs(source: Kernel, guess: Kernel, *, instances: int = 4, seed: int = 7) -> str:
    """'' if the two agree on every instance, else what differs. 'no instance' if none could be made."""
    return Reference(source, instances=instances, seed=seed).differs(guess)


class Reference:
    """A source kernel, the instances it is run on, and what it does there; guesses are compared with it.

    Instances are chosen so that together they reach as much of the source as the invented sizes can: a guess that was
    never exercised is not a checked one. ``unreached`` is what no instance reached.
    """

    def __init__(
        self,
        source: Kernel,
        *,
        instances: int = 4,
        seed: int = 7,
        sizes: Sequence[int] = (),
        budget: Budget | None = None,
    ) -> None:
        self.source, self.sizes = source, sizes or SIZES
        self._fresh: Reference | None = None
        self._runs: dict[tuple[int, str], RunResult] = {}
        self.sets: list[Arguments] = []
        self.unreached: frozenset[int] = frozenset()
        self.endless, self.clean = False, False
        self.budget = budget or Budget()
        self._choose(instances, seed)

    @property
    def late(self) -> bool:
        """Whether the whole check has used up its budget: what is not checked by then is not raised."""
        return self.budget.spent

    def _choose(self, instances: int, seed: int) -> None:
        """Sets on which the source has no defect, if there are any; the first ones, then those that reach more."""
        most, missing, clean = self.budget.work + CHOOSING_WORK, None, False
        for tried, args in enumerate(invented_arguments(self.source, MOST_TRIED, seed, self.sizes)):
            late = self.budget.work > most
            if len(self.sets) >= instances and (late or (clean and (not missing or tried > 3 * instances))):
                break
            if late and (self.sets or self.endless):
                break
            args, result = self._with_room(args, clean)
            if any(f.kind == "fuel" for f in result.findings):
                self.endless = True
                continue
            if result.ok and not clean:
                self.sets, self._runs, missing, clean = [], {}, None, True
            here = frozenset(id(s) for s in result.unreached)
            new = missing is None or not missing <= here
            if result.ok >= clean and (new or len(self.sets) < instances):
                self._runs[len(self.sets), "int"] = result
                self.sets.append(args)
                missing = here if missing is None else missing & here
        self.unreached, self.clean = missing or frozenset(), clean
        self._tied(seed, clean)
        self._around_constants(seed, clean)
        self._far_apart(seed, clean)
        self._add(extreme_arguments(self.source, seed, self.sizes), clean)
        self._beyond_reach(seed, clean)

    def _with_room(self, args: Arguments, clean: bool, fuel: int = CHECK_FUEL) -> tuple[Arguments, RunResult]:
        fatal = () if clean else None
        return with_room(
            self.source, args, len(self.sets), lambda a: self.budget.run(self.source, a, "int", fuel, fatal)
        )

    def _tied(self, seed: int, clean: bool) -> None:
        """Sets of which sizes are as the source compares them, where that leads somewhere new."""
        for args in tied_arguments(self.source, self.sets, seed):
            if self.late or not self.unreached:
                return
            result = self.budget.run(self.source, args, "int", CHECK_FUEL, () if clean else None)
            ended = not any(f.kind == "fuel" for f in result.findings)
            if ended and result.ok >= clean and not self.unreached <= frozenset(id(s) for s in result.unreached):
                self._take(args, result)

    def _beyond_reach(self, seed: int, clean: bool) -> None:
        """Sets larger than what the source's blocks and tiles hold at once, as far as that is cheap."""
        if self.sizes is not SIZES:
            return
        for candidates in far_arguments(self.source, seed):
            for args in candidates:
                if self.late:
                    return
                args, result = self._with_room(args, clean, FAR_FUEL)
                if (
                    result.ok >= clean
                    and result.work <= FAR_WORK
                    and not any(f.kind == "fuel" for f in result.findings)
                ):
                    self._take(args, result)
                    break

    def _take(self, args: Arguments, result: RunResult) -> None:
        self.unreached &= frozenset(id(s) for s in result.unreached)
        self._runs[len(self.sets), "int"] = result
        self.sets.append(args)

    def _around_constants(self, seed: int, clean: bool) -> None:
        """The sets once more with values on both sides of the source's constants, where it has no defect on them.

        A start value of -100 and a maximum of small positive values look like a maximum without a start value.
        """
        limits = constants(self.source)
        for k, args in enumerate(self.sets[:AROUND] if limits else ()):
            self._add([{**args, **values_around(self.source, limits, args, seed + k)}], clean)

    def _far_apart(self, seed: int, clean: bool) -> None:
        """The largest sets once more with values that are all different, where the source picks some by their size."""
        if not chooses(self.source):
            return
        for number in sorted(range(len(self.sets)), key=lambda n: -self._runs[n, "int"].work)[:AROUND]:
            args = self.sets[number]
            self._add(
                ({**args, **far_apart(self.source, args, seed + number, whole)} for whole in (True, False)), clean
            )

    def _add(self, more: Iterable[Arguments], clean: bool) -> None:
        """Further sets, those on which the source has no defect (or none had)."""
        longest = max((r.steps for r in self._runs.values()), default=0)
        fuel = min(2 * CHECK_FUEL, max(CHECK_FUEL // 4, 8 * longest))  # sizes below zero often mean loops without end
        for args in more if self.sets else ():
            if self.late:
                break
            result = self.budget.run(self.source, args, "int", fuel, () if clean else None)
            if any(f.kind == "fuel" for f in result.findings):
                fuel = min(fuel, max(CHECK_FUEL // 20, 2 * longest))  # the next one is rarely better
            elif result.ok >= clean:
                self._take(args, result)

    @property
    def never_run(self) -> list[Stmt]:
        """The first statements of the source's branches that no instance entered."""
        return [s for s in walk(self.source.body) if id(s) in self.unreached]

    def _run(self, number: int, domain: str) -> RunResult:
        key = number, domain
        if key not in self._runs:
            self._runs[key] = self.budget.run(self.source, self.sets[number], domain, CHECK_FUEL)
        return self._runs[key]

    def differs_afresh(self, guess: Kernel, domains: Sequence[str], given: Sequence[Assume] = ()) -> str:
        """``differs`` on instances of any small size that played no part in choosing; '' where no budget is left."""
        if self.late:
            return ""
        if self._fresh is None:
            self._fresh = self._drawn_afresh()
        wrong = self._fresh.differs(guess, domains, None, given) if self._fresh.sets else ""
        return "" if wrong in (TOO_LONG, NONE_SUCH) else wrong

    def _drawn_afresh(self) -> Reference:
        """Of some draws the first of which the source has a meaning, as it has of the sets here; one without sets if
        there is none: of a source that races nothing is known."""
        for k in range(FRESH_DRAWS):
            drawn = Reference(self.source, instances=FRESH, seed=FRESH_SEED + k, sizes=FRESH_SIZES, budget=self.budget)
            if drawn.clean >= self.clean or not drawn.sets:
                return drawn
        drawn.sets.clear()
        return drawn

    def reaches_beyond(self, facts: Sequence[Assume]) -> bool:
        """Whether each of ``facts`` is false on an instance that has something of everything."""
        sizes = [{n: v for n, v in args.items() if not isinstance(v, np.ndarray)} for args in self.sets]
        known = [self.source.environment(s) for s in sizes if min(s.values(), default=1) >= 1]
        return all(any(evaluate(f.expr, env) in (False, 0) for env in known) for f in facts)

    def other_nan(self, guess: Kernel) -> str:
        """'' if ``guess`` leaves NaN where the source does, and nowhere else, on every instance that it is made for and
        that has something of everything: of rows without an element not even the source makes sense."""
        for args in self.sets:
            scalars = {n: v for n, v in args.items() if not isinstance(v, np.ndarray)}
            if self.late or min(scalars.values(), default=1) < 1 or not acceptable(guess, scalars, scalars):
                continue
            first, second = (self.budget.run(k, args, "float", CHECK_FUEL) for k in (self.source, guess))
            for name, x in first.outputs.items():
                if x.dtype.kind == "f" and (np.isnan(x) != np.isnan(second.outputs[name])).any():
                    return f"'{name}' is not a number in other places"
        return ""

    def differs(
        self,
        guess: Kernel,
        domains: Sequence[str] = ("int", "field"),
        most: int | None = None,
        given: Sequence[Assume] = (),
    ) -> str:
        """'' if ``guess`` leaves the same bits on every instance and has no defect that the source lacks.

        ``most``: how many instances at most; ``given``: those for which this holds.
        """
        if not self.sets:
            if self.endless:
                return f"the source does not end within {CHECK_FUEL} statements on small sizes"
            threads = launched(self.source, {})
            if threads > MAX_FIXED:
                return f"the launch has {threads:,} threads at all sizes, and the check runs at most {MAX_FIXED:,}"
            return "no small launch satisfies the kernel's assumptions"
        compared = 0
        for number, args in enumerate(self.sets):
            if compared == most or not self._holds(given, args):
                continue
            compared += 1
            for domain in domains:
                if self.late:
                    return TOO_LONG
                first = self._run(number, domain)
                try:
                    known = {f.kind for f in first.findings}
                    second = self.budget.run(guess, args, domain, max(CHECK_FUEL // 10, 8 * first.steps), known)
                except (ValueError, TypeError, IndexError) as error:  # an ill-typed guess, not a wrong value
                    return f"the guessed form cannot be run: {error}"
                except KtcError as error:
                    return f"the guessed form cannot be run: {error.message}"
                new = next((f for f in second.findings if f.kind not in known), None)
                difference = new or compare(first, second, domain, number)
                if difference is not None:
                    return f"{self._place(difference)}{difference}"
        return "" if compared else NONE_SUCH

    def _place(self, difference: Finding | Mismatch) -> str:
        """Where the source first stores to the buffer that came out otherwise: a defect says itself where it is."""
        stores = (s for s in walk(self.source.body) if isinstance(s, Store | Atomic))
        loc = next((s.loc for s in stores if s.loc and s.buffer.name == difference.buffer), None)
        return f"{loc}: " if loc and isinstance(difference, Mismatch) else ""

    def _holds(self, facts: Sequence[Assume], args: Arguments) -> bool:
        if not facts:
            return True
        env = self.source.environment({n: v for n, v in args.items() if not isinstance(v, np.ndarray)})
        return all(evaluate(a.expr, env) in (True, 1, None) for a in facts)
