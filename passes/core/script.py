"""The values of the pipeline language: knobs, distributions, steps and scripts. ``str`` of each is its text.

>>> str(Step("unroll", (("loop", "k"), ("factor", KnobRef("U", (1, 2, 4))))))
'unroll{loop=k factor=$U:1,2,4}'

:mod:`.language` reads that text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ktc.ir.diagnostics import Loc


@dataclass(frozen=True)
class KnobRef:
    """``$V`` (default domain), ``$V:1,2,4`` (narrowed), ``$V=4`` (bound)."""

    name: str
    domain: tuple[int, ...] | None = None
    value: int | None = None

    def __str__(self) -> str:
        return spelled(self)


@dataclass(frozen=True)
class LevelSpec:
    """One level of a distribution as written: ``vec $V``, ``thread.x 128``, ``seq``, ``block.x``."""

    kind: str
    n: int | str | KnobRef | None = None  # str: an identifier naming a parameter
    axis: str = ""

    def __str__(self) -> str:
        kind = f"{self.kind}.{self.axis}" if self.axis else self.kind
        return kind if self.n is None else f"{kind} {spelled(self.n, nested=True)}"


@dataclass(frozen=True)
class DistSpec:
    """``[vec $V, thread.x $T, seq]``."""

    levels: tuple[LevelSpec, ...]

    @staticmethod
    def of(*levels: str) -> DistSpec:
        """The distribution of levels as they are written, of numbers and plain knobs: ``of("vec $V", "seq")``."""
        out = []
        for level in levels:
            kind, _, axis = (words := level.split())[0].partition(".")
            size = words[1] if len(words) > 1 else None
            n = None if size is None else KnobRef(size[1:]) if size[0] == "$" else int(size)
            out.append(LevelSpec(kind, n, axis))
        return DistSpec(tuple(out))

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.levels))}]"


Arg: TypeAlias = int | str | KnobRef | DistSpec | tuple[Any, ...]
"""An argument as it is written: integer, identifier or place (``k``, ``loop:k``), knob, distribution, or a list."""


def spelled(value: Arg, nested: bool = False) -> str:
    """The text of an argument's value; ``nested`` inside a list, where a knob's domain needs parentheses."""
    if isinstance(value, KnobRef):
        domain = ",".join(map(str, value.domain or ()))
        domain = f":({domain})" if nested and value.domain else f":{domain}" if value.domain else ""
        return f"${value.name}{domain}" + (f"={value.value}" if value.value is not None else "")
    if isinstance(value, tuple):
        items = ",".join(spelled(v, nested=True) for v in value)
        return items if len(value) > 1 and not nested else f"({items})"
    return str(value)


def listed(items: Iterable[Arg]) -> Arg:
    """``items`` as an argument: a list, or the item itself where it is the only one."""
    values = tuple(items)
    return values[0] if len(values) == 1 else values


@dataclass(frozen=True)
class Step:
    """One pass application: ``unroll{loop=k factor=$U:1,2,4}``."""

    name: str
    args: tuple[tuple[str, Arg], ...] = ()
    loc: Loc | None = field(default=None, compare=False)

    @property
    def kwargs(self) -> dict[str, Arg]:
        return dict(self.args)

    def with_(self, **args: Arg) -> Step:
        """The same step with these arguments, in the place of those of the same name or after the others."""
        return Step(self.name, tuple({**self.kwargs, **args}.items()), self.loc)

    def __str__(self) -> str:
        if not self.args:
            return self.name
        return f"{self.name}{{{' '.join(f'{k}={spelled(v)}' for k, v in self.args)}}}"


@dataclass(frozen=True)
class Script:
    """A pipeline: steps in order, and ``where`` constraints (text, over knob names and parameters)."""

    steps: tuple[Step, ...]
    where: tuple[str, ...] = ()

    def __str__(self) -> str:
        """One line of text that reads back as this script."""
        return " | ".join([*map(str, self.steps), *(f"where {w}" for w in self.where)])
