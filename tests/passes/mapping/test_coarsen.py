"""coarsen: thread loops between barriers (SPMD form), one more level (parallel form)."""

from __future__ import annotations

import pytest

from ktc.ir.interp import equivalent
from ktc.ir.kernel import bind
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.verifier import verify
from ktc.passes.mapping import coarsen_spmd
from tests.passes import spmd_sources as spmd
from tests.passes.checks import applied, arguments, body_of, differs, refused

ROW_SUM, TWO_D, SHUFFLE = (parse_kernel(t) for t in (spmd.ROW_SUM, spmd.TWO_D, spmd.SHUFFLE))
SIZES = [{"d": d, "n": 2, "eps": 0.5} for d in (1, 31, 63, 64, 65, 67, 129)]


def test_before_and_after() -> None:
    k = applied(ROW_SUM, "coarsen{at=thread.x factor=$C:1,2,4}")
    assert "block(64 / $C)" in print_kernel(k)
    assert (
        body_of(k).split("array smem")[1]
        == """: shared f32[64]
  array tid: i32[$C]
  let row: i32 = blockIdx.x as i32 * d
  for c in 0..$C unroll
    tid[c] = threadIdx.x + c * blockDim.x
    var sum: f32 = 0.0
    for i in tid[c]..d step blockDim.x * $C
      let v: f32 = x[row + i]
      sum += v * v
    smem[tid[c]] = sum
  barrier
  for stride = (blockDim.x * $C) as i32 / 2; stride > 0; stride >> 1
    for c_1 in 0..$C unroll
      if tid[c_1] < stride
        smem[tid[c_1]] += smem[tid[c_1] + stride]
    barrier
  for c_2 in 0..$C unroll
    let inv: f32 = smem[0] + eps
    for i_1 in tid[c_2]..d step blockDim.x * $C
      x[row + i_1] *= inv
"""
    )


@pytest.mark.parametrize("at", ["thread.x", "block.x"])
@pytest.mark.parametrize("how", ["strided", "contiguous"])
@pytest.mark.parametrize("c", [1, 2, 4])
def test_meaning_stays(at: str, how: str, c: int) -> None:
    k = applied(ROW_SUM, f"coarsen{{at={at} factor=$C map={how}}}")
    assert differs(ROW_SUM, k, SIZES, knobs={"C": c}, lower=False) is None


@pytest.mark.parametrize("script", ["coarsen{at=thread.x factor=2}", "coarsen{at=block.y factor=$C:3}"])
def test_two_dimensions_and_an_odd_number_of_blocks(script: str) -> None:
    k = applied(TWO_D, script)
    sizes = [{"h": h, "w": w} for h, w in ((3, 3), (5, 17), (9, 16), (13, 33))]
    assert differs(TWO_D, k, sizes, knobs={"C": 3} if "$C" in script else {}, lower=False) is None


def test_a_counter_that_threads_count_alike_is_one_for_all_copies() -> None:
    planes = parse_kernel("""\
kernel planes(y: f32*, x: f32 const*, d: i32)
  launch grid(6) block(4)
  array s: shared f32[4]
  var k: i32 = threadIdx.x as i32
  let i: i32 = blockIdx.x as i32 * 4 + k
  k = 0
  while k < d
    s[threadIdx.x] = x[k * 24 + i]
    barrier
    y[k * 24 + i] = s[3 - threadIdx.x] + f32(k)
    barrier
    k = k + 1
""")
    k = applied(planes, "coarsen{at=block.x factor=2}")
    assert "while k < d" in print_kernel(k)
    assert differs(planes, k, [{"d": d} for d in (0, 1, 3)], lower=False) is None


def test_lanes_stay_in_their_warp() -> None:
    k = applied(SHUFFLE, "coarsen{at=thread.x factor=2}")
    assert equivalent(SHUFFLE, k, [arguments(SHUFFLE, 300, d=d, n=2) for d in (1, 64, 100)]) is None
    assert refused(SHUFFLE, "coarsen{at=thread.x factor=2 map=contiguous}").code == "E-COARSEN-WARP"
    assert refused(SHUFFLE, "coarsen{at=thread.x factor=4}").code == "E-COARSEN-DIVIDE"


def test_blocks_get_a_copy_of_shared_memory_each_and_threads_share_one() -> None:
    assert "smem: shared f32[2, 64]" in body_of(applied(ROW_SUM, "coarsen{at=block.x factor=2}"))
    assert "smem: shared f32[64]" in body_of(applied(ROW_SUM, "coarsen{at=thread.x factor=2}"))


def test_parallel_form() -> None:
    k = parse_kernel(
        "kernel k(y: f32* restrict, x: f32 const* restrict, n: i32)\n"
        "  par i in 0..n @ [thread.x 8, block.x]\n    y[i] = x[i] * 2.0\n"
    )
    strided, contiguous = (applied(k, f"coarsen{{at=i factor=$C map={m}}}") for m in ("strided", "contiguous"))
    assert "@ [thread.x 8, unroll $C, block.x]" in body_of(strided)
    assert "@ [unroll $C, thread.x 8, block.x]" in body_of(contiguous)
    for after in (strided, contiguous):
        assert differs(k, after, [{"n": n} for n in (1, 15, 16, 17, 37)], knobs={"C": 4}) is None


@pytest.mark.parametrize(
    ("source", "script", "code"),
    [
        (spmd.ROW_SUM, "coarsen{at=thread.y}", "E-COARSEN-DIVIDE"),
        (spmd.ROW_SUM, "coarsen{at=thread.x factor=3}", "E-COARSEN-DIVIDE"),
        (spmd.ROW_SUM, "coarsen{at=thread.x map=diagonal}", "E-COARSEN-MAP"),
        (spmd.ROW_SUM, "coarsen{at=i}", "E-PLACE-SPMD"),
        (
            "kernel k(x: f32*, n: i32)\n  launch grid(4) block(64)\n  if blockIdx.x as i32 < n\n    barrier\n"
            "    x[blockIdx.x] = 1.0\n",
            "coarsen{at=block.x factor=2}",
            "E-COARSEN-BARRIER",
        ),
        (
            "kernel k(x: f32*, n: i32)\n  launch grid(4) block(64)\n  for i in 0..n\n    if x[i] > 1.0\n      return\n",
            "coarsen{at=thread.x factor=2}",
            "E-COARSEN-RETURN",
        ),
        (
            "kernel k(x: f32*)\n  launch grid(4) block(64)\n  barrier warp mask blockIdx.x == 0_u32 ? 1_u32 : 3_u32\n"
            "  x[blockIdx.x] = 1.0\n",
            "coarsen{at=block.x factor=2}",
            "E-COARSEN-BARRIER",
        ),
    ],
)
def test_refusals(source: str, script: str, code: str) -> None:
    assert refused(parse_kernel(source), script).code == code


def test_sites_apply() -> None:
    from ktc.passes.core.catalogue import PASSES

    sites = PASSES["coarsen"].sites(ROW_SUM)
    assert [str(s.step) for s in sites] == ["coarsen{at=thread.x factor=$C}", "coarsen{at=block.x factor=$C}"]
    for s in sites:
        applied(ROW_SUM, str(s.step))


def test_a_wrong_version_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Running whole threads one after another, barriers and all, instead of stretch by stretch."""
    monkeypatch.setattr(coarsen_spmd._Job, "_kept", lambda self, s: isinstance(s, coarsen_spmd.For))
    k = bind(applied(ROW_SUM, "coarsen{at=thread.x factor=2}"), {})
    assert equivalent(ROW_SUM, k, [arguments(ROW_SUM, 300, **s) for s in SIZES]) is not None


COMPACTED = """\
kernel compacted(a: i32 const* restrict, sums: i32* restrict, m: i32, n: i32)
  launch grid(n) block(64)
  array next: shared i32[1]
  array order: shared i32[64]
  let t: i32 = threadIdx.x
  if t == 0
    next[0] = 0
  barrier
  if t < m && a[blockIdx.x * m + t] > 0
    var at: i32
    at = atomic add next[0], 1
    order[at] = t
  barrier
  var sum: i32 = 0
  for k in t..next[0] step 64
    sum += order[k]
  atomic add sums[blockIdx.x], sum
"""


def test_a_loop_as_long_as_its_block_counted_is_not_the_other_copies_loop() -> None:
    """Blocks have shared memory of their own: what one of them counted says nothing about the next."""
    source = parse_kernel(COMPACTED)
    sizes = [{"n": n, "m": m} for n in (1, 3, 4) for m in (1, 33, 64)]
    for script in ("coarsen{at=block.x factor=4}", "coarsen{at=thread.x factor=2}"):
        assert differs(source, applied(source, script), sizes, lower=False) is None


LEFT_BEFORE = """\
kernel left_before(a: f32 const* restrict, out: f32* restrict, n: i32, m: i32)
  launch grid(1, m) block(8, 4)
  array row: shared f32[8]
  let t: i32 = threadIdx.y * 8_u32 + threadIdx.x
  let at: i32 = blockIdx.y * n
  if t < n
    row[t] = a[at + t]
  if threadIdx.y >= 1_u32
    return
  barrier
  if t < n
    out[at + t] = row[n - 1 - t] + row[t]
"""


def test_threads_that_leave_before_a_barrier_leave() -> None:
    """They do not pass it by: barriers wait for threads that are there, and not for those that have left."""
    source = parse_kernel(LEFT_BEFORE)
    sizes = [{"n": n, "m": m} for n in (1, 5, 8) for m in (1, 2, 3)]
    for script in ("coarsen{at=block.y factor=2}", "coarsen{at=thread.x factor=2}"):
        k = applied(source, script)
        assert verify(k) == [] and "return" in body_of(k), body_of(k)
        assert differs(source, k, sizes, lower=False) is None


MASKED = """kernel k(x: f32*, width: u32)
  launch grid(6) block(32)
  array row: shared f32[32]
  var lanes: u32 = width
  lanes = lanes == 32_u32 ? 0xffffffff_u32 : 65535_u32
  row[threadIdx.x] = x[blockIdx.x * 32_u32 + threadIdx.x]
  if threadIdx.x < width
    barrier warp mask lanes
    x[blockIdx.x * 32_u32 + threadIdx.x] = row[threadIdx.x] + row[threadIdx.x ^ 1_u32]
"""


def test_who_meets_at_a_barrier_is_a_value_like_others() -> None:
    source = parse_kernel(MASKED)
    k = applied(source, "coarsen{at=block.x factor=2}")
    assert verify(k) == [] and "barrier warp mask lanes[0]" in body_of(k), body_of(k)
    assert differs(source, k, [{"width": w} for w in (16, 32)], lower=False) is None
