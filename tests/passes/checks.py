"""What every pass's tests do: apply pipeline text, replay it, and compare with the original in the exact domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ktc.ir.interp import RunResult, mismatch, run
from ktc.ir.kernel import Kernel, bind
from ktc.ir.support.memo import by_identity
from ktc.ir.text import canonical, parse_kernel, print_kernel
from ktc.ir.types import Ptr, scalar_of
from ktc.passes.core.base import Refused
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise

DTYPES = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "u32": np.uint32}


def applied(kernel: Kernel, script: str) -> Kernel:
    """``kernel`` after ``script``, which must not refuse; applying its trace again gives the same kernel."""
    done = apply_script(kernel, parse_script(script))
    assert done.refused is None, done.refused
    again = apply_script(kernel, parse_script(" | ".join(done.kernel.trace))).kernel
    assert canonical(again) == canonical(done.kernel)
    assert canonical(parse_kernel(print_kernel(done.kernel))) == canonical(done.kernel)
    return done.kernel


def refused(kernel: Kernel, script: str) -> Refused:
    """The refusal of ``script``; the kernel comes back as the very same object."""
    done = apply_script(kernel, parse_script(script))
    assert done.refused is not None, print_kernel(done.kernel)
    assert done.kernel is kernel
    return done.refused


def body_of(kernel: Kernel) -> str:
    """The printed kernel without its header and trace."""
    lines = print_kernel(kernel.with_(trace=())).splitlines()
    return "\n".join(line for line in lines if not line.startswith("kernel")) + "\n"


def arguments(kernel: Kernel, elements: int, **scalars: float) -> dict[str, object]:
    """Every buffer filled with ``elements`` small distinct values, and the scalars."""
    rng = np.random.default_rng(0)
    out: dict[str, object] = dict(scalars)
    for p in kernel.params:
        if isinstance(p.sym.type, Ptr):
            values = rng.integers(-8, 8, elements)
            out[p.sym.name] = values.astype(DTYPES[scalar_of(p.sym.type).name])
    return out


@by_identity(256)
def meaning(kernel: Kernel, elements: int, sizes: frozenset[tuple[str, int]], domain: str) -> RunResult:
    """What a kernel leaves on these sizes: many are compared with one."""
    return run(kernel, arguments(kernel, elements, **dict(sizes)), domain=domain)


def differs(
    before: Kernel,
    after: Kernel,
    sizes: Sequence[Mapping[str, int]],
    elements: int = 600,
    knobs: Mapping[str, int] | None = None,
    lower: bool = True,
) -> object:
    """The first mismatch between two kernels on the given sizes, None if there is none.

    ``after`` is run as it is, with its knobs bound, and again lowered to threads.
    """
    bound = bind(after, knobs or {})
    for now in (bound, materialise(bound)) if lower else (bound,):
        for number, size in enumerate(sizes):
            args = arguments(before, elements, **size)
            for domain in ("field", "int"):
                first = meaning(before, elements, frozenset(size.items()), domain)
                found = mismatch(first, now, args, domain, number)
                if found is not None:
                    return found
    return None
