"""Steps applied to a kernel whose buffers are taken not to overlap: the staging of a source, put back."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ktc.ir.kernel import Kernel
from ktc.ir.types import Ptr
from ktc.passes.core.base import Refused
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_step


def after_steps(kernel: Kernel | None, steps: Sequence[str]) -> Kernel | None:
    """``kernel`` after ``steps``, its buffers taken not to overlap, as raising takes them; None if one is refused."""
    if kernel is None:
        return None
    params = kernel.params
    now = kernel.with_(params=tuple(
        dataclasses.replace(p, noalias=True) if isinstance(p.sym.type, Ptr) else p for p in params))  # fmt: skip
    for step in parse_script(" | ".join(steps)).steps if steps else ():
        result = apply_step(now, step)
        if isinstance(result, Refused):
            return None
        now = result.kernel
    return now.with_(params=tuple(dataclasses.replace(p, noalias=q.noalias) for p, q in zip(now.params, params)))
