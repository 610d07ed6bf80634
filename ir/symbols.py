"""Symbols: what names in a kernel stand for."""

from __future__ import annotations

import itertools
from dataclasses import field

from ktc.ir.support.frozen import frozen

from .types import Type

_ids = itertools.count(1)


@frozen
class Sym:
    """A variable, parameter or array. Compared by ``id`` alone; use :func:`fresh` to make one.

    ``name`` is what the text form and messages show; in a kernel whose names are settled (``text/stable_names.py``) no
    other symbol has it. ``stem`` is what the source calls it: three loops over ``c`` are ``c``, ``c_1`` and ``c_2``,
    all with the stem ``c``. Printed programs, where scopes keep loops apart, spell stems.
    """

    name: str = field(compare=False)
    type: Type = field(compare=False)
    id: int
    stem: str = field(compare=False)

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, Sym) else NotImplemented

    def __hash__(self) -> int:  # asked for with every variable that an interpreter looks up
        return self.id

    def __repr__(self) -> str:
        return f"{self.name}#{self.id}"


def fresh(name: str, type: Type, stem: str = "") -> Sym:
    """A new symbol, different from all others of this process. Ids are identities only: they are never printed."""
    return Sym(name, type, next(_ids), stem or name)
