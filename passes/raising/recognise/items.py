"""The parts of a thread program that has been split where its threads wait for each other."""

from __future__ import annotations

from dataclasses import dataclass, field

from ktc.ir.nodes import Acc, Expr, For, If, Scan, Stmt, While


@dataclass(frozen=True)
class Team:
    """The threads that wait for each other: one loop variable an axis, fastest first."""

    axes: tuple[tuple[str, str, Expr], ...]  # (axis, name of the loop variable, extent)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(a for a, _, _ in self.axes)


@dataclass
class Segment:
    """Statements without communication, run by every thread.

    With ``accs``, their values are then reduced over the team; with ``scan``, every thread goes on with ``after``,
    which sees the running value.
    """

    stmts: list[Stmt]
    accs: tuple[Acc, ...] = ()
    scan: Scan | None = None
    after: list[Stmt] = field(default_factory=list)

    @property
    def all(self) -> list[Stmt]:
        return [*self.stmts, *self.after]

    @property
    def values(self) -> list[Expr]:
        """What is reduced or scanned."""
        return [a.value for a in self.accs] + ([self.scan.acc.value] if self.scan is not None else [])


@dataclass
class Plain:
    """A statement that all threads do alike, or only the first: once per team."""

    stmt: Stmt


@dataclass
class Control:
    """Uniform control around communication."""

    stmt: If | For | While
    parts: list[list[Item]]


Item = Segment | Plain | Control
