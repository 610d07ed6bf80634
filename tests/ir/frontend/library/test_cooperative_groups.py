"""Cooperative groups, warp collectives over masks, grid barriers: what the interpreter and the CPU code compute."""

from __future__ import annotations

import numpy as np
import pytest

from ktc import backends
from ktc.backends.launchers.cuda_launcher import emit_launcher
from ktc.backends.runtimes.cpu_runtime import CpuRuntime
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.frontend.library.device_libraries import NAMESPACES, _library
from ktc.ir.interp import run
from ktc.ir.nodes import Barrier, WarpOp, is_cooperative
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.walk import all_exprs, walk

HEAD = "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\nnamespace cg = cooperative_groups;\n"
X = np.arange(64, dtype=np.int32) * 37 % 101
START = "const int i = threadIdx.x; const int v = x[i]; auto b = cg::this_thread_block(); "


def go(body: str, threads: int = 64, head: str = HEAD, **more):
    """``out`` after ``k(out, x)`` with ``body`` ran in one block of ``threads``: interpreter and numba must agree."""
    text = f"{head}__global__ void k(int* out, const int* x) {{ {START}{body} }}\n"
    text += f"void host(int* out, const int* x) {{ k<<<1, {threads}>>>(out, x); }}\n"
    kernel = load(text, name="k.cu")
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    result = run(kernel, {"out": np.zeros(threads, np.int32), "x": X}, **more)
    assert result.findings == []
    return result.outputs["out"], kernel


def on_cpu(kernel, threads: int = 64):
    cpu = CpuRuntime()
    device = {n: cpu.to_device(v) for n, v in {"out": np.zeros(threads, np.int32), "x": X}.items()}
    cpu.compile(backends.emit(kernel, "numba")).launch(device)
    return cpu.to_host(device["out"], X)


TILES = X.reshape(2, 32)
CASES = {
    "block rank and size": (
        "out[b.thread_rank()] = b.size() + b.group_index().x;",
        np.full(64, 64),
    ),
    "tile of 32, reduce": (
        "auto t = cg::tiled_partition<32>(b); out[i] = cg::reduce(t, v, cg::plus<int>());",
        np.repeat(TILES.sum(1), 32),
    ),
    "tile of 8, reduce max": (
        "cg::thread_block_tile<8> t = cg::tiled_partition<8>(b); out[i] = cg::reduce(t, v, cg::greater<int>());",
        np.repeat(X.reshape(8, 8).max(1), 8),
    ),
    "tile of 16, ranks": (
        "auto t = cg::tiled_partition<16>(b); out[i] = 100 * t.meta_group_rank() + 10 * t.meta_group_size() "
        "+ t.thread_rank();",
        100 * (np.arange(64) // 16) + 40 + np.arange(64) % 16,
    ),
    "tile of a tile": (
        "auto a = cg::tiled_partition<32>(b); auto t = cg::tiled_partition<4>(a); out[i] = "
        "t.meta_group_rank() * 10 + t.meta_group_size();",
        np.arange(64) % 32 // 4 * 10 + 8,
    ),
    "tile shuffles": (
        "auto t = cg::tiled_partition<8>(b); out[i] = t.shfl(v, 3) * 1000 + t.shfl_xor(v, 1);",
        np.repeat(X[3::8], 8) * 1000 + X[np.arange(64) ^ 1],
    ),
    "tile ballot": (
        "auto t = cg::tiled_partition<8>(b); out[i] = t.ballot(v & 1) + 1000 * t.any(v > 99) + 10000 * t.all(v >= 0);",
        np.repeat(
            [
                int(sum((int(v) & 1) << i for i, v in enumerate(row))) + 1000 * int((row > 99).any()) + 10000
                for row in X.reshape(8, 8)
            ],
            8,
        ),
    ),
    "inclusive scan": (
        "auto t = cg::tiled_partition<32>(b); out[i] = cg::inclusive_scan(t, v);",
        np.cumsum(TILES, 1).ravel(),
    ),
    "exclusive scan": (
        "auto t = cg::tiled_partition<32>(b); out[i] = cg::exclusive_scan(t, v);",
        (np.cumsum(TILES, 1) - TILES).ravel(),
    ),
    "coalesced threads": (
        "if (v & 1) { cg::coalesced_group g = cg::coalesced_threads(); out[i] = 100 * g.size() + g.thread_rank(); }",
        np.where(TILES & 1, 100 * (TILES & 1).sum(1, keepdims=True) + np.cumsum(TILES & 1, 1) - 1, 0).ravel(),
    ),
    "binary partition": (
        "auto t = cg::tiled_partition<32>(b); auto g = cg::binary_partition(t, v > 50); out[i] = g.size();",
        np.where(TILES > 50, (TILES > 50).sum(1, keepdims=True), (TILES <= 50).sum(1, keepdims=True)).ravel(),
    ),
    "runtime tile": (
        "cg::thread_group t = cg::tiled_partition(b, 16); int s = v; for (int d = t.size() / 2; d > 0; d /= "
        "2) s += t.shfl_down(s, d); out[i] = t.thread_rank() == 0 ? s : 0;",
        np.where(np.arange(64) % 16 == 0, np.repeat(X.reshape(4, 16).sum(1), 16), 0),
    ),
    "match any": (
        "out[i] = __popc(__match_any_sync(0xffffffffu, v & 3));",
        np.array([int((row & 3 == v & 3).sum()) for row in TILES for v in row]),
    ),
    "match all": (
        "int p; unsigned m = __match_all_sync(0xffffffffu, v * 0 + (threadIdx.x == 40), &p); out[i] = p * 10 "
        "+ (m == 0xffffffffu);",
        np.repeat([11, 0], 32),
    ),
    "redux": (
        "out[i] = __reduce_add_sync(0xffffffffu, v) * 200 + __reduce_max_sync(0xffffffffu, v);",
        np.repeat(TILES.sum(1) * 200 + TILES.max(1), 32),
    ),
    "redux of a mask": (
        "if (threadIdx.x % 32 < 8) out[i] = __reduce_min_sync(0xffu, -v);",
        np.where(np.arange(64) % 32 < 8, np.repeat(-TILES[:, :8].max(1), 32), 0),
    ),
    "find nth set": ("out[i] = __fns(0xa5u, 0u, threadIdx.x % 5 + 1);", np.tile([0, 2, 5, 7, -1], 13)[:64]),
}


@pytest.mark.parametrize("name", CASES)
def test_groups(name):
    body, expected = CASES[name]
    out, kernel = go(body)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(on_cpu(kernel), expected)
    text = backends.emit(kernel, "cuda").text
    assert "cg::" not in text and "cooperative_groups" not in text


def test_active_lanes_are_those_that_are_here():
    out, kernel = go("if (x[threadIdx.x] > 50) out[threadIdx.x] = __popc(__activemask());")
    expected = np.where(TILES > 50, (TILES > 50).sum(1, keepdims=True), 0).ravel()
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(on_cpu(kernel), expected)
    assert any(isinstance(e, WarpOp) and e.kind == "active" for e in all_exprs(kernel.body))


GRID = (
    HEAD
    + """
__global__ void k(int* out, int* tmp, int n) {
  cg::grid_group grid = cg::this_grid();
  for (int i = grid.thread_rank(); i < n; i += grid.size()) tmp[i] = i * i;
  grid.sync();
  for (int i = grid.thread_rank(); i < n; i += grid.size()) out[i] = tmp[n - 1 - i];
}
void host(int* out, int* tmp, int n) { k<<<4, 32>>>(out, tmp, n); }
"""
)


def test_grid_barrier():
    args = {"out": np.zeros(500, np.int32), "tmp": np.zeros(500, np.int32), "n": 500}
    kernel = load(GRID, name="k.cu")
    assert is_cooperative(kernel.body) and is_cooperative(parse_kernel(print_kernel(kernel)).body)
    result = run(kernel, args)
    assert result.findings == []
    np.testing.assert_array_equal(result.outputs["out"], (np.arange(500) ** 2)[::-1])
    racing = load(GRID.replace("  grid.sync();", "  __syncthreads();"), name="k.cu")
    assert "race" in [f.kind for f in run(racing, args).findings]
    assert "this_grid().sync()" in backends.emit(kernel, "cuda").text
    assert "cudaLaunchCooperativeKernel(k, grid, block, args, 0, stream)" in emit_launcher(
        backends.emit(kernel, "cuda")
    )
    for target, code in (("opencl-nvidia", "E-BACKEND-GRID"), ("numba", "E-NUMBA-UNSUPPORTED")):
        with pytest.raises(KtcError) as error:
            backends.emit(kernel, target)
        assert error.value.code == code and error.value.loc.line == 8


def test_a_block_barrier_is_no_grid_barrier():
    kernel = load(GRID, name="k.cu")
    assert [s.scope for s in walk(kernel.body) if isinstance(s, Barrier)] == ["grid"]


def test_a_thread_that_left_is_waited_for():
    text = GRID.replace("  grid.sync();", "  if (blockIdx.x == 3) return;\n  grid.sync();")
    args = {"out": np.zeros(500, np.int32), "tmp": np.zeros(500, np.int32), "n": 500}
    assert "barrier-divergence" in [f.kind for f in run(load(text, name="k.cu"), args).findings]


def test_refusals_name_the_users_line():
    with pytest.raises(KtcError) as error:
        load(
            HEAD + "__global__ void k(int* out) {\n"
            "  auto t = cg::tiled_partition<48>(cg::this_thread_block()); t.sync(); }",
            name="k.cu",
        )
    assert error.value.code == "E-SEMA-STATIC-ASSERT" and error.value.loc.file == "k.cu" and error.value.loc.line == 5


SEVERAL_WARPS = (
    HEAD
    + """
__global__ void k(int* out, const int* x) {
  __shared__ cg::block_tile_memory<128> scratch;
  auto block = cg::this_thread_block(scratch);
  auto tile = cg::tiled_partition<64>(block);
  int sum = cg::reduce(tile, x[threadIdx.x], cg::plus<int>());
  int most = cg::reduce(tile, x[threadIdx.x], cg::greater<int>());
  tile.sync();
  out[threadIdx.x] = sum * 1000 + most + tile.meta_group_rank() + tile.meta_group_size();
}
void host(int* out, const int* x) { k<<<1, 128>>>(out, x); }
"""
)


def test_tiles_of_several_warps():
    x = np.arange(128, dtype=np.int32) * 37 % 101
    result = run(load(SEVERAL_WARPS, name="k.cu"), {"out": np.zeros(128, np.int32), "x": x})
    assert result.findings == []
    tiles = x.reshape(2, 64)
    expected = tiles.sum(1) * 1000 + tiles.max(1) + np.arange(2) + 2
    np.testing.assert_array_equal(result.outputs["out"], np.repeat(expected, 64))
    with pytest.raises(KtcError) as error:
        load(SEVERAL_WARPS.replace("tile.sync()", "sum = tile.shfl(sum, 0)"), name="k.cu")
    assert error.value.code == "E-SEMA-STATIC-ASSERT"


def test_arguments_are_evaluated_once():
    text = """struct G { unsigned lanes; __device__ int get(int* p) const { return min(atomicAdd(p, 1), 100); } };
    __global__ void k(int* out) { G g{1u}; int v = g.get(out); out[1] = v; }
    void host(int* out) { k<<<1, 1>>>(out); }"""
    result = run(load(text + "\n", name="k.cu"), {"out": np.zeros(2, np.int32)})
    assert result.outputs["out"].tolist() == [1, 0]


def test_a_users_own_names_win():
    text = """#include <cooperative_groups.h>
    using namespace cooperative_groups;
    __device__ int reduce(int a, int b) { return a - b; }
    struct plus { int v; };
    __global__ void k(int* out) { plus p{3}; thread_block b = this_thread_block(); b.sync(); out[0] = reduce(p.v, 1); }
    void host(int* out) { k<<<1, 1>>>(out); }"""
    assert run(load(text, name="k.cu"), {"out": np.zeros(1, np.int32)}).outputs["out"][0] == 2


@pytest.mark.parametrize("name", sorted({n for names in NAMESPACES.values() for n in names}))
def test_libraries_parse(name):
    assert _library(name).items


def test_a_tile_becomes_a_group_of_its_size() -> None:
    text = """#include <cooperative_groups.h>
    using namespace cooperative_groups;
    __device__ int place(thread_group g) { return g.thread_rank() * 100 + g.size(); }
    __global__ void k(int *x) {
      thread_block block = this_thread_block();
      thread_block_tile<16> tile = tiled_partition<16>(block);
      x[threadIdx.x] = place(tile);
      x[threadIdx.x + 64] = place(block);
      thread_group group = tiled_partition<8>(block);
      x[threadIdx.x + 128] = place(group);
    }
    void launch(int *x) { k<<<1, 64>>>(x); }"""
    got = run(load(text), {"x": np.zeros(192, np.int32)}).outputs["x"]
    ranks = np.arange(64)
    want = [ranks % 16 * 100 + 16, ranks * 100 + 64, ranks % 8 * 100 + 8]
    assert got.tolist() == np.concatenate(want).tolist()
