"""The operations of ``Atomic`` beyond the arithmetic ones: which value stays where two are compared.

Compare-and-swap loops in the wild compute a maximum of floats in several ways that differ on NaN and on zeros. Each
has a name of its own here, so that what is printed does what was read:

======================= ==============================================================================================
``max min``             as ``fmaxf``: of a number and NaN the number; -0.0 is less than +0.0
``gt ge lt le``         the new value where ``new > old`` (...), else the old one: NaN never enters, and never leaves
``gtu geu ltu leu``     the same, or where one of them is NaN: NaN enters, and whatever comes next replaces it
``nanmax nanmin``       the larger (smaller) one, NaN where either is; of equal ones the old one stays
``smax smin umax umin`` what is larger (smaller) as a signed or unsigned integer of the same bits: what ``atomicMax``
                        on ``(int*)p`` does to a buffer of floats, or on ``(unsigned*)p`` to one of signed integers
======================= ==============================================================================================

The names of comparisons are PTX's (``setp``: the ``u`` is "or unordered"). ``cas`` compares bits, of floats, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ktc.ir.support.frozen import frozen


@frozen
class Taken:
    """When the new value replaces the old one.

    ``op``: the comparison ``new op old``; ``negated``: where it does not hold; ``sticky``: and the old one is not NaN.
    """

    op: str
    negated: bool = False
    sticky: bool = False

    def text(self, new: str, old: str, words: tuple[str, str] = ("!", "&&")) -> str:
        """The condition in a language whose *not* and *and* are ``words``."""
        no, both = words
        compared = f"{no}({new} {self.op} {old})" if self.negated else f"{new} {self.op} {old}"
        return f"{old} == {old} {both} {compared}" if self.sticky else compared

    def holds(self, compare: Callable[[str, Any, Any], Any], new: Any, old: Any) -> Any:
        """The condition by ``compare``, which gives arrays of bool."""
        found = compare(self.op, new, old)
        found = ~found if self.negated else found
        return found & compare("==", old, old) if self.sticky else found


TAKEN: dict[str, Taken] = {
    "gt": Taken(">"), "ge": Taken(">="), "lt": Taken("<"), "le": Taken("<="),
    "gtu": Taken("<=", negated=True), "geu": Taken("<", negated=True),
    "ltu": Taken(">=", negated=True), "leu": Taken(">", negated=True),
    "nanmax": Taken("<=", negated=True, sticky=True), "nanmin": Taken(">=", negated=True, sticky=True),
}  # fmt: skip
"""The operations that compare floats and take one of them."""

BIT_ORDERS = {"smax": (True, ">"), "smin": (True, "<"), "umax": (False, ">"), "umin": (False, "<")}
"""The operations that compare bits: whether as signed integers, and how the new ones must compare with the old ones."""

ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
"""The operations that an operator of the IR computes."""

ATOMIC_OPS = frozenset({*ARITHMETIC, *TAKEN, *BIT_ORDERS, "min", "max", "exch", "cas", "inc", "dec", "load"})

COMBINED_BY = {
    "add": "+", "mul": "*", "min": "min", "max": "max", "and": "&", "or": "|", "xor": "^",
    "gt": "max", "ge": "max", "lt": "min", "le": "min",
}  # fmt: skip
"""The reduction that several updates of a place may first be combined by: its result, applied once, leaves there what
one of the orders of the updates would. (``gtu`` and its like have none: what comes after NaN decides what stays.)"""

ATOMIC_OF = {"+": "add", "*": "mul", "min": "min", "max": "max", "&": "and", "|": "or", "^": "xor"}
"""The atomic that combines as an operator of a reduction does."""

ANY_ORDER = {
    "sub": "atomic add",
    **{op: f"atomic {op}" for op in (*COMBINED_BY, *BIT_ORDERS, "nanmax", "nanmin")},
}  # fmt: skip
"""Updates that leave the same in any order, those of one name among each other: an exchange leaves the last value, a
counter with a limit wraps at its own. (Of equal zeros ``gt`` keeps the first, and floats' sums round.)"""


__all__ = [
    "ANY_ORDER",
    "ARITHMETIC",
    "ATOMIC_OF",
    "ATOMIC_OPS",
    "BIT_ORDERS",
    "COMBINED_BY",
    "TAKEN",
    "Taken",
]
