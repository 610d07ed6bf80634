"""What the exact domains promise: algebra without rounding; what the bound domain promises: the truth is inside."""

from __future__ import annotations

import math
from copy import copy

import ml_dtypes
import numpy as np
import pytest

from ktc.backends.field_text import NUMBA_TEXT
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import run
from ktc.ir.interp.domains import field
from ktc.ir.interp.domains.bit_patterns import Given, floats_of
from ktc.ir.interp.domains.domain import Unsupported, domain_named
from ktc.ir.interp.domains.field import P, Q
from ktc.ir.interp.domains.field_calls import FIELD_CALLS
from ktc.ir.interp.domains.powers import inverses, power_of
from ktc.ir.interp.domains.roundings import counts
from ktc.ir.text import parse_kernel
from ktc.ir.types import BF16, E4M3, F16, F32, F64, I32, U8, U32, Scalar
from tests.ir.interp.interp_samples import kernel

EXACT = [domain_named("int"), domain_named("field")]


def numbers(d, seed: int, n: int = 200):
    return d.encode(np.random.default_rng(seed).integers(-50, 50, n).astype(np.float64), F32)


def same(d, a, b) -> bool:
    return bool(np.array_equal(d.decode(np.asarray(a), F32), d.decode(np.asarray(b), F32)))


@pytest.fixture(params=EXACT, ids=lambda d: d.name)
def d(request):
    return request.param


def test_rings_forget_the_order_of_operations(d) -> None:
    a, b, c = (numbers(d, s) for s in (1, 2, 3))

    def op(o, x, y):
        return d.arith(o, x, y, F32)

    assert same(d, op("+", op("+", a, b), c), op("+", a, op("+", c, b)))
    assert same(d, op("*", op("+", a, b), c), op("+", op("*", a, c), op("*", c, b)))
    assert same(d, op("-", a, op("-", b, c)), op("+", op("-", a, b), c))
    assert same(d, d.call("fma", [a, b, c], F32), op("+", op("*", a, b), c))
    assert not same(d, op("+", a, b), op("+", a, c))


def test_division_is_multiplication_by_the_reciprocal(d) -> None:
    a, b = numbers(d, 1), numbers(d, 2)
    zero = d.compare("==", b, d.const(0.0, F32), F32)
    b = np.where(zero, d.const(3.0, F32), b)
    quotient = d.arith("/", a, b, F32)
    assert same(d, quotient, d.arith("*", a, d.call("rcp", [b], F32), F32))
    assert same(d, d.arith("*", a, d.const(0.25, F32), F32), d.arith("/", a, d.const(4.0, F32), F32))
    both = d.arith("/", d.arith("+", a, b, F32), b, F32)
    parts = d.arith("+", quotient, d.arith("/", b, b, F32), F32)
    assert same(d, both, parts)


def test_the_exponential_is_one(d) -> None:
    a, b = numbers(d, 1), numbers(d, 2)

    def exp(x):
        return d.call("exp", [x], F32)

    assert same(d, exp(d.arith("+", a, b, F32)), d.arith("*", exp(a), exp(b), F32))
    assert same(d, exp(d.const(0.0, F32)), d.const(1.0, F32))
    log2e = d.const(math.log2(math.e), F32)
    assert same(d, d.call("exp2", [d.arith("*", a, log2e, F32)], F32), exp(a))
    sigmoid_of_2x = d.call(
        "rcp", [d.arith("+", d.const(1.0, F32), exp(d.negate(d.arith("+", a, a, F32), F32)), F32)], F32
    )
    two_s_minus_1 = d.arith("-", d.arith("+", sigmoid_of_2x, sigmoid_of_2x, F32), d.const(1.0, F32), F32)
    assert d.name == "int" or same(d, d.call("tanh", [a], F32), two_s_minus_1)
    assert not same(d, exp(a), exp(b))


def test_exponentials_of_distances_over_a_root_multiply(d) -> None:
    a, b = numbers(d, 1), numbers(d, 2)
    width = d.encode(np.random.default_rng(3).integers(1, 50, 200).astype(np.float64), F32)
    for scale in (d.call("rsqrt", [width], F32), d.call("sqrt", [width], F32)):
        x, y = (d.arith("*", e, scale, F32) for e in (a, b))
        powers = [d.call("exp", [e], F32) for e in (x, y, d.arith("+", x, y, F32))]
        assert same(d, d.arith("*", *powers[:2], F32), powers[2])
        assert not same(d, *powers[:2])


def test_roots_modulo_both_primes_are_multiplicative() -> None:
    words = field._of_int(np.arange(-100, 300))
    a, b = words[:200], words[200:]
    roots = [field._sqrt(x) for x in (field._mul(a, b), a, b)]
    assert np.array_equal(roots[0], field._mul(*roots[1:]))
    assert np.array_equal(field._rsqrt(words), field._reciprocal(field._sqrt(words)))
    assert (field._q(field._sqrt(field._from_p(field._p(words)))) == Q).all()  # of what has none


@pytest.mark.parametrize("name", ["field_sqrt", "field_rcp"])
def test_texts_mean_the_functions_of_words(name: str) -> None:
    numba = pytest.importorskip("numba")
    scope: dict = {"np": np, "njit": numba.njit, "OPTIONS": {}}
    exec(NUMBA_TEXT, scope)
    rng = np.random.default_rng(0)
    q = np.where(rng.random(60) < 0.2, Q, rng.integers(0, Q, 60)).astype(np.uint64)
    words = field._pack(rng.integers(0, P, 60).astype(np.uint64), q)
    assert [int(scope[name](w)) for w in words] == FIELD_CALLS[name](words).tolist()


def test_logarithms_of_powers_of_two_are_numbers(d) -> None:
    """Loops end at ``log2(16)``."""
    for k in (-20, -1, 0, 4, 30):
        x = d.const(2.0**k, F32)
        for fn in ("log2", "fast_log2"):
            assert same(d, d.call(fn, [x], F32), d.const(float(k), F32))
        assert same(d, d.call("log", [x], F32), d.arith("*", d.const(float(k), F32), d.const(math.log(2), F32), F32))
    end = d.call("log2", [d.const(16.0, F32)], F32)
    assert d.compare("<=", d.const(4.0, F32), end, F32) and not d.compare("<=", d.const(5.0, F32), end, F32)
    assert not same(d, d.call("log2", [d.const(3.0, F32)], F32), d.const(2.0, F32))


def test_whole_powers_are_products(d) -> None:
    """A stride may be ``(int)pow(2, i)``, and a square ``pow(x, 2)``."""
    x, y = numbers(d, 3), numbers(d, 4)
    for fn in ("pow", "fast_pow"):
        square = d.call(fn, [x, d.const(2.0, F32)], F32)
        assert same(d, square, d.arith("*", x, x, F32)) and not same(d, square, d.arith("*", x, y, F32))
        assert same(d, d.call(fn, [d.const(2.0, F32), d.const(10.0, F32)], F32), d.const(1024.0, F32))
        nothing = d.arith("*", x, d.const(0.0, F32), F32)
        assert same(d, d.call(fn, [x, d.const(0.0, F32)], F32), d.arith("+", nothing, d.const(1.0, F32), F32))
        assert not same(d, d.call(fn, [x, d.const(0.5, F32)], F32), d.call(fn, [y, d.const(0.5, F32)], F32))


def test_unknown_functions_depend_on_all_of_their_argument(d) -> None:
    a = numbers(d, 1)
    once, again = d.call("erf", [a], F32), d.call("erf", [a.copy()], F32)
    assert same(d, once, again)
    assert not same(d, once, d.call("erfc", [a], F32))
    distinct = len(np.unique(d.decode(once, F32)))
    assert distinct == len(np.unique(a))


def test_small_integers_keep_their_order(d) -> None:
    a, b = numbers(d, 1), numbers(d, 2)
    x, y = (np.random.default_rng(s).integers(-50, 50, 200) for s in (1, 2))
    assert np.array_equal(d.compare("<", a, b, F32), x < y)
    assert same(d, d.call("max", [a, b], F32), d.encode(np.maximum(x, y).astype(np.float64), F32))
    assert np.array_equal(d.cast(a, F32, I32), x.astype(np.int32))
    low = d.const(-math.inf, F32)
    assert same(d, d.call("max", [a, np.broadcast_to(low, a.shape)], F32), a)
    assert same(d, low, d.const(-3.0e38, F32))  # FLT_MAX-like identities stand for infinity
    assert bool(d.call("isinf", [low], F32)) and not d.call("isinf", [a], F32).any()


def test_casts_between_floats_are_exact(d) -> None:
    a = numbers(d, 1)
    assert same(d, d.cast(d.cast(a, F32, F16), F16, F32), a)


def test_field_constants() -> None:
    assert P == 2 * Q + 1
    assert all(pow(2, n - 1, n) == 1 and pow(3, n - 1, n) == 1 for n in (P, Q))


EXPRESSIONS = {
    "sum": "x + y * x - y",
    "quotient": "x / (y * y + 1.0)",
    "exp": "exp(x * 0.5) * y",
    "silu": "x / (1.0 + exp(-x)) * y",
    "norm": "x * rsqrt(x * x + y * y + 1e-06)",
    "tanh": "tanh(x) + log(y * y + 1.0)",
    "cancel": "(x + 1000.0) - 1000.0 + sin(y)",
    "erf": "erf(x) * sqrt(abs(y))",
    "half": "f32(f16(x) * f16(y) + f16(0.1))",
    "pow": "pow(abs(x) + 0.5, y)",
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_the_error_bound_holds_and_is_not_absurd(name: str) -> None:
    text = f"""\
kernel e(out: f32*, a: f32 const*, b: f32 const*)
  launch grid(16) block(256)
  let i: i32 = i32(blockIdx.x * 256 + threadIdx.x)
  let x: f32 = a[i]
  let y: f32 = b[i]
  out[i] = {EXPRESSIONS[name]}
"""
    rng = np.random.default_rng(0)
    args = {n: rng.standard_normal(4096).astype(np.float32) for n in ("out", "a", "b")}
    k = kernel(text)
    got = run(k, args).outputs["out"].astype(np.float64)
    exact = run(k, args, domain="float64").outputs["out"]
    bound = run(k, args, domain="bound").outputs["out"]
    assert np.array_equal(bound.real, exact)
    error = np.abs(got - exact)
    assert (error <= bound.imag).all()
    assert np.median(bound.imag) < 2e-2 * np.median(np.abs(exact))
    assert error.max() > 0


def test_the_bound_knows_the_accumulation_depth() -> None:
    def bound_of(chunks: str) -> float:
        k = kernel(f"""\
kernel s(out: f32*, a: f32 const*)
  launch grid(1) block(1)
  var t: f32 = 0.0
  {chunks}
  out[0] = t
""")
        args = {"out": np.zeros(1, np.float32), "a": np.ones(1024, np.float32)}
        return float(run(k, args, domain="bound").outputs["out"].imag[0])

    serial = bound_of("for i = 0; i < 1024; i + 1\n    t += a[i]")
    pairs = bound_of("for i = 0; i < 1024; i + 2\n    t += a[i] + a[i + 1]")
    assert 1.8 < serial / pairs < 2.2


def test_an_unknown_domain_is_a_usage_error() -> None:
    with pytest.raises(KtcError) as e:
        domain_named("floats")
    assert e.value.code == "E-INTERP-DOMAIN" and e.value.exit_code == 2


def test_powers_of_many_words_are_those_of_each() -> None:
    words = field._of_int(np.concatenate([np.arange(-30, 30), np.full(40, 12345), [2**40, 0]]))
    base = field._p(words)
    for exponent in ((field.P + 1) // 4, 5, 0):
        got = field._raised(base, exponent, np.uint64(field.P))
        assert got.tolist() == [pow(x, exponent, field.P) for x in base.tolist()]
    assert np.array_equal(field._rsqrt(words), field._reciprocal(field._sqrt(words)))


@pytest.mark.parametrize("modulus", [1 << 64, field.P])
def test_powers_of_one_base_by_table(modulus: int) -> None:
    words = [0, 1, 2, 3, 255, 256, 257, 65535, 65536, 2**31, 2**40 + 5, 2**63, 2**64 - 1]
    exponents = np.array([*words, 7], np.uint64).reshape(2, 7)
    want = [[pow(0x9E3779B97F4A7C15, int(e), modulus) for e in row] for row in exponents]
    with np.errstate(over="ignore"):
        assert power_of(0x9E3779B97F4A7C15, exponents, modulus).tolist() == want
        assert [int(power_of(3, e, modulus)) for e in exponents[0]] == [pow(3, int(e), modulus) for e in exponents[0]]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 100])
def test_inverses_of_many_are_those_of_each(n: int) -> None:
    for prime in (field.P, field.Q):
        numbers = np.random.default_rng(n).integers(0, prime, n).astype(np.uint64)
        numbers[::3] = 0
        assert inverses(numbers, prime).tolist() == [pow(int(x), prime - 2, prime) for x in numbers]


def test_a_sum_that_starts_from_nothing_is_rounded_as_its_terms_are() -> None:
    """A row without elements is the zero it starts as, whatever threads put together."""
    text = """\
kernel k(y: f16*, x: f16*, n: i32)
  reduce(+) s: f32 = 0.0 over i in 0..n @ [thread.x 8, seq]
    yield f32(x[i])
  y[0] = f16(s + 0.0)
"""
    k = parse_kernel(text)
    for n, rounded in ((0, 0), (1, 0), (2, 1)):
        got = run(k, {"y": np.zeros(1, np.float16), "x": np.full(4, 1.5, np.float16), "n": n}, domain="roundings")
        assert counts(got.outputs["y"])[0] == rounded, n


@pytest.mark.parametrize("name", ["int", "field"])
def test_patterns_of_small_whole_numbers_are_the_machine_s(name: str) -> None:
    domain = domain_named(name)
    values = np.array([-7.0, -1.0, 0.0, 1.0, 3.0, 16777216.0, np.inf])
    for t, machine in ((F32, np.float32), (F64, np.float64)):
        word = Scalar("int", t.bits)
        bits = domain.bitcast(domain.encode(values, t), t, word)
        assert (bits == values.astype(machine).view(f"i{t.bits // 8}")).all()
        back = domain.bitcast(bits, word, t)
        assert (domain.decode(back, t) == domain.decode(domain.encode(values, t), t)).all()


@pytest.mark.parametrize("name", ["int", "field", "float", "float64", "bound"])
def test_the_pattern_of_one_value_for_all_lanes_is_one(name: str) -> None:
    domain = domain_named(name)
    bits = domain.bitcast(domain.const(3.0, F32), F32, U32)
    assert np.ndim(bits) == 0 and int(bits) == 0x40400000
    assert np.ndim(domain.bitcast(bits, U32, F32)) == 0


@pytest.mark.parametrize("name", ["int", "field"])
def test_patterns_of_other_numbers_only_tell_them_apart(name: str) -> None:
    domain = domain_named(name)
    three = domain.encode(np.full(39, 3.0), F32)
    thirds = domain.float_arith("/", domain.encode(np.arange(1.0, 40.0), F32), three, F32)
    bits = domain.bitcast(thirds, F32, U32)
    assert len(set(bits.tolist())) == 39
    assert (domain.bitcast(bits, U32, F32) == thirds).all(), "read back, they are those numbers"
    words = np.array([1, 2, 3, 2, 1], np.uint32)  # in memory as words: patterns of nothing known
    other = domain.decode(domain.bitcast(words, U32, F32), F32)
    assert len(set(other.tolist())) == 3 and (other[[0, 1]] == other[[4, 3]]).all()


@pytest.mark.parametrize("t", [F32, F64])
@pytest.mark.parametrize("name", ["int", "field"])
def test_no_number_has_the_pattern_of_a_whole_one(name: str, t: Scalar) -> None:
    """One in 256 patterns of f32 is that of a whole number from 2^23 to 2^24."""
    domain, word = copy(domain_named(name)), Scalar("uint", t.bits)
    domain.given = Given()
    by = domain.encode(np.full(5000, 5003.0), t)
    numbers = domain.float_arith("/", domain.encode(np.arange(1.0, 5001.0), t), by, t)
    back = domain.bitcast(domain.bitcast(numbers, t, word), word, t)
    assert (domain.decode(back, t) == domain.decode(numbers, t)).all()


@pytest.mark.parametrize("name", ["int", "field"])
def test_a_pattern_that_two_numbers_were_given_is_not_read_back(name: str) -> None:
    domain = copy(domain_named(name))
    domain.given = Given()
    e4m3, byte = Scalar("e4m3", 8), Scalar("uint", 8)
    own = np.array([-16.0, -3.0, 0.0, 1.0, 16.0])
    bits = domain.bitcast(domain.encode(own, e4m3), e4m3, byte)
    assert (bits == own.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)).all()
    few, many = (domain.encode(np.arange(17.0, end), e4m3) for end in (60.0, 2000.0))
    assert (domain.bitcast(domain.bitcast(few, e4m3, byte), byte, e4m3) == few).all(), "as long as there are patterns"
    bits = domain.bitcast(many, e4m3, byte)
    with pytest.raises(Unsupported):
        domain.bitcast(bits, byte, e4m3)


@pytest.mark.parametrize("name", ["int", "field"])
def test_halves_that_travel_as_words_are_those_halves(name: str) -> None:
    """More numbers than a hash of 16 bits tells apart."""
    domain = copy(domain_named(name))
    domain.given = Given()
    half, word = Scalar("bfloat", 16), Scalar("uint", 16)
    values = domain.float_arith("/", domain.encode(np.arange(1.0, 3001.0), half), domain.encode(
        np.full(3000, 3.0), half), half)  # fmt: skip
    bits = domain.bitcast(values, half, word)
    assert len(set(bits.tolist())) == 3000 and (domain.bitcast(bits, word, half) == values).all()
    assert (domain.bitcast(values[::-1], half, word) == bits[::-1]).all()


@pytest.mark.parametrize("t", (F16, F32, F64), ids=lambda t: t.name)
def test_numbers_are_given_the_same_patterns_together_and_one_by_one(t: Scalar) -> None:
    """Of which many collide, with others and with those of whole numbers."""
    hashes = np.random.default_rng(3).integers(0, 1 << min(t.bits, 20), 4000).astype(f"u{t.bits // 8}")
    words, together, alone = np.arange(4000), Given(), Given()
    found = together.named(t, hashes, words, words + 7)
    each = [alone.named(t, hashes[k : k + 1], words[k : k + 1], words[k : k + 1] + 7)[0] for k in range(4000)]
    assert found.tolist() == each and len(set(each)) == 4000
    assert not floats_of(found, t)[1].any(), "none is a whole number's"
    read = together.read(t, found, np.zeros(4000, np.int64))
    assert read is not None and (read == words + 7).all()
    assert (together.named(t, hashes[::-1], words[::-1], words[::-1] + 7) == found[::-1]).all()


def test_patterns_in_the_upper_half_of_64_bits_are_patterns() -> None:
    """Doubles that travel as words, as loops with a compare-and-swap send them."""
    given, numbers = Given(), np.array([7, 9, 11])
    hashes = np.array([2**63 + 5, 2**64 - 3, 2**64 - 3], np.uint64)
    found = given.named(F64, hashes, numbers, numbers)
    assert found.dtype == np.uint64 and len(set(found.tolist())) == 3
    assert given.read(F64, found, np.zeros(3, np.int64)).tolist() == [7, 9, 11]  # type: ignore[union-attr]


@pytest.mark.parametrize("t", [E4M3, F16, F32])
@pytest.mark.parametrize("name", ["int", "field"])
def test_a_pattern_that_was_read_as_a_number_is_that_numbers(name: str, t: Scalar) -> None:
    """A text may leave out both conversions: the bits come back as they were."""
    domain, word = domain_named(name), Scalar("uint", t.bits)
    bits = np.random.default_rng(3).permutation(1 << 16)[:200].astype(f"u{t.bits // 8}")
    assert np.array_equal(domain.bitcast(domain.bitcast(bits, word, t), t, word), bits)


@pytest.mark.parametrize("name", ["int", "field"])
def test_numbers_become_narrow_integers_by_way_of_wide_ones(name: str) -> None:
    """As the machine converts floats of 32 bits, in the text of one language and in that of another."""
    domain = domain_named(name)
    x = domain.encode(np.array([300.0, -1.0, 65541.0]), F32)
    assert domain.float_cast(x, F32, U8).tolist() == [44, 0, 5]
    assert domain.float_cast(x, F16, U8).tolist() == [255, 0, 255]


def test_a_conversion_to_a_type_that_holds_the_number_is_no_rounding() -> None:
    domain = domain_named("roundings")
    narrow = domain.float_cast(domain.encode(np.array([0.3]), F32), F32, E4M3)
    assert counts(domain.float_cast(domain.float_cast(narrow, E4M3, F32), F32, F16)) == counts(narrow) == 1
    small, large = np.array([200], np.int32), np.array([(1 << 24) + 1], np.int32)
    for x, rounded in ((small, 0), (large, 1)):
        direct = domain.float_cast(x, I32, BF16)
        assert counts(direct) == rounded
        assert counts(domain.float_cast(domain.float_cast(x, I32, F32), F32, BF16)) == 2 * rounded


def test_scaling_by_powers_of_two_is_multiplication(d) -> None:
    x, up, down = numbers(d, 1), np.int32(3), np.int32(-2)
    assert same(d, d.call("ldexp", [x, up], F32), d.arith("*", x, d.const(8.0, F32), F32))
    assert same(d, d.call("ldexp", [x, down], F32), d.arith("*", x, d.const(0.25, F32), F32))
    total = d.call("ldexp", [d.call("ldexp", [x, up], F32), up], F32)
    assert same(d, total, d.call("ldexp", [x, np.int32(6)], F32))
    assert not same(d, total, x)


def test_the_exponent_of_a_whole_number_is_its_leading_bit(d) -> None:
    x = d.encode(np.array([1.0, 2.0, 3.0, -8.0, 50.0]), F32)
    assert d.call("ilogb", [x], F32).tolist() == [0, 1, 1, 3, 5]


@pytest.mark.parametrize("name", ["bound", "terms", "roundings", "float64"])
def test_domains_of_rounded_numbers_scale_by_powers_of_two(name: str) -> None:
    d = domain_named(name)
    x = d.encode(np.array([1.0, -3.0, 0.0]), F32)
    found = d.call("ldexp", [x, np.array([4, -1, 9], np.int32)], F32)
    assert d.cast(found, F32, I32).tolist() == [16, -1, 0]
