"""One thread followed with numbers, to where its integer arithmetic is wrong: what intervals fear, shown to happen.

Intervals say what may leave its type; that they are too wide is no fault of the kernel. Here arguments are numbers at
the ends of their ranges, a thread is one of a few (the first, the last, those at the ends of guards), and only what is
known to happen is followed: a branch whose condition is known, the first or the last round of a loop that is known to
have it. Signed arithmetic that leaves its type is a fault where it happens; unsigned arithmetic, and conversions, are
modular, and a fault only where an address is not what unbounded integers give.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ktc.ir.fields import children
from ktc.ir.fold import INT_FUNCS, INT_OPS, evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    COMPARISONS,
    Assign,
    Atomic,
    Binary,
    Body,
    Break,
    Call,
    Cast,
    Const,
    Continue,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Knob,
    Load,
    Return,
    Select,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    While,
)  # fmt: skip
from ktc.ir.sequences import launch_kernels
from ktc.ir.types import Ptr, Scalar, scalar_of
from ktc.ir.walk import assigned, stmt_exprs, walk
from ktc.ir.workload import Workload
from ktc.ir.workload.scenario_facts import integers_of, runnable

from .formulas import increment
from .intervals import Interval, elements_of, is_whole

GRID, BLOCK = (2**31 - 1, 65535, 65535), 1024
"""The largest launch of any device."""

MOST = 512
"""Threads that are followed for one question."""


@dataclass(frozen=True)
class Witness:
    """Where a thread's arithmetic goes wrong, and for which arguments."""

    expr: Expr
    stmt: Stmt
    value: int
    where: str


@dataclass(frozen=True)
class _Number:
    """What the machine has, and what unbounded integers give."""

    machine: int
    exact: int


class _Wrong(Exception):
    def __init__(self, expr: Expr, value: int) -> None:
        super().__init__(expr, value)
        self.expr, self.value = expr, value


def witness(kernels: tuple[Kernel, ...], workload: Workload, names: Mapping[str, Interval]) -> Witness | None:
    """A thread of the last of ``kernels`` whose arithmetic is wrong for arguments within ``names`` for which all of
    them run; None if none is found."""
    kernel, tried = kernels[-1], 0
    written = assigned(kernel.body)
    for sizes, args in _arguments(workload, names):
        if not all(runnable(k, workload, sizes, args) for k in kernels):
            continue
        places = ((k, at) for k in launch_kernels(kernel) for at in _places(k, args))
        for (launched, at), extreme in itertools.product(places, ((1, False), (1, True), (0, False))):
            elements = {
                p.sym: names[known][extreme[0]]
                for p in kernel.params
                if (known := elements_of(p.sym.name)) in names and p.sym not in written
            }
            found = _Thread(launched, args, at, elements, last=extreme[1]).follow_all()
            if found is not None:
                given = " ".join(f"{n}={v}" for n, v in args.items())
                block, thread = (tuple(at[level, axis] for axis in "xyz") for level in ("block", "thread"))
                return Witness(found[0].expr, found[1], found[0].value, f"{given}, block {block}, thread {thread}")
            tried += 1
            if tried >= MOST:
                return None
    return None


def _arguments(
    workload: Workload, names: Mapping[str, Interval]
) -> Iterator[tuple[Mapping[str, int], Mapping[str, int]]]:
    """Sizes and integer arguments within ``names``: those of the scenarios, and each size at an end of its range."""
    ends: dict[str, tuple[int, ...]] = {}
    for a in workload.args:
        if a.role == "scalar" and isinstance(a.value, str) and a.value.isidentifier() and a.name in names:
            low, high = names[a.name]
            ends[a.value] = (high, low) if high != low else (low,)
    for s in workload.scenarios[:1]:
        usual = {n: int(v) for n, v in s.sizes.items()}
        for values in itertools.islice(itertools.product(*ends.values()), 32):
            sizes = {**usual, **dict(zip(ends, values))}
            args = integers_of(workload, sizes)
            if all(names[n][0] <= v <= names[n][1] for n, v in args.items() if n in names):
                yield sizes, args


Place = Mapping[tuple[str, str], int]


def _places(kernel: Kernel, args: Mapping[str, int]) -> Iterator[Place]:
    """Hardware indices of telling threads: the ends of the launch, and where an argument's count of them ends."""
    if kernel.launch is None:
        return
    env = kernel.environment(args)
    grid, block = ([evaluate(e, env) for e in extents] for extents in (kernel.launch.grid, kernel.launch.block))
    if None in grid or None in block or any(not 0 < g <= m for g, m in zip(grid, GRID)):  # type: ignore[operator]
        return
    sizes = [(int(b), int(t)) for b, t in zip(grid, block)]  # type: ignore[arg-type]
    if any(t < 1 for _, t in sizes) or sizes[0][1] * sizes[1][1] * sizes[2][1] > BLOCK:
        return
    ends = [dict.fromkeys([(b - 1, t - 1), *_last(args, b, t), (b - 1, 0), (0, t - 1), (0, 0)]) for b, t in sizes]
    extents = {
        (level, axis): n[k] for axis, n in zip("xyz", sizes) for k, level in enumerate(("grid_dim", "block_dim"))
    }
    for chosen in itertools.product(*ends):
        at = {(level, axis): c[k] for axis, c in zip("xyz", chosen) for k, level in enumerate(("block", "thread"))}
        yield {**extents, **at}


def _last(args: Mapping[str, int], blocks: int, threads: int) -> Iterator[tuple[int, int]]:
    """Along one axis, the threads that are the last of as many as an argument says."""
    for v in args.values():
        if 0 < v <= blocks * threads:
            yield divmod(v - 1, threads)
        if 0 < v <= blocks:
            yield v - 1, threads - 1


class _Thread:
    """One thread; ``last``: the last round of each loop instead of the first."""

    def __init__(
        self, kernel: Kernel, args: Mapping[str, int], at: Place, elements: Mapping[Sym, int], last: bool
    ) -> None:
        self.kernel, self.at, self.elements, self.last = kernel, at, elements, last
        self.known: dict[Sym, _Number] = {}
        for p in kernel.params:
            if isinstance(p.sym.type, Scalar) and p.sym.type.is_int and p.sym.name in args:
                self.known[p.sym] = _both(args[p.sym.name])
        self.stmt: Stmt | None = None

    def follow_all(self) -> tuple[_Wrong, Stmt] | None:
        try:
            self.follow(self.kernel.body)
        except _Wrong as found:
            assert self.stmt is not None
            return found, self.stmt
        return None

    def follow(self, body: Body) -> bool:
        """Whether the thread is known to come to the end of ``body``."""
        return all(self._step(s) for s in body)

    def _step(self, s: Stmt) -> bool:
        self.stmt = s
        if isinstance(s, Return | Break | Continue):
            return False
        if isinstance(s, Decl | Assign):
            value = s.init if isinstance(s, Decl) else s.value
            self._give(s.sym, self.of(value) if value is not None else None)
            return True
        if isinstance(s, If):
            return self._branch(s)
        if isinstance(s, For | While):
            return self._loop(s)
        if isinstance(s, Store | Atomic):
            for i in s.index:
                self._address(i)
        for e in stmt_exprs(s):
            self.of(e)
        self._forget(s)
        return not any(isinstance(x, Return) for x in walk((s,)))

    def _branch(self, s: If) -> bool:
        taken = self.of(s.cond)
        if taken is not None:
            return self.follow(s.then if taken.machine else s.orelse)
        self._forget(s)
        return not _leaves(s)

    def _loop(self, s: For | While) -> bool:
        leaves = any(isinstance(x, Return) for x in walk(s.body))
        if isinstance(s, For) and is_whole(s.var.type):
            first = self.of(s.init)
            self._give(s.var, first)
            enters = self.of(s.cond)
            if enters is not None and enters.machine:
                if self.last and not _leaves(s):
                    self._forget(s)
                    self._give(s.var, self._last_round(s, first))
                self.follow(s.body)
        self._forget(s)
        return not leaves

    def _last_round(self, s: For, first: _Number | None) -> _Number | None:
        """The variable's last value, of a loop whose condition fails once and for all as it grows."""
        by = increment(s)
        stride = self.of(by) if by is not None else None
        rising = isinstance(s.cond, Binary) and s.cond.op in ("<", "<=")
        if first is None or stride is None or stride.machine <= 0 or not rising:
            return None
        low, high = 0, 1  # rounds after the first that there are, and that there are not
        while self._holds(s, first.machine + high * stride.machine):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._holds(s, first.machine + middle * stride.machine) else (low, middle)
        return _both(first.machine + low * stride.machine)

    def _holds(self, s: For, value: int) -> bool:
        if _wrapped(value, s.var.type) != value:
            return False
        self.known[s.var] = _both(value)
        found = self.of(s.cond)
        return found is not None and bool(found.machine)

    def _forget(self, s: Stmt) -> None:
        for sym in assigned((s,)):
            self.known.pop(sym, None)

    def _give(self, sym: Sym, value: _Number | None) -> None:
        self.known.pop(sym, None)
        if value is not None and is_whole(sym.type):
            self.known[sym] = value

    def _address(self, e: Expr) -> None:
        v = self.of(e)
        if v is not None and v.machine != v.exact:
            raise _Wrong(e, v.exact)

    def of(self, e: Expr) -> _Number | None:
        """The value of an integer expression; None if it is not known."""
        if isinstance(e, Const):
            return _both(int(e.value)) if not isinstance(e.value, float) else None
        if isinstance(e, Var):
            return self.known.get(e.sym)
        if isinstance(e, Knob):
            return _both(self.kernel.knob_values[e.name])
        if isinstance(e, HwIndex):
            here = self.at.get((e.level, e.axis))
            return _both(here) if here is not None else None
        if isinstance(e, Load):
            for i in e.index:
                self._address(i)
            known = isinstance(e.buffer.type, Ptr) and e.buffer in self.elements and e.width == 1
            return _both(self.elements[e.buffer]) if known else None
        if isinstance(e, Select):
            chosen = self.of(e.cond)
            return None if chosen is None else self.of(e.a if chosen.machine else e.b)
        if isinstance(e, Binary) and e.op in ("&&", "||"):
            return self._logical(e)
        operands = [self.of(x) for x in children(e)]
        whole = isinstance(e.type, Scalar) and (e.type.is_int or e.type.kind == "bool")
        if not whole or None in operands or not _has_meaning(e):
            return None
        return self._operation(e, [v.machine for v in operands if v], [v.exact for v in operands if v])

    def _logical(self, e: Binary) -> _Number | None:
        a = self.of(e.a)
        if a is None or bool(a.machine) == (e.op == "||"):
            return a
        return self.of(e.b)

    def _operation(self, e: Expr, machine: list[int], exact: list[int]) -> _Number | None:
        if isinstance(e, Cast):
            if e.style == "bit" or not (is_whole(e.to) or scalar_of(e.to).kind == "bool"):
                return None
            return _Number(_wrapped(machine[0], e.to), int(bool(exact[0])) if not is_whole(e.to) else exact[0])
        here, there = _applied(e, machine), _applied(e, exact)
        if here is None or there is None:
            return None
        if isinstance(e, Binary) and e.op in COMPARISONS:
            return _both(int(here))
        if isinstance(e, Binary) and e.op in "+-*" and scalar_of(e.type).is_signed and _wrapped(here, e.type) != here:
            raise _Wrong(e, here)
        return _Number(_wrapped(here, e.type), there)


def _has_meaning(e: Expr) -> bool:
    return isinstance(e, Binary | Unary | Cast) or (isinstance(e, Call) and e.fn in INT_FUNCS)


def _applied(e: Expr, values: list[int]) -> int | None:
    if isinstance(e, Call):
        return None if e.fn == "cdiv" and values[1] <= 0 else INT_FUNCS[e.fn](*values)
    if isinstance(e, Unary):
        return {"-": -values[0], "+": values[0], "~": ~values[0], "!": int(not values[0])}[e.op]
    assert isinstance(e, Binary)
    if (e.op in "/%" and values[1] == 0) or (e.op in ("<<", ">>") and not 0 <= values[1] < scalar_of(e.type).bits):
        return None
    return int(INT_OPS[e.op](*values))


def _both(v: int) -> _Number:
    return _Number(v, v)


def _wrapped(v: int, t: object) -> int:
    """What a variable of type ``t`` holds of ``v``."""
    assert isinstance(t, Scalar)
    if t.kind == "bool":
        return int(v != 0)
    v &= (1 << t.bits) - 1
    return v - (1 << t.bits) if t.is_signed and v >> (t.bits - 1) else v


def _leaves(s: Stmt) -> bool:
    return any(isinstance(x, Return | Break | Continue) for x in walk((s,)))


__all__ = ["Witness", "witness"]
