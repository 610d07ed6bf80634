"""Places named the way a reader would: ``k`` or ``loop:k``, ``array:As``, ``stmt:12``.

A loop or an array is found by the name it prints with (``place_names`` has the rule, lists and ``i.*`` included).
``stmt:12`` is what came from line 12 of the source. Statements keep names, lines and tags through rewrites, so places
survive earlier steps of a script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Body, Decl, For, Par, Reduce, Scan, Stmt, Sym
from ktc.ir.text import Printer, unique_names
from ktc.ir.types import Array, Ptr
from ktc.ir.walk import map_body, walk

from .place_names import Place, Unfit, listed, named
from .refusals import Refused, Result
from .script import Arg

LoopStmt: TypeAlias = For | Par | Reduce
Kinds: TypeAlias = tuple[type[LoopStmt], ...]
L = TypeVar("L", bound=For | Par | Reduce)

ANY: Kinds = (For, Par, Reduce)
SERIAL: Kinds = (For,)
PARALLEL: Kinds = (Par, Reduce)


def find_places(kernel: Kernel, place: Arg | None, unfit: Unfit = lambda p: None) -> list[Place] | Refused:
    """Everything that ``place``, a name or a list of names, stands for; at least one, else a refusal that lists what
    there is. ``unfit`` says why a place is none that the caller works on."""
    out: list[Place] = []
    for word in place if isinstance(place, tuple) and place else (place,):
        found = _called(kernel, word, unfit)
        if isinstance(found, Refused):
            return found
        out += [p for p in found if not any(p.stmt is q.stmt and p.sym == q.sym for q in out)]
    return out


def _called(kernel: Kernel, word: Arg | None, unfit: Unfit) -> list[Place] | Refused:
    if not isinstance(word, str):
        return Refused("E-PLACE", "name a place, such as loop:k, array:As or stmt:12")
    tagged = [Place("stmt", s) for s in walk(kernel.body) if word in s.tags]
    if tagged:
        return tagged
    kind, colon, name = word.partition(":")
    if not colon:
        kind, name = "loop", word
    if kind not in _FINDERS:
        return Refused("E-PLACE", f"'{kind}' is not a kind of place", hint=f"kinds: {', '.join(_FINDERS)}")
    candidates = _FINDERS[kind](kernel)
    return named(name, candidates, unfit) or _missing(kernel, kind, name, candidates, unfit)


def _missing(kernel: Kernel, kind: str, name: str, candidates: Sequence[Place], unfit: Unfit) -> Refused:
    """That nothing of that kind has this name, what has it instead, and the names that would do."""
    symbol = next((s for s, printed in unique_names(kernel).items() if printed == name), None)
    scans = {s.var for s in walk(kernel.body) if isinstance(s, Scan)}
    is_array = symbol is not None and isinstance(symbol.type, Array | Ptr)
    what = "a scan" if symbol in scans else "an array" if is_array else "a variable"
    why = f"no {kind} '{name}' in this kernel" + (f": it is {what}" if symbol is not None and kind != "stmt" else "")
    usable = [p for p in candidates if unfit(p) is None]
    akin = [p for p in usable if p.stem == name]
    if akin:
        return Refused("E-PLACE", why, hint=f"{name}.* is {listed(akin)}")
    return Refused("E-PLACE", why, hint=f"there are: {listed(usable)}" if usable else f"it has no such {kind}s")


def resolve_place(kernel: Kernel, place: Arg | None) -> Place | Refused:
    """The one thing that ``place`` names; a refusal when there is none or more than one."""
    return single(find_places(kernel, place), place)


def single(found: list[Place] | Refused, place: Arg | None) -> Place | Refused:
    """The one place of ``found``, which ``place`` named."""
    if isinstance(found, Refused) or len(found) == 1:
        return found if isinstance(found, Refused) else found[0]
    locs = tuple(p.stmt.loc for p in found if p.stmt is not None and p.stmt.loc is not None)
    word = ",".join(map(str, place)) if isinstance(place, tuple) else place
    which = f": {listed(found)}" if found[0].sym is not None else ""
    hint = "name one of them" if which else "name a loop or an array"
    return Refused("E-PLACE-AMBIGUOUS", f"'{word}' names {len(found)} places{which}", locs, hint)


def place_of(kernel: Kernel, loop: LoopStmt | Scan) -> str:
    """The name that finds ``loop`` and nothing else: the one that it prints with."""
    return unique_names(kernel)[loop.var]


def places_of(kernel: Kernel, loops: Iterable[L], kinds: Kinds = ANY) -> dict[str, list[L]]:
    """``loops`` by how a script names those together that the source calls alike: ``i.*`` where ``kernel`` has several
    of these ``kinds``, else the one name."""
    stems = [s.var.stem for s in walk(kernel.body) if isinstance(s, kinds)]
    names = unique_names(kernel)
    out: dict[str, list[L]] = {}
    for s in loops:
        stem = s.var.stem
        out.setdefault(f"{stem}.*" if stems.count(stem) > 1 else names[s.var], []).append(s)
    return out


def place_names(kernel: Kernel) -> set[str]:
    """The names of all loops and arrays."""
    return {p.name for p in (*_loops(kernel), *_arrays(kernel))}


def _loops(kernel: Kernel) -> list[Place]:
    names = unique_names(kernel)
    return [Place("loop", s, s.var, names[s.var]) for s in walk(kernel.body) if isinstance(s, LoopStmt)]


def _arrays(kernel: Kernel) -> list[Place]:
    names = unique_names(kernel)
    params = [Place("array", None, p.sym, names[p.sym]) for p in kernel.params if isinstance(p.sym.type, Ptr)]
    arrays = (s for s in walk(kernel.body) if isinstance(s, Alloc | Decl) and isinstance(s.sym.type, Array))
    return [*params, *(Place("array", s, s.sym, names[s.sym]) for s in arrays)]


def _stmts(kernel: Kernel) -> list[Place]:
    return [Place("stmt", s, None, str(s.loc.line)) for s in walk(kernel.body) if s.loc is not None]


_FINDERS = {"loop": _loops, "array": _arrays, "stmt": _stmts}


# --------------------------------------------------------------------------------------------------- loops of a kind


def find_loops(kernel: Kernel, place: Arg | None, kinds: Kinds = ANY) -> list[LoopStmt] | Refused:
    """Every loop of these ``kinds`` that ``place`` names; a loop of another kind that it names is refused."""

    def unfit(p: Place) -> Refused | None:
        return None if isinstance(p.stmt, kinds) else _of_another_kind(p, kinds)

    found = find_places(kernel, place, unfit)
    if isinstance(found, Refused):
        return found
    out = [p.stmt for p in found if isinstance(p.stmt, kinds)]
    return out or Refused("E-PLACE", f"'{place}' is not a loop", hint="name one, such as loop:k")


def find_loop(kernel: Kernel, place: Arg | None, kinds: Kinds = ANY) -> LoopStmt | Refused:
    """The one loop of these ``kinds`` that ``place`` names."""
    found = find_loops(kernel, place, kinds)
    if isinstance(found, Refused):
        return found
    one = single([Place("loop", s, s.var, place_of(kernel, s)) for s in found], place)
    return one if isinstance(one, Refused) else found[0]


def _of_another_kind(p: Place, kinds: Kinds) -> Refused | None:
    """That ``p`` is a loop of another kind than the caller takes; None for what is no loop."""
    s = p.stmt
    if not isinstance(s, LoopStmt):
        return None
    locs = () if s.loc is None else (s.loc,)
    if isinstance(s, For):
        hint = f"parallelize{{loop={p.name}}} where its iterations are independent, or add up"
        return Refused("E-PLACE", f"'{p.name}' is a serial loop", locs, hint)
    what = ("parallel", "a parallel loop") if isinstance(s, Par) else ("a reduction", "a reduction")
    spread = f", spread over {Printer({}).dist(s.dist).removeprefix(' @ ')}" if s.dist else ""
    why = f"'{p.name}' is already {what[0]}{spread}" if For in kinds else f"'{p.name}' is {what[1]}{spread}"
    return Refused("E-PLACE", why, locs, f"distribute{{loop={p.name} map=[...]}} spreads it otherwise")


def rewrite_loops(kernel: Kernel, found: Sequence[LoopStmt], make: Callable[[LoopStmt], Stmt | Body]) -> Result:
    """``kernel`` with every loop of ``found`` replaced by what ``make`` gives for it."""
    new: dict[Sym, Stmt | Body] = {s.var: make(s) for s in found}

    def on(s: Stmt) -> Stmt | Body:
        return new[s.var] if isinstance(s, LoopStmt) and s.var in new else s

    return Result(kernel.with_(body=map_body(kernel.body, on)))
