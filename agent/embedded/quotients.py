"""Quotients in loops whose iterations wait for each other: one that is rounded as IEEE says takes branches and about
forty cycles, which nothing hides where few threads go through many iterations."""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.scalar.fast_math import present


def with_fast_quotients(raised: Kernel, steps: str) -> str:
    """``steps`` and one that approximates 32-bit quotients; '' where there are none, or the steps do not apply. The
    gate judges what it costs in accuracy."""
    done = apply_script(raised, parse_script(steps))
    if done.refused is not None or "div" not in present(done.kernel):
        return ""
    return f"{steps} | fast-math{{fns=div}}"


__all__ = ["with_fast_quotients"]
