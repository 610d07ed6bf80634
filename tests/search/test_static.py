"""L0: what no instance that can be run would show."""

from __future__ import annotations

import pytest
from gate_samples import _workload
from ktc.agent.bench import strict
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.workload import ArgSpec
from ktc.passes.language import parse_script
from ktc.passes.pipeline import apply_script
from ktc.search.verification import ranges
from ktc.search.verification.job import Job
from ktc.search.verification.ranges import wraps
from ktc.search.verification.static import static

WIDE = """
kernel rows(y: f32* restrict, x: f32 const* restrict, n: i32 range 1..1048576, d: i32 range 1..65536)
  launch grid(n) block(256)
  for i: i64 = i64(threadIdx.x); i < i64(d); i + 256_i64
    let at: i64 = i64(blockIdx.x) * i64(d) + i
    y[at] = exp(x[at])
"""
NARROW = WIDE.replace("let at: i64 = i64(blockIdx.x) * i64(d) + i", "let at: i32 = i32(blockIdx.x) * d + i32(i)")
WORKLOAD = _workload(
    "rows",
    (
        ArgSpec("y", "f32", "out", ("n", "d")),
        ArgSpec("x", "f32", "in", ("n", "d")),
        ArgSpec("n", "i32", "scalar", value="n", range=(1, 1 << 20)),
        ArgSpec("d", "i32", "scalar", value="d", range=(1, 1 << 16)),
    ),
    {"n": 64, "d": 4096},
)
CASES = {
    "a narrowed index": (NARROW, "overflow"),
    "an approximation nobody declared": (WIDE.replace("exp(", "fast_exp("), "approximate"),
    "a cached load of written memory": (WIDE.replace("exp(x[at])", "exp(x[at]) + y.ldg[at]"), "race"),
}


def judged(candidate: str, original: str = WIDE):
    return static(Job(parse_kernel(original), parse_kernel(candidate), None, [], WORKLOAD))  # type: ignore[arg-type]


def test_the_right_program_passes() -> None:
    assert judged(WIDE).status == "pass"


@pytest.mark.parametrize("what", CASES)
def test_what_instances_do_not_show(what: str) -> None:
    text, kind = CASES[what]
    found = judged(text)
    assert found.status == "fail" and found.failure is not None and found.failure.kind == kind


def test_what_the_original_risks_its_rewrite_may() -> None:
    assert judged(NARROW, NARROW).status == "pass"


def test_a_guard_narrows_what_it_compares() -> None:
    text = """
kernel k(y: f32* restrict, n: i32 range 1..2147483600)
  launch grid(cdiv(n, 256)) block(256)
  let i: i32 = i32(blockIdx.x) * 256 + i32(threadIdx.x)
  if i < n
    y[i + 40] = 1.0
"""
    names = {"n": (1, 2147483600)}
    assert wraps(parse_kernel(text.replace("if i < n", "if i <= 0")), names) == []
    assert wraps(parse_kernel(text), {"n": (1, 1 << 30)}) == []
    assert [w.high for w in wraps(parse_kernel(text.replace("i + 40", "i + 100")), names)] == [2147483599 + 100]


def test_what_a_planner_approximates_is_declared_and_held_to_the_originals_accuracy() -> None:
    fast = apply_script(parse_kernel(WIDE), parse_script("fast-math{fns=exp}")).kernel
    assert fast.may_lose_accuracy and not strict(fast).may_lose_accuracy
    assert judged(print_kernel(strict(fast))).status == "pass"
    assert strict(plain := parse_kernel(WIDE)) is plain


def test_what_is_known_of_the_original_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    visit = ranges._visit

    def counted(body, scope, changed):
        asked.append(scope.kernel)
        return visit(body, scope, changed)

    monkeypatch.setattr(ranges, "_visit", counted)
    original, candidates = parse_kernel(WIDE), [parse_kernel(WIDE) for _ in range(3)]
    for c in candidates:
        static(Job(original, c, None, [], WORKLOAD))  # type: ignore[arg-type]
    bodies, environments = 2, 2  # the loop's is visited for itself; the declared ranges, and the one scenario
    assert sum(k is original for k in asked) <= bodies * environments
    assert all(sum(k is c for k in asked) <= bodies * environments for c in candidates)
