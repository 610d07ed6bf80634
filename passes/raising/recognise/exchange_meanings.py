"""What an exchange between threads can mean, as a table to compare its results with.

Every trial gives the threads distinct (or deliberately tied) exact values and lists the meanings it can tell apart:

* ``Reduced``  one input combined over all threads, or over the first few of them, by + * min max & | ^;
* ``Prefix``   one input, or two a thread side by side, combined over the threads before, with or without one's own;
* ``Fixed``    a small number, whatever the threads bring in;
* ``Picked``   another input of the thread with the greatest (or least) value, ties going to the least or greatest;
* ``Earliest``  the same where ties go to a thread that has precedence, whatever it brings in;
* ``Below``  a sum scaled by the power of the distance of its thread's maximum from the greatest one, all added up;
* ``Mean``, ``Moment``  of weighted partial means: what a Welford tree computes, as rational functions.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from ktc.ir.analysis.accumulators import combine, identity
from ktc.ir.fold import cast
from ktc.ir.interp.domains.domain import domain_named
from ktc.ir.interp.domains.field import P
from ktc.ir.nodes import Binary, Call, Const, Expr, Select, Sym, Var
from ktc.ir.types import I32, Scalar, scalar_of
from ktc.passes.shared.running.rescaled import Power
from ktc.passes.shared.running.running_moments import State

from .exchange_steps import Steps
from .tie_orders import Order

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
RUNNING: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "+": np.cumsum,
    "*": np.cumprod,
    "min": np.minimum.accumulate,
    "max": np.maximum.accumulate,
}


@dataclass(frozen=True)
class Trial:
    """One run: the domain, what each thread brings in, and the meanings that this data distinguishes."""

    domain: str
    data: Mapping[Sym, np.ndarray]
    meanings: Sequence[Meaning]
    numbers: Mapping[str, int] = field(default_factory=dict)
    """What integers are, by name, that all threads share."""
    totals: dict[tuple[tuple[Sym, ...], str], np.ndarray] = field(default_factory=dict, compare=False)
    """Running totals that were asked for: many meanings, and many results, are held against one."""

    def running(self, sources: tuple[Sym, ...], op: str) -> np.ndarray:
        """``op`` over all that the threads bring in as ``sources``, thread by thread, after each of them."""
        if (sources, op) not in self.totals:
            brought = np.stack([self.data[s] for s in sources], axis=1).reshape(-1)
            self.totals[sources, op] = RUNNING[op](brought)
        return self.totals[sources, op]


class Meaning(ABC):
    """One row of the table."""

    algebraic = False  # whether equality holds by rational arithmetic only

    @abstractmethod
    def fits(self, trial: Trial, t: Scalar, got: int) -> bool:
        """Whether ``got``, of type ``t``, is this function of the trial's data."""

    def holds(self, trial: Trial, t: Scalar, got: np.ndarray) -> bool:
        """``fits`` for what each thread ends up with; a meaning that all share is looked up at the first."""
        return self.fits(trial, t, int(got[0]))

    def within(self, t: Scalar) -> Meaning:
        """This meaning, of a result of type ``t``."""
        return self

    @abstractmethod
    def steps(self, made: Steps, name: str) -> Sym:
        """Adds what computes it to ``made``; the variable that then holds it."""


@dataclass(frozen=True)
class Among:
    """The threads whose ``number`` is below ``count``; the first one is among them, whatever that is."""

    number: Expr
    count: Sym

    def of(self, trial: Trial, brought: np.ndarray) -> np.ndarray:
        return brought[: max(1, trial.numbers[self.count.name])]


@dataclass(frozen=True)
class Reduced(Meaning):
    source: Sym
    op: str
    over: Scalar | None = None  # the type that it is combined in, if not that of the source
    first: Const | None = None  # what else is combined: a maximum is at least that
    among: Among | None = None  # the threads whose input is combined, if not all

    def fits(self, trial: Trial, t: Scalar, got: int) -> bool:
        if scalar_of(self.source.type).is_float != t.is_float:
            return False
        brought = trial.data[self.source]
        want = int(FOLDS[self.op](brought if self.among is None else self.among.of(trial, brought)))
        if self.first is not None:
            want = (max if self.op == "max" else min)(want, int(self.first.value))
        return _wrapped(want, t) == _wrapped(got, t)

    def steps(self, made: Steps, name: str) -> Sym:
        t = self.over or scalar_of(self.source.type)
        brought = cast(Var(self.source), t)
        if self.among is not None:
            t_count = scalar_of(self.among.count.type)
            number = cast(self.among.number, t_count)  # threads are counted from 0
            mine = Binary("<", number, Call("max", (Var(self.among.count), Const(1, t_count)), t_count))
            brought = Select(mine, brought, identity(self.op, t))
        whole = made.reduce(self.op, brought, name)
        return whole if self.first is None else made.name(f"{name}_all", combine(self.op, Var(whole), self.first))

    def within(self, t: Scalar) -> Meaning:
        """Sums and products of a wider type do not wrap, or round, where those of the inputs would."""
        wider = self.op in "+*" and t.bits > scalar_of(self.source.type).bits
        return dataclasses.replace(self, over=t) if wider else self

    @property
    def is_float_extreme(self) -> bool:
        return self.op in ("min", "max") and scalar_of(self.source.type).is_float


@dataclass(frozen=True)
class Prefix(Meaning):
    """``op`` over all ``sources`` of the threads before, then the first ``own`` of the thread's own."""

    sources: tuple[Sym, ...]
    op: str
    own: int

    def fits(self, trial: Trial, t: Scalar, got: int) -> bool:
        return False  # not one value for all

    def holds(self, trial: Trial, t: Scalar, got: np.ndarray) -> bool:
        if got.size != trial.data[self.sources[0]].size or any(scalar_of(s.type) != t for s in self.sources):
            return False
        every = len(self.sources)
        begin = (self.own or every) - 1
        first = 1 if self.own == 0 else 0  # what stands before everything is the identity, or never used
        want = trial.running(self.sources, self.op)[begin::every]
        return all(_wrapped(int(a), t) == _wrapped(int(b), t) for a, b in zip(want, got[first:]))

    def steps(self, made: Steps, name: str) -> Sym:
        return made.scan(self, name)


@dataclass(frozen=True)
class Fixed(Meaning):
    value: int

    def fits(self, trial: Trial, t: Scalar, got: int) -> bool:
        return got == self.value

    def steps(self, made: Steps, name: str) -> Sym:
        return made.name(name, Const(self.value, I32))


@dataclass(frozen=True)
class Picked(Meaning):
    value: Sym
    op: str
    index: Sym
    tie: str

    def fits(self, trial: Trial, t: Scalar, got: int) -> bool:
        if t != scalar_of(self.index.type):
            return False
        v, i = trial.data[self.value], trial.data[self.index]
        return int(FOLDS[self.tie](i[v == FOLDS[self.op](v)])) == got

    def steps(self, made: Steps, name: str) -> Sym:
        best = made.reduce(self.op, Var(self.value), self.value.name)
        t = scalar_of(self.index.type)
        mine = Select(Binary("==", Var(self.value), Var(best)), Var(self.index), identity(self.tie, t))
        return made.reduce(self.tie, mine, name, after=best)


@dataclass(frozen=True)
class Earliest(Meaning):
    """What the first thread with the extreme ``value`` has as ``index``, first by ``order``; ``number``: a thread's."""

    value: Sym
    op: str
    index: Sym
    order: Order
    number: Expr

    def fits(self, trial: Trial, t: Scalar, got: int) -> bool:
        v, i = trial.data[self.value], trial.data[self.index]
        first = np.where(v == FOLDS[self.op](v), self.order.ranks(v.size), v.size).argmin()
        return t == scalar_of(self.index.type) and _wrapped(int(i[first]), t) == _wrapped(got, t)

    def steps(self, made: Steps, name: str) -> Sym:
        best = made.reduce(self.op, Var(self.value), self.value.name)
        rank, t = self.order.rank(self.number), scalar_of(self.index.type)
        mine = Select(Binary("==", Var(self.value), Var(best)), rank, identity("min", scalar_of(rank.type)))
        least = made.reduce("min", mine, f"{name}_rank", after=best)
        made.orders[least] = self.order
        own = Select(Binary("==", rank, Var(least)), Var(self.index), identity("min", t))
        return made.reduce("min", own, name, after=least)


@dataclass(frozen=True)
class Below(Meaning):
    """The sum of ``total * fn(top - greatest top)``: sums of exponentials below the maximum of each thread's own, as
    the sum below that of them all (``ktc.passes.shared.running.rescaled``)."""

    top: Sym
    total: Sym
    fn: str

    @np.errstate(all="ignore")
    def fits(self, trial: Trial, t: Scalar, got: int) -> bool:
        domain, own = domain_named(trial.domain), scalar_of(self.top.type)
        top, total = (
            domain.encode(trial.data[s].astype(np.float64), scalar_of(s.type)) for s in (self.top, self.total)
        )
        greatest = domain.encode(np.array([FOLDS["max"](trial.data[self.top])], np.float64), own)
        scale = domain.float_call(self.fn, [domain.float_arith("-", top, greatest, own)], own)
        terms = domain.float_arith("*", total, scale, own)
        want = domain.decode(reduce(lambda a, b: domain.float_arith("+", a, b, own), np.atleast_1d(terms)), own)
        return t.is_float and _wrapped(int(want), t) == _wrapped(got, t)

    def steps(self, made: Steps, name: str) -> Sym:
        t = scalar_of(self.total.type)
        greatest = made.reduce("max", Var(self.top), self.top.name)
        power = Power(self.fn)(Var(self.top), Var(greatest))
        return made.reduce("+", Binary("*", Var(self.total), cast(power, t)), name, after=greatest)


@dataclass(frozen=True)
class Mean(Meaning):
    count: Sym
    mean: Sym
    algebraic = True

    def total(self, trial: Trial) -> tuple[int, int]:
        n, m = trial.data[self.count], trial.data[self.mean]
        return int(n.sum()), int((n * m).sum()) * pow(int(n.sum()), -1, P) % P

    def fits(self, trial: Trial, t: Scalar, got: int) -> bool:
        return t.is_float and self.total(trial)[1] == got % P

    def steps(self, made: Steps, name: str) -> Sym:
        t = scalar_of(self.mean.type)
        n = made.reduce("+", Var(self.count), self.count.name)
        total = made.reduce("+", State(self.count, self.mean).weighted, f"{self.mean.name}_sum")
        return made.name(f"{name}_all", Binary("/", Var(total), cast(Var(n), t)))


@dataclass(frozen=True)
class Moment(Meaning):
    of: Mean
    second: Sym
    algebraic = True

    def fits(self, trial: Trial, t: Scalar, got: int) -> bool:
        _, mean = self.of.total(trial)
        n, m, q = (trial.data[s].tolist() for s in (self.of.count, self.of.mean, self.second))
        want = sum(c + a * (b - mean) ** 2 for a, b, c in zip(n, m, q)) % P
        return t.is_float and want == got % P

    def steps(self, made: Steps, name: str) -> Sym:
        mean = self.of.steps(made, self.of.mean.name)
        apart = State(self.of.count, self.of.mean, self.second).squares_about(mean)
        return made.reduce("+", apart, name, after=mean)


def _wrapped(v: int, t: Scalar) -> int:
    return v % (1 << (64 if t.is_float else t.bits))


__all__ = ["Among", "Below", "Earliest", "Fixed", "Mean", "Meaning", "Moment", "Picked", "Prefix", "Reduced", "Trial"]
