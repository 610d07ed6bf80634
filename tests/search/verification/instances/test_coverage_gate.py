"""What instances must exercise before a candidate is accepted, and what happens where they cannot."""

from __future__ import annotations

import dataclasses
import importlib

import numpy as np
import pytest

from ktc.ir.interp import FUEL, run
from ktc.ir.nodes import Atomic, Binary, Const, For, HwIndex, If, Store, fresh, i32
from ktc.ir.text import parse_kernel
from ktc.ir.types import U32
from ktc.ir.walk import map_body, map_expr, rename, walk
from ktc.ir.workload import ArgSpec
from ktc.search.verification import verify
from ktc.search.verification.instances.instances import MAX_ELEMENTS, Maker, instances
from ktc.search.verification.instances.sizes import BEYOND
from ktc.search.verification.integers.first_thread import FirstThread
from ktc.search.verification.integers.ranges import dead, values, wraps
from ktc.search.verification.job import Job
from ktc.search.verification.ladder import not_exercised
from ktc.search.verification.oracle import oracle_for
from ktc.search.verification.rungs import fewer_blocks
from ktc.search.verification.rungs.static import static
from tests.ir.interp.interp_samples import MATMUL_PARALLEL, kernel
from tests.mutation.campaign import OPERATORS
from tests.mutation.operators.operators import apply, places
from tests.mutation.subjects import replayed
from tests.search.verification.gate_samples import COPY, MATMUL, ROWS, _workload

exact = importlib.import_module("ktc.search.verification.rungs.exact")
coverage = importlib.import_module("ktc.search.verification.instances.coverage")
reach = importlib.import_module("ktc.search.verification.instances.reach")

PLAIN = """\
kernel copy(y: f16* align 16, x: f16 const* align 16, d: i32)
  launch grid(cdiv(d, 64)) block(64)
  let i: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
  if i < d
    y[i] = x[i]
"""

PERSISTENT = """\
kernel copy(y: f16* align 16, x: f16 const* align 16, d: i32)
  launch grid(700) block(64)
  for i = i32(blockIdx.x) * 64 + i32(threadIdx.x); i < d; i + 44800
    y[i] = x[i]
"""

WRONG = {
    "stride too long": ("i + 44800", "i + 44864"),
    "stride doubled": ("i + 44800", "i + 89600"),
    "a block too few": ("grid(700)", "grid(699)"),
    "half the blocks": ("grid(700)", "grid(350)"),
    "the start of the second round alone": ("    y[i] = x[i]", "    if i < 44864\n      y[i] = x[i]"),
}


def test_a_persistent_loop_goes_round_twice() -> None:
    verdict = verify(kernel(PLAIN), kernel(PERSISTENT), COPY)
    assert verdict.ok, verdict


@pytest.mark.parametrize("name", WRONG)
def test_what_only_the_second_round_shows(name: str) -> None:
    verdict = verify(kernel(PLAIN), kernel(PERSISTENT, WRONG[name]), COPY)
    assert verdict.status == "REJECTED" and verdict.layer == "exact", verdict


def test_a_second_round_that_never_ends_is_wrong_not_merely_long() -> None:
    wait = "    var t: i32 = 0\n    for j = i; j >= 44800; j + t\n      t = 0\n"
    stuck = kernel(PERSISTENT, ("    y[i]", f"{wait}    y[i]"))
    verdict = verify(kernel(PLAIN), stuck, COPY)
    assert verdict.status == "REJECTED" and "changes nothing that could end it" in verdict.reason, verdict


def test_a_run_that_was_cut_short_has_exercised_nothing(monkeypatch) -> None:
    monkeypatch.setattr(importlib.import_module("ktc.search.verification.job"), "FUEL", FUEL // 20)
    monkeypatch.setattr(exact, "MORE_STEPS", exact.MORE_STEPS // 20)
    wait = "    var t: i32 = 0\n    for j = 0; j < (i < 44800 ? 0 : 100000); j + 1\n      t = t + j\n"
    wrong = kernel(PERSISTENT, ("    y[i] = x[i]", f"{wait}    y[i] = (i < 44800 ? x[i] : x[0])"))
    verdict = verify(kernel(PLAIN), wrong, COPY)
    assert verdict.status == "UNKNOWN", verdict


def test_all_of_the_first_round_where_no_size_has_a_second() -> None:
    work = dataclasses.replace(
        COPY, args=tuple(dataclasses.replace(a, range=(1, 44800)) if a.name == "d" else a for a in COPY.args),
        scenarios=(dataclasses.replace(COPY.scenarios[0], sizes={"d": 40000}),),
    )  # fmt: skip
    at_most = ("d: i32)", "d: i32 range 1..44800)")
    plain = kernel(PLAIN, at_most)
    assert verify(plain, kernel(PERSISTENT, at_most), work).ok
    for wrong in ("a block too few", "half the blocks"):
        assert verify(plain, kernel(PERSISTENT, at_most, WRONG[wrong]), work).status == "REJECTED", wrong


def test_a_loop_that_no_affordable_size_repeats_is_unknown(monkeypatch) -> None:
    monkeypatch.setattr(coverage, "SECOND_ROUND", 0)
    monkeypatch.setattr(fewer_blocks, "settled", lambda job, loops: frozenset())
    verdict = verify(kernel(PLAIN), kernel(PERSISTENT), COPY)
    assert verdict.status == "UNKNOWN" and "went round twice" in verdict.reason, verdict


SCALED = """\
kernel scale(y: f32*, x: f32 const*, w: f32 const*, d: i32, n: i32)
  launch grid(n) block(512)
  let row: i32 = i32(blockIdx.x) * d
  for i = i32(threadIdx.x); i < d; i + 512
    y[row + i] = x[row + i] * w[i]
"""
LOOP = SCALED[SCALED.index("  for") :].replace("\n  ", "\n    ")
PEELED = f"{SCALED[: SCALED.index('  for')]}  if i32(blockIdx.x) < n - 47\n  {LOOP}  else\n  {LOOP}"


@pytest.mark.parametrize(("stride", "status"), [("512", "TESTED"), ("1024", "REJECTED"), ("513", "REJECTED")])
def test_a_second_round_that_takes_two_sizes(stride: str, status: str) -> None:
    """Long rows alone go round twice where only many of them come."""
    peeled = PEELED.replace("i + 512", f"i + {stride}", 1)
    verdict = verify(kernel(SCALED), kernel(peeled), ROWS)
    assert verdict.status == status, verdict


TILED = """\
kernel copy(y: f16* align 16, x: f16 const* align 16, d: i32)
  launch grid(cdiv(d, 40960)) block(64)
  for i = i32(blockIdx.x) * 40960 + i32(threadIdx.x); i < min(d, i32(blockIdx.x) * 40960 + 40960); i + 64
    y[i] = x[i]
"""


def test_every_axis_of_the_grid_has_a_second_block() -> None:
    plain, tiled = kernel(PLAIN), kernel(TILED)
    job = Job(plain, tiled, oracle_for(plain, COPY, None, 0), [], COPY)
    assert not_exercised(job) == "no instance had a second block along x"
    full, least = job.coverage.sizes_for_axes(Maker((plain, tiled), COPY, 10 * MAX_ELEMENTS))
    assert full.sizes == {"d": 40960} and least.sizes == {"d": 40961 + BEYOND}
    job.coverage.tried += [full, least]
    assert not_exercised(job) == "" and not list(job.coverage.sizes_for_axes(Maker((plain, tiled), COPY, 1 << 20)))


def test_an_instance_that_only_a_long_run_would_finish_is_as_if_not_tried(monkeypatch) -> None:
    monkeypatch.setattr(exact, "MORE_STEPS", 1)
    monkeypatch.setattr(fewer_blocks, "settled", lambda job, loops: frozenset())
    verdict = verify(kernel(PLAIN), kernel(PERSISTENT), COPY)
    assert verdict.status == "UNKNOWN" and "went round twice" in verdict.reason, verdict


def test_the_first_thread_is_followed_with_numbers() -> None:
    follow = FirstThread(kernel(PERSISTENT))
    assert len(follow.loops) == 1
    assert not follow.reaches(0, {"d": 44800}) and follow.reaches(0, {"d": 44801})
    loaded = FirstThread(kernel(PERSISTENT, ("i < d", "i < d + i32(x[0])")))
    assert not loaded.reaches(0, {"d": 1 << 20})  # not known


def test_the_interpreter_tells_which_loops_went_round_twice() -> None:
    k = kernel(PERSISTENT, ("44800", "640"), ("700", "10"))
    few, many = (COPY.make_inputs({"d": n}, None, 0) for n in (640, 641))
    assert list(run(k, few).once) == FirstThread(k).loops and run(k, many).once == ()


def test_some_instance_is_degenerate_in_no_size() -> None:
    found = [i.sizes for i in instances(kernel(MATMUL_PARALLEL), kernel(MATMUL_PARALLEL), MATMUL)]
    assert any(min(s.values()) >= 8 for s in found), found


RARE = PLAIN.replace("    y[i] = x[i]\n", "    y[i] = x[i]\n    if x[i] == 333.25_f16\n      y[i] = 1.0_f16\n")


def test_a_branch_that_no_input_enters_is_unknown() -> None:
    verdict = verify(kernel(PLAIN), kernel(RARE), COPY)
    assert verdict.status == "UNKNOWN" and verdict.layer == "coverage", verdict
    assert "1 branches were never entered, the first before 'y[i] = 1.0_f16'" in verdict.reason


def test_a_branch_for_large_numbers_is_entered() -> None:
    verdict = verify(kernel(PLAIN), kernel(RARE.replace("== 333.25_f16", "> 60000.0_f16")), COPY)
    assert verdict.status == "REJECTED" and verdict.failure is not None and verdict.failure.got == "1.0", verdict


def test_a_branch_that_the_original_has_word_for_word_is_untouched() -> None:
    here = kernel(RARE.replace("grid(cdiv(d, 64)) block(64)", "grid(cdiv(d, 32)) block(32)").replace("* 64", "* 32"))
    assert verify(kernel(RARE), here, COPY).ok
    other = kernel(RARE.replace("1.0_f16", "2.0_f16").replace("block(64)", "block(64) max_threads(64)"))
    assert verify(kernel(RARE), other, COPY).status == "UNKNOWN"


@pytest.mark.parametrize("proofs", [True, False])
def test_dead_branches_need_no_instance(monkeypatch, proofs: bool) -> None:
    """Intervals know it, and so does the solver where they are not asked."""
    monkeypatch.setattr(reach, *(("dead", lambda *_: []) if proofs else ("_never", lambda *_: False)))
    never = PLAIN.replace("    y[i] = x[i]\n", "    y[i] = x[i]\n    if d < 1\n      y[i] = 1.0_f16\n")
    assert verify(kernel(PLAIN), kernel(never), COPY).ok


def test_no_sizes_are_looked_for_that_enter_dead_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that nothing reaches has no second round at any size, and large sizes take long."""
    never = PLAIN.replace(
        "    y[i] = x[i]\n", "    y[i] = x[i]\n    if d < 1\n      for k in 0..d\n        y[k] = 1.0_f16\n"
    )
    runs: dict[bool, list[str]] = {}
    for leaves_out in (True, False):
        if not leaves_out:
            monkeypatch.setattr(exact, "leave_out_dead", lambda _: None)
        verdict = verify(kernel(PLAIN), kernel(never), COPY)
        assert verdict.ok
        runs[leaves_out] = [r.detail for r in verdict.rungs if r.name == "exact"]
    assert runs[True] != runs[False], "fewer instances, or smaller ones"


SUMMED = """\
kernel rms(y: f32* noalias, x: f32 const* noalias, w: f32 const* noalias, d: i32, n: i32)
  launch grid(n) block(32)
  for i = i32(threadIdx.x); i < d; i + 32
    var s: f32 = x[i32(blockIdx.x) * d + i]
    if i > 0
      s += x[i32(blockIdx.x) * d + i - 1] * w[i - 1]
    y[i32(blockIdx.x) * d + i] = s
"""
AGAIN = """    if isnan(s)
      s = x[i32(blockIdx.x) * d + i]
      for k = 1; k < 2; k + 1
        if i >= k
          s += x[i32(blockIdx.x) * d + i - k] * w[i - k]
    y[i32(blockIdx.x) * d + i] = s
"""


def test_no_sizes_are_looked_for_that_make_a_sum_no_number() -> None:
    """Data do; and what is done then has to be right."""
    stored = "    y[i32(blockIdx.x) * d + i] = s\n"
    again = SUMMED.replace(stored, AGAIN)
    verdict = verify(kernel(SUMMED), kernel(again), ROWS)
    assert verdict.ok, verdict
    assert "larger" not in str(verdict)
    for old, new in (("i >= k\n", "i > k\n"), ("      s = x[i32(blockIdx.x) * d + i]\n", "      s = 0.0\n")):
        wrong = verify(kernel(SUMMED), kernel(again.replace(old, new)), ROWS)
        assert not wrong.ok, "found where weights are infinite"


@pytest.mark.parametrize(
    ("index", "known"), [("b / (4 * n) * 4 * n", True), ("b / (4 * n) * 4", True), ("b / n * 4 * n", False)]
)
def test_a_quotient_times_its_divisor_is_no_larger(index: str, known: bool) -> None:
    text = f"kernel k(y: f32*, n: i32, b: i32)\n  launch grid(1) block(1)\n  y[{index}] = 1.0\n"
    assert (not wraps(kernel(text), {"n": (1, 1 << 20), "b": (0, 1 << 30)})) == known


DEAD = {
    "if n > 100": 1,
    "if n > 99": 0,
    "if n > 3 && n < 2": 0,
    "if n < 0 && m > 2": 1,
    "if n < 0 || m > 2": 0,
    "if !(n <= 100)": 1,
    "if n == 101": 1,
    "if n != 101": 0,
    "for j = n; j < 1; j + 1": 1,
    "for j = n; j < 2; j + 1": 0,
}


@pytest.mark.parametrize("text", DEAD)
def test_intervals_tell_which_branches_are_dead(text: str) -> None:
    k = kernel(f"kernel k(y: f32*, n: i32, m: i32)\n  launch grid(1) block(1)\n  {text}\n    y[0] = 1.0\n")
    assert len(dead(k, {"n": (1, 100)})) == DEAD[text]


GATHER = """\
kernel gather(y: f16* align 16, x: f16 const* align 16, at: i64 const* align 16, d: i32)
  launch grid(cdiv(d, 64)) block(64)
  let i: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
  if i < d
    y[i] = x[at[i]]
"""


def _narrowed(high: int | str, text: str) -> str:
    """What L0 says of ``text`` if the elements of ``at`` are between 0 and ``high``, and d is at most 2^30."""
    at = dataclasses.replace(COPY.args[1], name="at", dtype="i64", init="index", range=(0, high))
    args = (*(dataclasses.replace(a, range=(1, 1 << 30)) if a.name == "d" else a for a in COPY.args), at)
    work = dataclasses.replace(COPY, args=args)
    return static(Job(kernel(GATHER), kernel(text), None, [], work)).status  # type: ignore[arg-type]


def test_an_index_of_which_nothing_is_known_is_not_narrowed() -> None:
    narrow = GATHER.replace("x[at[i]]", "x[i64(i32(at[i]))]")
    summed = GATHER.replace("x[at[i]]", "x[i64(i32(at[i]) + i)]")
    assert _narrowed("d - 1", GATHER) == "pass"
    assert _narrowed("d - 1", narrow) == "unknown" and _narrowed((1 << 30) - 1, narrow) == "pass"
    assert _narrowed("d - 1", summed) == "unknown" and _narrowed(1 << 30, summed) == "pass"
    assert _narrowed((1 << 31) - 1, summed) == "fail"


def test_elements_of_a_private_array_have_ranges() -> None:
    text = PLAIN.replace(
        "    y[i] = x[i]\n", "    array r: i64[2]\n    r[0] = i64(i)\n    r[1] = i64(d)\n    y[i] = x[r[0]]\n"
    )
    k = kernel(text)
    found = {s.name: v for s, v in values(k, {"d": (1, 1 << 20)}).items()}
    assert found["r"] == (0, 1 << 20)
    carried = kernel(text.replace("r[1] = i64(d)", "r[1] = r[0] + i64(d)"))
    assert "r" not in {s.name for s in values(carried, {"d": (1, 1 << 20)})}


def test_loops_of_one_name_are_told_apart() -> None:
    text = "kernel copy(y: f16*, x: f16 const*, d: i32)\n  launch grid(1) block(512)\n"
    text += "  for i = i32(threadIdx.x); i < d; i + 512\n"
    text += "    for i_1 = i; i_1 < min(i + 512, d); i_1 + 512\n      y[i_1] = x[i_1]\n"
    apart = kernel(text)
    inner = next(s.var for s in walk(apart.body) if isinstance(s, For) and s.var.name == "i_1")
    same = apart.with_(body=rename(apart.body, {inner: fresh("i", inner.type)}))
    for k in (apart, same):
        assert [FirstThread(k).reaches(n, {"d": 2000}) for n in (0, 1)] == [True, False]


def test_the_last_share_of_rows_that_blocks_share_out_twice_has_something_to_do() -> None:
    """Of 4 by 4 rows of a block: with few rows, the last share of the second sharing has none."""
    made = replayed(
        "serving/silu_and_mul", "f32", "coarsen{at=block.x factor=$C} | coarsen{at=block.x factor=$C} [C=4]"
    )
    last = [s for s in walk(made.candidate.body) if isinstance(s, For)][-1]
    shorter = dataclasses.replace(last, cond=dataclasses.replace(last.cond, b=Binary("-", last.cond.b, i32(1))))
    body = map_body(made.candidate.body, lambda s: shorter if s == last else s, lambda e: e)
    verdict = verify(made.original, made.candidate.with_(body=body), made.workload, variant="f32")
    assert body != made.candidate.body and verdict.status == "REJECTED", verdict


def test_rows_between_peeled_ones_are_longer_than_there_are_blocks() -> None:
    """Whose stride is the number of blocks stores what other threads store, where rows are longer than that."""
    made = replayed(
        "serving/merge_attn_states", "f32", "raise | interchange{outer=head_idx} | peel{loop=token_idx first=2 last=16}"
    )
    assert verify(made.original, made.candidate, made.workload, variant="f32").ok
    middle = next(s for s in walk(made.candidate.body) if isinstance(s, For))
    step = map_expr(middle.step, lambda e: HwIndex("grid_dim", "x") if e == HwIndex("block_dim", "x") else e)
    blocks = dataclasses.replace(middle, step=step)
    body = map_body(made.candidate.body, lambda s: blocks if s == middle else s, lambda e: e)
    assert step != middle.step and body != made.candidate.body
    verdict = verify(made.original, made.candidate.with_(body=body), made.workload, variant="f32")
    assert verdict.status == "REJECTED" and verdict.failure is not None and verdict.failure.kind == "redundant-store"


def test_a_long_loop_does_not_use_up_what_short_instances_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    original = kernel(MATMUL_PARALLEL)
    oracle = oracle_for(original, MATMUL, None, 0)
    chosen = instances(original, original, MATMUL)
    length = {tuple(i.sizes.values()): oracle.run(i.sizes, "int", "exact").steps for i in chosen}
    job = Job(original, original, oracle, chosen, MATMUL)
    monkeypatch.setattr(exact, "STEPS", 2 * sorted(length.values())[len(length) // 2])
    assert exact.exact(job).status == "pass"
    tried = [length.pop(tuple(i.sizes.values()), 0) for i in job.coverage.tried]
    assert length and max(tried) <= min(length.values()), "the longest are those that were left out"


def test_a_launch_finds_its_working_memory_as_the_one_before_left_it() -> None:
    made = replayed("basic/sum", None, "raise | split-reduction{loop=tid map=[vec 4, thread.x 64, block.x 8, seq]}")
    assert verify(made.original, made.candidate, made.workload).ok

    def no_way_back(s):
        return dataclasses.replace(s, value=Const((1 << 32) - 1, U32)) if isinstance(s, Atomic) and s.op == "inc" else s

    once = made.candidate.with_(body=map_body(made.candidate.body, no_way_back))
    verdict = verify(made.original, once, made.workload)
    assert verdict.status == "REJECTED" and verdict.failure is not None
    assert verdict.failure.message.startswith("wrong result of a second launch"), verdict


def test_memory_is_kept_by_parameter_and_size_and_only_of_launches_that_end() -> None:
    counts = kernel(
        """\
kernel count(y: u32*, n: i32, seen: u32* scratch(n))
  launch grid(1) block(32)
  if i32(threadIdx.x) < n
    seen[threadIdx.x] = seen[threadIdx.x] + u32(1)
    y[threadIdx.x] = seen[threadIdx.x]
"""
    )
    kept: dict = {}

    def third(n: int, fuel: int = 1000) -> int:
        args = {"y": np.zeros(n, np.uint32), "n": n}
        return int(run(counts, args, domain="int", kept=kept, fuel=fuel).outputs["y"][0])

    assert [third(4), third(4), third(5), third(4)] == [1, 2, 1, 3]
    third(4, fuel=2)
    assert third(4) == 4 and third(5) == 2


COARSE = """\
kernel copy(y: f16* align 16, x: f16 const* align 16, d: i32)
  launch grid(cdiv(cdiv(d, 64), 16)) block(64)
  for c in 0..16
    if i32(blockIdx.x) + c * i32(gridDim.x) < cdiv(d, 64)
      let i: i32 = (i32(blockIdx.x) + c * i32(gridDim.x)) * 64 + i32(threadIdx.x)
      if i < d
        y[i] = x[i]
"""


def test_the_last_share_of_a_full_block_is_needed() -> None:
    """Two blocks begin at 1025 elements, and 15 shares of either are enough up to 15 * 128."""
    assert verify(kernel(PLAIN), kernel(COARSE), COPY).ok
    verdict = verify(kernel(PLAIN), kernel(COARSE, ("0..16", "0..15")), COPY)
    assert verdict.status == "REJECTED" and verdict.layer == "exact", verdict


def test_full_blocks_are_tried_beside_sizes_that_are_more_than_a_halo() -> None:
    made = replayed("stencil/jacobi2d", None, "coarsen{at=block.x factor=16}")
    job = Job(made.original, made.candidate, oracle_for(made.original, made.workload, None, 0), [], made.workload)
    tried = [dict(i.sizes) for i in coverage.missing_instances(job.coverage, made.original)]
    assert {"ny": 3, "nx": 512} in tried


@pytest.mark.parametrize(
    "script, at",
    [("raise | distribute{loop=i.* map=[vec $V, thread.x $T, unroll $U, seq]} [V=4 T=128 U=2]", 1020)],
)
def test_rows_that_end_just_below_a_round_are_tried(script: str, at: int) -> None:
    """What the later copies of a thread's work start with lies on the edge there: of a little more than a round, one
    thread's first copy has something alone, and ``<=`` in the place of ``<`` changes nothing."""
    subject = replayed("training/cross_entropy", None, script)
    guards = [s for s in walk(subject.candidate.body) if isinstance(s, If) and _is_edge(s)]
    assert guards
    for s in guards:
        wrong = dataclasses.replace(s, cond=dataclasses.replace(s.cond, op="<="))
        body = map_body(subject.candidate.body, lambda x, s=s, wrong=wrong: wrong if x is s else x)
        verdict = verify(subject.original, subject.candidate.with_(body=body), subject.workload)
        assert verdict.status == "REJECTED" and verdict.failure is not None, verdict
    assert verdict.failure.sizes["v"] == at


def _is_edge(s: If) -> bool:
    """Whether ``s`` asks if a later copy of a thread's work is within the row."""
    return isinstance(s.cond, Binary) and s.cond.op == "<" and isinstance(s.cond.a, Binary)


def test_a_loop_within_one_round_has_the_most_that_is_promised() -> None:
    """No head is longer than 1,024 elements, so no loop over one goes round twice; the last copies of a thread's work
    start at 896."""
    subject = replayed(
        "serving/merge_attn_states",
        "f32",
        "raise | distribute{loop=i map=[vec $V, thread.x $T, unroll $U, seq]} [V=2 T=64 U=8]",
    )
    loop = next(s for s in walk(subject.candidate.body) if isinstance(s, For))
    inner = next(s for s in walk(loop.body) if isinstance(s, For))
    assert isinstance(inner.cond, Binary)
    shorter = dataclasses.replace(inner, cond=dataclasses.replace(inner.cond, b=Binary("-", inner.cond.b, i32(1))))
    body = map_body(subject.candidate.body, lambda s: shorter if s is inner else s)
    verdict = verify(subject.original, subject.candidate.with_(body=body), subject.workload, variant="f32")
    assert verdict.status == "REJECTED" and verdict.failure is not None and verdict.failure.sizes["d"] > 896, verdict


def test_a_loop_within_one_round_has_exactly_the_most_that_is_promised() -> None:
    """Heads have 1,024 elements at most: the second copy of a thread's loads begins at 512 where a half ends, and reads
    past the last row of the table, if a position names that row."""
    subject = replayed(
        "serving/rope",
        "bf16",
        "raise | distribute{loop=i map=[vec $V, thread.x $T, unroll $U, seq]} [V=2 T=256 U=2]",
    )
    guards = [s for s in walk(subject.candidate.body) if isinstance(s, If)]
    loads = next(s for s in guards if any(isinstance(x, Store) and "c_vec" in x.buffer.name for x in s.then))
    assert isinstance(loads.cond, Binary) and loads.cond.op == "<"
    wider = dataclasses.replace(loads, cond=dataclasses.replace(loads.cond, op="<="))
    body = map_body(subject.candidate.body, lambda s: wider if s is loads else s)
    verdict = verify(subject.original, subject.candidate.with_(body=body), subject.workload, variant="bf16")
    assert verdict.status == "REJECTED" and verdict.failure is not None, verdict
    assert verdict.failure.kind == "out-of-bounds" and verdict.failure.sizes["d"] == 1024, verdict


@pytest.mark.parametrize("end, promised", [("heads", True), ("64 / heads", False)])
def test_a_loop_that_the_largest_size_ends_at_once_does_not_ask_for_it(end: str, promised: bool) -> None:
    """Thousands of heads have thousands of blocks: no price to pay for a loop up to a quotient by their number."""
    text = (
        "kernel rows(y: f32*, x: f32 const*, heads: i32)\n  launch grid(heads) block(32)\n"
        f"  for k in i32(threadIdx.x) * 1024..{end} step 32768\n    y[blockIdx.x] = x[blockIdx.x]\n"
    )
    arrays = (ArgSpec("y", "f32", "out", ("heads",)), ArgSpec("x", "f32", "in", ("heads",)))
    heads = ArgSpec("heads", "i32", "scalar", value="heads", range=(1, 4096))
    work, rows = _workload("rows", (*arrays, heads), {"heads": 12}), parse_kernel(text)
    maker = Maker((rows, rows), work, 192 * MAX_ELEMENTS)
    sizes = [i.sizes["heads"] for i in coverage.Coverage(rows, work).sizes_below_rounds(maker)]
    assert (4096 in sizes) is promised, sizes


def test_rows_behind_peeled_ones_are_longer_than_a_round() -> None:
    """The first block never comes there, the last one does with nine rows; the copies of a thread's work need long
    ones."""
    script = "raise | peel{loop=block_x first=8} | unroll{loop=i.* factor=$A} [A=16]"
    subject = replayed("serving/fused_add_rmsnorm", "f32", script)
    maker = Maker((subject.original, subject.candidate), subject.workload, 192 * MAX_ELEMENTS)
    seen = coverage.Coverage(subject.candidate, subject.workload)
    few = maker.make(maker.few())
    assert few is not None
    seen.note(few, run(subject.candidate, _arguments(subject, few.sizes), domain="int"))
    behind = [i.sizes for i in seen.sizes_for_loops(maker) if i.sizes["n"] > 8]
    assert any(sizes["hidden"] > 16 * 256 for sizes in behind), behind


def _arguments(subject, sizes: dict[str, int]) -> dict:
    return dict(oracle_for(subject.original, subject.workload, "f32", 0).inputs(sizes, "exact"))


def test_roundings_are_counted_where_every_thread_has_something_to_round() -> None:
    """Parts of a sum through half: the sums of one element that the smallest sizes have show none."""
    subject = replayed("basic/sum", None, "raise | unroll{loop=block_x factor=$U} [U=1]")
    op = next(o for o in OPERATORS if o.name == "round-through-half")
    verdicts = [
        verify(subject.original, apply(subject.candidate, op, k), subject.workload)
        for k in range(places(subject.candidate, op))
    ]
    assert len(verdicts) > 2 and not any(v.ok for v in verdicts)
