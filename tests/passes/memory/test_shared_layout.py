"""pad-shared: rows start elsewhere, elements stay what they are."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.ir.fold import evaluate
from ktc.ir.text import parse_kernel
from ktc.passes.memory import pad_shared
from tests.passes.checks import applied, body_of, differs, refused
from tests.passes.tile_sources import GEMM, GEMM_SIZES, STAGED, TRANSPOSE


def test_padding_before_and_after() -> None:
    text = body_of(applied(GEMM, f"{STAGED} | pad-shared{{array=A_s by=$PAD:(0,4)}}".replace("(0,4)", "0,4")))
    assert "array A_s: shared f32[4, 8 + $PAD] align 16" in text and "A_s[A_i % 4, A_i / 4] =" in text


@pytest.mark.parametrize("by", [0, 1, 4])
def test_meaning_stays_with_padding(by: int) -> None:
    k = applied(GEMM, f"{STAGED} | pad-shared{{array=A_s by=$PAD:0,1,4}} | pad-shared{{array=B_s by=$PAD}}")
    assert differs(GEMM, k, GEMM_SIZES, knobs={"PAD": by}) is None


@pytest.mark.parametrize(
    ("source", "script", "code"),
    [
        (None, "pad-shared{array=A}", "E-PAD-ARRAY"),
        (None, "pad-shared{array=acc}", "E-PAD-ARRAY"),
        (None, "pad-shared{array=Q}", "E-PLACE"),
        (
            "kernel k(C: f32* restrict)\n  launch grid(1) block(4)\n  array s: shared f32[4]\n  s[threadIdx.x] = 0.0\n",
            "pad-shared{array=s}",
            "E-PAD-ROWS",
        ),
    ],
)
def test_refusals(source: str | None, script: str, code: str) -> None:
    kernel = parse_kernel(source) if source else applied(GEMM, STAGED)
    assert refused(kernel, script).code == code


COPIED = "tile{loops=k sizes=8} | register-tile{loop=k_tile} | stage-shared{array=B loop=k_tile vec=4}"


def test_rows_start_where_asynchronous_vectors_may() -> None:
    """cp.async moves 16 bytes to a multiple of 16 bytes, whichever pass comes first."""
    tiled = "tile{loops=row,col sizes=16,16} | distribute{loop=row map=[seq]} | distribute{loop=col map=[seq]}"
    staged = f"{tiled} | {COPIED}"
    pads = ("pad-shared{array=B_s by=1}", "pad-shared{array=B_s by=4}", "pad-shared{array=B_s by=$PAD}")
    for odd, even, open_ in (
        tuple(f"{staged} | async-copy{{loop=k_tile}} | {p}" for p in pads),
        tuple(f"{staged} | {p} | async-copy{{loop=k_tile}}" for p in pads),
    ):
        assert refused(GEMM, odd).code in ("E-PAD-ALIGN", "E-ASYNC-ALIGN")
        assert applied(GEMM, even)
        (fits,) = applied(GEMM, open_).constraints[-1:]
        assert [evaluate(fits, {"PAD": n}) for n in (0, 1, 2, 4, 8)] == [1, 0, 0, 1, 1]


def test_padding_that_only_writers_see_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that moves with the padding for some accesses only."""
    right = pad_shared.with_array

    def wrong(kernel, old, new):
        from ktc.ir.fold import add, i32
        from ktc.ir.nodes import Store
        from ktc.ir.walk import map_body

        def on(s):
            moved = isinstance(s, Store) and s.buffer == new
            return dataclasses.replace(s, index=(*s.index[:-1], add(s.index[-1], i32(1)))) if moved else s

        k = right(kernel, old, new)
        return k.with_(body=map_body(k.body, on))

    monkeypatch.setattr(pad_shared, "with_array", wrong)
    turned = "tile{loops=row,col sizes=8,8} | stage-shared{array=in loop=col_tile} | pad-shared{array=in_s by=1}"
    assert differs(TRANSPOSE, applied(TRANSPOSE, turned), [{"rows": 8, "cols": 8}]) is not None


def test_all_tiles_of_an_array_are_padded_by_their_stem() -> None:
    """Two rows of one buffer that nobody knows the distance of: a tile each."""
    k = parse_kernel("""\
kernel k(out: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..64, m: i32 range 1..64)
  launch grid(n) block(64)
  par y in 0..n @ [block.x]
    for c in 0..2
      par i in 0..64 @ [thread.x 64]
        var s: f32 = 0.0
        for j in 0..4
          s += x[j * 64 + i] * x[m + j * 128 + i]
        out[(y * 2 + c) * 64 + i] = s
""")
    after = applied(k, "stage-shared{array=x loop=c} | pad-shared{array=x_s.* by=4}")
    assert body_of(after).count("shared f32[4, 68]") == 2
    assert differs(k, after, [{"n": 2, "m": m} for m in (1, 5)], 3000) is None
