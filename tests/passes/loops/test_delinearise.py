"""delinearise: flat indices as the loops that their digits are."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.ir.fold import mul
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Var
from ktc.ir.text import parse_kernel, print_expr
from tests.passes.checks import applied, body_of, differs, refused

HEAD = """\
kernel k(y: f32* align 16 noalias, x: f32 const* align 16 noalias, n: i32, b: i32 range 1..64, h: i32 range 1..64,
    w: i32 range 1..64)
  launch grid((b * h * w + 255) / 256) block(256)
  par i in 0..{length} @ [thread.x 256, block.x]
"""
SIZES = [{"b": b, "h": h, "w": w, "n": b * h * w} for b, h, w in ((1, 1, 1), (3, 5, 7), (2, 8, 33), (2, 1, 5))]


def flat(*lines: str, length: str = "b * h * w") -> Kernel:
    return parse_kernel(HEAD.format(length=length) + "".join(f"    {line}\n" for line in lines))


def nest(k: Kernel) -> str:
    return body_of(k).split("block(256)\n", 1)[1]


def same(before: Kernel, after: Kernel) -> bool:
    return differs(before, after, SIZES, elements=4096) is None


def test_digits_by_name_are_loops_by_name() -> None:
    k = flat(
        "let col: i32 = i % w",
        "let row: i32 = i / w % h",
        "let batch: i32 = i / (w * h)",
        "y[i] = x[row * w + col] + f32(batch)",
    )
    after = applied(k, "delinearise{loop=i}")
    assert nest(after) == (
        "  par batch in 0..b @ [block.z]\n"
        "    par row in 0..h @ [block.y]\n"
        "      par col in 0..w @ [thread.x 256, block.x]\n"
        "        y[col + row * w + batch * h * w] = x[row * w + col] + f32(batch)\n"
    )
    assert same(k, after)


def test_with_a_limit_the_outermost_loop_is_over_all_digits_that_are_left() -> None:
    k = flat(
        "let col: i32 = i % w",
        "let row: i32 = i / w % h",
        "let batch: i32 = i / (w * h)",
        "y[i] = x[row * w + col] + f32(batch)",
    )
    after = applied(k, "delinearise{loop=i loops=2}")
    assert nest(after) == (
        "  par batch_row in 0..b * h @ [block.y]\n"
        "    par col in 0..w @ [thread.x 256, block.x]\n"
        "      var row: i32 = batch_row % h\n"
        "      var batch: i32 = batch_row / h\n"
        "      y[col + row * w + batch * h * w] = x[row * w + col] + f32(batch)\n"
    )
    assert same(k, after)
    assert nest(applied(k, "delinearise{loop=i loops=3}")) == nest(applied(k, "delinearise{loop=i}"))


def test_digits_are_found_in_any_order() -> None:
    k = flat("y[i] = x[i / w / h] + f32(i % w) + f32(i / w % h)")
    after = applied(k, "delinearise{loop=i}")
    assert [line.split("@")[0].strip() for line in nest(after).splitlines()[:3]] == [
        "par i_0 in 0..b",
        "par i_1 in 0..h",
        "par i_2 in 0..w",
    ]
    assert same(k, after)


def test_of_more_digits_than_loops_the_parts_of_others_are_left_out() -> None:
    k = flat("let col: i32 = i % w", "y[i] = x[col / 2 + i / w % h] * f32(i / (w * h))", length="b * h * w")
    even = [dataclasses.replace(p, divisible_by=2) if p.sym.name == "w" else p for p in k.params]
    after = applied(k.with_(params=tuple(even)), "delinearise{loop=i loops=3}")
    loops = [line.split("@")[0].strip() for line in nest(after).splitlines()[:3]]
    assert loops == ["par i_0 in 0..b", "par i_1 in 0..h", "par col in 0..w"] and "col / 2" in nest(after)


def test_digits_of_digits_are_followed() -> None:
    k = flat(
        "let t: i32 = i / w",
        "let row: i32 = t % h",
        "y[(t / h * w + i % w) * h + row] = x[i % (h * w) / w] + x[i % w % (w * h)] + x[i % w / w]",
    )
    after = applied(k, "delinearise{loop=i}")
    assert (
        "let t" not in nest(after)
        and "%" not in nest(after)
        and "/" not in nest(after)
        and "par row in 0..h" in nest(after)
    )
    assert same(k, after)


def test_a_digit_that_is_assigned_to_stays_a_variable() -> None:
    k = flat("var row: i32 = i / w", "if row > 2", "  row = 2", "y[i] = x[row * w + i % w]")
    after = applied(k, "delinearise{loop=i}")
    assert "var row: i32 = i_0" in nest(after) and same(k, after)


def test_axes_of_blocks_that_others_use_are_left_to_them() -> None:
    k = parse_kernel(
        "kernel k(y: f32* noalias, x: f32 const* noalias, n: i32, b: i32 range 1..64, h: i32 range 1..64,\n"
        "    w: i32 range 1..64)\n  launch grid((h * w + 255) / 256, b) block(256)\n"
        "  par c in 0..b @ [block.y]\n    par i in 0..h * w @ [thread.x 256, block.x]\n"
        "      y[c * h * w + i] = x[i % w * h + i / w]\n"
    )
    after = applied(k, "delinearise{loop=i}")
    assert "par i_0 in 0..h @ [block.z]" in nest(after) and same(k, after)


def test_quotients_that_no_loop_counts_are_computed_from_the_digits() -> None:
    k = flat("y[i] = x[i / 4 + i % w]")
    after = applied(k, "delinearise{loop=i}")
    assert "x[(i_1 + i_0 * w) / 4 + i_1]" in nest(after) and same(k, after)


def test_a_row_number_may_be_taken_apart_by_a_size_that_its_count_is_no_multiple_of() -> None:
    k = flat("let row: i32 = i / w", "y[i] = x[row / n * w + row % n + i % w]")
    after = applied(k, "delinearise{loop=i}")
    assert "par row in 0..b * h" in nest(after) and "row / n" in nest(after)
    assert differs(k, after, [{**sizes, "n": 2} for sizes in SIZES], elements=4096) is None


def test_a_length_is_the_product_that_the_launch_passes_for_it() -> None:
    k = flat("y[i] = x[i / w % h] + f32(i / w / h)", length="n")
    assert k.launch is not None
    names = {p.sym.name: Var(p.sym) for p in k.params}
    product = mul(mul(names["b"], names["h"]), names["w"])
    passed = k.with_(launch=dataclasses.replace(k.launch, passed=(("n", product),)))
    after = applied(passed, "delinearise{loop=i}")
    (fact,) = after.assumptions
    assert print_expr(fact.expr) == "n == b * h * w" and fact.origin == "observed"  # what a launcher tests
    assert "par i_0 in 0..b @" in nest(after) and same(passed, after)


def test_sizes_that_an_index_is_divided_by_are_taken_to_be_positive() -> None:
    k = flat("y[i] = x[i % n]", length="b * n")
    after = applied(k, "delinearise{loop=i}")
    (fact,) = after.assumptions
    assert print_expr(fact.expr) == "n >= 1" and fact.origin == "guessed"
    assert differs(k, after, [{"b": 3, "h": 1, "w": 1, "n": n} for n in (1, 4, 7)], elements=64) is None


def test_a_length_that_is_nothing_else_is_taken_to_be_a_multiple() -> None:
    k = flat("y[i] = x[i / w % h] + f32(i / w / h)", length="n")
    after = applied(k, "delinearise{loop=i}")
    (fact,) = after.assumptions
    assert print_expr(fact.expr) == "n % (h * w) == 0" and fact.origin == "guessed"
    assert "par i_0 in 0..n / (h * w) @" in nest(after) and same(k, after)


def test_sizes_that_the_body_computes_are_ends_of_digits() -> None:
    lines = "let m: i32 = (w + 2 - h) / 2 + 9", "let r: i32 = i / m", "y[i] = x[r] * f32(i % m)"
    k = flat(*lines, length="((w + 2 - h) / 2 + 9) * b")
    after = applied(k, "delinearise{loop=i}")
    assert "par r in 0..b @" in nest(after) and "par i_1 in 0..(w + 2 - h) / 2 + 9 @" in nest(after)
    sizes = [{"b": 3, "h": 5, "w": w, "n": 0} for w in (1, 7, 8)]
    assert differs(k, after, sizes, elements=256) is None


def test_rows_of_two_parts_are_taken_apart_by_their_sum() -> None:
    k = flat("y[i] = x[i / (w + h)] + f32(i % (w + h))", length="(w + h) * b")
    after = applied(k, "delinearise{loop=i}")
    assert "par i_0 in 0..b @" in nest(after) and "par i_1 in 0..w + h @" in nest(after)
    assert same(k, after)


@pytest.mark.parametrize(
    ("line", "length", "code", "said"),
    [
        ("y[i] = x[i]", "b * h * w", "E-DIGITS-NONE", "quotient or a remainder of 'i'"),
        ("y[i] = x[i / 4]", "b * h * w", "E-DIGITS-CHAIN", "at 4 and at b * h * w"),
        ("y[i] = x[i % (n + 1)]", "b * h * w", "E-DIGITS-NONE", "quotient or a remainder of 'i'"),
        ("y[i] = x[i / 4]", "n", "E-DIGITS-CHAIN", "at 4 and at n"),
    ],
)
def test_what_is_no_nest_is_refused(line: str, length: str, code: str, said: str) -> None:
    why = refused(flat(line, length=length), "delinearise{loop=i}")
    assert why.code == code and said in why.why


def test_a_loop_that_does_not_begin_at_zero_is_refused() -> None:
    k = parse_kernel(HEAD.format(length="b * h * w").replace("0..b", "1..b") + "    y[i] = x[i % w]\n")
    assert refused(k, "delinearise{loop=i}").code == "E-DIGITS-LOOP"


OUTSIDE = """\
kernel k(y: f32* align 16 noalias, x: f32 const* align 16 noalias, b: i64 range 1..64, h: i64 range 1..64,
    w: i64 range 1..64)
  launch grid(1, 64) block(64)
  par z in 0..1 @ [block.x]
    let H: i64 = h
    let W: i64 = w
    let count: i32 = (b * H * W) as i32
    par i in 0..count @ [thread.x 64, block.y 64, seq]
      let row: i32 = i / (H * W)
      let at: i32 = i % (H * W) % W
      y[i] = x[row] + x[at]
"""


def test_sizes_may_have_names_outside_of_the_loop() -> None:
    before = parse_kernel(OUTSIDE)
    after = applied(before, "delinearise{loop=i}")
    assert "par row in 0..b @" in body_of(after) and "par at in 0..w @" in body_of(after), body_of(after)
    assert differs(before, after, [{k: s[k] for k in "bhw"} for s in SIZES], elements=4096) is None
