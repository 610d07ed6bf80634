"""What one thread (or block) does alone, for all: the others must not need the variables that change meanwhile.

for k in 0..3                       for k in 0..3
  out[k] = sum          ->            if (tid == 0) out[k] = sum
  sum += a[k]                         sum += a[k]                     // every thread's own copy
"""

from __future__ import annotations

from collections.abc import Iterable

from ktc.ir.nodes import Body, Expr, If, Load, Stmt, Sym, bodies
from ktc.ir.storage import is_private
from ktc.ir.walk import all_exprs, assigned, declared, map_body, stmt_exprs, used, walk

from .effects import has_effect, written
from .errors import LoweringError


def guarded(s: Stmt, cond: Expr) -> Stmt:
    """``s`` with its effects under ``cond``: as a whole, or each by itself where what is left changes variables and
    reads nothing that the effects write."""
    if not _changed(s) or not any(True for _ in bodies(s)):
        return If(cond, (s,), loc=s.loc)
    writes = {b for x in walk((s,)) if (b := written(x)) is not None and not is_private(b)}
    if any(isinstance(e, Load) and e.buffer in writes for e in all_exprs((s,))):
        return If(cond, (s,), loc=s.loc)
    effects = [x for x in walk((s,)) if not any(True for _ in bodies(x)) and has_effect(x)]
    if any(_changed(x) for x in effects):
        return If(cond, (s,), loc=s.loc)
    (out,) = map_body((s,), lambda x: If(cond, (x,), loc=x.loc) if any(x is e for e in effects) else x)
    return out


def _changed(s: Stmt) -> set[Sym]:
    """Variables and private arrays from outside ``s`` that it changes."""
    return {v for v in assigned((s,)) if is_private(v)} - set(declared((s,)))


def check_known(body: Body, alone: Iterable[tuple[Stmt, Expr]]) -> None:
    """Refuse variables of ``body`` that a statement which one thread runs ``alone`` changes and others read.

    Raises:
        LoweringError: E-LOWER-ALONE.
    """
    of_one = [(s, cond) for s, cond in alone if _changed(s)]
    for s, cond in of_one:
        changed = _changed(s)
        same = [t for t, c in of_one if c == cond]
        read = _read(body, same) & changed
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
