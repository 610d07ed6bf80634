"""Single-precision arithmetic that is rounded in one direction, against exact rationals; powers of two in exact
domains."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest

from ktc.ir.interp.domains.directed_rounding import DIRECTED
from ktc.ir.interp.domains.domain import domain_named
from ktc.ir.types import F32

RNG = np.random.default_rng(7)
NUMBERS = np.concatenate([
    RNG.normal(size=60) * 10.0 ** RNG.integers(-12, 12, 60), [1.0, -1.0, 3.0, 0.1, -0.1, 1e-30, 2.0**24, 1 + 2.0**-23],
]).astype(np.float32)  # fmt: skip
OTHERS, THIRDS = np.roll(NUMBERS, 7), np.roll(NUMBERS, 3)

EXACT = {
    "add": lambda a, b, c: a + b, "sub": lambda a, b, c: a - b, "mul": lambda a, b, c: a * b,
    "div": lambda a, b, c: a / b, "rcp": lambda a, b, c: 1 / a, "fma": lambda a, b, c: a * b + c,
}  # fmt: skip
ARGUMENTS = {"rcp": 1, "sqrt": 1, "fma": 3}


def rounded(exact: Fraction, to: str) -> float:
    """The single-precision neighbour of ``exact`` in the direction ``to``."""
    near = np.float32(float(exact))
    least, most = (np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf))
    if to == "ru" or (to == "rz" and exact < 0):
        return float(next(n for n in (least, near, most) if Fraction(float(n)) >= exact))
    return float(next(n for n in (most, near, least) if Fraction(float(n)) <= exact))


@pytest.mark.parametrize("name", [n for n, (fn, _) in DIRECTED.items() if fn in EXACT])
def test_results_are_the_neighbours_of_exact_ones(name: str) -> None:
    fn, to = DIRECTED[name]
    args = (NUMBERS, OTHERS, THIRDS)[: ARGUMENTS.get(fn, 2)]
    found = domain_named("float").call(name, list(args), F32)
    for got, *row in zip(found, NUMBERS, OTHERS, THIRDS):
        exact = EXACT[fn](*(Fraction(float(x)) for x in row))
        if abs(exact) < Fraction(float(np.finfo(np.float32).max)):
            assert float(got) == rounded(exact, to), (name, row)


@pytest.mark.parametrize("to", ["rz", "ru", "rd"])
def test_roots_are_the_neighbours_of_exact_ones(to: str) -> None:
    found = domain_named("float").call(f"sqrt_{to}", [np.abs(NUMBERS)], F32)
    for got, x in zip(found, np.abs(NUMBERS)):
        digits = Fraction(isqrt(int(Fraction(float(x)) * 4**200)), 2**200)
        assert float(got) == rounded(digits, "rd" if digits**2 == Fraction(float(x)) or to != "ru" else "ru")


def test_what_overflows_stays_finite_where_that_is_the_direction() -> None:
    most = np.float32(np.finfo(np.float32).max)
    at = domain_named("float").call
    both = [np.array([most, -most]), np.array([most, -most])]
    assert at("add_rz", list(both), F32).tolist() == [most, -most]
    assert at("add_ru", list(both), F32).tolist() == [np.inf, -most]
    assert np.isinf(at("rcp_rz", [np.float32(0.0)], F32))


def test_bounds_hold_for_either_direction() -> None:
    bound = domain_named("bound")
    x = bound.encode(NUMBERS.astype(np.float64), F32)
    out = bound.call("rcp_rz", [x], F32)
    exact = domain_named("float").call("rcp_rz", [NUMBERS], F32).astype(np.float64)
    assert (np.abs(exact - bound.value(out)) <= bound.error(out)).all()


@pytest.mark.parametrize("name", ["field", "int"])
def test_powers_of_two_are_functions_of_both_of_their_arguments(name: str) -> None:
    domain = domain_named(name)
    x = domain.encode(np.array([1.5, 1.5, 2.5, 1.5]), F32)
    found = domain.call("ldexp", [x, np.array([3, 4, 3, 3], np.int32)], F32)
    same = [bool(domain.compare("==", found[0], found[i], F32)) for i in range(4)]
    assert same == [True, False, False, True]
