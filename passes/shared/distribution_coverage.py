"""What a distribution takes for granted of the sizes: whole vectors, a range that its levels cover.

What holds for knobs alone constrains the template; the launcher checks the rest.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.order import places
from ktc.ir.arith import REWRITES, Facts, facts_of
from ktc.ir.arith.affine import coefficient
from ktc.ir.arith.loop_extents import extent, is_static
from ktc.ir.arith.polynomial import from_polynomial, polynomial, same_value
from ktc.ir.arith.symbolic_bounds import upper_bound
from ktc.ir.diagnostics import Loc
from ktc.ir.fold import binary, cast, fold_node, i32, is_const, lt, product, simplify, sub
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.launch_limits import MAX_BLOCK_THREADS
from ktc.ir.nodes import Binary, Const, Dist, Expr, Load, Reduce, Store, Sym
from ktc.ir.text import print_expr
from ktc.ir.types import I32, Ptr
from ktc.ir.walk import stmt_exprs, substitute_expr, used, walk, walk_expr
from ktc.passes.core.named_loops import Loop
from ktc.passes.core.refusals import Refusal


@dataclass(frozen=True)
class Need:
    """A condition on sizes that a rewrite rests on, and what there is to say where they do not meet it.

    ``why`` speaks of ``{have}`` and ``{want}``, the two sizes that the condition compares.
    """

    expr: Expr
    why: str
    have: Expr
    want: Expr
    locs: tuple[Loc, ...] = ()
    hint: str = ""
    origin: str = "guessed"

    def refusal(self) -> Refusal:
        have, want = print_expr(simplify(self.have)), print_expr(simplify(self.want))
        return Refusal("E-DIST-COVER", self.why.format(have=have, want=want), self.locs, self.hint)


def assume(kernel: Kernel, needs: Iterable[Need]) -> Kernel:
    """``kernel`` resting on ``needs``: those about knobs alone constrain the template.

    Raises:
        Refusal: E-DIST-COVER, one is known not to hold.
    """
    assumptions, constraints = list(kernel.assumptions), list(kernel.constraints)
    for n in needs:
        e = n.expr
        if isinstance(e, Const):
            if not e.value:
                raise n.refusal()
        elif isinstance(e, Binary) and e.op == ">=" and same_value(e.a, e.b):
            continue  # $V * $T >= $T * $V
        elif used(e):
            assumptions += [Assume(e, n.origin)] if all(e != b.expr for b in assumptions) else []
        elif e not in constraints:
            constraints.append(e)
    return kernel.with_(constraints=tuple(constraints), assumptions=tuple(assumptions))


def assumptions(s: Loop, dist: Dist, exact: bool, params: Collection[Sym] | None = None) -> list[Need]:
    """What sizes must satisfy for ``dist`` to cover the range of ``s`` in whole vectors (``exact``: whole tiles).

    Blocks without number are as many as an empty total has parts, and none of them would store it.

    Of the variables in the range, those not in ``params`` (if given) are indices of loops around ``s``: nothing may be
    assumed of them.
    Vectors need whole lanes only where they move global memory; elsewhere the last lanes are guarded one by one.
    """
    parts = extent(s.lo, s.hi)
    known = params is None or used(s.lo) | used(s.hi) <= set(params)
    every = [*([parts.cap] if parts.cap is not None else []), *parts.clips]
    name, locs = s.var.name, places(s)
    out: list[Need] = []
    if dist and dist[0].kind == "vec" and dist[0].n is not None and moves_vectors(s):
        why = f"the {{have}} iterations of '{name}' are no whole vectors of {{want}}"
        hint = "a vec level that divides them, or pad the rows and say so in the workload"
        out += [a for e in every for a in divided(e, dist[0].n, params, why, locs, hint)]
    sizes = [lv.n for lv in dist if lv.n is not None]
    if dist and all(lv.n is not None for lv in dist):
        total = product([cast(n, I32) for n in sizes])  # type: ignore[arg-type]
        bound = parts.cap if parts.cap is not None else sub(s.hi, s.lo)
        covers = fold_node(Binary(">=", total, cast(bound, I32)))  # type: ignore[arg-type]
        why = f"the levels of '{name}' take {{have}} of its {{want}} iterations"
        out.append(
            Need(covers, why, total, bound, locs, "end with an open level, such as seq or block.x, for the rest")
        )
    if isinstance(s, Reduce) and dist and dist[-1].kind == "block" and dist[-1].n is None and known:
        why = f"'{name}' runs from {{have}} to {{want}}: no iteration, no block that stores the total"
        out.append(Need(lt(s.lo, s.hi), why, s.lo, s.hi, locs))
    if exact and sizes:
        why = f"the {{have}} iterations of '{name}' are no whole tiles of {{want}}"
        hint = "tail=guard or tail=cut, or sizes that divide them"
        out += [a for e in every for a in divided(e, product(sizes), params, why, locs, hint)]  # type: ignore[arg-type]
    return out


def needed(kernel: Kernel, s: Loop, dist: Dist, exact: bool = False) -> list[Need]:
    """The assumptions of ``dist`` for ``s``, a loop of ``kernel``: none of what ranges show, and none about a counter
    of a loop around it where its largest value is known: ``1024 >= length`` for ``1024 >= row % length + 1``."""
    params = frozenset(p.sym for p in kernel.params)
    found = assumptions(s, dist, exact, params)
    if all(used(a.expr) <= params for a in found):
        return found
    here = facts_of(kernel, REWRITES).at(s)
    return [a if used(a.expr) <= params else _at_most(a, params, here) for a in found if not here.truth(a.expr)]


def _at_most(a: Need, params: frozenset[Sym], here: Facts) -> Need:
    """``a``, or what implies it for all values of the counters around."""
    if not isinstance(a.expr, Binary) or a.expr.op != ">=" or not used(a.expr.a) <= params:
        return a
    most = upper_bound(here.polynomial(a.expr.b), here, lambda atom: used(atom) <= params)
    found = None if most is None else fold_node(Binary(">=", a.expr.a, from_polynomial(most, a.expr.b.type)))
    return a if found is None or is_const(found, 0) else dataclasses.replace(a, expr=found)


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


def divided(
    e: Expr, by: Expr, params: Collection[Sym] | None, why: str, locs: tuple[Loc, ...] = (), hint: str = ""
) -> list[Need]:
    """What makes ``by`` divide ``e``. A multiple of a loop's index is whole when its static factor is.

    ``why``, ``locs``, ``hint``: what to say if it does not, of ``{have}`` and ``{want}`` (``by``).
    """

    def divides(part: Expr) -> Need:
        return Need(binary("==", binary("%", part, by), i32(0)), why, e, by, locs, hint)

    if params is None:
        return [divides(e)]
    out: list[Need] = []
    fixed: dict[tuple[Expr, ...], int] = {}
    terms = polynomial(e)
    for factors, k in terms.items():
        if by in factors or (isinstance(by, Const) and k % int(by.value) == 0):
            continue
        if any(used(f) - set(params) for f in factors):
            static = tuple(f for f in factors if is_static(f))
            out.append(divides(from_polynomial({static: k}, e.type)))
        else:
            fixed[factors] = k
    common = math.gcd(*fixed.values())
    if isinstance(by, Const) and common > 1 and math.gcd(common, int(by.value)) == 1:
        fixed = {factors: k // common for factors, k in fixed.items()}  # 4 divides 3 * width where it divides width
    left = e if fixed == dict(terms) else from_polynomial(fixed, e.type)
    return [*out, divides(left)] if fixed else out


def fits_a_block(s: Loop, threads: Expr) -> Need:
    """That a block has as many ``threads``."""
    fits = fold_node(Binary("<=", threads, i32(MAX_BLOCK_THREADS)))
    why = f"the rows of '{s.var.name}' in a block take {{have}} threads; the limit is {{want}}"
    return Need(fits, why, threads, i32(MAX_BLOCK_THREADS), places(s), "fewer rows or lanes", "proven")
