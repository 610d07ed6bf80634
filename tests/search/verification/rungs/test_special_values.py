"""Special values in the gate: where the original has an answer on them, a candidate has the same one."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.kernel import Kernel
from ktc.ir.workload import ArgSpec, Workload
from ktc.ir.workload.workloads import SPECIAL_VALUES
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.scalar.fast_math import FAST, GIVES_UP
from ktc.search.verification import verify
from ktc.search.verification.floats.special_values import TURNS, VALUES, SpecialRows, unlike
from ktc.search.verification.job import Job
from ktc.search.verification.oracle import oracle_for
from ktc.search.verification.rungs.special_rung import kinds_for
from tests.paths import KERNELS
from tests.search.verification.gate_samples import _workload, scalar

WORK = _workload(
    "rows",
    (
        ArgSpec("y", "f32", "out", ("n",)),
        ArgSpec("x", "f32", "in", ("n", "d")),
        ArgSpec("d", "i32", "scalar", value="d", range=(1, 24)),
        scalar("n", "n"),
    ),
    {"n": 8, "d": 24},
)
HEAD = """
__global__ void rows(float* __restrict__ y, const float* __restrict__ x, int d, int n) {
  int r = blockIdx.x * 32 + threadIdx.x;
  if (r < n) {
    float m = -INFINITY, s = 0.0f;
"""
TAIL = """
  }
}
void launch(float* y, const float* x, int d, int n) { rows<<<(n + 31) / 32, 32>>>(y, x, d, n); }
"""
TWO_SWEEPS = """
    for (int i = 0; i < d; ++i) m = fmaxf(m, x[r * d + i]);
    for (int i = 0; i < d; ++i) s += expf(x[r * d + i] - m);
    y[r] = logf(s) + m;
"""
ONLINE = """
    for (int i = 0; i < d; ++i) {
      float v = x[r * d + i];
      if (m < v) { s = s * expf(m - v) + 1.0f; m = v; }
      else if (v > -INFINITY) s += expf(v - m);
    }
    y[r] = logf(s) + m;
"""
LARGEST = """
    for (int i = 0; i < d; ++i) m = fmaxf(m, x[r * d + i]);
    y[r] = m;
"""


def kernel(body: str) -> Kernel:
    k = load(HEAD + body + TAIL)
    return k.with_(flags=k.flags | {"reassociates"})


def judged(original: str, candidate: str, work: Workload = WORK):
    return verify(kernel(original), kernel(candidate), work, layers=("float",), count=3)


def test_an_online_softmax_that_rows_of_infinities_spoil_is_rejected() -> None:
    """With `<=`, minus infinity after minus infinity gives exp(-inf + inf)."""
    assert judged(TWO_SWEEPS, ONLINE.replace("m < v", "m <= v")).status == "REJECTED"


NAN = "for (int i = 0; i < d; ++i) { float v = x[r * d + i]; m = PICK; }\n    y[r] = m;"


@pytest.mark.parametrize(
    ("pick", "right"),
    [("fmaxf(v, m)", True), ("v > m ? v : m", True), ("m > v ? m : v", False), ("!(v <= m) ? v : m", False)],
)
def test_a_maximum_that_a_nan_gets_into_is_rejected(pick: str, right: bool) -> None:
    verdict = judged(LARGEST, NAN.replace("PICK", pick))
    assert verdict.ok == right, verdict
    assert right or "special values" in verdict.reason


def test_a_workload_may_exclude_values() -> None:
    wrong = NAN.replace("PICK", "m > v ? m : v")
    for asked, right in (("none", True), (["-inf", "-0"], True), (["nan"], False), ("all", False)):
        work = dataclasses.replace(WORK, check={"special": asked})
        assert judged(LARGEST, wrong, work).ok == right


def test_a_bound_that_infinity_begins_is_seen_whatever_comes_after() -> None:
    """A sum that skips what is infinite."""
    sums = "for (int i = 0; i < d; ++i) s += x[r * d + i];\n    y[r] = s;"
    skips = sums.replace("s += x[r * d + i]", "s += isinf(x[r * d + i]) ? 0.0f : x[r * d + i]")
    verdict = judged(sums, skips)
    assert verdict.status == "REJECTED" and "inf" in verdict.reason
    backwards = "for (int i = d - 1; i >= 0; --i) s += x[r * d + i];\n    y[r] = s;"
    assert judged(sums, backwards).ok


@pytest.mark.parametrize(
    ("before", "says"),
    [
        ("float z = x[s != s ? n * d : r * d]; if (z == 7.0f) s = z;", "outside"),
        ("if (s > 1e30f) __trap();", "traps"),
        ("float z = x[s != s ? n * d - 1 : r * d]; if (z == 7.0f) s = s + 0.0f;", ""),
    ],
)
def test_what_they_lead_to_is_no_access_out_of_bounds(before: str, says: str) -> None:
    """No run is sanitized here, and yet."""
    sums = "for (int i = 0; i < d; ++i) s += x[r * d + i]; y[r] = s;"
    verdict = judged(sums, sums.replace("y[r]", before + " y[r]"))
    assert (verdict.status == "REJECTED" and says in verdict.reason) if says else verdict.ok, verdict


SCALED = "s = x[r * d]; y[r] = ANSWER;"


@pytest.mark.parametrize(
    ("answer", "other", "right"),
    [
        ("s + 0.0f", "s", False),
        ("s > 0.0f ? s : 0.0f", "s >= 0.0f ? s : 0.0f", False),
        ("fabsf(s)", "s < 0.0f ? -s : s", False),
        ("fmaxf(s, 1.0f)", "s < 1.0f ? 1.0f : s", False),
        ("s * 2.0f", "s + s", True),
    ],
)
def test_what_one_expression_computes_keeps_nan_and_the_sign_of_zero(answer: str, other: str, right: bool) -> None:
    """Also where a candidate may add up in another order: nothing is added up."""
    wide = dataclasses.replace(WORK, scenarios=(dataclasses.replace(WORK.scenarios[0], sizes={"n": 70, "d": 4}),))
    assert judged(SCALED.replace("ANSWER", answer), SCALED.replace("ANSWER", other), wide).ok == right


def test_what_is_multiplied_by_zero_beyond_a_column_is_seen() -> None:
    """Every second row of a matrix is special, and so is the sum of each of its columns: the last row alone is not."""
    columns = "for (int i = 0; i < n; ++i) s += x[i * d + r % d]; y[r] = s;"
    beyond = columns.replace("y[r] = s", "y[r] = s + 0.0f * x[(n - 1) * d + r % d]")
    verdict = judged(columns, beyond)
    assert verdict.status == "REJECTED" and "expected inf" in verdict.reason
    assert judged(columns, columns.replace("int i = 0; i < n; ++i", "int i = n - 1; i >= 0; --i")).ok


def test_names_are_the_same_everywhere(tmp_path: Path) -> None:
    assert set(SPECIAL_VALUES) == set(VALUES) == {kind for _, kind in TURNS}
    assert set(GIVES_UP) == set(FAST) and set().union(*GIVES_UP.values()) <= set(SPECIAL_VALUES)
    text = (KERNELS / "training/softmax/workload.toml").read_text()
    text = text.replace("[check]", '[check]\nspecial = ["-inf", "huge"]')
    (tmp_path / "workload.toml").write_text(text)
    with pytest.raises(KtcError, match="special is"):
        Workload.load(tmp_path)


def test_fast_math_gives_up_what_its_functions_give_up() -> None:
    work = Workload.load(KERNELS / "training/softmax")
    original = work.load_kernel("f32")
    quick = apply_script(original, parse_script("fast-math{fns=exp,div}")).kernel
    oracle = oracle_for(original, work, "f32", 0)
    assert kinds_for(Job(original, original, oracle, [], work)) == SPECIAL_VALUES
    given_up = GIVES_UP["exp"] | GIVES_UP["div"]
    assert set(kinds_for(Job(original, quick, oracle, [], work))) == set(SPECIAL_VALUES) - given_up


@pytest.mark.parametrize("shape", [(1, 4), (40, 9), (7,), (3, 1), (2, 3, 5)])
def test_special_rows_stand_among_ordinary_ones(shape: tuple[int, ...]) -> None:
    x = np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)
    seen = set()
    for phase in range(len(TURNS)):
        y = SpecialRows(SPECIAL_VALUES, phase).put(x.copy(), np.dtype(np.float32), 0)
        assert y.shape == x.shape
        changed = (y != x).reshape(-1, shape[-1]).any(axis=1)
        assert changed[0] and not changed[1::2].any()
        seen |= {str(v) for v in np.float32(y[y != x])}
    assert {"inf", "-inf", "nan", "-0.0"} <= seen and len(seen) == len(SPECIAL_VALUES)


def test_what_the_original_leaves_open_is_open() -> None:
    a = np.float32([np.nan, np.inf, np.inf, 1.0, 1.0, 1e-45])
    b = np.float32([5.0, np.inf, 1.0, np.nan, 1.001, 0.0])
    y = np.float64([np.nan, np.inf, np.inf, 1.0, 1.0, 1e-45])

    def wrong(exact: np.ndarray, bound: float) -> list[bool]:
        return unlike(a, b, lambda: exact, lambda: np.full(6, bound)).tolist()

    assert wrong(y, 1e-6) == [False, False, True, True, True, False]
    assert wrong(y, 1e-2) == [False, False, True, True, False, False]
    overflowed = np.where(np.isinf(y), 1e39, y)
    assert wrong(overflowed, 1e-2) == [False, False, False, True, False, False]


def test_an_overflow_of_another_order_of_the_same_sums_is_no_mistake() -> None:
    """Minus infinity and a partial sum of the largest numbers: NaN in some orders, and not in double."""
    a = np.float32([-np.inf, -np.inf, 2.0, -np.inf])
    b = np.float32([np.nan, np.nan, np.inf, 5.0])
    y, bound = np.float64([-np.inf, -np.inf, 2.0, -np.inf]), np.full(4, 1e-6)
    in_double = np.float64([-np.inf, np.nan, 2.0, 5.0])
    assert unlike(a, b, lambda: y, lambda: bound).tolist() == [True, True, True, True]
    assert unlike(a, b, lambda: y, lambda: bound, lambda: in_double).tolist() == [False, True, False, True]


ADDING = """
__global__ void add(float* y, const float* __restrict__ x, int n) {
  int i = blockIdx.x * 32 + threadIdx.x;
  PLACE atomicAdd(&y[k % (n / 4)], VALUE);
}
void launch(float* y, const float* x, int n) { add<<<(n + 31) / 32, 32>>>(y, x, n); }
"""
SUMS = _workload(
    "add",
    (ArgSpec("y", "f32", "inout", ("rows",)), ArgSpec("x", "f32", "in", ("rows", "4")), scalar("n", "4 * rows")),
    {"rows": 48},
)


@pytest.mark.parametrize(
    ("value", "right"),
    [("x[k]", True), ("isinf(x[k]) ? 0.0f : x[k]", False), ("x[k] == -INFINITY ? INFINITY : x[k]", False)],
)
def test_overflows_of_atomics_are_those_of_no_order(value: str, right: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large number twice, then minus infinity, is NaN; minus infinity first is minus infinity."""

    def put(self: SpecialRows, x: np.ndarray, dtype: np.dtype, shift: int) -> np.ndarray:
        bins, out = x.size // 4, x.copy()
        if x.ndim == 2:
            out.flat[0] = -np.inf  # alone with numbers, then beside the largest in every order
            top = np.finfo(dtype).max
            for b, terms in enumerate(itertools.permutations((-np.inf, top, top, 1.0)), 1):
                out.flat[[b, b + bins, b + 2 * bins, b + 3 * bins]] = terms
        return out

    monkeypatch.setattr(SpecialRows, "put", put)
    original, candidate = (
        load(ADDING.replace("PLACE", p).replace("VALUE", v))
        for p, v in (
            ("for (int k = i; k < n; k += n)", "x[k]"),
            ("for (int k = i; k < n && i < n / 4; k += n / 4)", value),
        )
    )
    verdict = verify(original, candidate, SUMS, layers=("float",))
    assert verdict.ok == right, verdict
