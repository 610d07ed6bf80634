"""Running a region of one block by itself on exact values, and reading off what it did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import add, cast, evaluate, fold_node, i32, mul, simplify
from ktc.ir.inputs import numpy_dtype
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import (
    Alloc,
    Barrier,
    Binary,
    Body,
    Const,
    Decl,
    Expr,
    HwIndex,
    If,
    Load,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.types import I32, Array, Ptr, Scalar, scalar_of
from ktc.ir.walk import used, used_in, walk

from .coordinates import AXES
from .privates import prologue
from .shape import expr_with_hardware, threads_in

FUEL = 20_000
FLOAT_OPS = ("+", "max", "min", "*")
INT_OPS = (*FLOAT_OPS, "|", "&", "^")
FOLDS: dict[str, Callable[[np.ndarray], np.integer]] = {
    "+": np.sum,
    "*": np.prod,
    "min": np.min,
    "max": np.max,
    "&": np.bitwise_and.reduce,
    "|": np.bitwise_or.reduce,
    "^": np.bitwise_xor.reduce,
}
Cell = tuple[Sym, tuple[Expr, ...]]
Fit = tuple[Sym, str]


class Probe:
    """Runs regions for one launch and team."""

    def __init__(
        self, launch: Launch, team: frozenset[str], numbers: Mapping[str, int], shared: Mapping[Sym, Stmt]
    ) -> None:
        self.shared, self.numbers = shared, numbers
        sizes = [evaluate(n, numbers) for n in launch.block]
        self.block = tuple(int(n or 1) if a in team else 1 for a, n in zip(AXES, sizes))
        self.threads = int(np.prod(self.block))
        bytes_ = evaluate(launch.dynamic_shared, numbers) if launch.dynamic_shared is not None else None
        self.dynamic = int(bytes_) if bytes_ is not None else 16 * max(self.threads, 1)

    def thread(self) -> Expr:
        """The number of a thread in the block."""
        out: Expr = i32(0)
        stride = 1
        for a, n in zip(AXES, self.block):
            if n > 1:
                out = add(out, mul(cast(HwIndex("thread", a), I32), i32(stride)))
            stride *= n
        return out

    def injective(self, index: Sequence[Expr]) -> bool:
        """Whether each thread of the team has its own value of ``index``."""
        if not any(threads_in(e) for e in index) or any(used(e) for e in index):
            return False
        seen = set()
        for t in range(self.threads):
            env: dict[HwIndex, Expr] = {}
            left = t
            for a, n in zip(AXES, self.block):
                env[HwIndex("thread", a)] = i32(left % n)
                left //= n
            at = tuple(evaluate(simplify(expr_with_hardware(e, env)), {}) for e in index)
            if None in at or at in seen:
                return False
            seen.add(at)
        return True

    def summarise(
        self, region: Body, inputs: list[Sym], values: list[Sym], cells: list[Cell], again: Mapping[Sym, Decl]
    ) -> dict[object, Fit] | None:
        """For each output (a variable, or a shared element), the input and operator it is the reduction by.

        None when the region cannot be run, or some output is something else.
        """
        if self.threads < 2:
            return None
        kernel, data = self._kernel(region, inputs, values, cells, again)
        if kernel is None:
            return None
        try:
            result = run(kernel, data, domain="int", sanitize=False, fuel=FUEL)
        except KtcError:
            return None
        if any(f.kind == "fuel" for f in result.findings):
            return None
        out: dict[object, Fit] = {}
        wanted: list[tuple[object, Scalar, str]] = [(v, scalar_of(v.type), f"out_{v.id}") for v in values]
        wanted += [(c, scalar_of(c[0].type), f"cell_{k}") for k, c in enumerate(cells)]
        for key, t, name in wanted:
            got = result.outputs[name].reshape(-1)[0]
            fit = next((f for f in self._meanings(inputs, t) if self._is(f, data, got)), None)
            if fit is None:
                return None
            out[key] = fit
        return out

    @staticmethod
    def _meanings(inputs: list[Sym], t: Scalar) -> list[Fit]:
        return [
            (p, op)
            for p in inputs
            if scalar_of(p.type).is_float == t.is_float
            for op in (FLOAT_OPS if t.is_float else INT_OPS)
        ]

    def _is(self, fit: Fit, data: Mapping[str, np.ndarray], got: np.generic) -> bool:
        source, op = fit
        x = data[f"in_{source.id}"].astype(np.int64)
        want = FOLDS[op](x)
        if scalar_of(source.type).is_float:
            return bool(want == np.int64(got))
        return bool(want.astype(got.dtype) == got)

    def _kernel(self, region: Body, inputs, values, cells, again) -> tuple[Kernel | None, dict]:
        rng = np.random.default_rng(11)
        data: dict = {}
        params: list[Param] = []
        front: list[Stmt] = []
        tid = self.thread()
        arrays = {b for b in used_in(region) | {c[0] for c in cells} if isinstance(b.type, Array)}
        for b in arrays:
            if b in self.shared:
                front.append(self.shared[b])
            elif not any(isinstance(s, Alloc) and s.sym == b for s in walk(region)):
                return None, {}
        for p in inputs:
            t = scalar_of(p.type)
            buffer = fresh(f"in_{p.id}", Ptr(t, const=True))
            params.append(Param(buffer))
            values_in = rng.permutation(max(1000, self.threads))[: self.threads] + 1
            data[buffer.name] = values_in.astype(numpy_dtype(t.name))
            front.append(Decl(p, Load(buffer, (tid,))))
        bare = [Decl(v) for v in values if v not in set(inputs) and not _declares(region, v)]
        body = (*front, *bare, *region)
        lead = prologue(body, dict(again))
        tail: list[Stmt] = []
        for v in values:
            buffer = fresh(f"out_{v.id}", Ptr(scalar_of(v.type)))
            params.append(Param(buffer))
            data[buffer.name] = np.zeros(self.threads, numpy_dtype(scalar_of(v.type).name))
            tail.append(Store(buffer, (tid,), Var(v)))
        tail.append(Barrier())
        first: list[Stmt] = []
        for k, (b, index) in enumerate(cells):
            buffer = fresh(f"cell_{k}", Ptr(scalar_of(b.type)))
            params.append(Param(buffer))
            data[buffer.name] = np.zeros(1, numpy_dtype(scalar_of(b.type).name))
            first.append(Store(buffer, (i32(0),), Load(b, index)))
        if first:
            tail.append(If(fold_node(Binary("==", tid, i32(0))), tuple(first)))
        whole = (*lead, *body, *tail)
        have = {s.sym for s in walk(whole) if isinstance(s, Decl)}
        for v in sorted(used_in(whole), key=lambda s: s.id):
            if isinstance(v.type, Scalar) and v not in have and not _loop_variable(whole, v):
                if not v.type.is_int:
                    return None, {}
                params.append(Param(v))
                data[v.name] = self.numbers.get(v.name, 0)
        one = i32(1)
        launch = Launch((one, one, one), tuple(i32(n) for n in self.block), Const(self.dynamic, I32))  # type: ignore[arg-type]
        return Kernel("region", tuple(params), launch, whole), data


def _declares(region: Body, v: Sym) -> bool:
    return any(isinstance(s, Decl) and s.sym == v for s in region)


def _loop_variable(body: Body, v: Sym) -> bool:
    return any(getattr(s, "var", None) == v for s in walk(body))
