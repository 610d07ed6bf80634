"""The parts of a thread program that has been split where its threads wait for each other."""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.nodes import Acc, Expr, For, If, Stmt, While


@dataclass(frozen=True)
class Team:
    """The threads that wait for each other: one loop variable an axis, fastest first."""

    axes: tuple[tuple[str, str, Expr], ...]  # (axis, name of the loop variable, extent)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(a for a, _, _ in self.axes)


@dataclass
class Segment:
    """Statements without communication, run by every thread; with ``accs``, their values are reduced over the team."""

    stmts: list[Stmt]
    accs: tuple[Acc, ...] = ()


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
