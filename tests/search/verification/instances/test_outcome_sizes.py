"""Sizes at which conditions and choices come out the other way: large together, and in last rounds."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from textwrap import indent

import pytest

import ktc
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import AsyncCopy, Binary, Decl, i32
from ktc.ir.text import parse_kernel, print_expr
from ktc.ir.walk import all_exprs, map_body, walk
from ktc.search.verification import verify
from ktc.search.verification.instances.coverage import Coverage
from ktc.search.verification.instances.instances import MAX_ELEMENTS, Instance, Maker
from ktc.search.verification.instances.outcome_sizes import _small_values, _where_met
from ktc.search.verification.instances.together import extremes
from ktc.search.verification.integers.first_thread import FirstThread
from ktc.search.verification.verdict import Verdict
from tests.ir.interp.interp_samples import kernel
from tests.mutation.subjects import Subject, replayed


def _gate(subject: Subject) -> Verdict:
    return verify(subject.original, subject.candidate, subject.workload, variant=subject.variant)


@pytest.mark.parametrize(
    ("name", "variant", "script"),
    [
        ("stencil/jacobi2d", None, "raise | temporal-block{steps=3 tile=$TY,$TX} [TY=112 TX=8]"),
        ("serving/silu_and_mul", None, "tile{loops=idx sizes=$TIDX} [TIDX=64]"),
        pytest.param(
            "training/cross_entropy",
            "bf16",
            "raise | split-reduction{loop=i map=[seq]} | cse",
            id="one thread does all",
            marks=pytest.mark.campaign,
        ),
    ],
    ids=["a tile inside others", "a minimum that ties at most", None],
)
def test_pipelines_whose_other_outcomes_need_sizes_of_their_own(name: str, variant: str | None, script: str) -> None:
    """A tile of 112 rows lies whole in an array of 229; a row as long as a tile is the longest there is; rows that one
    thread alone would take too long for are left out."""
    assert _gate(replayed(name, variant, script)).status == "TESTED"


def test_tiles_that_are_taken_for_whole_too_early_are_wrong() -> None:
    """Three columns more: the cells of the border are given values as inner ones are."""
    subject = replayed("stencil/jacobi2d", None, "raise | temporal-block{steps=3 tile=$TY,$TX} [TY=64 TX=122]")
    whole = next(s for s in walk(subject.candidate.body) if isinstance(s, Decl) and s.sym.name == "whole")
    assert isinstance(whole.init, Binary) and isinstance(whole.init.b, Binary) and whole.init.b.op == "<="
    further = replace(whole.init.b, b=Binary("+", whole.init.b.b, i32(3)))
    early = replace(whole, init=replace(whole.init, b=further))
    body = map_body(subject.candidate.body, lambda s: early if s is whole else s)
    verdict = _gate(replace(subject, candidate=subject.candidate.with_(body=body)))
    assert verdict.status == "REJECTED", verdict


RING = """\
kernel ring(out: i32*, n: i32)
  launch grid(1) block(32)
  for t = 0; t < n; t + 16
    let slot: i32 = t / 16 % 3
    out[threadIdx.x] = slot
"""


def test_the_last_round_of_a_loop_is_met() -> None:
    """A ring of three buffers comes round in the fourth round."""
    k = kernel(RING)
    slot = next(s for s in walk(k.body) if isinstance(s, Decl))
    assert isinstance(slot.init, Binary)
    wraps = Binary("!=", slot.init, slot.init.a)
    thread = FirstThread(k)
    assert [n for n in range(0, 100) if thread.holds(slot, wraps, {"n": n})] == list(range(49, 100))


PLUS_ZERO = """
__global__ void k(const float* __restrict__ x, float* __restrict__ y, int n) {
  const int i = (blockIdx.x * 64 + threadIdx.x) * 2;
  const float a = i + 0 < n ? x[i] : 0.f, b = i + 1 < n ? x[i + 1] : 0.f;
  if (i + 1 < n) { y[i] = a + b; y[i + 1] = a - b; }
}
void run(const float* x, float* y, int rows) { k<<<rows, 64>>>(x, y, rows * 128); }
"""
FULL_ROWS = """
[kernel]
source = "k.cu"
name = "k"
[[args]]
name = "x"
dtype = "f32"
shape = ["128 * rows"]
role = "in"
[[args]]
name = "y"
dtype = "f32"
shape = ["128 * rows"]
role = "out"
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "128 * rows"
[[args]]
name = "rows"
dtype = "i32"
role = "scalar"
value = "rows"
[[scenario]]
name = "one"
sizes = { rows = 32 }
"""


def test_a_guard_that_never_fails_is_the_sources_also_when_folded(tmp_path: Path) -> None:
    """``i + 0 < n`` and ``i < n``: kernels of vectors ask so, lane by lane, where rows are full."""
    (tmp_path / "k.cu").write_text(PLUS_ZERO)
    (tmp_path / "workload.toml").write_text(FULL_ROWS)
    verdict = ktc.load(str(tmp_path)).apply("raise").verify(device="none")
    assert verdict.status == "TESTED", verdict.reason


HEADS = """\
kernel heads(y: f32* restrict noalias, x: f32 const* restrict noalias readonly, n: i32 range 1..64, c: i32 range 1..512,
    h: i32 range 1..4)
  launch grid((n + 31) / 32) block(32)
  {assume}let row: i32 = i32(blockIdx.x) * 32 + i32(threadIdx.x)
  if row < n
    var s: f32 = 0.0
{loop}
    y[row] = s
"""
PLAIN_LOOP = "    for i in 0..c / h\n      s += x[row * c + i]"
WHOLE_STEPS = """\
    if 0 < c / h
      for step in 0..c / h step 16
        for i in step..step + 16
          s += x[row * c + i]"""


def test_a_quotient_of_two_sizes_is_zero_where_the_one_is_least_and_the_other_largest(tmp_path: Path) -> None:
    """Sixteen divides c / h where c is 16 times h or more, and where c is less than h."""
    plain = kernel(HEADS.format(assume="", loop=PLAIN_LOOP))
    steps = kernel(HEADS.format(assume="assume c / h % 16 == 0\n  ", loop=WHOLE_STEPS))
    (tmp_path / "k.ktir").write_text(HEADS.format(assume="", loop=PLAIN_LOOP))
    lines = ['[kernel]\nsource = "k.ktir"\nname = "heads"']
    for name, role, shape in (("y", "out", "n"), ("x", "in", "n * c")):
        lines.append(f'[[args]]\nname = "{name}"\ndtype = "f32"\nrole = "{role}"\nshape = ["{shape}"]')
    for name, most in (("n", 64), ("c", 512), ("h", 4)):
        lines.append(
            f'[[args]]\nname = "{name}"\ndtype = "i32"\nrole = "scalar"\nvalue = "{name}"\nrange = [1, {most}]'
        )
    lines.append('[[scenario]]\nname = "main"\nsizes = { n = 64, c = 256, h = 4 }')
    (tmp_path / "workload.toml").write_text("\n".join(lines))
    verdict = verify(plain, steps, ktc.Workload.load(tmp_path))
    assert verdict.status in ("TESTED", "PROVED"), verdict


def test_where_both_ends_of_a_range_are_whole_steps_one_less_is_tried() -> None:
    """A thread takes two layers: 2 and 1024 show no half step, 1023 does."""

    class Ends:
        longest, lowest = (staticmethod(lambda name, n=n: n) for n in (1024, 2))

    sizes = [s["nz"] for s in extremes(Ends(), {"nx": 8, "nz": 8})]  # type: ignore[arg-type]
    assert {1024, 2, 1023} == set(sizes)


HEAP = """\
kernel heap(y: f32* restrict, x: f32 const* restrict readonly, n: i32 range 1..256, size: i32 range 1..32)
  launch grid(1) block(32)
  array kept: f32[32]
  for i in 0..size
    kept[i] = 1000.0
{loop}
  y[threadIdx.x] = kept[0]
"""
SIFT = """\
for k in {range}
  if x[k] < kept[0]
    kept[0] = x[k]
    var root: i32 = 0
    var child: i32 = 1
    while child < size
      if child + 1 < size && kept[child + 1] > kept[child]
        child += 1
      if kept[root] > kept[child]
        break
      let other: f32 = kept[root]
      kept[root] = kept[child]
      kept[child] = other
      root = child
      child = root * 2 + 1
"""
IN_TILES = (
    "for t in 0..n / 64 * 64 step 64\n"
    + indent(SIFT.format(range="t..t + 64"), "  ")
    + SIFT.format(range="n / 64 * 64..n")
)


def heaps(tmp_path: Path) -> tuple[Kernel, str, ktc.Workload]:
    """The kernel as it is, the text of one that goes by tiles, and their workload."""
    texts = [HEAP.format(loop=indent(loop.rstrip(), "  ")) for loop in (SIFT.format(range="0..n"), IN_TILES)]
    (tmp_path / "k.ktir").write_text(texts[0])
    lines = ['[kernel]\nsource = "k.ktir"\nname = "heap"']
    for name, role, shape in (("y", "out", "32"), ("x", "in", "n")):
        lines.append(f'[[args]]\nname = "{name}"\ndtype = "f32"\nrole = "{role}"\nshape = ["{shape}"]')
    for name, most in (("n", 256), ("size", 32)):
        lines.append(
            f'[[args]]\nname = "{name}"\ndtype = "i32"\nrole = "scalar"\nvalue = "{name}"\nrange = [1, {most}]'
        )
    lines.append('[[scenario]]\nname = "main"\nsizes = { n = 200, size = 31 }')
    (tmp_path / "workload.toml").write_text("\n".join(lines))
    return kernel(texts[0]), texts[1], ktc.Workload.load(tmp_path)


def test_a_size_is_small_where_the_others_are_not(tmp_path: Path) -> None:
    """The last node of a heap has no second child where the heap has two elements, or four: so has it where the others
    are as large as a whole tile asks."""
    plain, tiles, workload = heaps(tmp_path)
    tiled = kernel(tiles)
    maker = Maker((plain, tiled), workload, MAX_ELEMENTS)
    coverage = Coverage(tiled, workload, [Instance({"n": n, "size": 31}, n) for n in (3, 5, 7, 9, 64, 129)])
    asked = next(e for e in all_exprs(tiled.body) if print_expr(e) == "child + 1 < size")
    found = list(_small_values(coverage, maker, {"n": 3, "size": 3}, asked))
    assert {(s["n"], s["size"]) for s in found} == set(product((3, 7, 9, 64, 129), (1, 2, 3, 4, 5)))


def test_a_heap_that_is_filled_by_tiles(tmp_path: Path) -> None:
    plain, tiles, workload = heaps(tmp_path)
    assert verify(plain, kernel(tiles), workload).status == "TESTED"
    beyond = kernel(tiles.replace("child + 1 < size", "child + 1 <= size", 1))
    assert verify(plain, beyond, workload).status == "REJECTED"


def test_a_copy_comes_to_the_place_it_reads_where_it_is_valid() -> None:
    """What says where it puts it is computed by all threads."""
    copying = parse_kernel("""
kernel k(x: f32 const*, K: i32)
  launch grid(1) block(64)
  array w_s: shared f32[16]
  let t: i32 = threadIdx.x
  async_copy w_s[t % 16] = x[t / 4] if t / 4 < K
  async_commit
  async_wait (0)
  barrier
""")
    copy = next(s for s in walk(copying.body) if isinstance(s, AsyncCopy))
    (quotient,), (remainder,) = copy.src_index, copy.dst_index
    zero = Binary("==", quotient, i32(0))
    assert print_expr(_where_met(copy, quotient, zero)) == "t / 4 < K && t / 4 == 0"
    assert _where_met(copy, remainder, zero) is zero
