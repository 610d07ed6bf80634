# ruff: noqa: E501
"""rfactor: parts of a sum as tasks, what it refuses, and the stages by which such kernels are checked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ktc.driver.printing import printed
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import equivalent, run
from ktc.ir.kernel import bind
from ktc.ir.nodes import Barrier, Store
from ktc.ir.text import parse_kernel
from ktc.ir.types import I64
from ktc.ir.walk import map_body, walk
from ktc.passes.lowering import materialise
from ktc.passes.reductions import rfactor
from ktc.search.verification.integers.ranges import wraps
from tests.passes.checks import applied, arguments, body_of, differs, refused

COLUMNS = parse_kernel("""\
kernel columns(out: f32* restrict align 16, x: f32 const* restrict align 16, n: i32, d: i32)
  par j in 0..d @ [thread.x 8, block.x]
    let scale: f32 = 2.0
    var s: f32 = 3.0
    for i in 0..n
      s += scale * x[i * d + j]
    out[j] = s
""")
DOT = parse_kernel("""\
kernel dot(out: f32* restrict, x: f32 const* restrict align 16, n: i32)
  par b in 0..cdiv(n, 32) @ [block.x]
    reduce(+) s: f32 = 0.0 over t in 0..32 @ [thread.x 32]
      let i: i32 = b * 32 + t
      yield i < n ? x[i] : 0.0
    atomic add out[0], s
""")
PLANE = parse_kernel("""\
kernel plane(out: f32* restrict, x: f32 const* restrict, n: i32, d: i32)
  par q in 0..2 @ [block.y]
    par j in 1..d @ [thread.x 4, block.x]
      reduce(max) m: f32 = -8.0, (+) s: f32 = 1.0 over i in 2..n @ [seq]
        yield x[(i * 2 + q) * d + j], x[i * d + j]
      out[q * d + j] = m + s
""")
SIZES = [{"n": n, "d": d} for n, d in ((1, 1), (3, 7), (13, 8), (12, 9), (40, 14))]


def test_each_part_is_summed_in_the_order_of_the_source() -> None:
    assert (
        body_of(applied(COLUMNS, "rfactor{loop=i parts=$P:4,8}"))
        == """\
  knob $P in {4, 8} default 8 owner "rfactor" doc "parts of the loop, each a task"
  flags reassociates
  array s_parts: f32[$P, d]
  par part in 0..$P @ [block.y]
    par j in 0..d @ [thread.x 8, block.x]
      let scale: f32 = 2.0
      var s: f32 = 0.0
      for i in part * cdiv(n, $P)..min(part * cdiv(n, $P) + cdiv(n, $P), n)
        s += scale * x[i * d + j]
      s_parts[part, j] = s
  par j_1 in 0..d @ [thread.x 8, block.x]
    let scale_1: f32 = 2.0
    reduce(+) s_1: f32 = 3.0 over part_1 in 0..$P @ [seq]
      yield s_parts[part_1, j_1]
    out[j_1] = s_1
"""
    )


def test_more_elements_than_an_int_counts_are_checked_as_a_cpu_indexes_them() -> None:
    """2^17 rows of 2^15 parts: the texts for CPUs have a dimension each, or 64 bits."""
    wide = COLUMNS.with_(
        params=tuple(replace(p, range=(1, 1 << 17)) if p.sym.name == "d" else p for p in COLUMNS.params)
    )
    lowered = materialise(bind(applied(wide, "rfactor{loop=i parts=32768}"), {}))
    parts = lowered.params[-1]
    assert parts.scratch is not None and parts.scratch.type == I64
    names = {"d": (1, 1 << 17), "n": (1, 1 << 10)}
    assert not [w for w in wraps(lowered, names) if isinstance(w.stmt, Store) and w.stmt.buffer == parts.sym]


@pytest.mark.parametrize("parts", [1, 3, 8])
@pytest.mark.parametrize(("kernel", "loop"), [(COLUMNS, "i"), (PLANE, "i")])
def test_columns_on_awkward_sizes(kernel, loop: str, parts: int) -> None:
    assert differs(kernel, applied(kernel, f"rfactor{{loop={loop} parts={parts}}}"), SIZES) is None


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_a_sum_of_everything(parts: int) -> None:
    k = applied(DOT, f"rfactor{{loop=t parts={parts}}}")
    assert differs(DOT, k, [{"n": n} for n in (1, 31, 32, 33, 509)]) is None


def test_rows_outermost_and_columns_innermost() -> None:
    """The schedule that this is for: each task walks over its rows, with the sums of a tile of columns beside it."""
    tile = "tile{loops=j sizes=4} | map{j=[seq] j_1=[seq 4, block.x]} | register-tile{loop=i}"
    k = applied(COLUMNS, f"rfactor{{loop=i parts=3}} | {tile}")
    assert differs(COLUMNS, k, SIZES) is None
    text = printed(k, "numba").text
    assert text.count("in prange(") == 2
    assert "in range(min(4, d - j_tile * 4)):" in text and "for i in range(part * " in text


def test_stages_are_apart_by_a_barrier_of_the_grid() -> None:
    k = materialise(bind(applied(COLUMNS, "rfactor{loop=i parts=3}"), {}))
    args = arguments(COLUMNS, 600, n=40, d=14)
    assert not run(k, args).findings
    without = k.with_(body=map_body(k.body, lambda s: None if isinstance(s, Barrier) else s))
    assert "race" in {f.kind for f in run(without, args).findings}
    assert sum(isinstance(s, Barrier) and s.scope == "grid" for s in walk(k.body)) == 1


def test_no_gpu_gets_a_barrier_that_its_source_lacks() -> None:
    k = applied(COLUMNS, "rfactor{loop=i parts=3}")
    for target in ("cuda", "hip", "opencl"):
        with pytest.raises(KtcError, match="waits for all of the one before it") as e:
            printed(k, target)
        assert e.value.code == "E-LOWER-BLOCKS"


HEAD = "kernel k(out: f32* restrict, x: f32 const* restrict, n: i32)\n"
SUM = "    var s: f32 = 0.0\n    for i in 0..n\n      s += x[i]\n    out[j] = s\n"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (f"  par j in 0..n @ [block.x]\n    out[j] = 1.0\n{SUM}", "E-RFACTOR-BEFORE"),
        (f"  for j in 0..n\n{SUM}", "E-RFACTOR-PLACE"),
        (
            "  par j in 0..n @ [block.x]\n    par q in 0..j @ [thread.x 32, seq]\n"
            + SUM.replace("    ", "      ").replace("[j]", "[j * n + q]"),
            "E-RFACTOR-RANGE",
        ),
        ("  par j in 0..n @ [block.x, block.y 2, block.z 2]\n" + SUM, "E-RFACTOR-AXIS"),
        ("  par j in 0..n @ [block.x]\n    for i in 0..n\n      out[j * n + i] = x[i]\n", "E-SPLIT-NONE"),
        (
            "  par j in 0..n @ [block.x]\n    reduce(max) m: f32 = -inf, (at) i_best: i32 = 2147483647 over i in 0..n @ [seq]\n"
            "      yield x[i], i\n    out[j] = f32(i_best)\n",
            "E-RFACTOR-OP",
        ),
    ],
)
def test_refusals(body: str, code: str) -> None:
    assert refused(parse_kernel(HEAD + body), "rfactor{loop=i parts=2}").code == code


def test_thread_code_is_refused() -> None:
    spmd = parse_kernel(HEAD + "  launch grid(1) block(32)\n  out[threadIdx.x] = x[threadIdx.x]\n")
    assert refused(spmd, "rfactor{loop=i parts=2}").code == "E-RFACTOR-PLACE"


def test_a_start_value_that_every_part_begins_with_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong version in which each part starts from what the sum starts from."""
    monkeypatch.setattr(
        rfactor,
        "identity",
        lambda op, t: next(s.init for s in COLUMNS.body[0].body if hasattr(s, "sym") and s.sym.name == "s"),
    )
    wrong = applied(COLUMNS, "rfactor{loop=i parts=2}")
    assert differs(COLUMNS, wrong, [{"n": 5, "d": 8}]) is not None


def test_a_lost_tail_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong version whose parts are rounded down."""
    from ktc.ir.fold import binary

    monkeypatch.setattr(rfactor, "cdiv", lambda a, b: binary("/", a, b))
    wrong = applied(COLUMNS, "rfactor{loop=i parts=2}")
    assert differs(COLUMNS, wrong, [{"n": 5, "d": 8}]) is not None


def test_the_same_bits_on_every_call() -> None:
    from ktc.backends.runtimes.cpu_runtime import CpuRuntime

    runtime = CpuRuntime()
    exe = runtime.compile(printed(applied(COLUMNS, "rfactor{loop=i parts=8}"), "numba"))
    x = np.random.default_rng(0).standard_normal(1000 * 7).astype(np.float32)
    results = []
    for _ in range(5):
        out = np.zeros(7, np.float32)
        exe.launch({"out": out, "x": x, "n": 1000, "d": 7})
        results.append(out.tobytes())
    assert len(set(results)) == 1


IN_PLACE = parse_kernel("""\
kernel scaled(x: f32* restrict align 16, d: i32, host n: i32)
  par row in 0..n @ [block.x]
    reduce(+) sum: f32 = 0.0 over i in 0..d @ [thread.x 32, seq]
      yield x[row * d + i]
    par i in 0..d @ [thread.x 32, seq]
      let a: f32 = x[row * d + i]
      x[row * d + i] = a * sum
""")


def test_what_follows_the_sums_is_done_once() -> None:
    """Blocks of other parts would read the row that the first one's blocks are writing."""
    lowered = materialise(bind(applied(IN_PLACE, "rfactor{loop=i parts=4}"), {}))
    assert equivalent(IN_PLACE, lowered, [arguments(IN_PLACE, 600, n=3, d=48)], ("int",)) is None
