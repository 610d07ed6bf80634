"""One rule for names in scripts: what the printed kernel shows is what every pass takes.

    c          the one thing that prints as ``c``
    c_1,c_2    each of a list
    c.*        all that the source calls ``c``: c, c_1, c_2, ... (of those that the pass works on)
    c.2        as older scripts number them: the second that the source calls ``c``, where that can mean one thing only

A printed name is a thing's own as long as the thing is there (``ktc.ir.text.stable_names``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ktc.ir.nodes import Stmt, Sym

from .refusals import Refused

_NUMBERED = re.compile(r"(.+)\.(\d+)\Z")


@dataclass(frozen=True)
class Place:
    """A resolved place: the statement (None for a parameter's buffer), and the symbol that names it, if one does."""

    kind: str  # loop | array | stmt
    stmt: Stmt | None
    sym: Sym | None = None
    name: str = ""  # as it prints; of a statement its line

    @property
    def stem(self) -> str:
        """What the source calls it."""
        return self.sym.stem if self.sym is not None else self.name


Unfit: TypeAlias = Callable[[Place], Refused | None]
"""Why a place is nothing that the caller works on; None if it is."""


def named(word: str, places: Sequence[Place], unfit: Unfit) -> list[Place] | Refused:
    """Those of ``places``, in the order of the program, that ``word`` names; [] if there are none of that name."""
    if word.endswith(".*"):
        return _all_called(word.removesuffix(".*"), places, unfit)
    found = [p for p in places if p.name == word]
    if not found and (numbered := _NUMBERED.match(word)):
        return _numbered(word, numbered[1], int(numbered[2]), places, unfit)
    return next((why for p in found if (why := unfit(p)) is not None), found)


def _all_called(stem: str, places: Sequence[Place], unfit: Unfit) -> list[Place] | Refused:
    group = [p for p in places if p.stem == stem]
    reasons = [unfit(p) for p in group]
    fitting = [p for p, why in zip(group, reasons) if why is None]
    return fitting or next((why for why in reasons if why is not None), fitting)


def _numbered(word: str, stem: str, n: int, places: Sequence[Place], unfit: Unfit) -> list[Place] | Refused:
    """Older scripts count the things of one name: some passes all of them, some those alone that they work on."""
    group = [p for p in places if p.stem == stem]
    fitting = [p for p in group if unfit(p) is None]
    either = [counted[n - 1] for counted in (group, fitting) if 0 < n <= len(counted)]
    if not either:
        return []
    if len(either) == 2 and either[0] is either[1]:
        return either[:1]
    names = " or ".join(dict.fromkeys(f"'{p.name}'" for p in either))
    why = f"'{word}' may mean {names}" if len(either) > 1 else f"'{word}' is no name any more: the {n}. is {names}"
    return Refused("E-PLACE", why, hint=f"use the printed name; {stem}.* is {listed(group)}")


def listed(places: Sequence[Place]) -> str:
    """The names of ``places``, each once."""
    return ", ".join(dict.fromkeys(p.name for p in places))


__all__ = ["Place", "Unfit", "listed", "named"]
