"""Accesses of several elements to memory that threads share."""

from __future__ import annotations

from ktc.ir.nodes import Body, Load, Stmt, Store
from ktc.ir.storage import is_local_array
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Vec
from ktc.ir.walk import stmt_exprs, walk, walk_expr


def is_wide(x: object) -> bool:
    """Whether ``x`` is an access of several elements, or of a vector, to memory that threads share."""
    if not isinstance(x, Load | Store) or is_local_array(x.buffer) or isinstance(x.buffer.type, Vec):
        return False
    return x.width != 1 or isinstance(_value_type(x), Vec)


def has_wide(s: Stmt) -> bool:
    """Whether ``s`` itself, without the statements in it, has such an access."""
    return bool(wide_in(s))


@by_identity(4096)
def wide_in(s: Stmt) -> tuple[Load | Store, ...]:
    """Such accesses of ``s`` itself, without the statements in it: asked again for each list that it is in."""
    found = (s, *(x for e in stmt_exprs(s) for x in walk_expr(e)))
    return tuple(x for x in found if isinstance(x, Load | Store) and is_wide(x))


def lanes_of(x: object) -> int:
    """Elements that the access ``x`` moves at once; 0 for other things, and where that is open."""
    if not is_wide(x) or not isinstance(x, Load | Store):
        return 0
    t = _value_type(x)
    n = t.n if isinstance(t, Vec) else x.width
    return n if isinstance(n, int) else 0


def lanes_in(body: Body) -> int:
    """Elements of the widest access in ``body``; 0 where there is none."""
    return max((lanes_of(x) for s in walk(body) for x in wide_in(s)), default=0)


def _value_type(x: Load | Store) -> object:
    return (x if isinstance(x, Load) else x.value).type


__all__ = ["has_wide", "is_wide", "lanes_in", "lanes_of", "wide_in"]
