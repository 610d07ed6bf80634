"""The sanitizer finds each kind of defect, names the place, and is silent about correct kernels."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from ktc.ir.interp import KINDS, equivalent, run
from ktc.ir.interp.execution import parallel
from tests.ir.interp.interp_samples import (
    COPY_WIDE,
    HISTOGRAM,
    MATMUL_PARALLEL,
    MATMUL_TILED,
    ROWS_PARALLEL,
    ROWS_SHUFFLE,
    ROWS_TREE,
    kernel,
)


def rows(n: int = 2, d: int = 131) -> dict:
    x = np.random.default_rng(0).integers(1, 5, (n, d)).astype(np.float32)
    return {"y": np.zeros((n, d), np.float32), "x": x, "w": np.ones(d, np.float32), "d": d, "n": n}


def product(m: int = 9, n: int = 10, k: int = 17) -> dict:
    one = np.ones((32, 32), np.float32)
    return {"c": one[:m, :n].copy(), "a": one[:m, :k].copy(), "b": one[:k, :n].copy(), "m": m, "n": n, "k": k}


def copies(d: int = 301) -> dict:
    return {"y": np.zeros(d, np.float16), "x": np.ones(d, np.float16), "d": d}


CORRECT = [
    (ROWS_TREE, rows()),
    (ROWS_SHUFFLE, rows()),
    (ROWS_PARALLEL, rows()),
    (MATMUL_TILED, product()),
    (MATMUL_PARALLEL, product()),
    (COPY_WIDE, copies()),
    (HISTOGRAM, {"bins": np.zeros(5, np.int32), "x": np.arange(100, dtype=np.int32) % 5, "n": 100}),
]


@pytest.mark.parametrize("warp", (32, 64))
@pytest.mark.parametrize("text, args", CORRECT, ids=range(len(CORRECT)))
def test_correct_kernels_are_clean(text: str, args: dict, warp: int) -> None:
    for domain in ("float", "int", "field"):
        assert run(kernel(text), args, domain=domain, warp=warp).findings == []


WRONG = {
    "barrier after the store": (ROWS_TREE, rows(), "race", ("  s[tid] = acc\n  barrier\n", "  s[tid] = acc\n")),
    "barrier in the tree": (ROWS_TREE, rows(), "race", ("    barrier\n  let", "  let")),
    "barrier before the tile is overwritten": (MATMUL_TILED, product(), "race", ("    barrier\n  if", "  if")),
    "barrier after the tile is filled": (MATMUL_TILED, product(), "race", ("    barrier\n    for e", "    for e")),
    "one store by every thread": (
        ROWS_TREE, rows(), "redundant-store", ("  let r:", "  y[row] = 1.0\n  barrier\n  let r:"),
    ),
    "plain update of a shared counter": (
        HISTOGRAM, CORRECT[-1][1], "race", ("atomic add bins[x[i]], 1", "bins[x[i]] += 1"),
    ),
    "barrier in a divergent branch": (
        ROWS_TREE, rows(), "barrier-divergence", ("+ h]\n    barrier", "+ h]\n      barrier"),
    ),
    "tree one too wide": (ROWS_TREE, rows(), "out-of-bounds", ("tid < h", "tid <= h")),
    "lost tail guard": (COPY_WIDE, copies(), "out-of-bounds", ("i + $V <= d", "i < d")),
    "tile row bound": (MATMUL_TILED, product(), "out-of-bounds", ("row < m && t + tx < k ?", "t + tx < k ?")),
    "store never happens": (ROWS_TREE, rows(), "uninitialised", ("  s[tid] = acc\n", "")),
    "accumulator without a start": (ROWS_TREE, rows(), "uninitialised", ("var acc: f32 = 0.0", "var acc: f32")),
    "shuffle in a branch": (
        ROWS_SHUFFLE, rows(), "warp-divergence",
        ("    acc += shfl_xor(acc, m)\n", "    if tid % 32 < 16\n      acc += shfl_xor(acc, m)\n"),
    ),
    "trap": (
        ROWS_TREE, rows(), "trap", ("s[tid] = acc\n", "s[tid] = acc\n  if acc < 1e6\n    trap() !write -> void\n"),
    ),
    "zero divisor": (ROWS_SHUFFLE, rows(), "division-by-zero", ("tid % 32 == 0", "32 % tid == 0")),
    "shuffle width": (ROWS_SHUFFLE, rows(), "shuffle-width", ("shfl_xor(acc, m)", "shfl_xor(acc, m, width=33)")),
    "misaligned wide access": (COPY_WIDE, copies(), "misaligned", ("x[i +: $V]", "x[i + 1 +: $V]")),
    "weak base": (COPY_WIDE, copies(), "misaligned", ("x: f16 const* align 16", "x: f16 const* align 4")),
    "endless loop": (ROWS_TREE, rows(), "fuel", ("h > 0", "h >= 0")),
    "iterations of a par depend": (
        ROWS_PARALLEL, rows(), "dependent-iterations", ("y[row * d + i] =", "y[row * d + i / 2] ="),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_each_defect_is_found_and_named(name: str) -> None:
    text, args, kind, change = WRONG[name]
    result = run(kernel(text, change), args, fuel=20_000)
    found = [f for f in result.findings if f.kind == kind]
    assert found, [str(f) for f in result.findings]
    assert found[0].loc is not None or kind == "uninitialised"
    assert kind in KINDS and str(found[0])


ELSEWHERE = {"shared-overflow", "unwaited-copy", "invalid-event", "null-pointer"}
"""Kinds whose defects are seeded in tests of their own: below, in ``test_group_copies`` and ``test_null_pointers``."""


def test_every_kind_is_seeded() -> None:
    assert {w[2] for w in WRONG.values()} == KINDS.keys() - ELSEWHERE


def test_dynamic_shared_memory_has_a_size() -> None:
    text = """\
kernel k(out: f32*)
  launch grid(1) block(32) shared(64)
  array s: shared f32[32] dynamic
  s[threadIdx.x] = 1.0
  barrier
  out[threadIdx.x] = s[31 - i32(threadIdx.x)]
"""
    args = {"out": np.zeros(32, np.float32)}
    assert [f.kind for f in run(kernel(text), args).findings] == ["shared-overflow"]
    assert run(kernel(text, ("shared(64)", "shared(128)")), args).ok


def test_warp_barriers_order_only_their_warp() -> None:
    text = """\
kernel k(out: i32*)
  launch grid(1) block(64)
  array s: shared i32[64]
  let t: i32 = i32(threadIdx.x)
  s[t] = t
  barrier warp
  out[t] = s[t ^ 1]
"""
    args = {"out": np.zeros(64, np.int32)}
    assert run(kernel(text), args).ok
    assert [f.kind for f in run(kernel(text, ("barrier warp", "fence block")), args).findings] == ["race"]
    across = ("s[t ^ 1]", "s[t ^ 32]")
    assert [f.kind for f in run(kernel(text, across), args).findings] == ["race"]
    assert run(kernel(text, across), args, warp=64).ok


def test_blocks_are_never_ordered() -> None:
    text = """\
kernel k(a: i32*, out: i32*)
  launch grid(2) block(32)
  if blockIdx.x == 0
    a[threadIdx.x] = 1
  barrier
  if blockIdx.x == 1
    out[threadIdx.x] = a[threadIdx.x]
"""
    args = {"a": np.zeros(32, np.int32), "out": np.zeros(32, np.int32)}
    assert [f.kind for f in run(kernel(text), args).findings] == ["race"]


def test_equal_stores_by_many_threads_are_told_from_races() -> None:
    text = "kernel k(out: i32*)\n  launch grid(1) block(32)\n  out[0] = 7\n"
    args = {"out": np.zeros(1, np.int32)}
    assert [f.kind for f in run(kernel(text), args).findings] == ["redundant-store"]
    assert [f.kind for f in run(kernel(text, ("= 7", "= i32(threadIdx.x)")), args).findings] == ["race"]


def test_sequential_loops_over_one_par_are_no_dependence(monkeypatch) -> None:
    text = """\
kernel k(y: f32*, x: f32 const*, n: i32)
  par r in 0..n @ [block.x]
    array t: f32[8]
    par i in 0..8 @ [thread.x 8]
      t[i] = x[r * 8 + i]
    for k = 0; k < 3; k + 1
      par i in 0..8 @ [thread.x 8]
        y[r * 8 + i] = t[7 - i] + f32(k)
"""
    args = {"y": np.zeros(32, np.float32), "x": np.arange(32, dtype=np.float32), "n": 4}
    result = run(kernel(text), args)
    assert result.ok
    assert np.array_equal(result.outputs["y"], np.arange(32).reshape(4, 8)[:, ::-1].reshape(-1) + 2)
    monkeypatch.setattr(parallel, "LANES", 5)  # also when the loop runs in pieces
    shared_by_rows = kernel(text, ("y[r * 8 + i]", "y[i]"))
    assert [f.kind for f in run(shared_by_rows, args).findings] == ["dependent-iterations"]


def test_unused_poison_is_no_defect() -> None:
    text = """\
kernel k(out: i32*)
  launch grid(1) block(48)
  let t: i32 = i32(threadIdx.x)
  let v: i32 = shfl_down(t, 16)
  out[t] = t < 16 ? v : 0
"""
    args = {"out": np.zeros(48, np.int32)}
    assert run(kernel(text), args).ok
    assert [f.kind for f in run(kernel(text, ("t < 16", "t < 48")), args).findings] == ["uninitialised"]


def test_pure_outputs_may_not_be_read() -> None:
    text = "kernel k(out: f32*)\n  launch grid(1) block(8)\n  out[threadIdx.x] = out[threadIdx.x] + 1.0\n"
    args = {"out": np.zeros(8, np.float32)}
    assert run(kernel(text), args).ok
    assert [f.kind for f in run(kernel(text), args, undefined={"out"}).findings] == ["uninitialised"]


def test_equivalent_points_at_the_first_difference() -> None:
    instances = [rows(n, d) for n, d in ((1, 1), (2, 65))]
    assert equivalent(kernel(ROWS_TREE), kernel(ROWS_SHUFFLE), instances) is None
    assert equivalent(kernel(ROWS_TREE), kernel(ROWS_PARALLEL), instances) is None
    wrong = equivalent(kernel(ROWS_TREE), kernel(ROWS_SHUFFLE, ("m = 16", "m = 8")), instances)
    assert wrong is not None and wrong.instance == 1 and wrong.buffer == "y" and wrong.index == (0, 0)
    defect = equivalent(kernel(ROWS_TREE), kernel(ROWS_SHUFFLE, ("barrier\n", "pass\n")), instances)
    assert defect is not None and defect.finding is not None and defect.finding.kind == "race"


def test_storing_again_what_another_thread_stored_is_redundant_and_another_value_is_a_race() -> None:
    text = """\
kernel k(out: i32*)
  launch grid(1) block(64)
  for i = 0; i < 3; i + 1
    if i < 2 || threadIdx.x == 5_u32
      out[0] = 7
"""
    args = {"out": np.zeros(1, np.int32)}
    assert {f.kind for f in run(kernel(text), args).findings} == {"redundant-store"}
    assert "race" in {f.kind for f in run(kernel(text, ("= 7", "= i")), args).findings}


def test_a_compare_and_swap_that_fails_reads_only() -> None:
    text = """\
kernel k(out: i32*, lock: i32*)
  launch grid(1) block(32)
  var old: i32
  old = atomic cas lock[0], 1 compare 0
  if old == 0
    out[0] = lock[0]
"""
    args = {"out": np.zeros(1, np.int32), "lock": np.zeros(1, np.int32)}
    assert run(kernel(text), args).ok
    everyone = kernel(text, ("if old == 0", "if old >= 0"), ("out[0] = lock[0]", "lock[0] = 2"))
    assert "race" in {f.kind for f in run(everyone, args).findings}
    assert "race" in {f.kind for f in run(kernel(text, ("if old == 0", "if old == 1")), args).findings}


@pytest.mark.parametrize("array, ordered", [("s", ("all", "shared")), ("g", ("all", "global"))])
def test_barriers_order_the_memory_they_name(array: str, ordered: tuple[str, ...]) -> None:
    text = f"""\
kernel k(out: i32*, g: i32*)
  launch grid(1) block(32)
  array s: shared i32[32]
  {array}[threadIdx.x] = 1
  barrier block memory MEMORY
  out[threadIdx.x] = {array}[31_u32 - threadIdx.x]
"""
    args = {"out": np.zeros(32, np.int32), "g": np.zeros(32, np.int32)}
    for memory in ("all", "shared", "global", "none"):
        found = [f.kind for f in run(kernel(text, ("MEMORY", memory)), args).findings]
        assert found == ([] if memory in ordered else ["race"])


def test_an_index_that_nothing_wrote_is_reported_though_both_poisons_miss_the_buffer() -> None:
    text = """\
kernel k(out: i32*)
  launch grid(1) block(1)
  var i: i32
  var j: i32
  array a: i32[3]
  a[0] = 1
  a[i] = 4
  out[0] = a[j]
"""
    kinds = [f.kind for f in run(kernel(text), {"out": np.zeros(1, np.int32)}).findings]
    assert "uninitialised" in kinds and "out-of-bounds" in kinds


def test_vector_arguments() -> None:
    text = """\
kernel k(out: i32*, v: i32x4)
  launch grid(1) block(4)
  out[threadIdx.x] = v[0] + v[3]
"""
    args = {"out": np.zeros(4, np.int32), "v": np.array([1, 2, 3, 40], np.int32)}
    assert run(kernel(text), args).outputs["out"].tolist() == [41] * 4


UNSET = {
    "stored by two threads": ("  var x: i32\n  y[0] = x\n", {"race", "redundant-store", "uninitialised"}),
    "never used": ("  var x: i32\n  y[threadIdx.x] = threadIdx.x > 99 ? x : 5\n", set()),
    "assigned first": ("  var x: i32\n  if threadIdx.x < 99\n    x = 3\n  y[threadIdx.x] = x\n", set()),
}


@pytest.mark.parametrize("name", UNSET)
def test_variables_without_a_value_differ_between_threads(name: str) -> None:
    body, kinds = UNSET[name]
    text = f"kernel k(y: i32*)\n  launch grid(1) block(32)\n{body}"
    for domain in ("float", "int", "field"):
        assert {f.kind for f in run(kernel(text), {"y": np.zeros(32, np.int32)}, domain=domain).findings} == kinds


NARROW = """
kernel count(bins: i32*, n: i32, k: i32)
  launch grid(cdiv(n, 32)) block(32)
  let i: i32 = i32(blockIdx.x) * 32 + i32(threadIdx.x)
  if i < n
    atomic add bins[WHERE], 1 scope block
"""
SHARED_BINS = {
    "k": True,
    "i % k": True,
    "i32(blockIdx.x)": False,
    "i": False,
    "min(i32(blockIdx.x), 1)": True,  # blocks 1 and 2
}


@pytest.mark.parametrize("where", SHARED_BINS)
@pytest.mark.parametrize("batched", (True, False))
def test_atomics_within_a_block_race_with_those_of_another(
    where: str, batched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not batched:
        monkeypatch.setattr(sys.modules[run.__module__], "LANES", 32)
    args = {"bins": np.zeros(96, np.int32), "n": 96, "k": 5}
    found = run(kernel(NARROW.replace("WHERE", where)), args).findings
    assert [f.kind for f in found] == ["race"] * SHARED_BINS[where]
    wide = run(kernel(NARROW.replace("WHERE", where).replace(" scope block", "")), args)
    assert wide.findings == []


def test_one_atomic_for_all_blocks_does_not_heal_one_within_a_block() -> None:
    both = NARROW.replace("WHERE", "0") + "  else\n    atomic add bins[0], 1\n"
    both = both.replace("if i < n", "if blockIdx.x == 0")
    assert [f.kind for f in run(kernel(both), {"bins": np.zeros(1, np.int32), "n": 64, "k": 1}).findings] == ["race"]


NEVER_WRITTEN = """
kernel k(y: f32*, x: f32 const*, n: i32)
  launch grid(1) block(32)
  let t: i32 = i32(threadIdx.x)
  array row: TYPE[2]
  array s: f32[2]
  for u = 0; u < 2; u + 1
    if t + u < n
      row[u] = TYPE(t)
  for v = 0; v < 2; v + 1
    if t + v < n
      s[v] = x[row[v]]
  for w = 0; w < 2; w + 1
    if t + w < n
      y[t * 2 + w] = s[w]
"""


@pytest.mark.parametrize("t", ["i32", "i64", "u32"])
def test_no_subscript_may_be_what_nobody_wrote(t: str) -> None:
    """Though what is read there is never used: the address may be none of the buffer's."""
    args = {"x": np.arange(300, dtype=np.float32), "y": np.zeros(64, np.float32), "n": 20}
    text = NEVER_WRITTEN.replace("TYPE", t)
    assert not run(kernel(text), args, undefined={"y"}).findings
    loose = text.replace("    if t + v < n\n", "    if v < n\n")
    assert loose != text
    assert {f.kind for f in run(kernel(loose), args, undefined={"y"}).findings} >= {"out-of-bounds"}
    counted = text.replace("    if t + v < n\n", "    let far: TYPE = row[v] + TYPE(1)\n    if t + v < n\n")
    assert not run(kernel(counted.replace("TYPE", t)), args, undefined={"y"}).findings


BELOW = """
kernel k(y: i32*, n: i32)
  launch grid(1) block(4)
  let t: i32 = i32(threadIdx.x)
  array a: i32[2]
  array f: f32[2]
  a[0] = t
  f[0] = 1.0
  if QUESTION
    y[t] = 1
  else
    y[t] = 2
"""


@pytest.mark.parametrize(
    "question",
    ["a[1] < n", "a[1] >= 0", "a[1] < 0", "a[1] > -7", "a[1] == 0", "a[1] > 100000", "f[1] > 0.0", "f[1] < -2.0"],
)
def test_whoever_compares_what_was_never_written_is_told_both_answers(question: str) -> None:
    args = {"y": np.zeros(4, np.int32), "n": 32}
    assert [f.kind for f in run(kernel(BELOW, ("QUESTION", question)), args).findings] == ["uninitialised"]
    assert not run(kernel(BELOW, ("QUESTION", question.replace("[1]", "[0]"))), args).findings


@pytest.mark.parametrize("t", ["f32", "i32", "u32"])
@pytest.mark.parametrize(
    "made", ["s[t] - s[t + 1]", "s[t] == s[t + 1] ? {0} : {1}", "a - b", "min(s[t], s[t + 1]) - s[t]"]
)
def test_what_nobody_wrote_is_not_all_one_number(t: str, made: str) -> None:
    """Two such values taken from each other left nothing, whatever number both were."""
    zero, one = ("0.0", "1.0") if t == "f32" else (f"0_{t}", f"1_{t}") if t == "u32" else ("0", "1")
    text = f"""\
kernel k(out: {t}*)
  launch grid(1) block(8)
  array s: shared {t}[9]
  var a: {t}
  var b: {t}
  let t: i32 = i32(threadIdx.x)
  out[t] = {made.format(zero, one)}
"""
    found = run(kernel(text), {"out": np.zeros(8, {"f32": np.float32, "i32": np.int32, "u32": np.uint32}[t])})
    assert "results change" in " ".join(f.message for f in found.findings)
