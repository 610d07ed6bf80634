"""Helpers of reductions in several partial results, as source text for generated numba modules."""

from __future__ import annotations

LANES = 32
"""Partial results of one accumulator. As many doubles fill the vector registers of a core, and a loop of fewer would be
unrolled by LLVM before it is made into vector instructions."""

TREES = {"+": "sum", "*": "product", "min": "least", "max": "largest"}
"""Which helper combines the partial results of an operation: ``NAME_of_lanes``."""

_TREE = '''
@njit(**OPTIONS)
def {name}_of_lanes(part):
    """{what}: one half with the other, until one is left."""
    n = LANES
    while n > 1:
        n //= 2
        for lane in range(n):
            part[lane] = {combined}
    return part[0]
'''

_COMBINED = {
    "+": ("", "The sum", "part[lane] + part[lane + n]"),
    "*": ("", "The product", "part[lane] * part[lane + n]"),
    "min": ("fmin", "The least", "fmin(part[lane], part[lane + n])"),
    "max": ("fmax", "The largest", "fmax(part[lane], part[lane + n])"),
}
"""operation: (the helper it needs, what it gives, one step)"""


def _tree(op: str) -> tuple[tuple[str, ...], str]:
    helper, what, combined = _COMBINED[op]
    needs = ("whole_lanes", *([helper] if helper else []))
    return needs, _TREE.format(name=TREES[op], what=what, combined=combined)


LANE_HELPERS: dict[str, tuple[tuple[str, ...], str]] = {
    "whole_lanes": ((), f'''
LANES = {LANES}


@njit(**OPTIONS)
def whole_lanes(n):
    """How many of n iterations fill all partial results; none of a few, which are as fast one after the other."""
    return n // LANES * LANES if n >= 2 * LANES else 0
'''),
} | {f"{name}_of_lanes": _tree(op) for op, name in TREES.items()}  # fmt: skip
"""name: (helpers it needs, source)"""
