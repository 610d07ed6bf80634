"""The length of a head, and how many queries and keys there are, where no name says it: a softmax of sums of products.

    for (int j = 0; j < n; j++) {
      float s = 0;
      for (int k = 0; k < d; k++) s += Q[row * d + k] * K[j * d + k];    d is the length of a head
      top = fmaxf(top, s * scale);
    }
    .. expf(s * scale - top) ..

Attention is what compares such sums, and takes exponentials of them. Where loops over keys end, and what a thread's
query is compared with, are numbers of tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Binary, Body, Call, Decl, Expr, For, If, Load, Stmt, Store, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, stmt_exprs, used, walk, walk_expr
from ktc.passes.shared.serial_sums import counted_to

EXPONENTIALS = ("exp", "exp2", "fast_exp", "fast_exp2")


def head_lengths(kernel: Kernel) -> set[str]:
    """The parameters that are the length of a head by what ``kernel`` does with it."""
    names = {p.sym for p in kernel.params if isinstance(p.sym.type, Scalar)}
    found = set()
    for total, end in _sums_of_products(kernel.body):
        if isinstance(end, Var) and end.sym in names and _is_score(kernel.body, total):
            found.add(end.sym.name)
    return found


def tokens(kernel: Kernel) -> set[str]:
    """The parameters that end loops in which others stand, or that something of a thread's own is compared with."""
    names = {p.sym for p in kernel.params if isinstance(p.sym.type, Scalar)}
    outer = (s for s in walk(kernel.body) if isinstance(s, For) and any(isinstance(x, For) for x in walk(s.body)))
    conditions = [*(s.cond for s in outer), *(s.cond for s in walk(kernel.body) if isinstance(s, If))]
    asked = (e for c in conditions for e in walk_expr(c) if isinstance(e, Binary) and e.op in ("<", "<=", ">", ">="))
    ends = (x.sym for e in asked for x in (e.a, e.b) if isinstance(x, Var))
    return {s.name for s in ends if s in names}


def _sums_of_products(body: Body) -> Iterator[tuple[Sym, Expr]]:
    """Variables to which a loop in another one adds products of two arrays' elements, with where that loop ends."""
    for outer in walk(body):
        for s in walk(outer.body) if isinstance(outer, For) else ():
            last = s.body[-1] if isinstance(s, For) and s.body else None
            if isinstance(s, For) and isinstance(last, Assign) and _adds_product(last):
                end = counted_to(s)
                if end is not None:
                    yield last.sym, end


def _adds_product(s: Assign) -> bool:
    products = [e for e in walk_expr(s.value) if _is_product(e)]
    read = ({x.buffer for x in walk_expr(e) if isinstance(x, Load)} for e in products)
    return s.sym in used(s.value) and any(len(buffers) > 1 for buffers in read)


def _is_product(e: Expr) -> bool:
    return (isinstance(e, Binary) and e.op == "*") or (isinstance(e, Call) and e.fn == "fma")


def _is_score(body: Body, total: Sym) -> bool:
    """Whether values made of ``total`` are compared, and exponents."""
    tied = {total}
    while more := {x for s in walk(body) for x in _set_by(s, tied)} - tied:
        tied |= more
    calls = [e for e in all_exprs(body) if isinstance(e, Call) and used(e) & tied]
    compares = any(e.fn == "max" for e in calls) or any(
        isinstance(e, Binary) and e.op in "<>" and used(e) & tied for e in all_exprs(body)
    )
    return compares and any(e.fn in EXPONENTIALS for e in calls)


def _set_by(s: Stmt, tied: set[Sym]) -> Iterator[Sym]:
    """What ``s`` makes of values of ``tied``."""
    if isinstance(s, Assign | Decl | Store) and any(used(e) & tied for e in stmt_exprs(s)):
        yield s.buffer if isinstance(s, Store) else s.sym


__all__ = ["head_lengths", "tokens"]
