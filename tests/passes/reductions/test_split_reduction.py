# ruff: noqa: E501
"""split-reduction: one sum over threads and blocks, and what combines its parts."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.kernel import bind
from ktc.ir.nodes import Barrier, Fence, Par, Reduce
from ktc.ir.text import canonical, parse_kernel, print_kernel
from ktc.ir.walk import map_body, walk
from ktc.passes.lowering import materialise
from ktc.passes.reductions import split_reduction
from tests.passes.checks import applied, arguments, body_of, differs, refused

COLUMNS = parse_kernel("""\
kernel columns(out: f32* restrict align 16, x: f32 const* restrict align 16, n: i32, d: i32)
  par j in 0..d @ [thread.x 8, block.x]
    var s: f32 = 2.0
    for i in 0..n
      s += x[i * d + j]
    out[j] = s * 2.0
""")
BLOCKS = parse_kernel("""\
kernel sum(out: f32* restrict, x: f32 const* restrict align 16, n: i32)
  par b in 0..cdiv(n, 32) @ [block.x]
    reduce(+) s: f32 = 0.0 over t in 0..32 @ [thread.x 32]
      let i: i32 = b * 32 + t
      yield i < n ? x[i] : 0.0
    atomic add out[0], s
""")
WALK_TEXT = """\
kernel sum(out: i32* restrict, x: i32 const* restrict align 16, n: i32)
  par b in 0..cdiv(n, 256) @ [block.x]
    reduce(max) m: i32 = -2147483648 over t in 0..32 @ [thread.x 32]
      var best: i32 = -2147483648
      for i = b * 32 + t; i < n; i + 32 * cdiv(n, 256)
        best = max(best, x[i])
      yield best
    atomic max out[0], m
"""
WALK = parse_kernel(WALK_TEXT)
COLUMN_SIZES = [{"n": n, "d": d} for n, d in ((1, 1), (3, 7), (13, 8), (12, 9), (40, 14))]
SIZES = [{"n": n} for n in (1, 31, 32, 33, 128, 509)]


def test_a_serial_sum_over_threads_and_blocks() -> None:
    assert (
        body_of(applied(COLUMNS, "split-reduction{loop=i map=[thread.y 4, block.y $P:2,3, seq]}"))
        == """\
  knob $P in {2, 3} default 3 owner "split-reduction" doc "blocks of the grid on this axis"
  flags reassociates
  par j in 0..d @ [thread.x 8, block.x]
    reduce(+) s: f32 = 2.0 over i in 0..n @ [thread.y 4, block.y $P, seq]
      yield x[i * d + j]
    out[j] = s * 2.0
"""
    )


@pytest.mark.parametrize(("kernel", "value"), [(BLOCKS, "x[i]"), (WALK, "x[i]")])
def test_a_sum_a_block_is_seen_as_one_sum(kernel, value: str) -> None:
    text = body_of(applied(kernel, "split-reduction{loop=t map=[vec 4, thread.x 32, block.x 2, seq]}"))
    assert "over i in 0..n @ [vec 4, thread.x 32, block.x 2, seq]" in text
    assert f"yield {value}\n" in text
    assert "par" not in text


def test_a_walk_that_doubles_its_index_is_no_grid_stride() -> None:
    doubling = parse_kernel(WALK_TEXT.replace("; i + 32 *", "; i * 2 + 32 *"))
    assert "over t in 0..32" in body_of(applied(doubling, "split-reduction{loop=t map=[thread.x 32]}"))


@pytest.mark.parametrize("levels", ["thread.y 4, block.y 3, seq", "thread.y 3, seq", "unroll 2, block.y 2, seq", "block.z 1, seq"])  # fmt: skip
@pytest.mark.parametrize("columns", ["thread.x 8, block.x", "vec 2, thread.x 4, block.x", "thread.x 4, unroll 2, block.x"])  # fmt: skip
def test_columns_on_awkward_sizes(levels: str, columns: str) -> None:
    k = applied(COLUMNS, f"distribute{{loop=j map=[{columns}]}} | split-reduction{{loop=i map=[{levels}]}}")
    sizes = [s for s in COLUMN_SIZES if "vec" not in columns or s["d"] % 2 == 0]
    assert differs(COLUMNS, k, sizes) is None


@pytest.mark.parametrize("levels", ["thread.x 32, block.x 3, seq", "thread.x 64, unroll 2, block.x 2, seq", "thread.x 32, seq"])  # fmt: skip
def test_whole_sums_on_awkward_sizes(levels: str) -> None:
    for kernel in (BLOCKS, WALK):
        assert differs(kernel, applied(kernel, f"split-reduction{{loop=t map=[{levels}]}}"), SIZES) is None


def test_parts_go_by_atomics_or_by_the_last_block() -> None:
    split = "split-reduction{loop=t map=[thread.x 32, block.x 3, seq]}"
    for script in (f"{split} | reduce-strategy{{loop=i strategy=atomic}}", split):
        atomic = materialise(applied(BLOCKS if "atomic" in script else WALK, script))
        assert not any(p.scratch for p in atomic.params)
    floats = materialise(applied(BLOCKS, split))  # the order of blocks would show
    assert any(p.scratch for p in floats.params)
    ticket = materialise(applied(COLUMNS, "split-reduction{loop=i map=[thread.y 2, block.y 3, seq]}"))
    assert [p.sym.name for p in ticket.params if p.scratch is not None] == ["s_parts", "tickets"]
    assert canonical(parse_kernel(print_kernel(ticket))) == canonical(ticket)


def test_every_barrier_and_fence_of_the_ticket_is_needed() -> None:
    ticket = materialise(bind(applied(COLUMNS, "split-reduction{loop=i map=[thread.y 4, block.y 3, seq]}"), {}))
    args = arguments(COLUMNS, 600, n=40, d=14)
    assert not run(ticket, args).findings
    count = sum(isinstance(s, Barrier | Fence) for s in walk(ticket.body))
    assert count >= 5
    for drop in range(count):
        seen = iter(range(count))
        body = map_body(ticket.body, lambda s: None if isinstance(s, Barrier | Fence) and next(seen) == drop else s)  # noqa: B023
        found = run(ticket.with_(body=body), args).findings
        assert found, f"number {drop} can go"


def test_the_ticket_is_left_for_the_next_launch() -> None:
    """Scratch passed in by hand: tickets are zero again afterwards."""
    ticket = materialise(applied(COLUMNS, "split-reduction{loop=i map=[thread.y 2, block.y 3, seq]}"))
    args = arguments(COLUMNS, 600, n=9, d=14)
    args |= {"s_parts": np.zeros(96, np.float32), "tickets": np.zeros(2, np.uint32)}
    result = run(ticket, args)
    assert not result.findings
    assert not result.outputs["tickets"].any()


HEAD = "kernel k(out: f32* restrict, x: f32 const* restrict, n: i32)\n"


@pytest.mark.parametrize(
    ("body", "script", "code"),
    [
        ("  par i in 0..n @ [thread.x 32, block.x]\n    out[i] = x[i]\n", "split-reduction{loop=i}", "E-SPLIT-NONE"),
        (
            "  par j in 0..n @ [block.x]\n    var s: f32 = 0.0\n    for i in 0..n\n      s += x[i]\n      out[i] = s\n    out[j] = s\n",
            "split-reduction{loop=i}",
            "E-SPLIT-NONE",
        ),
        (
            "  par j in 0..n @ [block.x]\n    var s: f32 = 0.0\n    for i in 0..n\n      out[i] = x[i]\n      s += x[i]\n    out[j] = s\n",
            "split-reduction{loop=i}",
            "E-SPLIT-CARRIED",
        ),
        (
            "  par j in 0..n @ [block.x]\n    reduce(+) s: f32 = 0.0 over i in 0..n @ [seq]\n      yield x[i]\n    out[j] = s\n"
            "  par k in 0..n @ [block.x]\n    out[k] = out[k] + 1.0\n",
            "split-reduction{loop=i map=[thread.x 32, block.y 2, seq]}",
            "E-SPLIT-PLACE",
        ),
        ("  par j in 0..n @ [block.x]\n    out[j] = x[j]\n", "split-reduction{loop=q}", "E-PLACE"),
    ],
)  # fmt: skip
def test_refusals(body: str, script: str, code: str) -> None:
    assert refused(parse_kernel(HEAD + body), script).code == code


def test_a_lost_tail_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong version that takes the blocks' range for the sum's and drops the guard."""
    monkeypatch.setattr(split_reduction, "_covers", lambda blocks, threads, n: True)
    short = parse_kernel(print_kernel(BLOCKS).replace("cdiv(n, 32)", "n / 32"))
    wrong = applied(short, "split-reduction{loop=t map=[thread.x 32, block.x 2, seq]}")
    assert differs(short, wrong, [{"n": 33}]) is not None


def test_a_forgotten_start_value_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from ktc.passes.lowering.collectives import grid_reduce

    monkeypatch.setattr(grid_reduce, "with_start", lambda *_: ())
    wrong = applied(COLUMNS, "split-reduction{loop=i map=[thread.y 2, block.y 2, seq]}")
    assert differs(COLUMNS, wrong, [{"n": 5, "d": 8}]) is not None


FROM_MEMORY = parse_kernel("""\
kernel most(out: f32* restrict, x: f32 const* restrict, n: i32, d: i32)
  par i in 0..n @ [thread.x 8, block.x]
    var m: f32 = x[i * d]
    for j in 0..d
      m = max(m, x[i * d + j])
    out[i * d] = m
""")


@pytest.mark.parametrize("levels", ["[thread.y 4, seq]", "[thread.y 4, block.y 2, seq]"])
@pytest.mark.parametrize("rows", ["[thread.x 8, block.x]", "[vec 4, thread.x 8, block.x]"])
def test_a_start_from_memory_is_not_read_past_the_last_row(rows: str, levels: str) -> None:
    script = f"distribute{{loop=i map={rows}}} | split-reduction{{loop=j map={levels}}}"
    lowered = materialise(bind(applied(FROM_MEMORY, script), {}))
    for n, d in ((1, 1), (3, 7), (33, 5)):
        x = np.arange(n * d, dtype=np.float32)[::-1].copy()
        result = run(lowered, {"out": np.zeros(n * d, np.float32), "x": x, "n": n, "d": d})
        assert not [str(f) for f in result.findings if f.kind == "out-of-bounds"]
        assert np.array_equal(result.outputs["out"].reshape(n, d)[:, 0], x.reshape(n, d).max(1))


VECTORS = parse_kernel("""\
kernel total(out: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(cdiv(n, 32)) block(8)
  par b in 0..cdiv(n, 32) @ [block.x]
    reduce(+) s: f32 = 0.0 over t in 0..8 @ [thread.x 8]
      let at: i32 = (b * 8 + t) * 4
      let four: f32x4 = x[at +: 4]
      yield at < n ? four[0] + four[1] + four[2] + four[3] : 0.0
    atomic add out[0], s
""")


def test_a_sum_of_vectors_a_block_is_one_sum() -> None:
    done = applied(VECTORS, "split-reduction{loop=t map=[thread.x 16, unroll 2, block.x 3, seq]}")
    assert differs(VECTORS, done, [{"n": n} for n in (32, 96, 320)]) is None
    (whole,) = (s for s in done.body if isinstance(s, Reduce))
    assert not any(isinstance(s, Par) for s in done.body) and "cdiv(n, 32) * 8" in print_kernel(done), whole


def test_a_sum_that_knows_its_block_stays_a_sum_a_block() -> None:
    other = parse_kernel(print_kernel(VECTORS).replace("? four[0]", "? f32(b) * four[0]"))
    script = "split-reduction{loop=t map=[thread.x 16, block.x 3, seq]}"
    assert refused(other, script).code == "E-DIST-NEST"
