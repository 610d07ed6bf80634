"""The exact check that ends every raise: source and guess run in the interpreter on small synthetic launches.

Inputs are invented from the signature: small integers that respect the assumptions, buffers of random exact values.
Equality is bit for bit in the integer and finite-field domains, where reassociation is invisible and a wrong term is
not.
"""

from __future__ import annotations

import random

import numpy as np
from ktc.ir.fold import evaluate
from ktc.ir.inputs import numpy_dtype
from ktc.ir.interp import equivalent
from ktc.ir.kernel import Kernel, Param
from ktc.ir.types import Ptr, Scalar, scalar_of

BUFFER_ELEMENTS = 1 << 15
MAX_THREADS = 1 << 13
SIZES = (1, 2, 3, 5, 7, 8, 12, 16, 17, 32, 33, 48, 64, 100, 130, 257, 300)


def differs(source: Kernel, guess: Kernel, *, instances: int = 4, seed: int = 7) -> str:
    """'' if the two agree on every instance, else what differs. 'no instance' if none could be made."""
    sets = invented_arguments(source, instances, seed)
    if not sets:
        return "no small launch satisfies the kernel's assumptions"
    mismatch = equivalent(source, guess, sets)
    return "" if mismatch is None else str(mismatch)


def invented_arguments(kernel: Kernel, instances: int, seed: int) -> list[dict[str, np.ndarray | int | float]]:
    """Argument sets with small sizes whose launch stays below ``MAX_THREADS`` threads and whose assumptions hold."""
    rng = random.Random(seed)
    out: list[dict[str, np.ndarray | int | float]] = []
    for _ in range(200 * instances):
        if len(out) == instances:
            break
        scalars = {p.sym.name: _scalar(p, rng) for p in kernel.params if isinstance(p.sym.type, Scalar)}
        if _acceptable(kernel, scalars):
            out.append({**scalars, **_buffers(kernel, seed + len(out))})
    return out


def _scalar(p: Param, rng: random.Random) -> int | float:
    t = p.sym.type
    assert isinstance(t, Scalar)
    if t.is_float:
        return rng.choice((1.0, 2.0, 3.0))
    lo, hi = p.range
    step = max(1, p.divisible_by)
    choices = [s * step for s in SIZES if (lo is None or s * step >= lo) and (hi is None or s * step <= hi)]
    if t.kind == "bool":
        return rng.randrange(2)
    return rng.choice(choices) if choices else (lo or step)


def _acceptable(kernel: Kernel, scalars: dict) -> bool:
    env = {**scalars, **kernel.knob_values}
    launch = kernel.launch
    assert launch is not None
    total = 1
    for e in (*launch.grid, *launch.block):
        n = evaluate(e, env)
        if n is None or n < 1:
            return False
        total *= n
    volume = 1
    for v in scalars.values():
        volume *= v if isinstance(v, int) else 1
    if total > MAX_THREADS or volume > BUFFER_ELEMENTS // 2:
        return False
    return all(evaluate(a.expr, env) in (True, None) for a in kernel.assumptions)


def _buffers(kernel: Kernel, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    out = {}
    for p in kernel.params:
        if isinstance(p.sym.type, Ptr):
            values = rng.integers(1, 6, BUFFER_ELEMENTS)
            out[p.sym.name] = values.astype(numpy_dtype(scalar_of(p.sym.type).name))
    return out
