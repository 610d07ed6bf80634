"""Proofs that a surviving mutant means what the candidate means. Having passed the ladder is not one.

* the same normal form, launch and guards;
* on symbols, all threads of a block leave the same terms behind (:mod:`.symbolic`);
* the one integer or boolean expression in which they differ has the same value under the facts that hold there, for
  all sizes that the workload promises (z3);
* what one does and the other does not (a guarded statement, an iteration, threads) has no effect (:mod:`.effects`), or
  adds nothing but zeros (:mod:`.idle`);
* the identity of a maximum that a later maximum covers (:mod:`.absorbed`);
* a barrier between whose neighbours no two accesses conflict (:mod:`.barriers`), or across which no thread meets
  another one (:mod:`.crossing`);
* what differs is read nowhere, or lies beyond all subscripts (:mod:`.masked`);
* one thread does what another did, or does it twice to no effect (:mod:`.single`), or is the only one that comes
  (:mod:`.arrival`);
* maxima over the same elements, visited otherwise (:mod:`.visits`);
* blocks that do one another's work (:mod:`.permuted`), rounds of a loop in another order (:mod:`.reordered`);
* arrays of another type (:mod:`.arrays`), values that the type they are rounded to holds already (:mod:`.formats`).
"""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Barrier, Body, Decl, Expr, Fence, For, If, Return, Stmt
from ktc.ir.text import canonical
from ktc.ir.types import Scalar
from ktc.ir.uniformity import uniformity
from ktc.ir.walk import walk
from ktc.search.verification import smt
from ktc.search.verification.normal_form import normal

from .absorbed import absorbed
from .arrays import other_array
from .arrival import needs_no_atomic
from .barriers import needless
from .crossing import keeps_nothing_apart
from .effects import Quiet, fewer_threads, no_effect, other_iterations
from .formats import held_already
from .idle import Idle
from .masked import masked
from .permuted import permuted
from .reordered import reordered
from .single import other_thread, stored_twice
from .sites import BRANCHES
from .symbolic import same_effect
from .symbolic_values import WARP
from .visits import same_visits

MASKED = "z3: what is given values where the guard does not hold is read under that guard alone"

APART = "no two accesses that the barrier keeps apart meet without it"

_HIDDEN = ("loc", "comments", "tags", "spelling")


def equivalent(candidate: Kernel, mutant: Kernel) -> str:
    """Why the two are the same function of their inputs, on every launch; '' if that is not proved."""
    if smt.available() and (found := other_array(candidate, mutant)):
        return found
    if canonical(candidate).launch != canonical(mutant).launch:
        same_body = candidate.body == mutant.body and candidate.assumptions == mutant.assumptions
        return fewer_threads(candidate, mutant) if same_body and smt.available() else ""
    dropped = [a for a in candidate.assumptions if a not in mutant.assumptions]
    if dropped:
        return "the dropped guard always holds" if smt.available() and _always(mutant, dropped) else ""
    if normal(candidate) == normal(mutant):
        return "the same normal form"
    if not smt.available():
        return ""
    return _Search(candidate, mutant).bodies(candidate.body, mutant.body, smt.Context(candidate), ())


@dataclasses.dataclass
class _Search:
    """Descends to where two kernels differ, and tries there first."""

    candidate: Kernel
    mutant: Kernel
    moved: bool = False
    """A barrier stands elsewhere: runs in lockstep, which take for granted that nothing races, say nothing then."""
    once: set[int] = dataclasses.field(default_factory=set)
    """By ``id``, the loops of the candidate around the difference that run at most once."""

    def bodies(self, a: Body, b: Body, context: smt.Context, after: Body | None) -> str:
        """The proof about two bodies in one place. ``after`` runs once they have ended; None if that is not known."""
        found = self._inside(a, b, context, after)
        if found or self.moved:
            return found
        k = next((k for k, (s, t) in enumerate(zip(a, b)) if s != t), min(len(a), len(b)))
        ending = next((n for n, (s, t) in enumerate(zip(a[:k:-1], b[:k:-1])) if s != t), min(len(a), len(b)) - k - 1)
        first, last = max(k - 1, 0), max(ending, 0)
        parts = a[first : len(a) - last], b[first : len(b) - last]
        window = same_effect(*parts, self.candidate, None, part=True, everyone=self._everyone(*parts))
        return window or same_effect(a, b, self.candidate, after, everyone=self._everyone(a, b))

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
            rest = None if after is None else (*a[k + 1 :], *after)
            return self._statements(s, t, context, rest, (*a[k + 1 :],))
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

    def _together(self, s: Stmt, mine: tuple[Expr, ...], theirs: tuple[Expr, ...]) -> bool:
        """Whether the threads of a block come to ``s`` together in both kernels, and agree on what decides there."""
        one, other = uniformity(self.candidate), uniformity(self.mutant)
        agreed = all(one.is_uniform(e) for e in mine) and all(other.is_uniform(e) for e in theirs)
        return agreed and not one.is_divergent(s)

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
            return self._arms(s) or self._unguarded(s, context, _undefined(a[:k]))
        if isinstance(s, If) and s.orelse and b == (*a[:k], *s.orelse, *a[k + 1 :]):
            return self._arms(s)
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
        ends = replace(barrier), replace(barrier)
        both = _with_body(self.candidate.body, a, (*a[:k], ends[0], between, ends[1], *a[k + 2 :]))
        kernel = self.candidate.with_(body=both)
        return APART if all(keeps_nothing_apart(s, kernel) for s in ends) else ""

    def _arms(self, s: If) -> str:
        """The condition of ``s`` decides nothing."""
        one, other = (normal(self.candidate.with_(body=arm)) for arm in (s.then, s.orelse))
        return "both branches are the same normal form" if s.orelse and one == other else ""

    def _unguarded(self, s: If, context: smt.Context, undefined: set) -> str:
        if all(isinstance(x, Fence) for x in s.then) and not s.orelse:
            return "a fence more orders more, and changes no value"
        inner = context.branch()
        if context.lasting(s.cond):
            import z3

            inner.facts.append(z3.Not(inner.truth(s.cond)))
        if no_effect(s.then, inner, Quiet()):
            return "z3: the guard holds wherever its body does anything"
        if no_effect(s.then, inner, Quiet(own=undefined)):
            return "z3: where the guard does not hold, only what was undefined changes"
        return MASKED if masked(self.candidate, s, None, context) else ""

    def _statements(self, s: Stmt, t: Stmt, context: smt.Context, after: Body | None, rest: Body) -> str:
        if isinstance(s, If) and s.orelse and (t,) in (s.then, s.orelse):
            return self._arms(s)
        if type(s) is not type(t):
            if isinstance(s, If) and s.then == (t,):
                return self._unguarded(s, context, set())
            return needs_no_atomic(self.candidate, s, t)
        shown = [f.name for f in dataclasses.fields(s) if f.name not in _HIDDEN]
        names = [name for name in shown if getattr(s, name) != getattr(t, name)]
        if isinstance(s, Decl) and isinstance(t, Decl) and names == ["init"]:
            covered = absorbed(s, t, rest)
            if covered:
                return covered
            if permuted(self.candidate, s, t):
                return "the blocks of a band do one another's work"
        if isinstance(s, For) and isinstance(t, For):
            if names == ["body"] and reordered(self.candidate, s, t):
                return "the same rounds in another order, each on cells of its own"
            visited = same_visits(s, t, self.candidate)
            if visited:
                return visited
            if names == ["step"] and context.at_most_once(s) and context.at_most_once(replace(t, var=s.var)):
                return "z3: the loop runs at most once"
            if names in (["step"], ["init"], ["cond"]):
                idle = Idle(self.candidate, self._together(s, (s.init, s.cond, s.step), (t.init, t.cond, t.step)))
                same = other_iterations(s, t, context.branch(), names, idle.body)
                if same:
                    return same
            context.count(s)
            if names == ["step"]:
                context.facts.append(context.truth(s.cond))
        if isinstance(s, If) and isinstance(t, If) and names == ["cond"] and s.orelse and self._arms(s):
            return self._arms(s)
        if isinstance(s, If) and isinstance(t, If) and names == ["cond"] and not s.orelse:
            if masked(self.candidate, s, t.cond, context):
                return MASKED
            if other_thread(self.candidate, s, t):
                return "another single thread does the same, of values that all of them have"
            inner = context.branch()
            inner.facts.append(inner.truth(s.cond) != inner.truth(t.cond))
            if context.lasting(s.cond) and context.lasting(t.cond):
                if no_effect(s.then, inner.branch(), Quiet()):
                    return "z3: where the guards differ nothing happens"
                if Idle(self.candidate, self._together(s, (s.cond,), (t.cond,))).body(s.then, inner):
                    return "z3: where the guards differ zeros are added"
        if len(names) != 1:
            return ""
        name, x, y = names[0], getattr(s, names[0]), getattr(t, names[0])
        if name in ("then", "orelse", "body"):
            if isinstance(s, For) and context.branch().at_most_once(s):
                self.once.add(id(s))
            context.enter(s, name)
            return self.bodies(x, y, context, None if isinstance(s, For) else after)
        if isinstance(x, Expr) and isinstance(y, Expr) and held_already(self.candidate, x, y):
            return "the type that a value is rounded to holds it already"
        if isinstance(x, tuple):
            pairs = [(p, q) for p, q in zip(x, y) if p != q] if len(x) == len(y) else []
            return _expressions(*pairs[0], context) if len(pairs) == 1 and isinstance(pairs[0][0], Expr) else ""
        return _expressions(x, y, context) if isinstance(x, Expr) and isinstance(y, Expr) else ""


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


def _undefined(before: Body) -> set:
    """Variables and arrays that ``before`` declares and does not write."""
    from ktc.ir.nodes import Alloc
    from ktc.ir.walk import assigned

    declared = {s.sym for s in before if isinstance(s, Alloc) or (isinstance(s, Decl) and s.init is None)}
    return declared - assigned(before)


def _always(kernel: Kernel, dropped: list[Assume]) -> bool:
    context = smt.Context(kernel)
    return all(context.proves(context.truth(a.expr)) for a in dropped)


def _expressions(e: Expr, f: Expr, context: smt.Context) -> str:
    """The smallest differing pair that is provably equal; conditions of lazy operators are not assumed."""
    if type(e) is type(f):
        differing = []
        for d in dataclasses.fields(e):
            x, y = getattr(e, d.name), getattr(f, d.name)
            if d.name in _HIDDEN or x == y:
                continue
            if isinstance(x, tuple) and isinstance(y, tuple) and len(x) == len(y):
                differing += [(p, q) for p, q in zip(x, y) if p != q]
            else:
                differing.append((x, y))
        if len(differing) == 1 and all(isinstance(v, Expr) for v in differing[0]):
            found = _expressions(*differing[0], context)
            if found:
                return found
    whole = isinstance(e.type, Scalar) and (e.type.is_int or e.type.kind == "bool")
    return "z3: one value under the facts that hold there" if whole and context.equal(e, f) else ""
