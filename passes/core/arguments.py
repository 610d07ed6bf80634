"""How a pass declares its arguments: a frozen dataclass, one field each.

    @dataclass(frozen=True)
    class Arguments:
        loop: Loops = required("the loop's name; every loop of that name")
        factor: Size = knob("U", (1, 2, 4, 8), "copies of the body")
        copy: Literal["flat", "rows"] = option("flat", "one loop over all elements, or one a dimension")

    class Example(Pass[Arguments]): ...

The reader of scripts, errors, knobs, ``ktc passes`` and completion follow from it. The types that a field may have are
those of :mod:`.argument_kinds`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from .argument_kinds import KnobSpec, Size
from .script import KnobRef

DECLARED = "ktc"
"""Key of a field's metadata: its :class:`Declared`."""


@dataclass(frozen=True)
class Declared:
    """What a field says beside its type and default.

    ``code`` is that of refusals of a value, ``least`` and ``most`` bound a number, ``words`` are the
    spellings that a word may have, ``knobs`` what knobs in its place take from the pass; ``shown`` is a default as help
    shows it; ``rest`` marks the field that takes every argument that no other field does.
    """

    doc: str
    code: str = ""
    least: int | None = None
    most: int | None = None
    words: tuple[str, ...] = ()
    knobs: tuple[KnobSpec, ...] = ()
    shown: str = ""
    rest: bool = False


@dataclass(frozen=True)
class NoArguments:
    """Of a pass that takes none."""


def required(
    doc: str, *, code: str = "", least: int | None = None, most: int | None = None, knobs: Sequence[KnobSpec] = ()
) -> Any:
    """An argument that a script must give."""
    return dataclasses.field(
        kw_only=True, metadata={DECLARED: Declared(doc, code, least=least, most=most, knobs=tuple(knobs))}
    )


def option(
    default: object,
    doc: str,
    *,
    code: str = "",
    least: int | None = None,
    most: int | None = None,
    words: Collection[str] = (),
    knobs: Sequence[KnobSpec] = (),
    shown: str = "",
) -> Any:
    """An argument with a default: the value that the field's type has, or None."""
    declared = Declared(doc, code, least, most, tuple(words), tuple(knobs), shown)
    return dataclasses.field(default=default, metadata={DECLARED: declared})


def knob(
    name: str,
    domain: Sequence[int],
    doc: str,
    *,
    wish: int | None = None,
    code: str = "",
    least: int = 1,
    most: int | None = None,
) -> Any:
    """A size that is by default the knob ``$name``. ``wish``: the value to start from, if the domain has it."""
    spec = KnobSpec(name, tuple(domain), doc, wish)
    declared = Declared(doc, code, least=least, most=most, knobs=(spec,), shown=f"${name}")
    return dataclasses.field(default=Size(KnobRef(name), spec), metadata={DECLARED: declared})


def knobs(doc: str, *specs: KnobSpec, code: str = "") -> Any:
    """As many sizes as ``specs``, by default their knobs; of a field ``tuple[Size, ...]``, the one spec is for all."""
    declared = Declared(doc, code, least=1, knobs=specs, shown=",".join(f"${s.name}" for s in specs))
    return dataclasses.field(default=tuple(Size(KnobRef(s.name), s) for s in specs), metadata={DECLARED: declared})


def rest(doc: str, *, knobs: Sequence[KnobSpec] = ()) -> Any:
    """Every argument that no other field takes, as a tuple of (name, value as written)."""
    return dataclasses.field(default=(), metadata={DECLARED: Declared(doc, rest=True, knobs=tuple(knobs))})
