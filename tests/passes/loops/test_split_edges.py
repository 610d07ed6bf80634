"""split-edges: tiles that no edge touches in code of their own."""

from __future__ import annotations

import pytest

from ktc.ir.arith.polynomial import Polynomial, plus
from ktc.ir.text import parse_kernel
from ktc.passes.loops import split_edges
from ktc.passes.shared.tile_comparisons import Tile
from tests.passes.checks import applied, body_of, differs, refused

HEAD = "kernel k(y: f32* restrict, x: f32 const* restrict, n: i32 range 1..200, m: i32 range 1..9)\n"
LINE = f"{HEAD}  par q in 0..n @ [thread.x 8, block.x]\n"
TILED = "tile{loops=q sizes=8} | split-edges{loop=q_tile}"
MIRRORED = (
    f"{LINE}    var s: f32 = 0.0\n    for i = -2; i <= 2; i + 1\n      var k: i32 = q + i\n"
    "      if k < 0\n        k = -k\n      if k > n - 1\n        k = n - 1\n"
    "      s += x[k] * f32((k - q) * (k - q))\n    y[q] = s\n"
)
CLAMPED = f"{LINE}    var s: f32 = 0.0\n    for i in -2..3\n      s += x[min(max(q + i, 0), n - 1)]\n    y[q] = s\n"
PADDED = CLAMPED.replace("x[min(max(q + i, 0), n - 1)]", "q + i >= 0 && q + i < n ? x[q + i] : 1.0")
ENDS = f"{LINE}    y[q] = x[q == 0 ? 0 : q - 1] + x[q == n - 1 ? q : q + 1]\n"
INNER = f"{LINE}    if q > 0 && q < n - 1\n      y[q] = x[q - 1] + x[q + 1]\n    else\n      y[q] = 2.0\n"
SIZES = [{"n": n, "m": 4} for n in (1, 3, 8, 23, 40, 61)]


def inside(text: str) -> str:
    """The copy for tiles that no edge touches."""
    first, other, rest = body_of(applied(parse_kernel(text), TILED)).partition("\n    else\n")
    assert other and "par q_1 in q_tile * 8..min(q_tile * 8 + 8, n)" in rest
    return f"{first}\n"


def test_before_and_after() -> None:
    assert (
        inside(MIRRORED)
        == """\
  par q_tile in 0..cdiv(n, 8) @ [block.x]
    if q_tile * 8 - 2 >= 0 && n - 10 - q_tile * 8 >= 0
      par q in q_tile * 8..q_tile * 8 + 8 @ [thread.x 8, seq]
        var s: f32 = 0.0
        for i = -2; i <= 2; i + 1
          var k: i32 = q + i
          s += x[k] * f32(i * i)
        y[q] = s
""".replace("[thread.x 8, seq]", "[thread.x 8, seq]").replace("      else\n", "")
    )


@pytest.mark.parametrize(
    ("text", "has"),
    [
        (CLAMPED, "s += x[q + i]\n"),
        (PADDED, "s += x[q + i]\n"),
        (ENDS, "y[q] = x[q - 1] + x[q + 1]\n"),
        (INNER, "      par q in q_tile * 8..q_tile * 8 + 8 @ [thread.x 8, seq]\n        y[q] = x[q - 1] + x[q + 1]\n"),
    ],
)
def test_what_asks_about_edges_is_decided(text: str, has: str) -> None:
    assert has in inside(text)


@pytest.mark.parametrize("text", [MIRRORED, CLAMPED, PADDED, ENDS, INNER])
def test_meaning_stays(text: str) -> None:
    before = parse_kernel(text)
    assert differs(before, applied(before, TILED), SIZES) is None


def test_planes_and_rows_in_a_thread() -> None:
    text = (
        f"{HEAD}  par p in 0..m @ [thread.y 4, block.y]\n    par q in 0..n @ [thread.x 8, block.x]\n"
        "      var s: f32 = 0.0\n      for i in -1..2\n"
        "        s += x[min(max(p + i, 0), m - 1) * n + min(q + 1, n - 1)]\n"
        "      y[p * n + q] = s\n"
    )
    before = parse_kernel(text)
    script = "tile{loops=p,q sizes=4,8} | distribute{loop=p map=[unroll 2, thread.y 2]} | split-edges{loop=q_tile}"
    done = applied(before, script)
    assert "s += x[(p + i) * n + (q + 1)]" in body_of(done), body_of(done)
    sizes = [{"n": n, "m": m} for n, m in ((1, 1), (8, 9), (25, 9))]
    assert differs(before, done, sizes) is None


TILE_OF_ROWS = (
    f"{HEAD}  par p in 0..m @ [seq]\n    par q in 0..n @ [thread.x 8, block.x]\n      y[p * n + q] = x[p * n + q]\n"
)


def test_tiles_that_are_whole_ask_nothing_either() -> None:
    """No comparison is written, but rows of tiles end where the array does."""
    before = parse_kernel(TILE_OF_ROWS)
    script = "tile{loops=p,q sizes=4,1} | map{p=[unroll 4] q=[seq] q_tile=[thread.x 8, block.x]}"
    done = applied(before, f"{script} | split-edges{{loop=q_tile}}")
    assert "if m - p_tile * 4 - 4 >= 0\n" in body_of(done)
    assert "par p in p_tile * 4..p_tile * 4 + 4 @ [unroll 4]" in body_of(done)
    assert differs(before, done, [{"n": n, "m": m} for n, m in ((1, 1), (8, 9), (25, 4))]) is None


def test_what_only_tiles_inside_do_is_not_in_the_other_copy() -> None:
    """The branch asks for no less than a tile that no edge touches has; where it asks for less, it stays."""
    for asked, copies in (("q - 1 >= 0 && q + 2 <= n", 1), ("q + 2 <= n", 2)):
        before = parse_kernel(
            f"{HEAD}  par q in 0..n @ [thread.x 8, block.x]\n    var a: f32 = 1.0\n    if {asked}\n      a = 3.0\n"
            "    par k in q..q + 1 @ [seq]\n      y[k] = k > 0 && k < n - 1 ? x[k - 1] + a : 2.0\n"
        )
        done = applied(before, "split-edges{loop=q}")
        assert body_of(done).count("= 3.0\n") == copies, body_of(done)
        assert differs(before, done, SIZES) is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("    y[q] = x[q]\n", "E-EDGES-NONE"),
        ("    if x[q] > 0.0\n      y[q] = x[q]\n", "E-EDGES-NONE"),
        ("    if q % 2 == 1\n      y[q] = x[q]\n", "E-EDGES-NONE"),
        ("    var k: i32 = q\n    for i in 0..m\n      k = k + q\n      if k > n - 1\n        k = 0\n    y[q] = x[k]\n",
         "E-EDGES-NONE"),
    ],
)  # fmt: skip
def test_refusals(body: str, code: str) -> None:
    nest = "  par q_tile in 0..n @ [block.x]\n    par q in q_tile..q_tile + 1 @ [thread.x 8, seq]\n"
    kernel = parse_kernel(HEAD + nest + "".join(f"  {line}\n" for line in body.splitlines()))
    assert refused(kernel, "split-edges{loop=q_tile}").code == code


def test_loops_that_are_not_the_blocks() -> None:
    kernel = parse_kernel(MIRRORED)
    assert refused(kernel, "split-edges{loop=q}").code == "E-EDGES-LOOP"
    assert refused(kernel, "split-edges{loop=i}").code == "E-EDGES-LOOP"


BY_FOUR = "tile{loops=q sizes=4} | map{q=[unroll 4] q_tile=[thread.x 8, block.x]} | split-edges{loop=q_tile}"


@pytest.mark.parametrize("text", [MIRRORED, CLAMPED, PADDED, ENDS, INNER])
def test_tiles_of_one_thread(text: str) -> None:
    before = parse_kernel(text)
    done = applied(before, BY_FOUR)
    assert "par q_tile in 0..cdiv(n, 4) @ [thread.x 8, block.x]\n    if " in body_of(done)
    assert differs(before, done, SIZES) is None


def test_tiles_in_which_threads_meet_are_not_split() -> None:
    """Half of a block would wait for the other half."""
    meets = parse_kernel(
        f"{HEAD}  par b in 0..n @ [thread.y 2, block.x]\n    par q in b * 8..b * 8 + 8 @ [thread.x 8]\n"
        "      y[q] = q > 0 ? x[q - 1] : 0.0\n"
    )
    assert refused(meets, "split-edges{loop=b}").code == "E-EDGES-LOOP"


def test_sites() -> None:
    (site,) = split_edges.SplitEdges().sites(applied(parse_kernel(CLAMPED), "tile{loops=q sizes=8}"))
    assert str(site.step) == "split-edges{loop=q_tile}"
    assert split_edges.SplitEdges().sites(parse_kernel(CLAMPED)) == []


def test_an_edge_that_is_forgotten_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Tile._least

    def two_more(self: Tile, p: Polynomial) -> Polynomial | None:
        found = kept(self, p)
        return None if found is None else plus(found, {(): 2})

    monkeypatch.setattr(Tile, "_least", two_more)
    before = parse_kernel(MIRRORED)
    assert differs(before, applied(before, TILED), SIZES) is not None
