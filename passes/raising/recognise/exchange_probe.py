"""Running a region of one block by itself on exact values, and reading off what it did."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import product

import numpy as np

from ktc.ir.analysis.accumulators import BETTER
from ktc.ir.analysis.defs import expand
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import add, cast, evaluate, i32, mul, simplify
from ktc.ir.interp import run
from ktc.ir.interp.domains.realmath import plain_name
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Barrier,
    Body,
    Call,
    Const,
    Decl,
    Expr,
    HwIndex,
    Knob,
    Load,
    Stmt,
    Store,
    Sym,
    Var,
    WarpOp,
    accessed_type,
    fresh,
)  # fmt: skip
from ktc.ir.types import I32, Array, Ptr, Scalar, Vec, scalar_of
from ktc.ir.walk import all_exprs, assigned, declared, stmt_exprs, used, used_in, walk, walk_expr
from ktc.ir.workload.input_data import numpy_dtype
from ktc.passes.raising.normalise.privates import prologue
from ktc.passes.shared.running.rescaled import POWERS

from .coordinates import AXES
from .exchange_meanings import Among, Earliest, Fixed, Meaning, Picked, Prefix, Reduced, Trial
from .exchange_trials import MOST_PAIRED, infinite, tied, trials, wide, with_known
from .statement_kinds import expr_with_hardware, threads_in
from .tie_orders import order_of

FUEL = 20_000
MOST_FIXED = 64
Cell = tuple[Sym, tuple[Expr, ...]]


class Probe:
    """Runs regions for one launch and team."""

    def __init__(
        self,
        launch: Launch,
        team: frozenset[str],
        numbers: Mapping[str, int],
        shared: Mapping[Sym, Stmt],
        others: Collection[Sym] = (),
        *,
        sized: bool = True,
    ) -> None:
        self.shared, self.numbers, self.sized = shared, numbers, sized
        self.others = others  # the numbers of threads on the axes beside the team's
        self.starts: Mapping[Sym, Expr] = {}  # what variables made before a region begin with
        sizes = [evaluate(n, numbers) for n in launch.block]
        self.block = tuple(int(n or 1) if a in team else 1 for a, n in zip(AXES, sizes))
        self.threads = int(np.prod(self.block))
        bytes_ = evaluate(launch.dynamic_shared, numbers) if launch.dynamic_shared is not None else None
        self.dynamic = int(bytes_) if bytes_ is not None else 16 * max(self.threads, 1)
        self._of_threads: dict[Expr, np.ndarray | None] = {}

    def thread(self) -> Expr:
        """The number of a thread in the block."""
        out: Expr = i32(0)
        stride = 1
        for a, n in zip(AXES, self.block):
            if n > 1:
                out = add(out, mul(cast(HwIndex("thread", a), I32), i32(stride)))
            stride *= n
        return out

    def by_thread(self, v: Sym, again: Mapping[Sym, Decl]) -> np.ndarray | None:
        """The integer ``v`` of each thread of the team, where it depends on the thread alone."""
        e = expand(Var(v), {s: d.init for s, d in again.items() if d.init is not None})
        if e not in self._of_threads:  # asked again for each end that a region may have
            each = self._threads() if threads_in(e) else ()
            found = [evaluate(simplify(expr_with_hardware(e, at)), {}) for at in each]
            self._of_threads[e] = np.array(found, np.int64) if found and None not in found else None
        return self._of_threads[e]

    def _threads(self) -> Iterator[dict[HwIndex, Expr]]:
        """The numbers of each thread of the team on its axes."""
        for t in range(self.threads):
            env: dict[HwIndex, Expr] = {}
            left = t
            for a, n in zip(AXES, self.block):
                env[HwIndex("thread", a)] = i32(left % n)
                left //= n
            yield env

    def injective(self, index: Sequence[Expr]) -> bool:
        """Whether each thread of the team has its own value of ``index``, wherever the team stands."""
        if not any(threads_in(e) for e in index) or any(used(e) - set(self.others) for e in index):
            return False
        here = {s.name: 0 for s in self.others}
        seen = set()
        for thread in self._threads():
            at = tuple(evaluate(simplify(expr_with_hardware(e, thread)), here) for e in index)
            if None in at or at in seen:
                return False
            seen.add(at)
        return True

    def summarise(
        self,
        region: Body,
        inputs: list[Sym],
        values: list[Sym],
        cells: list[Cell],
        again: Mapping[Sym, Decl],
        known: Mapping[Sym, np.ndarray] | None = None,
        by_all: Collection[Cell] = (),
    ) -> dict[object, Meaning] | None:
        """For each output (a variable, or a shared element), what it is in terms of the inputs, of which those of
        ``known`` are the same whatever the others are.

        What all threads share is looked up at the first one, which often is the only one that goes on to use it; of
        the elements ``by_all``, each thread has its own and uses it.

        None when the region cannot be run, or some output is none of the meanings of the table, which are those of
        numbers: vectors have none.
        """
        types = [s.type for s in (*inputs, *values)] + [accessed_type(b, len(index)) for b, index in cells]
        if self.threads < 2 or not all(isinstance(t, Scalar) for t in types):
            return None
        kernel = self._kernel(region, inputs, values, cells, again)
        if kernel is None:
            return None
        own = {p.sym.name: self.numbers.get(p.sym.name, 0) for p in kernel.params if isinstance(p.sym.type, Scalar)}
        wanted: list[tuple[object, Scalar, str]] = [(v, scalar_of(v.type), f"out_{v.id}") for v in values]
        wanted += [(c, scalar_of(c[0].type), f"cell_{k}") for k, c in enumerate(cells)]
        left = dict.fromkeys(range(len(wanted)))
        found: dict[object, Meaning] = {}
        for trial in trials(inputs, self.threads, _powers(region), known):
            outputs = self._run(kernel, trial, wanted)
            if outputs is None:
                return None
            for k in list(left):
                key, t, name = wanted[k]
                meaning = next((m for m in trial.meanings if m.holds(trial, t, outputs[name])), None)
                if isinstance(meaning, Picked) and not self._holds(
                    kernel, with_known(tied(inputs, self.threads, meaning.value), known), wanted, {key: meaning}
                ):
                    meaning = None  # one of many tied threads is the right one by chance
                if key in by_all and not isinstance(meaning, Prefix) and len(np.unique(outputs[name])) > 1:
                    return None
                if meaning is not None:
                    found[key] = meaning.within(t)
                    del left[k]
            if not left:
                break
        found |= self._among_first(kernel, next(trials(inputs, self.threads, (), known)), wanted, left, found)
        left = {k: None for k in left if wanted[k][0] not in found}
        if self.sized:
            found |= self._by_order(kernel, with_known(tied(inputs, self.threads), known, own), wanted, left)
        left = {k: None for k in left if wanted[k][0] not in found}
        lowest, highest = (with_known(infinite(inputs, self.threads, sign), known, own) for sign in (-1, 1))
        if not self._limited(kernel, lowest, highest, wanted, found):
            return None
        widely = with_known(wide(inputs, self.threads, any(m.algebraic for m in found.values())), known, own)
        if not self._holds(kernel, widely, wanted, found):
            return None
        return (
            self._fixed(kernel, next(trials(inputs, self.threads, (), known)), wanted, list(left), found)
            if left
            else found
        )

    def _holds(self, kernel: Kernel, trial: Trial, wanted: list, found: Mapping[object, Meaning]) -> bool:
        """Whether what was found on small positive numbers holds in ``trial``: for values all over their types."""
        exact = [(found[key], t, name) for key, t, name in wanted if key in found and not found[key].algebraic]
        outputs = self._run(kernel, trial, wanted) if exact else {}
        return outputs is not None and all(m.holds(trial, t, outputs[name]) for m, t, name in exact)

    def _among_first(
        self, kernel: Kernel, trial: Trial, wanted: list, left: Collection[int], found: Mapping[object, Meaning]
    ) -> dict[object, Meaning]:
        """What combines the inputs of as many of the first threads as an integer says that all threads share: of what
        is ``left``, and of what was ``found`` to combine those of all, as it does where that integer is large.

        ``trial``: the one that tells reductions apart.
        """
        out: dict[object, Meaning] = {}
        reductions = [m for m in trial.meanings if isinstance(m, Reduced)]
        shared = [p.sym for p in kernel.params if isinstance(p.sym.type, Scalar) and p.sym.type.is_int]
        for count in shared:
            among = Among(self.thread(), count)
            runs = []
            for few in sorted({1, self.threads // 2 + 1, self.threads - 1}):
                fewer = dataclasses.replace(trial, numbers={count.name: few})
                outputs = self._run(kernel, fewer, wanted)
                if outputs is None:
                    break
                runs.append((fewer, outputs))
            else:
                for k, (key, t, name) in enumerate(wanted):
                    whole = found.get(key)
                    if key in out or (whole is not None and not isinstance(whole, Reduced)) or not (whole or k in left):
                        continue
                    if whole is not None and all(whole.holds(fewer, t, got[name]) for fewer, got in runs):
                        continue
                    for m in (dataclasses.replace(m, among=among) for m in reductions):
                        if all(m.holds(fewer, t, got[name]) for fewer, got in runs):
                            out[key] = m.within(t)
                            break
        return out

    def _by_order(self, kernel: Kernel, trial: Trial, wanted: list, left: Collection[int]) -> dict[object, Meaning]:
        """What is ``left`` that comes from the thread with an extreme, where the order in which threads are compared
        tells ties apart. In ``trial`` each thread brings integers of its own."""
        out: dict[object, Meaning] = {}
        brought = list(trial.data) if len(trial.data) <= MOST_PAIRED else []
        asked = [wanted[k] for k in left if wanted[k][1].is_int]
        for (key, t, name), v, op, index in product(asked, brought, BETTER, brought):
            if key not in out and v is not index and t == scalar_of(index.type):
                order = order_of(self.threads, partial(self._winner, kernel, trial, wanted, name, v, op, index))
                if order is not None:
                    out[key] = Earliest(v, op, index, order, self.thread())
        return out

    def _winner(
        self, kernel: Kernel, trial: Trial, wanted: list, name: str, v: Sym, op: str, index: Sym, tied: np.ndarray
    ) -> int | None:
        """The thread whose ``index`` comes out as ``name`` where those of ``tied`` bring the best ``v``."""
        values = np.where(tied, 2, 1) if op == "max" else np.where(tied, 1, 2)
        outputs = self._run(kernel, dataclasses.replace(trial, data={**trial.data, v: values}), wanted)
        at = None if outputs is None else np.flatnonzero(trial.data[index] == int(outputs[name][0]))
        return int(at[0]) if at is not None and at.size == 1 and tied[at[0]] else None

    def _limited(
        self, kernel: Kernel, lowest: Trial, highest: Trial, wanted: list, found: dict[object, Meaning]
    ) -> bool:
        """Notes of maxima and minima in ``found`` which number of the region they do not go beyond, whatever threads
        bring in; whether each is known. What all share is looked up at the first thread."""
        for op, sign, trial in (("max", -1, lowest), ("min", 1, highest)):
            asked = {k: m for k, m in found.items() if isinstance(m, Reduced) and m.is_float_extreme and m.op == op}
            outputs = self._run(kernel, trial, wanted) if asked else {}
            if outputs is None:
                return False
            for key, t, name in wanted:
                if key in asked and (least := float(outputs[name][0])) != sign * np.inf:
                    first = next((c for c in _numbers(kernel.body, t) if _stored(c) == least), None)
                    if first is None:
                        return False
                    found[key] = dataclasses.replace(asked[key], first=first)
        return True

    def _fixed(self, kernel: Kernel, trial: Trial, wanted: list, left: list[int], found: dict) -> dict | None:
        """What is still unexplained as numbers that do not depend on the data; None if something is no such number."""
        for key, t, _ in (wanted[k] for k in left):
            if not isinstance(key, Sym) or not t.is_int or not _from_numbers(key, kernel.body):
                return None
        other = Trial("int", {s: x[::-1] * 3 + 5 for s, x in trial.data.items()}, ())
        a, b = self._run(kernel, trial, wanted), self._run(kernel, other, wanted)
        if a is None or b is None:
            return None
        for k in left:
            key, _, name = wanted[k]
            values = {int(v) for v in (*a[name], *b[name])}
            if len(values) != 1 or not 0 <= min(values) <= MOST_FIXED:
                return None
            found[key] = Fixed(values.pop())
        return found

    def _run(self, kernel: Kernel, trial: Trial, wanted: list) -> dict[str, np.ndarray] | None:
        """Every output in the trial's domain, a value a thread."""
        numbers = {**self.numbers, **trial.numbers}
        data: dict = {f"in_{s.id}": x.astype(numpy_dtype(scalar_of(s.type).name)) for s, x in trial.data.items()}
        for p in kernel.params:
            if p.sym.name not in data:
                scalar = isinstance(p.sym.type, Scalar)
                data[p.sym.name] = (
                    numbers.get(p.sym.name, 0)
                    if scalar
                    else np.zeros(self.threads, numpy_dtype(scalar_of(p.sym.type).name))
                )
        try:
            result = run(kernel, data, domain=trial.domain, sanitize=False, fuel=FUEL)
        except KtcError:
            return None
        if not result.ended:
            return None
        return {name: result.outputs[name].reshape(-1) for _, _, name in wanted}

    def _kernel(self, region: Body, inputs, values, cells, again) -> Kernel | None:
        params: list[Param] = []
        front: list[Stmt] = []
        tid = self.thread()
        arrays = {b for b in used_in(region) | {c[0] for c in cells} if isinstance(b.type, Array)}
        for b in arrays:
            if b in self.shared:
                front.append(self.shared[b])
            elif not any(isinstance(s, Alloc) and s.sym == b for s in walk(region)):
                return None
        for p in inputs:
            t = scalar_of(p.type)
            buffer = fresh(f"in_{p.id}", Ptr(t, const=True))
            params.append(Param(buffer))
            front.append(Decl(p, Load(buffer, (tid,))))
        inner = set(declared(region)) | set(inputs)
        outside = {v for v in assigned(region) if v not in inner and isinstance(v.type, Scalar | Vec)}
        bare = [Decl(v, self.starts.get(v)) for v in sorted(outside, key=lambda v: v.id)]
        body = (*front, *bare, *region)
        tail: list[Stmt] = []
        for v in values:
            buffer = fresh(f"out_{v.id}", Ptr(scalar_of(v.type)))
            params.append(Param(buffer))
            tail.append(Store(buffer, (tid,), Var(v)))
        tail.append(Barrier())
        for k, (b, index) in enumerate(cells):
            buffer = fresh(f"cell_{k}", Ptr(scalar_of(b.type)))
            params.append(Param(buffer))
            tail.append(Store(buffer, (tid,), Load(b, index)))
        lead = prologue((*body, *tail), dict(again))
        whole = (*lead, *body, *tail)
        have = {s.sym for s in walk(whole) if isinstance(s, Decl)}
        for v in sorted(used_in(whole), key=lambda s: s.id):
            if isinstance(v.type, Scalar) and v not in have and not _loop_variable(whole, v):
                if not v.type.is_int:
                    return None
                params.append(Param(v))
        if any(isinstance(x, Knob) for e in _everywhere(whole) for x in walk_expr(e)):
            return None  # what holds for one value of an open knob need not for another
        one = i32(1)
        launch = Launch((one, one, one), tuple(i32(n) for n in self.block), Const(self.dynamic, I32))  # type: ignore[arg-type]
        return Kernel("region", tuple(params), launch, whole)


def _everywhere(body: Body) -> Iterator[Expr]:
    """The expressions of ``body``, and the extents of the arrays it declares."""
    yield from all_exprs(body)
    for s in walk(body):
        if isinstance(s, Alloc | Decl) and isinstance(s.sym.type, Array):
            yield from s.sym.type.shape


def _numbers(body: Body, t: Scalar) -> Iterator[Const]:
    """The numbers of type ``t`` that ``body`` has, and those with the other sign."""
    for x in all_exprs(body):
        if isinstance(x, Const) and x.ty == t:
            yield x
            yield Const(-float(x.value), t)


def _stored(c: Const) -> float:
    """The value of ``c`` as its type holds it."""
    return float(np.float64(float(c.value)).astype(numpy_dtype(c.ty.name)))


def _powers(region: Body) -> list[str]:
    """The exponential functions that ``region`` calls."""
    called = (x.fn for e in all_exprs(region) for x in walk_expr(e) if isinstance(x, Call))
    return [fn for fn in dict.fromkeys(called) if plain_name(fn) in POWERS]


def _from_numbers(v: Sym, body: Body) -> bool:
    """Whether everything that is put into ``v`` is arithmetic on other variables."""
    made = [e for s in walk(body) if isinstance(s, Decl | Assign) and s.sym == v for e in stmt_exprs(s)]
    return not any(isinstance(x, Load | WarpOp) for e in made for x in walk_expr(e))


def _loop_variable(body: Body, v: Sym) -> bool:
    return any(getattr(s, "var", None) == v for s in walk(body))
