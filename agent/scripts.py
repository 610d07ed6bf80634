"""Scripts compared by their steps: their text may have a bar before ``where`` or none."""

from __future__ import annotations

from functools import lru_cache

from ktc.passes.core.catalogue import PASSES
from ktc.passes.core.language import parse_script
from ktc.passes.core.script import Script, Step

OF_SIZES = frozenset({"divisible-by", "enough-threads", "specialize"})
"""Passes that say of one kernel's parameters what its workload has them be."""


@lru_cache(4096)
def parsed(script: str) -> Script:
    """``script``, read once.

    Raises:
        KtcError: E-SCRIPT-SYNTAX or -LIMIT.
    """
    return parse_script(script)


def built_on(script: str, other: str) -> bool:
    """Whether ``script`` is the steps of ``other`` and more; conditions (``where``) belong to each by itself."""
    steps, first = parsed(script).steps, parsed(other).steps
    return len(first) < len(steps) and steps[: len(first)] == first


def steps_of(script: str) -> tuple[Step, ...]:
    """The steps of ``script``, whatever its conditions."""
    return parsed(script).steps


def approximates(step: Step) -> bool:
    """Whether ``step`` puts approximations in the place of functions: worth it where it is faster."""
    return "fast_math" in PASSES[step.name].flags


def of_any_sizes(script: str) -> str:
    """``script`` without what it counts on parameters to be, or to be multiples of; a builder adds what its own sizes
    show."""
    all_of_it = parsed(script)
    steps = tuple(s for s in all_of_it.steps if s.name not in OF_SIZES)
    return script if len(steps) == len(all_of_it.steps) else str(Script(steps, all_of_it.where))


def unconditional(script: str) -> str:
    """``script`` without its conditions."""
    return str(Script(parsed(script).steps))
