"""One sweep over a range as its expressions are compared with another's, and what it evaluates in any case."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from ktc.ir.nodes import Binary, Decl, Expr, Load, Select, Sym, Var
from ktc.ir.walk import assigned, declared, substitute_expr, used
from ktc.passes.core.named_loops import Loop

from .loop_bounds import upper_bound


@dataclass(frozen=True)
class View:
    """A sweep with what is needed to compare its expressions with another's."""

    loop: Loop
    at: int  # position among its siblings
    constants: dict[Sym, Expr]
    private: frozenset[Sym]

    def value_of(self, e: Expr, var: Sym) -> Expr:
        """``e`` without the body's own constants, over ``var``."""
        for _ in range(len(self.constants)):
            if not used(e) & self.constants.keys():
                break
            e = substitute_expr(e, self.constants)
        return substitute_expr(e, {self.loop.var: Var(var)})


def view_of(loop: Loop, at: int = 0) -> View:
    changed = assigned(loop.body)
    constants = {
        s.sym: s.init for s in loop.body if isinstance(s, Decl) and s.init is not None and s.sym not in changed
    }
    return View(loop, at, constants, frozenset(declared(loop.body)) - constants.keys())


def unconditional(e: Expr) -> Iterator[Expr]:
    """Operands that are evaluated whenever ``e`` is; indices are left out."""
    if isinstance(e, Select):
        yield e.cond
    elif isinstance(e, Binary) and e.op in ("&&", "||"):
        yield e.a
    elif not isinstance(e, Load):
        for f in dataclasses.fields(e):
            v = getattr(e, f.name)
            yield from (x for x in (v if isinstance(v, tuple) else (v,)) if isinstance(x, Expr))


def reached(e: Expr, var: Sym, end: Expr) -> Iterator[tuple[Expr, Expr]]:
    """Operands of ``e``, which is evaluated where ``var`` is below ``end``, each with an end that ``var`` is below
    wherever it is evaluated: of ``var < n ? a : b``, ``a`` below ``n``. Those behind other conditions are left out."""
    yield from ((x, end) for x in unconditional(e))
    if isinstance(e, Select) and (bound := _below(e.cond, var)) is not None:
        yield e.a, bound


def _below(cond: Expr, var: Sym) -> Expr | None:
    """What ``var`` is below where ``cond`` holds."""
    if isinstance(cond, Binary) and cond.op == "&&":
        return _below(cond.a, var) or _below(cond.b, var)
    return upper_bound(cond, var)


__all__ = ["View", "reached", "unconditional", "view_of"]
