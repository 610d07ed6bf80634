"""Proofs that a surviving mutant means what the candidate means. Having passed the ladder is not one.

* the same normal form, launch and guards;
* the one integer or boolean expression in which they differ has the same value under the facts that hold there, for all
  sizes that the workload promises (z3);
* a loop in whose step they differ runs at most once (z3);
* the one warp exchange in which they differ leaves the same combination of lane values in every lane that is read
  afterwards, by running it on 32 symbolic lanes (:mod:`.lanes`).
"""

from __future__ import annotations

import dataclasses
from dataclasses import replace

from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Assign, Body, Call, Expr, For, Load, Stmt, Store, Var, WarpOp
from ktc.ir.text import canonical
from ktc.ir.types import Scalar
from ktc.ir.walk import walk_expr
from ktc.search.verification import smt
from ktc.search.verification.normal_form import normal

from .lanes import same_exchange

_HIDDEN = ("loc", "comments", "tags", "spelling")


def equivalent(candidate: Kernel, mutant: Kernel) -> str:
    """Why the two are the same function of their inputs, on every launch; '' if that is not proved."""
    if canonical(candidate).launch != canonical(mutant).launch:
        return ""
    dropped = [a for a in candidate.assumptions if a not in mutant.assumptions]
    if dropped:
        return "the dropped guard always holds" if smt.available() and _always(mutant, dropped) else ""
    if normal(candidate) == normal(mutant):
        return "the same normal form"
    if not smt.available():
        return ""
    return _bodies(candidate.body, mutant.body, smt.Context(candidate), ())


def _bodies(a: Body, b: Body, context: smt.Context, after: Body) -> str:
    """The proof about the first statement in which two bodies differ. ``after`` runs once the body has ended."""
    if len(b) == len(a) + 1:
        k = next((k for k, (s, t) in enumerate(zip(a, b)) if s != t), len(a))
        twice = k > 0 and b == (*a[:k], a[k - 1], *a[k:]) and _idempotent(a[k - 1])
        return "max and min of a value twice are as once" if twice else ""
    if len(a) != len(b):
        return ""
    for k, (s, t) in enumerate(zip(a, b)):
        if s == t:
            context.after(s)
            continue
        if a[k + 1 :] != b[k + 1 :]:
            return ""
        return _statements(s, t, context, (*a[k + 1 :], *after))
    return ""


def _statements(s: Stmt, t: Stmt, context: smt.Context, after: Body) -> str:
    if type(s) is not type(t):
        return ""
    shown = [f.name for f in dataclasses.fields(s) if f.name not in _HIDDEN]
    names = [name for name in shown if getattr(s, name) != getattr(t, name)]
    if isinstance(s, For) and isinstance(t, For):
        exchange = same_exchange((s,), (t,), after, context.kernel)
        if exchange:
            return exchange
        if names == ["step"]:
            once = context.at_most_once(s) and context.at_most_once(replace(t, var=s.var))
            return "z3: the loop runs at most once" if once else ""
        if names == ["cond"]:
            context.count(s)
    if len(names) != 1:
        return ""
    name, x, y = names[0], getattr(s, names[0]), getattr(t, names[0])
    if name in ("then", "orelse", "body"):
        context.enter(s, name)
        return _bodies(x, y, context, () if isinstance(s, For) else after)
    if isinstance(x, tuple):
        pairs = [(p, q) for p, q in zip(x, y) if p != q] if len(x) == len(y) else []
        return _expressions(*pairs[0], context) if len(pairs) == 1 and isinstance(pairs[0][0], Expr) else ""
    return _expressions(x, y, context) if isinstance(x, Expr) and isinstance(y, Expr) else ""


def _always(kernel: Kernel, dropped: list[Assume]) -> bool:
    context = smt.Context(kernel)
    return all(context.proves(context.truth(a.expr)) for a in dropped)


def _idempotent(s: Stmt) -> bool:
    """``x = max(x, e)`` where e does not read x: of a variable, or of memory that one thread owns between barriers."""
    if isinstance(s, Assign):
        target: Expr = Var(s.sym)
    elif isinstance(s, Store):
        target = Load(s.buffer, s.index)
    else:
        return False
    e = s.value
    if not (isinstance(e, Call) and e.fn in ("min", "max") and target in e.args):
        return False
    others = [x for arg in e.args if arg != target for x in walk_expr(arg)]
    return target not in others and not any(isinstance(x, WarpOp) for x in others)


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
