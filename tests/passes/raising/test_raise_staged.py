"""Hand-tiled kernels raise to their plain loops: no shared memory, no threads, the same results, lowered again too."""

from __future__ import annotations

import math
import re

import pytest

from ktc.ir.fold import evaluate
from ktc.ir.frontend.entry_points import load
from ktc.ir.nodes import Alloc, Barrier, For, HwIndex, If, Load, Par, Store
from ktc.ir.storage import is_shared
from ktc.ir.text import canonical, parse_kernel, print_kernel
from ktc.ir.text.printer import print_type
from ktc.ir.verifier import verify
from ktc.ir.walk import all_exprs, walk
from ktc.passes.core.base import Result
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.raise_ import Raise
from tests.passes.raising.raised_once import raised
from tests.passes.raising.register_tile_sources import ONE_BY_ONE
from tests.passes.raising.staged_sources import BUMPED_GEMM, PADDED_TRANSPOSE, STAGED, TILED_GEMM, WHOLE_TILES

ROUGH = range(1, 80)
"""Sizes that raising did not choose, most of them no multiple of a tile, beyond two of the largest."""


@pytest.mark.parametrize("name", STAGED)
def test_raises_to_the_plain_loops(name: str) -> None:
    source, loops = STAGED[name]
    kernel, outcome = raised(source)
    body = outcome.kernel.body
    assert not any(isinstance(s, Alloc | Barrier) for s in walk(body)), print_kernel(outcome.kernel)
    assert not any(isinstance(e, HwIndex) for e in all_exprs(body))
    assert tuple(s.var.name for s in walk(body) if isinstance(s, Par)) == loops, print_kernel(outcome.kernel)
    assert any("staged:" in note for note in outcome.notes) and not any("left:" in note for note in outcome.notes)
    reference = Reference(kernel, instances=6, seed=99, sizes=ROUGH)
    assert reference.differs(outcome.kernel) == ""
    assert reference.differs(materialise(outcome.kernel)) == ""


def test_the_tile_loop_becomes_the_loop_over_k() -> None:
    _, outcome = raised(TILED_GEMM)
    loops = [s for s in walk(outcome.kernel.body) if isinstance(s, For)]
    assert len(loops) == 1 and "for k in 0..K" in print_kernel(outcome.kernel)
    assert "A[k + row * K] * B[k * N + col]" in print_kernel(outcome.kernel)


def test_what_the_tile_added_and_took_away_again_is_gone() -> None:
    _, outcome = raised(WHOLE_TILES)
    text = print_kernel(outcome.kernel)
    assert "out_1 + j >= 0 && width > out_1 + j ? in[out_1 + stride * y as i64 + j] : 0.0" in text, text


@pytest.mark.parametrize(
    "source, old, new",
    [
        (TILED_GEMM, "As[ty][k] * Bs[k][tx]", "As[ty][k] * Bs[tx][k]"),
        (BUMPED_GEMM, "B += BS * N", "B += BS"),
        (PADDED_TRANSPOSE, "tile[threadIdx.x][threadIdx.y + j];", "tile[threadIdx.y + j][threadIdx.x];"),
        (ONE_BY_ONE, "t * BK + first + q]", "t * BK + first + 3 - q]"),
    ],
    ids=["wrong-tile", "wrong-stride", "no-transpose", "other-way-round"],
)
def test_another_program_raises_to_another_program(source: str, old: str, new: str) -> None:
    """What is raised follows the code, not the look of it: the changed source is not equal to the raised original."""
    assert old in source
    _, original = raised(source)
    changed = load(source.replace(old, new), name="source.cu")
    assert Reference(changed, instances=6, sizes=ROUGH).differs(original.kernel) != ""
    outcome = Raise().run(changed)
    if isinstance(outcome, Result):
        assert Reference(changed, instances=6, seed=5, sizes=ROUGH).differs(outcome.kernel) == ""


def test_a_missing_barrier_is_not_hidden() -> None:
    """The source races: whatever is made of it, the race of the source is not a reason to accept other results."""
    source = TILED_GEMM.replace("    __syncthreads();\n    #pragma", "    #pragma")
    assert source != TILED_GEMM
    kernel = load(source, name="source.cu")
    outcome = Raise().run(kernel)
    if isinstance(outcome, Result):
        assert Reference(kernel).differs(outcome.kernel) == ""


def test_listing_parses_back() -> None:
    for source, _ in STAGED.values():
        _, outcome = raised(source)
        again = parse_kernel(print_kernel(outcome.kernel))
        assert print_kernel(again) == print_kernel(outcome.kernel)


@pytest.mark.parametrize(
    "name, arrays",
    [
        ("gemm", {"f32[8, 8]", "f32[8, 9]"}),
        ("gemm-bumped", {"f32[16, 16]"}),
        ("transpose-padded", {"f32[32, 33]"}),
        ("conv-halo", {"f32[12, 20]"}),
        ("conv-flat-halo", {"f32[6, 34]"}),
        ("conv-extra-threads", {"f32[20, 20]"}),
        ("conv-border-threads", {"f32[18, 18]"}),
        ("conv-1d", {"f32[264]"}),
        ("conv-3d", {"f32[10, 10, 10]"}),
        ("box-clamped", {"u8[10, 34]"}),
        ("heat-planes", {"f32[6, 34]"}),
    ],
)
def test_the_staging_is_remembered(name: str, arrays: set[str]) -> None:
    """Lowered with no pass in between, the tiles are in shared memory again, in the shapes of the source."""
    kernel, outcome = raised(STAGED[name][0])
    form = outcome.kernel
    assert form.staging and any(
        f"staging, put back where no pass follows: {form.staging[0]}" in n for n in outcome.notes
    )
    assert parse_kernel(print_kernel(form)).staging == form.staging
    back = materialise(form)
    shared = [s.sym.type for s in walk(back.body) if isinstance(s, Alloc) and is_shared(s.sym)]
    assert {print_type(t).removeprefix("shared ") for t in shared} == arrays
    assert back.launch is not None and kernel.launch is not None
    threads = [math.prod(int(evaluate(n, {}) or 0) for n in k.launch.block) for k in (back, kernel) if k.launch]
    assert threads[0] == threads[1], "those that only fetch are there again, too"
    assert [p.noalias for p in back.params] == [p.noalias for p in kernel.params]


def test_a_thread_has_all_its_loads_on_the_way_before_it_stores_the_first() -> None:
    back = materialise(raised(STAGED["heat-planes"][0])[1].kernel)
    (loop,) = [s for s in back.body if isinstance(s, For)]
    fills = [
        k for k, s in enumerate(loop.body) if any(isinstance(x, Store) and is_shared(x.buffer) for x in walk((s,)))
    ]
    reads = [k for k, s in enumerate(loop.body[: fills[0] + 1]) if any(
        isinstance(e, Load) and e.buffer.name == "u" for e in all_exprs((s,)))]  # fmt: skip
    assert len(fills) == 1 and reads and max(reads) < fills[0], print_kernel(back)


def test_what_a_source_leaves_unwritten_is_left_again() -> None:
    """The corners of a star are no element's: its copy has neither zeros nor nested conditions. A product's tiles have
    zeros beyond the edges, so that its inner loop needs no guard."""
    star, product = (materialise(raised(STAGED[n][0])[1].kernel) for n in ("heat-planes", "gemm"))
    assert " : 0.0" not in print_kernel(star) and " : 0.0" in print_kernel(product)
    (loop,) = [s for s in star.body if isinstance(s, For)]
    for s in loop.body:
        copies = [x for x in walk((s,)) if isinstance(x, If)] if isinstance(s, For) else []
        assert not any(isinstance(y, If) for x in copies for y in walk(x.then)), print_kernel(star)


def test_staged_again_it_computes_no_more_than_the_source() -> None:
    """A copy by 32 x 8 threads writes row ``tid_y + 8 u``, column ``tid_x``: no quotients of flattened numbers."""
    text = print_kernel(materialise(raised(PADDED_TRANSPOSE)[1].kernel))
    body = text[text.index("array ") :]
    assert " / " not in body and " % " not in body and re.search(r"\[tid_y \+ u\w* \* 8, tid_x\] = ", body), text


def test_a_script_that_goes_on_starts_from_the_plain_loops() -> None:
    applied = apply_script(raised(TILED_GEMM)[1].kernel, parse_script("unroll{loop=k factor=2}"))
    assert applied.kernel.staging and not any(isinstance(s, Alloc) for s in walk(materialise(applied.kernel).body))
    assert any(isinstance(s, Alloc) for s in walk(materialise(raised(TILED_GEMM)[1].kernel).body))


def test_no_staging_is_made_up() -> None:
    """Where the steps do not give the source's own arrays, the plain loops are lowered."""
    larger = STAGED["conv-halo"][0].replace("tile[TH + 2 * R][", "tile[TH + 2 * R + 4][")
    _, outcome = raised(larger)
    assert outcome.kernel.staging == () and not any(isinstance(s, Alloc) for s in walk(outcome.kernel.body))


def test_indices_and_conditions_are_plain_again() -> None:
    """Unsigned thread numbers, named conditions and what the loops' bounds imply leave no trace."""
    text = print_kernel(raised(STAGED["heat-planes"][0])[1].kernel)
    assert "par tj in 0..ny - 2" in text and "par ti in 0..nx - 2" in text and "u32" not in text and "?" not in text


@pytest.mark.parametrize(
    "old, new",
    [
        ("(x + B < w && y < h) ? in[y * w + x + B]", "(x + B < w && y < h) ? in[y * w + x]"),
        ("(x - R >= 0 && y + B < h && x - R < w) ? in[(y + B) * w + x - R] : 0.f", "1.f"),
    ],
    ids=["wrong-column", "wrong-corner"],
)
def test_a_rim_filled_in_another_way_is_not_taken_for_the_usual(old: str, new: str) -> None:
    source = STAGED["conv-border-threads"][0]
    assert old in source
    kernel = load(source.replace(old, new), name="source.cu")
    outcome = Raise().run(kernel)
    if isinstance(outcome, Result):
        assert Reference(kernel, instances=6, seed=5, sizes=ROUGH).differs(outcome.kernel) == ""
        assert not any("staged:" in n for n in outcome.notes)


VECTORS = """
__global__ void backwards(const float4* __restrict__ x, float4* __restrict__ y, int n) {
  __shared__ float4 t[8][33];
  int r = threadIdx.x / 32, c = threadIdx.x % 32;
  t[r][c] = x[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  y[blockIdx.x * 256 + threadIdx.x] = t[7 - r][31 - c];
}
void run(const float4* x, float4* y, int n) { backwards<<<n, 256>>>(x, y, n); }
"""


def test_tiles_of_vectors_are_read_through() -> None:
    """What threads exchange here are vectors, which have no meaning as one number a thread."""
    kernel = load(VECTORS, name="source.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    assert not any(isinstance(s, Alloc) for s in walk(outcome.kernel.body))


SIZED_BY_64_BITS = """
__global__ void each(const float* __restrict__ x, float* __restrict__ y, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = x[blockIdx.x * n + i] + threadIdx.x;
}
void run(const float* x, float* y, int n, int rows, long long threads) { each<<<rows, threads>>>(x, y, n); }
"""


def test_loops_over_threads_count_in_32_bits() -> None:
    kernel = load(SIZED_BY_64_BITS, name="source.cu")
    done = apply_script(kernel, parse_script("raise"))
    assert done.refused is None and verify(done.kernel) == []
    assert canonical(parse_kernel(print_kernel(done.kernel))).body == canonical(done.kernel).body


FLAT_GUARDS = """
__global__ void product(const int *a, const int *b, int *c, int n) {
  __shared__ int s[8][8], t[8][8];
  int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x, sum = 0, at;
  for (int i = 0; i < gridDim.x; ++i) {
    at = row * n + i * 8 + threadIdx.x;
    if (at >= n * n) s[threadIdx.y][threadIdx.x] = 0; else s[threadIdx.y][threadIdx.x] = a[at];
    at = (i * 8 + threadIdx.y) * n + col;
    if (at >= n * n) t[threadIdx.y][threadIdx.x] = 0; else t[threadIdx.y][threadIdx.x] = b[at];
    __syncthreads();
    for (int k = 0; k < 8; ++k) sum += s[threadIdx.y][k] * t[k][threadIdx.x];
    __syncthreads();
  }
  if (row < n && col < n) c[row * n + col] = sum;
}
void run(const int *a, const int *b, int *c, int n) {
  product<<<dim3((n + 7) / 8, (n + 7) / 8), dim3(8, 8)>>>(a, b, c, n);
}
"""


def test_a_tile_that_is_filled_up_past_the_last_element_ends_with_the_rows() -> None:
    """Guards of elements' numbers, ``k * n + col < n * n``, say of ``k`` what ``k < n`` says where it is a row."""
    text = print_kernel(raised(FLAT_GUARDS)[1].kernel)
    assert "for k in 0..n\n" in text and "?" not in text, text
