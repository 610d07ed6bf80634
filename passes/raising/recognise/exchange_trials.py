"""Data to run an exchange between threads on, with the meanings that each run can tell apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ktc.ir.nodes import Sym
from ktc.ir.types import Scalar, scalar_of
from ktc.ir.workload.input_data import numpy_dtype

from .exchange_meanings import FLOAT_OPS, INT_OPS, Below, Mean, Moment, Picked, Prefix, Reduced, Trial

MOST_PAIRED = 4


def trials(
    inputs: list[Sym], threads: int, powers: Sequence[str] = (), known: Mapping[Sym, np.ndarray] | None = None
) -> Iterator[Trial]:
    """Data to run a region on, simplest meanings first. ``powers``: the exponential functions that it calls.
    ``known``: inputs that are the same whatever the data, like the number of a thread."""
    for trial in _trials(inputs, threads, powers):
        yield with_known(trial, known)


def with_known(trial: Trial, known: Mapping[Sym, np.ndarray] | None, numbers: Mapping[str, int] | None = None) -> Trial:
    """``trial`` on the inputs that are ``known``, and on its own data for the others; where ``numbers`` are what all
    threads share."""
    return dataclasses.replace(trial, data={**trial.data, **(known or {})}, numbers=numbers or trial.numbers)


def _trials(inputs: list[Sym], threads: int, powers: Sequence[str]) -> Iterator[Trial]:
    rng = np.random.default_rng(11)
    odd = max(1000, threads)  # a product of even numbers soon is zero, whatever they are
    drawn = {s: rng.permutation(odd)[:threads] + k for k, s in enumerate(inputs)}  # no two of one sum, or one extreme
    distinct = {s: _held(2 * x + 1, scalar_of(s.type)) for s, x in drawn.items()}
    running = [Prefix(group, op, own) for group in _groups(inputs) for op in ("+", "max", "min", "*")
               for own in range(len(group) + 1)]  # fmt: skip
    reduced = [Reduced(s, op) for s in inputs for op in _ops(scalar_of(s.type))]
    yield Trial("int", distinct, [*running, *reduced])  # a running value is known by more than one number
    floats = [s for s in inputs if scalar_of(s.type).is_float]
    below = [Below(m, s, fn) for fn in powers for m in floats for s in floats if s is not m]
    if below:
        yield Trial("int", {s: x - 1000 for s, x in distinct.items()}, below)
    for v in inputs:
        indices = [s for s in inputs if s is not v and not scalar_of(s.type).is_float]
        if indices:
            tied = {**distinct, v: rng.integers(1, 4, threads).astype(np.int64)}
            picks = [Picked(v, op, i, tie) for op in ("max", "min") for i in indices for tie in ("min", "max")]
            yield Trial("int", tied, picks)
    if len(inputs) >= 2:
        small = {s: x % 97 + 1 for s, x in distinct.items()}
        means = [Mean(n, m) for n in inputs for m in inputs if n is not m and scalar_of(m.type).is_float]
        moments = [Moment(m, q) for m in means for q in inputs if q not in (m.count, m.mean)]
        plain = [Reduced(s, "+") for s in inputs]
        yield Trial("field", small, [*plain, *means, *moments])


def _held(x: np.ndarray, t: Scalar) -> np.ndarray:
    """``x`` as type ``t`` holds it: what is combined is what was brought in."""
    return x.astype(numpy_dtype(t.name)).astype(np.int64) if t.is_float else x.astype(np.int64)


def wide(inputs: list[Sym], threads: int, counting: bool = False) -> Trial:
    """Values all over the types of ``inputs``: what is combined in a narrower type, or starts from a number that is
    not the least, shows. ``counting``: none below zero (weights are not)."""
    rng = np.random.default_rng(12)
    data = {s: _anywhere(scalar_of(s.type), threads, rng) for s in inputs}
    return Trial("int", {s: abs(x) for s, x in data.items()} if counting else data, ())


def tied(inputs: list[Sym], threads: int, by: Sym | None = None) -> Trial:
    """Small numbers, no two threads the same: whose comes out is seen. ``by``: the input that many have the same of."""
    rng = np.random.default_rng(13)
    own = {s: rng.permutation(threads).astype(np.int64) + 3 for s in inputs}
    same = {by: rng.integers(1, 4, threads).astype(np.int64)} if by is not None else {}
    return Trial("int", {**own, **same}, ())


def infinite(inputs: list[Sym], threads: int, sign: int) -> Trial:
    """Floats that are infinite: integers do not go as far as what programs write in the place of infinity."""
    held = {s: scalar_of(s.type) for s in inputs}
    data = {s: np.full(threads, sign * np.inf if t.is_float else 1, numpy_dtype(t.name)) for s, t in held.items()}
    return Trial("float", data, ())


def _anywhere(t: Scalar, count: int, rng: np.random.Generator) -> np.ndarray:
    if t.is_float:
        digits, scale = (7, 1) if t.bits < 32 else (23, 1 << 16)  # that the type holds exactly
        return rng.integers(-(1 << digits), 1 << digits, count) * scale
    bits = min(t.bits, 62)  # sums and differences of two stay exact
    return rng.integers(-(1 << (bits - 1)) if t.is_signed else 0, 1 << (bits - t.is_signed), count)


def _groups(inputs: list[Sym]) -> list[tuple[Sym, ...]]:
    """Inputs that one scan may run over: each, and ordered pairs of one type."""
    pairs = [(a, b) for a in inputs for b in inputs if a is not b and a.type == b.type]
    return [*((s,) for s in inputs), *(pairs if len(inputs) <= MOST_PAIRED else ())]


def _ops(t: Scalar) -> tuple[str, ...]:
    return FLOAT_OPS if t.is_float else INT_OPS


__all__ = ["MOST_PAIRED", "infinite", "tied", "trials", "wide", "with_known"]
