"""Which arguments a value hangs on: parameters and buffers keep their names, whatever passes make of the variables.

Where a loop ends decides whether something is computed, as a guard does, and so does how many threads there are.
"""

from __future__ import annotations

from collections.abc import Iterable

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, For, HwIndex, Par, Reduce, Scan, Stmt, Sym, has_bodies
from ktc.ir.sequences import launch_kernels
from ktc.ir.support.memo import by_identity
from ktc.ir.walk import assigned, stmt_exprs, used, used_in, walk, walk_expr

EXTENTS = {"block_dim": "block", "grid_dim": "grid"}
"""Which extents of a launch a kernel asks for, by the level of the index."""

LOOPS = Par | Reduce | Scan


class Sources:
    """What each variable and array of a kernel is given values by, in whatever order."""

    def __init__(self, kernel: Kernel) -> None:
        self._arguments = {p.sym for p in kernel.params}
        self._given: dict[Sym, set[Sym]] = {}
        self._extents: dict[tuple[str, str], set[Sym]] = {}
        for launch in (k.launch for k in launch_kernels(kernel) if k.launch is not None):
            for level, extent in EXTENTS.items():
                for axis, e in zip("xyz", getattr(launch, extent)):
                    self._extents.setdefault((level, axis), set()).update(used(e))
        for s in walk(kernel.body):
            inside = has_bodies(s)
            read = self._read(_first_values(s)) if inside else self._read(stmt_exprs(s)) | used_in((s,))
            for sym in {getattr(s, "var", None)} if inside else {getattr(s, "sym", None), *assigned((s,))}:
                if sym is not None:
                    self._given.setdefault(sym, set()).update(read)

    def of(self, e: Expr) -> set[str]:
        """Names of the arguments that the value of ``e`` may hang on; not those that decide whether it is computed."""
        seen, todo = set[Sym](), self._read((e,))
        while todo:
            seen |= todo
            todo = set().union(*(self._given.get(s, set()) for s in todo)) - seen
        return {s.name for s in seen & self._arguments}

    def _read(self, exprs: Iterable[Expr]) -> set[Sym]:
        """What expressions mention, and what the extents of the launch are made of that they ask for."""
        out = set[Sym]()
        for e in exprs:
            out |= used(e)
            for x in walk_expr(e):
                out |= self._extents.get((x.level, x.axis), set()) if isinstance(x, HwIndex) else set()
        return out


def _first_values(s: Stmt) -> tuple[Expr, ...]:
    """What the variable of a loop begins and goes on with."""
    return (s.init, s.step) if isinstance(s, For) else (s.lo,) if isinstance(s, LOOPS) else tuple(stmt_exprs(s))


@by_identity(32)
def sources_of(kernel: Kernel) -> Sources:
    return Sources(kernel)


__all__ = ["Sources", "sources_of"]
