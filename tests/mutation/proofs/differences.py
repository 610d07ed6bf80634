"""Two statements in one place that do the same: the rules, by what differs. Each says why, or ''."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, replace

from ktc.ir.analysis.uniformity import uniformity
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Barrier, Binary, Body, Decl, Expr, Fence, For, If, Load, Stmt, Sym, WarpOp
from ktc.ir.walk import assigned, stmt_exprs, substitute_expr, walk, walk_expr
from ktc.search.verification.integers import smt
from ktc.search.verification.integers.formulas import increment
from ktc.search.verification.integers.intervals import is_whole
from tests.mutation.maxima.absorbed import absorbed
from tests.mutation.maxima.reordered import reordered
from tests.mutation.maxima.signs import only_squared
from tests.mutation.maxima.visits import same_visits
from tests.mutation.symbolic.effects import Quiet, no_effect, other_iterations
from tests.mutation.symbolic.equal import HIDDEN, equal_parts
from tests.mutation.symbolic.single import other_thread
from tests.mutation.zeros.formats import held_already
from tests.mutation.zeros.idle import Idle
from tests.mutation.zeros.masked import masked
from tests.mutation.zeros.unread import unread

from .arms import same_arms
from .arrival import needs_no_atomic
from .permuted import permuted
from .uses import same_uses

MASKED = "z3: what is given values where the guard does not hold is read under that guard alone"
UNDEFINED = "z3: where the guard does not hold, only what was undefined changes"
UNREAD = "z3: shared cells that nobody reads any more are stored, or are not"


@dataclass(frozen=True)
class Difference:
    """The statements ``s`` of the candidate and ``t`` of the mutant, in one place, where ``context`` holds. Only the
    bodies ``before`` and ``rest`` of it come with them, and are the same in both."""

    candidate: Kernel
    mutant: Kernel
    s: Stmt
    t: Stmt
    context: smt.Context
    before: Body
    rest: Body

    @property
    def names(self) -> tuple[str, ...]:
        """The fields in which they differ."""
        shown = [f.name for f in dataclasses.fields(self.s) if f.name not in HIDDEN]
        return tuple(name for name in shown if getattr(self.s, name) != getattr(self.t, name))

    def divides(self) -> bool:
        """Whether the mutant's statement itself divides by nothing that may be zero, but where the candidate's does."""
        mine, theirs = ({e for top in stmt_exprs(s) for e in walk_expr(top)} for s in (self.s, self.t))
        return all(self.context.divides(e) for e in theirs - mine if isinstance(e, Binary) and is_whole(e.type))

    def together(self) -> bool:
        """Whether the threads of a block come to the statement together, and agree on what decides there."""
        one, other = uniformity(self.candidate), uniformity(self.mutant)
        agreed = all(one.is_uniform(e) for e in stmt_exprs(self.s)) and all(map(other.is_uniform, stmt_exprs(self.t)))
        return agreed and not one.is_divergent(self.s)


Rule = Callable[[Difference], str]


def same_statement(d: Difference) -> str:
    """Why the two statements do the same."""
    if isinstance(d.s, If) and d.s.orelse and (d.t,) in (d.s.then, d.s.orelse):
        return same_arms(d.candidate, d.s, d.context)
    if isinstance(d.s, If) and d.s.then == (d.t,):
        return unguarded(d.candidate, d.s, d.context, d.before)
    if type(d.s) is not type(d.t):
        return needs_no_atomic(d.candidate, d.s, d.t)
    if not d.divides():
        return ""
    names = d.names
    rules = (rule for kind, fields, rule in RULES if isinstance(d.s, kind) and (not fields or fields == names))
    return next((found for found in (rule(d) for rule in rules) if found), "")


def unguarded(kernel: Kernel, s: If, context: smt.Context, before: Body) -> str:
    """Why the guard ``s`` around its body may be left out; ``before``: what its body begins with."""
    if s.orelse:
        return ""
    if all(isinstance(x, Fence) for x in s.then):
        return "a fence more orders more, and changes no value"
    inner = context.branch()
    if context.lasting(s.cond):
        import z3

        inner.facts.append(z3.Not(inner.truth(s.cond)))
    if no_effect(s.then, inner.branch(), Quiet()):
        return "z3: the guard holds wherever its body does anything"
    if no_effect(s.then, inner.branch(), Quiet(own=undefined(before))):
        return UNDEFINED
    facts = uniformity(kernel)
    if Idle(kernel, facts.is_uniform(s.cond) and not facts.is_divergent(s)).body(s.then, inner):
        return "z3: where the guard does not hold zeros are added"
    if masked(kernel, s, None, context):
        return MASKED
    return UNREAD if unread(kernel, s, None, context) else ""


def undefined(before: Body) -> set[Sym]:
    """Variables and arrays that ``before`` declares and does not write."""
    declared = {s.sym for s in before if isinstance(s, Alloc) or (isinstance(s, Decl) and s.init is None)}
    return declared - assigned(before)


def _first_value(d: Difference) -> str:
    assert isinstance(d.s, Decl) and isinstance(d.t, Decl)
    alone = () if d.candidate.is_sequence else d.candidate.params
    covered = absorbed(d.s, d.t, d.rest, frozenset(p.sym for p in alone if p.scratch is not None))
    if not covered and only_squared(d.s, d.t, d.rest):
        return "the negative of a value that is only squared"
    if not covered and permuted(d.candidate, d.s, d.t):
        return "the blocks of a band do one another's work"
    return covered or same_uses(d.candidate, d.s, d.t, d.context, d.rest)


def _order(d: Difference) -> str:
    assert isinstance(d.s, For) and isinstance(d.t, For)
    return "the same rounds in another order, each on cells of its own" if reordered(d.candidate, d.s, d.t) else ""


def _visits(d: Difference) -> str:
    assert isinstance(d.s, For) and isinstance(d.t, For)
    return same_visits(d.s, d.t, d.candidate)


def _one_round(d: Difference) -> str:
    assert isinstance(d.s, For) and isinstance(d.t, For)
    once = d.context.at_most_once(d.s) and d.context.at_most_once(replace(d.t, var=d.s.var))
    return "z3: the loop runs at most once" if once else ""


def _same_strides(d: Difference) -> str:
    """Strides that are the same number wherever either loop goes round twice."""
    import z3

    assert isinstance(d.s, For) and isinstance(d.t, For)
    by, other = increment(d.s), increment(d.t)
    if (
        by is None
        or other is None
        or d.s.var in d.context.changed
        or not (d.context.lasting(by) and d.context.lasting(other) and d.context.lasting(d.s.init))
    ):
        return ""
    first, *second = (substitute_expr(d.s.cond, {d.s.var: at}) for at in (
        d.s.init, *(substitute_expr(x.step, {d.s.var: d.s.init}) for x in (d.s, d.t))
    ))  # fmt: skip
    if not all(map(d.context.lasting, (first, *second))):
        return ""
    again = z3.And(d.context.truth(first), z3.Or(*map(d.context.truth, second)))
    same = z3.And(d.context.of(by) == d.context.of(other), d.context.of(by) > 0)
    return "z3: one stride, if there is a second round" if d.context.proves(z3.Implies(again, same)) else ""


def _rounds(d: Difference) -> str:
    assert isinstance(d.s, For) and isinstance(d.t, For)
    idle = Idle(d.candidate, d.together())
    return other_iterations(d.s, d.t, d.context.branch(), list(d.names), idle.body)


def _decides_nothing(d: Difference) -> str:
    """Threads that wait for each other, or exchange values, must come to one branch all the same."""
    assert isinstance(d.s, If) and isinstance(d.t, If)
    meets = any(
        isinstance(x, Barrier | Fence) or any(isinstance(e, WarpOp) for top in stmt_exprs(x) for e in walk_expr(top))
        for x in walk((*d.s.then, *d.s.orelse))
    )
    if any(isinstance(e, Load) for e in walk_expr(d.t.cond)) or (meets and not d.together()):
        return ""
    return same_arms(d.candidate, d.s, d.context)


def _other_guard(d: Difference) -> str:
    assert isinstance(d.s, If) and isinstance(d.t, If)
    if d.s.orelse:
        return ""
    if masked(d.candidate, d.s, d.t.cond, d.context):
        return MASKED
    if other_thread(d.candidate, d.s, d.t):
        return "another single thread does the same, of values that all of them have"
    return _where_they_differ(d, d.s, d.t)


def _where_they_differ(d: Difference, s: If, t: If) -> str:
    import z3

    if not (d.context.lasting(s.cond) and d.context.lasting(t.cond)):
        return ""
    inner = d.context.branch()
    mine, theirs = inner.truth(s.cond), inner.truth(t.cond)
    wider = d.context.proves(z3.Implies(mine, theirs))
    inner.facts.append(mine != theirs)
    if no_effect(s.then, inner.branch(), Quiet()):
        return "z3: where the guards differ nothing happens"
    if wider and no_effect(s.then, inner.branch(), Quiet(own=undefined(d.before))):
        return UNDEFINED
    if Idle(d.candidate, d.together()).body(s.then, inner):
        return "z3: where the guards differ zeros are added"
    return UNREAD if unread(d.candidate, s, t.cond, d.context) else ""


def _rounded(d: Difference) -> str:
    operands = [getattr(x, d.names[0]) for x in (d.s, d.t)] if len(d.names) == 1 else []
    held = bool(operands) and all(isinstance(e, Expr) for e in operands) and held_already(d.candidate, *operands)
    return "the type that a value is rounded to holds it already" if held else ""


def _equal_operands(d: Difference) -> str:
    context = d.context.branch()
    if isinstance(d.s, For):
        context.count(d.s)
        context.facts += [context.truth(d.s.cond)] if d.names == ("step",) else []
    return equal_parts(d.s, d.t, context)


RULES: tuple[tuple[type[Stmt], tuple[str, ...], Rule], ...] = (
    (Decl, ("init",), _first_value),
    (For, ("body",), _order),
    (For, (), _visits),
    (For, ("step",), _one_round),
    (For, ("step",), _same_strides),
    (For, ("step",), _rounds),
    (For, ("init",), _rounds),
    (For, ("cond",), _rounds),
    (If, ("cond",), _decides_nothing),
    (If, ("cond",), _other_guard),
    (Stmt, (), _rounded),
    (Stmt, (), _equal_operands),
)
"""By kind of statement and the fields in which two differ (none: any), in the order in which they are tried."""

__all__ = ["Difference", "same_statement", "unguarded"]
