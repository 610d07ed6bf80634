# ruff: noqa: E501
"""tensorize on elements that convert to the instruction's without rounding: weights in bytes, floats of 8 bits."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.fragments import HELD
from ktc.ir.interp import equivalent, run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import AsyncCopy, MatrixLoad, Mma
from ktc.ir.text import parse_kernel
from ktc.ir.types import Scalar
from ktc.ir.verifier import verify
from ktc.ir.walk import walk
from ktc.ir.workload.input_data import numpy_dtype
from ktc.passes.lowering import materialise
from tests.passes.checks import applied, refused

TEXT = """\
kernel gemm(C: f32* restrict align 16, A: FIRST const* restrict align 16, B: SECOND const* restrict align 16, M: i32, N: i32, K: i32)
  assume K % 16 == 0
  assume N % 16 == 0
  par row in 0..M @ [thread.y 16, block.y]
    par col in 0..N @ [thread.x 16, block.x]
      var acc: f32 = 0.0
      for k in 0..K
        acc += f32(A[row * K + k]) * f32(B[INDEX])
      C[row * N + col] = acc
"""
ALONG_COLUMNS, ALONG_TERMS = "k * N + col", "col * K + k"
TILED = (
    "tile{loops=row,col sizes=32,32} | tile{loops=k sizes=32 tail=cut} | register-tile{loop=k_tile.*}"
    " | tensorize{loop=k.* warps=2,1 pairs=yes} | stage-shared{array=A loop=k_tile.* vec=8}"
    " | stage-shared{array=B loop=k_tile.* vec=16} | async-copy{loop=k_tile} | multi-buffer{loop=k_tile stages=2}"
    " | swizzle-shared{array=A_s} | swizzle-shared{array=B_s}"
)


def product(first: str, second: str, index: str = ALONG_TERMS) -> Kernel:
    return parse_kernel(TEXT.replace("FIRST", first).replace("SECOND", second).replace("INDEX", index))


def arguments(m: int, n: int, k: int) -> dict[str, object]:
    rng = np.random.default_rng(m)
    a, b = rng.integers(-8, 8, m * k).astype(np.float16), rng.integers(-128, 128, k * n).astype(np.int8)
    return {"C": np.zeros(m * n, np.float32), "A": a, "B": b, "M": m, "N": n, "K": k}


@pytest.mark.parametrize("index", [ALONG_COLUMNS, ALONG_TERMS])
def test_weights_in_bytes_are_converted_on_their_way_to_registers(index: str) -> None:
    before = product("f16", "i8", index)
    lowered = materialise(applied(before, TILED))
    assert {s.fragment for s in walk(lowered.body) if isinstance(s, Mma)} == {"m16n8k16_f16"}
    assert {s.buffer.name for s in walk(lowered.body) if isinstance(s, MatrixLoad)} == {"A_s"}
    assert {(s.src.name, s.width) for s in walk(lowered.body) if isinstance(s, AsyncCopy)} == {("A", 8), ("B", 16)}
    assert verify(lowered) == []
    assert equivalent(before, lowered, [arguments(16, 16, 64), arguments(33, 48, 80)]) is None


@pytest.mark.parametrize(
    ("first", "second", "fragment"),
    [
        ("f16", "u8", "f16"),
        ("bf16", "i8", "bf16"),
        ("i8", "bf16", "bf16"),
        ("e5m2", "e4m3", "f16"),
        ("i8", "i8", "f16"),
        ("e4m3", "bf16", "bf16"),
    ],
)
def test_the_instruction_is_that_of_the_wider_factor(first: str, second: str, fragment: str) -> None:
    lowered = materialise(applied(product(first, second), "tensorize{loop=k warps=1,1 repeat=1,1}"))
    assert {s.fragment for s in walk(lowered.body) if isinstance(s, Mma)} == {f"m16n8k16_{fragment}"}
    assert verify(lowered) == [] and "mma_m16n8k16" in emit(lowered, "cuda").text


@pytest.mark.parametrize(("index", "shape"), [(ALONG_COLUMNS, "m16n16k32"), (ALONG_TERMS, "m16n8k32")])
@pytest.mark.parametrize("elem", ["e4m3", "e5m2"])
def test_floats_of_8_bits_come_by_matrix_loads_and_are_multiplied_as_halves(elem: str, index: str, shape: str) -> None:
    before = product(elem, elem, index)
    script = TILED.replace("warps=2,1", f"warps=2,1 fragment={shape}_{elem}").replace("vec=8", "vec=16")
    lowered = materialise(applied(before, script.replace("loop=k sizes=32", "loop=k sizes=64")))
    loads = {(s.buffer.name, s.width, s.trans) for s in walk(lowered.body) if isinstance(s, MatrixLoad)}
    assert loads == {("A_s", 16, False), ("B_s", 16, shape == "m16n16k32")} and verify(lowered) == []
    rng = np.random.default_rng(0)
    given = []
    for m, n, k in ((16, 16, 64), (33, 48, 80)):
        a, b = (rng.integers(-8, 8, size).astype(numpy_dtype(elem)) for size in (m * k, k * n))
        given.append({"C": np.zeros(m * n, np.float32), "A": a, "B": b, "M": m, "N": n, "K": k})
    assert equivalent(before, lowered, given) is None
    text = emit(lowered, "cuda").text
    assert f"halves_of_{elem}(x[i]" in text and "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in text


def test_floats_of_8_bits_only_where_pairs_are_converted_at_once() -> None:
    lowered = materialise(applied(product("e4m3", "e4m3"), "tensorize{loop=k warps=1,1 repeat=1,1}"))
    assert {s.fragment for s in walk(lowered.body) if isinstance(s, Mma)} == {"m16n8k32_e4m3"}
    for target in ("cuda-sm89", "cuda-sm90", "cuda-sm120"):
        emit(lowered, target)
    for target in ("cuda-sm80", "cuda-sm86", "hip"):
        with pytest.raises(Exception, match="E-BACKEND-MMA"):
            emit(lowered, target)


@pytest.mark.parametrize(("first", "second"), [("f16", "bf16"), ("f16", "i16"), ("f32", "i8")])
def test_what_would_round_is_refused(first: str, second: str) -> None:
    assert refused(product(first, second), "tensorize{loop=k}").code == "E-TENSOR-TYPE"


def test_warpgroups_convert_nothing() -> None:
    script = "tensorize{loop=k fragment=m64n64k16_f16 warps=1,1 repeat=1,1}"
    assert refused(product("f16", "i8"), script).code == "E-TENSOR-TYPE"


CONVERTED = """\
kernel k(o: f32* restrict, x: NARROW const* restrict)
  launch grid(1) block(256)
  let i: i32 = i32(threadIdx.x)
  o[i] = f32(VALUE)
"""


@pytest.mark.parametrize(
    ("wide", "narrow"), [(w, n) for w, held in HELD.items() for n in sorted(held, key=str)], ids=str
)
def test_every_value_of_a_held_type_is_one_of_the_operand_s(wide: Scalar, narrow: Scalar) -> None:
    """All 256 of them, by the conversions of the interpreter."""
    codes = np.arange(256).astype(np.uint8)
    given = {"o": np.zeros(256, np.float32), "x": codes.view(numpy_dtype(narrow.name))}
    text = CONVERTED.replace("NARROW", str(narrow))
    direct, through = (parse_kernel(text.replace("VALUE", v)) for v in ("x[i]", f"{wide}(x[i])"))
    values = [run(k, dict(given), domain="float").outputs["o"] for k in (direct, through)]
    assert np.array_equal(values[0], values[1], equal_nan=True)
    assert len(set(np.nan_to_num(values[0], nan=-1e9).tolist())) > 240
