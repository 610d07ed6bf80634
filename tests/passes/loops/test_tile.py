# ruff: noqa: E501
"""tile on serial loops and on bands of parallel loops."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.loops import tile
from tests.passes.checks import applied, body_of, differs, refused

GEMM = parse_kernel("""\
kernel gemm(C: f32* restrict, A: f32 const* restrict, B: f32 const* restrict, M: i32, N: i32, K: i32)
  par row in 0..M @ [thread.y 2, block.y]
    par col in 0..N @ [thread.x 4, block.x]
      var acc: f32 = 0.0
      for k in 0..K
        acc += A[row * K + k] * B[k * N + col]
      C[row * N + col] = acc
""")

SIZES = [{"M": m, "N": n, "K": k} for m, n, k in ((1, 1, 1), (7, 5, 3), (8, 8, 4), (9, 9, 5), (13, 11, 17))]


def test_before_and_after_on_a_band() -> None:
    k = applied(GEMM, "tile{loops=row,col sizes=$TM:4,8,$TN:4,8}".replace("$TM:4,8,", "$TM:(4,8),"))
    assert (
        body_of(k)
        == """\
  knob $TM in {4, 8} default 8 owner "tile" doc "iterations of a tile"
  knob $TN in {4, 8} default 8 owner "tile" doc "iterations of a tile"
  par row_tile in 0..cdiv(M, $TM) @ [block.y]
    par col_tile in 0..cdiv(N, $TN) @ [block.x]
      par row in row_tile * $TM..min(row_tile * $TM + $TM, M) @ [thread.y 2, seq]
        par col in col_tile * $TN..min(col_tile * $TN + $TN, N) @ [thread.x 4, seq]
          var acc: f32 = 0.0
          for k in 0..K
            acc += A[row * K + k] * B[k * N + col]
          C[row * N + col] = acc
"""
    )


def test_before_and_after_on_a_serial_loop() -> None:
    k = parse_kernel("kernel k(out: f32*, n: i64)\n  for i: i64 in 1_i64..n step 3_i64\n    out[i] = 0.0\n")
    assert (
        body_of(applied(k, "tile{loops=i sizes=$T}"))
        == """\
  knob $T in {4, 8, 16, 32, 64, 128, 256} default 32 owner "tile" doc "iterations of a tile"
  for i_tile: i64 in 1_i64..n step 3_i64 * $T
    for i: i64 in i_tile..min(i_tile + 3_i64 * $T, n) step 3_i64
      out[i] = 0.0
"""
    )


@pytest.mark.parametrize("knobs", [{"TM": 4, "TN": 8, "TK": 4}, {"TM": 8, "TN": 4, "TK": 16}])
def test_meaning_stays_on_awkward_sizes(knobs: dict[str, int]) -> None:
    k = applied(GEMM, "tile{loops=row,col sizes=$TM,$TN} | tile{loops=k sizes=$TK}")
    assert differs(GEMM, k, SIZES, knobs=knobs) is None


def test_strided_and_offset_loops() -> None:
    k = parse_kernel("""\
kernel k(out: f32* restrict, n: i32)
  launch grid(1) block(1)
  for i in 2..n step 3
    if i == 8
      continue
    out[i] = i
""")
    t = applied(k, "tile{loops=i sizes=2}")
    assert differs(k, t, [{"n": n} for n in (0, 1, 2, 3, 5, 6, 9, 20)], lower=False) is None


BODY = "kernel k(out: f32*, n: i32)\n  launch grid(1) block(1)\n"


@pytest.mark.parametrize(
    ("body", "script", "code"),
    [
        ("  for i in 0..n\n    if out[i] > 0.0\n      break\n", "tile{loops=i sizes=4}", "E-TILE-BREAK"),
        ("  for i = n; i > 0; i - 1\n    out[i] = 0.0\n", "tile{loops=i sizes=4}", "E-TILE-FORM"),
        ("  for i in 0..n step 0\n    out[i] = 0.0\n", "tile{loops=i sizes=4}", "E-TILE-FORM"),
        ("  for i in 0..n\n    i = i + 1\n", "tile{loops=i sizes=4}", "E-TILE-FORM"),
        ("  var m: i32 = n\n  for i in 0..m\n    m -= 1\n", "tile{loops=i sizes=4}", "E-TILE-FORM"),
        ("  par i in 0..n\n    par j in 0..i\n      out[i] = 0.0\n", "tile{loops=i,j sizes=4,4}", "E-TILE-BOUNDS"),
        ("  par i in 0..n\n    out[0] = 0.0\n    par j in 0..n\n      out[i] = 0.0\n", "tile{loops=i,j sizes=4,4}", "E-TILE-BAND"),
        ("  for i in 0..n\n    for j in 0..n\n      out[i] = 0.0\n", "tile{loops=i,j sizes=4,4}", "E-TILE-BAND"),
        ("  reduce(+) s: f32 = 0.0 over i in 0..n\n    yield out[i]\n", "tile{loops=i sizes=4}", "E-TILE-REDUCE"),
        ("  for i in 0..n\n    out[i] = 0.0\n", "tile{loops=i sizes=4,4}", "E-TILE-SIZES"),
        ("  for i in 0..n\n    out[i] = 0.0\n", "tile{loops=i sizes=0}", "E-TILE-SIZES"),
        ("  for i in 0..n\n    out[i] = 0.0\n", "tile{loops=q sizes=4}", "E-PLACE"),
    ],
)  # fmt: skip
def test_refusals(body: str, script: str, code: str) -> None:
    assert refused(parse_kernel(BODY + body), script).code == code


def test_a_thread_level_that_took_the_whole_range_takes_the_tile() -> None:
    k = applied(GEMM, "distribute{loop=col map=[vec 2, thread.x]} | tile{loops=col sizes=$T:8,16}")
    assert "@ [vec 2, thread.x cdiv($T, 2), seq]" in body_of(k)
    fits = [{"M": m, "N": 14, "K": 3} for m in (1, 5)]
    assert differs(GEMM, k, fits, knobs={"T": 8}) is None


def test_wrong_versions_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgetting the tail; and moving the thread level out instead of the block level."""
    from ktc.ir.fold import fold_node

    monkeypatch.setattr(tile, "fold_node", lambda e: e.args[0] if getattr(e, "fn", "") == "min" else fold_node(e))
    assert differs(GEMM, applied(GEMM, "tile{loops=row,col sizes=4,4}"), SIZES) is not None


def test_a_tile_that_ignores_breaks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    k = parse_kernel(BODY + "  for i in 0..n\n    if i == 5\n      break\n    out[i] = 1.0\n")
    monkeypatch.setattr(tile, "_breaks", lambda body: False)
    wrong = applied(k, "tile{loops=i sizes=4}")
    assert differs(k, wrong, [{"n": 12}], lower=False) is not None


@pytest.mark.parametrize(("step", "tiled"), [("1", "4"), ("3", "12")])
def test_a_loop_up_to_and_with_its_limit(step: str, tiled: str) -> None:
    head = "kernel k(out: i32*, n: i32)\n  par z in 0..1 @ [block.x]\n"
    k = parse_kernel(f"{head}    for i = 1; i <= n; i + {step}\n      out[i] = out[i] + i\n")
    done = applied(k, "tile{loops=i sizes=4}")
    assert f"for i_tile in 1..n + 1 step {tiled}\n" in body_of(done)
    assert differs(k, done, [{"n": n} for n in (0, 1, 4, 5, 23)]) is None


def test_an_unsigned_counter_may_pass_every_limit() -> None:
    k = parse_kernel("kernel k(out: i32*, n: u32)\n  for i: u32 = 1_u32; i <= n; i + 1_u32\n    out[i] = 0\n")
    assert refused(k, "tile{loops=i sizes=4}").code == "E-TILE-FORM"


def test_threads_take_a_tile_of_a_loop_of_64_bits() -> None:
    k = parse_kernel("kernel k(out: i32*, n: u64)\n  par i: u64 in 0_u64..n @ [thread.x 64, block.x]\n    out[i] = 1\n")
    done = applied(k, "tile{loops=i sizes=$R:(32,64)} | distribute{loop=i map=[thread.x $R:(32,64)]}")
    assert differs(k, done, [{"n": n} for n in (1, 32, 33, 100)], knobs={"R": 32}) is None


BY_GROUPS = """\
kernel k(out: f32* restrict, x: f32 const* restrict, scale: f32 const* restrict, n: i32 divisible_by 16)
  launch grid(1) block(1)
  for c in 0..n step 2
    out[c] = x[c] * scale[c / 16] + x[c + 1] * scale[(c + 1) / 16] + scale[c / 8] + scale[c % 16]
"""


def test_the_group_of_a_value_is_that_of_its_tile() -> None:
    k = parse_kernel(BY_GROUPS)
    tiled = applied(k, "tile{loops=c sizes=8 tail=exact}")
    assert "x[c] * scale[c_tile / 16] + x[c + 1] * scale[(c + 1) / 16] + scale[c / 8] + scale[c % 16]" in body_of(tiled)
    assert differs(k, tiled, [{"n": n} for n in (16, 48)]) is None


@pytest.mark.parametrize("size", [5, 16])
def test_groups_that_tiles_do_not_divide_are_those_of_each_value(size: int) -> None:
    tiled = applied(parse_kernel(BY_GROUPS), f"tile{{loops=c sizes={size}}}")
    assert "scale[c / 16]" in body_of(tiled) and "c_tile /" not in body_of(tiled)


def test_names_between_the_loops_of_a_band_go_inside() -> None:
    k = parse_kernel("""\
kernel k(y: f32* noalias, x: f32 const* noalias, n: i32, m: i32)
  launch grid(1) block(1)
  par i in 0..n @ [seq]
    let half: i32 = i / 2
    par j in 0..m @ [seq]
      y[i * m + j] = x[half * 8 + j]
""")
    after = applied(k, "tile{loops=i,j sizes=4,2}")
    assert body_of(after).splitlines()[-2:] == [
        "          let half: i32 = i / 2",
        "          y[i * m + j] = x[half * 8 + j]",
    ]
    assert differs(k, after, [{"n": n, "m": m} for n, m in ((1, 1), (4, 2), (9, 5))]) is None
    text = "    let half: i32 = i / 2\n    par j in 0..m"
    bound = parse_kernel(print_kernel(k).replace(text, text.replace("0..m", "0..half + 1")))
    assert refused(bound, "tile{loops=i,j sizes=4,2}").code == "E-TILE-BOUNDS"
