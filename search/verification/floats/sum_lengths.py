"""About how many terms an element of a kernel's outputs is the sum of: by which rounding in two orders may differ.

for k in 0..1024                    c[i, j]: 2 terms an iteration, 1024 iterations of each of the elements
  c[i, j] += a[i, k] * b[j, k] + b[i, k] * a[j, k]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktc.ir.analysis.access_nests import visits
from ktc.ir.analysis.operation_counts import Counts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Atomic, Binary, Cast, Expr, Load, Reduce, Stmt, Store, Var
from ktc.ir.types import Scalar, scalar_of

SUMS = ("+", "-")


def terms_added(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """Terms that one launch at ``sizes`` adds to floats that it keeps: variables, elements and accumulators. A loop
    whose length the sizes do not tell counts as one iteration."""
    counts = Counts(kernel, sizes)
    return sum(counts.times(v.axes) * added for v in visits(kernel) if (added := _added(v.stmt)))


def _added(s: Stmt) -> int:
    """Terms that one execution of ``s`` adds to what it holds already."""
    match s:
        case Assign(sym, value):
            return _to(value, Var(sym))
        case Store(buffer, index, value):
            return _to(value, Load(buffer, index)) if s.width == 1 else 0
        case Atomic(op="add" | "sub", buffer=buffer):
            return int(scalar_of(buffer.type).is_float)
        case Reduce(accs=accs):
            return sum(1 for a in accs if a.op == "+" and scalar_of(a.sym.type).is_float)
    return 0


def _to(value: Expr, kept: Var | Load) -> int:
    """Terms of ``value`` beside ``kept``, where that is one of them."""
    terms = list(_terms(value))
    return len(terms) - 1 if any(_same(t, kept) for t in terms) else 0


def _terms(e: Expr) -> Iterator[Expr]:
    if isinstance(e, Binary) and e.op in SUMS and isinstance(e.type, Scalar) and e.type.is_float:
        yield from _terms(e.a)
        yield from _terms(e.b)
    elif isinstance(e, Cast) and isinstance(e.x.type, Scalar) and e.x.type.is_float:
        yield from _terms(e.x)
    else:
        yield e


def _same(e: Expr, kept: Var | Load) -> bool:
    if isinstance(e, Load) and isinstance(kept, Load):
        return e.buffer is kept.buffer and e.index == kept.index
    return e == kept


__all__ = ["terms_added"]
