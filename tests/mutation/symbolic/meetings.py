"""Where two threads may mean the same element of an array: what holds if one stores to it and another one reads it."""

from __future__ import annotations

import itertools

from ktc.ir.analysis.uniformity import uniformity
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    HwIndex,
    Knob,
    Load,
    Select,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
)
from ktc.ir.walk import assigned, walk, walk_expr
from ktc.search.verification.integers import smt
from tests.mutation.sites import sites
from tests.mutation.zeros.refilled import Place, placed

PURE = (Const, Knob, Var, HwIndex, Binary, Unary, Cast, Select, Call)
"""What keeps its value as long as its variables do."""

THREAD = tuple(HwIndex("thread", axis) for axis in "xyz")


class Meetings:
    """The statements of one kernel, where they stand, and what holds there."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.facts = uniformity(kernel)
        self.changed = assigned(kernel.body)
        self.places: dict[int, list[Place]] = {}
        for s, place in placed(kernel.body):
            self.places.setdefault(id(s), []).append(place)
        self.declared = [s.sym for s in walk(kernel.body) if isinstance(s, Decl | Alloc)]
        self.declared += [s.var for s in walk(kernel.body) if isinstance(s, For)]
        self._sites: list[tuple[Stmt, smt.Context]] = []

    def sites(self) -> list[tuple[Stmt, smt.Context]]:
        """Every statement with what holds where it stands."""
        if not self._sites:
            self._sites = [(x, there.branch()) for x, there in sites(self.kernel.body, smt.Context(self.kernel))]
        return self._sites

    def home(self, array: Sym, s: Stmt) -> tuple[Body, int] | None:
        """The body that declares ``array``, and the number of its statement around ``s``."""
        (place, *others) = self.places.get(id(s), [()])
        homes = [
            (body, k) for body, k in place if any(isinstance(x, Alloc | Decl) and x.sym == array for x in body[:k])
        ]
        return homes[0] if len(homes) == 1 and not others else None

    def meeting(
        self,
        s: Store,
        there: smt.Context,
        e: Load | Store,
        here: smt.Context,
        steady: set[Sym],
        others: bool = False,
    ) -> smt.Context | None:
        """What holds where ``s``, run by any thread where ``there`` holds, stores to the element ``e``, touched where
        ``here`` holds; None if that cannot be told. ``steady``: what has one value for both, and for all threads of a
        block; ``others``: of two different threads."""
        import z3
        from z3.z3util import get_vars

        if s.width != 1 or len(s.index) != len(e.index) or not all(there.lasting(i) for i in s.index):
            return None
        index, out = [here.of(i) for i in e.index], there.branch()
        threads = [(here.of(i), out.of(i)) for i in THREAD] if others else []
        names = [
            (mine, out.of(key) if self._steady(key, steady) else z3.FreshInt("other"))
            for key, mine in list(here.unknown.items())
        ]
        rounds = {x for fact in here.facts for x in get_vars(fact)} - {mine for mine, _ in names}
        names += [(x, z3.FreshInt("other")) for x in rounds]
        out.facts += [z3.substitute(x, *names) for x in here.facts]
        out.facts += [out.of(i) == z3.substitute(j, *names) for i, j in zip(s.index, index)]
        out.facts += [z3.Or(*(z3.substitute(x, *names) != y for x, y in threads))] if others else []
        return out

    def _steady(self, e: Expr, steady: set[Sym]) -> bool:
        return all(
            isinstance(x, PURE)
            and (not isinstance(x, Var) or x.sym in steady)
            and (not isinstance(x, HwIndex) or x.level in ("block", "block_dim", "grid_dim"))
            and (not isinstance(x, Call) or x.effects == "pure")
            for x in walk_expr(e)
        )

    def lasting(self, place: Place, home: Body) -> set[Sym]:
        """What keeps one value, the same for all threads of a block, as long as ``home`` runs once."""
        around = list(itertools.takewhile(lambda at: at[0] is not home, place))
        loops = [body[k] for body, k in around]
        made = {x.sym for body in (*(b for b, _ in around), home) for x in body if isinstance(x, Decl)}
        made |= {x.var for x in loops if isinstance(x, For)}
        once = {sym for sym in made if self.declared.count(sym) == 1} | {p.sym for p in self.kernel.params}
        return {sym for sym in once - self.changed if self.facts.is_uniform(Var(sym))}


__all__ = ["PURE", "Meetings"]
