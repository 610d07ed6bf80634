"""Which sizes are divided by what: ``k / group`` with ``k < K`` makes parts of ``K``, and none of ``N``.

Sizes of probes that are multiples of a divisor show no more of a quotient than that some size was divided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Const, Expr, HwIndex, Load, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, used, walk_expr

from ..given_values import made_of, symbols_behind
from ..grains import bounds
from ..inner_strides import accesses


def divided_sizes(k: Kernel, sources: Mapping[Sym, Sequence[Expr]], buffer: str = "") -> dict[str, set[str]]:
    """For each parameter and number that the body divides by, or the indices of ``buffer`` do: the parameters that what
    is divided is made of or stays below, and the sizes that the host makes these of. A divisor of something that is
    loaded, or that nothing bounds, is left out. ``sources``: what variables are given."""
    params, sides = {p.sym for p in k.params}, list(bounds(k))
    grid = dict(zip("xyz", k.launch.grid)) if k.launch is not None else {}
    passed = dict(k.launch.passed) if k.launch is not None else {}
    found: dict[str, set[str]] = {}
    open_ = set[str]()
    indices = made_of((i for b, i in accesses(k) if b == buffer), sources, places=False)
    for e in indices if buffer else (x for y in all_exprs(k.body) for x in walk_expr(y)):
        by = _divisor(e, params)
        if not by:
            continue
        assert isinstance(e, Binary)
        behind = symbols_behind([e.a], sources)
        blocks = [x.axis for x in made_of([e.a], sources) if isinstance(x, HwIndex) and x.level == "block"]
        within = {s for axis in blocks if axis in grid for s in used(grid[axis])}
        for index, bound in sides:
            if symbols_behind([index], sources) & (behind - params):
                within |= symbols_behind([bound], sources)
        known = not any(isinstance(x, Load) for x in made_of([e.a], sources))
        sizes = {s.name for s in (behind | within) & params if known}
        sizes |= {s.name for n in sizes & passed.keys() for s in used(passed[n])}
        found.setdefault(by, set()).update(sizes)
        open_ |= set() if sizes else {by}
    return {by: sizes for by, sizes in found.items() if by not in open_}


def _divisor(e: Expr, params: set[Sym]) -> str:
    """The parameter or the number by which ``e`` divides integers; '' if it does not."""
    if not isinstance(e, Binary) or e.op != "/" or not isinstance(e.type, Scalar) or not e.type.is_int:
        return ""
    by = without_casts(e.b)
    if isinstance(by, Const):
        return str(by.value)
    return by.sym.name if isinstance(by, Var) and by.sym in params else ""


__all__ = ["divided_sizes"]
