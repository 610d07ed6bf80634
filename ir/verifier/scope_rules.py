"""Symbols and their scopes: each is defined once, and used where it is defined."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ktc.ir.nodes import (
    Assign,
    AsyncCopy,
    Atomic,
    BulkCopy,
    GroupCopy,
    InlineAsm,
    MatrixLoad,
    RawStmt,
    Stmt,
    Store,
    Sym,
    TileMma,
)

from .shared_rules import Complaint


class Scopes:
    """The symbols that are defined at the place that a walk over a kernel has reached."""

    def __init__(self) -> None:
        self._open: list[set[Sym]] = [set()]
        self._ever: set[Sym] = set()

    @contextmanager
    def inner(self) -> Iterator[None]:
        """A scope inside the present one."""
        self._open.append(set())
        yield
        self._open.pop()

    def declare(self, s: Sym) -> Iterator[Complaint]:
        """``s`` is defined here: the problem with that, if there is one."""
        if s in self._ever:
            yield "V-REDEFINED", f"'{s.name}' is defined more than once"
        self._ever.add(s)
        self._open[-1].add(s)

    def reveal(self, s: Sym) -> None:
        """``s``, defined in an inner scope, is known in this one too."""
        self._open[-1].add(s)

    def use(self, s: Sym) -> Iterator[Complaint]:
        """``s`` is mentioned here: the problem with that, if there is one."""
        if not any(s in scope for scope in self._open):
            where = "outside its scope" if s in self._ever else "before any definition"
            yield "V-UNDEFINED", f"'{s.name}' is used {where}"


def touched(s: Stmt) -> Iterator[Sym]:
    """Symbols that ``s`` itself names other than in expressions, and does not declare."""
    match s:
        case Assign():
            yield s.sym
        case Store():
            yield s.buffer
        case Atomic():
            yield s.buffer
            if s.dst is not None:
                yield s.dst
        case AsyncCopy() | BulkCopy():
            yield from (s.dst, s.src)
        case GroupCopy():
            yield from (s.dst, s.src, s.event)
        case MatrixLoad():
            yield from (s.dst, s.buffer)
        case TileMma():
            yield from (s.a, s.b)
        case InlineAsm():
            yield from (o for _, o in s.outputs)
        case RawStmt():
            yield from (*s.reads, *s.writes)


__all__ = ["Scopes", "touched"]
