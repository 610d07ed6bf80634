"""The feasible set equals what filtering the whole product would give, only sooner."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.kernel import KnobDecl
from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, Knob, Select, Unary, Var, fresh, i32
from ktc.ir.types import F32, I32, I64
from ktc.search.recorded.kernel_tuner_conditions import from_python
from ktc.search.space.constraints import from_expr, python_text
from ktc.search.space.knob_space import Space


def knob(name: str, *domain: int, default: int | None = None) -> KnobDecl:
    return KnobDecl(name, domain, domain[0] if default is None else default)


def op(o: str, a: Expr | int, b: Expr | int) -> Expr:
    return Binary(o, *(i32(x) if isinstance(x, int) else x for x in (a, b)))


A, B, C = Knob("A"), Knob("B"), Knob("C")
N = Var(fresh("n", I32))


# ---------------------------------------------------------------------------------------- against the scalar evaluator

_leaves = st.one_of(
    st.sampled_from([A, B, C, N, Var(fresh("unbound", I32)), Const(0.5, F32)]),
    st.integers(-9, 40).map(i32),
)
_ops = st.sampled_from(
    ["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "<", "<=", ">", ">=", "==", "!=", "&&", "||"]
)


def _bigger(inner):
    return st.one_of(
        st.builds(Binary, _ops, inner, inner),
        st.builds(Unary, st.sampled_from(["-", "~", "!"]), inner),
        st.builds(Select, inner, inner, inner),
        st.builds(lambda x: Cast(I64, x), inner),
        st.builds(lambda f, a, b: Call(f, (a, b), I32), st.sampled_from(["min", "max", "cdiv"]), inner, inner),
        st.builds(lambda a: Call("abs", (a,), I32), inner),
    )


@settings(max_examples=300, deadline=None)
@given(st.recursive(_leaves, _bigger, max_leaves=6), st.integers(-3, 70))
def test_vectorised_evaluation_agrees_with_fold(e: Expr, n: int) -> None:
    shifts = [x for x in _walk(e) if isinstance(x, Binary) and x.op in ("<<", ">>")]
    if len(shifts) > 1 or any(evaluate(s.b, {"A": 8, "B": 8, "C": 8, "n": n}) not in range(64) for s in shifts):
        return  # nested or absurd shifts make astronomically large integers in both evaluators
    columns = {"A": np.array([[1], [2], [8]]), "B": np.array([[0, 3, 5]]), "C": np.array([[7]])}
    got = np.broadcast_to(from_expr(e, [{"n": n}], frozenset("ABC")).holds(columns), (3, 3))
    for i, j in itertools.product(range(3), range(3)):
        value = evaluate(e, {"A": int(columns["A"][i, 0]), "B": int(columns["B"][0, j]), "C": 7, "n": n})
        assert bool(got[i, j]) == (value is None or bool(value))


def _walk(e: Expr):
    from ktc.ir.walk import walk_expr

    return walk_expr(e)


_DOMAINS = {"A": (1, 2, 4, 8), "B": (1, 2, 3), "C": (32, 64, 128, 256), "D": (0, 1)}
_CONDITIONS = st.sampled_from(
    [
        op("<=", op("*", A, B), 8),
        op("==", op("%", C, op("*", A, 32)), 0),
        op("||", op("==", Knob("D"), 0), op(">", B, 1)),
        op("<", op("+", A, op("*", B, C)), N),
        op("!=", A, B),
        op("==", op("%", N, C), 0),
        op("<=", Call("cdiv", (C, A), I32), 64),
    ]
)


@settings(max_examples=40, deadline=None)
@given(st.lists(_CONDITIONS, max_size=4, unique_by=id), st.sampled_from([256, 512, 96]))
def test_feasible_set_is_the_filtered_product(conditions: list[Expr], n: int) -> None:
    def keeps(values: tuple[int, ...]) -> bool:
        env = {**dict(zip(_DOMAINS, values)), "n": n}
        return all(evaluate(c, env) is None or evaluate(c, env) for c in conditions)

    expected = {v for v in itertools.product(*_DOMAINS.values()) if keeps(v)}
    knobs = [knob(name, *d) for name, d in _DOMAINS.items()]
    if not expected:
        with pytest.raises(KtcError, match="E-SPACE-EMPTY"):
            Space(knobs, conditions, {"n": n})
        return
    space = Space(knobs, conditions, {"n": n})
    assert space.size == len(expected)
    assert {tuple(c.values()) for c in space} == expected
    assert all(space.find(space.config(i)) == i for i in range(space.size))
    for values in itertools.product(*_DOMAINS.values()):
        config = dict(zip(_DOMAINS, values))
        assert space.contains(config) == (values in expected) == (not space.why_not(config))


def test_every_scenario_must_hold() -> None:
    divides = op("==", op("%", N, op("*", A, B)), 0)
    space = Space([knob("A", 1, 2, 4), knob("B", 1, 3)], [divides], [{"n": 12}, {"n": 8}])
    assert [tuple(c.values()) for c in space] == [(1, 1), (2, 1), (4, 1)]


def test_wide_products_do_not_wrap() -> None:
    huge = op("<=", op("*", op("*", A, A), op("*", A, A)), Const(1 << 40, I64))
    assert [c["A"] for c in Space([knob("A", 1000, 1 << 20)], [huge])] == [1000]


# --------------------------------------------------------------------------------------------------------- the picks


def test_neighbours_change_one_knob_nearest_first() -> None:
    space = Space([knob("A", 1, 2, 4, 8), knob("B", 1, 2, 4)], [op("<=", op("*", A, B), 8)])
    found = space.neighbours({"A": 2, "B": 2})
    assert found[:4] == [{"A": 1, "B": 2}, {"A": 4, "B": 2}, {"A": 2, "B": 1}, {"A": 2, "B": 4}]
    assert {"A": 8, "B": 2} not in found and len(found) == 4


def test_default_moves_to_the_nearest_feasible_tuple() -> None:
    space = Space([knob("A", 1, 2, 4, 8, default=8), knob("B", 1, 2, 4, default=2)], [op("<=", op("*", A, B), 8)])
    assert space.default() in ({"A": 4, "B": 2}, {"A": 8, "B": 1})


def test_inactive_knobs_have_one_value() -> None:
    space = Space([knob("USE", 0, 1), knob("PAD", 0, 1, 2)], active={"PAD": Binary("!=", Knob("USE"), i32(0))})
    assert [tuple(c.values()) for c in space] == [(0, 0), (1, 0), (1, 1), (1, 2)]
    assert space.canonical({"USE": 0, "PAD": 2}) == {"USE": 0, "PAD": 0}


def test_bound_knobs_keep_their_value() -> None:
    assert [c["A"] for c in Space([KnobDecl("A", (1, 2, 4), 1, value=4), knob("B", 1, 2)])] == [4, 4]


def test_samples_are_distinct_and_feasible_in_a_space_too_large_to_number() -> None:
    space = Space([knob(f"K{i}", *range(64)) for i in range(12)], [op("<", Knob("K0"), Knob("K1"))])
    assert space.size == 64 * 63 // 2 * 64**10 > 1 << 64
    picks = space.sample_indices(np.random.default_rng(0), 50)
    assert len(set(picks)) == 50
    for i in picks:
        config = space.config(i)
        assert config["K0"] < config["K1"] and space.find(config) == i


def test_sampling_is_uniform() -> None:
    space = Space([knob("A", 1, 2, 4, 8), knob("B", 1, 2, 4)], [op("<=", op("*", A, B), 8)])
    rng = np.random.default_rng(1)
    counts = np.bincount([space.find(space.sample(rng)) for _ in range(9000)], minlength=space.size)
    assert space.size == 9 and counts.min() > 850 and counts.max() < 1150


def test_why_not_names_the_constraint() -> None:
    space = Space([knob("A", 1, 8), knob("B", 1, 4)], [op("<=", op("*", A, B), 8)])
    assert space.why_not({"A": 8, "B": 4}) == ["violates ((A * B) <= 8)"]
    assert "domain" in space.why_not({"A": 3, "B": 4})[0]
    assert "no knob" in space.why_not({"A": 1, "B": 1, "Z": 1})[0]


def test_impossible_constraints_say_which() -> None:
    with pytest.raises(KtcError, match=r"\(A \* B\) > 99"):
        Space([knob("A", 1, 8), knob("B", 1, 4)], [op(">", op("*", A, B), 99)])
    with pytest.raises(KtcError, match="E-SPACE-EMPTY"):
        Space([knob("A", 1)], [op(">", N, 5)], {"n": 3})


# -------------------------------------------------------------------------------------------------- Python conditions


@pytest.mark.parametrize(
    "text",
    [
        "A % ((B * C)/2) == 0",
        "not (A == 8 and B == 1)",
        "1 <= A <= B or C != 7",
        "min(A, B, C) > 1 and max(A, B) * 2 ** 2 < 40",
        "int(A / 3) == B - 2",
        "abs(B - A) // 2 < 3",
        "(A if B > 1 else C) > 2",
    ],
)
def test_conditions_mean_what_python_means(text: str) -> None:
    test = from_python(text)
    for a, b, c in itertools.product((1, 2, 4, 8), (1, 2, 3), (2, 7)):
        expected = {"A": a, "B": b, "C": c}
        columns = {n: np.array([v]) for n, v in expected.items()}
        assert bool(test.holds(columns)[0]) == bool(eval(text, {}, expected))  # the test's own literals


@pytest.mark.parametrize("text", ["__import__('os')", "A.real", "[A]", "A <", "f(A)", "lambda: 1", "'a' == A"])
def test_conditions_are_not_code(text: str) -> None:
    with pytest.raises(KtcError, match="E-CONDITION-SYNTAX"):
        from_python(text)


@settings(max_examples=200, deadline=None)
@given(st.recursive(st.one_of(st.sampled_from([A, B, C]), st.integers(0, 40).map(i32)), _bigger, max_leaves=5))
def test_python_text_has_the_same_value(e: Expr) -> None:
    if any(isinstance(x, Binary) and x.op in ("<<", ">>") for x in _walk(e)):
        return
    env = {"A": 8, "B": 3, "C": 7}
    expected = evaluate(e, env)
    if expected is None:
        return
    text = python_text(e)
    assert bool(eval(text, {"min": min, "max": max, "abs": abs, "int": int}, env)) == bool(expected)
    assert bool(from_python(text).holds({n: np.array([v]) for n, v in env.items()})) == bool(expected)


# ------------------------------------------------------------------------------------------------------------- speed


def test_a_gemm_space_takes_milliseconds(soon: Callable[..., None]) -> None:
    """CLBlast's GEMM conditions over 4·10⁷ tuples; far from the limit so that a busy machine does not fail it."""
    sizes = {"MWG": (16, 32, 64, 128, 256), "NWG": (16, 32, 64, 128, 256), "KWG": (8, 16, 32, 64), "KWI": (2, 4, 8)}
    dims = dict.fromkeys(("MDIMC", "NDIMC", "MDIMA", "NDIMB"), (4, 8, 16, 32))
    rest = {
        "VWM": (1, 2, 4, 8),
        "VWN": (1, 2, 4, 8),
        "STRM": (0, 1),
        "STRN": (0, 1),
        "SA": (0, 1),
        "SB": (0, 1),
        "KREG": (1, 2),
    }
    conditions = [
        "KWG % KWI == 0",
        "MWG % (MDIMC * VWM) == 0",
        "NWG % (NDIMC * VWN) == 0",
        "MWG % (MDIMA * VWM) == 0",
        "NWG % (NDIMB * VWN) == 0",
        "KWG % ((MDIMC * NDIMC)/MDIMA) == 0",
        "KWG % ((MDIMC * NDIMC)/NDIMB) == 0",
    ]
    knobs = [knob(n, *d) for n, d in {**sizes, **dims, **rest}.items()]
    soon(lambda: Space(knobs, [from_python(c) for c in conditions]), 2)
    space = Space(knobs, [from_python(c) for c in conditions])
    assert space.cartesian == 39_321_600 and space.size > 10_000_000
