"""What variables of the body are given, and what depends on what through them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Decl, Expr, For, Load, Sym, Var
from ktc.ir.walk import used, walk


def definitions(k: Kernel) -> dict[Sym, list[Expr]]:
    """What each variable of the body is given, loop variables by their range."""
    sources: dict[Sym, list[Expr]] = {}
    for s in walk(k.body):
        if isinstance(s, Decl) and s.init is not None:
            sources.setdefault(s.sym, []).append(s.init)
        elif isinstance(s, Assign):
            sources.setdefault(s.sym, []).append(s.value)
        elif isinstance(s, For):
            sources.setdefault(s.var, []).extend([s.init, s.cond])
    return sources


def reached(k: Kernel, wanted: Iterable[Expr]) -> set[Sym]:
    """Symbols that the expressions depend on, through the variables of the body."""
    sources = definitions(k)
    left, seen = list(wanted), set()
    while left:
        for s in used(left.pop()):
            if s not in seen:
                seen.add(s)
                left += sources.get(s, [])
    return seen


def loaded(e: Expr, sources: Mapping[Sym, list[Expr]], buffer: Sym | None = None) -> bool:
    """Whether ``e`` is an element of a buffer (of ``buffer``), through variables: an index whose part is taken.

    A variable that is used again and again is one where all that it is given is.
    """
    e = spelled_out(e, sources)
    if isinstance(e, Var):
        given = [spelled_out(x, sources) for x in sources.get(e.sym, ())]
        return bool(given) and all(isinstance(x, Load) and buffer in (None, x.buffer) for x in given)
    return isinstance(e, Load) and buffer in (None, e.buffer)


def spelled_out(e: Expr, sources: Mapping[Sym, Sequence[Expr]]) -> Expr:
    """``e`` without conversions around it, variables that are given one value as that value."""
    seen: set[Sym] = set()
    while isinstance(e := without_casts(e), Var) and len(sources.get(e.sym, ())) == 1 and e.sym not in seen:
        seen.add(e.sym)
        e = sources[e.sym][0]
    return e
