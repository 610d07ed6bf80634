"""skip-masked: tiles of which a mask leaves nothing."""

from __future__ import annotations

import pytest

from ktc.ir.arith.polynomial import Polynomial, plus
from ktc.ir.text import parse_kernel
from ktc.passes.loops import skip_masked
from ktc.passes.shared.tile_comparisons import Tile
from tests.passes.checks import applied, body_of, differs, refused

HEAD = "kernel k(o: f32* restrict, p: f32 const* restrict, n: i32 range 1..24, d: i32 range 0..24)\n"
NEST = f"{HEAD}  par y in 0..n @ [thread.y 4, block.y]\n    par x in 0..n @ [thread.x 4, block.x]\n"
SUM = "      var s: f32 = 0.0\n      for c in 0..d\n        s += p[y * d + c] * p[x * d + c]\n"
CAUSAL = f"{NEST}{SUM}      o[y * n + x] = x > y ? -1.0 : s\n"
BELOW = f"{NEST}{SUM}      o[y * n + x] = y >= x ? s : f32(x - y)\n"
BAND = f"{NEST}{SUM}      let last: i32 = y + 2\n      o[y * n + x] = x <= last ? s : 0.0\n"
TILED = "tile{loops=y,x sizes=4,4} | tile{loops=c sizes=4} | register-tile{loop=c_tile}"
LEVELS = " | distribute{loop=y.* map=[thread.y 4]} | distribute{loop=x.* map=[thread.x 4]}"
SKIPPED = f"{TILED}{LEVELS} | skip-masked{{loop=x_tile}}"
SIZES = [{"n": n, "d": d} for n, d in ((1, 2), (4, 0), (9, 3), (24, 5))]


def test_before_and_after() -> None:
    body = body_of(applied(parse_kernel(CAUSAL), SKIPPED))
    assert (
        """\
      if x_tile * 4 - y_tile * 4 - 4 < 0
        for c_tile in 0..d step 4
          par y_1 in"""
        in body
    )
    assert body.count("s[y_1, x_1] += p[") == 1 and body.count("if ") == 1


@pytest.mark.parametrize("text", [CAUSAL, BELOW, BAND])
def test_meaning_stays(text: str) -> None:
    before = parse_kernel(text)
    assert differs(before, applied(before, SKIPPED), SIZES) is None


def test_sums_of_tiles_in_shared_memory() -> None:
    before = parse_kernel(CAUSAL)
    staged = "stage-shared{array=p loop=c_tile} | multi-buffer{loop=c_tile stages=2} | prefetch{loop=c_tile}"
    after = applied(before, f"{TILED}{LEVELS} | {staged} | skip-masked{{loop=x_tile}}")
    assert body_of(after).count("if x_tile * 4 - y_tile * 4 - 4 < 0") == 2
    assert differs(before, after, SIZES) is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (f"{SUM}      o[y * n + x] = s\n", "E-MASKED-NONE"),
        (f"{SUM}      o[y * n + x] = s > 0.0 ? 0.0 : s\n", "E-MASKED-NONE"),
        (f"{SUM}      o[y * n + x] = x > y ? p[0] : s * p[1]\n", "E-MASKED-NONE"),
        (f"{SUM}      o[y * n + x] = x * y > n ? 0.0 : s\n", "E-MASKED-NONE"),
        (f"{SUM}      o[y * n + x] = x > y ? 0.0 : s\n      atomic add o[0], 1.0\n", "E-MASKED-STORES"),
        (f"{SUM}      o[y * n + x] = x > y ? f32(x) : f32(y)\n", "E-MASKED-STORES"),
    ],
)
def test_refusals(body: str, code: str) -> None:
    plain = "tile{loops=y,x sizes=4,4}" if "f32(y)" in body else TILED
    assert refused(applied(parse_kernel(NEST + body), plain).with_(trace=()), "skip-masked{loop=x_tile}").code == code


def test_loops_that_are_not_the_blocks() -> None:
    kernel = applied(parse_kernel(CAUSAL), TILED).with_(trace=())
    assert refused(kernel, "skip-masked{loop=y_tile}").code == "E-MASKED-LOOP"
    assert refused(kernel, "skip-masked{loop=c}").code == "E-MASKED-LOOP"
    assert refused(parse_kernel(CAUSAL), "skip-masked{loop=x}").code == "E-MASKED-LOOP"


def test_sites() -> None:
    (site,) = skip_masked.SkipMasked().sites(applied(parse_kernel(CAUSAL), TILED))
    assert str(site.step) == "skip-masked{loop=x_tile}"


def test_a_tile_on_the_diagonal_that_is_skipped_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Tile._least

    def more(self: Tile, p: Polynomial) -> Polynomial | None:
        found = kept(self, p)
        return None if found is None else plus(found, {(): 4})

    monkeypatch.setattr(Tile, "_least", more)
    before = parse_kernel(CAUSAL)
    assert differs(before, applied(before, SKIPPED), SIZES) is not None
