"""Places named the way a reader would: ``k`` or ``loop:k``, ``array:As``, ``stmt:12``.

A loop or an array is found by the name it prints with (``i_1``) or by its own name; ``i.2`` is the second loop called
i. ``stmt:12`` is what came from line 12 of the source. Statements keep names, lines and tags through rewrites, so
places survive earlier steps of a script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Body, Decl, For, Par, Reduce, Stmt, Sym
from ktc.ir.text import unique_names
from ktc.ir.types import Array, Ptr
from ktc.ir.walk import map_body, walk

from .base import Arg, Refused, Result

LoopStmt: TypeAlias = For | Par | Reduce


@dataclass(frozen=True)
class Place:
    """A resolved place: the statement (None for a parameter's buffer), and the symbol that names it, if one does."""

    kind: str  # loop | array | stmt
    stmt: Stmt | None
    sym: Sym | None = None


def find_places(kernel: Kernel, place: Arg | None) -> list[Place] | Refused:
    """Everything that ``place`` names, in source order; at least one, else a refusal that lists what there is."""
    if not isinstance(place, str):
        return Refused("E-PLACE", "name a place, such as loop:k, array:As or stmt:12")
    tagged = [Place("stmt", s) for s in walk(kernel.body) if place in s.tags]
    if tagged:
        return tagged
    kind, colon, name = place.partition(":")
    if not colon:
        kind, name = "loop", place
    if kind not in _FINDERS:
        return Refused("E-PLACE", f"'{kind}' is not a kind of place", hint=f"kinds: {', '.join(_FINDERS)}")
    candidates = _FINDERS[kind](kernel)
    found = [p for printed, p in candidates if name == printed]
    same = [p for _, p in candidates if p.sym is not None and p.sym.name == name]
    base, dot, nth = name.rpartition(".")
    if dot and nth.isdigit():
        same = [p for _, p in candidates if p.sym is not None and p.sym.name == base]
        found, same = same[int(nth) - 1 : int(nth)], []
    hits = same if len(same) > len(found) else found
    if hits:
        return hits
    known = ", ".join(dict.fromkeys(printed for printed, _ in candidates))
    return Refused(
        "E-PLACE", f"no {kind} '{name}' in this kernel", hint=f"there are: {known}" if known else f"it has no {kind}s"
    )


def resolve_place(kernel: Kernel, place: Arg | None) -> Place | Refused:
    """The one thing that ``place`` names; a refusal when there is none or more than one."""
    found = find_places(kernel, place)
    if isinstance(found, Refused):
        return found
    if len(found) > 1:
        locs = tuple(p.stmt.loc for p in found if p.stmt is not None and p.stmt.loc is not None)
        return Refused(
            "E-PLACE-AMBIGUOUS",
            f"{len(found)} places are called '{place}'",
            locs,
            hint=f"say {place}.1, {place}.2, ...",
        )
    return found[0]


def place_of(kernel: Kernel, loop: LoopStmt) -> str:
    """A name that finds ``loop`` and nothing else: ``k``, or ``k.2`` for the second loop called k."""
    same = [p.stmt for _, p in _loops(kernel) if p.sym is not None and p.sym.name == loop.var.name]
    if len(same) == 1:
        return loop.var.name
    return f"{loop.var.name}.{1 + next(i for i, s in enumerate(same) if s is loop)}"


def _loops(kernel: Kernel) -> list[tuple[str, Place]]:
    names = unique_names(kernel)
    return [(names[s.var], Place("loop", s, s.var)) for s in walk(kernel.body) if isinstance(s, LoopStmt)]


def _arrays(kernel: Kernel) -> list[tuple[str, Place]]:
    names = unique_names(kernel)
    params: Iterable[Place] = (Place("array", None, p.sym) for p in kernel.params if isinstance(p.sym.type, Ptr))
    arrays = (s for s in walk(kernel.body) if isinstance(s, Alloc | Decl) and isinstance(s.sym.type, Array))
    local = (Place("array", s, s.sym) for s in arrays)
    return [(names[p.sym], p) for p in (*params, *local) if p.sym is not None]


def _stmts(kernel: Kernel) -> list[tuple[str, Place]]:
    return [(str(s.loc.line), Place("stmt", s)) for s in walk(kernel.body) if s.loc is not None]


_FINDERS = {"loop": _loops, "array": _arrays, "stmt": _stmts}


def find_loops(kernel: Kernel, place: Arg | None) -> list[LoopStmt] | Refused:
    """Every loop, of either form, that ``place`` names."""
    found = find_places(kernel, place)
    if isinstance(found, Refused):
        return found
    out = [p.stmt for p in found if isinstance(p.stmt, LoopStmt)]
    return out or Refused("E-PLACE", f"'{place}' is not a loop", hint="name one, such as loop:k")


def named_loops(kernel: Kernel, args: Mapping[str, Arg]) -> list[LoopStmt] | Refused:
    """The loops that a step's ``loop`` argument names."""
    return find_loops(kernel, args["loop"])


def rewrite_loops(
    kernel: Kernel, args: Mapping[str, Arg], make: Callable[[LoopStmt], Stmt | Body | Refused]
) -> Result | Refused:
    """``kernel`` with every loop that ``args`` name replaced by what ``make`` gives for it, or the first refusal."""
    found = named_loops(kernel, args)
    if isinstance(found, Refused):
        return found
    new: dict[Sym, Stmt | Body] = {}
    for s in found:
        made = make(s)
        if isinstance(made, Refused):
            return made
        new[s.var] = made

    def on(s: Stmt) -> Stmt | Body:
        return new[s.var] if isinstance(s, LoopStmt) and s.var in new else s

    return Result(kernel.with_(body=map_body(kernel.body, on)))
