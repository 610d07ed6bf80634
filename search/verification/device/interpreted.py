"""What the interpreter says of a set of inputs, kept for all configurations of which it would say the same.

What a device checks takes milliseconds, and what the interpreter adds to it up to seconds. A run depends on a kernel's
statements, its launch and its inputs: on nothing that is said to the compiler alone, such as the number of blocks for
which registers have to suffice. Configurations of a template that differ there have one answer
(:func:`as_computed`). What the original computes in real arithmetic is one for all candidates.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.support.memo import by_identity
from ktc.ir.text import print_kernel
from ktc.ir.workload import Workload
from ktc.search.verification.floats.any_order import any_order
from ktc.search.verification.instances.instances import instances

KEPT = 64
"""Kernels, and answers of each kind, that are kept: a template's configurations follow each other."""

Values = Mapping[str, np.ndarray]

_kernels: OrderedDict[str, Kernel] = OrderedDict()


def as_computed(kernel: Kernel) -> Kernel:
    """``kernel``, or one that was given before and computes the same by the same statements: for those that ask by
    identity."""
    launch = kernel.launch and replace(kernel.launch, min_blocks=None)
    bare = kernel.with_(launch=launch, knobs=(), trace=())
    named = set(re.findall(r"\$(\w+)", print_kernel(bare)))
    text = print_kernel(bare.with_(knobs=tuple(k for k in kernel.knobs if k.name in named)))
    found = _kernels.setdefault(text, kernel)
    _kernels.move_to_end(text)
    while len(_kernels) > KEPT:
        _kernels.popitem(last=False)
    return found


@dataclass(frozen=True)
class Drawn:
    """What a workload makes one set of inputs from."""

    sizes: tuple[tuple[str, int], ...]
    variant: str | None
    seed: int
    exact: bool

    def inputs(self, workload: Workload) -> dict[str, Any]:
        return dict(workload.make_inputs(dict(self.sizes), self.variant, self.seed, self.exact))


def awkward_sizes(original: Kernel, candidate: Kernel, workload: Workload, count: int) -> list[Mapping[str, int]]:
    """So many small awkward sets of sizes that both run for (:mod:`ktc.search.verification.instances.instances`)."""
    return list(_awkward_sizes(original, candidate, workload, count))


@by_identity(KEPT, subjects=3)
def _awkward_sizes(
    original: Kernel, candidate: Kernel, workload: Workload, count: int
) -> tuple[Mapping[str, int], ...]:
    return tuple(i.sizes for i in instances(original, candidate, workload, count=count))


@by_identity(KEPT, subjects=2)
def exact_values(original: Kernel, workload: Workload, drawn: Drawn) -> Values:
    """What ``original`` computes in double, by output; {} where the interpreter cannot follow it, or not to its end."""
    try:
        done = run(original, drawn.inputs(workload), domain="float64", sanitize=False)
    except KtcError:
        return {}
    return dict(done.outputs) if done.ended else {}


@by_identity(KEPT, subjects=2)
def error_bounds(candidate: Kernel, workload: Workload, drawn: Drawn) -> Values:
    """How far rounding may take ``candidate``, by output; {} as for :func:`exact_values`."""
    inputs = drawn.inputs(workload)
    try:
        done = run(candidate, inputs, domain="bound", sanitize=False)
        bounds = {n: np.imag(v) for n, v in done.outputs.items()} | any_order(candidate, inputs)
    except KtcError:
        return {}
    return bounds if done.ended else {}


__all__ = ["Drawn", "as_computed", "awkward_sizes", "error_bounds", "exact_values"]
