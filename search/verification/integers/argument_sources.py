"""Which arguments a value hangs on: parameters and buffers keep their names, whatever passes make of the variables."""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, Sym, has_bodies
from ktc.ir.support.memo import by_identity
from ktc.ir.walk import assigned, stmt_exprs, used, used_in, walk


class Sources:
    """What each variable and array of a kernel is given values by, in whatever order."""

    def __init__(self, kernel: Kernel) -> None:
        self._arguments = {p.sym for p in kernel.params}
        self._given: dict[Sym, set[Sym]] = {}
        for s in walk(kernel.body):
            inside = has_bodies(s)
            read = set().union(*map(used, stmt_exprs(s))) if inside else used_in((s,))
            for sym in {getattr(s, "var", None)} if inside else {getattr(s, "sym", None), *assigned((s,))}:
                if sym is not None:
                    self._given.setdefault(sym, set()).update(read)

    def of(self, e: Expr) -> set[str]:
        """Names of the arguments that the value of ``e`` may hang on; not those that decide whether it is computed."""
        seen, todo = set[Sym](), used(e)
        while todo:
            seen |= todo
            todo = set().union(*(self._given.get(s, set()) for s in todo)) - seen
        return {s.name for s in seen & self._arguments}


@by_identity(32)
def sources_of(kernel: Kernel) -> Sources:
    return Sources(kernel)


__all__ = ["Sources", "sources_of"]
