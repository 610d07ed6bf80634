"""Cursors: pointing at a loop, an array or a statement of a program, and finding it again after passes.

A cursor is a place in one program. ``program.at(cursor)`` is the same place in a later program of the chain: a loop
stays the loop over its variable, an array the array of its name, a statement what came from its place in the source.
What a pass has dissolved is gone, and says so. After Exo's cursors (Ikarashi et al., "Exo 2", ASPLOS 2025)::

    p = ktc.load("sgemm").apply("raise")
    k = p.loop("k")
    p = p.at(k).apply("tile", loops=k, sizes=16)      # a cursor stands for its place in arguments, too
    p.at(k).stmt                                      # the loop inside the tile
    p.at(k).parent                                    # a cursor to the loop over tiles
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ktc.ir.diagnostics import KtcError, Loc

if TYPE_CHECKING:
    from ktc.ir.nodes import Stmt, Sym

    from .api import Program


@dataclass(frozen=True, repr=False)
class Cursor:
    """A place: ``kind`` is loop, array or stmt; ``sym`` the loop variable or array, ``loc`` and ``nth`` find the rest.

    ``nth`` counts statements of one type that came from one place in the source.
    """

    program: Program
    kind: str
    sym: Sym | None = None
    loc: Loc | None = None
    what: str = ""
    nth: int = 0

    # ------------------------------------------------------------------------------------------------ what it points at

    @property
    def stmt(self) -> Stmt | None:
        """The statement pointed at; None for an array that is a parameter.

        Raises:
            KtcError: E-CURSOR-GONE, the program has it no longer.
        """
        for s in _candidates(self):
            return s
        if self.kind == "array" and any(p.sym == self.sym for p in self.program.kernel.params):
            return None
        raise KtcError("E-CURSOR-GONE", f"{self} is not in this program any more", self.loc)

    def __bool__(self) -> bool:
        """Whether the program still has it."""
        try:
            self.stmt  # noqa: B018
        except KtcError:
            return False
        return True

    def __str__(self) -> str:
        """The place as pipeline text, unambiguous in this program: ``k``, ``k_1``, ``array:As``, ``stmt:12``."""
        from ktc.ir.nodes import For, Par, Reduce
        from ktc.passes.core.places import place_of

        if self.kind == "array":
            assert self.sym is not None
            return f"array:{self.sym.name}"
        found = next(_candidates(self), None)
        if isinstance(found, For | Par | Reduce):
            return place_of(self.program.kernel, found)
        if self.kind == "loop":
            return self.sym.name if self.sym is not None else "loop"
        return f"stmt:{self.loc.line}" if self.loc else "stmt"

    def __repr__(self) -> str:
        where = f" from {self.loc}" if self.loc else ""
        name = f"{self}" if self else f"{self.sym or self.what}, which is gone,"
        return f"<Cursor to {self.kind} {name} of {self.program.kernel.name}{where}>"

    def text(self) -> str:
        """The statement as IR text."""
        from ktc.ir.text import print_stmt

        found = self.stmt
        return print_stmt(found) if found is not None else str(self)

    # --------------------------------------------------------------------------------------------------- moving around

    @property
    def parent(self) -> Cursor | None:
        """The statement around this one; None at the top of the kernel."""
        target = self.stmt
        for s in _all(self.program):
            if any(x is target for x in _inside(s)):
                return cursor_to(self.program, s)
        return None

    def body(self) -> list[Cursor]:
        """The statements directly inside (of an ``if``: both branches)."""
        found = self.stmt
        return [cursor_to(self.program, s) for s in _inside(found)] if found is not None else []

    @property
    def next(self) -> Cursor | None:
        """The statement after this one in its list."""
        return self._beside(1)

    @property
    def prev(self) -> Cursor | None:
        """The statement before this one in its list."""
        return self._beside(-1)

    def _beside(self, step: int) -> Cursor | None:
        target = self.stmt
        for siblings in _lists(self.program):
            for k, s in enumerate(siblings):
                if s is target:
                    return cursor_to(self.program, siblings[k + step]) if 0 <= k + step < len(siblings) else None
        return None

    # -------------------------------------------------------------------------------------------------------- applying

    def apply(self, pass_name: str, /, **args: object) -> Program:
        """The program after a pass at this place: it fills the pass's first place parameter if that is not given."""
        from ktc.passes.core.catalogue import PASSES

        places = [p.name for p in PASSES[pass_name].parameters if p.names_a_place] if pass_name in PASSES else []
        if places:
            args = {places[0]: self, **args}
        return self.program.apply(pass_name, **args)


def cursor_to(program: Program, s: Stmt) -> Cursor:
    """A cursor to the statement ``s`` of ``program``."""
    from ktc.ir.nodes import Alloc, For, Par, Reduce

    if isinstance(s, For | Par | Reduce):
        return Cursor(program, "loop", s.var, s.loc, type(s).__name__)
    if isinstance(s, Alloc):
        return Cursor(program, "array", s.sym, s.loc, "Alloc")
    same = [x for x in _all(program) if type(x) is type(s) and x.loc == s.loc]
    return Cursor(program, "stmt", getattr(s, "sym", None), s.loc, type(s).__name__, same.index(s))


def find(program: Program, place: str) -> list[Cursor]:
    """Cursors to everything that ``place`` names (``k``, ``loop:k``, ``array:As``, ``stmt:12``).

    Raises:
        KtcError: E-PLACE, there is nothing of that name.
    """
    from ktc.passes.core.base import Refused
    from ktc.passes.core.places import find_places

    found = find_places(program.kernel, place)
    if isinstance(found, Refused):
        raise KtcError(found.code, found.why, None, found.hint)
    out = []
    for p in found:
        out.append(cursor_to(program, p.stmt) if p.stmt is not None else Cursor(program, p.kind, p.sym))
    return out


def _candidates(c: Cursor) -> Iterator[Stmt]:
    """Statements of the cursor's program that are the place it means."""
    from ktc.ir.nodes import Alloc, For, Par, Reduce

    if c.kind == "loop":
        yield from (s for s in _all(c.program) if isinstance(s, For | Par | Reduce) and s.var == c.sym)
    elif c.kind == "array":
        yield from (s for s in _all(c.program) if isinstance(s, Alloc) and s.sym == c.sym)
    else:
        same = [s for s in _all(c.program) if type(s).__name__ == c.what and s.loc == c.loc]
        if c.sym is not None:
            same = [s for s in same if getattr(s, "sym", None) == c.sym] or same
            yield from same[:1]
        elif c.nth < len(same):
            yield same[c.nth]


def _all(program: Program) -> Iterator[Stmt]:
    from ktc.ir.walk import walk

    return walk(program.kernel.body)


def _inside(s: Stmt) -> list[Stmt]:
    from ktc.ir.nodes import bodies

    return [x for b in bodies(s) for x in b]


def _lists(program: Program) -> Iterator[tuple[Stmt, ...]]:
    from ktc.ir.nodes import bodies

    yield program.kernel.body
    for s in _all(program):
        yield from bodies(s)
