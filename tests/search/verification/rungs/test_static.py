"""L0: what no instance that can be run would show."""

from __future__ import annotations

import pytest

from ktc.agent.bench import strict
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.workload import ArgSpec
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.search.verification.integers import interval_arithmetic, ranges
from ktc.search.verification.integers.ranges import wraps
from ktc.search.verification.job import Job
from ktc.search.verification.rungs.static import static
from tests.search.verification.gate_samples import _workload

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


@pytest.mark.parametrize(("most", "status"), [(2130706431, "pass"), (4000000000, "unknown")])
def test_a_guard_excuses_only_the_index_that_it_bounds(most: int, status: str) -> None:
    """What may fail says nothing by being there: with elements up to four billion, 32 bits wrap."""
    head, body = NARROW.split("\n  for ", 1)
    guarded = f"{head}\n  assume n * d as i64 + d <= {most}_i64 origin guessed\n  for {body}"
    assert judged(guarded).status == status


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


INDEX = """
kernel k(y: f32* restrict, n: i32 range 1..2147483647, t: i32 range 1..1024)
  launch grid(cdiv(n, 256)) block(256)
  let i: u32 = blockIdx.x * 256_u32 + threadIdx.x
  if i < u32(n)
    let at: u32 = AT
    y[at] = 1.0
"""
SMALL = _workload(
    "k",
    (
        ArgSpec("y", "f32", "out", ("n + 4096",)),
        ArgSpec("n", "i32", "scalar", value="n", range=(1, (1 << 31) - 1)),
        ArgSpec("t", "i32", "scalar", value="t", range=(1, 1024)),
    ),
    {"n": 4096, "t": 16},
)
INDICES = {
    "i": "pass",
    "i - i / u32(t) * u32(t)": "pass",  # i % t
    "i - u32(t) * (i / u32(t))": "pass",
    "i + 64_u32 - 64_u32": "pass",
    "i * 2_u32 / 2_u32": "pass",  # i stays below 2^31
    "i * 4_u32 / 4_u32": "fail",
    "i - 1_u32 + 1_u32": "unknown",  # wraps there and back: right, and no interval says so
    "(i ^ 1_u32) - (i ^ 1_u32)": "pass",  # nothing is known of it, and nothing claimed
    "i - i / u32(t) * u32(t + 1)": "fail",
    "u32(i32(i) + 1 - 1)": "pass",
    "u32(i32(i) + 1024 - 1024)": "fail",
}


@pytest.mark.parametrize("index", INDICES)
def test_a_wrapping_index_fails_where_a_thread_shows_it_and_is_doubted_where_none_does(index: str) -> None:
    original = INDEX.replace("AT", "i").replace("u32 = i\n", "u32 = i % 7_u32\n")
    job = Job(parse_kernel(original), parse_kernel(INDEX.replace("AT", index)), None, [], SMALL)  # type: ignore[arg-type]
    found = static(job)
    assert found.status == INDICES[index], found.detail
    if found.status == "fail":
        assert found.failure is not None and "block (" in found.failure.message and " n=" in found.failure.message


def test_a_doubt_about_the_original_is_no_licence_for_what_is_shown_of_its_rewrite() -> None:
    doubted = INDEX.replace("AT", "i - 1_u32 + 1_u32")
    job = Job(parse_kernel(doubted), parse_kernel(INDEX.replace("AT", "i * 4_u32 / 4_u32")), None, [], SMALL)  # type: ignore[arg-type]
    assert static(job).status == "fail"
    same = Job(parse_kernel(doubted), parse_kernel(doubted), None, [], SMALL)  # type: ignore[arg-type]
    assert static(same).status == "pass"


LOOP = """
kernel rows(y: f32* restrict, x: f32 const* restrict, n: i32 range 1..1048576, d: i32 range 1..65536)
  launch grid(n) block(256)
  for i: i32 = i32(threadIdx.x); i < d; i + 256
    let at: i64 = i64(i) + i64(blockIdx.x) * i64(d)
    let far: i32 = i * 40000
    if FOUND
      y[at] = exp(x[i64(far) - i64(far) + at])
"""


@pytest.mark.parametrize(
    ("guard", "status"),
    (
        ("i >= 0", "fail"),  # in the last round of the first block
        ("i < 100", "fail"),  # it is computed before the guard
        ("x[at] > 0.0", "fail"),
    ),
)
def test_the_last_round_of_a_loop_is_followed(guard: str, status: str) -> None:
    assert judged(LOOP.replace("FOUND", guard)).status == status


@pytest.mark.parametrize(("guard", "status"), (("x[0] > 0.0", "unknown"), ("d > 0", "fail"), ("d > 70000", "pass")))
def test_what_hangs_on_data_is_not_known_to_happen(guard: str, status: str) -> None:
    text = LOOP.replace(
        "    let far: i32 = i * 40000\n    if FOUND\n", f"    if {guard}\n      let far: i32 = i * 40000\n"
    )
    assert judged(text).status == status


def test_large_quotients_are_exact() -> None:
    assert interval_arithmetic.BINARY["/"]((-(1 << 62) - 1, (1 << 62) + 3), (1, 1)) == (-(1 << 62) - 1, (1 << 62) + 3)


BESIDE = """
kernel k(y: f32* restrict, z: f32* restrict, n: i32 range 1..4096, d: i32 range 1..4096)
  launch grid(cdiv(n * d, 64) + cdiv(n, 64)) block(64)
  let b: i32 = i32(blockIdx.x)
  if b < cdiv(n * d, 64)
    let i: i32 = b * 64 + i32(threadIdx.x)
    if i < n * d
      y[i] = 1.0
  else
    let r: i32 = (b - cdiv(n * d, 64)) * 64 + i32(threadIdx.x)
    if r < n
      z[r * d] = 2.0
"""
ALONE = """
kernel k(y: f32* restrict, z: f32* restrict, n: i32 range 1..4096, d: i32 range 1..4096)
  launch grid(cdiv(n * d, 64)) block(64)
  let i: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
  if i < n * d
    y[i] = 1.0
    if i < n
      z[i * d] = 2.0
"""
BOTH = _workload(
    "k",
    (
        ArgSpec("y", "f32", "out", ("n * d",)),
        ArgSpec("z", "f32", "out", ("n * d",)),
        ArgSpec("n", "i32", "scalar", value="n", range=(1, 1 << 12)),
        ArgSpec("d", "i32", "scalar", value="d", range=(1, 1 << 12)),
    ),
    {"n": 64, "d": 64},
)


@pytest.mark.parametrize(("guard", "status"), [("if b < cdiv(n * d, 64)", "pass"), ("if b < cdiv(n, 64)", "fail")])
def test_blocks_behind_others_are_counted_from_zero(guard: str, status: str) -> None:
    """Intervals alone do not know that ``b`` is no less than what is taken from it."""
    original, candidate = parse_kernel(ALONE), parse_kernel(BESIDE.replace("if b < cdiv(n * d, 64)", guard))
    assert static(Job(original, candidate, None, [], BOTH)).status == status  # type: ignore[arg-type]


COUNT = """
kernel rows(y: f32* restrict, x: f32 const* restrict, n: i32 range 1..1048576, d: i32 range 1..65536)
  launch grid(n) block(1)
  var c: i32 = 0
  for i = 0; i < d; i + 1
    c = c + i32(x[i] > 0.0)
  y[blockIdx.x] = f32(c)
"""


def test_a_counter_that_only_long_rows_fill_is_a_doubt() -> None:
    short = COUNT.replace("var c: i32 = 0", "var c: u16 = 0_u16")
    short = short.replace("c + i32(x[i] > 0.0)", "u16(i32(c) + i32(x[i] > 0.0))")
    doubt = judged(short, COUNT)
    assert doubt.status == "unknown" and "'c' keeps its sums within u16" in doubt.detail
    assert judged(short, short).status == "pass"
    assert judged(COUNT, short).status == "pass"


CLAMPED = """
kernel rows(y: f32* restrict, x: f32 const* restrict, n: i32 range 1..1048576, d: i32 range 1..65536)
  launch grid(n) block(256)
  for i: i64 = i64(threadIdx.x); i < i64(d); i + 256_i64
    let at: i64 = i64(blockIdx.x) * i64(d) + i
    let r: i32 = i32(rint(x[at]))
    y[at] = f32(i8(r < -128 ? -128 : r > 127 ? 127 : r))
"""


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ("i8(r < -128 ? -128 : r > 127 ? 127 : r)", "pass"),
        ("i8(r < -128 ? -128 : r > 255 ? 255 : r)", "unknown"),
        ("i8(d < -128 ? -128 : d > 127 ? 127 : d + r)", "unknown"),
        ("i8(r)", "unknown"),
    ],
)
def test_a_clamp_that_the_original_stores_may_be_in_a_variable(value: str, status: str) -> None:
    """Of the same numbers, of the same arguments: anything else in fewer bits is a doubt."""
    held = f"let narrow: i8 = {value}\n    y[at] = f32(narrow)"
    text = CLAMPED.replace("y[at] = f32(i8(r < -128 ? -128 : r > 127 ? 127 : r))", held)
    assert judged(text, CLAMPED).status == status
