"""Parameters that say which of several loop nests a launch runs, or what it does to each element, and nothing else.

    if aligned                     aligned             par i in 0..n                            forward
      par i in 0..n: ...                                 if forward
    else                                                   y[i] += x[i / 2]
      par i in 0..n, j in 0..m: ...                      else
                                                           atomic add x[i / 2], y[i]

A schedule of one nest is none of the other, and all nests of a kernel share a grid: whoever plans has to know which is
meant. ``specialize`` makes a kernel of one.
"""

from __future__ import annotations

from collections import Counter

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Body, Cast, Const, Expr, If, Par, Reduce, Sym, Unary, Var, bodies
from ktc.ir.types import BOOL, Scalar
from ktc.ir.walk import all_exprs, used, walk


def nest_flags(kernel: Kernel) -> list[str]:
    """The names of such parameters of ``kernel``, in parallel form: integers and truths that conditions around parallel
    loops ask about, or that choose between two ways inside of them, and that are only ever compared with numbers, for
    equality, or taken as truths."""
    params = {p.sym for p in kernel.params if not p.host and _is_whole(p.sym.type)}
    asked = {v for c in _conditions(kernel.body) for v in used(c) & params if used(c) <= params}
    reads = Counter(e.sym for e in all_exprs(kernel.body) if isinstance(e, Var))
    as_flags = Counter(v for s in walk(kernel.body) if isinstance(s, If) for v in _flags(s.cond))
    sizes = [e for p in kernel.params for e in (*p.touches, *(() if p.scratch is None else (p.scratch,)))]
    sizes += (*kernel.launch.grid, *kernel.launch.block) if kernel.launch is not None else ()
    asked -= {v for e in sizes for v in used(e)}
    return sorted(v.name for v in asked if reads[v] == as_flags[v])


def _is_whole(t: object) -> bool:
    return isinstance(t, Scalar) and (t.is_int or t == BOOL)


def _conditions(body: Body) -> list[Expr]:
    """Conditions outside of loops around loops that threads or blocks share out, and those of two ways inside."""
    found = []
    for s in body:
        if isinstance(s, If):
            inside = [x for b in bodies(s) for x in b]
            found += [s.cond] if any(isinstance(x, Par | Reduce) for x in walk(tuple(inside))) else []
            found += _conditions(tuple(inside))
        elif isinstance(s, Par | Reduce):
            found += [x.cond for x in walk(s.body) if isinstance(x, If) and x.then and x.orelse]
    return found


def _flags(e: Expr) -> list[Sym]:
    """Variables that ``e`` takes as truths, or compares with numbers for equality, once for each time."""
    match e:
        case Var(v):
            return [v]
        case Cast(x=x) | Unary("!", x):
            return _flags(x)
        case Binary("&&" | "||", a, b):
            return [*_flags(a), *_flags(b)]
        case Binary("==" | "!=", a, Const()):
            return _flags(a)
    return []


__all__ = ["nest_flags"]
