"""A producer beside the block: boxes of matrices by bulk copies, buffers given up and filled, wrong versions."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import types
from collections.abc import Callable

import pytest

from ktc.backends import emit
from ktc.backends.base import accelerated
from ktc.backends.launchers.cuda_launcher import emit_launcher
from ktc.ir.interp import equivalent, run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Barrier, BulkCopy, For, Produce, Stmt, Store, Sym, TileMma, Var, i32
from ktc.ir.producer_launch import launched_block, tensor_maps
from ktc.ir.text import canonical, parse_kernel, print_kernel
from ktc.ir.types import I32
from ktc.ir.verifier import verify
from ktc.ir.walk import map_body, walk
from ktc.passes.lowering import LoweringError, materialise
from tests.passes.checks import applied, refused
from tests.passes.tensor.test_tensorize import GEMM, arguments
from tests.passes.tensor.test_tensorize_warpgroup import LAYOUT, PIPELINE

SCRIPT = PIPELINE.replace("stages=2", "stages=3 by=producer") + LAYOUT
SIZES = ((72, 136, 64), (72, 72, 320), (64, 64, 0))


@functools.cache
def lowered(script: str = SCRIPT % (128, 2)) -> Kernel:
    return materialise(applied(GEMM, script))


def changed(k: Kernel, f: Callable[[Stmt], Stmt | tuple[Stmt, ...] | None]) -> Kernel:
    return k.with_(body=map_body(k.body, f))


def differs(k: Kernel, sizes: tuple[tuple[int, int, int], ...] = SIZES) -> object:
    return equivalent(GEMM, k, [arguments(*s) for s in sizes])


# ------------------------------------------------------------------------------------------------------ what is made


def test_copies_stay_loops_until_lowering() -> None:
    k = applied(GEMM, SCRIPT % (64, 1))
    text = print_kernel(k)
    assert "produce k_tile / 64 % 3 of 3\n          par A_i in 0..512 " in text and "async_wait" not in text
    assert verify(k) == [] and canonical(parse_kernel(text)) == canonical(k)
    assert differs(k, ((64, 64, 128),)) is None


def test_copies_become_boxes_with_the_matrix_edges() -> None:
    k = lowered()
    text = print_kernel(k)
    assert "produce k_tile / 64 % 3 of 3 hold 1" in text
    a = "bulk_copy A_s[k_tile / 64 % 3, 0, 0] rows 64 = A (row_tile * 64, k_tile) of (M, K) pitch K"
    b = "bulk_copy B_s[k_tile / 64 % 3, 1, 0, 0] rows 64 = B (k_tile, col_tile * 128 + 64) of (K, N) pitch N"
    assert a in text and b in text
    assert [len(m.extent) and m.rows for m in tensor_maps(k)] == [64, 64]
    assert not any(isinstance(s, Barrier) for s in walk(k.body))
    assert verify(k) == [] and canonical(parse_kernel(text)) == canonical(k)


def test_meaning_at_edges_over_many_rounds_and_without_any() -> None:
    k = lowered()
    assert differs(k) is None
    result = run(k, arguments(64, 64, 192))
    assert result.findings == [] and not any(isinstance(s, Produce) for s in result.unreached)


def test_sizes_may_be_numbers() -> None:
    k = lowered("specialize{K=128} | " + SCRIPT % (64, 1))
    assert "of (M, 128) pitch 128" in print_kernel(k)
    assert equivalent(GEMM, k, [arguments(72, 136, 128)]) is None


def test_two_buffers_are_enough() -> None:
    k = lowered((SCRIPT % (64, 1)).replace("stages=3", "stages=2"))
    assert [(s.hold, s.stages) for s in walk(k.body) if isinstance(s, Produce)] == [(1, i32(2))]
    assert differs(k, ((64, 64, 320),)) is None


def test_clean_up_leaves_the_copies_as_they_are() -> None:
    plain = lowered(SCRIPT % (64, 1))
    k = lowered(f"{SCRIPT % (64, 1)} | cse | strength-reduce")

    def copies(k: Kernel) -> list[str]:
        return [line for line in print_kernel(k).splitlines() if "produce k_tile" in line or "bulk_copy" in line]

    assert len(copies(k)) == 3 and copies(k) == copies(plain) and print_kernel(k) != print_kernel(plain)
    assert differs(k, ((64, 64, 128),)) is None


# --------------------------------------------------------------------------------------------------------- the code


def test_code_of_two_roles() -> None:
    text = emit(lowered(), "cuda-sm90").text
    assert "cp.async.bulk.tensor.2d" in text and "__launch_bounds__(384, 1)" in text
    assert "const __grid_constant__ tensor_map A_map" in text and "mbarrier_init(&empty[i], 8);" in text
    assert "if (threadIdx.x >= 256) {" in text and "mbarrier_arrive_expect(&full[slot], 24576);" in text
    assert "if (threadIdx.x % 32 == 0 && k_tile >= 64) mbarrier_arrive(&empty[(k_tile - 64) / 64 % 3]);" in text
    emit(lowered(), "cuda-sm90", mode="template")


def test_barriers_count_the_threads_of_the_block() -> None:
    k = lowered(SCRIPT % (64, 1))
    text = emit(k.with_(body=(*k.body, Barrier())), "cuda-sm90").text
    assert 'asm volatile("bar.sync 1, %0;" ::"n"(128) : "memory");' in text


@pytest.mark.parametrize("target", ["cuda-sm80", "hip", "opencl", "numba"])
def test_other_targets_refuse(target: str) -> None:
    with pytest.raises(Exception, match=r"E-BACKEND-|E-NUMBA-"):
        emit(lowered(), target)


def test_launchers_describe_the_matrices() -> None:
    code = emit(lowered(), "cuda-sm90")
    text = emit_launcher(code)
    assert "const dim3 block(384);" in text
    assert "make_tensor_map(&map0, A, M, K, K, 64, CU_TENSOR_MAP_DATA_TYPE_FLOAT16)" in " ".join(text.split())
    assert "map0, map1);" in " ".join(text.split())
    assert "reinterpret_cast<uintptr_t>(B) % 16 == 0" in text
    assert launched_block(code.kernel)[0] == i32(384)
    with pytest.raises(Exception, match="E-LAUNCH-KIND"):
        emit_launcher(code, "cupy")


def test_descriptor_of_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    from ktc.backends.runtimes import tensor_map

    seen = []

    def encoder(out, kind, rank, address, extents, strides, box, ones, *modes):
        seen.append((out.value % 64, kind, rank, address.value, *extents, *strides, *box, *ones, *modes))
        return 1 if address.value % 16 else 0

    monkeypatch.setattr(tensor_map, "driver", lambda: types.SimpleNamespace(cuTensorMapEncodeTiled=encoder))
    a, b = tensor_maps(lowered())
    env = {"M": 72, "N": 136, "K": 128}
    assert tensor_map.encode(a, 4096, env).shape == (128,)
    tensor_map.encode(b, 8192, env)
    assert seen == [
        (0, 6, 2, 4096, 128, 72, 256, 64, 64, 1, 1, 0, 3, 2, 0),
        (0, 6, 2, 8192, 136, 128, 272, 64, 64, 1, 1, 0, 3, 2, 0),
    ]
    assert not tensor_map.encode(a, 0, env | {"K": 0}).any() and len(seen) == 2
    with pytest.raises(Exception, match="E-LAUNCH-FAILED"):
        tensor_map.encode(a, 4100, env)
    packed = tensor_map.Packed((7, tensor_map.encode(a, 4096, env)))
    assert ctypes.cast(packed[1][0], ctypes.POINTER(ctypes.c_int)).contents.value == 7


# --------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ("by=producer", "by=nobody", "E-ARG-RANGE"),
        (" | async-copy{loop=k_tile}", "", "E-BUFFER-COPIES"),
        ("by=producer", "by=producer slack=1", "E-BUFFER-STAGES"),
    ],
)
def test_refusals(before: str, after: str, code: str) -> None:
    assert refused(GEMM, (SCRIPT % (64, 1)).replace(before, after)).code == code


@pytest.mark.parametrize(
    "change",
    [
        (" | swizzle-shared{array=B_s}", ""),
        ("tail=exact", "tail=guard"),
        ("array=A loop=k_tile vec=8", "array=A loop=k_tile vec=1"),
    ],
    ids=["rows as they are", "a clipped round", "elements alone"],
)
def test_lowering_refuses_what_is_no_box(change: tuple[str, str]) -> None:
    with pytest.raises((LoweringError, AssertionError), match=r"E-LOWER-BULK|E-LOWER-MMA|E-ASYNC"):
        lowered((SCRIPT % (64, 1)).replace(*change))


def test_lowering_refuses_a_matrix_that_may_start_anywhere() -> None:
    loose = GEMM.with_(params=tuple(dataclasses.replace(p, align=0) for p in GEMM.params))
    with pytest.raises((LoweringError, AssertionError), match=r"E-LOWER-BULK|E-STAGE"):
        materialise(applied(loose, SCRIPT % (64, 1)))


def test_rules_of_producers() -> None:
    k = lowered(SCRIPT % (64, 1))
    (loop,) = [s for s in walk(k.body) if isinstance(s, For) and isinstance(s.body[0], Produce)]
    produce, *rest = loop.body
    assert isinstance(produce, Produce)
    copy = produce.body[0]
    assert isinstance(copy, BulkCopy)

    def codes(first: tuple[Stmt, ...]) -> set[str]:
        body = tuple(dataclasses.replace(s, body=(*first, *rest)) if s is loop else s for s in k.body)
        return {p.code for p in verify(k.with_(body=body))}

    assert codes((produce,)) == set()
    assert codes((copy,)) == {"V-PRODUCE"}
    assert codes((Barrier(), produce)) == {"V-PRODUCE"}
    assert codes((dataclasses.replace(produce, hold=3),)) == {"V-PRODUCE"}
    zero = Store(copy.dst, copy.dst_index, parse_zero(k))
    assert codes((produce, zero)) == {"V-PRODUCE"}
    assert codes((dataclasses.replace(produce, body=(*produce.body, zero)),)) == {"V-PRODUCE"}
    unknown = dataclasses.replace(copy, pitch=Var(loop.var))
    assert codes((dataclasses.replace(produce, body=(unknown,)),)) == {"V-PRODUCE"}
    tall = dataclasses.replace(copy, rows=512)
    assert codes((dataclasses.replace(produce, body=(tall,)),)) == {"V-BULK"}


def parse_zero(k: Kernel):
    from ktc.ir.nodes import Const
    from ktc.ir.types import F16

    return Const(0.0, F16)


# ---------------------------------------------------------------------------------------- neighbours, other products

PAIRS = (SCRIPT % (64, 1)).replace("by=producer", "by=producer cluster=2")


@pytest.mark.parametrize(
    ("order", "shared", "tiles"),
    [("", ("A_s",), "cdiv(N, 64)"), (" | block-swizzle{loop=row_tile group=2}", ("B_s",), "cdiv(M, 64)")],
)
def test_neighbours_copy_a_common_box_once(order: str, shared: tuple[str, ...], tiles: str) -> None:
    k = lowered(PAIRS + order)
    text = print_kernel(k)
    assert tuple(s.dst.name for s in walk(k.body) if isinstance(s, BulkCopy) and s.shared == 2) == shared
    assert f"assume {tiles} % 2 == 0 origin guessed" in text and "cluster(2)" in text
    assert verify(k) == [] and canonical(parse_kernel(text)) == canonical(k)
    assert differs(k, ((200, 128, 192),)) is None
    assert [m.rows for m in tensor_maps(k)] == ([32, 64] if shared == ("A_s",) else [64, 32])


def test_code_of_neighbours() -> None:
    text = emit(lowered(PAIRS), "cuda-sm90").text
    assert "__cluster_dims__(2, 1, 1)" in text and "bulk_copy_shared<64, 2>(&A_s[" in text
    assert "mbarrier_init(&empty[i], 8);" in text and "mbarrier_arrive_expect(&full[slot], 16384);" in text
    assert "if (threadIdx.x % 32 < 2 && k_tile >= 64) mbarrier_arrive_at(&empty[" in text
    assert text.rstrip().endswith("cluster_wait();\n}") and text.count("cluster_arrive();") == 2


def test_arrivals_at_other_blocks_wait_for_memory_only_after_reads_of_threads() -> None:
    """A release at cluster scope waits for all memory, 0.4 us a round; products of tiles are waited for anyway."""
    products, warps = (
        emit(lowered(s), "cuda-sm90").text for s in (PAIRS, WARPS.replace("producer", "producer cluster=2"))
    )
    assert "mbarrier_arrive_at(&empty[" in products and "mbarrier_release_at(&empty[" not in products
    assert "mbarrier_release_at(&empty[" in warps and "mbarrier_arrive_at(&empty[" not in warps
    helper = products[products.index("mbarrier_arrive_at(unsigned") :]
    assert ".release.cluster" not in helper[: helper.index("}\n")]
    assert "barrier.cluster.arrive.relaxed" in products  # the mbarriers' own fence releases them


def test_boxes_that_differ_are_found() -> None:
    def other(s: Stmt) -> Stmt:
        return dataclasses.replace(s, shared=3 - s.shared) if isinstance(s, BulkCopy) else s

    found = run(changed(lowered(PAIRS), other), arguments(64, 128, 64)).findings
    assert found and "blocks of a cluster share a box of 'B_s'" in found[0].message


@pytest.mark.parametrize(
    "script",
    [
        PAIRS + " | block-swizzle{loop=row_tile group=1}",
        PAIRS.replace("cluster=2", "cluster=4") + " | block-swizzle{loop=row_tile group=2}",
    ],
    ids=["pairs cross columns", "larger than a band"],
)
def test_neighbours_without_a_common_box_are_refused(script: str) -> None:
    with pytest.raises(LoweringError, match="E-LOWER-CLUSTER"):
        lowered(script)


def test_clusters_are_of_producers_and_of_a_known_size() -> None:
    for change in (("cluster=2", "cluster=3"), ("by=producer cluster", "cluster")):
        assert refused(GEMM, PAIRS.replace(*change)).code == "E-ARG-RANGE"


WARPS = PAIRS.replace("fragment=m64n64k16_f16 warps=1,1", "warps=2,2").replace(" cluster=2", "")


def test_warps_load_fragments_from_panels() -> None:
    k = lowered(WARPS.replace("sizes=64,64", "sizes=64,128"))
    text = print_kernel(k)
    assert text.count("matrix_load") == 4 and "trans" in text and "B_s[k_tile / 64 % 3, tx2, (k + 1) * 16 + " in text
    assert differs(k, ((72, 136, 128),)) is None
    code = emit(k, "cuda-sm90").text
    assert "if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[slot]);" in code and "setmaxnreg" not in code


def test_warps_of_large_tiles_get_the_producer_s_registers() -> None:
    large = WARPS.replace("sizes=64,64", "sizes=128,256").replace("warps=2,2", "warps=2,4")
    text = emit(lowered(large), "cuda-sm90").text
    assert text.index('setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(40)') < text.index("setmaxnreg.inc")
    assert 'u32 %0;" ::"n"(232)' in text and "__launch_bounds__(384, 1)" in text
    assert accelerated("sm_90", text) == "sm_90a"  # there alone is the instruction


# ---------------------------------------------------------------------------------------------- seeded wrong versions


def _too_soon(s: Stmt) -> Stmt:
    """The buffer of a product that may still read it is given up."""
    return dataclasses.replace(s, hold=0) if isinstance(s, Produce) else s


def _one_more(s: Stmt) -> Stmt:
    """The producer runs a round further ahead than there are buffers."""
    return dataclasses.replace(s, stages=i32(4)) if isinstance(s, Produce) else s


def _transposed(s: Stmt) -> Stmt:
    return dataclasses.replace(s, origin=(s.origin[1], s.origin[0])) if isinstance(s, BulkCopy) else s


def _endless(s: Stmt) -> Stmt:
    """Columns beyond the matrix are read."""
    return dataclasses.replace(s, extent=(s.extent[0], i32(1 << 20))) if isinstance(s, BulkCopy) else s


def _other_buffer(s: Stmt) -> Stmt:
    if not isinstance(s, TileMma):
        return s
    return dataclasses.replace(s, a_index=(i32(0), *s.a_index[1:]))


@pytest.mark.parametrize("wrong", [_too_soon, _one_more, _transposed, _endless, _other_buffer])
def test_wrong_versions_are_caught(wrong: Callable[[Stmt], Stmt]) -> None:
    assert differs(changed(lowered(SCRIPT % (64, 1)), wrong), ((72, 72, 320),)) is not None


def test_a_permutation_that_is_not_the_hardware_s_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from ktc.passes.memory import swizzle_shared

    monkeypatch.setattr(swizzle_shared, "LINE", 256)
    with pytest.raises(LoweringError, match="E-LOWER-"):
        lowered.__wrapped__()


def test_threads_that_differ_about_a_box_are_found() -> None:
    def own(s: Stmt) -> Stmt:
        return dataclasses.replace(s, origin=(Var(tid), s.origin[1])) if isinstance(s, BulkCopy) else s

    k = lowered(SCRIPT % (64, 1))
    tid: Sym = next(s.sym for s in k.body if getattr(getattr(s, "sym", None), "name", "") == "tid")  # type: ignore[attr-defined]
    assert tid.type == I32
    found = run(changed(k, own), arguments(64, 64, 64)).findings
    assert {f.kind for f in found} >= {"barrier-divergence"}
