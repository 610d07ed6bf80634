"""Values that differ where nobody reads them: what a guard protects is used under that guard alone.

Unrolled over rows or columns that may not exist, a kernel keeps one value per copy in a private array and guards every
use: ``for u: if row + u < n: s[u] = 0; ...; for u: if row + u < n: out[row + u] = s[u]``. A first guard that lets more
through gives values to copies that nobody asks for; what is computed of them for the same copy, nobody asks for either.

The guard must say the same of a copy wherever the copy is read: of what changes it may hang on the copy alone, and on
what keeps its value as long as the array lives. What is read of buffers for all copies alike, the first has read; or it
is known to be there.
"""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Binary,
    Body,
    Break,
    Continue,
    Decl,
    Expr,
    For,
    If,
    Load,
    Return,
    Select,
    Store,
    While,
)
from ktc.ir.types import Ptr
from ktc.ir.walk import assigned, declared, stmt_exprs, substitute_expr, used, walk, walk_expr
from ktc.search.verification.integers import smt
from tests.mutation.proofs.ending import may_run
from tests.mutation.proofs.extents import readable
from tests.mutation.sites import branches, sites

from .copies import copies_of

PLAIN = (Assign, Decl, Store, For, If)
"""Statements of a guarded body that do no more than give values."""


def masked(kernel: Kernel, s: If, other: Expr | None, context: smt.Context) -> bool:
    """Whether the body of ``s``, a statement of ``kernel`` without an else, may run wherever ``other`` holds (None:
    everywhere) instead of where its own guard does. ``context``: where it stands."""
    import z3

    if s.orelse or not context.lasting(s.cond) or (other is not None and not context.lasting(other)):
        return False
    if other is not None and not context.proves(z3.Implies(context.truth(s.cond), context.truth(other))):
        return False
    if any(not isinstance(x, PLAIN) for x in walk(s.then)):
        return False
    copies = copies_of(kernel, s, other)
    if copies is None:
        return False
    inner = context.branch()
    if other is not None:
        inner.facts.append(inner.truth(other))
    before = _read_before(kernel, s, context)
    if not all(may_run(at, here) and (before or readable(at, here)) for at, here in sites(s.then, inner)):
        return False
    return copies.read_under_their_guard()


def _read_before(kernel: Kernel, s: If, context: smt.Context) -> bool:
    """Whether all that ``s`` reads of buffers is there to be read: the first round of the loop that ``s`` stands in has
    read the same elements, for its guard holds."""
    if not _loads(s.then):
        return True
    loop = next((x for x in walk(kernel.body) if isinstance(x, For) and any(y is s for y in x.body)), None)
    if loop is None or any(isinstance(x, Break | Continue | Return | While) for x in walk(loop.body)):
        return False
    changed = assigned(loop.body) | set(declared(loop.body))
    first = substitute_expr(s.cond, {loop.var: loop.init})
    if used(first) & changed or not context.lasting(first) or not context.proves(context.truth(first)):
        return False
    every = [top for x in s.then if not branches(x) for top in stmt_exprs(x)]
    at_once = {id(e) for top in every if not any(_decides(e) for e in walk_expr(top)) for e in walk_expr(top)}
    return all(
        id(e) in at_once
        and e.buffer not in changed
        and not {v for i in e.index for v in used(i)} & {*changed, loop.var}
        for e in _loads(s.then)
    )


def _loads(body: Body) -> list[Load]:
    """Of memory that others see."""
    every = [e for s in walk(body) for top in stmt_exprs(s) for e in walk_expr(top) if isinstance(e, Load)]
    return [e for e in every if isinstance(e.buffer.type, Ptr)]


def _decides(e: Expr) -> bool:
    """Whether not all operands of ``e`` are evaluated."""
    return isinstance(e, Select) or (isinstance(e, Binary) and e.op in ("&&", "||"))


__all__ = ["masked"]
