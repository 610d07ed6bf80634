"""Products of tiles whose second factor runs along k (``x @ w.T``), and in bf16: layouts, meaning, wrong versions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.interp import equivalent, run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import BulkCopy, Stmt, Store, TileMma, i32
from ktc.ir.producer_launch import tensor_maps
from ktc.ir.text import canonical, parse_kernel, print_kernel
from ktc.ir.verifier import verify
from ktc.ir.walk import map_body, walk
from ktc.passes.lowering import LoweringError, materialise
from tests.passes.checks import applied
from tests.passes.tensor.test_tensorize import GEMM, arguments
from tests.passes.tensor.test_tensorize_warpgroup import PIPELINE

PLAIN = print_kernel(GEMM).replace("C: f32*", "C: f16*").replace("= acc * 0.5", "= f16(acc * 0.5)")
ALONG_K = parse_kernel(PLAIN.replace("B[k * N + col]", "B[col * K + k]"))
SWIZZLE = " | swizzle-shared{array=A_s} | swizzle-shared{array=B_s}"
PRODUCED = (
    (PIPELINE % (128, 2)).replace("stages=2", "stages=3 by=producer") + " | stage-store{array=C over=B_s}" + SWIZZLE
)


def halves(m: int, n: int, k: int) -> dict:
    return arguments(m, n, k) | {"C": np.zeros(m * n, np.float16)}


def lowered(script: str) -> Kernel:
    return materialise(applied(ALONG_K, script))


@pytest.mark.parametrize("script", [PIPELINE % (64, 1) + SWIZZLE, PRODUCED], ids=["copies by threads", "by a producer"])
def test_meaning(script: str) -> None:
    k = lowered(script)
    assert verify(k) == [] and canonical(parse_kernel(print_kernel(k))) == canonical(k)
    assert equivalent(ALONG_K, k, [halves(72, 136, 64), halves(64, 64, 192), halves(64, 64, 0)]) is None
    assert run(k, halves(64, 128, 128)).findings == []


def test_the_second_tile_lies_as_the_first() -> None:
    k = lowered(PRODUCED)
    (tile,) = [s for s in walk(k.body) if isinstance(s, TileMma)]
    assert tile.trans and len(tile.b_index) == 3 and " trans depth 64" in print_kernel(k)
    assert [(s.dst.name, s.rows) for s in walk(k.body) if isinstance(s, BulkCopy)] == [("A_s", 64), ("B_s", 128)]
    assert [m.rows for m in tensor_maps(k)] == [64, 128]
    text = emit(k, "cuda-sm90").text
    assert "mma_m64n64k16_f16<64, 0, " in text and "const int next = Panel ? 128 : 2;" in text


def test_results_take_the_lines_of_shorter_rows_in_panels() -> None:
    k = lowered(PRODUCED)
    stores = [s for s in walk(k.body) if isinstance(s, Store) and s.buffer.name in ("B_s", "C")]
    assert [(s.buffer.name, str(getattr(s.width, "value", s.width))) for s in stores] == [("B_s", "2"), ("C", "8")]
    text = emit(k, "cuda-sm90").text
    assert "threadIdx.x1" not in text and "% 64" not in text[text.index("store_vec(&B_s[") :]


def test_panels_of_a_second_factor_along_k_are_refused() -> None:
    script = (PIPELINE % (64, 1)) + " | panel-shared{array=B_s}" + SWIZZLE
    with pytest.raises(LoweringError, match="E-LOWER-MMA"):
        lowered(script)
    with pytest.raises(LoweringError, match="E-LOWER-MMA"):
        lowered(PIPELINE % (64, 1) + " | swizzle-shared{array=A_s}")


def _other_way(s: Stmt) -> Stmt:
    return dataclasses.replace(s, trans=False) if isinstance(s, TileMma) else s


def _other_columns(s: Stmt) -> Stmt:
    return dataclasses.replace(s, b_index=(s.b_index[0], i32(0), s.b_index[2])) if isinstance(s, TileMma) else s


@pytest.mark.parametrize("wrong", [_other_way, _other_columns])
def test_wrong_versions_are_caught(wrong) -> None:
    k = lowered(PRODUCED)
    changed = k.with_(body=map_body(k.body, wrong))
    assert changed != k
    assert verify(changed) != [] or equivalent(ALONG_K, changed, [halves(64, 128, 64)]) is not None


@pytest.mark.parametrize("along", [False, True])
def test_brain_floats(along: bool) -> None:
    source = (print_kernel(ALONG_K) if along else PLAIN).replace("f16", "bf16")
    script = PRODUCED if along else PRODUCED.replace(SWIZZLE, " | panel-shared{array=B_s}" + SWIZZLE)
    k = materialise(applied(parse_kernel(source), script.replace("k16_f16", "k16_bf16")))
    text = emit(k, "cuda-sm90").text
    assert verify(k) == [] and "m64n64k16.f32.bf16.bf16" in text and "store_vec(&B_s[" in text
