"""promote: elements that a serial loop updates in variables, and the sums that normalise then sees."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from tests.passes.checks import applied, body_of, differs, refused

HEAD = """\
kernel k(y: f32* align 16{y}, z: f32* align 16 noalias, a: f32 const* align 16, x: f32 const* align 16,
    n: i32 range 1..64, m: i32 range {m}..64)
  launch grid(cdiv(n, 32)) block(32)
  par i in 0..n @ [thread.x 32, block.x]
"""
SIZES = [{"n": n, "m": m} for n, m in ((1, 1), (3, 5), (33, 8), (40, 33))]


def rows(*lines: str, y: str = " noalias", m: int = 1) -> Kernel:
    return parse_kernel(HEAD.format(y=y, m=m) + "".join(f"    {line}\n" for line in lines))


def nest(k: Kernel) -> str:
    return body_of(k).split("block.x]\n", 1)[1]


def same(before: Kernel, after: Kernel) -> bool:
    return differs(before, after, SIZES, elements=64 * 64) is None


SUM = ("for j in 0..m", "  y[i] += a[i * m + j] * x[j]")


def test_a_store_before_the_loop_is_the_first_value() -> None:
    k = rows("y[i] = 0.0", *SUM)
    after = applied(k, "promote{loop=j}")
    assert nest(after) == (
        "    var y_j: f32 = 0.0\n    for j in 0..m\n      y_j += a[i * m + j] * x[j]\n    y[i] = y_j\n"
    )
    assert same(k, after)


def test_an_element_that_no_store_begins_is_loaded() -> None:
    k = rows(*SUM)
    after = applied(k, "promote{loop=j}")
    assert nest(after).startswith("    var y_j: f32 = y[i]\n") and same(k, after)


def test_where_the_loop_may_not_run_nothing_is_touched() -> None:
    k = rows(*SUM, m=0)
    after = applied(k, "promote{loop=j}")
    assert nest(after).startswith("    if 0 < m\n      var y_j: f32 = y[i]\n") and same(k, after)


def test_two_arrays_at_once_become_two_sums() -> None:
    k = rows(
        "y[i] = 0.0", "z[i] = 0.0", "for j in 0..m", "  y[i] += a[i * m + j]", "  z[i] = z[i] + a[i * m + j] * x[j]"
    )
    after = applied(k, "normalise")
    assert nest(after).count("reduce(+)") >= 1 and "for j" not in nest(after) and same(k, after)


def test_what_is_updated_under_a_condition_is_written_only_after_a_store() -> None:
    some = ("for j in 0..m", "  if x[j] > 0.0", "    y[i] += x[j]")
    assert refused(rows(*some), "promote{loop=j}").code == "E-PROMOTE-NONE"
    k = rows("y[i] = 1.0", *some)
    after = applied(k, "promote{loop=j}")
    assert "y_j += x[j]" in nest(after) and same(k, after)


@pytest.mark.parametrize(
    ("lines", "y"),
    [
        (SUM, ""),  # a or x may be the same memory
        (("for j in 0..m", "  y[j] += a[i * m + j]"), " noalias"),
        (("for j in 0..m", "  y[i] += a[i * m + j]", "  y[i + 64] = x[j]"), " noalias"),
        (("for j in 0..m", "  y[i] = x[j]"), " noalias"),
        (("for j in 0..m", "  atomic add y[i], x[j]"), " noalias"),
    ],
)
def test_what_other_accesses_may_touch_stays_in_memory(lines: tuple[str, ...], y: str) -> None:
    assert refused(rows(*lines, y=y), "promote{loop=j}").code in ("E-PROMOTE-NONE", "E-PROMOTE-ORDER")


def test_a_loop_with_a_jump_is_refused() -> None:
    jumps = rows("for j in 0..m", "  if x[j] > 1.0", "    break", "  y[i] += x[j]")
    assert refused(jumps, "promote{loop=j}").code == "E-PROMOTE-ORDER"


def test_normalise_makes_sums_of_what_is_kept_in_memory() -> None:
    k = rows("y[i] = 0.0", *SUM)
    after = applied(k, "normalise")
    assert "reduce(+) y_j: f32 = 0.0 over j in 0..m @ [seq]" in nest(after) and same(k, after)


def test_an_element_of_a_private_array() -> None:
    k = rows("array t: f32[4]", "t[1] = x[0]", "for j in 0..m", "  t[1] += a[i * m + j]", "y[i] = t[1]")
    after = applied(k, "promote{loop=j}")
    assert "t_j += a[i * m + j]" in nest(after) and nest(after).count("t[1]") == 2 and same(k, after)


def test_an_array_of_an_iteration_stays_in_it() -> None:
    k = rows("for j in 0..m", "  array t: f32[4]", "  t[1] = a[i * m + j]", "  t[1] += x[j]", "  y[i] += t[1]")
    after = applied(k, "promote{loop=j}")
    assert "t[1] += x[j]" in nest(after) and same(k, after)


def test_other_threads_see_what_is_shared() -> None:
    lines = ("array t: shared f32[4]", "t[1] = x[0]", "for j in 0..m", "  t[1] += a[j]", "y[i] = 1.0")
    assert refused(rows(*lines), "promote{loop=j}").code == "E-PROMOTE-NONE"
