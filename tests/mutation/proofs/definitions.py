"""What is defined once stands for its value."""

from __future__ import annotations

from ktc.ir.nodes import Body, Decl, Expr, Sym
from ktc.ir.walk import assigned, walk


def definitions(*bodies: Body) -> dict[Sym, Expr]:
    """The values of what is declared and never assigned. Of what two bodies declare the later one's count; of what one
    declares differently in two places none do."""
    changed = {s for body in bodies for s in assigned(body)}
    found: dict[Sym, Expr] = {}
    for body in bodies:
        made: dict[Sym, set[Expr | None]] = {}
        for s in walk(body):
            if isinstance(s, Decl) and s.sym not in changed:
                made.setdefault(s.sym, set()).add(s.init)
        for sym, values in made.items():
            found.pop(sym, None)
            value = next(iter(values))
            if len(values) == 1 and value is not None:
                found[sym] = value
    return found


__all__ = ["definitions"]
