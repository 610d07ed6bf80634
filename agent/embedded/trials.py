"""Steps tried on a kernel, as text that scripts begin with."""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.ir.support.memo import by_identity
from ktc.passes.core.catalogue import PASSES
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import Memo, apply_script
from ktc.passes.scalar.fast_math import present


def after(kernel: Kernel, steps: str) -> Kernel | None:
    """``kernel`` after ``steps``; None where they do not apply."""
    done = apply_script(kernel, parse_script(steps), _tried(kernel))
    return None if done.refused is not None else done.kernel


@by_identity(16)
def _tried(kernel: Kernel) -> Memo:
    """What steps make of ``kernel``: many ideas begin with the same ones, which may take seconds on a large kernel."""
    return {}


def wherever(kernel: Kernel, name: str, **more: int) -> tuple[str, Kernel]:
    """The steps of the pass ``name``, with ``more`` arguments, that apply to ``kernel``, each with a bar behind it, and
    the kernel after them."""
    before = ""
    for step in (site.step.with_(**more) for site in PASSES[name].sites(kernel)):
        done = after(kernel, str(step))
        if done is not None:
            before, kernel = f"{before}{step} | ", done
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
