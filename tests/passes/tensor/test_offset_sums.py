# ruff: noqa: E501
"""offset-sums: products of bytes less zero points, in both layouts, on awkward sizes; refusals; a wrong version."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ktc.ir.interp import equivalent, run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Mma, Store, TileMma
from ktc.ir.text import parse_kernel
from ktc.ir.verifier import verify
from ktc.ir.walk import map_body, walk
from ktc.passes.lowering import LoweringError, materialise
from tests.passes.checks import applied, body_of, refused

TEXT = """\
kernel gemm(C: i32* restrict align 16, A: u8 const* restrict align 16, B: u8 const* restrict align 16, za: i32, zb: i32 const* restrict, M: i32, N: i32, K: i32)
  assume K % 16 == 0
  assume N % 16 == 0
  par row in 0..M @ [thread.y 16, block.y]
    par col in 0..N @ [thread.x 16, block.x]
      var acc: i32 = 5
      for k in 0..K
        acc += FIRST * SECOND
      C[row * N + col] = acc
"""
FIRST, SECOND, SECOND_ALONG = "i32(A[row * K + k])", "i32(B[k * N + col])", "i32(B[col * K + k])"
LESS = f"({FIRST} - za)"
TILED = (
    "tile{loops=row,col sizes=32,32} | tile{loops=k sizes=64 tail=cut} | register-tile{loop=k_tile.*}"
    " | tensorize{loop=k.* warps=2,1 pairs=yes FRAGMENT} | stage-shared{array=A loop=k_tile.* vec=16}"
    " | stage-shared{array=B loop=k_tile.* vec=16} | async-copy{loop=k_tile} | multi-buffer{loop=k_tile stages=2}"
    " | swizzle-shared{array=A_s} | swizzle-shared{array=B_s}"
)
SUMS = " | offset-sums{loop=k.*}"
SIZES = ((16, 16, 64), (33, 48, 144))


def product(first: str, second: str) -> Kernel:
    return parse_kernel(TEXT.replace("FIRST", first).replace("SECOND", second))


def script(second: str) -> str:
    return TILED.replace("FRAGMENT", f"fragment={'m16n8k32' if 'col * K' in second else 'm16n16k32'}_u8")


def differ(before: Kernel, after: Kernel) -> object:
    rng = np.random.default_rng(0)
    given = []
    for m, n, k in SIZES:
        a, b = (rng.integers(0, 256, size).astype(np.uint8) for size in (m * k, k * n))
        zb = rng.integers(-300, 300, n).astype(np.int32)
        given.append({"C": np.zeros(m * n, np.int32), "A": a, "B": b, "za": 113, "zb": zb, "M": m, "N": n, "K": k})
    return equivalent(before, after, given)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (LESS, f"({SECOND} - 7)"),
        (LESS, f"({SECOND_ALONG} + 128)"),
        (FIRST, f"({SECOND} - za)"),
        (LESS, SECOND_ALONG),
        (LESS, f"({SECOND} - zb[col])"),
    ],
)
def test_products_of_bytes_less_an_offset(first: str, second: str) -> None:
    before = product(first, second)
    lowered = materialise(applied(before, script(second) + SUMS))
    assert any(isinstance(s, Mma) for s in walk(lowered.body)) and verify(lowered) == []
    assert differ(before, lowered) is None


def test_only_the_sums_that_an_offset_needs() -> None:
    one = body_of(applied(product(LESS, SECOND), script(SECOND) + SUMS))
    assert "B_s_part" in one and "A_s_part" not in one
    both = body_of(applied(product(LESS, f"({SECOND} - 7)"), script(SECOND) + SUMS))
    assert "B_s_part" in both and "A_s_part" in both


def test_without_it_lowering_names_it() -> None:
    with pytest.raises(LoweringError, match="E-LOWER-MMA") as e:
        materialise(applied(product(LESS, SECOND), script(SECOND)))
    assert "offset-sums" in str(e.value.hint)


@pytest.mark.parametrize(
    ("first", "steps", "code"),
    [
        (FIRST, SUMS, "E-OFFSET-NONE"),
        (LESS, "", "E-OFFSET-FORM"),
    ],
)
def test_refusals(first: str, steps: str, code: str) -> None:
    given = script(SECOND) + SUMS if steps else "tensorize{loop=k warps=1,1 repeat=1,1} | offset-sums{loop=k}"
    assert refused(product(first, SECOND), given).code == code


def test_an_offset_that_changes_from_term_to_term_is_none() -> None:
    assert refused(product(f"({FIRST} - k)", SECOND), "tensorize{loop=k}").code == "E-TENSOR-TYPE"


def test_a_sum_that_is_taken_from_the_wrong_offset_is_caught() -> None:
    before = product(LESS, f"({SECOND} - 7)")
    kernel = applied(before, script(SECOND) + SUMS)

    def wrong(s):
        if isinstance(s, Store) and s.buffer.name == "acc" and isinstance(s.value, Binary) and s.value.op == "+":
            return dataclasses.replace(s, value=s.value.a)
        return s

    broken = kernel.with_(body=map_body(kernel.body, wrong))
    assert broken.body != kernel.body and differ(before, materialise(broken)) is not None


BY_WARPGROUPS = (
    "divisible-by{K=128} | tile{loops=row,col sizes=64,64} | tile{loops=k sizes=128 tail=exact}"
    " | register-tile{loop=k_tile} | tensorize{loop=k fragment=m64n64k32_u8 warps=1,1 pairs=yes}"
    " | stage-shared{array=A loop=k_tile vec=16} | stage-shared{array=B loop=k_tile vec=16} | async-copy{loop=k_tile}"
    " | multi-buffer{loop=k_tile COPIED} | swizzle-shared{array=A_s} | swizzle-shared{array=B_s}"
    " | offset-sums{loop=k}"
)


@pytest.mark.parametrize("copied", ["stages=3 by=producer", "stages=3 slack=1"])
def test_beside_the_products_of_warpgroups(copied: str) -> None:
    before = product(LESS, f"({SECOND_ALONG} + 128)")
    lowered = materialise(applied(before, BY_WARPGROUPS.replace("COPIED", copied)))
    assert any(isinstance(s, TileMma) for s in walk(lowered.body)) and verify(lowered) == []
    rng = np.random.default_rng(0)
    m, n, k = 70, 80, 384
    a, b = (rng.integers(0, 256, size).astype(np.uint8) for size in (m * k, k * n))
    given = {"C": np.zeros(m * n, np.int32), "A": a, "B": b, "za": 113, "zb": np.zeros(n, np.int32), "M": m, "N": n}
    assert equivalent(before, lowered, [given | {"K": k}]) is None
    assert run(lowered, given | {"K": k}).findings == []
