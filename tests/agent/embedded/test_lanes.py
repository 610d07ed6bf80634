"""Schedules that give neighbouring threads neighbouring elements, whichever loop of the nest goes through them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ktc.agent.build import Builder, Candidate
from ktc.agent.embedded.lanes import lanes
from ktc.agent.embedded.rules import Rules
from ktc.agent.limits import space_for
from ktc.agent.planner import Observation, Proposal
from ktc.ir.analysis.access_nests import accesses
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from tests.agent.embedded.test_rules import GPU, observe

BUFFERS = "out: f32* align 16 noalias, p: f32 const* align 16 noalias, ids: i32 const*"
PARAMS = f"({BUFFERS}, rows: i32 range 1..4096, wide: i32 range 1..4096)"
THREAD_A_ROW = (
    f"kernel a{PARAMS}\n  launch grid(cdiv(rows, 64)) block(64)\n  par q in 0..rows @ [thread.x 64, block.x]\n"
)
BLOCK_A_COLUMN = f"kernel b{PARAMS}\n  launch grid(wide) block(64)\n  par q in 0..wide @ [block.x]\n"

COPIED = THREAD_A_ROW + "    for z in 0..wide\n      out[q * wide + z] = p[ids[q] * wide + z]\n"
SWEPT = (
    THREAD_A_ROW + "    var s: f32 = 0.0\n    for z = 0; z <= q; z + 1\n      s += p[q * wide + z]\n"
    "      out[q * wide + z] = p[q * wide + z]\n    for z in 0..wide\n      out[q * wide + z] = s\n"
)
COLUMN = (
    BLOCK_A_COLUMN + "    reduce(+) s: f32 = 0.0 over z in 0..rows @ [thread.x 64, seq]\n"
    "      yield p[z * wide + q]\n    out[q] = s\n"
)
ALREADY = THREAD_A_ROW + "    out[q] = p[q]\n"
BESIDE = THREAD_A_ROW + "    for z in 0..wide\n      out[z * rows + q] = p[z * rows + q]\n"


def proposed(text: str) -> list[str]:
    kernel = parse_kernel(text)
    return [steps for steps, _, _ in lanes(kernel, able(kernel))]


def able(kernel: Kernel) -> Callable[[str], bool]:
    build = Builder(kernel)
    return lambda steps: build.attempt(steps) is None


def test_a_row_that_a_thread_copies_is_its_lanes() -> None:
    side_by_side, block = proposed(COPIED)
    assert side_by_side == (
        "normalise | map{q=[thread.y $ROWS:(1,2,4,8), block.x] z=[vec $V, thread.x $LANES:(8,16,32), seq]}"
    )
    assert block == "normalise | map{q=[block.x] z=[vec $V, thread.x $T, seq]}"


def test_sweeps_of_a_row_share_its_lanes_and_its_elements() -> None:
    found = proposed(SWEPT)
    assert found and all("z.*=[" in x and x.startswith("normalise | map{q=") for x in found)


SIZES = {"rows": 2048, "wide": 100}
SOFTMAX = (
    THREAD_A_ROW.replace("par q in 0..rows", "par q in 0..wide * rows") + "    let end: i32 = q % wide + 1\n"
    "    var m: f32 = -1000.0\n    for z = 0; z < end; z + 1\n      m = max(m, p[q * wide + z])\n"
    "    var s: f32 = 0.0\n    for z = 0; z < end; z + 1\n      let e: f32 = exp(p[q * wide + z] - m)\n      s += e\n"
    "      out[q * wide + z] = e\n    for z in 0..wide\n"
    "      out[q * wide + z] = z < end ? out[q * wide + z] / s : 0.0\n"
)


def test_rows_of_which_each_query_sees_a_part_are_read_once() -> None:
    """What is stored to be read again is left out first; a row is as long as any may be: in the registers of a block's
    threads, of a warp's, or in shared memory."""
    kernel = parse_kernel(SOFTMAX)
    seen = facts(kernel, SIZES)
    block, warp, shared, *_ = (steps for steps, _, _ in lanes(kernel, able(kernel), (seen,)))
    assert block == (
        "normalise | defer-store{array=out} | map{q=[block.x] z.*=[thread.x $T, unroll $U]}"
        " | row-cache{loop=z.* keep=loaded} where T * U < 200 where T * (U - 1) < 100"
    )
    assert "q=[thread.y $ROWS:(1,2,4,8), block.x] z.*=[thread.x 32, unroll $U]" in warp
    assert shared.endswith("z.*=[thread.x $T:(32,128,512), seq]} | row-cache{loop=z.* keep=loaded where=shared}")
    for script in (block, warp, shared):
        built = Builder(kernel).build(Proposal(script, ""))
        assert isinstance(built, Candidate) and space_for(built.kernel, GPU, SIZES).size > 0


def test_a_column_that_a_block_sums_takes_the_lanes_itself() -> None:
    shared, alone = proposed(COLUMN)
    assert shared.startswith("map{q=[vec $V, thread.x $TX") and "block.y $P" in shared and "block.y" not in alone


def test_what_one_thread_of_a_block_sums_is_shared_by_all_and_by_blocks() -> None:
    one = (
        "kernel one(y: f32* noalias, p: f32 const* noalias, n: i32 range 1..100000, c: i32 range 1..4096)\n"
        "  launch grid(1) block(128)\n  let t: i32 = i32(blockIdx.x) * 128 + i32(threadIdx.x)\n  if t == 0\n"
        "    var s: f32 = 0.0\n    for i in 0..n\n      s += abs(p[i * c])\n    y[0] = s\n"
    )
    builder, o = observe(one, {"n": 65536, "c": 64})
    blocks, threads = (p.script for p in Rules().propose(o, 2))
    assert "i=[thread.x $T, unroll $U:(1,2,4,8), block.y $P:(8,16,32,64,128), seq]" in blocks
    assert "i=[thread.x $T, unroll $U:(1,2,4,8), seq]" in threads and builder.attempt(blocks) is None
    _, o = observe(one.replace("i * c", "i"), {"n": 65536, "c": 64})
    assert "i=[vec $V, thread.x $T" in Rules().propose(o, 1)[0].script


def test_counts_of_a_column_in_a_small_array_are_shared_by_threads() -> None:
    counts = (
        THREAD_A_ROW.replace("p: f32 const*", "p: i32 const*")
        + "    var v: i32\n    array m: i32[2]\n    for b in 0..2\n      m[b] = 0\n    for z in 0..wide\n"
        "      v = p[z * rows + q]\n      if v > 3\n        m[0] += 1\n      else\n        m[1] += 1\n"
        "    out[q] = f32(m[0]) - f32(m[1])\n"
    )
    found = proposed(counts)
    assert found and all("q=[vec $V, thread.x $TX" in s and "thread.y $TY" in s for s in found)


BY_HABIT = (
    BLOCK_A_COLUMN + "    var s: f32 = 0.0\n    for z in 0..rows\n      s += p[z]\n    if q == 0\n      out[0] = s\n"
)


def test_what_one_block_stores_is_computed_by_it_alone_and_by_all_of_its_threads() -> None:
    shared, threads, alone = proposed(BY_HABIT)
    assert alone == "narrow{loop=q}"
    assert threads.startswith("narrow{loop=q} | normalise | map{q=[block.x] z=[vec $V, thread.x $T, unroll $U")
    assert "block.y $P" in shared


COUNTED = (
    THREAD_A_ROW + "    var one: i32 = 0\n    var two: i32 = 0\n    for z in 0..wide\n"
    "      let c: i32 = ids[z * rows + q]\n      if c == 1\n        one += 1\n      elif c == 2\n        two += 1\n"
    "    out[q] = f32(one * two)\n"
)


def test_counts_are_chosen_without_branches() -> None:
    assert proposed(COUNTED)[0].startswith("normalise | if-convert{loop=z} | map{q=[vec $V, thread.x $TX")


def test_neighbours_that_are_neighbours_already_are_left_alone() -> None:
    assert proposed(ALREADY) == [] and proposed(BESIDE) == []


def test_every_proposal_applies_at_its_defaults() -> None:
    for text in (COPIED, SWEPT, COLUMN):
        kernel = parse_kernel(text)
        for script in proposed(text):
            assert apply_script(kernel, parse_script(script)).refused is None


MATRIX = """\
kernel k(y: f32* align 16 noalias, a: f32 const* align 16 noalias, x: f32 const* align 16 noalias, n: i32 range 1..8192,
    m: i32 range 1..8192)
  launch grid((n + 255) / 256) block(256)
  let i: i32 = i32(blockIdx.x) * 256 + i32(threadIdx.x)
  if i < n
    y[i] = 0.0
    for j in 0..m
      y[i] += a[{at}] * x[j]
"""


@pytest.mark.parametrize(
    ("at", "wanted"), [("i * m + j", "j=[vec $V, thread.x $LANES"), ("j * n + i", "i=[vec $V, thread.x $TX")]
)
def test_a_matrix_times_a_vector_goes_along_its_rows_either_way(at: str, wanted: str) -> None:
    """A thread a row, with the sum in memory: lanes go along what is contiguous in the matrix, not in the vector."""
    builder, o = observe(MATRIX.format(at=at), {"n": 4096, "m": 4096})
    first = Rules().propose(o, 6)[0]
    assert wanted in first.script and builder.attempt(first.script) is None


def test_columns_of_a_batch_are_found_behind_their_flat_index() -> None:
    """A block a column, which it finds by quotients of its number: neighbouring threads take neighbouring columns."""
    source = (
        "kernel mean(y: f32* align 16 noalias, x: f32 const* align 16 noalias, a: i32 range 1..1024,"
        " b: i32 range 1..1024, c: i32 range 1..1024)\n  launch grid(a * c) block(64)\n"
        "  par block_x in 0..a * c @ [block.x]\n    let i: i32 = block_x / c\n    let j: i32 = block_x % c\n"
        "    reduce(+) s: f32 = 0.0 over k in 0..b @ [thread.x 64, seq]\n      yield x[(i * b + k) * c + j]\n"
        "    y[block_x] = s / b\n"
    )
    kernel = parse_kernel(source)
    seen = Observation(
        kernel, kernel, (facts(kernel, {"a": 64, "b": 256, "c": 256}),), GPU, lambda: (), (), (), able_after(kernel)
    )
    first = Rules().propose(seen, 1)[0].script
    assert first == (
        "raise | delinearise{loop=block_x loops=3} | map{j=[vec $V, thread.x $TX:(8,16,32,64), block.x]"
        " k=[unroll $U:(2,4,8), thread.y $TY:(4,8,16,32), seq] tail=cut}"
    )


def test_columns_behind_digits_are_kept_in_the_registers_of_threads_that_share_them() -> None:
    """A thread a pixel, which sums its channels and then divides them: nobody knows of how many images."""
    text = (
        "kernel norm(y: f32* align 16 noalias, x: f32 const* align 16 noalias, n: i32 range 1..65536,"
        " c: i32 range 1..512, hw: i32 range 1..1024)\n  launch grid(cdiv(n, 64)) block(64)\n"
        "  par q in 0..n @ [thread.x 64, block.x]\n    let b: i32 = q / hw\n    let i: i32 = q % hw\n"
        "    var s: f32 = 0.0\n    for f in 0..c\n      s += x[(b * c + f) * hw + i] * x[(b * c + f) * hw + i]\n"
        "    for f_1 in 0..c\n      y[(b * c + f_1) * hw + i] = x[(b * c + f_1) * hw + i] / s\n"
    )
    kernel = parse_kernel(text)
    seen = [facts(kernel, {"n": 65536, "c": 256, "hw": 1024})]
    kept, again = (steps for steps, _, _ in lanes(kernel, able(kernel), seen))
    assert kept == (
        "normalise | map{q=[thread.x $TX:(8,16,32), block.x] f.*=[thread.y $TY:(8,16,32), unroll $U:(1,2,4,8,16,32)]}"
        " | row-cache{loop=f.* keep=loaded} where TY * U < 512"
    )
    assert again.startswith("normalise | map{q=[thread.x $TX:(8,16,32,64), block.x] f.*=[unroll $U:(2,4,8), thread.y ")


@pytest.mark.parametrize(
    ("at", "beside"),
    [
        ("q / hw * (c * hw) + q % hw", True),
        ("q / hw * (c * hw) + q % hw * 2", False),
        ("q / hw + q % hw * c", False),
        ("q / hw * (c * hw) + q % hw * (q / hw)", False),
        ("q % hw + q % c", False),
        ("q + c", True),
    ],
)
def test_neighbours_in_a_row_of_digits(at: str, beside: bool) -> None:
    kernel = parse_kernel(
        "kernel k(y: f32*, n: i32, c: i32, hw: i32)\n  launch grid(n) block(64)\n"
        f"  par q in 0..n @ [thread.x 64, block.x]\n    y[{at}] = 1.0\n"
    )
    (access,) = (a for a in accesses(kernel) if a.buffer.name == "y")
    assert access.is_side_by_side("q") == beside


def able_after(raised: Kernel) -> Callable[[str], object]:
    """Whether a script applies, of a kernel that stands as ``raise`` leaves it."""
    build = Builder(raised)
    return lambda script: build.attempt(script.removeprefix("raise").removeprefix(" | "))


RAGGED = THREAD_A_ROW + "    var s: f32 = 0.0\n    for z in ids[q]..ids[q + 1]\n      s += p[z]\n    out[q] = s\n"


@pytest.mark.parametrize(
    ("elements", "first"),
    [(8 << 12, "thread.y $ROWS:(16,32,8), block.x] z=[thread.x $LANES:(8,16,4), seq]"),
     (3 << 12, "thread.y $ROWS:(64,128,32), block.x] z=[thread.x $LANES:(2,4), seq]"),
     (40 << 12, "thread.y $ROWS:(1,2,4,8), block.x] z=[vec $V, thread.x $LANES:(8,16,32), seq]"),
     (0, "thread.y $ROWS:(1,2,4,8), block.x] z=[vec $V, thread.x $LANES:(8,16,32), seq]")],
)  # fmt: skip
def test_rows_that_memory_ends_have_as_many_lanes_as_elements_on_average(elements: int, first: str) -> None:
    kernel = parse_kernel(RAGGED)
    seen = facts(kernel, {"rows": 1 << 12, "wide": 1})
    found = [steps for steps, _, _ in lanes(kernel, able(kernel), (seen,), {"p": elements, "ids": 1 + (1 << 12)})]
    assert first in found[0]


def test_what_all_rows_go_through_needs_no_lanes() -> None:
    """Neighbouring threads read the same element of it."""
    pairs = THREAD_A_ROW + "    var s: f32 = 0.0\n    for z in 0..rows\n      s += abs(p[z] - p[q])\n    out[q] = s\n"
    assert proposed(pairs) == []
    assert proposed(pairs.replace("p[z] -", "p[q * wide + z] -"))
