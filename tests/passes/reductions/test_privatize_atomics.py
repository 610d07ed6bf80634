"""privatize-atomics: counts in shared memory first, in several copies."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.lowering import materialise
from ktc.passes.reductions import privatize_atomics
from tests.passes.checks import applied, body_of, differs, refused

TILES = parse_kernel("""\
kernel histogram(count: u32* restrict, x: u32 const* restrict, n: i32)
  par t in 0..cdiv(n, 100) @ [block.x]
    par i in t * 100..min(t * 100 + 100, n) @ [thread.x 32, seq]
      atomic add count[x[i] & 15_u32], 1_u32
""")
LARGEST = parse_kernel("""\
kernel largest(best: i32* restrict, x: i32 const* restrict, n: i32)
  par t in 0..cdiv(n, 64) @ [block.x]
    par i in t * 64..min(t * 64 + 64, n) @ [thread.x 32, seq]
      if x[i] > -7
        atomic max best[(x[i] + 8) / 4], x[i]
""")
SIZES = [{"n": n} for n in (1, 31, 32, 63, 100, 101, 257)]


def test_before_and_after() -> None:
    assert (
        body_of(applied(TILES, "privatize-atomics{array=count bins=8 copies=2}"))
        == """\
  par t in 0..cdiv(n, 100) @ [block.x]
    array count_own: shared u32[8, 2]
    par k in 0..16 @ [thread.x 32, seq]
      count_own[k / 2, k % 2] = 0_u32
    par i in t * 100..min(t * 100 + 100, n) @ [thread.x 32, seq]
      if (x[i] & 15_u32) < 8_u32
        atomic add count_own[(x[i] & 15_u32) as i32, i as.static u32 % 2_u32], 1_u32
      else
        atomic add count[x[i] & 15_u32], 1_u32
    # The block's counts, once.
    par k_1 in 0..8 @ [thread.x 32, seq]
      var total: u32 = 0_u32
      for c in 0..2
        total += count_own[k_1, (k_1 + c) % 2]
      if total != 0_u32
        atomic add count[k_1], total
"""
    )


@pytest.mark.parametrize("bins", [1, 8, 16, 40])
@pytest.mark.parametrize("copies", [1, 2, 32])
def test_any_number_of_bins_is_right(bins: int, copies: int) -> None:
    k = applied(TILES, f"privatize-atomics{{array=count bins={bins} copies={copies}}}")
    assert differs(TILES, k, SIZES) is None


def test_other_operations_and_guards() -> None:
    k = applied(LARGEST, "privatize-atomics{array=best bins=4 copies=$C:1,4}")
    assert differs(LARGEST, k, SIZES, knobs={"C": 4}) is None


def test_a_byte_needs_no_guard_for_256_bins_and_loads_stay_wide() -> None:
    from ktc.backends import emit

    flat = parse_kernel("""\
kernel histogram(count: u32* restrict, x: u8 const* restrict align 16, n: i32)
  par i in 0..n @ [thread.x 64, block.x]
    atomic add count[x[i] as i32], 1_u32
""")
    k = applied(
        flat,
        "tile{loops=i sizes=4096} | distribute{loop=i map=[vec 16, thread.x 64, seq]}"
        " | privatize-atomics{array=count bins=256 copies=4}",
    )
    assert "if " not in body_of(k).partition("# The block's")[0]
    assert "load_vec<16>(&x[i])" in emit(materialise(k), "cuda").text


HEAD = "kernel k(c: u32* restrict, x: u32 const* restrict, n: i32)\n"
NEST = "  par t in 0..n @ [block.x]\n    par i in 0..n @ [thread.x 32, seq]\n"


@pytest.mark.parametrize(
    ("body", "script", "code"),
    [
        (NEST + "      atomic exch c[x[i]], 1_u32\n", "privatize-atomics{array=c bins=4}", "E-PRIVATIZE-USED"),
        (NEST + "      atomic add c[x[i] + c[0]], 1_u32\n", "privatize-atomics{array=c bins=4}", "E-PRIVATIZE-READ"),
        (NEST + "      c[i] = 1_u32\n", "privatize-atomics{array=c bins=4}", "E-PRIVATIZE-NONE"),
        (
            "  par i in 0..n @ [thread.x 32, block.x]\n    atomic add c[x[i]], 1_u32\n",
            "privatize-atomics{array=c bins=4}",
            "E-PRIVATIZE-PLACE",
        ),
        (NEST + "      atomic add c[x[i]], 1_u32\n", "privatize-atomics{array=c bins=0}", "E-ARG-RANGE"),
        (NEST + "      atomic add c[x[i]], 1_u32\n", "privatize-atomics{array=c bins=$B}", "E-ARG-TYPE"),
    ],
)
def test_refusals(body: str, script: str, code: str) -> None:
    assert refused(parse_kernel(HEAD + body), script).code == code


def test_a_missing_guard_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privatize_atomics, "most_of", lambda index: 0)
    wrong = applied(TILES, "privatize-atomics{array=count bins=8 copies=1}")
    assert differs(TILES, wrong, [{"n": 100}]) is not None


def test_counts_that_are_not_cleared_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from ktc.ir.nodes import Const

    monkeypatch.setattr(privatize_atomics, "identity", lambda op, t: Const(1, t))
    wrong = applied(TILES, "privatize-atomics{array=count bins=16 copies=1}")
    assert differs(TILES, wrong, [{"n": 100}]) is not None


def test_a_maximum_that_compares_floats() -> None:
    most = parse_kernel("""\
kernel most(best: f32* restrict, x: f32 const* restrict, n: i32)
  par t in 0..cdiv(n, 64) @ [block.x]
    par i in t * 64..min(t * 64 + 64, n) @ [thread.x 32, seq]
      atomic gt best[i % 4], x[i]
""")
    done = applied(most, "privatize-atomics{array=best bins=4 copies=2}")
    assert "best_own[k / 2, k % 2] = -inf" in body_of(done)
    assert "atomic gt best_own[i % 4" in body_of(done) and "atomic gt best[k_1], total" in body_of(done)
    assert differs(most, done, SIZES) is None
