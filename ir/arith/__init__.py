"""Reasoning about integers: what they lie in, what divides them, how they compare, and proofs of it.

Forms of an expression, where it is an index: ``polynomial``, ``affine``; of a loop: ``counted_loops``,
``loop_extents``; ways to look through conversions: ``integer_casts``. ``interval``, ``congruence``: two ways to enclose
a number; ``algebra``: one walk over expressions for each of them; ``trust``: what a proof may rest on;
``kernel_facts``: what is known of a kernel's integers; ``simplification``: what follows for its expressions.
Verification does not use this: one mistake may not fool a pass and its judge alike.
"""

from .congruence import Congruence
from .interval import ANY, EMPTY, NATURAL, Interval
from .kernel_facts import Facts, facts_of
from .simplification import simplified
from .trust import ANY_LAUNCH, LOWERED, LOWERING, REWRITES, Trust

__all__ = [
    "ANY",
    "ANY_LAUNCH",
    "EMPTY",
    "LOWERED",
    "LOWERING",
    "NATURAL",
    "REWRITES",
    "Congruence",
    "Facts",
    "Interval",
    "Trust",
    "facts_of",
    "simplified",
]
