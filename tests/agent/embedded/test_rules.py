"""The rules planner: the right family of scripts for each shape of nest, all of which apply; names play no part."""

import dataclasses
import re
from functools import cache

import pytest

from ktc.agent.build import Builder, Candidate
from ktc.agent.embedded.carried import shared_columns
from ktc.agent.embedded.rows import rows_alone
from ktc.agent.embedded.rules import Rules, shape_of
from ktc.agent.planner import Observation, Outcome, Proposal
from ktc.backends.base import DeviceInfo
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.frontend import load
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script, sites
from tests.agent.agent_kernels import SHAPES, SIZES, WARP_ROWS

GPU = DeviceInfo("cuda", "a GPU", "cuda-sm90", 132, 1024, 227 << 10)
EXPECTED = {
    "stream": ("one long loop", r"\[vec \$V, thread.x \$T, block.x\]"),
    "rows": ("rows", r"\[vec \$V, thread.x \$T, unroll \$U\]} where V \* T \* U < \d+"),
    "few-rows": ("rows", r"thread.x \$T, unroll \$U, block.y\]"),
    "short-rows": ("short rows", r"rows-mapping.*vectorize"),
    "reduction": ("row reduction", r"unroll \$U\]} \| row-cache{loop=\w+\.\* where=registers}"),
    "stencil": ("plane with shared neighbours", r"unroll \$UY, thread.y"),
    "transpose": ("a tile through shared memory", r"tile{loops=y,x .*stage-shared{array=in loop=x_tile"),
    "thread-rows": (
        "row reduction",
        r"\[block.x\].*parallelize{loop=j\.\* .* row-cache{loop=j\.\* where=registers}",
    ),
    "volume": ("plane with shared neighbours", r"loop=y map=\[unroll \$UY, thread.y.*block.y\].*loop=x "),
    "product": (
        "tiles in shared memory and registers",
        r"tile{loops=y,x .*stage-shared{array=\w+ loop=\w+\.\* transpose=yes}",
    ),
}


@cache
def builder_of(source):
    """One for all that asks of a kernel: each script is built once."""
    return Builder(parse_kernel(source))


def observe(source, sizes, history=(), remembered=()):
    builder = builder_of(source)
    kernel = builder.original
    raised = builder.build(Proposal("raise", ""))
    seen = raised.kernel if isinstance(raised, Candidate) else kernel
    observation = Observation(
        kernel, seen if seen is not kernel else None, (facts(seen, sizes),), GPU,
        lambda: tuple(s for group in sites(seen).values() for s in group), tuple(history), tuple(remembered),
        builder.attempt,
    )  # fmt: skip
    return builder, observation


@pytest.mark.parametrize("name", EXPECTED)
def test_first_idea_is_the_experts(name):
    _, o = observe(SHAPES[name], SIZES[name])
    first = Rules().propose(o, 6)[0]
    family, pattern = EXPECTED[name]
    assert first.reason.startswith(family + ":")
    assert re.search(pattern, first.script), first.script


def test_short_rows_with_sums_are_in_the_registers_of_warps_first():
    rows = print_kernel(
        load("""
__global__ void scaled(const float* x, float* y, int n) {
  __shared__ float s[64];
  int i = blockIdx.x * 64 + threadIdx.x;
  s[threadIdx.x] = x[i];
  __syncthreads();
  for (int k = 32; k > 0; k /= 2) {
    if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
    __syncthreads();
  }
  y[i] = x[i] * s[0];
}
void go(const float* x, float* y, int n) { scaled<<<n, 64>>>(x, y, n); }
""")
    )
    builder, o = observe(rows, {"n": 4096})
    first = Rules().propose(o, 6)[0]
    assert re.search(r"distribute\{loop=\w+ map=\[thread.y \$ROWS:\(2,4,8,16\), block.x\]\}", first.script)
    assert "thread.x $T:(4,8,16,32), unroll $U]" in first.script
    assert isinstance(builder.build(first), Candidate)


def test_a_strided_side_without_staging_is_tried_too():
    """What may alias cannot be staged: several elements a thread, then, along either side."""
    _, o = observe(SHAPES["transpose"].replace(" restrict", ""), SIZES["transpose"])
    first = Rules().propose(o, 6)[0]
    assert first.reason.startswith("plane with a strided side:") and "unroll $UY, thread.y" in first.script


REPEATED = """
kernel k(y: f32* restrict noalias, x: f32 const* restrict noalias, n: i32, m: i32)
  launch grid(cdiv(n, 256)) block(256)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    for r: i32 = 0; r < m; r + 1
      y[i] = sqrt(y[i] * 0.5 + x[i])
"""


def test_what_a_loop_updates_again_and_again_is_in_registers_and_on_every_unit():
    """Few elements, each gone through many steps: a variable an element, and blocks as small as a warp."""
    builder, o = observe(REPEATED, {"n": 16384, "m": 1000})
    found = [p.script for p in Rules().propose(o, 8)]
    assert found[0] == "raise | promote{loop=r} | distribute{loop=i map=[thread.x $T:(32,64,128), block.x]}"
    assert all(builder.attempt(s) is None for s in found)
    _, o = observe(REPEATED, {"n": 1 << 24, "m": 1000})
    assert "promote{loop=r} | distribute{loop=i map=[vec $V" in Rules().propose(o, 1)[0].script


def test_rows_side_by_side_become_rows_of_their_own():
    """A warp a row: nothing in the table knows such a nest; a block a row, and it is a row reduction."""
    raised = parse_kernel(WARP_ROWS)
    steps, shape = rows_alone(raised, facts(raised, {"n": 4096, "d": 4096}))
    assert steps == "distribute{loop=row map=[block.x]}"
    assert shape.is_rows and shape.has_reduction and set(shape.col_names) == {"i.*"}
    assert rows_alone(parse_kernel(SHAPES["transpose"]), facts(raised, {})) is None


def test_a_window_that_slides_is_no_row_of_a_thread():
    """``in[i + j]``: neighbouring threads read neighbours already, and there are more of them than a device holds."""
    window = SHAPES["thread-rows"].replace("x[i * c + j]", "x[i + j]").replace("y[i * c + j]", "y[i]")
    _, o = observe(window, {"n": 1 << 20, "c": 9, "threads": 128})
    scripts = [p.script for p in Rules().propose(o, 20)]
    assert scripts and not any("parallelize" in s or "split-reduction" in s for s in scripts)


def test_a_matrix_times_a_vector_has_a_warp_for_each_row():
    """``y[i] = sum of w[i, j] * v[j]``, a row a thread: what is written once a row says nothing of its sweep."""
    swept = SHAPES["thread-rows"].split("    for j: i32 = 0; j < c; j + 1\n      y[")[0]
    product = swept.replace("s + x[i * c + j]", "s + x[i * c + j] * x[j]") + "    y[i] = s\n"
    _, o = observe(product, {"n": 4096, "c": 4096, "threads": 128})
    first = Rules().propose(o, 6)[0].script
    assert "loop=i map=[thread.y $ROWS:(2,4,8), block.x]" in first and "loop=j map=[vec $V, thread.x 32" in first
    loop = "      for b: i32 = 0; b < 8; b + 1\n        s = s"
    nibbles = product.replace("x[j]", "x[j * 8 + b]").replace("      s = s", loop)
    _, o = observe(nibbles, {"n": 4096, "c": 512, "threads": 128})
    assert "split-reduction{loop=b map=[vec 4, unroll 2]}" in Rules().propose(o, 6)[0].script


RANKED = """\
kernel k(x: f32 const*, y: f32*, dims: u64 const*, n: u32, rank: i32)
  launch grid(cdiv(n, 64)) block(64)
  let i: u32 = u32(blockIdx.x) * 64_u32 + u32(threadIdx.x)
  if i < n
    var left: u32 = i
    var at: u32 = 0_u32
    for d: i32 = 0; d < rank; d + 1
      at += left % dims[d]
      left /= dims[d]
    y[i] = x[at]
"""


def test_extents_in_memory_are_divided_by_with_reciprocals_where_there_are_always_as_many():
    _, o = observe(RANKED, {"n": 1 << 20, "rank": 3})
    scripts = [p.script for p in Rules().propose(o, 8)]
    assert scripts[0] == f"{scripts[1]} | invariant-division" and "| specialize{rank=3} |" in scripts[1]
    _, o = observe(RANKED, {"n": 1 << 20, "rank": 40})
    assert not any("invariant-division" in p.script for p in Rules().propose(o, 8))


@pytest.mark.parametrize("written", ["x", "y"], ids=["in place", "beside"])
def test_a_softmax_as_first_written_keeps_its_row_in_registers(written):
    """The sweep that sums stores what the last one reads and overwrites; that store is left out first."""
    row = SHAPES["thread-rows"].split("    var s: f32")[0].replace("x: f32 const*", "x: f32*")
    out = f"{written}[i * c + j]"
    softmax = f"""{row}    var m: f32 = -1000.0
    for j: i32 = 0; j < c; j + 1
      m = max(m, x[i * c + j])
    var s: f32 = 0.0
    for j: i32 = 0; j < c; j + 1
      {out} = exp(x[i * c + j] - m)
      s = s + {out}
    for j: i32 = 0; j < c; j + 1
      {out} = {out} / s
"""
    _, o = observe(softmax, {"n": 4096, "c": 4096, "threads": 128})
    first = Rules().propose(o, 6)[0].script
    assert first.startswith(f"raise | defer-store{{array={written}}} | distribute{{loop=i map=[block.x]}}"), first
    assert "row-cache{loop=j.* where=registers}" in first


def test_layers_of_a_volume_are_stacked_too():
    _, o = observe(SHAPES["volume"], SIZES["volume"])
    scripts = [p.script for p in Rules().propose(o, 12)]
    assert any("loop=z map=[unroll $UZ:(2,4,8), block.z]" in s and "loop=x map=[vec $V" in s for s in scripts)
    _, flat = observe(SHAPES["stencil"], SIZES["stencil"])
    assert not any("$UZ" in p.script for p in Rules().propose(flat, 20))


@pytest.mark.parametrize("name", SHAPES)
def test_every_proposal_applies(name):
    builder, o = observe(SHAPES[name], SIZES[name])
    proposals = Rules().propose(o, 20)
    refused = [(p.script, builder.attempt(p.script)) for p in proposals if builder.attempt(p.script)]
    assert proposals and not refused
    assert len({p.script for p in proposals}) == len(proposals)


@pytest.mark.parametrize("name", ["stream", "rows", "reduction"])
def test_names_play_no_part(name):
    """The same kernel with every name changed gets the same scripts, up to those names."""
    table = {"i": "q7", "row": "zz", "sum": "acc9", "in": "src", "out": "dst", "d": "len_", "n": "cnt"}

    def renamed(text):
        for old, new in table.items():
            text = re.sub(rf"(?<![\w$]){old}(?!\w|-\w)", new, text)
        return text

    _, a = observe(SHAPES[name], SIZES[name])
    _, b = observe(renamed(SHAPES[name]), {table.get(k, k): v for k, v in SIZES[name].items()})
    mine = [renamed(p.script) for p in Rules().propose(a, 10)]
    assert mine == [p.script for p in Rules().propose(b, 10)]


def test_a_kernel_that_is_raised_in_part_gets_scripts_that_apply():
    """A value carried from iteration to iteration stays in a serial loop; what is proposed around it is legal."""
    _, o = observe(SHAPES["serial"], SIZES["serial"])
    for p in Rules().propose(o, 10):
        assert apply_script(o.kernel, parse_script(p.script)).refused is None, p.script


def test_a_kernel_that_cannot_be_raised_gets_what_its_sites_offer():
    _, o = observe(SHAPES["serial"], SIZES["serial"])
    o = dataclasses.replace(o, raised=None)
    assert {p.script for p in Rules().propose(o, 10)} <= {str(s.step) for s in o.sites}


def test_history_is_not_repeated_and_the_best_is_refined():
    _, o = observe(SHAPES["rows"], SIZES["rows"])
    seen = Rules().propose(o, 3)
    history = [Outcome(p.script, "tuned", gain=1.0 + n) for n, p in enumerate(seen)]
    _, o = observe(SHAPES["rows"], SIZES["rows"], history)
    later = Rules().propose(o, 30)
    assert not {p.script for p in later} & {p.script for p in seen}
    refined = [p.script for p in later if p.script.startswith(seen[2].script)]
    assert any("cache-hints" in s for s in refined)


@pytest.mark.parametrize("bar", ["", "| "])
def test_cheaper_functions_are_tried_on_the_best_before_other_ideas(bar):
    source = SHAPES["reduction"].replace("x[row + i] = w * inv", "x[row + i] = exp(w) * inv")
    first, second = Rules().propose(observe(source, SIZES["reduction"])[1], 2)
    best, _, condition = second.script.partition(" where ")
    history = [
        Outcome(first.script, "tuned", gain=1.5),
        Outcome(f"{best} {bar}where {condition}", "tuned", gain=2.0),
    ]
    later, *others = Rules().propose(observe(source, SIZES["reduction"], history)[1], 3)
    assert condition and later.script.startswith(f"{best} | fast-math")
    assert not any(p.script.startswith(f"{best} | ") for p in others)


def test_on_a_cpu_stores_past_the_caches_are_tried_on_the_best_at_once():
    """How wide its loops are and how often they are unrolled is the compiler's business there."""
    ideas = {}
    for where, device in (("gpu", GPU), ("cpu", DeviceInfo("numba", "a CPU", "numba", 2, 1024, 1 << 20))):
        _, o = observe(SHAPES["stream"], SIZES["stream"], [Outcome("raise", "tuned", gain=2.0)])
        ideas[where] = [p.script for p in Rules().propose(dataclasses.replace(o, device=device), 20)]
    streaming = next(s for s in ideas["cpu"] if "cache-hints" in s)
    assert ideas["cpu"].index(streaming) < ideas["gpu"].index(streaming)
    assert not any("| unroll" in s for s in ideas["cpu"]) and any("| unroll" in s for s in ideas["gpu"])


def test_memory_comes_first():
    won = Proposal("raise | vectorize{loop=i width=$V}", "won before", 2.0, "memory")
    _, o = observe(SHAPES["stream"], SIZES["stream"], remembered=[won])
    assert Rules().propose(o, 2)[0] == won


def test_roles_of_loops():
    _, o = observe(SHAPES["reduction"], SIZES["reduction"])
    shape = shape_of(o.facts[0])
    assert [r.levels for r in shape.rows] == [("block.x",)]
    assert shape.col_names == ("i.*",) and len(shape.cols) == 2 and shape.has_reduction and not shape.short
    assert shape.free_block_axis == "y"


CARRIED = {
    "scan": (
        "  par r in 0..n @ [thread.x 128, block.x]\n    var s: f32 = 0.0\n    for i in 0..m\n"
        "      s += x[r * m + i]\n      out[r * m + i] = s\n",
        "distribute{loop=r map=[block.x]} | scan{loop=i map=",
    ),
    "columns": (
        "  par j in 0..m @ [thread.x 128, block.x]\n    var s: f32 = 0.0\n    for i in 0..n\n"
        "      s += x[i * m + j]\n    out[j] = s\n",
        "| split-reduction{loop=i map=[unroll $U:(4,8), thread.y",
    ),
    "counts": (
        "  par i in 0..n @ [thread.x 128, block.x]\n    atomic add out[i32(x[i]) & 255], 1.0\n",
        "| privatize-atomics{array=out bins=256 copies=$C:(1,32)}",
    ),
    "online": (
        "  par r in 0..n @ [block.x]\n    reduce(max) m1: f32 = -inf over i in 0..m @ [thread.x 128, seq]\n"
        "      yield x[r * m + i]\n    reduce(+) s: f32 = 0.0 over i in 0..m @ [thread.x 128, seq]\n"
        "      yield exp(x[r * m + i] - m1)\n    out[r] = log(s) + m1\n",
        "online-reduction{loop=i map=[vec $V, thread.x $T, unroll $U] own=thread}",
    ),
}
CARRIED |= {
    "whole sum": (
        "  par b in 0..cdiv(n, 256) @ [block.x]\n    reduce(+) s: f32 = 0.0 over t in 0..256 @ [thread.x 256]\n"
        "      let i: i32 = b * 256 + t\n      yield i < n ? x[i] : 0.0\n    atomic add out[0], s\n",
        "seq $S:(1,2,4), block.x]} | reduce-strategy{loop=i strategy=atomic}",
    ),
}


@pytest.mark.parametrize("name", CARRIED)
def test_carried_and_shared_values_have_ideas_of_their_own(name):
    from ktc.agent.embedded.carried import carried, whole_sums

    body, wanted = CARRIED[name]
    k = parse_kernel("kernel k(out: f32* restrict, x: f32 const* restrict, n: i32, m: i32)\n" + body)
    ideas = [steps for steps, _, _ in (*whole_sums(k, 132), *carried(k, 132))]
    assert any(wanted in steps for steps in ideas), ideas
    assert all(apply_script(k, parse_script(steps)).refused is None for steps in ideas)


RUNNING = """\
kernel k(out: f32* restrict, x: f32 const* restrict, n: i32, m: i32)
  launch grid(cdiv(n, 128)) block(128)
  let r: i32 = blockIdx.x * 128 + threadIdx.x
  if r < n
    var s: f32 = 0.0
    for i in 0..m
      s += x[r * m + i]
      out[r * m + i] = s
"""


@pytest.mark.parametrize(("rows", "blocks_first"), [(1, True), (16, True), (8192, False)])
def test_few_long_rows_are_scanned_by_all_blocks(rows, blocks_first):
    _, o = observe(RUNNING, {"n": rows, "m": 1 << 16})
    scripts = [p.script for p in Rules().propose(o, 10) if "scan{" in p.script]
    wide = next(k for k, s in enumerate(scripts) if "block.x $BLOCKS" in s.rpartition("scan{")[2])
    assert (wide == 0) == blocks_first, scripts


BATCH = """
kernel batch(c: f32* restrict align 16, a: f32 const* restrict align 16, b: f32 const* restrict align 16, n: i32,
    count: i32)
  launch grid((n + 15) / 16, (n + 15) / 16, count) block(16, 16)
  let x: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  let y: i32 = (blockIdx.y * blockDim.y + threadIdx.y) as i32
  let m: i32 = blockIdx.z as i32
  if m < count && x < n && y < n
    var s: f32 = 0.0
    for k in 0..n
      s += a[m * n * n + y * n + k] * b[m * n * n + k * n + x]
    c[m * n * n + y * n + x] = s
"""


@pytest.mark.parametrize(("n", "tile"), [(512, "64,128"), (4096, "128,256"), (32, "16,32")])
def test_a_batch_of_products_is_staged_in_tiles_that_give_every_unit_a_block(n, tile):
    _, o = observe(BATCH, {"n": n, "count": 16})
    scripts = [p.script for p in Rules().propose(o, 12)]
    assert f"sizes={tile}" in scripts[0] and "stage-shared" in scripts[0]
    assert any("unroll $TM" in s and "stage-shared" not in s for s in scripts)


def test_no_staging_is_proposed_where_shared_memory_is_like_any_other():
    _, o = observe(BATCH, {"n": 256, "count": 16})
    cpu = dataclasses.replace(o, device=DeviceInfo("opencl", "a CPU", "opencl-cl12", 8, 1024, 32 << 10))
    scripts = [p.script for p in Rules().propose(cpu, 12)]
    assert scripts and not any("stage-shared" in s for s in scripts)


COLUMNS = """
kernel k(x: f32 const* noalias readonly, y: f32* noalias, rows: i32 range 1..65536, cols: i32 range 1..65536)
  launch grid((cols + 31) / 32) block(32, 8)
  par col in 0..cols @ [thread.x 32, block.x]
    reduce(+) s: f32 = 0.0 over r in 0..rows @ [thread.y 8, seq]
      yield x[INDEX]
    y[col] = s
"""


@pytest.mark.parametrize(("index", "columns"), [("r * cols + col", True), ("col * rows + r", False)])
def test_columns_that_threads_share_stay_side_by_side(index: str, columns: bool) -> None:
    kernel = parse_kernel(COLUMNS.replace("INDEX", index))
    f = facts(kernel, {"rows": 4096, "cols": 4096})
    assert (rows_alone(kernel, f) is None) == columns
    found = [steps for steps, _, _ in shared_columns(kernel)]
    assert len(found) == 2 and "block.y $PARTS" in found[0] and "thread.y $TY" in found[1]
    for steps in found:
        assert apply_script(kernel, parse_script(steps)).refused is None


PACKED = """
kernel unpack(w: u32 const* restrict align 16, out: f32* restrict align 16, n: i32)
  launch grid((n + 127) / 128) block(128)
  let j: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if j < n
    let word: u32 = w[j]
    for i in 0..8
      out[j * 8 + i] = f32(word >> 4 * i & 15_u32)
"""


def test_elements_that_a_thread_unpacks_are_stored_in_one_access() -> None:
    """Eight stores a thread, each as far from its neighbour's as eight elements: nothing else makes them wide."""
    builder, observation = observe(PACKED, {"n": 1 << 20})
    scripts = [p.script for p in Rules().propose(observation, 8)]
    assert "raise | parallelize{loop=i map=[vec 4, unroll 2]}" in scripts
    assert (
        "raise | parallelize{loop=i map=[vec 4, unroll 2]} | distribute{loop=j map=[thread.x $TX, block.x]}" in scripts
    )
    assert all(isinstance(builder.build(Proposal(s, "")), Candidate) for s in scripts)


BY_HAND = """
kernel add(a: f32 const* restrict align 16, b: f32 const* restrict align 16, c: f32* restrict align 16, n: i32)
  launch grid((n / 4 + 255) / 256) block(256)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n / 4
    let x: f32x4 = a[i * 4 +: 4]
    let y: f32x4 = b[i * 4 +: 4]
    c[i * 4 +: 4] = f32x4{x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3]}
"""


def test_what_is_a_vector_by_hand_is_read_as_elements_that_are_spread_anew() -> None:
    """The ideas are those of the kernel that adds one element a thread."""
    builder, observation = observe(BY_HAND, {"n": 1 << 22})
    scripts = [p.script for p in Rules().propose(observation, 8)]
    assert "raise | distribute{loop=i map=[vec $V, thread.x $T, block.x]}" in scripts
    assert all(isinstance(builder.build(Proposal(s, "")), Candidate) for s in scripts)


ROWS_OF_A_VOLUME = """
kernel sweep(out: f32* restrict, in: f32 const* restrict, w: i32, h: i32, d: i32)
  launch grid(h - 2, d - 2) block(w - 1)
  let x: i32 = threadIdx.x as i32
  let y: i32 = blockIdx.x as i32 + 1
  let z: i32 = blockIdx.y as i32 + 1
  if x > 0
    let along: f32 = in[(z * h + y) * w + x - 1] + in[(z * h + y) * w + x + 1]
    let down: f32 = in[(z * h + y - 1) * w + x] + in[(z * h + y + 1) * w + x]
    out[(z * h + y) * w + x] = along + down + in[((z - 1) * h + y) * w + x] + in[((z + 1) * h + y) * w + x]
"""
ROWS_OF_A_PLANE = """
kernel sweep(out: f32* restrict, in: f32 const* restrict, w: i32, h: i32)
  launch grid(h - 2) block(w - 1)
  let x: i32 = threadIdx.x as i32
  let y: i32 = blockIdx.x as i32 + 1
  if x > 0
    out[y * w + x] = in[y * w + x - 1] + in[y * w + x + 1] + in[(y - 1) * w + x] + in[(y + 1) * w + x]
"""


@pytest.mark.parametrize(
    ("source", "sizes", "stacked"),
    [(ROWS_OF_A_VOLUME, {"w": 512, "h": 512, "d": 64}, "unroll $UZ"), (ROWS_OF_A_PLANE, {"w": 512, "h": 512}, "$UY")],
)
def test_rows_that_share_loads_are_stacked_whoever_had_the_blocks(source: str, sizes: dict, stacked: str) -> None:
    """A block a row, as first written: neighbouring rows are read again by each block."""
    builder, o = observe(source, sizes)
    ideas = [p for p in Rules().propose(o, 12) if "rows with shared neighbours" in p.reason]
    assert stacked in ideas[0].script and "thread.y" in ideas[0].script
    assert all(isinstance(builder.build(p), Candidate) for p in ideas)


FIRST_CHANNELS = """\
kernel part(y: f32* restrict align 16, x: f32 const* restrict align 16, c: f32 const* restrict align 16,
    n: i32 range 1..65536, d: i32 range 1..8192, m: i32 range 0..8192)
  launch grid(n) block(256)
  let r: i32 = i32(blockIdx.x)
  for i = i32(threadIdx.x); i < d; i + 256
    if i < m
      y[r * d + i] = x[r * d + i] * c[i]
    else
      y[r * d + i] = x[r * d + i]
"""
HEADS = """\
kernel heads(x: f32* restrict align 16, c: f32 const* restrict align 16, n: i32 range 1..65536, h: i32 range 1..128,
    d: i32 range 1..1024)
  launch grid(n) block(256)
  let t: i32 = i32(blockIdx.x)
  for e = i32(threadIdx.x); e < h * d; e + 256
    let k: i32 = e / d
    let i: i32 = e % d
    x[(t * h + k) * d + i] = x[(t * h + k) * d + i] * c[t * d + i]
"""


def test_no_element_asks_which_part_of_its_row_it_is_in() -> None:
    _, observation = observe(FIRST_CHANNELS, {"n": 4096, "d": 1024, "m": 512})
    scripts = [p.script for p in Rules().propose(observation, 12)]
    assert any(
        re.match(r"raise \| split-range\{loop=i within=yes\} \| .*loop=i\.\* (map=\[vec|width)", s) for s in scripts
    ), scripts


@pytest.mark.parametrize(("tokens", "parts"), [(8, "$P:(4,8,2,1)"), (8192, "$P:(1,2,4)")])
def test_short_rows_of_a_row_lie_side_by_side_and_are_shared_out(tokens: int, parts: str) -> None:
    _, observation = observe(HEADS, {"n": tokens, "h": 32, "d": 64})
    scripts = [p.script for p in Rules().propose(observation, 12)]
    levels = f"i=[vec $V, thread.x $T:(16,32,8,64), seq] k=[thread.y $ROWS:(8,4,16,2), block.y {parts}, seq]"
    assert any(s.startswith("raise | delinearise") and s.endswith(f"map{{{levels}}}") for s in scripts), scripts


DIGITS = """\
kernel digits(y: f32* restrict align 16, x: f32 const* restrict align 16, b: i32 range 1..8192, h: i32 range 1..64,
    w: i32 range 1..64)
  launch grid((b * h * w + 255) / 256) block(256)
  let i: i32 = i32(blockIdx.x) * 256 + i32(threadIdx.x)
  if i < b * h * w
    y[i] = x[(i / w / h * w + i % w) * h + i / w % h]
"""
BESIDE = """\
kernel beside(y: f32* restrict align 16, x: f32 const* restrict align 16, z: f32 const* restrict align 16,
    b: i32 range 1..65536, n: i32 range 1..65536, m: i32 range 1..65536)
  launch grid((b * (n + m) + 255) / 256) block(256)
  let i: i32 = i32(blockIdx.x) * 256 + i32(threadIdx.x)
  if i < b * (n + m)
    let r: i32 = i / (n + m)
    let j: i32 = i % (n + m)
    if j < n
      y[i] = x[r * n + j]
    else
      y[i] = z[r * m + j - n]
"""


def test_the_loops_of_digits_come_before_the_flat_loop() -> None:
    _, observation = observe(DIGITS, {"b": 4096, "h": 32, "w": 32})
    scripts = [p.script for p in Rules().propose(observation, 16)]
    nests = [s.startswith("raise | delinearise{loop=i") for s in scripts]
    assert nests[0] and not all(nests) and nests == sorted(nests, reverse=True), scripts
    levels = "i_1=[thread.y $ROWS, block.y] i_2=[vec $V, thread.x $LANES:(2,4,8,16,32,64,128)]"
    assert any(f"map{{i_0=[block.x] {levels}}}" in s for s in scripts), scripts


def test_rows_of_two_inputs_side_by_side_are_two_loops() -> None:
    _, observation = observe(BESIDE, {"b": 4096, "n": 1024, "m": 2048})
    scripts = [p.script for p in Rules().propose(observation, 4)]
    nest = "raise | delinearise{loop=i loops=3} | map{r=[block.x] j=[thread.x 256, seq]}"
    assert scripts[0].startswith(f"{nest} | split-range{{loop=j within=yes}} | distribute{{loop=j.* map=[vec $V"), (
        scripts
    )


SCATTERED = """
kernel k(y: f32* restrict noalias, x: f32 const* restrict noalias, n: i32, taps: i32, s: i32 range 1..8)
  launch grid(cdiv(n, 256)) block(256)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    var sum: f32 = 0.0
    for k: i32 = 0; k < taps; k + 1
      let at: i32 = i - k
      if at >= 0 && at % s == 0
        sum += x[at / s]
    y[i] = sum
"""


def test_no_schedule_goes_through_iterations_that_do_nothing():
    builder, o = observe(SCATTERED, {"n": 1 << 20, "taps": 16, "s": 4})
    ideas = Rules().propose(o, 4)
    assert len(ideas) == 4 and all(p.script.startswith("raise | tighten{loop=k}") for p in ideas)
    assert all(isinstance(builder.build(p), Candidate) for p in ideas)


LAID_OUT = """\
kernel permute(y: f32* restrict, x: f32 const* restrict, n: i32, rank: i32, s_0: i32, s_1: i32, s_2: i32)
  launch grid((n + 255) / 256) block(256)
  let at: i32 = i32(blockIdx.x) * 256 + i32(threadIdx.x)
  if at < n
    array s: i32[3]
    s[0] = s_0
    s[1] = s_1
    s[2] = s_2
    var from: i32 = 0
    for i in 0..rank
      from += at * s[i]
    y[at] = x[from]
"""


def test_few_ideas_for_as_many_dimensions_as_were_seen_come_before_others():
    def starts(**layout: int) -> list[bool]:
        _, o = observe(LAID_OUT, {"n": 1 << 20, "rank": 2, "s_2": 1, **layout})
        return ["specialize{rank=2} | distribute" in p.script for p in Rules().propose(o, 8)]

    found = starts(s_0=64, s_1=1)
    assert found[0] and not all(found[:5]), found
    assert not any(starts(s_0=1, s_1=1))  # what is the same for all dimensions says nothing of a tensor


SEGMENTS = """\
kernel spread(y: f32* restrict, x: f32 const* restrict, ends: i32 const* restrict, n: i32 range 1..16777216)
  launch grid(n) block(32)
  for i = ends[i32(blockIdx.x)] + i32(threadIdx.x); i < ends[i32(blockIdx.x) + 1]; i + 32
    y[i] = x[i32(blockIdx.x)]
"""


def test_many_rows_whose_lengths_the_data_say_lie_side_by_side_in_a_block():
    _, o = observe(SEGMENTS, {"n": 1 << 20})
    scripts = [p.script for p in Rules().propose(o, 3)]
    assert any("[thread.y $ROWS:(16,32,8,4), block.x] i=[thread.x $LANES:(8,16,32,4), seq]" in s for s in scripts), (
        scripts
    )


HALVES = """
kernel sums(x: bf16 const* restrict noalias align 16, y: bf16* restrict noalias, n: i32, host rows: i32)
  launch grid(rows) block(128)
  array part: shared bf16[128]
  let tx: i32 = threadIdx.x as i32
  var own: bf16 = 0.0_bf16
  for i: i32 = tx; i < n; i + 128
    own += x[blockIdx.x as i32 * n + i]
  part[tx] = own
  barrier
  for s: i32 = 64; s > 0; s / 2
    if tx < s
      part[tx] += part[tx + s]
    barrier
  if tx == 0
    y[blockIdx.x as i32] = part[0]
"""


def test_sums_in_half_precision_are_widened_before_they_are_spread() -> None:
    _, o = observe(HALVES, {"rows": 4096, "n": 4096})
    scripts = [p.script for p in Rules().propose(o, 8)]
    assert scripts[0].startswith("raise | widen-accumulators | distribute{loop=i map=[vec $V, thread.x $T")
    assert any("widen" not in s for s in scripts)
