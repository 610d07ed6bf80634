"""How to evaluate each expression of a kernel in one domain: worked out once, run for every instance.

A plan is a function of the evaluator and the lanes, with those of its operands in it. Literals, knobs, and what is
computed of those alone are values. Everything that depends on memory or on a run's state is the evaluator's business:
the patterns that a run gave to its floats are a run's, what arithmetic means is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ktc.ir.interp.domains.domain import Domain, Unsupported
from ktc.ir.interp.domains.integers import ARITHMETIC, COMPARE, SCALAR
from ktc.ir.interp.memory.lane_reshape import reshape_bits
from ktc.ir.nodes import COMPARISONS, LOGICAL, AddrOf, Binary, Cast, Const, Expr, Knob, Load, Var, WarpOp
from ktc.ir.types import Ptr, Vec, scalar_of
from ktc.ir.walk import walk_expr

from .frames import Active, Frame
from .record_lanes import picked

if TYPE_CHECKING:
    from .expressions import Evaluator

Run = Callable[["Evaluator", Frame, Active], Any]
Operator = Callable[[Any, Any], Any]
Method = Callable[["Evaluator", Any, Frame, Active], Any]

QUOTIENTS = ("/", ">>")
CUTS = ("%", "&", *QUOTIENTS)
"""Operators on integers that may leave what they are given as it is, and those that may leave nothing of it."""


@dataclass
class Plans:
    """``methods`` evaluate what has no plan of its own here; everything is kept by ``id``, with the expression, so that
    no other gets it."""

    domain: Domain
    knobs: Mapping[str, int]
    methods: Mapping[type, Method]
    made: dict[int, tuple[Expr, Run]] = field(default_factory=dict)
    values: dict[int, Any] = field(default_factory=dict)
    lazy: dict[int, tuple[Expr, bool]] = field(default_factory=dict)

    def of(self, e: Expr) -> Run:
        known = self.made.get(id(e))
        if known is None:
            known = self.made[id(e)] = e, _PLANNED.get(type(e), _by_method)(self, e)
        return known[1]

    def must_be_lazy(self, e: Expr) -> bool:
        """Whether evaluating ``e`` for a lane that skips it could matter."""
        known = self.lazy.get(id(e))
        if known is None:
            matters = any(isinstance(x, Load | WarpOp) or _may_divide_by_zero(x) for x in walk_expr(e))
            known = self.lazy[id(e)] = e, matters
        return known[1]

    def value(self, e: Expr, v: Any) -> Run:
        """The plan of something that is the same everywhere."""
        self.values[id(e)] = v
        return lambda ev, frame, act: v


def _by_method(plans: Plans, e: Expr) -> Run:
    method = plans.methods.get(type(e))

    def refuse(ev: Evaluator, frame: Frame, act: Active) -> Any:
        raise Unsupported(f"the interpreter cannot evaluate {type(e).__name__}", ev.state.where())

    return refuse if method is None else lambda ev, frame, act: method(ev, e, frame, act)


def _const(plans: Plans, e: Const) -> Run:
    return plans.value(e, plans.domain.const(e.value, e.ty))


def _knob(plans: Plans, e: Knob) -> Run:
    return plans.value(e, np.int32(plans.knobs[e.name]))


def _var(plans: Plans, e: Var) -> Run:
    sym = e.sym

    def run(ev: Evaluator, frame: Frame, act: Active) -> Any:
        v = frame.values.get(sym)
        if v is None or (frame.undefined and sym in frame.undefined):
            return ev.variable(e, frame, act)
        return v if act is None or v.ndim == 0 or (v.ndim == 2 and len(v) == 1) else picked(v, act)

    return run


def _binary(plans: Plans, e: Binary) -> Run:
    if e.op in LOGICAL:
        return lambda ev, frame, act: ev.logical(e, frame, act)
    apply, a, b = _operator(plans.domain, e), plans.of(e.a), plans.of(e.b)
    right = plans.values.get(id(e.b))
    divides = e.op in ("/", "%") and not scalar_of(e.a.type).is_float and not (right is not None and np.all(right != 0))
    if divides:
        return lambda ev, frame, act: ev.quotient(e, apply, a(ev, frame, act), b(ev, frame, act), frame, act)
    if right is not None and id(e.a) in plans.values:
        return plans.value(e, apply(plans.values[id(e.a)], right))
    if e.op in CUTS and not scalar_of(e.a.type).is_float:
        return lambda ev, frame, act: ev.cut(e, apply, a(ev, frame, act), b(ev, frame, act))
    scalar = None if scalar_of(e.a.type).is_float else SCALAR.get(e.op)
    if right is not None:
        return _with_constant(apply, scalar, a, right)
    if scalar is None:
        return lambda ev, frame, act: apply(a(ev, frame, act), b(ev, frame, act))

    def run(ev: Evaluator, frame: Frame, act: Active) -> Any:
        x, y = a(ev, frame, act), b(ev, frame, act)
        return apply(x, y) if type(x) is np.ndarray or type(y) is np.ndarray else scalar(x, y)

    return run


def _with_constant(apply: Operator, scalar: Operator | None, a: Run, right: Any) -> Run:
    constant = np.asarray(right)  # quicker in every operator than a scalar of numpy's
    if scalar is None:
        return lambda ev, frame, act: apply(a(ev, frame, act), constant)

    def run(ev: Evaluator, frame: Frame, act: Active) -> Any:
        x = a(ev, frame, act)
        return apply(x, constant) if type(x) is np.ndarray else scalar(x, right)

    return run


def _operator(domain: Domain, e: Binary) -> Operator:
    op, t = e.op, scalar_of(e.a.type)
    if not t.is_float:
        return (COMPARE if op in COMPARISONS else ARITHMETIC)[op]
    meaning = domain.compare if op in COMPARISONS else domain.arith
    return lambda a, b: meaning(op, a, b, t)


def _cast(plans: Plans, e: Cast) -> Run:
    x, domain = plans.of(e.x), plans.domain
    if isinstance(e.to, Ptr) or isinstance(e.x, AddrOf):
        return x  # an address keeps all its bits
    src, dst = scalar_of(e.x.type), scalar_of(e.to)
    if e.style == "bit":
        if src.bits == dst.bits and isinstance(e.to, Vec) == isinstance(e.x.type, Vec):
            return lambda ev, frame, act: ev.state.domain.bitcast(x(ev, frame, act), src, dst)
        wide = isinstance(e.to, Vec)
        return lambda ev, frame, act: reshape_bits(ev.state.domain, x(ev, frame, act), src, dst, wide)
    if id(e.x) in plans.values:
        return plans.value(e, domain.cast(plans.values[id(e.x)], src, dst))
    if src.kind == "bool" and dst.kind != "bool":
        return lambda ev, frame, act: domain.cast(ev.state.saw(e.x, x(ev, frame, act)), src, dst)
    return x if src == dst else lambda ev, frame, act: domain.cast(x(ev, frame, act), src, dst)


_PLANNED: dict[type[Expr], Callable[[Plans, Any], Run]] = {
    Binary: _binary, Cast: _cast, Const: _const, Knob: _knob, Var: _var,
}  # fmt: skip


def _may_divide_by_zero(e: Expr) -> bool:
    return isinstance(e, Binary) and e.op in "/%" and not isinstance(e.b, Const) and not scalar_of(e.a.type).is_float


__all__ = ["Method", "Plans", "Run"]
