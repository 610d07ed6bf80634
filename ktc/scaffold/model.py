"""What is known of a kernel's calls while its workload is drafted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ktc.ir.kernel import Kernel, Param
from ktc.ir.workload import LaunchSpec
from ktc.ir.workload.size_expressions import evaluate

from .contents import Content
from .quotients.multiples import Group
from .roles import Roles, access_role
from .scales.real_values import settled
from .shapes import Extent, value_of
from .windows import NAME, names_in

if TYPE_CHECKING:
    from .probe import Prober
    from .probing.fills import Fill


@dataclass
class Draft:
    """What was found out about a kernel's calls.

    ``doubts`` are for the author to look at; ``ties`` are integers that are no size of their own: what they equal, in
    sizes, or a number. ``given``: sizes that are constants of the source, with their values. ``limits``: how many
    values an index buffer may hold, where that is a number. ``positive``: with numbers of both signs some results are
    no numbers, or nothing is stored. ``stops``: sizes above which the kernel stops itself, each with the largest that
    it may have; ``coarse``: those that are multiples of a number because runs at others have a defect. ``races``:
    threads race at the sizes of the probes, which its author is told; whether they do at others says nothing of those.
    ``multiples``: sizes that have to be multiples of others, each with that.
    ``parts``: how much of buffers of a fixed length sizes need, and how long those are.
    """

    kernel: Kernel
    roles: Roles
    launch: LaunchSpec | None = None
    contents: list[Content] = field(default_factory=list)
    ties: dict[str, str | int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    positive: bool = False
    races: bool = False
    access: dict[str, str] = field(default_factory=dict)  # what runs have shown buffers to be: out, inout
    shapes: dict[str, Extent | None] = field(default_factory=dict)
    parts: tuple[tuple[Extent, int], ...] = ()
    steps: dict[str, int] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    scenarios: list[tuple[str, dict[str, int], str]] = field(default_factory=list)  # name, sizes, more
    work: float = 0.0  # of all probes of its shapes
    doubts: list[str] = field(default_factory=list)
    given: Mapping[str, int] = field(default_factory=dict)
    stops: Mapping[str, int] = field(default_factory=dict)
    coarse: Mapping[str, int] = field(default_factory=dict)
    multiples: list[Group] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The sizes that scenarios give."""
        return [n for n in (*(c.name for c in self.contents), *self.roles.sizes) if n not in self.ties]

    def tied(self, name: str) -> str | int | None:
        """What the parameter ``name`` is in the sizes of the scenarios; None for one that is not tied."""
        text = self.ties.get(name, self.roles.tied.get(name))
        if text is None or isinstance(text, int):
            return text
        text = text if text.isdigit() else self.in_sizes(text)
        return text if names_in(text) else evaluate(text, {})

    def real(self, name: str) -> str | None:
        """What a floating-point parameter is in the sizes of the scenarios; None for one that is a number."""
        text = self.roles.reals.get(name)
        if text is None:
            return None
        flags = {n: str(int(self.roles.numbers.get(n, 1))) for n in self.roles.flags}
        return settled(self.in_sizes(NAME.sub(lambda m: flags.get(m[0], m[0]), text)))

    def in_sizes(self, text: str) -> str:
        """``text`` with what its names are tied to in their place."""
        fixed = self.roles.fixed
        inner = {n: self.tied(n) if n in self.ties or n in self.roles.tied else fixed.get(n) for n in names_in(text)}
        return NAME.sub(lambda m: m[0] if inner[m[0]] is None else f"({inner[m[0]]})", text)

    def role(self, p: Param) -> str:
        """in | out | inout: as runs have shown, else as the source's accesses say."""
        return self.access.get(p.sym.name, access_role(p, self.kernel))

    @property
    def constants(self) -> list[str]:
        """Parameters that got a number, to be looked at."""
        ties = {**self.roles.tied, **self.ties}
        return [n for n in ties if isinstance(self.tied(n), int) and n not in self.limits]

    def possible(self, sizes: Mapping[str, int]) -> bool:
        """Whether there are as many values at ``sizes`` as must differ in a row, and room in rows and in buffers of a
        fixed length."""
        if any(sizes.get(n, 0) > room for n, room in self.roles.room.items()):
            return False
        if any(part.value(sizes) > length for part, length in self.parts):
            return False
        rows = [c for c in self.contents if c.kind == "distinct-rows"]
        extents = {c.name: e.factors[-1:] for c in rows if (e := self.shapes.get(c.buffer)) is not None}
        known = {**sizes, **self.limits}
        for name, last in extents.items():
            most = self.tied(name)
            room = most if isinstance(most, int) else evaluate(most or name, known)
            if last and value_of(last[0], known) > room:
                return False
        return True

    def elements(self, sizes: Mapping[str, int], unknown: int = 1 << 16) -> dict[str, int]:
        """Elements of each buffer at ``sizes``."""
        return {b: e.value(sizes) if e is not None else unknown for b, e in self.shapes.items()}

    def fills(self, probe: Prober, sizes: Mapping[str, int]) -> dict[str, Fill]:
        """What integer buffers hold at ``sizes``."""
        shapes = self.elements(sizes)
        return {c.buffer: c.fill(probe.value(c.name, sizes), shapes[c.buffer]) for c in self.contents}
