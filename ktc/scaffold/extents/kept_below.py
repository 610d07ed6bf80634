"""Variables that loops and conditions keep below a parameter, and what loads and products there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call, Expr, For, If, Load, Stmt, Sym, Var, While
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, loads_in, walk, walk_expr

from ..given_values import spelled_out


def bounds(k: Kernel, params: set[Sym], given: Mapping[Sym, list[Expr]]) -> Iterator[tuple[Sym, str]]:
    """Variables with the parameters that they are kept below by loops and conditions."""
    for s in walk(k.body):
        for e in conditions(s):
            if isinstance(e, Binary) and e.op in ("<", ">="):
                a, b = without_casts(e.a), spelled_out(e.b, given)
                ends = b.args if isinstance(b, Call) and b.fn == "min" else (b,)
                for end in map(without_casts, ends):
                    end = spelled_out(end, given)
                    if isinstance(a, Var) and isinstance(end, Var) and end.sym in params and _is_integer(end.sym):
                        yield a.sym, end.sym.name


def conditions(s: Stmt) -> Iterator[Expr]:
    """What is asked where ``s`` goes on, part by part."""
    left = [s.cond] if isinstance(s, If | For | While) else []
    while left:
        e = without_casts(left.pop())
        if isinstance(e, Binary) and e.op in ("&&", "||"):
            left += [e.a, e.b]
        else:
            yield e


def loads(k: Kernel) -> Iterator[Load]:
    """Every load of the body."""
    return (x for e in all_exprs(k.body) for x in loads_in(e))


def products(k: Kernel) -> Iterator[Binary]:
    """Every product of the body."""
    return (x for e in all_exprs(k.body) for x in walk_expr(e) if isinstance(x, Binary) and x.op == "*")


def _is_integer(s: Sym) -> bool:
    return isinstance(s.type, Scalar) and s.type.is_int


__all__ = ["bounds", "conditions", "loads", "products"]
