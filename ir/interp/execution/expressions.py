"""Evaluation of expressions for all active lanes at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from zlib import crc32

import numpy as np

from ktc.ir.interp.domains.domain import Domain, Unsupported, domain_named
from ktc.ir.interp.domains.integers import from_float
from ktc.ir.interp.domains.realmath import BOOLEAN
from ktc.ir.interp.memory.access import access, own_places, read_only, read_own
from ktc.ir.interp.memory.textures import is_texture_call, texture_call
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Binary,
    Call,
    Const,
    Expr,
    HwIndex,
    Load,
    Select,
    Str,
    Sym,
    Unary,
    Var,
    VecGet,
    VecMake,
    WarpOp,
)  # fmt: skip
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Scalar, Vec, scalar_of

from .evaluation_plans import QUOTIENTS, Method, Plans
from .frames import Active, Frame, is_uniform, spread
from .record_lanes import either, put
from .run_state import State
from .true_counts import all_true, any_true, count_true
from .warp_collectives import warp_op


class Evaluator:
    """``ev(e, frame, act)``: the value of ``e``, uniform or one entry per active lane."""

    def __init__(self, state: State, kernel: Kernel) -> None:
        self.state = state
        self._plans = _plans_of(kernel, domain_named(state.domain.name))
        self._made = self._plans.made

    def __call__(self, e: Expr, frame: Frame, act: Active) -> Any:
        known = self._made.get(id(e))
        return (known[1] if known is not None else self._plans.of(e))(self, frame, act)

    def truth(self, e: Expr, frame: Frame, act: Active) -> Any:
        """``e`` as a condition: bool, uniform or per lane."""
        v = self(e, frame, act)
        if v.dtype != np.bool_:
            t = scalar_of(e.type)
            v = self.state.domain.compare("!=", v, self.state.domain.const(0, t), t)
        return self.state.saw(e, v)

    # ------------------------------------------------------------------------------------------------- leaves

    def _hw(self, e: HwIndex, frame: Frame, act: Active):
        v = self.state.hardware.get((e.level, e.axis))
        if v is None:
            raise Unsupported("a hardware index in parallel form", self.state.where())
        if v.ndim == 0:
            return v
        if frame is not self.state.threads:
            return v[self.state.by_thread(frame, act)[1]]
        return v if act is None else v[act]

    def variable(self, e: Var, frame: Frame, act: Active):
        """A variable of an outer frame, or one that some lanes have not assigned."""
        if (known := frame.uniform(e.sym)) is not None:
            return known
        try:
            if frame.fixed and e.sym not in frame.values and (v := frame.outer(e.sym)) is not None:
                return v if act is None or is_uniform(v) else v[act]
            owner, lanes = frame.find(e.sym, act)
        except KeyError:
            raise Unsupported(f"'{e.sym.name}' has no value here", self.state.where()) from None
        mask = owner.undefined.get(e.sym) if owner.undefined else None
        if mask is not None and count_true(mask if lanes is None else mask[lanes]):
            self.state.doubt(scalar_of(e.type))
            v = self._indeterminate(e, owner, mask)
        else:
            v = owner.values[e.sym]
        return v if lanes is None or is_uniform(v) else v[lanes]

    def _indeterminate(self, e: Var, owner: Frame, mask: np.ndarray):
        """The variable, with another value in every second lane that never assigned it: neighbours share none, and nor
        do variables, unless their names are alike."""
        t, seed, first = scalar_of(e.type), self.state.seed, crc32(e.sym.name.encode())
        here, beside = (self.state.domain.poison(t, 1, seed, x, first)[0] for x in (False, True))
        odd = np.arange(owner.n) % 2 == 1
        value = np.array(spread(owner.values[e.sym], owner.n))
        value[mask & odd], value[mask & ~odd] = beside, here
        return value

    def _is_null(self, pointer: Sym, frame: Frame, act: Active):
        """Whether a pointer parameter was given no buffer, or a pointer variable holds 0."""
        if pointer in self.state.buffers:
            return np.bool_(self.state.buffers[pointer].null)
        try:
            return frame.read(pointer, act) == 0
        except KeyError:
            return np.bool_(True)

    # ---------------------------------------------------------------------------------------------- operators

    def _unary(self, e: Unary, frame: Frame, act: Active):
        if e.op == "!":
            return np.logical_not(self.truth(e.x, frame, act))
        x = self(e.x, frame, act)
        if e.op == "-":
            return self.state.domain.negate(x, scalar_of(e.x.type))
        return x if e.op == "+" else np.invert(x)

    def logical(self, e: Binary, frame: Frame, act: Active):
        """``&&`` and ``||``: the second operand for those lanes that need it, where evaluating it could matter."""
        a = self.truth(e.a, frame, act)
        short = e.op == "||"  # the value of `a` that decides
        if a.ndim == 0:
            return np.bool_(short) if bool(a) == short else self.truth(e.b, frame, act)
        undecided = ~a if short else a
        if not self._plans.must_be_lazy(e.b):
            b = self.truth(e.b, frame, act)
            return a | b if short else a & b
        out = a.copy()
        if any_true(undecided):
            sub = frame.lanes(act)[undecided]
            out[undecided] = self.truth(e.b, frame, sub)
        return out

    def _select(self, e: Select, frame: Frame, act: Active):
        cond = self.truth(e.cond, frame, act)
        if cond.ndim == 0:
            return self(e.a if cond else e.b, frame, act)
        if not (self._plans.must_be_lazy(e.a) or self._plans.must_be_lazy(e.b)):
            a, b = self(e.a, frame, act), self(e.b, frame, act)
            return either(cond[:, None] if a.ndim == 2 or b.ndim == 2 else cond, a, b)
        lanes, out = frame.lanes(act), None
        for arm, chosen in ((e.a, cond), (e.b, ~cond)):
            if many := int(count_true(chosen)):
                v = spread(self(arm, frame, lanes[chosen]), many)
                if out is None:
                    out = np.zeros((len(cond), *v.shape[1:]), v.dtype)
                put(out, chosen, v)
        return out if out is not None else self(e.a, frame, act)

    def quotient(self, e: Binary, apply: Callable, a: Any, b: Any, frame: Frame, act: Active):
        """An integer's quotient or remainder."""
        if self.state.sanitize and any_true(b == 0):
            self.state.report("division-by-zero", "an integer is divided by zero", frame, act, np.asarray(b == 0))
        return self.cut(e, apply, a, b)

    def cut(self, e: Binary, apply: Callable, a: Any, b: Any):
        """A remainder or a mask: does it leave what it is taken of as it is? A quotient: does it leave nothing?"""
        v = apply(a, b)
        if not self.state.has_seen_all(e):
            self.state.saw(e, v == (0 if e.op in QUOTIENTS else a))
        return v

    # ------------------------------------------------------------------------------------- vectors and memory

    def _load(self, e: Load, frame: Frame, act: Active):
        index = [self(i, frame, act) for i in e.index]
        if isinstance(e.buffer.type, Vec) and e.buffer not in self.state.buffers:
            return self.lane_of(self.variable(Var(e.buffer), frame, act), index[0], frame, act)
        if e.width == 1 and not isinstance(e.type, Vec):
            if (found := read_only(self.state, e.buffer, index)) is not None:
                return found
            if (own := own_places(self.state, e.buffer, frame, act, index)) is not None:
                return read_own(self.state, own)
        width = self.state.int_of(e.width)
        a = access(self.state, e.buffer, frame, act, index, width)
        value = a.read()
        if self.state.footprints is not None and a.buffer.owner is None:
            self.state.footprints.note(e, a.buffer.size, a.pos)
        is_one = not a.is_vector and (e.width != 1 or isinstance(e.type, Vec))  # a vector of one
        return np.reshape(value, (-1, 1)) if is_one else value

    def lane_of(self, vector, lane, frame: Frame, act: Active):
        """One lane of a vector value."""
        width = vector.shape[1]
        inside = (lane >= 0) & (lane < width)
        if not all_true(inside):
            self.state.report("out-of-bounds", f"lane outside a vector of {width}", frame, act, ~inside)
            lane = np.where(inside, lane, 0)
        if lane.ndim == 0:
            column = vector[:, int(lane)]
            return column[0] if len(vector) == 1 else column
        return np.take_along_axis(spread(vector, frame.count(act)), np.asarray(lane).astype(np.int64)[:, None], 1)[:, 0]

    def _vec_get(self, e: VecGet, frame: Frame, act: Active):
        return self.lane_of(self(e.x, frame, act), self(e.lane, frame, act), frame, act)

    def _vec_make(self, e: VecMake, frame: Frame, act: Active):
        lanes = [self(a, frame, act) for a in e.args]
        width = self.state.int_of(e.ty.n)
        if len(lanes) == 1 and width > 1:  # one value for every lane
            lanes = lanes * width
        if all(v.ndim == 0 for v in lanes):
            return np.array(lanes, lanes[0].dtype)[None, :]
        n = frame.count(act)
        return np.stack([spread(v, n) for v in lanes], axis=1)

    def _address(self, e: AddrOf, frame: Frame, act: Active):
        """An address in global memory, as a number."""
        buffer = self.state.buffers.get(e.buffer)
        if buffer is None or buffer.base is None:
            raise Unsupported(f"where '{e.buffer.name}' lies in memory is not known", self.state.where())
        return buffer.address([self(i, frame, act) for i in e.index])

    # ------------------------------------------------------------------------------------------------- calls

    def _call(self, e: Call, frame: Frame, act: Active):
        if is_texture_call(e.fn):
            return texture_call(self, e, frame, act)
        if e.fn == "printf":
            for a in e.args[1:]:  # for what reading them may find
                if not isinstance(a, Str | AddrOf):
                    self(a, frame, act)
            return np.int32(0)
        if e.fn == "trap":
            self.state.report("trap", "the kernel traps", frame, act, np.array(True))
            return np.int32(0)
        if e.fn == "null_access":
            self.state.report("null-pointer", "memory is accessed through a null pointer", frame, act, np.array(True))
            return np.int32(0)
        if e.fn == "is_null" and isinstance(e.args[0], AddrOf):
            return self._is_null(e.args[0].buffer, frame, act)
        if not e.args or any(not isinstance(a.type, Scalar | Vec) for a in e.args):
            raise Unsupported(f"no meaning for the function '{e.fn}'", self.state.where())
        args = [self(a, frame, act) for a in e.args]
        t = scalar_of(e.args[0].type)
        out = self.state.domain.call(e.fn, args, t)
        if e.fn in ("min", "max") and len(args) == 2 and (t.is_int or any(isinstance(x, Const) for x in e.args)):
            self.state.saw_choice(e, out, *args)
        returned = scalar_of(e.ty)
        if returned.is_int and t.is_float and e.fn not in BOOLEAN:
            return from_float(out, returned, t)
        if out.dtype == np.bool_ and e.fn in BOOLEAN and returned.kind != "bool":
            return self.state.domain.cast(out, Scalar("bool", 8), returned)
        return out

    def _warp(self, e: WarpOp, frame: Frame, act: Active):
        return warp_op(self, e, frame, act)


_METHODS: dict[type, Method] = {
    HwIndex: Evaluator._hw,
    AddrOf: Evaluator._address,
    Unary: Evaluator._unary,
    Select: Evaluator._select,
    Load: Evaluator._load,
    VecMake: Evaluator._vec_make,
    VecGet: Evaluator._vec_get,
    Call: Evaluator._call,
    WarpOp: Evaluator._warp,
}


MOST_PLANNED, MOST_SHARED = 1 << 14, 32
"""Expressions whose plans are shared, and for how many domains and knob values."""

_shared: OrderedDict[tuple[str, tuple[tuple[str, int], ...]], Plans] = OrderedDict()


@by_identity(64, subjects=2)
def _plans_of(kernel: Kernel, domain: Domain) -> Plans:
    """Those of ``kernel``, and of others that were run lately: a kernel that is made of another one has most of its
    expressions, and what an expression means depends on domain and knobs alone."""
    key = domain.name, tuple(sorted(kernel.knob_values.items()))
    plans = _shared.get(key)
    if plans is None or len(plans.made) > MOST_PLANNED:
        plans = _shared[key] = Plans(domain, kernel.knob_values, _METHODS)
        if len(_shared) > MOST_SHARED:
            _shared.popitem(last=False)
    return plans
