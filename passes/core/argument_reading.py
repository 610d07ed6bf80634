"""From what a script wrote to the arguments of a pass, by the types of their fields.

A value that its argument cannot have is refused with E-ARG-TYPE or E-ARG-RANGE, or with the code that the field names.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from .argument_kinds import Arrays, Factor, KnobSpec, Loop, Loops, Place, Size
from .argument_words import is_plain, plain_types, quoted, shown, spellings, words
from .arguments import DECLARED, Declared
from .refusals import Refusal
from .script import Arg, DistSpec, KnobRef

A = TypeVar("A")


@dataclass(frozen=True)
class Parameter:
    """One argument of a pass: what its field declares, and what it may be, in words (``takes``)."""

    name: str
    field: str
    hint: Any
    declared: Declared
    required: bool
    default: str

    @property
    def doc(self) -> str:
        return self.declared.doc

    @property
    def takes(self) -> str:
        return "any number of them" if self.declared.rest else words(self.hint, self.declared)

    @property
    def knobs(self) -> tuple[KnobSpec, ...]:
        return self.declared.knobs

    @property
    def names_a_place(self) -> bool:
        """Whether it says where in the kernel."""
        return any(isinstance(t, type) and issubclass(t, Place) for t in plain_types(self.hint))


def parameters(arguments: type) -> tuple[Parameter, ...]:
    """The fields of an arguments dataclass, those that are required first."""
    hints = get_type_hints(arguments, include_extras=True)
    out = []
    for f in dataclasses.fields(arguments):
        declared = f.metadata.get(DECLARED) or Declared("")
        must = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        default = "" if must or declared.rest else declared.shown or shown(f.default)
        out.append(Parameter("*" if declared.rest else f.name, f.name, hints[f.name], declared, must, default))
    return tuple(sorted(out, key=lambda p: not p.required))


def read(arguments: type[A], takes: Sequence[Parameter], given: Mapping[str, Arg], owner: str) -> A:
    """The arguments that a script ``given`` to the pass ``owner``, which ``takes`` these; others have their defaults.

    Raises:
        Refusal: E-ARG-MISSING, E-PASS-ARG, or what a value that does not fit is refused with.
    """
    known = {p.name: p for p in takes}
    missing = [p.name for p in known.values() if p.required and p.name not in given]
    if missing:
        hint = f"{owner} takes: {signature(takes)}"
        raise Refusal("E-ARG-MISSING", f"{owner} needs {', '.join(missing)}", hint=hint)
    values: dict[str, Any] = {n: _value(known[n], n, v) for n, v in given.items() if n in known}
    others = {n: v for n, v in given.items() if n not in known}
    if others and "*" not in known:
        raise Refusal(
            "E-PASS-ARG", f"{owner} has no argument '{next(iter(others))}'", hint=f"{owner} takes: {signature(takes)}"
        )
    if others:
        values[known["*"].field] = tuple(others.items())
    return arguments(**values)


def signature(takes: Sequence[Parameter]) -> str:
    """The names of the arguments, those that may be left out in brackets."""
    return ", ".join(p.name if p.required else f"[{p.name}]" for p in takes)


# ------------------------------------------------------------------------------------------------------------- values


class _Unfit(Exception):
    """The value is not of this kind. ``code``: unless the field names one."""

    def __init__(self, code: str) -> None:
        self.code = code


def _value(p: Parameter, name: str, arg: Arg) -> Any:
    try:
        return _read(p.hint, p.declared, 0, arg)
    except _Unfit as e:
        near = difflib.get_close_matches(arg, spellings(p.hint, p.declared), 1) if isinstance(arg, str) else []
        hints = [f"did you mean '{near[0]}'?"] if near else []
        why = f"{name} is {p.takes}, not {quoted(arg)}"
        if p.declared.words:
            why = f"{name} cannot be {quoted(arg)}"
            hints.append(f"there are: {', '.join(p.declared.words)}")
        code = "E-PLACE" if p.names_a_place and e.code == "E-ARG-TYPE" else p.declared.code or e.code
        raise Refusal(code, why, hint=" ".join(hints)) from None


def _read(hint: Any, d: Declared, k: int, arg: Arg) -> Any:
    """``arg`` as a value of the type ``hint``; ``k``: which of the field's knobs it is."""
    if hint is type(None):
        raise _Unfit("E-ARG-TYPE")
    origin: Any = get_origin(hint)
    if origin is Literal:
        if arg in get_args(hint):
            return arg
        raise _Unfit("E-ARG-RANGE")
    if origin in (Union, types.UnionType):
        return _first(get_args(hint), d, k, arg)
    if origin is tuple:
        return _items(get_args(hint), d, arg)
    return _READERS[hint](d, k, arg)


def _first(hints: tuple[Any, ...], d: Declared, k: int, arg: Arg) -> Any:
    """Of a union: a word that it names before anything else that a word could be."""
    code = "E-ARG-TYPE"
    for hint in sorted(hints, key=is_plain):
        try:
            return _read(hint, d, k, arg)
        except _Unfit as e:
            code = e.code if hint is not type(None) else code
    raise _Unfit(code)


def _items(hints: tuple[Any, ...], d: Declared, arg: Arg) -> tuple[Any, ...]:
    given = arg if isinstance(arg, tuple) else (arg,)
    if hints[-1] is Ellipsis:
        return tuple(_read(hints[0], d, 0, x) for x in given)
    if len(given) != len(hints):
        raise _Unfit("E-ARG-RANGE")
    return tuple(_read(h, d, k, x) for k, (h, x) in enumerate(zip(hints, given)))


def _within(d: Declared, n: int) -> bool:
    return (d.least is None or n >= d.least) and (d.most is None or n <= d.most)


def _integer(d: Declared, k: int, arg: Arg) -> int:
    if not isinstance(arg, int):
        raise _Unfit("E-ARG-TYPE")
    if not _within(d, arg):
        raise _Unfit("E-ARG-RANGE")
    return arg


def _yes_no(d: Declared, k: int, arg: Arg) -> bool:
    if arg not in ("yes", "no"):
        raise _Unfit("E-ARG-RANGE")
    return arg == "yes"


def _word(d: Declared, k: int, arg: Arg) -> str:
    if not isinstance(arg, str):
        raise _Unfit("E-ARG-TYPE")
    if d.words and arg not in d.words:
        raise _Unfit("E-ARG-RANGE")
    return arg


def _size(named: bool) -> Callable[[Declared, int, Arg], Size]:
    def size(d: Declared, k: int, arg: Arg) -> Size:
        if not isinstance(arg, int | KnobRef) and not (named and isinstance(arg, str)):
            raise _Unfit("E-ARG-TYPE")
        if isinstance(arg, int) and not _within(d, arg):
            raise _Unfit("E-ARG-RANGE")
        return Size(arg, d.knobs[min(k, len(d.knobs) - 1)])

    return size


def _levels(d: Declared, k: int, arg: Arg) -> DistSpec:
    if not isinstance(arg, DistSpec):
        raise _Unfit("E-DIST-LEVELS")
    return arg


def _place(kind: type[Place]) -> Callable[[Declared, int, Arg], Place]:
    def place(d: Declared, k: int, arg: Arg) -> Place:
        words = arg if isinstance(arg, tuple) and arg else (arg,)
        if not all(isinstance(w, str) for w in words):
            raise _Unfit("E-ARG-TYPE")
        return kind(arg)  # type: ignore[arg-type]

    return place


_READERS: dict[Any, Callable[[Declared, int, Arg], Any]] = {
    int: _integer, bool: _yes_no, str: _word, DistSpec: _levels, Size: _size(named=True), Factor: _size(named=False),
    Place: _place(Place), Loop: _place(Loop), Loops: _place(Loops), Arrays: _place(Arrays),
}  # fmt: skip
