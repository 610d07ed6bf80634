"""join-sums: all terms of nested sums as one loop, and what is no such sum is left alone."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from tests.passes.checks import applied, body_of, differs, refused

HEAD = "kernel k(y: f32* noalias, x: f32 const* noalias, b: i32 range 1..64, f: i32 range 1..64, n: i32 range 1..64)\n"
SERIAL = f"""{HEAD}
  par c in 0..f @ [block.x]
    array part: shared f32[8]
    par t in 0..8 @ [thread.x 8]
      reduce(+) own: f32 = 0.0 over j in 0..b @ [seq]
        reduce(+) p: f32 = 0.0 over r in 0..cdiv(n, 8) @ [seq]
          let i: i32 = t + r * 8
          yield i < n ? x[(j * f + c) * n + i] : 0.0
        yield p
      part[t] = own
    reduce(+) s: f32 = y[c] over q in 0..8 @ [seq]
      yield part[q]
    y[c] = s
"""
STRIDED = f"""{HEAD}
  par c in 0..f @ [block.x]
    reduce(+) s: f32 = 0.0, (max) m: f32 = -inf over t in 0..8 @ [thread.x 8]
      reduce(+) own: f32 = 0.0, (max) most: f32 = -inf over j in 0..b @ [seq]
        reduce(+) p: f32 = 0.0, (max) q: f32 = -inf over r in 0..cdiv(n - t, 8) @ [seq]
          yield x[(j * f + c) * n + t + r * 8], x[(j * f + c) * n + t + r * 8]
        yield p, q
      yield own, most
    y[c] = s + m
"""
FLAT = """\
      let j: i32 = j_r / n
      let r: i32 = j_r % n
"""
SIZES = [{"b": 5, "f": 6, "n": 12}, {"b": 1, "f": 1, "n": 4}, {"b": 3, "f": 2, "n": 20}]


def check(text: str, script: str) -> str:
    """What ``script`` makes of the kernel ``text``, which does the same, on threads as well."""
    kernel = parse_kernel(text)
    new = applied(kernel, script)
    assert differs(kernel, new, SIZES) is None
    assert "reassociates" in new.flags
    return body_of(new)


def test_parts_of_threads_are_one_sum() -> None:
    text = check(SERIAL, "join-sums{loop=q width=1}")
    assert "reduce(+) s: f32 = y[c] over j_r in 0..b * n @ [seq]\n" + FLAT in text
    assert "part" not in text and " ? " not in text


def test_what_threads_stride_over_is_one_range() -> None:
    text = check(STRIDED, "join-sums{loop=t width=1}")
    assert "reduce(+) s: f32 = 0.0, (max) m: f32 = -inf over j_r in 0..b * n @ [seq]\n" + FLAT in text


def test_neighbouring_terms_in_one_iteration() -> None:
    text = check(SERIAL, "join-sums{loop=q width=4}")
    assert "assume n % 4 == 0 origin guessed" in text and "@ [vec 4]" in text


@pytest.mark.parametrize("levels", ["[thread.x 4, seq]", "[thread.x 2, unroll 2, block.y 3, seq]"])
def test_threads_and_blocks_share_all_of_it(levels: str) -> None:
    check(SERIAL, f"join-sums{{loop=q width=2}} | map{{j_r={levels}}}")


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("yield part[q]", "yield part[7 - q]", "E-JOIN-NONE"),
        ("    y[c] = s\n", "    y[c] = s + part[0]\n", "E-JOIN-NONE"),
        ("in 0..8 @ [seq]", "in 0..7 @ [seq]", "E-JOIN-NONE"),
        ("over r in 0..cdiv(n, 8)", "over r in 0..j", "E-JOIN-NONE"),
        ("      part[t] = own\n", "      part[t] = own\n      y[c * 8 + t] = own\n", "E-JOIN-NONE"),
    ],
)
def test_refusals(old: str, new: str, code: str) -> None:
    assert old in SERIAL
    found = refused(parse_kernel(SERIAL.replace(old, new)), "join-sums{loop=q width=1}")
    assert found.code == code


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("yield p\n", "yield p * 2.0\n"),
        ("reduce(+) p: f32 = 0.0", "reduce(+) p: f32 = 1.0"),
        ("reduce(+) p: f32 = 0.0", "reduce(max) p: f32 = -inf"),
    ],
)
def test_a_sum_that_is_a_term_stays_one(old: str, new: str) -> None:
    text = check(SERIAL.replace(old, new), "join-sums{loop=q width=1}")
    assert "over t_j in 0..8 * b @ [seq]" in text and "over r in 0..cdiv(n, 8)" in text


def test_terms_that_depend_on_the_thread_keep_its_loop() -> None:
    """A weight a thread: its loop is one of the joined ones, and nothing is guarded away."""
    weighted = SERIAL.replace("x[(j * f + c) * n + i] :", "x[(j * f + c) * n + i] * x[t] :")
    text = check(weighted, "join-sums{loop=q width=1}")
    assert "over t_j_r in 0..8 * b * cdiv(n, 8)" in text


def test_a_range_of_blocks_has_no_width() -> None:
    unknown = SERIAL.replace("cdiv(n, 8)", "cdiv(n, 8) * i32(x[0])").replace("i < n ?", "i < n && r < 1 ?")
    assert refused(parse_kernel(unknown), "join-sums{loop=q width=4}").code == "E-JOIN-WIDTH"


BLOCKS = """\
kernel total(y: f32* noalias, x: f32 const* readonly, n: i32)
  launch grid(1) block(1)
  reduce(+) all: f32 = 0.0 over b in 0..cdiv(n, 8) @ [block.x]
    reduce(+) own: f32 = 0.0 over t in 0..8 @ [thread.x 8]
      let i: i32 = b * 8 + t
      yield f32(i < n ? f64(x[i]) : 0.0_f64)
    yield own
  y[0] = all
"""


def test_blocks_and_their_threads_are_one_range() -> None:
    """As a grid of blocks counts through an array, whose sums are all that they give, in doubles by mistake."""
    kernel = parse_kernel(BLOCKS)
    joined = applied(kernel, "join-sums{loop=b width=1}")
    assert "over b in 0..n @ [seq]\n    yield x[b]" in body_of(joined)
    assert differs(kernel, joined, [{"n": n} for n in (1, 8, 21)], lower=False) is None
