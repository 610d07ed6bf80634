"""What happens in a host function, as far as a sequence of launches is concerned: memory of the device, and events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ktc.ir.diagnostics import Loc
from ktc.ir.frontend.host.launch_sites import LaunchSite
from ktc.ir.nodes import Expr, Sym


@dataclass(eq=False)
class Memory:
    """What a pointer of the host points to.

    ``kind``: ``allocated`` by the function itself; a ``parameter`` of it; ``unknown``, whose origin is not seen.
    ``loops``: those around its allocation. ``bytes``: of the allocation. ``escaped``: code that is not seen may hold
    its address.
    """

    name: str
    kind: str
    loops: tuple[int, ...] = ()
    bytes: Expr | None = None
    escaped: bool = False

    @property
    def own(self) -> bool:
        """Whether nobody else can know its address: no other memory overlaps it, and no code unseen touches it."""
        return self.kind == "allocated" and not self.escaped


@dataclass(frozen=True)
class HostPointer:
    """An address: ``offset`` bytes behind the start of ``memory``."""

    memory: Memory
    offset: Expr


@dataclass(eq=False)
class Root:
    """A number of the host that launches depend on: what is not computed of others. ``value``: the constant that the
    source gives it; ``name``: the variable that holds it, of which it may be one value of several."""

    sym: Sym
    value: int | float | None = None
    name: str = ""


@dataclass(frozen=True, eq=False)
class Event:
    """Something that happens. ``region``: the branches and loops around it; ``loops``: the loops alone."""

    loc: Loc | None
    region: tuple[int, ...]
    loops: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Launching(Event):
    """A launch. ``args``: what is passed, in order; None for a null pointer."""

    site: LaunchSite
    args: tuple[HostPointer | Expr | None, ...]
    grid: tuple[Expr, Expr, Expr]
    block: tuple[Expr, Expr, Expr]
    shared: Expr | None
    stream: str
    template: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def memories(self) -> Iterator[Memory]:
        """What the kernel is passed."""
        return (a.memory for a in self.args if isinstance(a, HostPointer))


@dataclass(frozen=True, eq=False)
class Touching(Event):
    """The host, or a function that is no launch, reads or writes ``memory``. ``zero``: all of it becomes 0."""

    memory: Memory
    reads: bool
    writes: bool
    what: str
    zero: bool = False


@dataclass(frozen=True, eq=False)
class Unseen(Event):
    """A call of code that is not seen: it may touch any memory whose address it may know."""

    what: str


@dataclass(frozen=True, eq=False)
class Boundary(Event):
    """What no sequence goes across: why. ``launch``: it is a launch that cannot be read."""

    what: str
    launch: bool = False


__all__ = ["Boundary", "Event", "HostPointer", "Launching", "Memory", "Root", "Touching", "Unseen"]
