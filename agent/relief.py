"""Which passes address which limiter: planners try these first on a kernel whose limiter is known.

The rows say what each change does to the unit that limits, as the vendors' guides for optimising kernels do (NVIDIA's
CUDA C++ Best Practices Guide; the advice of Nsight Compute's guided analysis).
"""

from __future__ import annotations

from collections.abc import Sequence

RELIEF: dict[str, tuple[str, ...]] = {
    "memory": ("cache-hints", "row-cache", "online-reduction", "stage-shared", "temporal-block", "fuse",
               "forward-stores", "defer-store", "block-swizzle", "promote"),
    "cache": ("stage-shared", "register-tile", "row-cache", "block-swizzle", "tile", "unroll-and-jam"),
    "load-store": ("vectorize", "distribute", "join-stores", "register-window", "register-tile", "stage-rows",
                   "stage-shared", "stage-store", "row-cache", "unroll-and-jam", "interchange"),
    "latency": ("unroll", "vectorize", "coarsen", "multi-buffer", "async-copy", "prefetch", "rows-mapping",
                "launch-bounds"),
    "shared": ("register-tile", "unroll-and-jam", "panel-shared", "tensorize"),
    "bank conflicts": ("swizzle-shared", "pad-shared", "panel-shared"),
    "issue": ("vectorize", "tensorize", "licm", "cse", "strength-reduce", "narrow-index", "simplify", "split-edges",
              "unroll", "fast-math"),
    "special": ("fast-math", "tabulate", "licm"),
    "matrix": ("multi-buffer", "async-copy", "prefetch"),
    "atomics": ("reduce-atomics", "privatize-atomics", "warp-aggregate"),
    "barriers": ("rows-mapping", "reduce-strategy", "multi-buffer", "coarsen"),
    "divergence": ("if-convert", "split-edges", "unclip", "peel", "unmask", "skip-masked", "rows-mapping"),
    "spills": ("launch-bounds", "row-cache"),
    "parallelism": (
        "split-reduction", "split-softmax", "distribute", "map", "parallelize", "delinearise", "rows-mapping",
    ),
    "launch": ("fuse", "temporal-block"),
}  # fmt: skip
"""Limiter -> passes that address it, first what does so most. Those of what nothing explains are not known."""

FEW = 2
"""Limiters that are looked at: the strongest."""


def urgency(name: str, limiters: Sequence[str]) -> int:
    """The place of the pass ``name`` in what addresses the strongest of ``limiters``; behind all of it where it
    addresses none. For sorting: equal ones keep their order."""
    addressing = [p for limiter in limiters[:FEW] for p in RELIEF.get(limiter, ())]
    return addressing.index(name) if name in addressing else len(addressing)
