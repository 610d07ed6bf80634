"""Kernels and scripts on which the fuzzer found lowering or a pass wrong, made small."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.kernel import bind
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.verifier import verify
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import LoweringError, materialise
from tests.passes.checks import differs

START = """\
kernel top(a: f32 const* restrict, y: f32* restrict, m: i32, n: i32)
  par r in 0..n @ [thread.x 32, block.x]
    reduce(max) top: f32 = a[r * m] over j in 1..m @ [thread.y 4, seq]
      yield a[r * m + j]
    y[r] = top
"""
SUMS = """\
kernel sums(a: f32 const* restrict, y: f32* restrict, m: i32, n: i32)
  par r in 0..n @ [block.x]
    scan(+) acc: f32 = 0.0 over j in 0..m @ [thread.x 64, seq]
      yield a[r * m + j]
      y[r * m + j] = acc
"""
ROWS = """\
kernel rows(y: i32* restrict, n: i32)
  par r in 0..n @ [block.y]
    array buf: i32[64]
    par i in 0..64 @ [vec 2, thread.x 32]
      buf[i] = i
    par j in 0..64 @ [{map}]
      y[r * 64 + j] = buf[{at}]
"""
NAMED = """\
kernel copy(a: f32 const* restrict align 16, y: f32* restrict align 16, n: i32)
  par r in 0..n @ [block.x]
    par i in 0..16 @ [thread.x 16]
      par v in 0..4 @ [vec 4]
        let at: i32 = i * 4
        let t: i32 = at + v
        y[r * 64 + (t ^ r % 8 * 4)] = a[r * 64 + t]
"""


def lowered(text: str, script: str = ""):
    done = apply_script(parse_kernel(text), parse_script(script))
    assert done.refused is None
    out = materialise(bind(done.kernel, {}))
    assert not verify(out)
    return out


@pytest.mark.parametrize("script", ["", "split-reduction{loop=j map=[thread.y 2, block.y 2, seq]}"])
def test_the_start_of_a_reduction_is_read_under_the_loops_guard(script: str) -> None:
    kernel = lowered(START, script)
    for n, m in ((1, 100), (33, 3), (64, 1)):
        a = (np.arange(n * m, dtype=np.float32) * 7) % 31
        got = run(kernel, {"a": a, "y": np.zeros(n, np.float32), "m": m, "n": n})
        assert got.ok, got.findings
        np.testing.assert_array_equal(got.outputs["y"], a.reshape(n, m).max(axis=1))


def test_a_tile_is_not_staged_before_the_scan_whose_variable_it_needs() -> None:
    done = apply_script(parse_kernel(SUMS), parse_script("stage-shared{array=a loop=r}"))
    after = done.kernel
    assert not verify(after)
    if done.refused is None:
        a = np.arange(1, 201, dtype=np.float32)
        args = {"a": a, "y": np.zeros_like(a), "m": 100, "n": 2}
        got = run(materialise(bind(after, {})), args).outputs["y"]
        np.testing.assert_array_equal(got, a.reshape(2, 100).cumsum(axis=1).reshape(-1))


@pytest.mark.parametrize("shape, at", [("seq", "j"), ("unroll 4, seq", "j"), ("seq", "63 - j"), ("seq", "0")])
def test_a_row_in_registers_is_not_read_by_one_thread(shape: str, at: str) -> None:
    with pytest.raises(LoweringError) as e:
        materialise(parse_kernel(ROWS.format(map=shape, at=at)))
    assert e.value.code == "E-LOWER-OWNER"


def test_vector_stores_spell_out_what_their_lanes_declared() -> None:
    kernel = lowered(NAMED)
    for n in (1, 3, 9):
        a = np.arange(64 * n, dtype=np.float32)
        got = run(kernel, {"a": a, "y": np.zeros_like(a), "n": n})
        assert got.ok, got.findings
        r, t = np.divmod(np.arange(64 * n), 64)
        want = np.zeros_like(a)
        want[r * 64 + (t ^ r % 8 * 4)] = a
        np.testing.assert_array_equal(got.outputs["y"], want)


PRODUCT = """\
kernel product(a: f32 const* restrict, out: f32* restrict, m: i32, n: i32)
  par r_tile in 0..cdiv(n, 16) @ [block.y]
    par c_tile in 0..cdiv(n, 32) @ [block.x]
      par r in 0..min(16, n - r_tile * 16) @ [thread.y 4, seq]
        par c in 0..min(32, n - c_tile * 32) @ [seq]
          out[(r_tile * 16 + r) * n + (c_tile * 32 + c)] = a[(r_tile * 16 + r) * m]
"""
SPMD = """\
kernel running(a: f32 const* restrict, out: f32* restrict, m: i32, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  let r: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
  if r < n
    var acc: f32 = 0.0
    for j in 0..m
      out[r * m + j] = acc
      acc += a[r * m + j]
"""
STRIDED = """\
kernel copy(a: f32 const* restrict, out: f32* restrict, m: i32)
  launch grid(1) block(64)
  for j in i32(threadIdx.x)..m step 64
    out[j] = a[j]
"""
NESTED = """\
kernel sums(a: f32 const* restrict, out: f32* restrict, m: i32, n: i32)
  par r in 0..n @ [block.x]
    par t_tile in 0..4 @ [seq]
      par t in t_tile * 16..min(t_tile * 16 + 16, 60) @ [thread.x 16, seq]
        for k in 0..m
          out[(r * m + k) * 60 + t] = a[k]
"""
UNTHREADED = """\
kernel copy(a: f32 const* restrict, out: f32* restrict, n: i32)
  par r_tile in 0..cdiv(n, 16) @ [block.y]
    par c_tile in 0..cdiv(n, 32) @ [block.x]
      par r in 0..min(16, n - r_tile * 16) @ [seq]
        par c in 0..min(32, n - c_tile * 32) @ [seq]
          out[(r_tile * 16 + r) * n + (c_tile * 32 + c)] = a[(r_tile * 16 + r) * n + (c_tile * 32 + c)]
"""


@pytest.mark.parametrize(
    ("text", "script", "code"),
    [
        (PRODUCT, "stage-shared{array=a loop=r_tile}", "E-STAGE-FOOTPRINT"),
        (SPMD, "scan{loop=j}", "E-SCAN-PLACE"),
        (STRIDED, "tile{loops=j sizes=4 tail=exact}", "E-TILE-FORM"),
        (SUMS, "distribute{loop=r map=[thread.x 16, block.x]}", "E-DIST-NEST"),
        (UNTHREADED, "stage-store{array=out vec=4}", "E-STORE-NEST"),
    ],
)
def test_what_does_not_fit_is_refused(text: str, script: str, code: str) -> None:
    done = apply_script(parse_kernel(text), parse_script(script))
    assert done.refused is not None and done.refused.code == code, done.refused


def test_a_tile_inside_loops_over_tiles_is_exchanged_within_them() -> None:
    kernel = parse_kernel(NESTED)
    done = apply_script(kernel, parse_script("register-tile{loop=k}"))
    assert done.refused is None, done.refused
    text = print_kernel(done.kernel)
    assert text.index("par t_tile") < text.index("for k") < text.index("par t ")
    assert differs(kernel, done.kernel, [{"n": n, "m": m} for n, m in ((1, 1), (2, 5))], elements=700) is None


def test_sweeps_without_neighbours_need_no_region() -> None:
    text = "kernel sweep(a: f32 const* restrict, out: f32* restrict, n: i32)\n  repeat swap a, out\n"
    text += "  par i in 0..n @ [thread.x 32, block.x]\n    out[i] = a[i] + a[i]\n"
    kernel = lowered(text, "temporal-block{steps=3 tile=8}")
    got = run(kernel, {"a": np.ones(20, np.float32), "out": np.zeros(20, np.float32), "n": 20})
    assert got.ok and (got.outputs["out"] == 8).all(), got


JAMMED = """\
kernel rows(a: f32 const* restrict, y: f32* restrict, n: i32)
  par i in 0..n @ [thread.x 8, unroll 8]
    var acc: f32 = 0.0
    for k in 0..4
      acc += a[i] * f32(k)
    y[i] = acc
"""
PARTS = """\
kernel tops(a: f32 const* restrict, y: f32* restrict, m: i32, n: i32)
  par r in 0..n @ [block.x]
    reduce(min) s: f32 = 100.0 over i in 0..m @ [seq]
      yield a[r * m + i]
    par j in 0..64 @ [thread.x 8, seq]
      y[r * 64 + j] = s
"""
BANDS = """\
kernel copy(a: f32 const* restrict, y: f32* restrict, m: i32, n: i32)
  par block in 0..cdiv(n, 8) * cdiv(m, 32) @ [block.x]
    let r_tile: i32 = block % cdiv(n, 8) / 2
    let j_tile: i32 = block / cdiv(n, 8)
    par r in r_tile * 8..min(r_tile * 8 + 8, n) @ [thread.y 8, seq]
      par j in j_tile * 32..min(j_tile * 32 + 32, m) @ [thread.x 32, seq]
        y[j * n + r] = a[r * m + j]
"""


def test_fewer_rounds_of_a_counted_loop_leave_none_out() -> None:
    for script in ("unroll-and-jam{loop=i factor=1}", "unroll{loop=i factor=2}"):
        kernel = lowered(JAMMED, script)
        got = run(kernel, {"a": np.ones(50, np.float32), "y": np.zeros(50, np.float32), "n": 50})
        assert got.ok and (got.outputs["y"] == 6).all(), (script, got)


def test_a_part_of_a_sum_is_stored_by_one_thread() -> None:
    kernel = lowered(PARTS, "split-reduction{loop=i map=[block.y 2, seq]}")
    a = np.arange(99, dtype=np.float32)
    got = run(kernel, {"a": a, "y": np.zeros(192, np.float32), "m": 33, "n": 3})
    assert got.ok, got.findings
    np.testing.assert_array_equal(got.outputs["y"], np.repeat([0, 33, 66], 64))


def test_a_tile_whose_place_the_region_computes_is_not_staged_before_it() -> None:
    done = apply_script(parse_kernel(BANDS), parse_script("stage-shared{array=a loop=block}"))
    assert done.refused is not None and done.refused.code == "E-STAGE-FOOTPRINT", done


def test_an_exchange_through_an_array_of_open_size_is_not_guessed_at() -> None:
    text = """\
kernel swapped(a: f32 const* restrict, y: f32* restrict, m: i32, n: i32)
  launch grid((n + 3) / 4) block(32, 4)
  array s: shared f32[4, 33]
  var r: i32 = blockIdx.x * 4_u32 + threadIdx.y
  var t: i32 = threadIdx.x
  for base in 0..m step 32
    var i: i32 = r * m + base + t
    s[threadIdx.y, t] = r < n && base + t < m ? a[i] : 0.0
    barrier warp
    var v: f32 = s[threadIdx.y, 31 - t] + s[threadIdx.y, t ^ 1]
    barrier warp
    if r < n && base + t < m
      y[i] = v
"""
    done = apply_script(parse_kernel(text), parse_script("pad-shared{array=s by=$PAD} | raise"))
    assert not verify(done.kernel)


THREADS_OWN = """\
kernel sums(a: f64 const* restrict, y: f64* restrict, m: i32, n: i32)
  launch grid((m + 63) / 64) block(64)
  var j: i32 = blockIdx.x * 64_u32 + threadIdx.x
  if j < m
    var acc: f64 = 0.0_f64
    for r in 0..n
      acc += a[r * m + j]
    y[j] = acc
"""


def test_a_sum_of_a_thread_is_not_shared_with_threads_that_never_come_to_it() -> None:
    done = apply_script(parse_kernel(THREADS_OWN), parse_script("split-reduction{loop=r map=[thread.y 3, seq]}"))
    assert done.refused is not None and done.refused.code == "E-SPLIT-PLACE", done


def test_blocks_that_a_kernel_names_itself_stay_in_its_launch() -> None:
    """A reduction inside it is distributed; the rest says what each block does."""
    text = THREADS_OWN.replace("    for r in 0..n\n      acc += a[r * m + j]\n", "").replace(
        "    var acc: f64 = 0.0_f64\n", "    reduce(+) acc: f64 = 0.0_f64 over r in 0..n\n      yield a[r * m + j]\n"
    )
    kernel = lowered(text, "distribute{loop=r map=[unroll 3, seq]}")
    m, n = 150, 4
    a = np.arange(m * n, dtype=np.float64)
    got = run(kernel, {"a": a, "y": np.zeros(m), "m": m, "n": n})
    assert got.ok, got.findings
    np.testing.assert_array_equal(got.outputs["y"], a.reshape(n, m).sum(0))


ONE_AFTER_ANOTHER = """\
kernel turned(a: i32 const* restrict, y: i32* restrict, m: i32, n: i32)
  par k in 0..n @ [seq]
    par r in 0..m @ [block.x]
      array s: shared i32[32]
      par i in 0..32 @ [thread.x 32]
        s[i] = a[(k * m + r) * 32 + i]
      par i_1 in 0..32 @ [thread.x 32]
        y[(k * m + r) * 32 + i_1] = s[31 - i_1]
"""


def test_the_next_round_of_a_loop_around_blocks_waits_for_all_threads() -> None:
    kernel = lowered(ONE_AFTER_ANOTHER)
    m, n = 2, 3
    a = np.arange(m * n * 32, dtype=np.int32)
    got = run(kernel, {"a": a, "y": np.zeros_like(a), "m": m, "n": n}, domain="int")
    assert got.ok, got.findings
    np.testing.assert_array_equal(got.outputs["y"].reshape(-1, 32), a.reshape(-1, 32)[:, ::-1])


BESIDE = """\
kernel beside(y: i32* restrict, z: i32* restrict, n: i32)
  par r in 0..n @ [block.x]
    array buf: shared i32[64]
    par i in 0..64 @ [thread.x 32, seq]
      buf[i] = i * r
    z[r] = r
    par j in 0..64 @ [seq 16, block.z]
      y[r * 64 + j] = buf[(j + 5) % 64]
"""


def test_every_block_fills_its_own_shared_memory() -> None:
    """Beside a loop over blocks one of them writes what all can see, and each what it has for itself."""
    n = 3
    args = {"y": np.zeros(64 * n, np.int32), "z": np.zeros(n, np.int32), "n": n}
    got = run(lowered(BESIDE), args, domain="int", undefined=("y", "z"))
    assert got.ok, got.findings
    np.testing.assert_array_equal(got.outputs["y"].reshape(n, 64)[2], 2 * ((np.arange(64) + 5) % 64))
    np.testing.assert_array_equal(got.outputs["z"], np.arange(n))


OF_WARPS = """\
kernel largest(a: i32 const* restrict noalias, b: i32 const* restrict noalias, y: i32* restrict noalias, m: i32, n: i32)
  launch grid(n) block(128)
  array part: shared i32[32]
  var r: i32 = blockIdx.x
  var lane_: i32 = threadIdx.x % 32_u32
  var warp_: i32 = threadIdx.x / 32_u32
  var acc: i32 = -100000
  for j in threadIdx.x..m step 128
    var i: i32 = r * m + j
    acc = max(acc, i % 3 == 1 ? b[i] : b[i])
  for d = 16; d > 0; d / 2
    acc = max(acc, shfl_down(acc, d as u32))
  if lane_ == 0
    part[warp_] = acc
  barrier
  if warp_ == 0
    acc = lane_ < 4 ? part[lane_] : -100000
    for d_1 = 16; d_1 > 0; d_1 / 2
      acc = max(acc, shfl_down(acc, d_1 as u32))
    if lane_ == 0
      y[r] = acc
"""


def test_the_maximum_of_one_warp_is_not_taken_for_that_of_all() -> None:
    """Small integers have their largest in every warp: nothing but other values tells them apart."""
    source = parse_kernel(OF_WARPS)
    done = apply_script(source, parse_script("raise"))
    kernel = source if done.refused is not None else materialise(done.kernel)
    a = np.random.default_rng(1).permutation(8 * 128).astype(np.int32)
    got = run(kernel, {"a": a, "b": a, "y": np.zeros(8, np.int32), "m": 128, "n": 8}, domain="int")
    np.testing.assert_array_equal(got.outputs["y"], a.reshape(8, 128).max(1))


def test_no_launch_knows_a_serial_loops_variable() -> None:
    """An open level over a tile of a serial loop would want another block every round: refused, where the launch named
    the loop's variable."""
    kernel = parse_kernel("""
kernel fill(out: i32* restrict noalias, m: i32, n: i32)
  par j_tile in 0..cdiv(m, 16) @ [seq]
    par r in 0..n @ [block.x]
      par j in j_tile * 16..min(j_tile * 16 + 16, m) @ [warp 3, thread.z]
        out[r * m + j] = 0
""")
    with pytest.raises(LoweringError, match="hangs on 'j_tile'"):
        materialise(kernel)
    sized = parse_kernel(print_kernel(kernel).replace("thread.z]", "thread.z 2, seq]"))
    assert not verify(materialise(sized))


def test_a_total_without_parts_is_stored_by_some_block() -> None:
    """As many blocks as there are parts are none of an empty sum, and nothing was stored: the launcher asks."""
    split = "split-reduction{loop=k map=[thread.z 2, block.z 1, seq]}"
    kernel = parse_kernel("""
kernel product(a: i32 const* restrict, b: i32 const* restrict, out: i32* restrict, m: i32, n: i32)
  launch grid((n + 15) / 16, (n + 15) / 16) block(16, 16)
  let c: i32 = blockIdx.x * 16_u32 + threadIdx.x
  let r: i32 = blockIdx.y * 16_u32 + threadIdx.y
  if r < n && c < n
    var acc: i32 = 0
    for k in 1..m
      acc += a[r * m + k] * b[k * n + c]
    out[r * n + c] = 2 * acc
""")
    parts = "distribute{loop=k map=[thread.z 2, block.z]}"
    done = apply_script(kernel, parse_script(f"raise | {split} | {parts}"))
    assert done.refused is None
    assert "assume 1 < m origin guessed" in print_kernel(materialise(done.kernel))


def test_coarsened_rounds_stay_apart() -> None:
    """A knob larger than the block makes both the block and the step 0 threads, so they seemed one size: every copy
    went through all elements."""
    kernel = parse_kernel("""
kernel copy(a: i32 const* restrict, out: i32* restrict, m: i32, n: i32)
  launch grid(n) block(128)
  for j = threadIdx.x; j < m; j + blockDim.x
    out[blockIdx.x * m + j] = a[blockIdx.x * m + j]
""")
    done = apply_script(kernel, parse_script("coarsen{at=thread.x factor=$C} | raise"))
    made = materialise(done.kernel if done.refused is None else kernel)
    a = np.arange(500, dtype=np.int32)
    inputs = {"a": a, "out": np.zeros(500, np.int32), "m": 100, "n": 5}
    got = run(bind(made, {"C": 4} if made.knobs else {}), inputs, domain="int", sanitize=True)
    np.testing.assert_array_equal(got.outputs["out"], a)
    assert not got.findings


IN_PLACE = parse_kernel("""
kernel scale(x: i32* restrict, n: i32, d: i32)
  par row in 0..n @ [block.x]
    reduce(+) sum: i32 = 0 over i in 0..d @ [thread.x 32, seq]
      yield x[row * d + i]
    par i in 0..d @ [thread.x 32, seq]
      let a: i32 = x[row * d + i]
      x[row * d + i] = a * sum
""")


def test_a_row_in_place_is_read_by_the_threads_that_write_it() -> None:
    """Threads along y, which the sum alone has, read elements while the first of them wrote."""
    done = apply_script(IN_PLACE, parse_script("split-reduction{loop=i map=[warp 2, seq]}"))
    assert done.refused is None
    x = np.arange(1, 151, dtype=np.int32)
    got = run(materialise(done.kernel), {"x": x.copy(), "n": 3, "d": 50}, domain="int", sanitize=True)
    assert not got.findings
    rows = x.reshape(3, 50)
    np.testing.assert_array_equal(got.outputs["x"], (rows * rows.sum(1, keepdims=True)).ravel())


def test_loops_that_want_too_large_a_block_together_are_refused() -> None:
    done = apply_script(IN_PLACE, parse_script("split-reduction{loop=i map=[warp 64, seq]}"))
    with pytest.raises(LoweringError, match="a block of 2048 threads"):
        materialise(done.kernel)
