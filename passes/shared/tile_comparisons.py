"""What comparisons of integers come out as in all iterations of a tile, as conditions on the tile alone.

    par x in t * 64..t * 64 + 64: for i in -1..2: .. x + i < n ..          holds in all of them if n - t * 64 - 65 >= 0

A comparison is a polynomial that is not negative where it holds. Linear in the variables of the loops inside the tile,
it is least at their ends; what is left depends on the tile and the parameters. Index arithmetic is taken not to wrap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ktc.ir.analysis.order import pinned, places
from ktc.ir.arith.polynomial import Polynomial, from_polynomial, minus, plus, polynomial, scaled
from ktc.ir.fold import cast, i32
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, Load, Par, Stmt, Sym, Var
from ktc.ir.types import I32, I64, Scalar
from ktc.ir.walk import used, walk, walk_expr
from ktc.passes.core.refusals import Refusal

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


def outcomes(op: str, a: Polynomial, b: Polynomial) -> Iterator[tuple[bool, Polynomial]]:
    """What ``a op b`` is, and a polynomial that is at least 0 only where it is that; nothing for other operators."""
    gap = minus(b, a)
    for holds, sign, more in SIDES.get(op, ()):
        yield holds, plus(scaled(gap, sign), polynomial(i32(more)))


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
    it is the innermost of loops over blocks alone or, with ``threads``, one of whose iterations, loops themselves, each
    is run by one thread alone."""
    around = next(p for p in paths(kernel.body) if p[-1] is loop)
    if threads and _is_of_threads(loop, around):
        return {s.var for s in around if isinstance(s, Par)}
    if not all(map(is_blocked, around)) or any(map(is_blocked, walk(loop.body))):
        why = f"'{loop.var.name}' is not the innermost of loops over blocks alone"
        raise Refusal(code, why, places(loop), "tile makes such loops")
    return {s.var for s in around if isinstance(s, Par)}


def _is_of_threads(loop: Par, around: Sequence[Stmt]) -> bool:
    """Whether threads share out the iterations of ``loop``, which are loops that one thread runs, and meet in none."""
    spread = all(isinstance(s, Par) and not any(lv.kind == "vec" for lv in s.dist) for s in around)
    if not spread or not any(lv.kind == "thread" for lv in loop.dist) or pinned(loop.body) is not None:
        return False
    return any(isinstance(s, Par) for s in walk(loop.body)) and shared_inside(loop) is None


__all__ = ["Tile", "chosen_by", "outcomes"]
