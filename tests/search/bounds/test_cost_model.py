"""Counts of a schedule, and the time that a GPU is expected to take for them: small kernels with known answers."""

from __future__ import annotations

import pytest

import ktc
from ktc.ir.analysis.neighbouring_accesses import is_near
from ktc.ir.analysis.schedule_counts import schedule_counts
from ktc.ir.frontend import load
from ktc.ir.kernel import Kernel, bind
from ktc.ir.text import parse_kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from ktc.search.bounds.cost_model import Estimate, estimate, machine_of

N = 1 << 22


def kernel(body: str, params: str, launch: str) -> Kernel:
    text = f"__global__ void f({params}) {{ {body} }}\nvoid run({params}) {{ f<<<{launch}>>>(NAMES); }}"
    names = ", ".join(p.split()[-1].lstrip("*") for p in params.split(","))
    return load(text.replace("NAMES", names))


def guessed(k: Kernel, /, device: str = "H100", registers: int = 32, **sizes: int) -> Estimate:
    counts = schedule_counts(k, sizes)
    assert counts is not None
    found = estimate(counts, registers, machine_of(device))
    assert found is not None
    return found


COPY = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i];"
ARRAYS = "const float *x, float *y, int n"


def test_counts_of_a_copy_and_of_one_with_a_stride() -> None:
    copy = schedule_counts(kernel(COPY, ARRAYS, "n / 256, 256"), {"n": N})
    assert copy is not None and (copy.blocks, copy.threads, copy.warps) == (N // 256, 256, N // 32)
    assert [(a.buffer, a.lines, a.requested, a.footprint) for a in copy.accesses] == [
        ("x", 4, 4 * N / 32, 4 * N),
        ("y", 4, 4 * N / 32, 4 * N),
    ]
    apart = schedule_counts(kernel(COPY.replace("x[i]", "x[i * 8]"), ARRAYS, "n / 256, 256"), {"n": N})
    assert apart is not None and apart.accesses[0].lines == 32


def test_what_is_done_for_a_nan_is_not_counted() -> None:
    again = COPY.replace(
        "y[i] = x[i]", "{ float s = x[i]; if (isnan(s)) for (int k = 0; k < n; ++k) s += x[k]; y[i] = s; }"
    )
    found, copy = (schedule_counts(kernel(text, ARRAYS, "n / 256, 256"), {"n": N}) for text in (again, COPY))
    assert found is not None and copy is not None
    assert [(a.buffer, a.requested) for a in found.accesses] == [(a.buffer, a.requested) for a in copy.accesses]


@pytest.mark.parametrize(
    ("index", "integer", "special"),
    [
        ("i / m * m + i % m", 22, 3),  # the quotient gives the remainder
        ("i / m % n2 + i / m / n2", 44, 6),
        ("i / 8 + i % 8", 0, 0),
        ("i / 7", 4, 0),
        ("i % (long long)m", 75, 3),
        ("i / m + n2 / m", 44, 3),  # one reciprocal
    ],
)
def test_quotients_of_indices_by_sizes_that_no_compiler_knows(index: str, integer: int, special: int) -> None:
    body = f"int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[{index}];"
    found = schedule_counts(kernel(body, f"{ARRAYS}, int m, int n2", "n / 256, 256"), {"n": N, "m": 64, "n2": 32})
    assert found is not None
    assert (found.integer, found.special) == (integer * N / 32, special * N / 32)


def test_a_quotient_that_a_loop_does_not_change_is_one() -> None:
    body = "int i = blockIdx.x * blockDim.x + threadIdx.x; for (int k = 0; k < 16; k++) y[k * n + i] = x[INDEX];"
    for index, times in (("i / m", 1), ("(i + k) / m", 16)):
        k = kernel(body.replace("INDEX", index), f"{ARRAYS}, int m", "n / 256, 256")
        found = schedule_counts(k, {"n": N, "m": 64})
        assert found is not None and found.integer == 22 * times * N / 32 and found.special == 3 * N / 32


def test_a_row_a_thread_asks_for_the_same_sectors_in_eight_iterations() -> None:
    body = (
        "int r = blockIdx.x * blockDim.x + threadIdx.x; float s = 0;"
        "for (int j = 0; j < 64; j++) s += x[r * 64 + j]; y[r] = s;"
    )
    found = schedule_counts(kernel(body, ARRAYS, "n / 256, 256"), {"n": 1 << 16})
    assert found is not None
    x = found.accesses[0]
    assert x.requested == 64 * (1 << 16) and x.missed == x.requested / 8 and found.loads == 64


def test_lanes_of_a_flat_index_that_is_taken_apart() -> None:
    """Quotients and remainders of the thread index are no affine address, yet four lanes share a row of 16."""
    body = "int i = threadIdx.x; y[i] = x[(i / 16) * n + i % 16];"
    found = schedule_counts(kernel(body, ARRAYS, "64, 256"), {"n": 1024})
    assert found is not None and found.accesses[0].lines == 4 and found.accesses[0].used == 1.0


def test_what_one_lane_does_counts_for_one() -> None:
    every = kernel("atomicAdd(&y[blockIdx.x], x[threadIdx.x]);", ARRAYS, "64, 256")
    one = kernel("if (threadIdx.x == 0) atomicAdd(&y[blockIdx.x], x[threadIdx.x]);", ARRAYS, "64, 256")
    counts = [schedule_counts(k, {"n": 1}) for k in (every, one)]
    assert counts[0] is not None and counts[1] is not None
    assert (counts[0].atomic_turns, counts[1].atomic_turns) == (64 * 256, 64)


def test_loops_that_halve_are_followed() -> None:
    body = (
        "__shared__ float t[256]; t[threadIdx.x] = x[threadIdx.x]; __syncthreads();"
        "for (int h = 128; h > 0; h >>= 1) { if (threadIdx.x < h) t[threadIdx.x] += t[threadIdx.x + h];"
        " __syncthreads(); } if (threadIdx.x == 0) y[blockIdx.x] = t[0];"
    )
    found = schedule_counts(kernel(body, ARRAYS, "64, 256"), {"n": 1})
    assert found is not None and found.barriers == 1 + 8 and not found.unknown and found.shared_bytes == 1024


def test_what_one_round_in_four_does_counts_for_one_in_four() -> None:
    body = "for (int j = 0; j < 64; j++) { if (j % 4 == 0) y[j * 64 + threadIdx.x] = x[j]; else y[threadIdx.x] = 0; }"
    found = schedule_counts(kernel(body, ARRAYS, "64, 32"), {"n": 1})
    assert found is not None
    assert [a.requested for a in found.accesses] == [64 * 16, 64 * 16 * 4, 64 * 48 * 4]


def test_comparisons_and_additions_of_data_are_instructions_and_those_of_indices_are_not() -> None:
    counting = "int s = 0; for (int j = 0; j < 64; j++) { s += x[j * n + threadIdx.x] == 3.0f; } y[threadIdx.x] = s;"
    found = schedule_counts(kernel(counting, ARRAYS, "64, 32"), {"n": 32})
    plain = schedule_counts(kernel(COPY, ARRAYS, "64, 32"), {"n": N})
    assert found is not None and plain is not None and plain.integer == 0
    assert 2 * 64 * 64 <= found.integer <= 4 * 64 * 64, "a warp of each block: an equality, a conversion, an addition"


def test_loads_of_an_unrolled_loop_are_under_way_together() -> None:
    body = "float s = 0; for (int j = 0; j < n; j++) {{ {unroll} for (int u = 0; u < 8; u++) s += x[(j * 8 + u) * 32 + threadIdx.x]; }} y[threadIdx.x] = s;"  # noqa: E501
    together, apart = (
        schedule_counts(kernel(body.format(unroll=u), ARRAYS, "64, 32"), {"n": 128})
        for u in ("\n#pragma unroll\n", "\n#pragma unroll 1\n")
    )
    assert together is not None and apart is not None and (together.at_once, apart.at_once) == (8, 1)


def test_registers_that_are_kept_for_more_blocks_are_not_a_threads() -> None:
    k = ktc.load("sgemm").apply(
        "raise | tile{loops=row,col sizes=128,128}"
        " | map{row=[vec 4, thread.y 16, unroll 2] col=[vec 4, thread.x 16, unroll 2]}"
        " | tile{loops=k sizes=16 tail=cut} | register-tile{loop=k_tile.*} | launch-bounds{blocks=$M:(1,4)}"
    )
    one, four = (guessed(k.bind(M=m).lowered(), registers=128, M=1024, N=1024, K=1024).terms["issue"] for m in (1, 4))
    assert four > 3 * one, "a quarter of the registers, and what they held is read and written instead"


def test_what_fits_the_cache_is_read_once_beside_a_larger_output() -> None:
    """A row of 4 KB that every block reads, and 256 MB that are written."""
    k = kernel("y[blockIdx.x * 1024 + threadIdx.x] = x[threadIdx.x];", ARRAYS, "n / 1024, 1024")
    written = 4 * (1 << 26) / 3.35e12
    assert guessed(k, n=1 << 26).terms["memory"] == pytest.approx(written, rel=0.3)


HGEMM = (
    "raise | tile{loops=row,col sizes=128,128} | tile{loops=k sizes=64 tail=exact} | register-tile{loop=k_tile} | "
    "tensorize{loop=k fragment=m64n128k16_f16 warps=2,1} | stage-shared{array=A loop=k_tile vec=8} | "
    "stage-shared{array=B loop=k_tile vec=8} | async-copy{loop=k_tile} | "
    "multi-buffer{loop=k_tile stages=4 by=producer} | panel-shared{array=B_s} | "
    "swizzle-shared{array=A_s} | swizzle-shared{array=B_s}"
)


def test_what_one_instruction_does_for_a_block_counts_once() -> None:
    """Bulk copies by one thread and products by a warpgroup: each tile of 128 x 128 reads its rows and columns once."""
    n = 1024
    k = ktc.load("hgemm").apply(HGEMM).bind()
    found = schedule_counts(k.lowered(), {"M": n, "N": n, "K": n})
    assert found is not None and found.blocks == 64 and not found.unknown
    asked = {name: sum(a.requested for a in found.accesses if a.buffer == name) for name in ("A", "B")}
    assert asked == dict.fromkeys(("A", "B"), found.blocks * 128 * n * 2 / 32)
    assert all(a.footprint <= 2 * n * n for a in found.accesses) and found.matrix == 2 * n**3
    filled, read = 2 * 128 * n * 2 / 128, (2 * 64 + 2 * 128) * n * 2 / 128  # two warpgroups of 64 rows
    assert found.shared_turns == pytest.approx(found.blocks * (filled + read), rel=0.1)


def test_a_loop_inside_one_that_never_runs_is_not_unknown() -> None:
    body = "for (int j = n; j < n; j++) for (int i = j; i < y[0]; i++) y[i] = x[i];"
    found = schedule_counts(kernel(body, ARRAYS, "64, 256"), {"n": 8})
    assert found is not None and not found.unknown
    runs = schedule_counts(kernel(body.replace("j = n", "j = 0"), ARRAYS, "64, 256"), {"n": 8})
    assert runs is not None and runs.unknown
    said = estimate(runs, 32, machine_of("H100"))
    assert said is not None and not said.whole and any("is not known" in w for w in said.why)


def test_large_blocks_spill_instead_of_not_fitting() -> None:
    k = kernel(COPY, ARRAYS, "n / 1024, 1024")
    many, few = (guessed(k, registers=r, n=N) for r in (120, 60))
    assert many.occupancy.blocks == 1 and many.terms["issue"] > few.terms["issue"]


def test_few_warps_have_as_many_loads_in_flight_as_they_are() -> None:
    """Eight blocks of 128 threads on 132 multiprocessors are 32 warps, each with four loads of four sectors."""
    found = guessed(kernel(COPY, ARRAYS, "8, 128"), n=1024)
    assert found.terms["latency"] == pytest.approx(2 * 32 * 4 * 6e-7 / (32 * 4 * 4))


def test_a_copy_takes_as_long_as_memory_needs() -> None:
    found = guessed(kernel(COPY, ARRAYS, "n / 256, 256"), n=1 << 26)
    least = 8 * (1 << 26) / 3.35e12
    assert least <= found.seconds < 1.6 * least and found.waves > 1


def test_accesses_apart_take_longer_and_the_reason_names_the_array() -> None:
    plain = guessed(kernel(COPY, ARRAYS, "n / 256, 256"), n=N)
    apart = guessed(kernel(COPY.replace("x[i]", "x[(i % 1024) * 4096 + i / 1024]"), ARRAYS, "n / 256, 256"), n=N)
    assert apart.seconds > 1.8 * plain.seconds, "both arrays fit the last-level cache"
    assert any(w.startswith("x: a warp's read uses 12%") for w in apart.why)
    assert not any(w.startswith("x:") for w in plain.why)


def test_few_blocks_do_not_fill_the_device() -> None:
    """The same work in eight blocks that loop: fewer warps keep fewer loads in flight."""
    body = "for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) y[i] = x[i];"
    few, many = (guessed(kernel(body, ARRAYS, f"{blocks}, 256"), n=N) for blocks in (8, 4096))
    assert few.seconds > 5 * many.seconds and few.limiter == "latency"
    assert any("8 blocks keep" in w for w in few.why)


def test_registers_and_shared_memory_bound_the_warps() -> None:
    k = kernel(COPY, ARRAYS, "n / 256, 256")
    assert guessed(k, registers=200, n=N).occupancy.limiter == "registers"
    assert guessed(k, registers=200, n=N).seconds > guessed(k, registers=32, n=N).seconds


def test_a_kernel_without_a_launch_and_an_unknown_device_have_no_estimate() -> None:
    assert schedule_counts(load(f"__global__ void f({ARRAYS}) {{ {COPY} }}"), {"n": N}) is None
    with pytest.raises(KeyError):
        machine_of("an abacus")


@pytest.mark.parametrize(
    ("name", "clock"), [("H100", 1.98e9), ("A100", 1.41e9), ("V100", 1.53e9), ("RTX 4090", 2.52e9)]
)
def test_clocks_follow_from_the_rate_of_arithmetic(name: str, clock: float) -> None:
    """Boost clocks of the data sheets."""
    assert machine_of(name).clock == pytest.approx(clock, rel=0.02)


def test_an_address_in_a_variable_of_a_loop_moves_with_the_loop() -> None:
    written = "for (int j = 0; j < 8; j++) y[(blockIdx.x * 8 + j) * 256 + threadIdx.x] = 0;"
    named = "for (int j = 0; j < 8; j++) { int at = (blockIdx.x * 8 + j) * 256 + threadIdx.x; y[at] = 0; }"
    a, b = (schedule_counts(kernel(x, ARRAYS, "n / 2048, 256"), {"n": N}) for x in (written, named))
    assert a is not None and b is not None and a.accesses == b.accesses and b.accesses[0].footprint == 4 * N
    behind = "int at; if (threadIdx.x < 128) { at = blockIdx.x * 256 + threadIdx.x; y[at] = 0; }"
    late = schedule_counts(kernel(behind, ARRAYS, "n / 256, 256"), {"n": N})
    assert late is not None and late.accesses[0].lines == 4 and late.accesses[0].footprint > 4


PLANE = (
    "int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;"
    "b[y * n + x] = a[y * n + x - 1] + a[y * n + x + 1] + a[(y - 1) * n + x] + a[(y + 1) * n + x];"
)


def test_neighbours_are_read_from_memory_once_and_halves_twice() -> None:
    sizes = {"n": 1 << 14}
    stencil = kernel(PLANE, "const float *a, float *b, int n", "dim3(n / 64, n / 4), dim3(64, 4)")
    counts = schedule_counts(stencil, sizes)
    assert counts is not None and len({x.family for x in counts.accesses}) == 2, "reads, and the store"
    alone = kernel(
        PLANE.partition("+ a")[0] + ";", "const float *a, float *b, int n", "dim3(n / 64, n / 4), dim3(64, 4)"
    )
    assert guessed(stencil, **sizes).terms["memory"] == pytest.approx(guessed(alone, **sizes).terms["memory"])
    halves = "int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[i] * x[i + n / 2];"
    found = schedule_counts(kernel(halves, ARRAYS, "n / 512, 256"), {"n": N})
    assert found is not None and len({x.family for x in found.accesses}) == 3


@pytest.mark.parametrize("offset, near", [(1, True), (-1000, True), (2000 + 3, True), (1000 * 9, False), (500, False)])
def test_neighbours_are_a_few_iterations_apart(offset: int, near: bool) -> None:
    assert is_near(offset, [1, 1000]) == near


def test_a_condition_on_blocks_counts_for_the_blocks_that_it_holds_in() -> None:
    body = (
        "int i = blockIdx.x * 256 + threadIdx.x; if (blockIdx.x < n / 256 - 1) y[i] = x[i];"
        "else for (int j = 0; j < 64; j++) y[i] += x[i * 2 + j];"
    )
    found = schedule_counts(kernel(body, ARRAYS, "1024, 256"), {"n": 1 << 18})
    assert found is not None
    x, _, *edge = found.accesses
    assert x.requested > 0.98 * 1024 * 8 * 4 and all(e.requested < 0.1 * 64 * 1024 * 8 * 8 for e in edge)


def test_an_edge_at_one_end_of_warps_leaves_none_out() -> None:
    """Rows without their first and last element, a warp each: all warps have something to do."""
    body = (
        "int x = threadIdx.x + blockIdx.x * 32, y_ = threadIdx.y + blockIdx.y * 4;"
        "if (x >= 1 && x < n - 1) y[y_ * n + x] = x_[y_ * n + x];"
    )
    found = schedule_counts(
        kernel(body, "const float *x_, float *y, int n", "dim3(n / 32, n / 4), dim3(32, 4)"), {"n": 1024}
    )
    assert found is not None
    assert all(a.requested > 0.9 * 1024 * 1024 * 4 / 32 for a in found.accesses)


def test_edges_of_several_axes_count_for_their_own_blocks_alone() -> None:
    body = (
        "int x = threadIdx.x + blockIdx.x * 32; if (blockIdx.y > 0 && blockIdx.y < n - 1 && blockIdx.z > 0 "
        "&& blockIdx.z < n - 1) y[(blockIdx.z * n + blockIdx.y) * n + x] = x_[(blockIdx.z * n + blockIdx.y) * n + x];"
    )
    k = kernel(body, "const float *x_, float *y, int n", "dim3(n / 32, n, n), dim3(32)")
    found = schedule_counts(k, {"n": 128})
    assert found is not None and found.accesses[0].requested > 0.9 * 128**3 * 4 / 32


COLUMNS = """
kernel k(y: f32* restrict, x: f32 const* restrict, n: i32, c: i32)
  par q in 0..c @ [block.x]
    reduce(+) s: f32 = 0.0 over r in 0..n @ [seq]
      yield x[r * c + q]
    y[q] = s
"""


def test_rounds_of_a_tree_between_threads_are_known_once_the_knobs_are() -> None:
    script = "map{q=[thread.x 8, block.x] r=[thread.y $TY:(4,8,16), seq]}"
    k = apply_script(parse_kernel(COLUMNS), parse_script(script)).kernel
    few, many = (schedule_counts(materialise(bind(k, {"TY": n})), {"n": 4096, "c": 64}) for n in (4, 16))
    assert few is not None and many is not None and not few.unknown
    assert many.barriers == few.barriers + 2
