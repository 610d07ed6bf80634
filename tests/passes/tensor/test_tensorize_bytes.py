# ruff: noqa: E501
"""tensorize on bytes: the instruction by the factors' layout, its loads, wrapping sums, and wrong versions that must be caught."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ktc.backends import emit
from ktc.backends.cuda.tensor_cores import mma_helper, warpgroup_helper
from ktc.driver.printing import printed
from ktc.ir.analysis.schedule_counts import schedule_counts
from ktc.ir.fragments import FRAGMENTS, INSTRUCTIONS, PAIRED, Digit, paired_row
from ktc.ir.interp import equivalent
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import BulkCopy, MatrixLoad, Mma, TileMma
from ktc.ir.text import parse_kernel
from ktc.ir.verifier import verify
from ktc.ir.walk import walk
from ktc.passes.core.catalogue import PASSES
from ktc.passes.lowering import LoweringError, materialise
from ktc.passes.lowering.tensor import fragment_products as fragments
from tests.passes.checks import applied

TEXT = """\
kernel gemm(C: i32* restrict align 16, A: i8 const* restrict align 16, B: i8 const* restrict align 16, M: i32, N: i32, K: i32)
  assume K % 16 == 0
  assume N % 16 == 0
  par row in 0..M @ [thread.y 16, block.y]
    par col in 0..N @ [thread.x 16, block.x]
      var acc: i32 = 0
      for k in 0..K
        acc += i32(A[row * K + k]) * i32(B[INDEX])
      C[row * N + col] = acc
"""
ALONG_COLUMNS, ALONG_TERMS = "k * N + col", "col * K + k"
WIDE, NARROW = "m16n16k32", "m16n8k32"
TILED = (
    "tile{loops=row,col sizes=32,32} | tile{loops=k sizes=64 tail=cut} | register-tile{loop=k_tile.*}"
    " | tensorize{loop=k.* warps=2,1 pairs=yes FRAGMENT} | stage-shared{array=A loop=k_tile.* vec=16}"
    " | stage-shared{array=B loop=k_tile.* vec=16} | async-copy{loop=k_tile} | multi-buffer{loop=k_tile stages=2}"
    " | swizzle-shared{array=A_s} | swizzle-shared{array=B_s}"
)
SIZES = ((16, 16, 64), (33, 48, 144))


def product(index: str = ALONG_COLUMNS, elem: str = "i8") -> Kernel:
    return parse_kernel(TEXT.replace("INDEX", index).replace("i8 const", f"{elem} const"))


def staged(kernel: Kernel, shape: str, elem: str = "i8") -> Kernel:
    return applied(kernel, TILED.replace("FRAGMENT", f"fragment={shape}_{elem}"))


def arguments(m: int, n: int, k: int, elem: str = "i8") -> dict[str, object]:
    rng = np.random.default_rng(m)
    t = np.dtype({"i8": np.int8, "u8": np.uint8}[elem])
    low, high = np.iinfo(t).min, np.iinfo(t).max + 1
    a, b = (rng.integers(low, high, size).astype(t) for size in (m * k, k * n))
    return {"C": np.zeros(m * n, np.int32), "A": a, "B": b, "M": m, "N": n, "K": k}


def differ(before: Kernel, after: Kernel, elem: str = "i8") -> object:
    return equivalent(before, after, [arguments(*s, elem) for s in SIZES])


@pytest.mark.parametrize("elem", ["i8", "u8"])
@pytest.mark.parametrize("index, shape", [(ALONG_COLUMNS, WIDE), (ALONG_TERMS, NARROW)])
def test_tiles_come_by_matrix_loads_and_sums_are_exact(index: str, shape: str, elem: str) -> None:
    before = product(index, elem)
    lowered = materialise(staged(before, shape, elem))
    loads = [s for s in walk(lowered.body) if isinstance(s, MatrixLoad)]
    turned = shape == WIDE
    assert {(s.buffer.name, s.width, s.trans) for s in loads} == {("A_s", 16, False), ("B_s", 16, turned)}
    assert verify(lowered) == [] and differ(before, lowered, elem) is None


@pytest.mark.parametrize(("first", "second"), [("u8", "i8"), ("i8", "u8")])
@pytest.mark.parametrize(("index", "shape"), [(ALONG_COLUMNS, WIDE), (ALONG_TERMS, NARROW)])
def test_signs_may_differ(first: str, second: str, index: str, shape: str) -> None:
    before = parse_kernel(TEXT.replace("INDEX", index).replace("A: i8", f"A: {first}").replace("B: i8", f"B: {second}"))
    lowered = materialise(applied(before, TILED.replace("FRAGMENT", f"fragment={shape}_{first}_{second}")))
    given = arguments(33, 48, 144, first) | {"B": arguments(33, 48, 144, second)["B"]}
    assert verify(lowered) == [] and equivalent(before, lowered, [given]) is None
    kinds = {"u8": "u8", "i8": "s8"}
    assert f".s32.{kinds[first]}.{kinds[second]}.s32" in emit(lowered, "cuda").text


BY_WARPGROUPS = (
    "divisible-by{K=128} | tile{loops=row,col sizes=64,64} | tile{loops=k sizes=128 tail=exact}"
    " | register-tile{loop=k_tile} | tensorize{loop=k fragment=m64n64k32_i8 warps=1,1 pairs=yes}"
    " | stage-shared{array=A loop=k_tile vec=16} | stage-shared{array=B loop=k_tile vec=16} | async-copy{loop=k_tile}"
    " | multi-buffer{loop=k_tile COPIED} | swizzle-shared{array=A_s} | swizzle-shared{array=B_s}"
)


@pytest.mark.parametrize("copied", ["stages=3 by=producer", "stages=3 slack=1"])
def test_warpgroups_read_tiles_whose_rows_run_along_the_terms(copied: str) -> None:
    before = product(ALONG_TERMS)
    lowered = materialise(applied(before, BY_WARPGROUPS.replace("COPIED", copied)))
    assert any(isinstance(s, TileMma) and s.trans and s.depth == 128 for s in walk(lowered.body))
    assert any(isinstance(s, BulkCopy) for s in walk(lowered.body)) == ("producer" in copied)
    assert verify(lowered) == []
    assert equivalent(before, lowered, [arguments(70, 80, 384)]) is None


def test_warpgroups_read_no_bytes_in_rows_along_columns() -> None:
    kernel = applied(product(), BY_WARPGROUPS.replace("COPIED", "stages=3 slack=1"))
    with pytest.raises(LoweringError, match="along the terms alone"):
        materialise(kernel)


def test_the_instruction_of_a_warpgroup_has_neither_signs_nor_a_transposition() -> None:
    bytes_, halves = (warpgroup_helper(FRAGMENTS[f"m64n64{x}"]) for x in ("k32_u8", "k16_f16"))
    assert "m64n64k32.s32.u8.u8 " in bytes_ and ", keep; }" in bytes_ and "int& c0" in bytes_
    assert "m64n64k16.f32.f16.f16 " in halves and ", keep, 1, 1, 0, " in halves and "float& c0" in halves


def test_from_global_memory_on_awkward_sizes() -> None:
    before = product()
    for shape in (WIDE, NARROW):
        lowered = materialise(applied(before, f"tensorize{{loop=k fragment={shape}_i8 warps=1,1 repeat=1,1}}"))
        assert any(isinstance(s, Mma) for s in walk(lowered.body))
        assert differ(before, lowered) is None


def test_sums_wrap_around_as_those_of_the_source() -> None:
    """Of 2^31 and more the instruction keeps the last 32 bits (no .satfinite), as the additions in C do here."""
    before = parse_kernel("""\
kernel gemm(C: i32* restrict, A: u8 const* restrict, B: u8 const* restrict)
  par row in 0..16 @ [thread.y 16]
    par col in 0..8 @ [thread.x 8]
      var acc: i32 = 2147483000
      for k in 0..32
        acc += i32(A[row * 32 + k]) * i32(B[col * 32 + k])
      C[row * 8 + col] = acc
""")
    after = materialise(applied(before, "tile{loops=row,col sizes=16,8} | tensorize{loop=k warps=1,1}"))
    full = {"C": np.zeros(128, np.int32), "A": np.full(512, 255, np.uint8), "B": np.full(256, 255, np.uint8)}
    assert equivalent(before, after, [full]) is None
    assert ".satfinite" not in mma_helper(FRAGMENTS["m16n8k32_u8"])


def test_layouts_are_those_of_the_ptx_manual() -> None:
    """PTX ISA, mma.m16n8k32 of 8 bits: the formulas given there."""
    f = FRAGMENTS["m16n8k32_i8"]
    assert f.a is not None and f.b is not None
    for lane in range(32):
        group, inside = lane >> 2, lane % 4
        for i in range(16):
            row = group if i < 4 or 8 <= i < 12 else group + 8
            assert f.a.element(lane, i) == (row, inside * 4 + (i & 3) + (16 if i >= 8 else 0))
        for i in range(8):
            assert f.b.element(lane, i) == (inside * 4 + (i & 3) + (16 if i >= 4 else 0), group)
        for i in range(4):
            assert f.c.element(lane, i) == (group + (8 if i >= 2 else 0), inside * 2 + (i & 1))


def test_two_instructions_take_even_and_odd_columns() -> None:
    wide, half = FRAGMENTS["m16n16k32_i8"], FRAGMENTS["m16n8k32_i8"]
    assert wide.b is not None and half.b is not None
    for lane in range(32):
        for part in range(2):
            for i in range(half.b.slots):
                row, col = half.b.element(lane, i)
                assert wide.b.element(lane, i + part * half.b.slots) == (row, 2 * col + part)
            for i, slot in enumerate(range(part, wide.c.slots, 2)):
                row, col = half.c.element(lane, i)
                assert wide.c.element(lane, slot) == (row, 2 * col + part)


def test_a_transposing_load_moves_pairs_of_bytes_to_the_lanes_of_a_fragment() -> None:
    """By what ldmatrix.trans does to pairs of bytes, and what is put together of them: selections of __byte_perm."""
    names = {(16 * q + r, c): (r, c) for q in range(2) for r in range(16) for c in range(16)}
    assert len(names) == 512
    for lane in range(32):
        group, inside = lane // 4, lane % 4
        received = [
            [(paired_row(m, 2 * inside + h), 2 * group + p) for h in range(2) for p in range(2)] for m in range(4)
        ]
        even, odd = ("2064", "3175") if lane & 2 else ("6420", "7531")
        registers = []
        for select in (even, odd):
            for q in range(2):
                both = received[2 * q] + received[2 * q + 1]
                registers += [both[int(s)] for s in reversed(select)]
        assert registers == [PAIRED.element(lane, slot) for slot in range(16)]


@pytest.mark.parametrize("matrix", range(4))
def test_rows_of_a_transposed_matrix_are_in_different_banks(matrix: int) -> None:
    assert sorted(paired_row(matrix, r) % 8 for r in range(8)) == list(range(8))


def test_the_text_in_cuda_and_where_there_is_no_instruction() -> None:
    kernel = staged(product(), WIDE)
    lowered = materialise(kernel)
    text = emit(lowered, "cuda").text
    assert "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32" in text and "ldmatrix_paired(" in text
    for target in ("hip", "opencl", "cuda-sm70"):
        with pytest.raises(Exception, match="E-BACKEND-MMA"):
            emit(lowered, target)
    for target in ("hip", "opencl", "numba"):  # these sum a thread at a time
        assert "mma" not in printed(kernel, target).text


@pytest.mark.parametrize(
    "change",
    [
        {"b": dataclasses.replace(PAIRED, slot=(Digit(4, 1, 0), Digit(2, 0, 1), Digit(2, 16, 0)))},
        {"c": dataclasses.replace(INSTRUCTIONS["m16n16k32_i8"].c, lane=(Digit(4, 0, 4), Digit(8, 2, 0)))},
    ],
)
def test_a_wrong_layout_is_caught(change: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = dataclasses.replace(FRAGMENTS["m16n16k32_i8"], **change)
    before = product()
    kernel = applied(before, "tensorize{loop=k fragment=m16n16k32_i8 warps=1,1 repeat=1,1}")
    monkeypatch.setattr(fragments, "FRAGMENTS", {wrong.name: wrong})
    try:
        lowered = materialise(kernel)
    except Exception as e:  # the distribution is checked against the layout
        assert "E-LOWER-MMA" in str(e) or "distributed" in str(e)
        return
    assert differ(before, lowered) is not None


def test_sites_are_those_with_an_instruction() -> None:
    assert PASSES["tensorize"].sites(product())
    assert not PASSES["tensorize"].sites(parse_kernel(TEXT.replace("INDEX", ALONG_TERMS).replace("B: i8", "B: i16")))


def test_bytes_are_counted_as_half_the_work_of_halves() -> None:
    lowered = materialise(applied(product(), "tensorize{loop=k fragment=m16n8k32_i8 warps=1,1 repeat=1,1}"))
    sizes = {"M": 16, "N": 8, "K": 64}
    found = schedule_counts(lowered, sizes)
    assert found is not None and found.matrix == 16 * 8 * 64
