"""Whether two expressions are the same function of what they read: compared at random points of the exact domains.

Exponentials multiply there as they should (exp(a + b) = exp(a) exp(b)), sums and products obey algebra; what functions
a domain does not know give are hashes of their arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import cast, i32
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import Decl, Expr, HwIndex, Load, Stmt, Store, Var, fresh
from ktc.ir.types import I32, Ptr, scalar_of
from ktc.ir.walk import loads_in, map_expr, walk_expr
from ktc.ir.workload.input_data import numpy_dtype

POINTS = 64
"""Random points at which two programs are compared; one that differs agrees at one of them once in 10^9 times."""


def same_everywhere(pairs: Sequence[tuple[Expr, Expr]], domains: Sequence[str] = ("int", "field")) -> bool:
    """Whether the two expressions of each pair agree at random points of both exact domains (the field alone knows
    quotients), whatever their variables and the elements they read are."""
    leaves = dict.fromkeys(e for pair in pairs for side in pair for e in _leaves(side))
    names = {e: fresh("leaf", scalar_of(e.type)) for e in leaves}
    rng = np.random.default_rng(29)
    thread = cast(HwIndex("thread", "x"), I32)
    params: list[Param] = []
    body: list[Stmt] = []
    data: dict[str, np.ndarray] = {}
    for e, name in names.items():
        buffer = fresh(f"in_{name.id}", Ptr(scalar_of(e.type), const=True))
        params.append(Param(buffer))
        body.append(Decl(name, Load(buffer, (thread,))))
        values = rng.integers(-500, 500, POINTS) if scalar_of(e.type).is_float else rng.integers(1, 100, POINTS)
        data[buffer.name] = values.astype(numpy_dtype(scalar_of(e.type).name))
    for k, side in enumerate(side for pair in pairs for side in pair):
        out = fresh(f"out_{k}", Ptr(scalar_of(side.type)))
        params.append(Param(out))
        data[out.name] = np.zeros(POINTS, numpy_dtype(scalar_of(side.type).name))
        value = map_expr(side, lambda e: Var(names[e]) if e in names else e)
        body.append(Store(out, (thread,), value))
    one = i32(1)
    kernel = Kernel("points", tuple(params), Launch((one, one, one), (i32(POINTS), one, one)), tuple(body))
    for domain in domains:
        try:
            outputs = run(kernel, data, domain=domain, sanitize=False).outputs
        except KtcError:
            return False
        if any((outputs[f"out_{2 * k}"] != outputs[f"out_{2 * k + 1}"]).any() for k in range(len(pairs))):
            return False
    return True


def _leaves(e: Expr) -> Iterator[Expr]:
    """Variables and elements that ``e`` reads; those in the index of an element do not count."""
    inside = {x for load in loads_in(e) for i in load.index for x in walk_expr(i)}
    for x in walk_expr(e):
        if isinstance(x, Load) or (isinstance(x, Var) and x not in inside):
            yield x


__all__ = ["same_everywhere"]
