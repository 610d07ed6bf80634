"""Values that iterations carry or share: the planner's schedules, from structure alone."""

from __future__ import annotations

from ktc.agent.build import Builder
from ktc.agent.embedded.carried import column_sums, counts, scans, whole_sums
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.text import parse_kernel

BLOCKS = """\
kernel tally(count: u32* restrict, x: u8 const* restrict align 16, n: i32, m: i32)
  par b in 0..m @ [block.x]
    array own: shared u32[256]
    par k in 0..256 @ [thread.x 256]
      own[k] = 0_u32
    par t in 0..256 @ [thread.x 256]
      for i = t + b * 256; i < n; i + 256 * m
        atomic add own[x[i] as i32], 1_u32
    par j in 0..256 @ [thread.x 256]
      atomic add count[j], own[j]
"""
"""Each block has counts of its own, as its author wrote it, however many blocks there are."""


def proposed(text: str, **sizes: int) -> list[str]:
    kernel = parse_kernel(text)
    return [s for s, _, _ in counts(kernel, 100, (facts(kernel, sizes),))]


def test_how_many_blocks_count_is_open_again() -> None:
    lanes, few, whole = proposed(BLOCKS, n=1 << 20, m=1 << 20)
    assert whole.startswith("join-counts{array=own blocks=$BLOCKS:(")
    assert few == (
        "unprivatize-atomics{array=own} | collapse{loop=b} | tile{loops=i sizes=$CHUNK:(2048)}"
        " | distribute{loop=i map=[vec $V, thread.x $T, seq]} | privatize-atomics{array=count bins=256 copies=$C:(1,4)}"
    )
    assert lanes == few.replace("(1,4)", "(1,32)")
    assert Builder(parse_kernel(BLOCKS)).attempt(few) is None


def test_blocks_count_more_where_there_is_more_to_count() -> None:
    assert "$CHUNK:(2048,16384,131072,1048576)" in proposed(BLOCKS, n=1 << 30, m=1000)[0]
    assert "$CHUNK:(2048)}" in proposed(BLOCKS, n=100, m=1000)[0]


def test_a_block_counts_as_many_elements_as_the_array_has() -> None:
    kernel = parse_kernel(BLOCKS.replace("u8 const", "i32 const"))
    first, *ideas = [s for s, _, _ in counts(kernel, 100, extents={"count": 7})]
    assert first.startswith("join-counts{"), "the source's own array shows that there is no other value"
    assert len(ideas) == 2 and all("privatize-atomics{array=count bins=7 copies=" in s for s in ideas)
    assert all(s.endswith("bins=8192 copies=1}") for s, _, _ in [*counts(kernel, 100, extents={"count": 8192})][1:])
    assert [s for s, _, _ in counts(kernel, 100, extents={"count": 8193})] == [first]


def test_terms_that_are_vectors_are_not_put_side_by_side() -> None:
    wide = (
        "kernel total(out: f32* restrict, x: f32 const* restrict align 16, n: i32)\n"
        "  par b in 0..cdiv(n, 512) @ [block.x]\n"
        "    reduce(+) s: f32 = 0.0 over t in 0..128 @ [thread.x 128]\n"
        "      let four: f32x4 = x[(b * 128 + t) * 4 +: 4]\n"
        "      yield four[0] + four[1]\n"
        "    atomic add out[0], s\n"
    )
    single = wide.replace("f32x4 = x[(b * 128 + t) * 4 +: 4]", "f32 = x[b * 128 + t]").replace(
        "four[0] + four[1]", "four"
    )
    first = [next(s for s, _, _ in whole_sums(parse_kernel(text), 100)) for text in (wide, single)]
    assert "[thread.x $T, unroll" in first[0] and "[vec $V, thread.x $T, unroll" in first[1]


SCAN = """\
kernel running(y: f32* restrict align 16, x: f32 const* restrict align 16, rows: i32, n: i32)
  par r in 0..rows @ [block.x]
    scan(+) s: f32 = 0.0 over i in 0..n @ [thread.x 256, seq]
      yield x[r * n + i]
      y[r * n + i] = s
"""


def test_scans_that_raising_found_are_spread_anew() -> None:
    kernel = parse_kernel(SCAN)
    many, few = ([s for s, _, _ in scans(kernel, 100, (facts(kernel, z),))] for z in ({"rows": 4096}, {"rows": 2}))
    assert many == [
        "scan{loop=i map=[vec $V, thread.x $T, unroll $U, seq]}",
        "scan{loop=i map=[thread.x $T, unroll $U, seq]}",
    ]
    assert few[0].startswith("distribute{loop=r map=[block.y]} | scan{loop=i") and few[1:] == many
    assert all(Builder(kernel).attempt(s) is None for s in few)


MEMORY = """\
kernel prefix(y: f32* restrict align 16, x: f32 const* restrict align 16, n: i32)
  par b in 0..1 @ [block.x]
    y[0] = x[0]
    for i in 1..n
      y[i] = y[i - 1] + x[i]
"""


def test_a_running_value_in_memory_is_a_scan() -> None:
    kernel = parse_kernel(MEMORY)
    found = [s for s, _, _ in scans(kernel, 100, (facts(kernel, {"n": 1 << 20}),))]
    able = [s for s in found if Builder(kernel).attempt(s) is None]
    assert "forward-stores{loop=i} | scan{loop=i map=[vec $V, thread.x $T, unroll $U, seq]}" in able
    weighted = parse_kernel(MEMORY.replace("y[i - 1] +", "y[i - 1] * 0.5 +"))
    assert list(scans(weighted, 100, (facts(weighted, {"n": 1 << 20}),))) == []


PAIRS = """\
kernel pairs(y: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(cdiv(n, 128)) block(128)
  par i in 0..n @ [thread.x 128, block.x]
    var s: f32 = 0.0
    for j in 0..n
      s += abs(x[i] - x[j])
    y[i] = s
"""


def test_blocks_put_parts_together_where_columns_alone_leave_units_without_one() -> None:
    kernel = parse_kernel(PAIRS)
    many, few = ([s for s, _, _ in column_sums(kernel, 100, (facts(kernel, {"n": n}),))] for n in (6400, 6399))
    assert "$PARTS" in few[0] and "$PARTS" not in many[0] and many == few[::-1]
