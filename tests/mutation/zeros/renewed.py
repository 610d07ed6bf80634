"""Loops that give every element of a private array a new value before they read it, one element in each round."""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import AddrOf, Break, Continue, For, Load, Return, Stmt, Store, Sym, Var
from ktc.ir.types import Array
from ktc.ir.walk import assigned, stmt_exprs, used, walk, walk_expr
from tests.mutation.sites import branches

from .cells import Filling, reached, shape


def renewed(s: For, array: Sym, kernel: Kernel) -> bool:
    """Whether nothing that ``array``, a thread's own, held before ``s`` is read in it or behind it."""
    first = s.body[0] if s.body else None
    if not isinstance(first, Store) or first.buffer != array or s.var in assigned(s.body):
        return False
    t, mine = array.type, (Var(s.var),)
    if (
        not isinstance(t, Array)
        or t.space == "shared"
        or first.index != mine
        or first.width != 1
        or array in used(first.value)
    ):
        return False
    return all(_stays(x, array, mine) for x in walk(s.body)) and (
        reached(Filling(first, (s,), s), kernel, {}, ()) == shape(t, kernel) != ()
    )


def _stays(x: Stmt, array: Sym, mine: tuple[Var, ...]) -> bool:
    """Whether ``x`` itself touches no other element than ``mine``, and leaves no round."""
    if isinstance(x, Break | Continue | Return):
        return False
    exprs = [e for top in stmt_exprs(x) for e in walk_expr(top)]
    if any(e == Var(array) or (isinstance(e, AddrOf) and e.buffer == array) for e in exprs):
        return False
    if not all(e.index == mine and e.width == 1 for e in exprs if isinstance(e, Load) and e.buffer == array):
        return False
    if isinstance(x, Store) and x.buffer == array:
        return x.index == mine and x.width == 1
    return bool(branches(x)) or array not in assigned((x,))


__all__ = ["renewed"]
