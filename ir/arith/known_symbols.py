"""What a kernel's text says of its variables: what they stand for, how they count, which of them change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ktc.ir.fields import children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Binary,
    Body,
    Call,
    Const,
    Decl,
    Expr,
    For,
    Load,
    Par,
    Raw,
    Reduce,
    Scan,
    Sym,
    Unary,
    Var,
    WarpOp,
)
from ktc.ir.purity import is_volatile
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Ptr
from ktc.ir.walk import all_exprs, assigned, declared, stmt_exprs, walk, walk_expr

from .enclosures import is_integer

Loop = For | Par | Reduce | Scan


@dataclass(frozen=True)
class Symbols:
    """The integer variables of a kernel.

    ``changing``: those that have no one value where they are in scope; ``values``: what a variable that never changes
    begins as; ``names``: the same for those that may be replaced by it anywhere in their scope; ``loops``: of a counter
    that its loop's body leaves alone; ``rank``: the order of declaration, inner ones last; ``operators``: those in its
    expressions, and the classes of other nodes.
    """

    changing: frozenset[Sym]
    values: Mapping[Sym, Expr]
    names: Mapping[Sym, Expr]
    loops: Mapping[Sym, Loop]
    rank: Mapping[Sym, int]
    operators: frozenset[object]

    @staticmethod
    def of(kernel: Kernel) -> Symbols:
        body = kernel.body
        operators = _operators(body)
        handed_out = set(_handed_out(body)) if operators & {AddrOf, Raw} else set()
        changing = assigned(body) | handed_out | _declared_again(kernel)
        rank: dict[Sym, int] = {p.sym: k for k, p in enumerate(kernel.params)}
        values: dict[Sym, Expr] = {}
        names: dict[Sym, Expr] = {}
        loops: dict[Sym, Loop] = {}
        for s in walk(body):
            if isinstance(s, Decl):
                rank[s.sym] = len(rank)
                if s.init is not None and s.sym not in changing and is_integer(s.sym.type):
                    values[s.sym] = s.init
                    if is_steady(s.init, changing):
                        names[s.sym] = s.init
            elif isinstance(s, For | Par | Reduce | Scan):
                rank[s.var] = len(rank)
                if s.var not in changing and is_integer(s.var.type):
                    loops[s.var] = s
        return Symbols(frozenset(changing), values, names, loops, rank, operators)

    def steady(self, e: Expr) -> bool:
        """Whether ``e`` has one value wherever its variables are in scope."""
        return is_steady(e, self.changing)


@by_identity(8)
def symbols_of(kernel: Kernel) -> Symbols:
    """The integer variables of ``kernel``, for all who ask about it."""
    return Symbols.of(kernel)


def is_steady(e: Expr, changing: frozenset[Sym] | set[Sym]) -> bool:
    """Whether ``e`` reads no memory, calls nothing that is not pure, and mentions nothing that changes."""
    return not any(
        isinstance(x, Load | WarpOp | Raw | AddrOf)
        or (isinstance(x, Call) and x.effects != "pure")
        or (isinstance(x, Var) and x.sym in changing)
        for x in walk_expr(e)
    )


def is_settled(e: Expr) -> bool:
    """Whether ``e`` is the same each time it is computed in one place, with nothing in between."""
    return not any(
        isinstance(x, WarpOp | Raw | AddrOf)
        or (isinstance(x, Call) and x.effects != "pure")
        or (isinstance(x, Load) and is_volatile(x))
        for x in walk_expr(e)
    )


def counted_up(loop: For) -> tuple[str, Expr] | None:
    """The operator and the operand by which a loop's counter moves on; None for other steps."""
    match loop.step:
        case Binary(op=op, a=Var(sym=v), b=by) if v == loop.var and not _mentions(by, v):
            return op, by
        case Binary(op="+", a=by, b=Var(sym=v)) if v == loop.var and not _mentions(by, v):
            return "+", by
    return None


def _mentions(e: Expr, v: Sym) -> bool:
    return any(isinstance(x, Var) and x.sym == v for x in walk_expr(e))


def _handed_out(body: Body) -> Iterator[Sym]:
    """Variables that something else may write to: their address is taken, or text mentions them."""
    for e in all_exprs(body):
        if isinstance(e, AddrOf) and not isinstance(e.buffer.type, Ptr):
            yield e.buffer
        elif isinstance(e, Raw):
            yield from e.uses


def _declared_again(kernel: Kernel) -> set[Sym]:
    """Symbols of which there are several: none should be, and of those that are nothing is known."""
    found = [*declared(kernel.body), *(p.sym for p in kernel.params)]
    return set() if len(set(found)) == len(found) else {s for s, n in Counter(found).items() if n > 1}


def _operators(body: Body) -> frozenset[object]:
    """The operators in ``body``, and the classes of other expressions."""
    left = [e for s in walk(body) for e in stmt_exprs(s)]
    found: set[object] = set()
    while left:
        x = left.pop()
        kind = type(x)
        if kind is Var or kind is Const:
            found.add(kind)
        else:
            found.add(x.op if isinstance(x, Binary | Unary) else kind)
            left += children(x)
    return frozenset(found)


__all__ = ["Loop", "Symbols", "counted_up", "is_settled", "is_steady", "symbols_of"]
