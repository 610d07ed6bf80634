"""Products of whole matrices give what the steps of their sums give, in every domain."""

import numpy as np
import pytest

from ktc.ir.interp.domains.domain import Domain, domain_named
from ktc.ir.types import F16, F32

SHAPE = (2, 5, 24, 7)
"""Matrices at once, rows, terms, columns."""


def operands(domain: Domain, rng: np.random.Generator, scale: float = 1.0):
    g, m, k, n = SHAPE
    shapes = ((g, m, n), F32), ((g, m, k), F16), ((g, k, n), F16)
    made = ((domain.encode((scale * rng.normal(size=shape)).astype(np.float16).reshape(-1), t), shape, t)
            for shape, t in shapes)  # fmt: skip
    return [domain.cast(x, t, F32).reshape(shape) for x, shape, t in made]


def same(x: np.ndarray, y: np.ndarray) -> bool:
    return x.dtype == y.dtype and x.tobytes() == y.tobytes()


@pytest.mark.parametrize("name", ["float", "float64", "int", "field", "bound", "terms", "roundings"])
@pytest.mark.parametrize("truncates", [False, True])
@pytest.mark.parametrize("scale", [1.0, 100.0, np.inf])
def test_a_product_is_the_sum_of_its_steps(name, truncates, scale):
    domain = domain_named(name)
    with np.errstate(all="ignore"):
        total, a, b = operands(domain, np.random.default_rng(3), scale)
        got = domain.multiplied(total, a, b, F32, truncates)
        want = Domain.multiplied(domain, total, a, b, F32, truncates)
    assert same(np.ascontiguousarray(got), np.ascontiguousarray(want))


def test_field_products_lose_what_their_operands_have_not():
    domain, rng = domain_named("field"), np.random.default_rng(4)
    total, a, b = operands(domain, rng)
    a = np.where(rng.random(a.shape) < 1 / 40, domain.call("sqrt", [a], F32), a)
    got, want = domain.multiplied(total, a, b, F32, False), Domain.multiplied(domain, total, a, b, F32, False)
    assert same(got, want)
    assert len(np.unique(got >> np.uint64(32) == (want >> np.uint64(32)).max())) == 2  # some have one, others none


def test_products_with_largest_residues_are_exact():
    domain = domain_named("field")
    most = domain.negate(domain.const(1.0, F32), F32)
    total, a, b = (np.full(s, most, np.uint64) for s in ((1, 2, 3), (1, 2, 512), (1, 512, 3)))
    assert same(domain.multiplied(total, a, b, F32, False), np.full((1, 2, 3), domain.const(511.0, F32), np.uint64))


def test_bounds_with_errors_in_the_operands_go_step_by_step():
    domain = domain_named("bound")
    total, a, b = operands(domain, np.random.default_rng(5))
    a = a + 1e-6j
    got, want = domain.multiplied(total, a, b, F32, True), Domain.multiplied(domain, total, a, b, F32, True)
    assert same(got, want) and np.all(got.imag > 1e-6)


def test_roundings_of_rows_and_columns_come_to_their_products():
    domain, rng = domain_named("roundings"), np.random.default_rng(6)
    total, a, b = operands(domain, rng)
    twice = domain.cast(domain.cast(domain.arith("*", a, a, F32), F32, F16), F16, F32)
    a = np.where(np.arange(a.shape[1])[None, :, None] == 2, twice, a)
    got, want = domain.multiplied(total, a, b, F32, False), Domain.multiplied(domain, total, a, b, F32, False)
    assert same(got, want) and len(np.unique(got.imag)) == 2
