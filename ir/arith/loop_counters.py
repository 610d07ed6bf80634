"""What the counters of loops lie in and leave when they are divided, in their conditions and steps too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktc.ir.nodes import Binary, Expr, For, Var
from ktc.ir.types import Scalar, Type
from ktc.ir.walk import used

from .congruence import BINARY as CONGRUENT
from .congruence import Congruence
from .enclosures import INDEX_LIMIT, type_interval
from .integer_casts import keeping_low_bits
from .interval import NATURAL, Interval
from .interval_operators import BINARY, UNARY
from .known_symbols import Loop, counted_up

if TYPE_CHECKING:
    from .kernel_facts import Facts


def counter_interval(loop: Loop, facts: Facts) -> Interval:
    """All values of the counter of ``loop``, the one that ends it among them."""
    whole = type_interval(loop.var.type)
    if not isinstance(loop, For):
        low, high = facts.interval(loop.lo).low, facts.interval(loop.hi).high
        inside = whole.meet(Interval(low, None if high is None else high - 1))
        return whole if inside.is_empty else inside
    first, step = facts.interval(loop.init), counted_up(loop)
    if step is None:
        return whole
    op, by = step[0], facts.interval(step[1])
    if op in ("/", ">>"):
        halves = first.never_negative and (by.positive or (op == ">>" and by.never_negative))
        return Interval(0, first.high) if halves else whole
    inside = facts.under(loop.cond).interval(Var(loop.var))
    following = BINARY[op](inside, by) if op in ("+", "-", "*") else None
    if following is None or not (following.within(whole) or _never_wraps(loop.var.type, facts)):
        return whole
    ever = first.join(following).meet(whole)
    if (op == "+" and by.never_negative) or (op == "*" and by.positive and first.never_negative):
        return ever.meet(Interval(first.low, None))
    if (op == "-" and by.never_negative) or (op == "+" and by.high is not None and by.high <= 0):
        return ever.meet(Interval(None, first.high))
    return whole.meet(NATURAL) if op == "*" and by.never_negative and first.never_negative else whole


def counter_residue(loop: Loop, facts: Facts) -> Congruence:
    """What all values of the counter of ``loop`` have in common when they are divided."""
    step = counted_up(loop) if isinstance(loop, For) else None
    if not isinstance(loop, For) or step is None or not rises(loop, facts):
        return Congruence()
    first = facts.congruence(loop.init)
    return first.join(CONGRUENT["+"](first, facts.congruence(step[1])))


def rises(loop: For, facts: Facts) -> bool:
    """Whether no round of ``loop`` has a smaller counter than the first: steps are not negative, and none wraps."""
    return _moves(loop, facts, up=True)


def falls(loop: For, facts: Facts) -> bool:
    """Whether no round of ``loop`` has a larger counter than the first: steps are not positive, and none wraps."""
    return _moves(loop, facts, up=False)


def _moves(loop: For, facts: Facts, up: bool) -> bool:
    own = counted_up(loop)
    step = own or _converted_step(loop)
    if step is None or step[0] not in ("+", "-"):
        return False
    op, by = step[0], facts.interval(step[1])
    if not (by if (op == "+") == up else UNARY["-"](by)).never_negative:
        return False
    if facts.trust.counters and by.within(INDEX_LIMIT):
        return True
    if own is not None and _never_wraps(loop.var.type, facts):
        return True
    following = BINARY[op](facts.under(loop.cond).interval(Var(loop.var)), by)
    return following.within(type_interval(loop.var.type))


def _converted_step(loop: For) -> tuple[str, Expr] | None:
    """The step of ``i = (int)((unsigned)i + blockDim.x)``: modulo the size of i, that of ``i += blockDim.x``."""
    bits = loop.var.type.bits if isinstance(loop.var.type, Scalar) else 0
    step = keeping_low_bits(loop.step, bits)
    if isinstance(step, Binary) and step.op in ("+", "-") and keeping_low_bits(step.a, bits) == Var(loop.var):
        return (step.op, step.b) if loop.var not in used(step.b) else None
    return None


def _never_wraps(t: Type, facts: Facts) -> bool:
    return facts.trust.no_overflow and isinstance(t, Scalar) and t.is_signed and t.bits >= 32


__all__ = ["counter_interval", "counter_residue", "falls", "rises"]
