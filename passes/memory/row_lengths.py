"""How long a row may be: the most that an extent can be in any block, in what the launcher knows.

A row of a causal softmax is ``block % n + 1`` long, and memory for all blocks is asked for at once: ``n`` elements.
"""

from __future__ import annotations

from collections.abc import Callable

from ktc.ir.analysis.defs import MAX_DEPTH, integer_constants
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.fold import add, cast, evaluate, simplify, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, Par, Var
from ktc.ir.types import I64, Scalar, is_signed_integer
from ktc.ir.walk import used, walk

ONE = Const(1, I64)


def most(kernel: Kernel, extent: Expr) -> Expr | None:
    """An expression over parameters that ``extent`` never exceeds, of its type; None where none is known.

    ``extent`` itself where that is one. Remainders stay below positive divisors, indices of parallel loops below the
    end of the loop. What wraps around only gets smaller: differences of unsigned numbers, which do not, are left alone.
    """
    params = {p.sym: p for p in kernel.params}
    if used(extent) <= set(params):
        return extent
    ends = {s.var: s.hi for s in walk(kernel.body) if isinstance(s, Par)}
    known = integer_constants(kernel.body)

    def positive(e: Expr) -> bool:
        e = without_index_casts(e)
        least = params[e.sym].range[0] if isinstance(e, Var) and e.sym in params else evaluate(e, {})
        return least is not None and least >= 1

    def bound(e: Expr, depth: int) -> Expr | None:
        if used(e) <= set(params):
            return cast(e, I64)
        match e:
            case Var(s) if depth and s in known:
                return bound(known[s], depth - 1)
            case Var(s) if depth and s in ends:
                return _with(lambda end: sub(end, ONE), bound(ends[s], depth - 1))
            case Cast(Scalar() as to, x) if _only_smaller(x.type, to):
                return bound(x, depth)
            case Binary("%", _, d) if used(d) <= set(params) and positive(d):
                return sub(cast(d, I64), ONE)
            case Binary("+", a, b):
                return _with(add, bound(a, depth), bound(b, depth))
            case Binary("-", a, b) if is_signed_integer(e.type) and used(b) <= set(params):
                return _with(sub, bound(a, depth), cast(b, I64))
            case Binary("/", a, b) if used(b) <= set(params) and positive(b):
                return _with(lambda x, y: Binary("/", x, y), bound(a, depth), cast(b, I64))
            case Call("min", (a, b)):
                return bound(a, depth) or bound(b, depth)
        return None

    found, t = bound(extent, MAX_DEPTH), extent.type
    if found is None or not isinstance(t, Scalar):
        return None
    found = simplify(found)
    return found.x if isinstance(found, Cast) and found.x.type == t else cast(found, t)


def _with(f: Callable[..., Expr], *parts: Expr | None) -> Expr | None:
    known = [p for p in parts if p is not None]
    return f(*known) if len(known) == len(parts) else None


def _only_smaller(source: object, to: Scalar) -> bool:
    """Whether a conversion keeps an integer or makes it smaller."""
    if not isinstance(source, Scalar) or not source.is_int or not to.is_int:
        return False
    return not source.is_signed or (to.is_signed and to.bits >= source.bits)
