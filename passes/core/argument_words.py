"""What an argument may be and what it is, in words: for help, and for refusals of what it may not be."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from .argument_kinds import Arrays, Factor, Loop, Loops, Place, Size
from .arguments import Declared
from .script import Arg, DistSpec, spelled

SHOWN_WORDS = {True: "yes", False: "no", None: ""}


def is_plain(hint: Any) -> bool:
    """Whether ``hint`` is no ``Literal``."""
    origin: Any = get_origin(hint)
    return origin is not Literal


_KINDS: dict[Any, str] = {
    bool: "yes or no", str: "a word", DistSpec: "a list of levels such as [vec $V, thread.x 128, seq]",
    Place: "a place", Loop: "a loop", Loops: "a loop, several, or i.* for all called i", Arrays: "an array",
}  # fmt: skip
_SIZES: dict[Any, list[str]] = {Size: ["a knob", "a parameter's name"], Factor: ["a knob"]}


def plain_types(hint: Any) -> list[Any]:
    """The plain types in ``hint``: of a union, a list."""
    if get_origin(hint) in (None, Literal, Annotated):
        return [hint]
    return [t for x in get_args(hint) for t in plain_types(x)]


def spellings(hint: Any, d: Declared) -> list[str]:
    """The words that a value of this type may be, where they are known."""
    words = [str(v) for t in plain_types(hint) if not is_plain(t) for v in get_args(t)]
    return [*words, *d.words, *(["yes", "no"] if bool in plain_types(hint) else [])]


def words(hint: Any, d: Declared) -> str:
    """What a value of this type is, for people."""
    return _either(list(_alternatives(hint, d)))


def _alternatives(hint: Any, d: Declared) -> Iterator[str]:
    """The kinds of value that this type has, in words."""
    origin: Any = get_origin(hint)
    args = get_args(hint)
    if origin is Literal:
        yield from map(str, args)
    elif origin in (Union, types.UnionType):
        for t in args:
            yield from () if t is type(None) else _alternatives(t, d)
    elif origin is tuple and args[-1] is Ellipsis:
        yield from _alternatives(args[0], d)
        yield "a list of these"
    elif origin is tuple:
        yield f"a list of {len(args)}, each {words(args[0], d)}"
    elif hint is str and d.words:
        yield f"one of {', '.join(d.words)}"
    elif hint is int:
        yield f"a number {_bounds(d)}".strip()
    elif hint in (Size, Factor):
        yield f"a number {_bounds(d) if d.most is not None or d.least == 0 else ''}".strip()
        yield from _SIZES[hint]
    else:
        yield _KINDS[hint]


def _bounds(d: Declared) -> str:
    if d.least is None:
        return ""
    return f"from {d.least}" + ("" if d.most is None else f" to {d.most}")


def _either(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def shown(default: Any) -> str:
    """A default as a script would write it."""
    if isinstance(default, bool) or default is None:
        return SHOWN_WORDS[default]
    if isinstance(default, tuple):
        return ",".join(map(shown, default))
    return str(default.written if isinstance(default, Size | Place) else default)


def quoted(arg: Arg) -> str:
    return repr(arg) if isinstance(arg, str) else spelled(arg)
