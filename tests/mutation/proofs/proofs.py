"""Proofs that a surviving mutant means what the candidate means. Having passed the ladder is not one.

* the same normal form, launch and guards; of a sequence, launch by launch (:mod:`.launches`);
* on symbols, all threads of a block leave the same terms behind (:mod:`..symbolic.symbolic`);
* the one integer or boolean expression in which they differ has the same value under the facts that hold there, for all
  sizes that the workload promises (z3);
* what one does and the other does not (a guarded statement, an iteration, threads) has no effect
  (:mod:`..symbolic.effects`), or adds nothing but zeros (:mod:`..zeros.idle`);
* a guard that sends arguments to the original for which the kernel does the same (:mod:`..maxima.maps`), or of a step
  without which the script makes the same program (:mod:`.derived`);
* the identity of a maximum that a later maximum covers (:mod:`..maxima.absorbed`);
* a barrier between whose neighbours no two accesses conflict (:mod:`..symbolic.barriers`), or across which no thread
  meets another one (:mod:`..symbolic.crossing`);
* what differs is read nowhere, or lies beyond all subscripts (:mod:`..zeros.masked`);
* a thread reads back what it stored before a barrier;
* one thread does what another did, or does it twice to no effect (:mod:`..symbolic.single`), or is the only one that
  comes (:mod:`.arrival`), or another one does what concerns the whole block (:mod:`.elected`);
* what some lanes alone agree on is asked of no others (:mod:`..maxima.lanes`);
* a definition of which each use says the same (:mod:`.uses`);
* maxima over the same elements, visited otherwise (:mod:`..maxima.visits`);
* blocks that do one another's work (:mod:`.permuted`), rounds of a loop in another order (:mod:`..maxima.reordered`);
* arrays of another type (:mod:`.arrays`), values that the type they are rounded to holds already
  (:mod:`..zeros.formats`).
"""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

from ktc.ir.analysis.uniformity import uniformity
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import AddrOf, Assign, Barrier, Body, Call, Expr, For, If, Load, Return, Stmt, Sym, WarpOp
from ktc.ir.text import canonical
from ktc.ir.walk import declared, stmt_exprs, walk, walk_expr
from ktc.ir.workload import Workload
from ktc.search.verification.integers import smt
from ktc.search.verification.integers.ranges import wraps
from ktc.search.verification.integers.statement_context import stays_in_type
from ktc.search.verification.rungs.normal_form import normal
from tests.mutation.maxima.lanes import Window, unasked
from tests.mutation.maxima.maps import same_points
from tests.mutation.sites import BRANCHES
from tests.mutation.symbolic.barriers import needless
from tests.mutation.symbolic.crossing import keeps_nothing_apart
from tests.mutation.symbolic.effects import Quiet, no_effect, other_threads
from tests.mutation.symbolic.effort import Effort
from tests.mutation.symbolic.single import stored_twice
from tests.mutation.symbolic.symbolic import same_effect
from tests.mutation.symbolic.symbolic_values import WARP

from .arms import same_arms
from .arrays import other_array
from .derived import derived
from .differences import Difference, same_statement, unguarded
from .elected import elected
from .extents import extents
from .launches import same_launches

ITSELF = "a barrier before, or after, what a thread does with variables of its own"
APART = "no two accesses that the barrier keeps apart meet without it"


def equivalent(
    candidate: Kernel, mutant: Kernel, original: Kernel | None = None, workload: Workload | None = None
) -> str:
    """Why the two are the same function of their inputs, on every launch; '' if that is not proved. ``original``: what
    is run where an assumption of the candidate does not hold; ``workload``: what promises how large buffers are."""
    same_body = candidate.body == mutant.body
    if candidate.is_sequence != mutant.is_sequence:
        return ""
    if not candidate.is_sequence and (found := other_array(candidate, mutant)):
        return found
    if canonical(candidate).launch != canonical(mutant).launch:
        comparable = same_body and candidate.assumptions == mutant.assumptions
        kept = comparable and not _wraps(mutant) - _wraps(candidate)
        return other_threads(candidate, mutant, _promised(candidate, workload)) if kept else ""
    if any(a not in candidate.assumptions for a in mutant.assumptions):
        return ""
    dropped = [a for a in candidate.assumptions if a not in mutant.assumptions]
    if dropped:
        return _without(dropped, mutant, original) if same_body else ""
    if normal(candidate) == normal(mutant):
        return "the same normal form"
    if candidate.is_sequence:
        return same_launches(candidate, mutant, lambda a, b: equivalent(a, b, None, workload))
    if _wraps(mutant) - _wraps(candidate):
        return ""
    context = smt.Context(candidate, extents=_promised(candidate, workload))
    return _Search(candidate, mutant).bodies(candidate.body, mutant.body, context, ())


def _promised(kernel: Kernel, workload: Workload | None) -> dict[Sym, Expr]:
    return extents(kernel, workload) if workload is not None else {}


@dataclasses.dataclass
class _Search:
    """Descends to where two kernels differ, and tries there first."""

    candidate: Kernel
    mutant: Kernel
    moved: bool = False
    """A barrier stands elsewhere: runs in lockstep, which take for granted that nothing races, say nothing then."""
    once: set[int] = dataclasses.field(default_factory=set)
    """By ``id``, the loops of the candidate around the difference that run at most once."""

    effort: Effort = dataclasses.field(default_factory=Effort)
    """What symbolic runs may cost from here on."""

    def bodies(self, a: Body, b: Body, context: smt.Context, after: Body | None) -> str:
        """The proof about two bodies in one place. ``after`` runs once they have ended; None if that is not known."""
        found = self._inside(a, b, context, after)
        if found or self.moved:
            return found
        k = next((k for k, (s, t) in enumerate(zip(a, b)) if s != t), min(len(a), len(b)))
        ending = next((n for n, (s, t) in enumerate(zip(a[:k:-1], b[:k:-1])) if s != t), min(len(a), len(b)) - k - 1)
        first, last = max(k - 1, 0), max(ending, 0)
        parts = a[first : len(a) - last], b[first : len(b) - last]
        return (
            self._unasked(Window(a, k, len(a) - last), Window(b, k, len(b) - last))
            or same_effect(*parts, self.candidate, None, self.effort, part=True, everyone=self._everyone(*parts))
            or self._to_the_end(a, b, k, after)
            or self._since_met(a, b, k, after)
            or same_effect(a, b, self.candidate, after, self.effort, everyone=self._everyone(a, b))
        )

    def _to_the_end(self, a: Body, b: Body, first: int, after: Body | None) -> str:
        """From the difference on: what comes before it need not be known."""
        rest, other, ending = a[first:], b[first:], set(declared(a[:first]))
        everyone = self._everyone(rest, other)
        return same_effect(rest, other, self.candidate, after, self.effort, everyone=everyone, ending=ending)

    def _since_met(self, a: Body, b: Body, first: int, after: Body | None) -> str:
        """From what was done last before the threads met: it says what is read back behind the barrier."""
        met = next((k for k in range(first - 1, -1, -1) if isinstance(a[k], Barrier)), 0)
        return self._to_the_end(a, b, met - 1, after) if met else ""

    def _unasked(self, mine: Window, theirs: Window) -> str:
        everyone = self._everyone(mine.part, theirs.part)
        return unasked(self.candidate, self.mutant, mine, theirs, everyone, self.effort)

    def _inside(self, a: Body, b: Body, context: smt.Context, after: Body | None) -> str:
        if len(a) != len(b):
            return self._missing(a, b, context)
        for k, (s, t) in enumerate(zip(a, b)):
            if s == t:
                context.after(s)
                continue
            if b == (*a[:k], *a[k : k + 2][::-1], *a[k + 2 :]) and any(isinstance(x, Barrier) for x in (s, t)):
                self.moved = True
                return self._beside(a, k)
            if a[k + 1 :] != b[k + 1 :]:
                return ""
            if isinstance(s, Barrier) and t == replace(s, scope="warp") and self._needless(a, k, WARP):
                return APART
            if found := elected(self.candidate, a, k, t):
                return found
            rest = None if after is None else (*a[k + 1 :], *after)
            return self._statements(Difference(self.candidate, self.mutant, s, t, context, a[:k], a[k + 1 :]), rest)
        return ""

    def _everyone(self, a: Body, b: Body) -> bool:
        """Whether all threads of a block come to the parts ``a`` and ``b`` of the two kernels."""
        if a is self.candidate.body and b is self.mutant.body:
            return True
        for kernel, part in ((self.candidate, a), (self.mutant, b)):
            facts = uniformity(kernel)
            left = any(isinstance(s, Return) and facts.is_divergent(s) for s in walk(kernel.body))
            if left or any(facts.is_divergent(s) for s in part[:1]):
                return False
        return True

    def _missing(self, a: Body, b: Body, context: smt.Context) -> str:
        """One statement was left out, or the guard around its body was."""
        k = next((k for k, (s, t) in enumerate(zip(a, b)) if s != t), min(len(a), len(b)))
        for s in a[:k]:
            context.after(s)
        if k and b == (*a[:k], *a[k - 1 :]) and stored_twice(a[k - 1], context):
            return "z3: a maximum of a value that it holds already"
        if k >= len(a):
            return ""
        s = a[k]
        if b == (*a[:k], *a[k + 1 :]) and no_effect((s,), context.branch(), Quiet(loads=True)):
            return "z3: the statement that is left out does nothing"
        if isinstance(s, Barrier) and b == (*a[:k], *a[k + 1 :]) and self._needless(a, k):
            return APART
        if isinstance(s, If) and b == (*a[:k], *s.then, *a[k + 1 :]):
            return same_arms(self.candidate, s, context) or unguarded(self.candidate, s, context, a[:k])
        if isinstance(s, If) and s.orelse and b == (*a[:k], *s.orelse, *a[k + 1 :]):
            return same_arms(self.candidate, s, context)
        return ""

    def _needless(self, body: Body, k: int, group: int = 1) -> bool:
        """Whether the barrier ``body[k]`` may be left out; ``group``: so many threads in a row stay ordered."""
        s = body[k]
        return isinstance(s, Barrier) and s.scope == "block" and (
            needless(body, k, self.candidate) or keeps_nothing_apart(s, self.candidate, group, self.once))  # fmt: skip

    def _beside(self, a: Body, k: int) -> str:
        """A barrier and its neighbour, the statement ``k`` of ``a`` one of them, changed places: with a barrier on
        either side of the statement, either one must be needless."""
        barrier, between = (a[k], a[k + 1]) if isinstance(a[k], Barrier) else (a[k + 1], a[k])
        if not isinstance(barrier, Barrier) or barrier.scope != "block" or isinstance(between, Barrier):
            return ""
        if _for_itself(between):
            return ITSELF
        ends = replace(barrier), replace(barrier)
        both = _with_body(self.candidate.body, a, (*a[:k], ends[0], between, ends[1], *a[k + 2 :]))
        kernel = self.candidate.with_(body=both)
        return APART if all(keeps_nothing_apart(s, kernel) for s in ends) else ""

    def _statements(self, d: Difference, after: Body | None) -> str:
        found = same_statement(d)
        if found or type(d.s) is not type(d.t) or len(d.names) != 1 or d.names[0] not in BRANCHES:
            return found
        if isinstance(d.s, For):
            if d.context.branch().at_most_once(d.s):
                self.once.add(id(d.s))
            d.context.count(d.s)
        (name,) = d.names
        d.context.enter(d.s, name)
        return self.bodies(getattr(d.s, name), getattr(d.t, name), d.context, None if isinstance(d.s, For) else after)


def _for_itself(s: Stmt) -> bool:
    """Whether ``s`` is one thread's own business: it gives a variable a value, made of variables alone."""
    parts = [e for top in stmt_exprs(s) for e in walk_expr(top)]
    shared = any(isinstance(e, Load | WarpOp | AddrOf) or (isinstance(e, Call) and e.effects != "pure") for e in parts)
    return isinstance(s, Assign) and not shared


def _wraps(kernel: Kernel) -> set[Expr]:
    """Integer arithmetic that may leave its type, which formulas take no notice of: code that is run more often than it
    was may do so."""
    ranges = {p.sym.name: (low, high) for p in kernel.params for low, high in [p.range] if None not in (low, high)}
    found = wraps(kernel, ranges)  # type: ignore[arg-type]
    return {w.expr for w in found if not stays_in_type(kernel, w.stmt, w.expr, ranges)}  # type: ignore[arg-type]


def _with_body(body: Body, old: Body, new: Body) -> Body:
    """``body`` with the very body ``old``, itself or inside it, replaced."""
    if body is old:
        return new
    out = []
    for s in body:
        for name in BRANCHES:
            inner = getattr(s, name, ())
            changed = _with_body(inner, old, new) if inner else inner
            if changed is not inner:
                changes: dict[str, Any] = {name: changed}
                s = replace(s, **changes)
        out.append(s)
    return tuple(out) if any(x is not y for x, y in zip(out, body)) else body


def _without(dropped: list[Assume], mutant: Kernel, original: Kernel | None) -> str:
    """Why ``mutant`` need not assume what the candidate does, with the same body."""
    if _always(mutant, dropped):
        return "the dropped guard always holds"
    if original is None:
        return ""
    if not _wraps(mutant) and same_points(original, mutant):
        return "z3: it does what the original does wherever the dropped guard does not hold"
    step = derived(original, mutant)
    return f"the script without '{step}' makes the same program, and asks for no such guard" if step else ""


def _always(kernel: Kernel, dropped: list[Assume]) -> bool:
    context = smt.Context(kernel)
    return all(context.proves(context.truth(a.expr)) for a in dropped)


__all__ = ["equivalent"]
