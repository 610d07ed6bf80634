"""``unroll`` levels written out for targets whose loops are printed as loops."""

from __future__ import annotations

import pytest

from ktc.driver.printing import printed
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Par
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.walk import map_body
from ktc.passes.lowering import jammed as module
from ktc.passes.lowering.jammed import jammed
from tests.passes.checks import applied, body_of, differs

PRODUCT = parse_kernel("""\
kernel product(c: f32* restrict, a: f32 const* restrict, b: f32 const* restrict, n: i32, m: i32, k: i32)
  par i in 0..n @ [thread.y 4, block.y]
    par j in 0..m @ [thread.x 8, block.x]
      var s: f32 = 1.0
      for q in 0..k
        s += a[i * k + q] * b[q * m + j]
      c[i * m + j] = s
""")
TILED = (
    "tile{loops=i,j sizes=$R:2,3,8 } | tile{loops=q sizes=2 tail=cut} | register-tile{loop=q_tile.*}"
    " | map{i.*=[unroll $R, seq] j.*=[seq]} | unroll{loop=q factor=2}"
)
SCRIPT = TILED.replace("i,j sizes=$R:2,3,8 ", "i,j sizes=$R:(2,3,8),4")
SIZES = [{"n": n, "m": m, "k": k} for n, m, k in ((1, 1, 1), (2, 4, 2), (3, 5, 7), (8, 9, 4), (9, 6, 3))]


def text(kernel: Kernel) -> str:
    return body_of(jammed(kernel))


def test_rows_run_together_and_their_sums_stay_in_variables() -> None:
    k = parse_kernel("""\
kernel k(x: f32* restrict, a: f32 const* restrict, b: f32 const* restrict, n: i32, m: i32)
  array acc: local f32[2, m]
  par i in 0..min(2, n) @ [unroll 2, seq]
    let row: i32 = i * 2
    par j in 0..m @ [seq]
      for q in 0..2 unroll 2
        acc[i, j] += a[row + q] * b[q * m + j]
""")
    assert (
        text(k)
        == """\
  array acc: f32[2, m]
  if min(2, n) == 2
    let row: i32 = 0
    let row_1: i32 = 2
    par j in 0..m @ [seq]
      var acc_1: f32 = acc[0, j]
      var acc_2: f32 = acc[1, j]
      acc_1 += a[row] * b[j]
      acc_2 += a[row_1] * b[j]
      acc_1 += a[row + 1] * b[m + j]
      acc_2 += a[row_1 + 1] * b[m + j]
      acc[0, j] = acc_1
      acc[1, j] = acc_2
  else
    par i in 0..min(2, n) @ [seq]
      let row_2: i32 = i * 2
      par j_1 in 0..m @ [seq]
        var acc_3: f32 = acc[i, j_1]
        acc_3 += a[row_2] * b[j_1]
        acc_3 += a[row_2 + 1] * b[m + j_1]
        acc[i, j_1] = acc_3
"""
    )


@pytest.mark.parametrize("rows", [2, 3, 8])
def test_a_tiled_product_on_awkward_sizes(rows: int) -> None:
    k = applied(PRODUCT, SCRIPT.replace("$R:(2,3,8)", str(rows)).replace("$R", str(rows)))
    assert differs(PRODUCT, jammed(k), SIZES, lower=False) is None


@pytest.mark.parametrize("factor", [2, 4])
@pytest.mark.parametrize("n", [1, 4, 5, 11])
def test_groups_and_what_is_left_of_them(n: int, factor: int) -> None:
    k = parse_kernel(f"""\
kernel k(x: f32* restrict, a: f32 const* restrict, n: i32, m: i32)
  par i in 1..n @ [unroll {factor}, thread.x 8, block.x]
    let big: f32 = i > 2 ? a[i] : 1.0
    reduce(+) s: f32 = big over j in 0..m @ [seq]
      let v: f32 = a[i * m + j]
      yield v * v
    if s > 3.0
      x[i] = s
    for j_1 in 0..m
      x[i] = x[i] + a[j_1]
""")
    done = jammed(k)
    assert print_kernel(done) != print_kernel(k)
    assert differs(k, done, [{"n": n, "m": 3}], lower=False) is None


@pytest.mark.parametrize(
    "body",
    [
        "  par i in 0..n @ [unroll 4, thread.x 8, block.x]\n    x[i] = a[i]\n",
        "  par i in 0..n @ [thread.x 8, block.x]\n    for j in 0..n unroll 4\n      x[i] = x[i] + a[j]\n",
        "  for j in 0..4 unroll 4\n    x[j] = a[j]\n",
        "  par i in 0..n @ [unroll 2, block.x]\n    for j in 0..n\n      if a[j] > x[i]\n        break\n",
        "  par i in 0..n @ [unroll 2, block.x]\n    par j in 0..n @ [seq]\n      x[i * n + j] = a[i * n + j]\n",
    ],
    ids=["an innermost loop", "unknown length", "in no parallel loop", "left early", "nothing alike"],
)
def test_what_stays_as_it_is(body: str) -> None:
    k = parse_kernel("kernel k(x: f32* restrict, a: f32 const* restrict, n: i32)\n" + body)
    assert jammed(k) is k


@pytest.mark.parametrize("value", ["a[j]", "a[i * n + j] + a[i * n + n + j]"], ids=["one row", "rows that overlap"])
def test_what_several_iterations_read_is_read_together(value: str) -> None:
    head = "kernel k(x: f32* restrict, a: f32 const* restrict, n: i32)\n  par i in 0..n @ [unroll 2, block.x]\n"
    k = parse_kernel(f"{head}    par j in 0..n @ [seq]\n      x[i * n + j] = {value}\n")
    assert body_of(jammed(k)).count("par j") == 2


def test_loops_that_differ_between_iterations_are_not_one() -> None:
    k = parse_kernel("""\
kernel k(x: f32* restrict, a: f32 const* restrict, n: i32)
  par i in 0..n @ [unroll 2, block.x]
    for j in 0..i
      x[i] = x[i] + a[j]
""")
    assert body_of(jammed(k)).count("for j") == 3
    assert differs(k, jammed(k), [{"n": n} for n in (1, 2, 5)], lower=False) is None


def test_the_text_of_a_cpu_has_the_copies_and_a_template_does_not() -> None:
    k = applied(PRODUCT, SCRIPT)
    assert "acc" not in printed(k, "numba").text
    assert printed(k, "numba").text.count("= muladd(") > printed(k, "numba", "template").text.count("= muladd(")


def test_copies_that_share_a_variable_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong version whose copies have no names of their own."""
    k = applied(PRODUCT, SCRIPT.replace("$R:(2,3,8)", "2").replace("$R", "2"))
    monkeypatch.setattr(
        module.Copy, "of", staticmethod(lambda body, env: module.Copy({s: s for s in module.declared(body)}, env))
    )
    assert differs(PRODUCT, jammed(k), SIZES, lower=False) is not None


def test_a_group_too_many_is_caught() -> None:
    """A wrong version that leaves out what no whole group has."""
    k = parse_kernel("""\
kernel k(x: f32* restrict, a: f32 const* restrict, n: i32, m: i32)
  par i in 0..n @ [unroll 2, block.x]
    for j in 0..m
      x[i] = x[i] + a[j]
""")
    done = jammed(k)
    first = next(s for s in done.body if isinstance(s, Par))
    wrong = done.with_(body=map_body(done.body, lambda s: s if s is first or not isinstance(s, Par) else None))
    assert differs(k, wrong, [{"n": 3, "m": 2}], lower=False) is not None
