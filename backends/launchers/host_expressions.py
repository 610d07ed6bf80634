"""Expressions over a kernel's parameters as host code has them: sizes, guards, and that buffers lie apart."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ktc.backends.c_family.c_dialect import Dialect
from ktc.backends.c_family.c_expressions import Exprs
from ktc.backends.c_family.symbol_names import Names
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Const, Expr, Sym

from .launch_geometry import Apart, Geometry


def host_exprs(kernel: Kernel, dialect: Dialect, taken: Collection[str] = ()) -> tuple[Exprs, Names]:
    """A printer of expressions in ``dialect``, and the names of the parameters in it, none of them one of ``taken``."""
    names = Names(frozenset(taken))
    exprs = Exprs(dialect, names)
    dialect.exprs = exprs
    for p in kernel.params:
        names.declare(p.sym)
    return exprs, names


def apart_condition(a: Apart, address: Callable[[Sym], str], number: Callable[[Expr], str], either: str) -> str:
    """That one buffer ends before the other one begins. ``address`` prints where a buffer lies, ``number`` an operand
    of a sum, and ``either`` is the language's *or*."""

    def at(buffer: Sym, offset: Expr) -> str:
        nothing = isinstance(offset, Const) and offset.value == 0
        return address(buffer) if nothing else f"{address(buffer)} + {number(offset)}"

    sides = ((a.one, a.other), (a.other, a.one))
    before = (f"{at(x.buffer, x.end)} <= {at(y.buffer, y.first)}" for x, y in sides)
    return f"({f' {either} '.join(before)})"


def nothing(g: Geometry, number: Callable[[Expr], str], either: str = "||") -> str:
    """That the launch has no block, or a block no thread; '' where that cannot be. ``number`` prints an operand of a
    comparison."""
    return f" {either} ".join(f"{number(e)} <= 0" for e in g.unsure)


__all__ = ["apart_condition", "host_exprs", "nothing"]
