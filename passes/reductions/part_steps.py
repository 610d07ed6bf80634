"""Statements on their way into a list, those left out that nothing there needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ktc.ir.nodes import Body, Stmt, Sym
from ktc.ir.walk import assigned, declared, used_in


@dataclass(frozen=True)
class Step:
    """A statement; one that is not ``wanted`` for itself goes where nothing uses what it sets."""

    stmt: Stmt
    wanted: bool = True


def needed(steps: Sequence[Step], body: Body) -> Body:
    """The statements that are wanted, and those that set what they use or what lasts longer than ``body``, which the
    steps come from."""
    kept: list[Stmt] = []
    needs: set[Sym] = set()
    own = set(declared(body))
    for x in reversed(steps):
        sets = set(declared((x.stmt,))) | assigned((x.stmt,))
        if x.wanted or sets & needs or assigned((x.stmt,)) - own:
            kept.insert(0, x.stmt)
            needs |= used_in((x.stmt,))
    return tuple(kept)


__all__ = ["Step", "needed"]
