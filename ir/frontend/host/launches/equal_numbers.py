"""Numbers of the host that conditions in front of a launch make equal: one of them stands for all.

    if (m == n && n == k) square<<<dim3(k / 16, m / 16), dim3(16, 16)>>>(a, b, c, n);

launches ``n / 16`` blocks each way, so that nobody has to say what ``m`` and ``k`` are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import cast
from ktc.ir.nodes import Binary, Expr, Sym, Unary, Var
from ktc.ir.types import Scalar


def stand_ins(reached: Iterable[Expr], params: Collection[Sym]) -> Mapping[Sym, Expr]:
    """What stands for each number of the host that equals another one where all of ``reached`` hold: the first of
    ``params``, the kernel's, among those that are equal, or else the first number."""
    classes: list[dict[Sym, None]] = []
    for equal in filter(None, map(_equal, reached)):
        joined = [c for c in classes if c.keys() & {*equal}]
        classes = [c for c in classes if c not in joined]
        classes.append(dict.fromkeys(s for c in (*joined, equal) for s in c))
    found: dict[Sym, Expr] = {}
    for c in classes:
        first = next((s for s in c if s in params), next(iter(c)))
        found |= {s: cast(Var(first), _integer(s)) for s in c if s is not first and s not in params}
    return found


def says_nothing(e: Expr) -> bool:
    """Whether ``e`` says of one variable that it equals itself."""
    equal = _equal(e)
    return equal is not None and equal[0] is equal[1]


def _equal(e: Expr) -> tuple[Sym, Sym] | None:
    """Two integer variables that are equal where ``e`` holds."""
    wanted = "=="
    if isinstance(e, Unary) and e.op == "!":
        wanted, e = "!=", e.x
    if not isinstance(e, Binary) or e.op != wanted:
        return None
    a, b = (without_casts(x) for x in (e.a, e.b))
    if isinstance(a, Var) and isinstance(b, Var) and all(_is_integer(x.sym) for x in (a, b)):
        return a.sym, b.sym
    return None


def _is_integer(s: Sym) -> bool:
    return isinstance(s.type, Scalar) and s.type.is_int


def _integer(s: Sym) -> Scalar:
    assert isinstance(s.type, Scalar)
    return s.type
