"""A value that a block's threads hand each other through one element of shared memory, as a value of the block::

    array mean: shared f32[1]
    reduce(+) sum over t ...                        reduce(+) sum over t ...
    mean[0] = sum / f32(n)                          let mean: f32 = sum / f32(n)
    par t ...                                       par t ...
      y[t] = x[t] - mean[0]                           y[t] = x[t] - mean

One thread of the source stores it, and all read it behind a barrier. In parallel form that is a statement of the block:
as a value it takes part in several rows beside each other, each with its own. One that loops of the block change, what
a sum has come to so far, is a variable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from ktc.ir.fold import is_const
from ktc.ir.nodes import Alloc, Assign, Body, Decl, Expr, Load, Par, Reduce, Scan, Stmt, Store, Sym, Var, bodies, fresh
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import assigned, declared, keep, map_body, map_stmt_exprs, used_in, walk, with_list_around


def with_block_values(body: Body) -> Body:
    """``body`` with values in place of arrays of one element whose stores all stand in one list of statements, each
    load behind one of them there."""
    for array in list(arrays_of_one(body)):
        first = next((s for s in walk(body) if isinstance(s, Store) and s.buffer == array), None)
        if first is not None:
            forms = (with_list_around(body, first, partial(made, array, first)) for made in (_valued, _variable))
            body = next((b for b in forms if b is not None and not is_touched(b, array)), body)
    return body


def arrays_of_one(body: Body) -> Iterator[Sym]:
    """The arrays of one element that ``body`` declares."""
    for s in walk(body):
        t = s.sym.type if isinstance(s, Alloc) and not s.dynamic else None
        if isinstance(t, Array) and isinstance(t.elem, Scalar) and all(is_const(n, 1) for n in t.shape):
            yield s.sym  # type: ignore[attr-defined]


def _valued(array: Sym, first: Store, before: Body, behind: Body) -> Body:
    """The list around ``first`` with each store of ``array`` as a declaration, which the loads behind it name."""
    out: list[Stmt] = [*before]
    read = _Read(array)
    for s in (first, *behind):
        if isinstance(s, Store) and s.buffer == array:
            value = fresh(array.name, array.type.elem)  # type: ignore[attr-defined]
            s = map_stmt_exprs(s, read)
            out.append(Decl(value, s.value, const=True, loc=s.loc, comments=s.comments))  # type: ignore[attr-defined]
            read = _Read(array, value)
        else:
            out += map_body((s,), keep, read)
    return tuple(out)


def _variable(array: Sym, first: Store, before: Body, behind: Body) -> Body:
    """The list around ``first`` with a variable in place of ``array``, of which it is the first value, where nothing
    else changes that than what the whole block does."""
    value = fresh(array.name, array.type.elem)  # type: ignore[attr-defined]
    spread = {id(x) for s in walk(behind) if isinstance(s, Par | Reduce | Scan) for b in bodies(s) for x in walk(b)}

    def on(s: Stmt) -> Stmt:
        if not isinstance(s, Store) or s.buffer != array or id(s) in spread:
            return s
        return Assign(value, s.value, loc=s.loc, comments=s.comments)

    stored = map_body(map_body(behind, on), keep, _Read(array, value))
    return (*before, Decl(value, first.value, loc=first.loc, comments=first.comments), *stored)


@dataclass(frozen=True)
class _Read:
    """Names ``value``, if there is one yet, where ``array`` is loaded."""

    array: Sym
    value: Sym | None = None

    def __call__(self, e: Expr) -> Expr:
        return Var(self.value) if self.value is not None and isinstance(e, Load) and e.buffer == self.array else e


def is_touched(body: Body, array: Sym) -> bool:
    """Whether anything but its declaration is left of ``array``."""
    left = map_body(body, lambda s: None if isinstance(s, Alloc) and s.sym == array else s)
    return array in used_in(left) | assigned(left) | set(declared(left))


__all__ = ["arrays_of_one", "is_touched", "with_block_values"]
