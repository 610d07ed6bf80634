"""What an argument of a pass may be: the types that the fields of an arguments dataclass have.

A type of this module holds what the script wrote and finds what is meant in a kernel (``args.loop.find(kernel)``),
since that needs the kernel as earlier arguments and earlier steps have left it. Beside them a field may be an ``int``,
a ``bool`` (yes or no), a ``str`` (a word), a ``Literal`` (one of these words), a ``DistSpec`` (levels), ``X | None``, a
union with a ``Literal``, and a ``tuple`` of any of these: :mod:`.argument_reading` has a reader for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, Stmt

from . import named_loops, place_names, places
from .knobs import declared_size
from .place_names import Unfit
from .refusals import Refused, accepted
from .script import KnobRef


@dataclass(frozen=True)
class KnobSpec:
    """A knob that an argument stands for by default: its name, domain, what it counts, and the value to start from."""

    name: str
    domain: tuple[int, ...]
    doc: str
    wish: int | None = None

    def __str__(self) -> str:
        return f"{self.name}: {','.join(map(str, self.domain))}: {self.doc}"


@dataclass(frozen=True)
class Size:
    """A number, a knob or the name of a parameter; ``spec`` is what a knob takes from the pass."""

    written: int | str | KnobRef
    spec: KnobSpec

    def declared(
        self, kernel: Kernel, owner: str, domain: Sequence[int] | None = None, wish: int | None = None
    ) -> tuple[Kernel, Expr]:
        """``kernel`` with the knob declared, if it is one, and the size. ``domain``, ``wish``: where they depend on the
        kernel.

        Raises:
            Refusal: E-ARG-RANGE, E-ARG-NAME, E-KNOB-DOMAIN, E-KNOB-EMPTY.
        """
        values = self.spec.domain if domain is None else domain
        wanted = self.spec.wish if wish is None else wish
        return declared_size(kernel, self.written, values, self.spec.doc, owner, wanted)


Factor: TypeAlias = Annotated[Size, "a number or a knob"]
"""A size that is no parameter's name, because the text that is printed depends on it."""


@dataclass(frozen=True)
class Place:
    """The name of something in the kernel, as the script writes it: ``k``, ``array:As``, ``stmt:12``; or several: a
    list, ``i.*``."""

    written: str | tuple[str, ...]

    def __str__(self) -> str:
        return self.written if isinstance(self.written, str) else ",".join(self.written)


@dataclass(frozen=True)
class Loop(Place):
    """One loop."""

    def find(self, kernel: Kernel) -> Stmt | None:
        """What is called so: one statement, and a loop if it is one. None for a parameter.

        Raises:
            Refusal: E-PLACE, E-PLACE-AMBIGUOUS.
        """
        return accepted(places.resolve_place(kernel, self.written)).stmt


@dataclass(frozen=True)
class Loops(Place):
    """One loop, several, or all that the source calls alike."""

    def find(self, kernel: Kernel, kinds: places.Kinds = places.ANY) -> list[places.LoopStmt]:
        """The loops of these ``kinds``, at least one.

        Raises:
            Refusal: E-PLACE, one is of another kind.
        """
        return accepted(places.find_loops(kernel, self.written, kinds))

    def one(self, kernel: Kernel, kinds: places.Kinds = places.ANY) -> places.LoopStmt:
        """The only loop of these ``kinds``.

        Raises:
            Refusal: E-PLACE, E-PLACE-AMBIGUOUS.
        """
        found: places.LoopStmt | Refused = places.find_loop(kernel, self.written, kinds)
        return found if not isinstance(found, Refused) else accepted(found)

    def spread(self, kernel: Kernel) -> list[named_loops.Loop]:
        """The loops, parallel ones and reductions alone, at least one.

        Raises:
            Refusal: E-PLACE, E-PLACE-SPMD.
        """
        return accepted(named_loops.find_loops(kernel, self.written))


@dataclass(frozen=True)
class Arrays(Place):
    """A buffer of the kernel, or an array that it declares."""

    def find(self, kernel: Kernel, unfit: Unfit = lambda p: None) -> list[place_names.Place]:
        """What is called so, at least one. ``unfit`` says why a place is none that the pass works on.

        Raises:
            Refusal: E-PLACE.
        """
        return accepted(places.find_places(kernel, self.place, unfit))

    def one(self, kernel: Kernel, unfit: Unfit = lambda p: None) -> place_names.Place:
        """The only thing that is called so.

        Raises:
            Refusal: E-PLACE, E-PLACE-AMBIGUOUS.
        """
        return accepted(places.single(places.find_places(kernel, self.place, unfit), self.written))

    @property
    def place(self) -> str | tuple[str, ...]:
        """With the kind of place."""
        words = (self.written,) if isinstance(self.written, str) else self.written
        tagged = tuple(w if ":" in w else f"array:{w}" for w in words)
        return tagged[0] if isinstance(self.written, str) else tagged

    @property
    def name(self) -> str:
        """Without the kind of place."""
        return str(self).removeprefix("array:")
