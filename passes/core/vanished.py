"""Names that a script takes away: which step did, for the refusal of a later one that still asks for them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from ktc.ir.kernel import Kernel

from .places import place_names
from .refusals import Refused
from .script import Step


def with_history(refused: Refused, step: Step, kernels: Sequence[Kernel], steps: Sequence[Step]) -> Refused:
    """``refused``, of ``step``, and what became of the places that it names, if one was there once.

    ``kernels`` are those before the first of ``steps``, and after each of them.
    """
    if refused.code != "E-PLACE":
        return refused
    wanted = {word.rpartition(":")[2] for _, value in step.args for word in _words(value)}
    there = [place_names(k) & wanted for k in kernels]
    gone = sorted(set().union(*there) - there[-1])
    if not gone:
        return refused
    last = max(k for k, (a, b) in enumerate(itertools.pairwise(there)) if gone[0] in a - b)
    why = f"'{gone[0]}' is there no more: {steps[last]} took it away"
    return dataclasses.replace(refused, why=why)


def _words(value: object) -> list[str]:
    items = value if isinstance(value, tuple) else (value,)
    return [x for x in items if isinstance(x, str)]


__all__ = ["with_history"]
