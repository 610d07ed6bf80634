"""What a distribution takes for granted of the sizes: whole vectors, a range that its levels cover.

What holds for knobs alone constrains the template; the launcher checks the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.affine import coefficient
from ktc.ir.arith.loop_extents import extent, is_static
from ktc.ir.arith.polynomial import from_polynomial, polynomial, same_value
from ktc.ir.fold import binary, cast, fold_node, i32, is_const, lt, product, sub
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Binary, Const, Dist, Expr, Load, Reduce, Store, Sym
from ktc.ir.types import I32, Ptr
from ktc.ir.walk import stmt_exprs, substitute_expr, used, walk, walk_expr
from ktc.passes.core.base import Refused
from ktc.passes.core.named_loops import Loop


def assume(kernel: Kernel, facts: Iterable[Assume], owner: str) -> Kernel | Refused:
    """``kernel`` resting on ``facts``: those about knobs alone constrain the template, false ones are refused."""
    assumptions, constraints = list(kernel.assumptions), list(kernel.constraints)
    for a in facts:
        if isinstance(a.expr, Const):
            if not a.expr.value:
                return Refused("E-DIST-COVER", f"{owner}: the sizes given do not fit: a tile is not covered or divided")
        elif isinstance(a.expr, Binary) and a.expr.op == ">=" and same_value(a.expr.a, a.expr.b):
            continue  # $V * $T >= $T * $V
        elif used(a.expr):
            assumptions += [a] if all(a.expr != b.expr for b in assumptions) else []
        elif a.expr not in constraints:
            constraints.append(a.expr)
    return kernel.with_(constraints=tuple(constraints), assumptions=tuple(assumptions))


def assumptions(s: Loop, dist: Dist, exact: bool, params: Collection[Sym] | None = None) -> list[Assume]:
    """What sizes must satisfy for ``dist`` to cover the range of ``s`` in whole vectors (``exact``: whole tiles).

    Blocks without number are as many as an empty total has parts, and none of them would store it.

    Of the variables in the range, those not in ``params`` (if given) are indices of loops around ``s``: nothing may be
    assumed of them.
    Vectors need whole lanes only where they move global memory; elsewhere the last lanes are guarded one by one.
    """
    parts = extent(s.lo, s.hi)
    known = params is None or used(s.lo) | used(s.hi) <= set(params)
    every = [*([parts.cap] if parts.cap is not None else []), *parts.clips]
    out: list[Assume] = []
    if dist and dist[0].kind == "vec" and dist[0].n is not None and moves_vectors(s):
        out += [a for e in every for a in divided(e, dist[0].n, params)]
    sizes = [lv.n for lv in dist if lv.n is not None]
    if dist and all(lv.n is not None for lv in dist):
        total = product([cast(n, I32) for n in sizes])  # type: ignore[arg-type]
        bound = parts.cap if parts.cap is not None else sub(s.hi, s.lo)
        out.append(Assume(fold_node(Binary(">=", total, cast(bound, I32))), "guessed"))  # type: ignore[arg-type]
    if isinstance(s, Reduce) and dist and dist[-1].kind == "block" and dist[-1].n is None and known:
        out.append(Assume(lt(s.lo, s.hi), "guessed"))  # no blocks, no total
    if exact and sizes:
        out += [a for e in every for a in divided(e, product(sizes), params)]  # type: ignore[arg-type]
    return out


def moves_vectors(s: Loop) -> bool:
    """Whether some access of global memory in ``s`` has unit stride along it (or an index that is not understood)."""
    defs = {k: expand(e, definitions(s.body)) for k, e in definitions(s.body).items()}
    for x in walk(s.body):
        touched = [(x.buffer, x.index)] if isinstance(x, Store) else []
        touched += [(e.buffer, e.index) for ex in stmt_exprs(x) for e in walk_expr(ex) if isinstance(e, Load)]
        for buffer, index in touched:
            if isinstance(buffer.type, Ptr):
                c = coefficient(substitute_expr(index[-1], defs), s.var)
                if c is None or is_const(c, 1):
                    return True
    return isinstance(s, Reduce)


def divided(e: Expr, by: Expr, params: Collection[Sym] | None) -> list[Assume]:
    """What makes ``by`` divide ``e``. A multiple of a loop's index is whole when its static factor is."""
    if params is None:
        return [_divides(e, by)]
    out: list[Assume] = []
    fixed: dict[tuple[Expr, ...], int] = {}
    terms = polynomial(e)
    for factors, k in terms.items():
        if by in factors or (isinstance(by, Const) and k % int(by.value) == 0):
            continue
        if any(used(f) - set(params) for f in factors):
            static = tuple(f for f in factors if is_static(f))
            out.append(_divides(from_polynomial({static: k}, e.type), by))
        else:
            fixed[factors] = k
    left = e if len(fixed) == len(terms) else from_polynomial(fixed, e.type)
    return [*out, _divides(left, by)] if fixed else out


def _divides(extent: Expr, by: Expr) -> Assume:
    return Assume(binary("==", binary("%", extent, by), i32(0)), "guessed")
