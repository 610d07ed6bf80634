"""Names that stay: each symbol of a kernel has one of its own, given once and kept through every pass.

    for c in 0..n             for c in 0..n             after a pass has taken the first away:
      ...            ->         ...                       for c_1 in 0..n
    for c in 0..n             for c_1 in 0..n               ...
      ...                       ...

``named_apart`` settles the names of a kernel as it was read, and of what a pass made of one. A symbol that the pass
left keeps its name, whatever happened to others; a new one has the name that the pass gave it, with the next number
where something has that. What the source calls a symbol stays with it as its stem, and a symbol that a
pass names after another one (``c_1_tile``) has a stem after that one's (``c_tile``). ``by_stem`` gives printers of
programs the stems back.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Sym
from ktc.ir.support.frozen import replaced
from ktc.ir.support.memo import by_identity

from .naming import fields_of, symbols, unique_names

T = TypeVar("T")


def named_apart(kernel: Kernel, before: Kernel | None = None) -> Kernel:
    """``kernel`` with a name of its own for each symbol; those of ``before``, whose names are settled, keep theirs."""
    return _settled(kernel) if before is None else _renamed(kernel, _given(kernel, before))


@by_identity(16)
def _settled(kernel: Kernel) -> Kernel:
    return _renamed(kernel, {s: (name, s.stem) for s, name in unique_names(kernel).items()})


def by_stem(kernel: Kernel) -> Kernel:
    """``kernel`` with every symbol called what the source, or the pass that made it, called it."""
    several = symbols(kernel)
    if all(s.name == s.stem for s in several):
        return kernel
    return _renamed(kernel, {s: (s.stem, s.stem) for s in several})


def stems_to_say(kernel: Kernel, names: Mapping[Sym, str]) -> list[tuple[str, str]]:
    """Names in the text of ``kernel`` whose stems are not the ones that its reader takes them to have, with these."""
    likely = _LikelyStems(names.values(), {names[p.sym] for p in kernel.params})
    return [(name, s.stem) for s, name in names.items() if s.stem != likely.of(name)]


def with_stems(kernel: Kernel, said: Mapping[str, str]) -> Kernel:
    """``kernel``, as it was read, with stems by name: those that the text says, others as they are likely to be."""
    several = symbols(kernel)
    likely = _LikelyStems((s.name for s in several), {p.sym.name for p in kernel.params})
    return _renamed(kernel, {s: (s.name, said.get(s.name) or likely.of(s.name)) for s in several})


class _LikelyStems:
    """Stems as names say them, where they were given one after the other: beside ``c``, that of ``c_1`` is ``c``, and
    that of ``c_1_tile`` is ``c_tile``. A parameter is called as it is."""

    def __init__(self, names: Iterable[str], params: Collection[str]) -> None:
        self.names = set(names)
        self.params = params

    def of(self, name: str) -> str:
        if name in self.params:
            return name
        base, _, number = name.rpartition("_")
        if number.isdecimal() and base in self.names:
            return self.of(base)
        for end in range(len(name) - 1, 0, -1):
            if name[:end] in self.names and not re.match(r"[A-Za-z0-9]", name[end:]):
                return self.of(name[:end]) + name[end:]
        return name


def _given(kernel: Kernel, before: Kernel) -> dict[Sym, tuple[str, str]]:
    """Name and stem of each symbol of ``kernel``."""
    order, old = list(dict.fromkeys(symbols(kernel))), set(symbols(before))
    out = {s: (s.name, s.stem) for s in order if s in old}
    new = [s for s in order if s not in old]
    if not new:
        return out
    taken = _Taken(name for name, _ in out.values())
    stems = {s.name: s.stem for s in old}
    for s in new:
        stem = s.stem if s.stem != s.name else _stem_after(s.name, stems)
        out[s] = taken.name_for(s.name, stem), stem
    return out


class _Taken:
    """Names in use. A new number is above those in use, so that what is gone does not come back as something else."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names: set[str] = set()
        self.last: dict[str, int] = {}
        for name in names:
            self._take(name)

    def _take(self, name: str) -> None:
        self.names.add(name)
        stem, _, number = name.rpartition("_")
        if number.isdecimal():
            self.last[stem] = max(self.last.get(stem, 0), int(number))

    def name_for(self, name: str, stem: str) -> str:
        """``name`` where nothing has it, else with the next number (in the place of the one that ``name`` got as one of
        several); taken from now on."""
        if name in self.names:
            base, _, number = name.rpartition("_")
            base = base if number.isdecimal() and name != stem else name
            name = f"{base}_{self.last.get(base, 0) + 1}"
        self._take(name)
        return name


def _stem_after(name: str, stems: dict[str, str]) -> str:
    """The stem of what a pass called ``name``: that of the symbol that it named it after, with what it added."""
    for end in range(len(name), 0, -1):
        base, added = name[:end], name[end:]
        if base in stems and not re.match(r"[A-Za-z0-9]", added):
            return stems[base] + added
    return name


def _renamed(kernel: Kernel, names: dict[Sym, tuple[str, str]]) -> Kernel:
    """``kernel`` with symbols by these names and stems; the same object where it has them already."""
    if all((s.name, s.stem) == names[s] for s in symbols(kernel)):
        return kernel
    made: dict[int, tuple[Sym, Sym]] = {}

    def on(s: Sym) -> Sym:
        known = made.get(id(s))
        if known is not None:
            return known[1]
        made[id(s)] = s, s  # a shape may not mention its own array; this only stops a cycle
        name, stem = names[s]
        kind = _rebuilt(s.type, on)
        same = kind is s.type and (name, stem) == (s.name, s.stem)
        made[id(s)] = s, (s if same else dataclasses.replace(s, name=name, type=kind, stem=stem))
        return made[id(s)][1]

    return _rebuilt(kernel, on)


def _rebuilt(v: T, on: Callable[[Sym], Sym]) -> T:
    """``v`` with its symbols replaced; what holds none of those that change is the same object."""
    node: Any = v
    if isinstance(node, Sym):
        return on(node)  # type: ignore[return-value]
    if isinstance(node, tuple):
        items = tuple(_rebuilt(x, on) for x in node)
        return items if any(a is not b for a, b in zip(items, node)) else node  # type: ignore[return-value]
    old = {name: getattr(node, name) for name in fields_of(type(node))}
    new = {name: x for name, x in ((name, _rebuilt(x, on)) for name, x in old.items()) if x is not old[name]}
    return replaced(v, new) if new else v


__all__ = ["by_stem", "named_apart", "stems_to_say", "with_stems"]
