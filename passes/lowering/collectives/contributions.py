"""What each iteration of a reduction adds to its thread's part, and the initial value at the end."""

from __future__ import annotations

from ktc.ir.analysis.accumulators import combine, identity, is_own_place, joins
from ktc.ir.diagnostics import Loc
from ktc.ir.fold import cast, simplify
from ktc.ir.nodes import Acc, Assign, Body, Decl, Expr, If, Reduce, Var, fresh
from ktc.passes.lowering.distribution.levels import Jam, in_order
from ktc.passes.lowering.distribution.scope import Scope, nest
from ktc.passes.lowering.distribution.variation import Variation
from ktc.passes.lowering.lowering_state import State

from .reduction import Group, guards_of_start


def contribution(s: Reduce, group: Group) -> Body:
    """What an iteration adds. A key and its place change in one statement: no other iteration may come between."""
    if len(group) == 1:
        (a,) = group
        return (Assign(a.sym, combine(a.op, Var(a.sym), cast(a.value, a.sym.type)), loc=s.loc),)  # type: ignore[arg-type]
    key, at = group
    own = Decl(fresh(f"{key.sym.name}_own", key.sym.type), cast(key.value, key.sym.type), const=True)  # type: ignore[arg-type]
    ascending = is_own_place(s, at) and in_order(s.dist) and _moves(s, key.value)
    won = joins(key, (Var(key.sym), Var(at.sym)), (Var(own.sym), at.value), ascending)
    return own, If(won, (Assign(key.sym, Var(own.sym)), Assign(at.sym, at.value)), loc=s.loc)


def _moves(s: Reduce, e: Expr) -> bool:
    """Whether ``e`` is another value in each iteration: what stands still in all of them is evaluated once."""
    along = Variation()
    along.seed(s.var, frozenset({s.var}))
    along.grow(s.body)
    return bool(along.of(e))


def with_start(a: Acc, dims: tuple[Jam, ...], scope: Scope, st: State, loc: Loc | None = None) -> Body:
    """The initial value, where it is not the identity (that of a key always is)."""
    t = a.sym.type
    if simplify(a.init) == identity(a.op, t):  # type: ignore[arg-type]
        return ()
    with_start = Assign(a.sym, combine(a.op, cast(a.init, t), Var(a.sym)), loc=loc)  # type: ignore[arg-type]
    return nest(dims, guards_of_start(a, scope), st.rewrite((with_start,)))
