"""What every run asks of a kernel's statements, found once a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Atomic, Body, Decl, For, Stmt, Sym, WarpOp, While, bodies
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Ptr, scalar_of
from ktc.ir.walk import all_exprs, assigned, walk


@dataclass(frozen=True)
class Structure:
    """The symbols that are ``written`` or ``polled`` (by atomic loads), the first statement of each nested body, the
    loops, in textual order; ``signed``: signed integers may be read that nobody has written."""

    written: frozenset[Sym]
    polled: frozenset[Sym]
    beginnings: tuple[Stmt, ...]
    loops: tuple[For | While, ...]
    signed: bool


@by_identity(64)
def structure_of(kernel: Kernel) -> Structure:
    loops = tuple(s for s in walk(kernel.body) if isinstance(s, For | While))
    polled = frozenset(s.buffer for s in walk(kernel.body) if isinstance(s, Atomic) and s.op == "load")
    return Structure(frozenset(assigned(kernel.body)), polled, tuple(_beginnings(kernel.body)), loops, _signed(kernel))


def _signed(kernel: Kernel) -> bool:
    made = [s.sym.type for s in walk(kernel.body) if isinstance(s, Alloc) or (isinstance(s, Decl) and s.init is None)]
    made += [e.type for e in all_exprs(kernel.body) if isinstance(e, WarpOp)]
    made += [p.sym.type for p in kernel.params if isinstance(p.sym.type, Ptr)]
    return any(scalar_of(t).is_int and scalar_of(t).is_signed for t in made)


def _beginnings(body: Body) -> Iterator[Stmt]:
    for s in body:
        for inner in bodies(s):
            yield from inner[:1]
            yield from _beginnings(inner)


__all__ = ["Structure", "structure_of"]
