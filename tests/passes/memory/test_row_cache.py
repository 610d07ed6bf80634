"""row-cache: which values of a row are kept, where, and that they are the same values."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.lowering import materialise
from ktc.passes.memory import early_stores, row_cache
from ktc.passes.shared import sweep_rewrites, sweeps
from tests.passes.checks import applied, body_of, differs, refused

SOFTMAX = parse_kernel("""\
kernel softmax(out: f32* restrict align 16, x: f32 const* restrict align 16, d: i32, host n: i32)
  par r in 0..n @ [block.x]
    reduce(max) m: f32 = -inf over i in 0..d @ [thread.x 32, unroll 4]
      yield x[r * d + i]
    reduce(+) s: f32 = 0.0 over i in 0..d @ [thread.x 32, unroll 4]
      yield max(x[r * d + i] - m, -4.0)
    par i in 0..d @ [thread.x 32, unroll 4]
      out[r * d + i] = max(x[r * d + i] - m, -4.0) * s
""")
SIZES = [{"n": n, "d": d} for n, d in ((1, 1), (2, 31), (1, 32), (3, 33), (2, 97), (1, 128))]


def test_the_largest_common_values_are_kept_in_their_first_sweep() -> None:
    assert (
        body_of(applied(SOFTMAX, "row-cache{loop=i.*}"))
        == """\
  par r in 0..n @ [block.x]
    array x_row: f32[d] align 16
    reduce(max) m: f32 = -inf over i in 0..d @ [thread.x 32, unroll 4]
      let x_1: f32 = x[r * d + i]
      x_row[i] = x_1
      yield x_1
    array x_row_1: f32[d] align 16
    reduce(+) s: f32 = 0.0 over i_1 in 0..d @ [thread.x 32, unroll 4]
      let x_2: f32 = max(x_row[i_1] - m, -4.0)
      x_row_1[i_1] = x_2
      yield x_2
    par i_2 in 0..d @ [thread.x 32, unroll 4]
      out[r * d + i_2] = x_row_1[i_2] * s
"""
    )


def test_keeping_what_was_loaded_takes_one_row() -> None:
    text = body_of(applied(SOFTMAX, "row-cache{loop=i.* keep=loaded where=shared}"))
    assert text.count("shared") == 1
    assert text.count("x[r * d") == 1
    assert text.count("x_row[i") == 3


NORM_TEXT = """\
kernel norm(out: f32* restrict, x: f32 const* restrict, w: f32 const* restrict, d: i32, host n: i32)
  par r in 0..n @ [block.x]
    reduce(+) s: f32 = 0.0 over i in 0..d @ [thread.x 32, unroll 4]
      yield x[r * d + i]
    par i in 0..d @ [thread.x 32, unroll 4]
      out[r * d + i] = (x[r * d + i] - s) * w[i]
"""
NORM = parse_kernel(NORM_TEXT)


def test_what_a_later_sweep_reads_is_loaded_ahead() -> None:
    k = applied(NORM, "row-cache{loop=i.* keep=loaded ahead=yes}")
    assert (
        body_of(k)
        == """\
  par r in 0..n @ [block.x]
    array x_row: f32[d] align 16
    array w_row: f32[d] align 16
    reduce(+) s: f32 = 0.0 over i in 0..d @ [thread.x 32, unroll 4]
      let x_1: f32 = x[r * d + i]
      x_row[i] = x_1
      let w_1: f32 = w[i]
      w_row[i] = w_1
      yield x_1
    par i_1 in 0..d @ [thread.x 32, unroll 4]
      out[r * d + i_1] = (x_row[i_1] - s) * w_row[i_1]
"""
    )
    assert differs(NORM, k, SIZES) is None


def test_what_is_written_or_depends_on_the_first_sweep_is_not_loaded_ahead() -> None:
    for other in ("out[i]", "w[i + i32(s)]"):
        assert "w[i]" in NORM_TEXT
        k = applied(parse_kernel(NORM_TEXT.replace("w[i]", other)), "row-cache{loop=i.* keep=loaded ahead=yes}")
        assert "w_row" not in body_of(k) and "out_row" not in body_of(k)


@pytest.mark.parametrize("script", ["row-cache{loop=i.*}", "row-cache{loop=i.* keep=loaded}"])
@pytest.mark.parametrize("where", ["", "where=shared"])
@pytest.mark.parametrize("levels", ["thread.x 32, unroll 4", "vec 2, thread.x 16, unroll 4", "vec 4, thread.x 64, seq"])
def test_meaning_stays_on_awkward_sizes(script: str, where: str, levels: str) -> None:
    if "seq" in levels and not where:
        assert refused(SOFTMAX, f"distribute{{loop=i.* map=[{levels}]}} | {script}").code == "E-ROWCACHE-SEQ"
        return
    text = f"distribute{{loop=i.* map=[{levels}]}} | {script.replace('}', f' {where}}}')}"
    width = 4 if "vec 4" in levels else 2 if "vec 2" in levels else 1
    sizes = [s for s in SIZES if s["d"] % width == 0]
    assert sizes and differs(SOFTMAX, applied(SOFTMAX, text), sizes) is None


def test_no_barrier_where_each_thread_reads_what_it_wrote() -> None:
    from ktc.ir.nodes import Barrier
    from ktc.ir.walk import walk

    lowered = materialise(applied(SOFTMAX, "row-cache{loop=i.* where=shared keep=loaded}"))
    assert not any(isinstance(s, Barrier) for s in walk(lowered.body))  # one warp: shuffles alone combine


WRITTEN = parse_kernel("""\
kernel k(out: f32* restrict, x: f32* restrict, d: i32, host n: i32)
  par r in 0..n @ [block.x]
    reduce(max) m: f32 = -inf over i in 0..d @ [thread.x 32, seq]
      yield x[r * d + i]
    par i in 0..d @ [thread.x 32, seq]
      x[r * d + i] = 1.0
      out[r * d + i] = x[r * d + i] * m
""")


@pytest.mark.parametrize(
    ("kernel", "script", "code"),
    [
        (SOFTMAX, "row-cache{loop=i.* where=moon}", "E-ROWCACHE-WHERE"),
        (SOFTMAX, "row-cache{loop=i.* keep=moon}", "E-ROWCACHE-WHERE"),
        (SOFTMAX, "row-cache{loop=j}", "E-PLACE"),
        (SOFTMAX, "distribute{loop=i map=[thread.x 64, unroll 2]} | row-cache{loop=i.*}", "E-ROWCACHE-OWNER"),
        (WRITTEN, "row-cache{loop=i.* where=shared}", "E-ROWCACHE-NONE"),
    ],
)
def test_refusals(kernel: object, script: str, code: str) -> None:
    assert refused(kernel, script).code == code  # type: ignore[arg-type]


def test_a_row_kept_although_it_is_written_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_rewrites, "assigned", lambda body: set())
    monkeypatch.setattr(sweeps, "assigned", lambda body: set())
    wrong = applied(WRITTEN, "row-cache{loop=i.* where=shared}")
    assert differs(WRITTEN, wrong, [{"n": 2, "d": 40}]) is not None


def test_a_value_of_another_row_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong version that reads the row one element off."""
    from ktc.ir.fold import add, i32
    from ktc.ir.nodes import Load

    right = row_cache.replace_values

    def off(loop, rows):
        from ktc.ir.walk import map_body

        def shift(e):
            if isinstance(e, Load) and e.buffer in {row for row, _ in rows.values()}:
                return Load(e.buffer, (add(e.index[0], i32(1)),))
            return e

        return map_body((right(loop, rows),), lambda s: s, shift)[0]

    monkeypatch.setattr(row_cache, "replace_values", off)
    wrong = applied(SOFTMAX, "row-cache{loop=i.* where=shared keep=loaded}")
    assert differs(SOFTMAX, wrong, [{"n": 1, "d": 33}]) is not None


def test_rows_of_narrow_elements_leave_the_next_array_aligned() -> None:
    """Two dynamic arrays: the second starts on a 16-byte boundary whatever the first one's length."""
    narrow = parse_kernel("""\
kernel k(out: f32* restrict align 16, x: f16 const* restrict align 16, d: i32, host n: i32)
  par r in 0..n @ [block.x]
    reduce(max) m: f32 = -inf over i in 0..d @ [vec 2, thread.x 16, seq]
      let h: f16 = x[r * d + i]
      yield f32(h)
    reduce(+) s: f32 = 0.0 over i in 0..d @ [vec 2, thread.x 16, seq]
      let e: f32 = max(f32(x[r * d + i]) - m, -4.0)
      yield e
    par i in 0..d @ [vec 2, thread.x 16, seq]
      out[r * d + i] = max(f32(x[r * d + i]) - m, -4.0) * s + f32(x[r * d + i])
""")
    assumed = applied(narrow, "distribute{loop=i.* map=[vec 2, thread.x 16, seq]} | row-cache{loop=i.* where=shared}")
    text = body_of(materialise(assumed))
    assert text.count("dynamic") >= 2
    assert differs(narrow, assumed, [{"n": 2, "d": d} for d in (2, 6, 34, 62)]) is None


CAUSAL = parse_kernel("""\
kernel causal(out: f32* restrict, x: f32 const* restrict, d: i32 range 1..4096, host n: i32)
  par r in 0..n @ [block.x]
    let last: i32 = r % d
    reduce(max) m: f32 = -inf over i in 0..last + 1 @ [thread.x 32, seq]
      yield x[r * d + i] * 2.0
    par i in 0..last + 1 @ [thread.x 32, seq]
      out[r * d + i] = x[r * d + i] * 2.0 - m
""")


def test_a_row_of_another_length_in_each_block_has_room_for_the_longest() -> None:
    """All blocks of a launch have as much shared memory, and only parameters are known before it."""
    kept = applied(CAUSAL, "row-cache{loop=i.* where=shared}")
    assert "array x_row: shared f32[d] dynamic" in body_of(kept)
    assert differs(CAUSAL, kept, [{"n": 5, "d": 7}, {"n": 3, "d": 33}, {"n": 1, "d": 1}]) is None
    assert any("where=shared" in str(s.step) for s in row_cache.RowCache().sites(CAUSAL))


@pytest.mark.parametrize("last", ["first[r]", "n - r", "r % e", "r as u32 - 3_u32"])
def test_a_row_of_unknown_length_has_no_room(last: str) -> None:
    text = """\
kernel rows(out: f32* restrict, x: f32 const* restrict, first: i32 const* restrict, d: i32 range 1..4096, e: i32,
            host n: i32)
  par r in 0..n @ [block.x]
    let last: i32 = LAST
    reduce(max) m: f32 = -inf over i in 0..last @ [thread.x 32, seq]
      yield x[r * d + i] * 2.0
    par i in 0..last @ [thread.x 32, seq]
      out[r * d + i] = x[r * d + i] * 2.0 - m
""".replace("LAST", last)
    kernel = parse_kernel(text)
    assert refused(kernel, "row-cache{loop=i.* where=shared}").code == "E-ROWCACHE-ROOM"
    assert not any("where=shared" in str(s.step) for s in row_cache.RowCache().sites(kernel))


FURTHER_TEXT = """\
kernel further(out: f32* restrict, x: f32 const* restrict, d: i32 range 1..4096, host n: i32)
  par r in 0..n @ [block.x]
    let last: i32 = r % d
    reduce(max) m: f32 = -inf over i in 0..last + 1 @ [thread.x 32, unroll 4]
      yield x[r * d + i]
    par i in 0..d @ [thread.x 32, unroll 4]
      out[r * d + i] = i <= last ? x[r * d + i] - m : 0.0
"""
FURTHER_SIZES = [{"n": n, "d": d} for n, d in ((1, 1), (3, 2), (40, 33), (128, 128))]


@pytest.mark.parametrize("where", ["registers", "shared"])
def test_a_sweep_that_goes_further_takes_the_row_where_it_asks_first(where: str) -> None:
    kernel = parse_kernel(FURTHER_TEXT)
    kept = applied(kernel, f"row-cache{{loop=i.* keep=loaded where={where}}}")
    assert "i_1 <= last ? x_row[i_1] - m : 0.0" in body_of(kept)
    assert differs(kernel, materialise(kept), FURTHER_SIZES) is None


@pytest.mark.parametrize(
    "other",
    [
        "i <= last + 1 ? x[r * d + i] - m : 0.0",  # asks for more than there is
        "i <= last ? 0.0 : x[r * d + i] - m",  # the other side
        "x[r * d + i] - m",  # does not ask
    ],
)
def test_beyond_what_the_first_sweep_kept_nothing_is_taken(other: str) -> None:
    kernel = parse_kernel(FURTHER_TEXT.replace("i <= last ? x[r * d + i] - m : 0.0", other))
    assert refused(kernel, "row-cache{loop=i.* keep=loaded where=shared}").code == "E-ROWCACHE-NONE"


def test_only_what_is_behind_the_condition_is_taken() -> None:
    both = FURTHER_TEXT.replace("- m : 0.0", "- m : 0.0) + x[r * d + i]").replace("= i <= last", "= (i <= last")
    kernel = parse_kernel(both)
    kept = applied(kernel, "row-cache{loop=i.* keep=loaded where=shared}")
    assert "(i_1 <= last ? x_row[i_1] - m : 0.0) + x[r * d + i_1]" in body_of(kept)
    assert differs(kernel, kept, FURTHER_SIZES) is None


ADD_NORM_TEXT = """\
kernel add_norm(a: f32* restrict, b: f32* restrict, w: f32 const* restrict, d: i32, host n: i32)
  par r in 0..n @ [block.x]
    reduce(+) s: f32 = 0.0 over i in 0..d @ [thread.x 32, seq]
      yield (a[r * d + i] + b[r * d + i]) * 2.0
    let t: f32 = s * 0.5
    par i in 0..d @ [thread.x 32, seq]
      let x: f32 = a[r * d + i] + b[r * d + i]
      b[r * d + i] = x
      a[r * d + i] = x * t * w[i]
"""
STORED = "row-cache{loop=i.* where=stored}"


def test_what_is_stored_anyway_is_stored_by_the_first_sweep() -> None:
    kernel = parse_kernel(ADD_NORM_TEXT)
    kept = applied(kernel, STORED)
    assert (
        body_of(kept)
        == """\
  par r in 0..n @ [block.x]
    reduce(+) s: f32 = 0.0 over i in 0..d @ [thread.x 32, seq]
      let b_1: f32 = a[r * d + i] + b[r * d + i]
      b[r * d + i] = b_1
      yield b_1 * 2.0
    let t: f32 = s * 0.5
    par i_1 in 0..d @ [thread.x 32, seq]
      let x: f32 = b[r * d + i_1]
      a[r * d + i_1] = x * t * w[i_1]
"""
    )
    assert differs(kernel, kept, SIZES) is None


def test_stored_early_by_other_threads_than_read_it() -> None:
    kernel = parse_kernel(ADD_NORM_TEXT)
    kept = applied(kernel, f"{STORED} | map{{i_1=[vec 2, thread.x 32, seq]}}")
    assert differs(kernel, materialise(kept), [s for s in SIZES if s["d"] % 2 == 0]) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("b[r * d + i] = x\n", "b[r * d + i] = x * 0.5\n"),  # another value
        ("b[r * d + i] = x\n", "if x > 0.0\n        b[r * d + i] = x\n"),  # not all of it
        ("b[r * d + i] = x\n", "b[r * d + d - 1 - i] = x\n"),  # in another place than it is read from
        ("b[r * d + i] = x\n", "b[r * d + i] = x\n      b[r * d + i] = x * t\n"),  # stored to twice
        ("b: f32*", "b: bf16*"),  # rounded
        ("b: f32* restrict", "b: f32*"),  # may overlap what the sweeps read
        ("t: f32 = s * 0.5", "t: f32 = s * b[r * d]"),  # read in between, as it was
        ("* 2.0", "* b[r * d]"),  # read by another iteration
        ("x * t * w[i]", "x * t * b[r * d + d - 1 - i]"),
    ],
)
def test_what_is_not_stored_early(old: str, new: str) -> None:
    text = ADD_NORM_TEXT.replace(old, new)
    if "bf16" in new:
        text = text.replace("b[r * d + i] = x", "b[r * d + i] = bf16(x)").replace(
            "+ b[r * d + i]", "+ f32(b[r * d + i])"
        )
    assert text != ADD_NORM_TEXT
    assert refused(parse_kernel(text), STORED).code == "E-ROWCACHE-STORED"


def test_a_store_before_its_array_was_read_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong version that does not look at what else reads the array."""
    kernel = parse_kernel(ADD_NORM_TEXT.replace("t: f32 = s * 0.5", "t: f32 = s * b[r * d]"))
    monkeypatch.setattr(early_stores, "all_exprs", lambda body: iter(()))
    monkeypatch.setattr(early_stores, "walk_expr", lambda e: iter(()))
    assert differs(kernel, applied(kernel, STORED), SIZES) is not None


IN_PLACE = parse_kernel("""\
kernel scaled(y: f32* noalias, x: f32* noalias, d: i32, host n: i32)
  par r in 0..n @ [block.x]
    reduce(+) s: f32 = 1.0 over i in 0..d @ [thread.x 32, unroll 4]
      yield x[r * d + i]
    par i in 0..d @ [thread.x 32, unroll 4]
      x[r * d + i] = x[r * d + i] * s
      y[r * d + i] = 1.0 - x[r * d + i]
""")


@pytest.mark.parametrize("keep", ["loaded", "computed"])
@pytest.mark.parametrize("where", ["registers", "shared"])
def test_what_a_sweep_has_written_is_read_again(keep: str, where: str) -> None:
    """The row holds what was there before."""
    new = applied(IN_PLACE, f"row-cache{{loop=i.* keep={keep} where={where}}}")
    assert differs(IN_PLACE, new, SIZES) is None
    text = body_of(new)
    assert "= x_row[i_1] * s" in text and "= 1.0 - x[r * d + i_1]" in text
