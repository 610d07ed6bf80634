"""The pass protocol: named, checked rewrites of a kernel that refuse with data instead of raising.

A pass module reads top to bottom: what it does (with a before -> after listing), the predicate that says whether it
may, the rewrite, and one :class:`Pass` subclass with the name the pipeline language uses. Registration is by the table
in ``passes/core/catalogue.py`` (third parties: the ``ktc.passes`` entry point).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ktc.ir.diagnostics import Loc
from ktc.ir.kernel import Kernel

# ------------------------------------------------------------------------------------- values of the pipeline language


@dataclass(frozen=True)
class KnobRef:
    """``$V`` (default domain), ``$V:1,2,4`` (narrowed), ``$V=4`` (bound)."""

    name: str
    domain: tuple[int, ...] | None = None
    value: int | None = None


@dataclass(frozen=True)
class LevelSpec:
    """One level of a distribution as written: ``vec $V``, ``thread.x 128``, ``seq``, ``block.x``."""

    kind: str
    n: int | str | KnobRef | None = None  # str: an identifier naming a parameter
    axis: str = ""


@dataclass(frozen=True)
class DistSpec:
    """``[vec $V, thread.x $T, seq]``."""

    levels: tuple[LevelSpec, ...]


Arg = int | str | KnobRef | DistSpec | tuple
"""An argument value: integer, identifier or place (``k``, ``loop:k``), knob, distribution, or a comma list of those."""


@dataclass(frozen=True)
class Step:
    """One pass application: ``unroll{loop=k factor=$U:1,2,4}``."""

    name: str
    args: tuple[tuple[str, Arg], ...] = ()
    loc: Loc | None = field(default=None, compare=False)

    @property
    def kwargs(self) -> dict[str, Arg]:
        return dict(self.args)


@dataclass(frozen=True)
class Script:
    """A pipeline: steps in order, and ``where`` constraints (text, over knob names and parameters)."""

    steps: tuple[Step, ...]
    where: tuple[str, ...] = ()


# ------------------------------------------------------------------------------------------------------ the protocol


@dataclass(frozen=True)
class Refused:
    """A pass said no: a stable code, one sentence, the places in the source, and what to do about it."""

    code: str
    why: str
    locs: tuple[Loc, ...] = ()
    hint: str = ""


@dataclass(frozen=True)
class Result:
    """A rewritten kernel and what a reader should know about it (``notes``)."""

    kernel: Kernel
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Site:
    """A place where a pass applies: ready-made arguments (pipeline text) and why one would."""

    step: str  # e.g. "distribute{loop=i map=[vec $V, thread.x $T, seq]}"
    doc: str = ""


@dataclass(frozen=True)
class ParamSpec:
    """A pass parameter: name, whether required, default (pipeline text), and one line of help."""

    name: str
    doc: str
    required: bool = False
    default: str = ""


class Pass:
    """Base class. Subclasses are stateless; ``apply`` returns ``Refused`` for any reason the user can act on."""

    name: ClassVar[str]
    summary: ClassVar[str]
    params: ClassVar[tuple[ParamSpec, ...]] = ()
    knobs: ClassVar[tuple[str, ...]] = ()  # "V: 1,2,4,8: elements a vector access moves"
    refusals: ClassVar[tuple[str, ...]] = ()
    flags: ClassVar[tuple[str, ...]] = ()  # reassociates, fast_math

    def sites(self, kernel: Kernel) -> list[Site]:
        """Every place where the pass applies, with suggested arguments: the agent's action space."""
        raise NotImplementedError

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        """The rewritten kernel, or why not. Never raises for a user's reason, never mutates.

        ``args`` has every argument that ``params`` requires: who runs a step sees to that.
        """
        raise NotImplementedError
