"""What every run asks of a kernel's statements, found once a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..kernel import Kernel
from ..memo import by_identity
from ..nodes import Atomic, Body, For, Stmt, Sym, While, bodies
from ..walk import assigned, walk


@dataclass(frozen=True)
class Structure:
    """The symbols that are ``written`` or ``polled`` (by atomic loads), the first statement of each nested body, and
    the loops, in textual order."""

    written: frozenset[Sym]
    polled: frozenset[Sym]
    beginnings: tuple[Stmt, ...]
    loops: tuple[For | While, ...]


@by_identity(64)
def structure_of(kernel: Kernel) -> Structure:
    loops = tuple(s for s in walk(kernel.body) if isinstance(s, For | While))
    polled = frozenset(s.buffer for s in walk(kernel.body) if isinstance(s, Atomic) and s.op == "load")
    return Structure(frozenset(assigned(kernel.body)), polled, tuple(_beginnings(kernel.body)), loops)


def _beginnings(body: Body) -> Iterator[Stmt]:
    for s in body:
        for inner in bodies(s):
            yield from inner[:1]
            yield from _beginnings(inner)


__all__ = ["Structure", "structure_of"]
