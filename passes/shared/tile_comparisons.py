"""What comparisons of integers come out as in all iterations of a tile, as conditions on the tile alone.

    par x in t * 64..t * 64 + 64: for i in -1..2: .. x + i < n ..          holds in all of them if n - t * 64 - 65 >= 0

A comparison is a polynomial that is not negative where it holds. Linear in the variables of the loops inside the tile,
it is least at their ends; what is left depends on the tile and the parameters. Index arithmetic is taken not to wrap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ktc.ir.analysis.order import pinned, places
from ktc.ir.arith.polynomial import Polynomial, from_polynomial, minus, plus, polynomial, scaled
from ktc.ir.fold import cast, i32
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Body, Expr, If, Load, Par, Stmt, Sym, Var
from ktc.ir.types import I32, I64, Scalar, is_signed_integer
from ktc.ir.walk import map_body, used, walk, walk_expr
from ktc.passes.core.refusals import Refusal

from .conjuncts import conjuncts_of
from .tiles import is_blocked, paths, shared_inside

SIDES: Mapping[str, tuple[tuple[bool, int, int], ...]] = {
    "<": ((True, 1, -1), (False, -1, 0)),
    "<=": ((True, 1, 0), (False, -1, -1)),
    ">": ((True, -1, -1), (False, 1, 0)),
    ">=": ((True, -1, 0), (False, 1, -1)),
    "==": ((False, 1, -1), (False, -1, -1)),
    "!=": ((True, 1, -1), (True, -1, -1)),
}
"""By comparison ``a op b``: (what it is, s, c) where ``s * (b - a) + c >= 0``."""

ORDERS = ("<", "<=", ">", ">=")
"""Those that say no less than their polynomial does."""


def outcomes(op: str, a: Polynomial, b: Polynomial) -> Iterator[tuple[bool, Polynomial]]:
    """What ``a op b`` is, and a polynomial that is at least 0 only where it is that; nothing for other operators."""
    gap = minus(b, a)
    for holds, sign, more in SIDES.get(op, ()):
        yield holds, plus(scaled(gap, sign), polynomial(i32(more)))


def implies(p: Polynomial, q: Polynomial) -> bool:
    """Whether ``q`` is at least 0 wherever ``p`` is, as they differ by a number alone."""
    more = minus(q, p)
    return not set(more) - {()} and more.get((), 0) >= 0


def strongest(conditions: Iterable[Expr]) -> list[Expr]:
    """Those of ``conditions``, each of them ``p >= 0``, that no other one implies."""
    kept: dict[Expr, Polynomial] = {}
    for e in conditions:
        p = polynomial(e.a)  # type: ignore[attr-defined]
        if not any(implies(q, p) for q in kept.values()):
            kept = {**{f: q for f, q in kept.items() if not implies(p, q)}, e: p}
    return list(kept)


def without_inside(body: Body, conditions: Iterable[Expr]) -> Body:
    """``body`` where not all of ``conditions``, each of them ``p >= 0``, hold: a branch for places where they do is
    not taken."""
    asked = [polynomial(e.a) for e in conditions]  # type: ignore[attr-defined]

    def rewritten(s: Stmt) -> Body:
        if isinstance(s, If) and all(any(implies(p, q) for p in _least_where(s.cond)) for q in asked):
            return s.orelse
        return (s,)

    return map_body(body, rewritten)


def _least_where(cond: Expr) -> list[Polynomial]:
    """What is at least 0 where ``cond`` holds."""
    orders = (c for c in conjuncts_of(cond) if isinstance(c, Binary) and c.op in ORDERS and is_signed_integer(c.a.type))
    return [p for c in orders for holds, p in outcomes(c.op, polynomial(c.a), polynomial(c.b)) if holds]


@dataclass
class Tile:
    """A tile of ``kernel`` that ``tiles``, the variables of the loops around it, choose; ``ends``: the least and the
    largest values of the variables of loops inside, outermost first."""

    kernel: Kernel
    tiles: Collection[Sym]
    ends: dict[Sym, tuple[Polynomial, Polynomial]] = field(default_factory=dict)

    def always(self, p: Polynomial) -> Expr | bool | None:
        """The condition on the tile under which ``p`` is at least 0 in all iterations: a truth where it is known, None
        where there is no such condition."""
        least = self._least(p)
        if least is None:
            return None
        known = {q.sym for q in self.kernel.params} | set(self.tiles)
        leaves = {x for factors in least for f in factors for x in walk_expr(f)}
        if any((isinstance(x, Var) and x.sym not in known) or isinstance(x, Load) for x in leaves):
            return None
        if not set(least) - {()}:
            return least.get((), 0) >= 0
        t = I64 if any(isinstance(x.type, Scalar) and x.type.bits == 64 for x in leaves) else I32
        return Binary(">=", from_polynomial(least, t), cast(i32(0), t))

    def _least(self, p: Polynomial) -> Polynomial | None:
        """``p`` at its least over the loops inside, innermost first; None where it is not linear in their variables."""
        for v, (low, high) in reversed(self.ends.items()):
            atom = Var(v)
            mine = {f: k for f, k in p.items() if any(v in used(x) for x in f)}
            if any(f != (atom,) for f in mine):
                return None
            for k in mine.values():
                p = plus({f: n for f, n in p.items() if f != (atom,)}, scaled(low if k > 0 else high, k))
        return p


def chosen_by(kernel: Kernel, loop: Par, code: str, threads: bool = False) -> set[Sym]:
    """The variables of ``loop`` and the loops around it, of which an iteration is a tile; refused with ``code`` unless
    it is the innermost of loops over blocks alone or, with ``threads``, one whose iterations, loops themselves, are run
    by threads that never meet."""
    around = next(p for p in paths(kernel.body) if p[-1] is loop)
    if threads and _is_of_threads(loop, around):
        return {s.var for s in around if isinstance(s, Par)}
    if not all(map(is_blocked, around)) or any(map(is_blocked, walk(loop.body))):
        why = f"'{loop.var.name}' is not the innermost of loops over blocks alone"
        raise Refusal(code, why, places(loop), "tile makes such loops")
    return {s.var for s in around if isinstance(s, Par)}


def _is_of_threads(loop: Par, around: Sequence[Stmt]) -> bool:
    """Whether threads share out the iterations of ``loop``, which are loops that one thread runs, or nothing but one
    loop that others share out further, and meet in none."""
    spread = all(isinstance(s, Par) and not any(lv.kind == "vec" for lv in s.dist) for s in around)
    if not spread or not any(lv.kind == "thread" for lv in loop.dist) or pinned(loop.body) is not None:
        return False
    innermost = loop
    while len(innermost.body) == 1 and isinstance(inner := innermost.body[0], Par) and shared_inside(innermost):
        innermost = inner
    return any(isinstance(s, Par) for s in walk(innermost.body)) and shared_inside(innermost) is None


__all__ = ["Tile", "chosen_by", "outcomes", "strongest", "without_inside"]
