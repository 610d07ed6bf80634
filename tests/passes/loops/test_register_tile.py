# ruff: noqa: E501
"""register-tile: values that live across a serial loop, kept by the threads that own them."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.loops import register_tile
from tests.passes.checks import applied, body_of, differs, refused
from tests.passes.tile_sources import GEMM, GEMM_ODD, GEMM_SIZES, REGISTERS, SIMPLE


def test_before_and_after() -> None:
    k = applied(GEMM, f"{SIMPLE} | register-tile{{loop=k_tile}}")
    assert (
        body_of(k).split(")\n", 1)[1]
        == """\
  par row_tile in 0..cdiv(M, 4) @ [block.y]
    par col_tile in 0..cdiv(N, 8) @ [block.x]
      array acc: f32[4, 8]
      par row in 0..4 @ [thread.y 2, unroll 2]
        par col in 0..8 @ [thread.x 4, unroll 2]
          acc[row, col] = 0.0
      for k_tile in 0..K step 4
        par row_1 in 0..min(4, M - row_tile * 4) @ [thread.y 2, unroll 2]
          par col_1 in 0..min(8, N - col_tile * 8) @ [thread.x 4, unroll 2]
            for k in k_tile..min(k_tile + 4, K)
              acc[row_1, col_1] += A[(row_tile * 4 + row_1) * K + k] * B[k * N + (col_tile * 8 + col_1)]
      par row_2 in 0..min(4, M - row_tile * 4) @ [thread.y 2, unroll 2]
        par col_2 in 0..min(8, N - col_tile * 8) @ [thread.x 4, unroll 2]
          C[(row_tile * 4 + row_2) * N + (col_tile * 8 + col_2)] = acc[row_2, col_2] + C[(row_tile * 4 + row_2) * N + (col_tile * 8 + col_2)]
"""
    )


@pytest.mark.parametrize("domain_sizes", [GEMM_SIZES])
def test_meaning_stays_on_awkward_sizes(domain_sizes: list) -> None:
    assert differs(GEMM, applied(GEMM, REGISTERS), domain_sizes) is None


def test_meaning_stays_without_vectors() -> None:
    assert differs(GEMM, applied(GEMM, f"{SIMPLE} | register-tile{{loop=k_tile}}"), GEMM_ODD) is None


def test_index_constants_are_computed_again() -> None:
    source = parse_kernel("""\
kernel k(C: f32* restrict, A: f32 const* restrict, M: i32, K: i32)
  par t in 0..cdiv(M, 8) @ [block.x]
    par row in t * 8..min(t * 8 + 8, M) @ [thread.x 4, unroll 2]
      let at: i32 = row * K
      var low: f32 = 100.0
      var high: f32 = A[at]
      for k in 0..K
        low = min(low, A[at + k])
        high = max(high, A[at + k])
      C[row] = low - high
""")
    k = applied(source, "register-tile{loop=k}")
    assert "array low: f32[8]" in body_of(k) and "array high: f32[8]" in body_of(k) and "at:" not in body_of(k)
    assert differs(source, k, [{"M": m, "K": n} for m, n in ((1, 1), (7, 3), (8, 5), (9, 2))]) is None


BLOCKS = "kernel k(C: f32* restrict, M: i32, K: i32)\n  par t in 0..cdiv(M, 8) @ [block.x]\n"
ROWS = BLOCKS + "    par row in t * 8..min(t * 8 + 8, M) @ [thread.x 8]\n"


@pytest.mark.parametrize(
    ("source", "script", "code"),
    [
        (None, "register-tile{loop=k}", "E-RTILE-BLOCK"),
        (None, "tile{loops=row sizes=8} | register-tile{loop=row}", "E-RTILE-SERIAL"),
        (ROWS + "      for k in 0..row\n        C[row] = C[row] + 1.0\n", "register-tile{loop=k}", "E-RTILE-BOUNDS"),
        (ROWS + "      for k in 0..K\n        if C[row] > 3.0\n          break\n", "register-tile{loop=k}", "E-TILE-BREAK"),
        (BLOCKS + "    for k in 0..K\n      C[t] = 1.0\n", "register-tile{loop=k}", "E-RTILE-BAND"),
        (
            "kernel k(C: f32* restrict, M: i32, K: i32)\n  par row in 0..M @ [thread.x, seq]\n    for k in 0..K\n"
            "      C[row] = 1.0\n".replace("thread.x, seq", "thread.x 8, seq"),
            "register-tile{loop=k}",
            "E-RTILE-EXTENT",
        ),
        (
            ROWS + "      array x: f32[K]\n      x[0] = 0.0\n      for k in 0..K\n        x[0] += 1.0\n      C[row] = x[0]\n",
            "register-tile{loop=k}",
            "E-RTILE-VALUE",
        ),
        (
            ROWS + "      array x: f32[2] align 8\n      x[0] = 0.0\n      x[1] = 0.0\n      for k in 0..K\n"
            "        x[0 +: 2] = x[0 +: 2]\n      C[row] = x[0]\n",
            "register-tile{loop=k}",
            "E-RTILE-VALUE",
        ),
    ],
)  # fmt: skip
def test_refusals(source: str | None, script: str, code: str) -> None:
    assert refused(parse_kernel(source) if source else GEMM, script).code == code


def test_a_value_that_is_not_kept_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """One element for the whole tile instead of one an iteration."""
    whole = register_tile._piece

    def wrong(band, body, tiles):
        from ktc.ir.nodes import Load, Store, i32
        from ktc.ir.walk import map_body

        arrays = set(tiles.values())

        def on(s):
            return (
                register_tile.dataclasses.replace(s, index=(i32(0), i32(0)))
                if isinstance(s, Store) and s.buffer in arrays
                else s
            )

        def read(e):
            return Load(e.buffer, (i32(0), i32(0))) if isinstance(e, Load) and e.buffer in arrays else e

        return map_body(whole(band, body, tiles), on, read)

    monkeypatch.setattr(register_tile, "_piece", wrong)
    assert differs(GEMM, applied(GEMM, f"{SIMPLE} | register-tile{{loop=k_tile}}"), GEMM_ODD, lower=False) is not None


def test_a_tile_of_those_that_a_thread_walks() -> None:
    """Each has registers of its own: how many of them there are need not be known."""
    source = parse_kernel("""\
kernel k(C: f32* restrict, A: f32 const* restrict, M: i32, K: i32)
  par t in 0..cdiv(M, 8) @ [block.x]
    par part in 0..cdiv(min(8, M - t * 8), 4) @ [seq]
      par row in part * 4..min(part * 4 + 4, min(8, M - t * 8)) @ [seq]
        var s: f32 = 0.0
        for k in 0..K
          s += A[(t * 8 + row) * K + k]
        C[t * 8 + row] = s
""")
    k = applied(source, "register-tile{loop=k}")
    assert "part in 0..cdiv(min(8, M - t * 8), 4) @ [seq]\n      array s: f32[4]\n" in body_of(k)
    assert differs(source, k, [{"M": m, "K": 5} for m in (1, 4, 7, 8, 13)], lower=False) is None


LISTS = """\
kernel k(C: f32* restrict, A: f32 const* restrict, M: i32, K: i32)
  par t in 0..cdiv(M, 8) @ [block.x]
    par row in t * 8..min(t * 8 + 8, M) @ [thread.x 4, unroll 2]
      array least: f32[3]
      for j in 0..3
        least[j] = 100.0
      for k in 0..K
        var at: i32 = 2
        if A[row * K + k] < least[2]
          while at > 0 && A[row * K + k] < least[at - 1]
            least[at] = least[at - 1]
            at -= 1
          least[at] = A[row * K + k]
      C[row] = least[0] + least[1] * least[2]
"""


def test_a_private_array_is_kept_for_each_iteration() -> None:
    """The three least of each row, in order: where the next one goes depends on data."""
    source = parse_kernel(LISTS)
    k = applied(source, "register-tile{loop=k}")
    assert "array least: f32[8, 3]" in body_of(k)
    assert differs(source, k, [{"M": m, "K": n} for m, n in ((1, 1), (7, 3), (8, 5), (9, 2))]) is None


def test_an_array_that_all_iterations_share_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = register_tile._piece

    def wrong(band, body, tiles):
        from ktc.ir.nodes import Load, Store, i32
        from ktc.ir.walk import map_body

        arrays = set(tiles.values())

        def first(x):
            return register_tile.dataclasses.replace(x, index=(i32(0), *x.index[1:]))

        return map_body(
            whole(band, body, tiles),
            lambda s: first(s) if isinstance(s, Store) and s.buffer in arrays else s,
            lambda e: first(e) if isinstance(e, Load) and e.buffer in arrays else e,
        )

    monkeypatch.setattr(register_tile, "_piece", wrong)
    source = parse_kernel(LISTS)
    k = applied(source, "register-tile{loop=k}")
    assert differs(source, k, [{"M": 7, "K": 3}], lower=False) is not None
