"""Values of expressions for one writer of a tile: a thread in a round of the loops that copy."""

from __future__ import annotations

from ktc.ir.fold import evaluate
from ktc.ir.nodes import Const, Expr, HwIndex, Sym, Var
from ktc.ir.support.memo import by_identity
from ktc.ir.types import I32
from ktc.ir.walk import map_expr, substitute_expr, walk_expr
from ktc.passes.raising.recognise.statement_kinds import expr_with_hardware


class NotStaged(Exception):
    """This array is no copy of global elements."""


def coordinates(t: int, block: tuple[int, int, int]) -> tuple[int, int, int]:
    """The indices of the ``t``-th thread of a ``block``."""
    return t % block[0], t // block[0] % block[1], t // (block[0] * block[1])


def known(v: int | None) -> int:
    """``v``.

    Raises:
        NotStaged: it is not known.
    """
    if v is None:
        raise NotStaged
    return int(v)


def number(e: Expr, env: dict) -> int | None:
    """The value of an integer expression over thread indices and loop variables."""
    v = evaluate(_by_names(e), {_name(k): n for k, n in env.items()})
    if v is None:  # a part that is unknown may not matter
        v = evaluate(placed(e, env), {})
    return None if v is None else int(v)


def _name(atom: HwIndex | Sym) -> str:
    return f"{atom.name}%{atom.id}" if isinstance(atom, Sym) else f"%{atom.level}.{atom.axis}"


@by_identity(256)
def _by_names(e: Expr) -> Expr:
    """``e`` with variables for indices, all by names of one meaning each: every writer evaluates it."""

    def named(x: Expr) -> Expr:
        if isinstance(x, Var | HwIndex):
            name = _name(x.sym if isinstance(x, Var) else x)
            return Var(Sym(name, I32, 0, name))
        return x

    return map_expr(e, named)


def placed(e: Expr, env: dict) -> Expr:
    """``e`` for one writer."""
    hw = {k: Const(v, I32) for k, v in env.items() if isinstance(k, HwIndex)}
    syms = {k: Const(v, I32) for k, v in env.items() if isinstance(k, Sym)}
    return substitute_expr(expr_with_hardware(e, hw), syms)  # type: ignore[arg-type]


def atoms_of(e: Expr) -> set:
    """The variables and indices in ``e``."""
    return {x.sym if isinstance(x, Var) else x for x in walk_expr(e) if isinstance(x, Var | HwIndex)}


__all__ = ["NotStaged", "atoms_of", "coordinates", "known", "number", "placed"]
