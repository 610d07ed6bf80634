"""The numbers that a kernel tells a scalar parameter from: modes, flags, limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import COMPARISONS, Binary, Const, Expr, If, Select, Sym, Unary, Var, While
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, walk


def compared_numbers(param: Sym, kernel: Kernel) -> Iterator[int | float]:
    """The numbers that ``kernel`` compares ``param`` with, for orders with both neighbours; 0 where it asks for its
    truth. A number may come more than once."""
    asked = [s.cond for s in walk(kernel.body) if isinstance(s, If | While)]
    for e in all_exprs(kernel.body):
        if isinstance(e, Binary) and e.op in COMPARISONS:
            for x, y in ((e.a, e.b), (e.b, e.a)):
                if _is(x, param) and isinstance(n := without_casts(y), Const):
                    yield from (n.value,) if e.op in ("==", "!=") else (n.value, n.value + 1, n.value - 1)
        elif isinstance(e, Binary) and e.op in ("&&", "||"):
            asked += [e.a, e.b]
        elif isinstance(e, Unary) and e.op == "!":
            asked.append(e.x)
        elif isinstance(e, Select):
            asked.append(e.cond)
    if any(_is(x, param) for x in asked):
        yield 0


def only_compared(kernel: Kernel) -> set[Sym]:
    """Integer parameters of which the body asks nothing but whether they are this number or that, or larger than it:
    whatever hangs on them, they are no sizes."""
    params = {p.sym for p in kernel.params if isinstance(p.sym.type, Scalar) and p.sym.type.is_int}
    uses, asked = Counter[Sym](), Counter[Sym]()
    for e in all_exprs(kernel.body):
        uses.update([e.sym] if isinstance(e, Var) else [])
        if isinstance(e, Binary) and e.op in COMPARISONS:
            pairs = ((without_casts(e.a), e.b), (without_casts(e.b), e.a))
            asked.update(x.sym for x, y in pairs if isinstance(x, Var) and isinstance(without_casts(y), Const))
    return {s for s in params if 0 < uses[s] == asked[s]}


def _is(e: Expr, param: Sym) -> bool:
    x = without_casts(e)
    return isinstance(x, Var) and x.sym == param


__all__ = ["compared_numbers", "only_compared"]
