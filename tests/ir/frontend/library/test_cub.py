"""cub's block and warp collectives: what the interpreter computes, and that every language compiles the result."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from ktc.backends import check_compile, emit
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.text import parse_kernel, print_kernel
from tests import devices

X = np.arange(192, dtype=np.int32) * 37 % 101 - 20
HEAD = "#include <cub/cub.cuh>\n#define SHARED(T, name) __shared__ typename T::TempStorage name\n"


def kernel_of(body: str, threads: int):
    text = f"{HEAD}__global__ void k(int* out, const int* x, int n) {{ const int t = threadIdx.x; int v = x[t]; {body}"
    text += " }\n"
    text += f"void host(int* out, const int* x, int n) {{ k<<<1, {threads}>>>(out, x, n); }}\n"
    return load(text, name="k.cu")


def go(body: str, threads: int = 64, size: int = 192, n: int = 50) -> np.ndarray:
    """``out`` after one block of ``threads`` ran ``body``; ``v`` is its own item, ``n`` a number."""
    kernel = kernel_of(body, threads)
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    result = run(kernel, {"out": np.zeros(size, np.int32), "x": X, "n": n})
    assert result.findings == []
    return result.outputs["out"]


@pytest.mark.parametrize("threads", [32, 64, 96, 80, 20])
def test_block_sums_of_whole_and_partial_warps(threads: int) -> None:
    out = go(
        f"using R = cub::BlockReduce<int, {threads}>; SHARED(R, temp); int s = R(temp).Sum(v); __syncthreads(); "
        "int p = R(temp).Sum(v, n); if (t == 0) { out[0] = s; out[1] = p; }",
        threads,
        n=threads - 3,
    )
    assert list(out[:2]) == [X[:threads].sum(), X[: threads - 3].sum()]


def test_block_reduction_by_functors_and_of_several_items() -> None:
    out = go(
        "typedef cub::BlockReduce<int, 64, cub::BLOCK_REDUCE_RAKING, 1> R; __shared__ R::TempStorage temp[3]; "
        "int items[3] = {v, v + 1000, -v}; "
        "int a = R(temp[0]).Reduce(v, cub::Max()); int b = R(temp[1]).Reduce(items, cub::Min()); "
        "int c = R(temp[2]).Reduce(v, [](int p, int q) { return p ^ q; }, 40); "
        "if (t == 0) { out[0] = a; out[1] = b; out[2] = c; }"
    )
    first = X[:64]
    assert list(out[:3]) == [first.max(), min(first.min(), -first.max()), np.bitwise_xor.reduce(first[:40])]


def test_arg_max_of_pairs_travels_by_fields() -> None:
    out = go(
        "using P = cub::KeyValuePair<int, float>; using R = cub::BlockReduce<P, 64>; SHARED(R, temp); "
        "P best = R(temp).Reduce(P(t, (float)v), cub::ArgMax()); "
        "if (t == 0) { out[0] = best.key; out[1] = best.value; }"
    )
    assert list(out[:2]) == [X[:64].argmax(), X[:64].max()]


def test_objects_with_arrays_travel_element_by_element() -> None:
    """The two largest items with their places: by a function of the file, over partial warps."""
    top = (
        "struct Entry { int at; }; struct Top { int key[2]; Entry from[2]; short count; }; "
        "auto larger = [](const Top& a, const Top& b) { Top r; int i = 0, j = 0; for (int m = 0; m < 2; ++m) { "
        "const bool first = a.key[i] >= b.key[j]; r.key[m] = first ? a.key[i] : b.key[j]; "
        "r.from[m].at = first ? a.from[i].at : b.from[j].at; if (first) ++i; else ++j; } "
        "r.count = a.count + b.count; return r; }; "
    )
    out = go(
        f"{top} typedef cub::BlockReduce<Top, 80> R; SHARED(R, temp); "
        "Top mine; mine.key[0] = v; mine.key[1] = -100; mine.from[0].at = t; mine.from[1].at = -1; mine.count = 1; "
        "Top all = R(temp).Reduce(mine, larger); if (t == 0) { out[0] = all.key[0]; out[1] = all.key[1]; "
        "out[2] = all.from[0].at; out[3] = all.from[1].at; out[4] = all.count; }",
        80,
    )
    order = np.argsort(-X[:80], kind="stable")[:2]
    assert list(out[:5]) == [*X[order], *order, 80]


def test_a_functor_of_the_user_and_storage_shared_by_a_union() -> None:
    out = go(
        "struct Both { int low, high; }; struct Join { __device__ Both operator()(const Both& a, const Both& b) const "
        "{ Both r; r.low = min(a.low, b.low); r.high = max(a.high, b.high); return r; } }; "
        "using R = cub::BlockReduce<Both, 64>; using S = cub::BlockScan<int, 64>; "
        "__shared__ union { R::TempStorage reduce; S::TempStorage scan; } temp; "
        "Both own = {v, v}; Both all = R(temp.reduce).Reduce(own, Join()); __syncthreads(); "
        "int before; S(temp.scan).ExclusiveSum(v, before); out[t] = before; "
        "if (t == 0) { out[100] = all.low; out[101] = all.high; }"
    )
    assert list(out[:64]) == [0, *X[:63].cumsum()]
    assert list(out[100:102]) == [X[:64].min(), X[:64].max()]


@pytest.mark.parametrize("threads", [32, 64, 96, 40])
def test_block_scans(threads: int) -> None:
    first = X[:threads]
    scan = f"using S = cub::BlockScan<int, {threads}>; SHARED(S, temp); int r, all; "
    out = go(f"{scan} S(temp).InclusiveSum(v, r, all); out[t] = r; if (t == 5) out[150] = all;", threads)
    assert list(out[:threads]) == list(first.cumsum()) and out[150] == first.sum()
    out = go(
        f"{scan} S(temp).ExclusiveScan(v, r, -7, cub::Max(), all); out[t] = r; if (t < 2) out[100 + t] = all;", threads
    )
    assert list(out[: min(threads, 100)]) == [-7, *np.maximum.accumulate(np.maximum(first, -7))[:-1]][:100]
    assert out[100] == out[101] == first.max()


@pytest.mark.parametrize("algorithm", ["", ", cub::BLOCK_HISTO_ATOMIC"])
def test_counts_of_values(algorithm: str) -> None:
    """A second round of items adds to the first one's counts."""
    out = go(
        f"using H = cub::BlockHistogram<unsigned char, 64, 2, 9{algorithm}>; SHARED(H, temp); "
        "__shared__ unsigned counts[9]; unsigned char some[2] = {(unsigned char)(t % 9), (unsigned char)(t / 32)}; "
        "H(temp).Histogram(some, counts); __syncthreads(); H(temp).Composite(some, counts); __syncthreads(); "
        "if (t < 9) out[t] = counts[t];"
    )
    t = np.arange(64)
    counts = np.bincount(np.concatenate([t % 9, t // 32]), minlength=9)
    assert list(out[:9]) == list(2 * counts)


def test_scan_of_several_items_with_a_running_prefix() -> None:
    out = go(
        "struct Running { int total; __device__ int operator()(int block) { int old = total; total += block; "
        "return old; } }; using S = cub::BlockScan<int, 32>; SHARED(S, temp); Running prefix{0}; "
        "for (int start = 0; start < 192; start += 96) { int items[3]; "
        "for (int i = 0; i < 3; i++) items[i] = x[start + t * 3 + i]; "
        "S(temp).ExclusiveSum(items, items, prefix); __syncthreads(); "
        "for (int i = 0; i < 3; i++) out[start + t * 3 + i] = items[i]; }",
        32,
    )
    assert list(out) == [0, *X.cumsum()[:-1]]


def test_warp_collectives_of_logical_warps() -> None:
    out = go(
        "using R = cub::WarpReduce<int, 8>; using S = cub::WarpScan<int>; __shared__ R::TempStorage a[8]; "
        "__shared__ S::TempStorage b[2]; int sum = R(a[t / 8]).Sum(v); int scan, all; "
        "S(b[t / 32]).ExclusiveSum(v, scan, all); out[t] = scan; if (t % 8 == 0) out[100 + t / 8] = sum; "
        "int few = R(a[t / 8]).Reduce(v, cub::Max(), 5); if (t % 8 == 0) out[120 + t / 8] = few; "
        "if (t % 32 == 9) out[140 + t / 32] = all;"
    )
    rows = X[:64].reshape(8, 8)
    assert list(out[100:108]) == list(rows.sum(1)) and list(out[120:128]) == list(rows[:, :5].max(1))
    assert list(out[:64]) == [v for half in X[:64].reshape(2, 32) for v in [0, *half.cumsum()[:-1]]]
    assert list(out[140:142]) == list(X[:64].reshape(2, 32).sum(1))


@pytest.mark.parametrize("width", [32, 8])
@pytest.mark.parametrize("kind", ["Head", "Tail"])
def test_segments_of_lanes_are_reduced_for_their_first(kind: str, width: int) -> None:
    out = go(
        f"using R = cub::WarpReduce<int, {width}>; __shared__ R::TempStorage a[64 / {width}]; bool flag = t % 5 == 3; "
        f"int sum = R(a[t / {width}]).{kind}SegmentedSum(v, flag); "
        f"int most = R(a[t / {width}]).{kind}SegmentedReduce(v, flag, cub::Max()); out[t] = sum; out[100 + t] = most;"
    )
    flags, edge = np.arange(64) % 5 == 3, np.arange(64) % width
    ends = (np.roll(flags, -1) if kind == "Head" else flags) | (edge == width - 1)
    for t in range(64):
        last = t + int(np.argmax(ends[t:]))
        if t == 0 or edge[t] == 0 or ends[t - 1]:
            assert (out[t], out[100 + t]) == (X[t : last + 1].sum(), X[t : last + 1].max())


LOADS = "int items[3]; using L = cub::BlockLoad<int, 64, 3, cub::BLOCK_LOAD_{}>; SHARED(L, a); "


@pytest.mark.parametrize("algorithm", ["DIRECT", "VECTORIZE", "TRANSPOSE", "WARP_TRANSPOSE", "STRIPED"])
def test_tiles_are_loaded_and_stored(algorithm: str) -> None:
    out = go(
        f"{LOADS.format(algorithm)} L(a).Load(x, items, 100, -1); for (int i = 0; i < 3; i++) items[i] += t; "
        f"using O = cub::BlockStore<int, 64, 3, cub::BLOCK_STORE_{algorithm}>; SHARED(O, b); "
        "O(b).Store(out, items, 150);"
    )
    i = np.arange(192)
    owner = i % 64 if algorithm == "STRIPED" else i // 3
    assert list(out) == list(np.where(i < 150, np.where(i < 100, X, -1) + owner, 0))


def test_exchanges() -> None:
    out = go(
        "int items[3]; cub::LoadDirectStriped<64>(t, x, items); using E = cub::BlockExchange<int, 64, 3>; "
        "SHARED(E, a); E(a).StripedToBlocked(items); __syncthreads(); "
        "for (int i = 1; i < 3; i++) items[i] += items[i - 1]; "
        "E(a).BlockedToStriped(items); cub::StoreDirectStriped<64>(t, out, items);"
    )
    assert list(out) == list(X.reshape(64, 3).cumsum(1).reshape(-1))


def test_what_is_not_built_is_refused_by_name() -> None:
    with pytest.raises(KtcError) as e:
        kernel_of("using S = cub::BlockRadixSort<int, 64, 4>; SHARED(S, a); int items[4]; S(a).Sort(items);", 64)
    assert "not built here" in e.value.hint
    assert "BlockRadixSort" in str(e.value) and e.value.code.startswith("E-") and e.value.loc is not None


EVERYTHING = (
    "using P = cub::KeyValuePair<int, float>; using R = cub::BlockReduce<P, 64>; SHARED(R, temp); "
    "P best = R(temp).Reduce(P(t, (float)v), cub::ArgMax(), n); if (t == 0) out[0] = best.key; "
    + LOADS.format("TRANSPOSE")
    + "L(a).Load(x, items); using S = cub::BlockScan<int, 64>; SHARED(S, c); S(c).InclusiveSum(items, items);"
    "for (int i = 0; i < 3; i++) out[t * 3 + i] = items[i];"
)


@pytest.mark.parametrize("language, tool", [("cuda", "nvcc"), ("hip", "hipcc")])
def test_compilers_take_it(language: str, tool: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"needs {tool}")
    devices.compiler(language)
    check_compile(emit(kernel_of(EVERYTHING, 64), language))


def test_opencl_needs_sub_groups_for_it() -> None:
    with pytest.raises(KtcError) as e:
        emit(kernel_of(EVERYTHING, 64), "opencl")
    assert e.value.code == "E-BACKEND-WARP"
    assert "sub_group_shuffle" in emit(kernel_of(EVERYTHING, 64), "opencl", profile="opencl-cl30-subgroups").text


def test_limits_of_floating_point_types() -> None:
    text = """#include <cub/cub.cuh>
    template <typename T> __device__ float2 both() { using L = cub::FpLimits<T>; return {L::Lowest(), L::Max()}; }
    __global__ void k(float2* y) { y[0] = both<float>(); y[1] = both<__half>(); y[2] = both<__nv_bfloat16>(); }
    void host(float2* y) { k<<<1, 1>>>(y); }
    """
    found = run(load(text), {"y": np.zeros(6, np.float32)}).outputs["y"].reshape(3, 2)
    assert (found[:, 1] == np.array([np.finfo(np.float32).max, 65504, 2.0**127 * (2 - 2.0**-7)], np.float32)).all()
    assert (found[:, 0] == -found[:, 1]).all()


def test_a_functor_with_a_common_type() -> None:
    out = go(
        "struct Larger { template <typename A, typename B> __device__ typename std::common_type<A, B>::type "
        "operator()(A&& a, B&& b) const { return a > b ? a : b; } }; using R = cub::BlockReduce<int, 64>; "
        "SHARED(R, temp); int best = R(temp).Reduce(v, Larger{}); if (t == 0) out[0] = best;"
    )
    assert out[0] == X[:64].max()


def test_a_function_of_the_same_name_does_not_hide_the_library() -> None:
    text = (
        "#include <cub/cub.cuh>\n__device__ void BlockReduce(float& x) { "
        "using BlockReduce = cub::BlockReduce<float, 64>; "
        "__shared__ typename BlockReduce::TempStorage temp; x = BlockReduce(temp).Sum(x); }\n"
        "__global__ void k(float* x) { float v = x[threadIdx.x]; BlockReduce(v); if (threadIdx.x == 0) x[0] = v; }\n"
        "void host(float* x) { k<<<1, 64>>>(x); }\n"
    )
    result = run(load(text), {"x": np.ones(64, np.float32)})
    assert result.outputs["x"][0] == 64
