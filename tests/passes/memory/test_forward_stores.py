"""forward-stores: what earlier iterations stored, from variables."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.memory import forward_stores
from tests.passes.checks import applied, body_of, differs, refused

HEAD = "kernel k(y: f32* restrict, z: f32* restrict, x: f32 const*, n: i32 range 0..40, m: i32 range 0..9)\n"
ROW = "  par r in 0..m @ [thread.x 32, block.x]\n"


def text(loop: str, head: str = HEAD) -> str:
    return f"{head}{ROW}{loop}"


FIRST = text("    for j in 1..n\n      y[r * 40 + j] = y[r * 40 + j] - y[r * 40 + j - 1] * x[j]\n")
SECOND = text(
    "    for j in 2..n\n      let k: i32 = r * 40 + j\n"
    "      y[k] = y[k - 1] + y[k - 2] * x[j]\n      z[k] = z[k - 1] + y[k - 1] + y[k]\n"
)
GUARDED = text(
    "    for j in 1..n\n      y[j * 9 + r] = x[j] > 0.0 ? y[j * 9 - 9 + r] + x[j] : y[j * 9 - 9 + r] + 1.0\n"
)
SURE = text(
    "    for j in 1..n\n      var s: f32 = y[j * 9 - 9 + r]\n"
    "      if x[j] > 0.0\n        s += y[j * 9 - 9 + r]\n      y[j * 9 + r] = s\n"
)
SIZES = [{"n": n, "m": m} for n, m in ((0, 3), (1, 3), (2, 5), (3, 1), (17, 9), (40, 2))]


def test_before_and_after() -> None:
    assert (
        body_of(applied(parse_kernel(FIRST), "forward-stores{loop=j}"))
        == """\
  stems y_1: y_1
  par r in 0..m @ [thread.x 32, block.x]
    var y_1: f32 = 1 < n ? y[r * 40] : 0.0
    for j in 1..n
      var y_j: f32 = y[r * 40 + j] - y_1 * x[j]
      y[r * 40 + j] = y_j
      y_1 = y_j
"""
    )


@pytest.mark.parametrize("kernel", [FIRST, SECOND, SURE])
def test_meaning_stays(kernel: str) -> None:
    before = parse_kernel(kernel)
    after = applied(before, "forward-stores{loop=j}")
    assert differs(before, after, SIZES) is None
    assert differs(before, applied(before, "forward-stores{loop=j} | unroll{loop=j factor=4}"), SIZES) is None


def test_values_of_two_iterations_move_along() -> None:
    body = body_of(applied(parse_kernel(SECOND), "forward-stores{loop=j}"))
    assert "      y_2 = y_1\n      y_1 = y_j\n" in body
    assert "y_1 + y_2 * x[j]" in body and "z_1 + y_1 + y[k]" in body


def test_pointers_that_overlap_no_other_become_restrict() -> None:
    head = HEAD.replace("y: f32* restrict", "y: f32* noalias")
    done = applied(parse_kernel(text(FIRST.split(ROW)[1], head)), "forward-stores{loop=j}")
    assert done.params[0].sym.type.restrict


ONE = "      y[r * 40 + j] = y[r * 40 + j - 1] + 1.0\n"


@pytest.mark.parametrize(
    ("loop", "code"),
    [
        (f"    for j = n; j > 0; j - 1\n{ONE}", "E-FORWARD-LOOP"),
        (f"    for j in 1..n step 2\n{ONE}", "E-FORWARD-LOOP"),
        (f"    for j in 1..n\n{ONE}      if x[j] > 3.0\n        break\n", "E-FORWARD-LOOP"),
        ("    for j in 1..n\n      y[r * 40 + j] = y[r * 40 + j + 1]\n", "E-FORWARD-NONE"),
        ("    for j in 1..n\n      y[r * 40 + j] = y[r * 40 + j - 2]\n", "E-FORWARD-NONE"),
        ("    for j in 1..n\n      y[r * 40] = y[r * 40] + x[j]\n", "E-FORWARD-NONE"),
        ("    for j in 1..n\n      y[r + j * m] = y[r + j * m - m]\n", "E-FORWARD-NONE"),
        (f"    for j in 1..n\n{ONE}      y[r * 40] = 1.0\n", "E-FORWARD-NONE"),
        (f"    for j in 1..n\n      if x[j] > 0.0\n  {ONE}", "E-FORWARD-NONE"),
        (GUARDED.split(ROW)[1], "E-FORWARD-NONE"),
    ],
)
def test_refusals(loop: str, code: str) -> None:
    assert refused(parse_kernel(text(loop)), "forward-stores{loop=j}").code == code


def test_arrays_that_may_overlap() -> None:
    head = HEAD.replace("y: f32* restrict, z: f32* restrict", "y: f32*, z: f32*")
    loop = f"    for j in 1..n\n{ONE}      z[r * 40 + j] = x[j]\n"
    assert refused(parse_kernel(text(loop, head)), "forward-stores{loop=j}").code == "E-FORWARD-NONE"
    assert refused(parse_kernel(FIRST), "forward-stores{loop=r}").code == "E-FORWARD-LOOP"


def test_sites() -> None:
    (site,) = forward_stores.ForwardStores().sites(parse_kernel(SECOND))
    assert str(site.step) == "forward-stores{loop=j}"


def test_a_value_of_the_wrong_iteration_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward_stores, "_back", lambda index, loop, n: tuple(index))
    before = parse_kernel(FIRST.replace("y[r * 40 + j - 1]", "y[r * 40 + j]"))
    assert differs(before, applied(before, "forward-stores{loop=j}"), SIZES) is not None
