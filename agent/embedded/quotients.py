"""Quotients in loops whose iterations wait for each other: one that is rounded as IEEE says takes branches and about
forty cycles, which nothing hides where few threads go through many iterations."""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.passes.scalar.fast_math import present

from .trials import after


def with_fast_quotients(raised: Kernel, steps: str) -> str:
    """``steps`` and one that approximates 32-bit quotients; '' where there are none, or the steps do not apply. The
    gate judges what it costs in accuracy."""
    done = after(raised, steps)
    if done is None or "div" not in present(done):
        return ""
    return f"{steps} | fast-math{{fns=div}}"


__all__ = ["with_fast_quotients"]
