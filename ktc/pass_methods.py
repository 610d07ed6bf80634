"""Passes as methods of a program: each has the signature and the help that the pass's arguments make."""

from __future__ import annotations

import inspect
import keyword
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

if TYPE_CHECKING:
    from ktc.passes.core.argument_reading import Parameter
    from ktc.passes.core.base import Pass


class Shown(str):
    """An annotation that signatures show without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def method_name(pass_name: str) -> str:
    """A pass's name as Python spells it: ``row_cache``; a keyword with an underscore behind it."""
    name = pass_name.replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


def pass_name(method: str) -> str:
    """The pass that a method's name stands for."""
    return method.strip("_").replace("_", "-")


def pass_method(apply: Callable[..., Any], p: Pass) -> Callable[..., Any]:
    """``p`` as a function of its arguments; ``apply(name, **arguments)`` does it."""

    def method(**args: object) -> Any:
        return apply(p.name, **args)

    method.__name__ = method.__qualname__ = method_name(p.name)
    method.__doc__ = help_of(p)
    method.__signature__ = signature_of(p)  # type: ignore[attr-defined]
    return method


def signature_of(p: Pass) -> inspect.Signature:
    """Keyword arguments with the types that Python callers give and the defaults that the pass has."""
    kind, left_out = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
    named = [a for a in p.parameters if a.name != "*"]
    taken = [
        inspect.Parameter(
            method_name(a.name), kind, default=left_out if a.required else _default(a), annotation=python_type(a)
        )
        for a in named
    ]
    if len(named) < len(p.parameters):
        taken.append(inspect.Parameter("values", inspect.Parameter.VAR_KEYWORD, annotation=Shown("int | str")))
    return inspect.Signature(taken, return_annotation=Shown("Program"))


def help_of(p: Pass) -> str:
    """The summary, the picture of before and after that the pass's module has, the arguments, and how it may refuse."""
    module = sys.modules[type(p).__module__]
    _, _, picture = inspect.cleandoc(module.__doc__ or "").partition("\n\n")
    rows = [f"    {'**values' if a.name == '*' else method_name(a.name)}: {a.doc} ({a.takes})" for a in p.parameters]
    parts = [
        p.summary[:1].upper() + p.summary[1:] + ".",
        picture.strip(),
        "\n".join(["Args:", *rows]) if rows else "",
        "Returns:\n    A new program; where the pass refuses, its ``refused`` says why, and it is false.",
        f"Refusals: {', '.join(p.refusals)}." if p.refusals else "",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _default(a: Parameter) -> int | str:
    return int(a.default) if a.default.isdigit() else a.default


def python_type(a: Parameter) -> Shown:
    """What a Python caller may give for an argument: cursors for places, numbers or knobs (``"$U"``) for sizes."""
    from ktc.passes.core.argument_kinds import Place, Size

    def one(hint: Any) -> tuple[Any, ...]:
        origin = get_origin(hint)
        if origin is Literal:
            return (hint,)
        if origin is tuple:
            return (*(t for h in get_args(hint) if h is not ... for t in one(h)), list)
        if origin is not None and origin is not Union and hasattr(hint, "__metadata__"):
            return one(get_args(hint)[0])
        if get_args(hint):
            return tuple(t for h in get_args(hint) for t in one(h))
        if isinstance(hint, type) and issubclass(hint, Place):
            return (str, "Cursor")
        if hint is Size or hint is int:
            return (int, str)
        if hint is bool:
            return (bool,)
        return (str,) if hint is not type(None) else ()

    found = list(dict.fromkeys(one(a.hint)))
    names = [n for n in found if isinstance(n, str)]
    types = [t for t in found if not isinstance(t, str)]
    said = [t.__name__ if isinstance(t, type) else str(t).removeprefix("typing.") for t in types]
    return Shown(" | ".join([*said, *names]) or "str")


def step_text(name: str, args: Mapping[str, object]) -> str:
    """Keyword arguments as pipeline text; a trailing underscore escapes a Python keyword, lists become comma lists."""

    def value(v: object) -> str:
        if isinstance(v, list | tuple):
            return ",".join(value(x) for x in v)
        return str(int(v)) if isinstance(v, bool) else str(v)

    written = " ".join(f"{k.rstrip('_').replace('_', '-')}={value(v)}" for k, v in args.items())
    return f"{name}{{{written}}}"


def method_names(passes: Sequence[str]) -> list[str]:
    """The methods that passes are, for completion."""
    return [method_name(n) for n in passes]


__all__ = ["help_of", "method_name", "method_names", "pass_method", "pass_name", "signature_of", "step_text"]
