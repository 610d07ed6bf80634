"""The text of one macro with its arguments put in: ``#`` makes strings, ``##`` one token of two.

A body is read once into parts, each a token of its own or a place for an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .pp_tokens import SPACE, Token, tokens_of

PASTE = "CPP_DPOUND"
_QUOTED = ("CPP_STRING", "CPP_CHAR")


@dataclass(slots=True)
class Part:
    """One token of a macro's body, or the argument ``number`` in its place.

    ``raw``: the argument as it was written, not expanded; ``string``: its spelling as a string. ``pasted``: it is one
    token with what stands before it. ``comma``: the token goes when the last argument is empty.
    """

    token: Token
    number: int = -1
    raw: bool = False
    string: bool = False
    pasted: bool = False
    comma: bool = False


def parts_of(macro: Any) -> list[Part]:
    """The parts of a macro as pcpp keeps it: worked out once a macro."""
    known = getattr(macro, "parts", None)
    if known is None:
        known = macro.parts = _read(macro)
    return known


def _read(macro: Any) -> list[Part]:
    places = {at: (number, kind == "t") for kind, number, at in getattr(macro, "patch", ())}
    strings = {at: number for number, at in getattr(macro, "str_patch", ())}
    commas = set(getattr(macro, "var_comma_patch", ()))
    out: list[Part] = []
    pasted = False
    for at, token in enumerate(macro.value):
        if token.type == PASTE:
            while out and out[-1].token.type == SPACE:
                out.pop()
            pasted = bool(out)
            continue
        if pasted and token.type == SPACE:
            continue
        number, raw = places.get(at, (-1, False))
        out.append(Part(token, strings.get(at, number), raw, at in strings, pasted, at in commas))
        pasted = False
    return out


def body_with(
    macro: Any, args: list[list[Token]], expanded: Callable[[list[Token]], list[Token]], place: Token
) -> list[Token]:
    """The macro's body with ``args`` in it, on the line of ``place``; ``expanded`` says what an argument expands to."""
    full: dict[int, list[Token]] = {}
    out: list[Token] = []
    left = False  # whether what a ## could paste to is there: an empty argument is not
    for part in parts_of(macro):
        if part.comma and args and not args[-1]:
            left = False
            continue
        if part.string:
            put = [Token("CPP_STRING", _spelling(args[part.number]), 0)]
        elif part.number < 0:
            put = [part.token]
        elif part.raw:
            put = args[part.number]
        else:
            if part.number not in full:
                full[part.number] = expanded(args[part.number])
            put = full[part.number]
        if not part.pasted:
            left = bool(put)
        elif left and put:
            out[-1:], put = _one(out[-1], put[0]), put[1:]
        else:
            left = left or bool(put)
        out.extend(put)
    return [token.moved(place) for token in out]


def _one(a: Token, b: Token) -> list[Token]:
    """The token that ``a`` and ``b`` are together; the tokens of that text where they are none."""
    return [token for token, _ in tokens_of(a.value + b.value, a.lineno, a.source)]


def _spelling(tokens: list[Token]) -> str:
    """The string that ``#`` makes: blanks between tokens are one."""
    words: list[str] = []
    for token in tokens:
        if token.type == SPACE:
            if words and words[-1] != " ":
                words.append(" ")
        elif token.type in _QUOTED:
            words.append(token.value.replace("\\", "\\\\").replace('"', '\\"'))
        else:
            words.append(token.value)
    return '"' + "".join(words).strip() + '"'
