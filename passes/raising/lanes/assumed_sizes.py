"""What loops over elements assume of a kernel's sizes, beyond what is known of them: facts for the launcher to test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import multiple_of, polynomial
from ktc.ir.fold import cast, evaluate, i32, simplify
from ktc.ir.kernel import Assume, Param
from ktc.ir.nodes import Binary, Body, Call, Const, Expr, HwIndex, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import used, walk_expr

from .lane_values import NotLanes


@dataclass
class Sizes:
    """``params``: what the launcher knows, by symbol; ``named``: what variables of the kernel stand for."""

    params: Mapping[Sym, Param]
    named: Mapping[Sym, Expr]
    facts: dict[Assume, None] = field(default_factory=dict)

    def anew(self) -> Sizes:
        """The same sizes, of which nothing is assumed."""
        return replace(self, facts={})

    def multiple(self, e: Expr, n: int) -> None:
        """Assume that ``n`` divides ``e``.

        Raises:
            NotLanes: it is nothing that the launcher knows.
        """
        e = self._known(e)
        if multiple_of(e, n, {Var(p.sym): p.divisible_by for p in self.params.values()}):
            return
        t = _integer(e)
        rest = Binary("%", e, cast(i32(n), t))
        self.facts[Assume(simplify(Binary("==", rest, Const(0, t))), "guessed")] = None

    def aligned(self, index: Expr, n: int) -> None:
        """Assume what keeps ``index``, where the source moves ``n`` elements at once, a multiple of ``n``: strides of
        rows that are not known to be multiples."""
        for factors, k in polynomial(expand(index, self.named)).items():
            strides = [f for f in factors if isinstance(f, Var) and f.sym in self.params]
            if k % n and len(strides) == 1:
                self.multiple(strides[0], n)

    def most(self, e: Expr, n: int) -> None:
        """Assume that ``e`` is at most ``n``."""
        e = self._known(e)
        numbers = [evaluate(x, {}) for x in e.args] if isinstance(e, Call) and e.fn == "min" else []
        if any(x is not None and x <= n for x in numbers):
            return
        high = self.params[e.sym].range[1] if isinstance(e, Var) else None
        if high is None or high > n:
            self.facts[Assume(Binary("<=", e, Const(n, _integer(e))), "guessed")] = None

    def _known(self, e: Expr) -> Expr:
        e = without_index_casts(simplify(expand(e, self.named)))
        if not used(e) <= self.params.keys() or any(isinstance(x, HwIndex) for x in walk_expr(e)):
            raise NotLanes("how long rows are is nothing that the launcher knows")
        return e


def sizes_in(body: Body, params: Iterable[Param]) -> Sizes:
    """The sizes of a kernel with ``params``."""
    return Sizes({p.sym: p for p in params if isinstance(p.sym.type, Scalar)}, definitions(body))


def _integer(e: Expr) -> Scalar:
    assert isinstance(e.type, Scalar)
    return e.type


__all__ = ["Sizes", "sizes_in"]
