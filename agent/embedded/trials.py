"""Steps tried on a kernel, as text that scripts begin with."""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.passes.core.catalogue import PASSES
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script, apply_step
from ktc.passes.core.refusals import Refused
from ktc.passes.scalar.fast_math import present


def after(kernel: Kernel, steps: str) -> Kernel | None:
    """``kernel`` after ``steps``; None where they do not apply."""
    done = apply_script(kernel, parse_script(steps))
    return None if done.refused is not None else done.kernel


def wherever(kernel: Kernel, name: str, **more: int) -> tuple[str, Kernel]:
    """The steps of the pass ``name``, with ``more`` arguments, that apply to ``kernel``, each with a bar behind it, and
    the kernel after them."""
    before = ""
    for step in (site.step.with_(**more) for site in PASSES[name].sites(kernel)):
        done = apply_step(kernel, step)
        if not isinstance(done, Refused):
            before, kernel = f"{before}{step} | ", done.kernel
    return before, kernel


def with_fast_quotients(raised: Kernel, steps: str) -> str:
    """``steps`` and one that approximates 32-bit quotients; '' where there are none, or the steps do not apply.

    One that is rounded as IEEE says takes branches and about forty cycles, which nothing hides where few threads go
    through many iterations that wait for each other. The gate judges what it costs in accuracy.
    """
    done = after(raised, steps)
    if done is None or "div" not in present(done):
        return ""
    return f"{steps} | fast-math{{fns=div}}"


__all__ = ["after", "wherever", "with_fast_quotients"]
