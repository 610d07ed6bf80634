"""Names of kernels as people and demanglers write them: ``void ns::scale<float, &(plus(float, float))>(float*)``.

What a demangler prints is not C++: a function is given with its parameters, a constant with a cast, and what only this
file knows has a namespace of its own. :func:`as_source` writes one template argument as a source would.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ktc.ir.diagnostics import KtcError

_OF_THIS_FILE = re.compile(r"\(anonymous namespace\)::|\b_INTERNAL_\w+::")
"""Namespaces that a demangled name has and a source does not."""

_OPEN, _CLOSE = "<({[", ">)}]"


@dataclass(frozen=True)
class Spelled:
    """A kernel's name in parts; ``args`` is None where it has no template arguments, ``params`` without parameters.

    ``namespace`` are the innermost names around it; all of them, after an empty one, where ``::`` comes first.
    """

    namespace: tuple[str, ...]
    name: str
    args: tuple[str, ...] | None
    params: tuple[str, ...] | None = None


def spelled(text: str) -> Spelled:
    """``void a::b<int, 3>(float*)`` in its parts.

    Raises:
        KtcError: E-CAPTURE-NAME, it is no function's name.
    """
    plain = _OF_THIS_FILE.sub("", text.strip().removeprefix("void ")).strip()
    head, params = _call(plain)
    parts = list(_split(head, "::"))
    last, args = _template(parts[-1])
    namespace = tuple(parts[:-1])
    names = (*namespace[namespace[:1] == ("",) :], last)
    if head.count("<") != head.count(">") or not all(p.isidentifier() for p in names):
        raise KtcError("E-CAPTURE-NAME", f"'{text}' is not a kernel's name that can be looked for in a source")
    return Spelled(namespace, last, args, params)


def listed(text: str) -> tuple[str, ...] | None:
    """The arguments in ``<float*, Op<int, 2>>``; None where ``text`` is no such list."""
    is_list = text.startswith("<") and _closing(text, 0) == len(text) - 1
    return tuple(_split(text[1:-1], ",")) if is_list else None


def as_source(arg: str) -> str:
    """A template argument of a demangled name as a source writes it: ``&(float plus<int>(float, float))`` is
    ``plus<int>``, ``ns::Op<(Mode)-1>`` is ``ns::Op<((Mode)(-1))>``."""
    arg = _OF_THIS_FILE.sub("", arg.strip())
    inside = arg.removeprefix("&")
    if inside.startswith("(") and _closing(inside, 0) == len(inside) - 1:
        return _function(inside[1:-1])
    if inside is not arg and "(" not in _outside_angles(inside):
        return "&" + _nested(inside)
    if inside.startswith("(") and (end := _closing(inside, 0)) > 0:
        return f"(({_nested(inside[1:end])})({inside[end + 1 :].strip()}))"
    return _nested(arg)


def _function(text: str) -> str:
    """The name, with template arguments, of a function that is given with its parameters and perhaps its result."""
    head, _ = _call(text)
    return _nested(list(_split(head, " "))[-1])


def _nested(text: str) -> str:
    """``text`` with the template arguments in it as a source writes them."""
    at = text.find("<")
    if at < 0 or (end := _closing(text, at)) < 0:
        return text
    inside = ", ".join(map(as_source, _split(text[at + 1 : end], ",")))
    return f"{text[:at]}<{inside}>{_nested(text[end + 1 :])}"


def _call(text: str) -> tuple[str, tuple[str, ...] | None]:
    """What stands before a function's parameters, and these; None where there are none."""
    depth = 0
    for i, c in enumerate(text):
        if c == "(" and depth == 0:
            end = _closing(text, i)
            return text[:i].strip(), tuple(_split(text[i + 1 : end], ",")) if end > 0 else None
        depth += (c in _OPEN) - (c in _CLOSE)
    return text.strip(), None


def _template(text: str) -> tuple[str, tuple[str, ...] | None]:
    at = text.find("<")
    if at < 0:
        return text, None
    return text[:at].strip(), tuple(_split(text[at + 1 : text.rfind(">")], ","))


def _closing(text: str, at: int) -> int:
    """Where the bracket at ``at`` is closed; -1 if it is not."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in _OPEN) - (text[i] in _CLOSE)
        if depth == 0:
            return i
    return -1


def _outside_angles(text: str) -> str:
    out, depth = "", 0
    for c in text:
        depth += (c == "<") - (c == ">")
        out += c if depth == 0 else ""
    return out


def _split(text: str, by: str) -> Iterator[str]:
    """The parts of ``text`` between the separators that stand in no brackets; nothing of an empty text."""
    depth, part, i = 0, "", 0
    while i < len(text):
        if depth == 0 and text.startswith(by, i):
            yield part.strip()
            part, i = "", i + len(by)
            continue
        depth += (text[i] in _OPEN) - (text[i] in _CLOSE)
        part, i = part + text[i], i + 1
    if text.strip():
        yield part.strip()


__all__ = ["Spelled", "as_source", "listed", "spelled"]
