"""Variables that start from a number and are used in one branch alone, declared there.

before                                 after
    var m: f32 = -1e+30                    if row < rows
    if row < rows                            var m: f32 = -1e+30
      for i in tid..n step 256               for i in tid..n step 256
        m = max(m, x[i])                       m = max(m, x[i])

An early return leaves such code: what follows it is a branch, and its sums started before.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.fold import simplify
from ktc.ir.nodes import Body, Cast, Const, Decl, Expr, For, If, Stmt, Unary, While
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, used, used_in


def with_branch_locals(body: Body) -> Body:
    """``body`` with these variables in their branches."""
    out = list(body)
    for d in body:
        if not isinstance(d, Decl) or not isinstance(d.sym.type, Scalar) or d.init is None or not _is_number(d.init):
            continue
        at = next(k for k, s in enumerate(out) if s is d)
        found = [k for k in range(at + 1, len(out)) if d.sym in used_in((out[k],)) | assigned((out[k],))]
        if len(found) != 1 or not isinstance(branch := out[found[0]], If) or d.sym in used(branch.cond):
            continue
        then, orelse = (d.sym in used_in(b) | assigned(b) for b in (branch.then, branch.orelse))
        if then != orelse:
            side = {"then": (d, *branch.then)} if then else {"orelse": (d, *branch.orelse)}
            out[found[0]] = dataclasses.replace(branch, **side)  # type: ignore[arg-type]
            del out[at]
    return tuple(map(_inside, out))


def _inside(s: Stmt) -> Stmt:
    if isinstance(s, If):
        return dataclasses.replace(s, then=with_branch_locals(s.then), orelse=with_branch_locals(s.orelse))
    if isinstance(s, For | While):
        return dataclasses.replace(s, body=with_branch_locals(s.body))
    return s


def _is_number(e: Expr) -> bool:
    e = simplify(e)
    if isinstance(e, Unary) or (isinstance(e, Cast) and e.style != "bit"):
        return _is_number(e.x)
    return isinstance(e, Const)


__all__ = ["with_branch_locals"]
