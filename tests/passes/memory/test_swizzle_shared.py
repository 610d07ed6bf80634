# ruff: noqa: E501
"""swizzle-shared: the permuted accesses, their meaning, vectors that stay whole, refusals, a wrong version."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.backends import emit
from ktc.ir.nodes import Store
from ktc.ir.text import parse_kernel
from ktc.ir.verifier import verify
from ktc.ir.walk import map_body
from ktc.passes.core.pipeline import sites
from ktc.passes.lowering import materialise
from ktc.passes.memory import swizzle_shared
from tests.passes.checks import applied, body_of, differs, refused

TRANSPOSE = parse_kernel("""\
kernel t(out: f32* restrict align 16, in: f32 const* restrict align 16, n: i32, m: i32)
  par bi in 0..cdiv(n, 32) @ [block.y]
    par bj in 0..cdiv(m, 32) @ [block.x]
      array tile: shared f32[32, 32] align 16
      par i in 0..32 @ [thread.y 8, unroll 4]
        par j in 0..32 @ [thread.x 32]
          tile[i, j] = bi * 32 + i < n && bj * 32 + j < m ? in[(bi * 32 + i) * m + bj * 32 + j] : 0.0
      par j in 0..32 @ [thread.y 8, unroll 4]
        par i in 0..32 @ [thread.x 32]
          if bi * 32 + i < n && bj * 32 + j < m
            out[(bj * 32 + j) * n + bi * 32 + i] = tile[i, j]
""")
SIZES = [{"n": n, "m": m} for n, m in ((1, 1), (7, 5), (16, 17), (23, 19))]


def test_before_and_after() -> None:
    k = applied(TRANSPOSE, "swizzle-shared{array=tile unit=1}")
    assert "tile[i, j ^ i % 32] = " in body_of(k)
    assert "= tile[i_1, j_1 ^ i_1 % 32]" in body_of(k)
    k = applied(TRANSPOSE, "swizzle-shared{array=tile}")
    assert "tile[i, j ^ i % 8 * 4] = " in body_of(k)


@pytest.mark.parametrize("unit", ["unit=1", "unit=2", ""])
def test_meaning_stays(unit: str) -> None:
    assert differs(TRANSPOSE, applied(TRANSPOSE, f"swizzle-shared{{array=tile {unit}}}"), SIZES) is None


COPY = parse_kernel("""\
kernel c(out: f16* restrict align 16, in: f16 const* restrict align 16)
  par b in 0..2 @ [block.x]
    array tile: shared f16[16, 32] align 16
    par i in 0..16 @ [thread.y 16]
      par c in 0..4 @ [thread.x 4]
        par v in 0..8 @ [vec 8]
          tile[i, c * 8 + v] = in[b * 512 + i * 32 + c * 8 + v]
    par i in 0..16 @ [thread.y 16]
      par c in 0..4 @ [thread.x 4]
        par v in 0..8 @ [vec 8]
          out[b * 512 + i * 32 + c * 8 + v] = tile[15 - i, c * 8 + v]
""")


def test_short_rows_share_a_line_and_vectors_stay_whole() -> None:
    k = applied(COPY, "swizzle-shared{array=tile}")
    assert "c * 8 + v ^ i / 2 % 4 * 8]" in body_of(k)
    assert differs(COPY, k, [{}], elements=1024) is None
    text = emit(materialise(k), "cuda").text
    assert text.count("store_vec(&tile[") == 1 and text.count("load_vec<8>(&tile[") == 1


HEAD = "kernel k(out: f32* restrict, n: i32)\n  par b in 0..n @ [block.x]\n"


@pytest.mark.parametrize(
    ("body", "script", "code"),
    [
        ("    array a: shared f32[32]\n    out[b] = a[0]\n", "swizzle-shared{array=a}", "E-SWIZZLE-SHAPE"),
        ("    array a: shared f32[8, 12]\n    out[b] = a[0, 0]\n", "swizzle-shared{array=a}", "E-SWIZZLE-SHAPE"),
        ("    array a: shared f32[8, n]\n    out[b] = a[0, 0]\n", "swizzle-shared{array=a}", "E-SWIZZLE-SHAPE"),
        ("    array a: f32[8, 32]\n    out[b] = a[0, 0]\n", "swizzle-shared{array=a}", "E-SWIZZLE-ARRAY"),
        ("    out[b] = 0.0\n", "swizzle-shared{array=out}", "E-SWIZZLE-ARRAY"),
        ("    array a: shared f32[8, 32]\n    out[b] = a[0, 0]\n", "swizzle-shared{array=a unit=3}", "E-SWIZZLE-UNIT"),
        (
            "    array a: shared f32[8, 32]\n    let v: f32x4 = a[0, 0 +: 4]\n    out[b] = v[0]\n",
            "swizzle-shared{array=a unit=2}",
            "E-SWIZZLE-UNIT",
        ),
        ("    array a: shared f32[8, 32]\n    out[b] = f(&a[0, 0]) -> f32\n", "swizzle-shared{array=a}", "E-SWIZZLE-OPAQUE"),
        ("    out[b] = 0.0\n", "swizzle-shared{array=q}", "E-PLACE"),
    ],
)  # fmt: skip
def test_refusals(body: str, script: str, code: str) -> None:
    assert refused(parse_kernel(HEAD + body), script).code == code


def test_a_wrong_version_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Permuting what is written and not what is read."""

    def written(kernel, old, new, index):
        def on(s):
            return dataclasses.replace(s, index=index(s.index)) if isinstance(s, Store) and s.buffer == old else s

        return kernel.with_(body=map_body(kernel.body, on))

    monkeypatch.setattr(swizzle_shared, "with_array", written)
    assert differs(TRANSPOSE, applied(TRANSPOSE, "swizzle-shared{array=tile}"), SIZES) is not None


def test_indices_of_another_type_are_counted_in_ours() -> None:
    """Thread indices are unsigned in source form."""
    kernel = parse_kernel("""\
kernel t(out: f32* restrict, in: f32 const* restrict)
  launch grid(1) block(32, 8)
  array tile: shared f32[8, 32]
  tile[threadIdx.y, threadIdx.x] = in[threadIdx.y * 32_u32 + threadIdx.x]
  barrier
  out[threadIdx.x * 8_u32 + threadIdx.y] = tile[threadIdx.y, threadIdx.x]
""")
    for script in ("swizzle-shared{array=tile}", "panel-shared{array=tile width=16}"):
        after = applied(kernel, script)
        assert verify(after) == [] and differs(kernel, after, [{}]) is None


def test_tiles_of_vectors_are_no_sites() -> None:
    kernel = parse_kernel("""\
kernel t(out: f32x4* restrict, in: f32x4 const* restrict)
  launch grid(1) block(32, 8)
  array tile: shared f32x4[8, 32]
  tile[threadIdx.y, threadIdx.x] = in[threadIdx.y * 32_u32 + threadIdx.x]
  barrier
  out[threadIdx.x * 8_u32 + threadIdx.y] = tile[threadIdx.y, threadIdx.x]
""")
    of_tiles = ("swizzle-shared", "pad-shared", "panel-shared")
    assert all(not sites(kernel)[name] for name in of_tiles)
    for name in ("swizzle-shared{array=tile}", "pad-shared{array=tile by=1}", "panel-shared{array=tile width=16}"):
        assert "holds vectors" in refused(kernel, name).why
