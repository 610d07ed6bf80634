"""The operations of ``Atomic`` beyond the arithmetic ones: which value stays where two are compared.

Compare-and-swap loops in the wild compute a maximum of floats in several ways that differ on NaN and on zeros. Each
has a name of its own here, so that what is printed does what was read:

======================= ==============================================================================================
``max min``             as ``fmaxf``: of a number and NaN the number; -0.0 is less than +0.0
``gt ge lt le``         the new value where ``new > old`` (...), else the old one: NaN never enters, and never leaves
``gtu geu ltu leu``     the same, or where one of them is NaN: NaN enters, and whatever comes next replaces it
``gts ges lts les``     the same, or where the new one is NaN: NaN enters, and stays
``gtn gen ltn len``     the same, or where the old one is NaN: NaN never enters, and any number replaces it
``smax smin umax umin`` what is larger (smaller) as a signed or unsigned integer of the same bits: what ``atomicMax``
                        on ``(int*)p`` does to a buffer of floats, or on ``(unsigned*)p`` to one of signed integers
======================= ==============================================================================================

The names of comparisons are PTX's (``setp``: the ``u`` is "or unordered"); ``s`` is for sticky, ``n`` for number. Of
equal zeros ``gt`` and its like keep the old one, whatever its sign, and ``ge`` takes the new one; to ``max`` -0.0 is
less, in CUDA and in the interpreter (C leaves it open). ``cas`` compares bits, of floats, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ktc.ir.support.frozen import frozen


@frozen
class Taken:
    """When the new value replaces the old one.

    ``op``: the comparison ``new op old``; ``negated``: where it does not hold; ``number``: and this one, ``old`` or
    ``new``, is not NaN.
    """

    op: str
    negated: bool = False
    number: str = ""

    def text(self, new: str, old: str, words: tuple[str, str] = ("!", "&&")) -> str:
        """The condition in a language whose *not* and *and* are ``words``."""
        no, both = words
        compared = f"{no}({new} {self.op} {old})" if self.negated else f"{new} {self.op} {old}"
        one = {"old": old, "new": new}.get(self.number)
        return f"{one} == {one} {both} {compared}" if one else compared

    def holds(self, compare: Callable[[str, Any, Any], Any], new: Any, old: Any) -> Any:
        """The condition by ``compare``, which gives arrays of bool."""
        found = compare(self.op, new, old)
        found = ~found if self.negated else found
        one = {"old": old, "new": new}.get(self.number)
        return found if one is None else found & compare("==", one, one)


_OPPOSITE = {"gt": ("<=", ">"), "ge": ("<", ">="), "lt": (">=", "<"), "le": (">", "<=")}

TAKEN: dict[str, Taken] = {
    **{name: Taken(op) for name, (_, op) in _OPPOSITE.items()},
    **{
        name + suffix: Taken(op, negated=True, number=number)
        for suffix, number in (("u", ""), ("s", "old"), ("n", "new"))
        for name, (op, _) in _OPPOSITE.items()
    },
}
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
"""The reduction that several updates of a place may first be combined by: its result, applied once, leaves what one of
the orders of the updates would. ``gtu`` and its like have none: what comes after NaN decides what stays. Nor have
those that a NaN among several values matters to: reductions pass over it."""

ATOMIC_OF = {"+": "add", "*": "mul", "min": "min", "max": "max", "&": "and", "|": "or", "^": "xor"}
"""The atomic that combines as an operator of a reduction does."""

ANY_ORDER = {
    "sub": "atomic add",
    **{op: f"atomic {op}" for op in (*COMBINED_BY, *BIT_ORDERS, *(op for op in TAKEN if op[-1] in "sn"))},
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
