"""Memory that a kernel never writes: what was loaded from it can be loaded again, anywhere."""

from __future__ import annotations

from collections.abc import Callable

from ktc.ir.analysis.defs import definitions
from ktc.ir.analysis.dependence import may_alias, noalias
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, Sym
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, loads_in


def why_written(kernel: Kernel) -> Callable[[Sym], str]:
    """Why what is loaded from a buffer may be something else elsewhere in ``kernel``; '' where it is not."""
    written = [b for b in assigned(kernel.body) if not isinstance(b.type, Scalar)]
    apart = noalias(kernel)

    def why(buffer: Sym) -> str:
        others = [b for b in written if may_alias(b, buffer, apart)]
        if not others:
            return ""
        return f"'{buffer.name}' is written" if buffer in others else f"'{others[0].name}' may overlap '{buffer.name}'"

    return why


def lasting_names(kernel: Kernel) -> dict[Sym, Expr]:
    """Variables that stand for what they are declared as wherever they are in scope, loads included."""
    why = why_written(kernel)
    found = definitions(kernel.body, loads=True)
    return {s: e for s, e in found.items() if not any(why(x.buffer) for x in loads_in(e))}


__all__ = ["lasting_names", "why_written"]
