"""What one thread (or block) does alone, for all: the others must not need the variables that change meanwhile.

for k in 0..3                       for k in 0..3
  out[k] = sum          ->            if (tid == 0) out[k] = sum
  sum += a[k]                         sum += a[k]                     // every thread's own copy
"""

from __future__ import annotations

from collections.abc import Iterable

from ktc.ir.analysis.effects import has_effect, written
from ktc.ir.nodes import Body, Expr, If, Load, Stmt, Sym, bodies, has_bodies
from ktc.ir.storage import is_private
from ktc.ir.walk import all_exprs, assigned, declared, map_body, stmt_exprs, used, walk
from ktc.passes.lowering.errors import LoweringError


def guarded(s: Stmt, cond: Expr) -> Stmt:
    """``s`` with its effects under ``cond``: as a whole, or each by itself where what is left changes variables and
    reads nothing that the effects write."""
    whole = If(cond, (s,), loc=s.loc)
    if not has_bodies(s) or not _changed(s):
        return whole
    writes = {b for x in walk((s,)) if (b := written(x)) is not None and not is_private(b)}
    if any(isinstance(e, Load) and e.buffer in writes for e in all_exprs((s,))):
        return whole
    if any(_is_effect(x) and _changed(x) for x in walk((s,))):
        return whole
    (out,) = map_body((s,), lambda x: If(cond, (x,), loc=x.loc) if _is_effect(x) else x)
    return out


def _is_effect(x: Stmt) -> bool:
    return not has_bodies(x) and has_effect(x)


def _changed(s: Stmt) -> set[Sym]:
    """Variables and private arrays from outside ``s`` that it changes."""
    return {v for v in assigned((s,)) if is_private(v)} - set(declared((s,)))


def check_known(body: Body, alone: Iterable[tuple[Stmt, Expr]]) -> None:
    """Refuse variables of ``body`` that a statement which one thread runs ``alone`` changes and others read. What that
    thread does alone besides may read them.

    Raises:
        LoweringError: E-LOWER-ALONE.
    """
    of_one = list(alone)
    for s, cond in of_one:
        changed = _changed(s)
        read = _read(body, [t for t, c in of_one if c == cond]) & changed if changed else set()
        if read:
            name = min(v.name for v in read)
            why = f"'{name}' changes where only one thread runs, beside what it writes for all, and others read it"
            hint = "compute it in a statement or a loop of its own"
            raise LoweringError("E-LOWER-ALONE", why, s.loc, hint)


def _read(body: Body, without: list[Stmt]) -> set[Sym]:
    """What ``body`` reads outside of the statements ``without``."""
    out: set[Sym] = set()
    for s in body:
        if any(s is t or s == t for t in without):
            continue
        for e in stmt_exprs(s):
            out |= used(e)
        for b in bodies(s):
            out |= _read(b, without)
    return out
