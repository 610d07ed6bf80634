"""``__has_include("sizes.h")`` in the condition of an ``#if``: whether a header of the project can be read."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

ASKED = "__has_include"


def with_answers(tokens: Sequence[Any], there: Callable[[str], bool], integer: str) -> list[Any]:
    """``tokens`` of a condition with 1 in the place of each question for a header in quotation marks that is ``there``;
    those for others stay, and are 0 as a macro. ``integer``: the type of a token that is a number."""
    out, i = list[Any](), 0
    while i < len(tokens):
        if tokens[i].value == ASKED:
            inside = [(j, t.value) for j, t in enumerate(tokens[i + 1 : i + 8], i + 1) if not t.value.isspace()][:3]
            last, words = inside[-1][0] if inside else i, [text for _, text in inside]
            if (
                len(words) == 3
                and words[0] == "("
                and words[2] == ")"
                and words[1][:1] == '"'
                and there(words[1][1:-1])
            ):
                answer = copy.copy(tokens[i])
                answer.type, answer.value = integer, "1"
                out.append(answer)
                i = last + 1
                continue
        out.append(tokens[i])
        i += 1
    return out


__all__ = ["ASKED", "with_answers"]
