"""scan: running values by the threads of a block."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.lowering import materialise
from ktc.passes.lowering.collectives import scans
from tests.passes.checks import applied, body_of, differs, refused

ROWS = parse_kernel("""\
kernel cumsum(out: f32* restrict align 16, x: f32 const* restrict align 16, rows: i32, cols: i32)
  par r in 0..rows @ [block.x]
    var sum: f32 = 0.0
    for i in 0..cols
      sum += x[r * cols + i]
      out[r * cols + i] = sum
""")
BEFORE = parse_kernel("""\
kernel offsets(out: i32* restrict, x: i32 const* restrict, total: i32* restrict, n: i32)
  par r in 0..1 @ [block.x]
    var sum: i32 = 5
    for i in 0..n
      let a: i32 = x[i] * 2
      out[i] = sum - a
      sum += a
    total[r] = sum
""")
LARGEST = parse_kernel("""\
kernel running(x: i32*, n: i32)
  par r in 0..1 @ [block.x]
    var top: i32 = -1000
    for i in 0..n
      top = max(top, x[i])
      x[i] = top
""")
SIZES = [{"rows": r, "cols": c} for r, c in ((1, 1), (2, 31), (3, 32), (1, 127), (2, 128), (2, 129), (1, 521))]
LENGTHS = [{"n": n} for n in (0, 1, 31, 64, 127, 257)]


def test_before_and_after() -> None:
    assert (
        body_of(applied(ROWS, "scan{loop=i map=[vec 4, thread.x 64, unroll 2, seq]}"))
        == """\
  assume cols % 4 == 0 origin guessed
  flags reassociates
  par r in 0..rows @ [block.x]
    scan(+) sum: f32 = 0.0 over i in 0..cols @ [vec 4, thread.x 64, unroll 2, seq]
      yield x[r * cols + i]
      out[r * cols + i] = sum
"""
    )


def test_exclusive_and_total() -> None:
    k = applied(BEFORE, "scan{loop=i map=[thread.x 32, seq]}")
    assert (
        body_of(k)
        == """\
  par r in 0..1 @ [block.x]
    var sum: i32 = 5
    exscan(+) sum_1: i32 = sum over i in 0..n @ [thread.x 32, seq]
      let a: i32 = x[i] * 2
      yield a
      out[i] = sum_1 - a
    sum = sum_1
    total[r] = sum
"""
    )
    assert print_kernel(parse_kernel(print_kernel(k))) == print_kernel(k)


@pytest.mark.parametrize("levels", ["thread.x 32, seq", "vec 4, thread.x 32, seq", "vec 2, thread.x 64, unroll 3, seq"])
@pytest.mark.parametrize("strategy", ["", " strategy shared"])
def test_lowered_scans_compute_what_the_loop_did(levels: str, strategy: str) -> None:
    for source, sizes in ((ROWS, SIZES), (BEFORE, LENGTHS), (LARGEST, LENGTHS)):
        k = applied(source, f"scan{{loop=i map=[{levels}]}}")
        text = print_kernel(k)
        head = next(line for line in text.splitlines() if "scan(" in line and "@" in line and "trace" not in line)
        k = parse_kernel(text.replace(head, head + strategy))
        fits = [s for s in sizes if "vec" not in levels or s.get("cols", s.get("n", 0)) % 4 == 0]
        assert differs(source, k, fits) is None


TILED = [
    "tile{loops=i sizes=4} | scan{loop=i map=[thread.x 32, seq]}",
    "tile{loops=i sizes=40} | scan{loop=i map=[thread.x 32, unroll 2, seq]} | tile{loops=i_tile sizes=2}",
    "tile{loops=i sizes=64} | tile{loops=i_tile sizes=2} | scan{loop=i map=[thread.x 32, seq]}",
]


@pytest.mark.parametrize("script", TILED)
@pytest.mark.parametrize(("source", "sizes"), [(ROWS, SIZES), (BEFORE, LENGTHS), (LARGEST, LENGTHS)])
def test_a_loop_around_it_goes_on_from_the_total(source: Kernel, sizes: list[dict[str, int]], script: str) -> None:
    """A tile started from zero where nothing but the scan itself named the running value."""
    assert differs(source, applied(source, script), sizes) is None


def test_whole_vectors_are_loaded_and_stored_at_once() -> None:
    from ktc.backends import emit

    k = applied(ROWS, "scan{loop=i map=[vec 4, thread.x 256, unroll 2, seq]}")
    text = emit(materialise(k), "cuda").text
    assert "load_vec<4>(&x[" in text and "store_vec(&out[" in text
    assert text.count("__syncthreads()") == 2


HEAD = "kernel k(o: f32* restrict, x: f32 const* restrict, n: i32)\n  par r in 0..n @ [{levels}]\n"
LOOP = "    var s: f32 = 0.0\n    for i in 0..n\n"
PLAIN = "      s += x[i]\n      o[r * n + i] = s\n"


@pytest.mark.parametrize(
    ("levels", "body", "script", "code"),
    [
        ("block.x", PLAIN, "scan{loop=j}", "E-PLACE"),
        ("block.x", "      o[r * n + i] = x[i]\n", "scan{loop=i}", "E-SCAN-NONE"),
        ("block.x", "      s += x[i]\n    o[r] = s\n", "scan{loop=i}", "E-SCAN-NONE"),
        ("block.x", "      s = s * 2.0 + x[i]\n      o[r * n + i] = s\n", "scan{loop=i}", "E-SCAN-NONE"),
        (
            "block.x",
            "      let a: f32 = s\n      s += x[i]\n      o[r * n + i] = s + a\n",
            "scan{loop=i}",
            "E-SCAN-ORDER",
        ),
        ("block.x", "      s += x[i]\n      o[r] = s\n", "scan{loop=i}", "E-SCAN-WRITES"),
        ("block.x", "      s += o[r * n + i + 1]\n      o[r * n + i] = s\n", "scan{loop=i}", "E-SCAN-WRITES"),
        ("block.x", PLAIN, "scan{loop=i map=[thread.x 48, seq]}", "E-SCAN-MAP"),
        ("block.x", PLAIN, "scan{loop=i map=[unroll 2, thread.x 32, seq]}", "E-SCAN-MAP"),
        ("block.x", PLAIN, "scan{loop=i map=[thread.x 32, unroll 4]}", "E-SCAN-MAP"),
        ("thread.x 32, block.x", PLAIN, "scan{loop=i}", "E-SCAN-PLACE"),
    ],
)
def test_refusals(levels: str, body: str, script: str, code: str) -> None:
    assert refused(parse_kernel(HEAD.format(levels=levels) + LOOP + body), script).code == code


def spread_out(distance: str) -> Kernel:
    """Running values that are stored ``distance`` apart."""
    head = f"kernel k(o: f32* restrict, x: f32 const* restrict, n: i32, m: {distance})\n  par r in 0..1 @ [block.x]\n"
    return parse_kernel(f"{head}{LOOP}      s += x[i]\n      o[i * m] = s\n")


def test_values_that_may_all_go_to_one_element_stay_in_order() -> None:
    """Where the distance is 0 the last one is left."""
    for unknown in ("i32", "i32 range 0..8"):
        found = refused(spread_out(unknown), "scan{loop=i}")
        assert found.code == "E-SCAN-WRITES" and "'m' is not known to differ from 0" in found.why
    for known in ("i32 range 1..8", "i32 range -3..-1"):
        k = spread_out(known)
        m = 2 if "8" in known else -1
        assert differs(k, applied(k, "scan{loop=i map=[thread.x 64, seq]}"), [{"n": 1, "m": m}]) is None


def test_a_warp_that_forgets_the_warps_before_it_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans.Tiles, "from_warps", lambda self: ())
    assert differs(ROWS, applied(ROWS, "scan{loop=i map=[thread.x 64, seq]}"), [{"rows": 1, "cols": 64}]) is not None


RAISED = """\
kernel running(y: f32* restrict align 16, x: f32 const* restrict align 16, rows: i32, cols: i32)
  par r in 0..rows @ [block.x]
    scan(+) s: f32 = 0.0 over i in 0..cols @ [thread.x 256, seq]
      yield x[r * cols + i]
      y[r * cols + i] = s
"""


@pytest.mark.parametrize(
    "script",
    [
        "scan{loop=i map=[vec 4, thread.x 64, unroll 2, seq]}",
        "distribute{loop=r map=[block.y]} | scan{loop=i map=[vec 4, thread.x 32, unroll 1, block.x 2, seq]}",
    ],
)
def test_a_scan_is_spread_anew(script: str) -> None:
    kernel = parse_kernel(RAISED)
    again = applied(kernel, script)
    assert script.split("map=")[-1].removesuffix("}") in print_kernel(again)
    sizes = [{"rows": r, "cols": c} for r, c in ((1, 4), (3, 128), (2, 132), (1, 600))]
    assert differs(kernel, again, sizes, 4100) is None


def test_a_scan_whose_total_is_used_stays_in_one_block() -> None:
    kernel = parse_kernel(f"{RAISED}    y[r] = s\n")
    why = refused(kernel, "distribute{loop=r map=[block.y]} | scan{loop=i map=[thread.x 32, block.x 2, seq]}")
    assert why.code == "E-SCAN-BLOCKS"


def test_a_running_value_that_is_named_before_it_is_handed_on() -> None:
    kernel = parse_kernel("""\
kernel prefix(y: f32* restrict align 16, x: f32 const* restrict align 16, n: i32)
  par b in 0..1 @ [block.x]
    y[0] = x[0]
    for i in 1..n
      y[i] = y[i - 1] + x[i]
""")
    after = applied(kernel, "forward-stores{loop=i} | scan{loop=i map=[thread.x 32, seq]}")
    assert "over i in 1..n" in body_of(after)
    assert differs(kernel, after, LENGTHS, 300) is None


@pytest.mark.parametrize(
    "body",
    [
        "      let next: f32 = s + x[i]\n      out[r * n + i] = next + s\n      s = next\n",
        "      var next: f32 = s + x[i]\n      next = next * 2.0\n      out[r * n + i] = next\n      s = next\n",
        "      let next: f32 = s + x[i]\n      out[r * n + i] = next\n      s = next\n      s = s * 2.0\n",
    ],
)
def test_a_name_for_something_else_is_no_running_value(body: str) -> None:
    head = "kernel k(out: f32* restrict, x: f32 const* restrict, n: i32)\n  par r in 0..2 @ [block.x]\n"
    kernel = parse_kernel(f"{head}    var s: f32 = 0.0\n    for i in 0..n\n{body}")
    assert refused(kernel, "scan{loop=i map=[thread.x 32, seq]}").code == "E-SCAN-NONE"
