"""Two definitions of one variable of which every use says the same.

``whole = y0 >= 1 && y0 <= n - 9`` and ``y0 <= n - 8`` differ for one tile. If every statement that asks
``whole || y < n`` asks it of rows of that tile that are below ``n`` anyway, either definition is as good.

Both are made of what keeps its value as long as the variable lives, so each may stand where the variable is used. As
long as no statement does something else, the two programs are in one state apart from the variable: what is known of
the first holds in the second, and a statement all of whose operands have one value for both does the same in both.
"""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import AddrOf, Assign, Atomic, Binary, Body, Decl, Eval, Expr, If, Store, Sym
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, assigned, declared, stmt_exprs, substitute, used, used_in, walk, walk_expr
from ktc.search.verification.integers import smt
from ktc.search.verification.integers.intervals import is_whole
from tests.mutation.sites import sites
from tests.mutation.symbolic.equal import equal_expressions

SAME = "z3: each use of the variable says the same"

USERS = (Assign, Atomic, Decl, Eval, If, Store)
"""Statements that ask for the values of their expressions once, where they stand."""


def same_uses(kernel: Kernel, s: Decl, t: Decl, context: smt.Context, rest: Body) -> str:
    """Why the variable that ``s`` defines may have the value that ``t`` gives it. ``context``: what holds there;
    ``rest``: the statements in which the variable is known."""
    if s.init is None or t.init is None or not _defined_once(s, kernel, rest):
        return ""
    if not all(_stands_for(s.sym, e, context, rest) for e in (s.init, t.init)):
        return ""
    if not all(context.fits(e, e.type) and context.divides(e) for e in _new(t.init, s.init)):
        return ""
    mine, theirs = (substitute(rest, {s.sym: e}) for e in (s.init, t.init))
    if s.sym in used_in(mine) | used_in(theirs):
        return ""
    for (one, here), other in zip(sites(mine, context.branch()), walk(theirs), strict=True):
        pairs = [(e, f) for e, f in zip(stmt_exprs(one), stmt_exprs(other), strict=True) if e != f]
        if pairs and not (isinstance(one, USERS) and all(equal_expressions(e, f, here) for e, f in pairs)):
            return ""
    return SAME


def _defined_once(s: Decl, kernel: Kernel, rest: Body) -> bool:
    pointed = any(isinstance(e, AddrOf) and e.buffer == s.sym for e in all_exprs(kernel.body))
    return isinstance(s.sym.type, Scalar) and not pointed and s.sym not in {*assigned(kernel.body), *declared(rest)}


def _stands_for(sym: Sym, e: Expr, context: smt.Context, rest: Body) -> bool:
    """Whether ``e`` has one value as long as ``sym`` is known, which is that of ``sym``."""
    return e.type == sym.type and context.lasting(e) and not used(e) & set(declared(rest))


def _new(e: Expr, known: Expr) -> list[Binary]:
    """Arithmetic in ``e`` that is not in ``known``."""
    old = set(walk_expr(known))
    return [x for x in walk_expr(e) if x not in old and isinstance(x, Binary) and is_whole(x.type)]


__all__ = ["same_uses"]
