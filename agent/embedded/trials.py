"""Steps tried on a kernel, as text that scripts begin with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, Var
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


def counting_on_multiples(counts: Iterable[tuple[Expr | None, int]], facts: Sequence[KernelFacts]) -> str:
    """The step, with a bar behind it, that counts on those of ``counts`` to be multiples of the numbers beside them
    which are parameters, and such multiples at all sizes; '' if none is."""
    by: dict[str, int] = {}
    for count, multiple in counts:
        sizes = [f.sizes.get(count.sym.name) for f in facts] if isinstance(count, Var) else []
        if sizes and multiple > 1 and all(isinstance(n, int) and n % multiple == 0 for n in sizes):
            assert isinstance(count, Var)
            by[count.sym.name] = math.lcm(multiple, by.get(count.sym.name, 1))
    return f"divisible-by{{{' '.join(f'{name}={multiple}' for name, multiple in by.items())}}} | " if by else ""


def with_fast_quotients(raised: Kernel, steps: str) -> str:
    """``steps`` and one that approximates 32-bit quotients; '' where there are none, or the steps do not apply.

    One that is rounded as IEEE says takes branches and about forty cycles, which nothing hides where few threads go
    through many iterations that wait for each other. The gate judges what it costs in accuracy.
    """
    done = after(raised, steps)
    if done is None or "div" not in present(done):
        return ""
    return f"{steps} | fast-math{{fns=div}}"


__all__ = ["after", "counting_on_multiples", "wherever", "with_fast_quotients"]
