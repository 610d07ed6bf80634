"""The exact check that ends every raise: source and guess run in the interpreter on small synthetic launches.

Inputs are invented from the signature: small integers that respect the assumptions, buffers of random exact values.
Equality is bit for bit in the integer and finite-field domains, where reassociation is invisible and a wrong term is
not.

What a check may cost is counted in work of the interpreter, not in seconds: all machines raise the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from itertools import chain
from math import inf

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.interp.equivalence import Mismatch, compare, shows_order
from ktc.ir.interp.execution.run_state import work_of
from ktc.ir.interp.run import run
from ktc.ir.interp.run_results import RunResult
from ktc.ir.interp.sanitizer.findings import Finding
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Alloc, Atomic, Decl, Stmt, Store
from ktc.ir.types import Array, Ptr, Scalar, Vec, scalar_of
from ktc.ir.walk import all_exprs, walk

from .beyond_integers import arguments_beyond, unlike
from .buffer_extents import with_room
from .chosen_sets import ChosenSets
from .invented_arguments import Arguments, invented_arguments, scalars_of
from .run_length import allowed
from .small_launches import acceptable, launched, least_statements
from .work_budget import CHECK_FUEL, CHOOSING_WORK, Budget, endless, is_unchecked, too_long, unchecked

STEPS_OF_A_GUESS = 16
"""Statements of a guess for one of the source, where no rounds of loops run at once."""

ROUNDS_APART = 2
"""Statements of a guess for one that the source would take if none of its rounds ran at once."""

LAUNCHED_TRIED = 6
NONE_SUCH = unchecked("no small launch satisfies what would have to be assumed")
MEASURED = 6
"""Instances on which it is measured how far buffers are reached."""

FRESH_WORK = 25_000
"""Work for comparing on sets that played no part in choosing."""

FRESH_CHOOSING = FRESH_WORK / 4
"""Work for choosing these, of each draw: what is chosen when nothing is left is compared with nothing."""

FRESH, FRESH_SEED, FRESH_SIZES, FRESH_DRAWS = 3, 20011, range(1, 160), 3


def differs(source: Kernel, guess: Kernel, *, instances: int = 4, seed: int = 7) -> str:
    """'' if the two agree on every instance, else what differs. 'no instance' if none could be made."""
    return Reference(source, instances=instances, seed=seed).differs(guess)


class Reference(ChosenSets):
    """A source kernel, the instances it is run on, and what it does there; guesses are compared with it."""

    _fresh: Reference | None = None
    _refuter: tuple[int, str] | None = None
    """The instance, and the domain, in which the last guess came out wrong: the next one most likely does, too."""
    _begun: tuple[Kernel, int, str, RunResult] | None = None
    """A guess, and what it does on the instance, and in the domain, that come first."""
    _ordered: bool | None = None
    """Whether what the source leaves is the same whoever comes first; None where nobody has asked yet."""

    @cached_property
    def has_floats(self) -> bool:
        """Whether the source computes with floats, of which alone domains make different numbers."""
        made = (s.sym.type for s in walk(self.source.body) if isinstance(s, Decl | Alloc))
        types = chain(made, (p.sym.type for p in self.source.params), (e.type for e in all_exprs(self.source.body)))
        return any(not isinstance(t, Scalar | Vec | Ptr | Array) or scalar_of(t).is_float for t in types)

    def anew(self) -> Reference:
        """The same source and instances, and what it does there, with the budget that was left when these were chosen:
        for guesses of another kind, that are to be checked as if they were the first."""
        other = copy(self)
        other.budget = Budget(self.budget.most, self.chosen_work)
        other._fresh = self._fresh.anew() if self._fresh is not None else None
        other._refuter = other._begun = None
        return other

    @property
    def never_run(self) -> list[Stmt]:
        """The first statements of the source's branches that no instance entered."""
        return [s for s in walk(self.source.body) if id(s) in self.unreached]

    def differs_afresh(self, guess: Kernel, domains: Sequence[str], given: Sequence[Assume] = ()) -> str:
        """``differs`` on instances of any small size that played no part in choosing; '' where no budget is left."""
        if self.late:
            return ""
        if self._fresh is None:
            self._fresh = self._drawn_afresh()
        wrong = self._fresh.differs(guess, domains, None, given) if self._fresh.sets else ""
        return "" if is_unchecked(wrong) else wrong

    def _drawn_afresh(self) -> Reference:
        """Of some draws the first of which the source has a meaning, as it has of the sets here; one without sets if
        there is none: of a source that races nothing is known."""
        budget = Budget(FRESH_WORK)
        for k in range(FRESH_DRAWS):
            drawn = Reference(
                self.source,
                instances=FRESH,
                seed=FRESH_SEED + k,
                sizes=FRESH_SIZES,
                budget=budget,
                choosing=FRESH_CHOOSING,
            )
            if drawn.defects <= self.defects or not drawn.sets:
                return drawn
        drawn.sets.clear()
        return drawn

    def reaches_beyond(self, facts: Sequence[Assume]) -> bool:
        """Whether each of ``facts`` is false on an instance that has something of everything."""
        sizes = [scalars_of(args) for args in self.sets]
        known = [self.source.environment(s) for s in sizes if min(s.values(), default=1) >= 1]
        return all(any(evaluate(f.expr, env) in (False, 0) for env in known) for f in facts)

    def other_nan(self, guess: Kernel) -> str:
        """'' if ``guess`` leaves NaN where the source does, and nowhere else, on every instance that it is made for and
        that has something of everything: of rows without an element not even the source makes sense."""
        for args in self.sets:
            scalars = scalars_of(args)
            if self.late or min(scalars.values(), default=1) < 1 or not acceptable(guess, scalars, scalars):
                continue
            first, second = (self.budget.run(k, args, "float", CHECK_FUEL) for k in (self.source, guess))
            for name, x in first.outputs.items():
                if x.dtype.kind == "f" and (np.isnan(x) != np.isnan(second.outputs[name])).any():
                    return f"'{name}' is not a number in other places"
        return ""

    def differs_at_once(self, guess: Kernel, domains: Sequence[str], given: Sequence[Assume] = ()) -> str:
        """``differs`` on the instance, and in the domain, that most likely tell; :meth:`differs` goes on from there."""
        if self._refuter is not None and self._refuter[1] in domains:
            domains = self._refuter[1:]
        wrong = self.differs(guess, domains[:1], 1, given, likeliest=True)
        return "" if is_unchecked(wrong) and self.sets else wrong

    def differs(
        self,
        guess: Kernel,
        domains: Sequence[str] = ("int", "field"),
        most: int | None = None,
        given: Sequence[Assume] = (),
        *,
        likeliest: bool = False,
    ) -> str:
        """'' if ``guess`` leaves the same bits on every instance and has no defect that the source lacks.

        ``most``: how many instances at most; ``given``: those for which this holds. ``likeliest``: beginning with the
        one that refuted the guess before, as where all are looked at.
        """
        if not self.sets:
            return self.why_none
        domains = domains if self.has_floats else domains[:1]
        compared = 0
        ended: set[str] = set()
        likeliest = likeliest or most is None
        likely, how = self._refuter if self._refuter is not None and likeliest else (0, domains[0])
        for number, args in sorted(enumerate(self.sets), key=lambda s: s[0] != likely):
            if compared == most or not self._holds(given, args):
                continue
            compared += 1
            before: RunResult | None = None
            for domain in sorted(domains, key=lambda d: d != how) if number == likely else domains:
                if self.late:
                    return too_long()
                first = self._run(number, domain)
                if (
                    not first.ended
                ):  # it stopped in the midst: loops that run to floats, of which fields make any number
                    continue
                ended.add(domain)
                known = {f.kind for f in first.findings}
                try:
                    second = before = self._guessed(guess, number, domain, first, before)
                except (ValueError, TypeError, IndexError) as error:  # an ill-typed guess, not a wrong value
                    return f"the guessed form cannot be run: {error}"
                except KtcError as error:
                    return f"the guessed form cannot be run: {error.message}"
                new = next((f for f in second.findings if f.kind not in known), None)
                if new is not None and new.kind == "fuel" and not new.certain:
                    return unchecked(f"the guessed form {new.message}, where the source takes {first.steps:,}")
                difference = new or compare(first, second, domain, number)
                if difference is not None:
                    self._refuter = number, domain
                    return f"{self._place(difference)}{difference}"
        if not compared:
            return NONE_SUCH
        if most is None and shows_order(guess) and (wrong := self._differs_in_order(guess, domains[0], given)):
            return wrong
        return "" if ended >= set(domains) else unchecked("the source did not end in any small launch")

    def _guessed(
        self, guess: Kernel, number: int, domain: str, first: RunResult, before: RunResult | None
    ) -> RunResult:
        """What ``guess`` does on an instance on which the source does ``first``; ``before``: in another domain."""
        if self._begun is not None and self._begun[0] is guess and self._begun[1:3] == (number, domain):
            return self._begun[3]
        known = {f.kind for f in first.findings}
        result = self.budget.run(guess, self.sets[number], domain, _fuel_of_a_guess(first), known, before)
        if self._begun is None or self._begun[0] is not guess:
            self._begun = guess, number, domain, result
        return result

    def _differs_in_order(self, guess: Kernel, domain: str, given: Sequence[Assume]) -> str:
        """'' if ``guess`` leaves the same with its atomics in the opposite order, where the source always does: what
        one thread orders by itself, for all that it counts, its callers may count on."""
        if not self._keeps_order(domain):
            return ""
        for number, args in enumerate(self.sets):
            if self.late:
                return too_long()
            first = self._run(number, domain)
            if first.ended and self._holds(given, args):
                known = {f.kind for f in first.findings}
                second = self.budget.run(guess, args, domain, _fuel_of_a_guess(first), known, backwards=True)
                new = next((f for f in second.findings if f.kind not in known), None)
                if new is not None and new.kind == "fuel":
                    return too_long()
                difference = new or compare(first, second, domain, number)
                if difference is not None:
                    return f"{self._place(difference)}where atomics come in another order, {difference}"
        return ""

    def _keeps_order(self, domain: str) -> bool:
        """Whether no result of the source hangs on the order of its atomics, on any instance."""
        if self._ordered is None:
            self._ordered = True
            for number, args in enumerate(self.sets):
                first = self._run(number, domain)
                if first.ended and not self.late:
                    kinds = {f.kind for f in first.findings}
                    second = self.budget.run(self.source, args, domain, CHECK_FUEL, kinds, backwards=True)
                    self._ordered = second.ended and compare(first, second, domain, number) is None
                if not self._ordered:
                    break
        return self._ordered

    def differs_beyond(self, guess: Kernel, given: Sequence[Assume] = ()) -> str:
        """``differs`` on floats that the exact domains do not hold, where the source has such a number."""
        args = next((a for a in self.sets if self._holds(given, a)), None)
        for far in arguments_beyond(self.source, args, FRESH_SEED) if args is not None else ():
            if self.late:
                return too_long()
            first, second = (self.budget.run(k, far, "float", CHECK_FUEL) for k in (self.source, guess))
            difference = unlike(self.source, first, second) if first.ended and first.ok else None
            if difference is not None:
                return f"{self._place(difference)}{difference}"
        return ""

    def reaches_further(self, guess: Kernel, given: Sequence[Assume] = ()) -> str:
        """'' if ``guess`` touches no element of a buffer in front of all that its source touches, or behind it; else
        which. Buffers of the instances may be longer than what the source needs: a form that reads again what threads
        kept does not leave them there, and the values are nobody's."""
        holding = [args for args in self.sets if self._holds(given, args)]
        for args in holding[:MEASURED]:
            if self.late:
                return ""
            first, second = (run(k, args, domain="int", fuel=CHECK_FUEL, measure=True) for k in (self.source, guess))
            for name, (low, high) in second.reach.items():
                least, most = first.reach.get(name, (inf, -inf))
                if low < least or high > most:
                    return f"'{name}' is touched at {high if high > most else low}, which the source does not reach"
        return ""

    def _place(self, difference: Finding | Mismatch) -> str:
        """Where the source first stores to the buffer that came out otherwise: a defect says itself where it is."""
        stores = (s for s in walk(self.source.body) if isinstance(s, Store | Atomic))
        loc = next((s.loc for s in stores if s.loc and s.buffer.name == difference.buffer), None)
        return f"{loc}: " if loc and isinstance(difference, Mismatch) else ""

    def _holds(self, facts: Sequence[Assume], args: Arguments) -> bool:
        if not facts:
            return True
        env = self.source.environment(scalars_of(args))
        return all(evaluate(a.expr, env) in (True, 1, None) for a in facts)


def _fuel_of_a_guess(source: RunResult) -> int:
    """Statements that a run of a guess may take, where one of its source took so many."""
    apart = min(CHECK_FUEL, ROUNDS_APART * (source.steps + source.spared))
    return max(CHECK_FUEL // 10, STEPS_OF_A_GUESS * source.steps, apart)


def differs_as_launched(source: Kernel, guess: Kernel) -> str:
    """'' if the two leave the same on one set of small sizes on which the source has no defect; else what differs.

    For launches so large that many runs of them would take long; not even one is made where it would take more work
    than there is for choosing sets.
    """
    budget = Budget()
    least = least_statements(source)
    if least > CHECK_FUEL:
        return endless()
    if least * work_of(threads := launched(source, {})) > CHOOSING_WORK:
        return unchecked(f"one run takes {least:,.0f} statements of {threads:,} threads")
    for args in invented_arguments(source, LAUNCHED_TRIED, 7, within=allowed(source, least)):
        args, first = with_room(source, args, 0, lambda a: budget.run(source, a, "int", CHECK_FUEL, ()))
        if budget.spent:
            return too_long()
        if first.ok:
            second = budget.run(guess, args, "int", CHECK_FUEL, ())
            if not second.ended:
                return too_long()
            return str(compare(first, second, "int", 0) or "")
    return unchecked("the source has a defect in every launch that was tried")


__all__ = ["Reference", "differs", "differs_as_launched"]
