"""The one description of what is exported: every variant of a kernel, when each runs, and how it is launched.

It is plain data (:meth:`Artefact.to_json`), which the exported Python packages read (:mod:`.shipped.dispatch`) and the
writers of C++ print. Expressions are Python text. Those of shapes are over *sizes*, the names that a workload's shapes
are made of; those of launches and conditions are over the kernel's scalar *parameters*, host ones too, and over its
buffers where they ask whether one is ``None``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = 1


@dataclass(frozen=True)
class Parameter:
    """An argument of the exported callable, or a scalar that is computed of others.

    ``role``: in | out | inout | scalar. ``shape``: over sizes (buffers). ``value``: a scalar over sizes, which callers
    do not pass; '' for one that they do, with an ``example``. ``defines``: the size that a scalar argument
    is. ``optional``: the buffer may be ``None``. ``alone``: the source says that no other buffer overlaps it.
    """

    name: str
    role: str
    shape: tuple[str, ...] = ()
    value: str = ""
    example: int | float | None = None
    defines: str = ""
    optional: bool = False
    alone: bool = False


@dataclass(frozen=True)
class SizeFrom:
    """How one size is read off the arguments: ``text`` is Python over ``dim``, the extent of ``parameter`` along
    ``axis``, and the sizes before it. Without a parameter, callers pass the size by its name."""

    size: str
    parameter: str = ""
    axis: int = 0
    text: str = "dim"


@dataclass(frozen=True)
class Scratch:
    """Working memory that a launch needs: zero before the first one, left by each fit for the next. ``passed``: what
    one launch of a sequence leaves for another, the same memory for all of them, whose contents mean nothing before."""

    name: str
    dtype: str
    elements: str
    passed: bool = False


@dataclass(frozen=True)
class Matrix:
    """A descriptor for bulk tensor copies that a kernel takes after its parameters (``cuTensorMapEncodeTiled``)."""

    buffer: str
    rows: str
    columns: str
    pitch: str
    box_rows: int
    dtype: str


@dataclass(frozen=True)
class Apart:
    """That bytes ``first``..``end`` of one buffer and of another are different memory."""

    one: str
    first: str
    end: str
    other: str
    other_first: str
    other_end: str


@dataclass(frozen=True)
class Code:
    """One kernel: its text, how it is compiled and launched, and what must hold for it.

    ``arguments``: names and dtypes in the order of the kernel's signature, ``*`` before the dtype of a buffer.
    ``shared``: dynamic bytes. ``requires``: conditions; ``aligned``: bytes that a buffer's address is a multiple of;
    ``room``: bytes of shared memory that a block takes, where not every device has as much ('' elsewhere). ``arch``:
    the least architecture of the target that has its instructions; with a letter, the only one. ``symbols``: variables
    at file scope that host code sets. ``then``: the launches that follow, of a sequence; what must hold for all of them
    stands with the first.
    """

    file: str
    entry: str
    arguments: tuple[tuple[str, str], ...]
    grid: tuple[str, str, str]
    block: tuple[str, str, str]
    shared: str
    options: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    aligned: Mapping[str, int] = field(default_factory=dict)
    apart: tuple[Apart, ...] = ()
    room: str = ""
    arch: str = ""
    cooperative: bool = False
    dynamic: bool = False
    scratch: tuple[Scratch, ...] = ()
    matrices: tuple[Matrix, ...] = ()
    script: str = ""
    knobs: Mapping[str, int] = field(default_factory=dict)
    symbols: tuple[str, ...] = ()
    then: tuple[Code, ...] = ()

    @property
    def launches(self) -> tuple[Code, ...]:
        """This launch and those that follow it."""
        return (self, *self.then)


@dataclass(frozen=True)
class Point:
    """A measurement: at these scalars, ``variant`` (None: the original) was the fastest. ``ratio``: how much faster it
    was than the original, with its 95 % interval. ``speedups``: the lower end of that interval of each variant that was
    timed there."""

    name: str
    at: Mapping[str, int]
    variant: int | None
    ratio: tuple[float, ...] = ()
    speedups: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Instance:
    """The kernel for one combination of dtypes. ``everywhere``: the variant that runs wherever what it requires holds,
    for a script that was named and not measured."""

    dtypes: Mapping[str, str]
    original: Code
    variants: tuple[Code, ...] = ()
    points: tuple[Point, ...] = ()
    everywhere: int | None = None
    variant_name: str = ""


@dataclass(frozen=True)
class Artefact:
    """Everything that is exported of one kernel. ``reorders``: sums may be taken in another order than the original's.
    ``about``: where it comes from, for people to read."""

    name: str
    language: str
    parameters: tuple[Parameter, ...]
    sizes: tuple[SizeFrom, ...]
    instances: tuple[Instance, ...]
    reorders: bool = False
    about: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    def tag(self, k: int) -> str:
        """What tells the names of the ``k``-th instance from those of others, where texts hold several."""
        return f"_{self.instances[k].variant_name or k}_" if len(self.instances) > 1 else "_"

    @property
    def codes(self) -> list[Code]:
        """Every launch, those of originals first in their instances."""
        return [code for i in self.instances for whole in (i.original, *i.variants) for code in whole.launches]
