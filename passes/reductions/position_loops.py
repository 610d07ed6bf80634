"""The loops of a block that run over the positions of one maximum, and what is known before they do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from ktc.ir.analysis.defs import expand
from ktc.ir.analysis.dependence import may_alias
from ktc.ir.arith.polynomial import same_value
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, Decl, Expr, For, Par, Reduce, Sym
from ktc.ir.types import Ptr
from ktc.ir.walk import assigned, declared, used, used_in, walk
from ktc.passes.core.refusals import allowed
from ktc.passes.shared.serial_sums import converted, counted_to


def with_sums(kernel: Kernel, top: Reduce) -> Kernel:
    """``kernel`` with serial loops over the range of ``top`` that add something up as reductions."""
    while True:
        inits = {s.sym: s.init for s in walk(kernel.body) if isinstance(s, Decl) and s.init is not None}
        fixed = {s: e for s, e in inits.items() if s not in assigned(kernel.body)}
        serial = [s for s in over_positions(kernel.body, top, fixed) if isinstance(s, For)]
        found = next((s for s in serial if allowed(converted, kernel, s)), None)
        if found is None:
            return kernel
        kernel = converted(kernel, found)


def over_positions(body: Body, top: Reduce, names: Mapping[Sym, Expr]) -> Iterator[For | Par | Reduce]:
    """The loops over the range of ``top`` that are in no other such loop."""
    for s in body:
        if isinstance(s, For | Par | Reduce) and _same_range(s, top, names):
            yield s
        elif isinstance(s, Par | Reduce | For):
            yield from over_positions(s.body, top, names)


def _same_range(s: For | Par | Reduce, top: Reduce, names: Mapping[Sym, Expr]) -> bool:
    lo, hi = (s.init, counted_to(s)) if isinstance(s, For) else (s.lo, s.hi)
    if hi is None:
        return False
    return all(same_value(expand(a, names), expand(b, names)) for a, b in ((lo, top.lo), (hi, top.hi)))


def fixed_before(
    block: Body, top: Reduce, written: Collection[Sym], apart: Collection[Sym]
) -> tuple[dict[Sym, Expr], set[Sym]]:
    """The variables that ``block`` declares before ``top`` and that are known when it begins, with their values; and
    everything else that may have another value later. ``written``: by the kernel; ``apart``: as ``may_alias`` has it.
    """
    changing = {*declared(block), *written, *overlapping(used_in(block), written, apart)}
    fixed: dict[Sym, Expr] = {}
    for s in block:
        if s is top:
            break
        if isinstance(s, Decl) and s.init is not None and s.sym not in written and not used(s.init) & changing:
            fixed[s.sym] = s.init
            changing.discard(s.sym)
    return fixed, changing


def overlapping(buffers: Iterable[Sym], written: Iterable[Sym], apart: Collection[Sym]) -> set[Sym]:
    """The pointers among ``buffers`` that may reach what is ``written``."""
    targets = [w for w in written if isinstance(w.type, Ptr)]
    return {b for b in buffers if isinstance(b.type, Ptr) and any(may_alias(b, w, apart) for w in targets)}


__all__ = ["fixed_before", "over_positions", "overlapping", "with_sums"]
