"""unrotate: what a loop hands from iteration to iteration is loaded again, and the loop is parallel then."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes.loops import carried_values
from tests.passes.checks import applied, body_of, differs, refused

HEAD = """\
kernel k(o: f32* align 16{o}, a: f32 const* align 16, n: i32 range 1..64, m: i32 range 1..64)
  launch grid(cdiv(n, 32)) block(32)
  par i in 0..n @ [thread.x 32, block.x]
"""
SIZES = [{"n": n, "m": m} for n, m in ((1, 1), (3, 2), (5, 3), (33, 9))]


def columns(*lines: str, o: str = " noalias") -> Kernel:
    return parse_kernel(HEAD.format(o=o) + "".join(f"    {line}\n" for line in lines))


def nest(k: Kernel) -> str:
    return body_of(k).split("block.x]\n", 1)[1].replace("\n    ", "\n").removeprefix("    ")


def same(before: Kernel, after: Kernel) -> bool:
    return differs(before, after, SIZES, elements=64 * 16) is None


START = ("var below: f32 = a[i]", "var here: f32 = a[i + n]")
STORE = "  o[i + z * n] = below * 5.0 + here * 3.0 + above"
WALK = (*START, "for z in 1..m", "  var above: f32 = a[i + (z + 1) * n]", STORE, "  below = here", "  here = above")


def test_copies_lead_back_to_the_load() -> None:
    k = columns(*WALK)
    after = applied(k, "unrotate{loop=z}")
    assert nest(after) == (
        "for z in 1..m\n"
        "  var above: f32 = a[i + (z + 1) * n]\n"
        "  let below: f32 = a[i + (z - 1) * n]\n"
        "  let here: f32 = a[i + z * n]\n"
        "  o[i + z * n] = below * 5.0 + here * 3.0 + above\n"
    )
    assert same(k, after) and "par z in 1..m @ [seq]" in nest(applied(k, "normalise"))


def test_where_the_loop_rotates_first_nothing_needs_a_value_before_it() -> None:
    rotation = ("  below = here", "  here = above", "  above = a[i + (z + 1) * n]", STORE)
    k = columns("var below: f32", "var here: f32 = a[i]", "var above: f32 = a[i + n]", "for z in 1..m", *rotation)
    after = applied(k, "normalise")
    assert "par z in 1..m @ [seq]" in nest(after) and "?" not in nest(after) and same(k, after)


ORDERS = {
    "as it should be": ("  below = here", "  here = above"),
    "one value for two": ("  here = above", "  below = here"),
    "the wrong way round": ("  here = below", "  below = above"),
    "one further back": ("  oldest = below", "  below = here", "  here = above"),
}


@pytest.mark.parametrize("order", ORDERS)
def test_each_order_of_copies_means_something_else(order: str) -> None:
    start = ("var oldest: f32 = 0.0", *START)
    store = "  o[i + z * n] = oldest * 7.0 + below * 5.0 + here * 3.0 + above"
    k = columns(*start, "for z in 1..m", "  var above: f32 = a[i + (z + 1) * n]", store, *ORDERS[order])
    after = applied(k, "normalise")
    assert "par z in 1..m" in nest(after) and same(k, after)
    right = columns(*start, "for z in 1..m", "  var above: f32 = a[i + (z + 1) * n]", store, *ORDERS["as it should be"])
    assert order == "as it should be" or not same(right, after)


FIRST = {
    "the first layer for the one before it": ("var below: f32 = a[i + n]", "a[z == 1 ? i + n : i + (z - 1) * n]"),
    "a number": ("var below: f32 = 2.0", "z == 1 ? 2.0 : a[i + (z - 1) * n]"),
    "a name of the load": ("let first: f32 = a[i]", "a[i + (z - 1) * n]"),
}


@pytest.mark.parametrize("case", FIRST)
def test_what_is_there_before_the_loop_is_chosen_where_it_does_not_fit(case: str) -> None:
    line, chosen = FIRST[case]
    first = (line, "var below: f32 = first") if "first" in line else (line,)
    k = columns(*first, *WALK[1:])
    after = applied(k, "unrotate{loop=z}")
    assert f"let below: f32 = {chosen}\n" in nest(after) and same(k, after)


def test_that_a_value_fits_is_not_taken_for_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    k = columns("var below: f32 = 2.0", *WALK[1:])
    monkeypatch.setattr(carried_values._Closing, "_fits", lambda *_: True)
    assert not same(k, applied(k, "unrotate{loop=z}"))


def test_what_the_last_iteration_does_not_load() -> None:
    guarded = ("  if z < m - 1", "    here = a[i + (z + 1) * n]")
    k = columns("var here: f32 = a[i + n]", "for z in 1..m", "  o[i + z * n] = here", *guarded)
    after = applied(k, "normalise")
    assert "par z in 1..m @ [seq]" in nest(after) and same(k, after)
    late = columns("var here: f32 = a[i + n]", "for z in 1..m", *guarded, "  o[i + z * n] = here")
    assert same(late, applied(late, "unrotate{loop=z}"))
    other = columns("var here: f32 = a[i + n]", "for z in 1..m", "  o[i + z * n] = here", "  if z < m - 2", guarded[1])
    assert "'here' is made of" in refused(other, "unrotate{loop=z}").why
    used = columns("var here: f32 = a[i + n]", "for z in 1..m", "  o[i + z * n] = here", *guarded, "o[i] = here")
    assert refused(used, "unrotate{loop=z}").code == "E-UNROTATE-NONE"


def test_what_is_left_after_the_loop() -> None:
    k = columns(*WALK, "o[i] = here - below")
    after = applied(k, "unrotate{loop=z}")
    assert nest(after).splitlines()[-3:] == [
        "let below_1: f32 = a[i + (max(m, 1) - 1) * n]".replace("max(m, 1)", "m"),
        "let here_1: f32 = a[i + m * n]",
        "o[i] = here_1 - below_1",
    ]
    assert same(k, after)
    empty = columns(*(line.replace("1..m", "3..m") for line in WALK), "o[i] = here - below")
    assert same(empty, applied(empty, "unrotate{loop=z}"))


REFUSED = {
    "written": (("  a[i + z * n] = here",), " noalias", "'a' is written"),
    "overlap": (("  o[i + z * n] = here",), "", "'o' may overlap 'a'"),
    "computed": (("  here = here + a[i + z * n]",), " noalias", "'here' is made of what changes"),
    "product": (("  here = a[i] * a[i + z * n]",), " noalias", "'here' is computed, not loaded"),
    "of its own": (("  here = below", "  below = here"), " noalias", "comes from a value of its own"),
    "inner loop": (("  for j in 0..3", "    here = a[i + j]"), " noalias", "'here' is assigned in an inner loop"),
    "a jump": (("  here = a[i + z * n]", "  if here > 1.0", "    break"), " noalias", "holds a jump"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_load_stays(case: str) -> None:
    lines, o, why = REFUSED[case]
    store = () if case in ("written", "overlap") else ("  o[i + z * n] = here",)
    rotation = ("  below = here", "  here = a[i + (z + 1) * n]") if case in ("written", "overlap") else ()
    k = columns(*START, "for z in 1..m", *store, *lines, *rotation, o=o)
    no = refused(k, "unrotate{loop=z}")
    assert why in no.why and (case != "overlap" or "noalias" in no.hint)


PLANE = """\
kernel k(o: f32* align 16 noalias, a: f32 const* align 16,
    nx: i32 range 3..64, ny: i32 range 3..64, nz: i32 range 3..64)
  launch grid(cdiv(nx - 2, 32), ny - 2) block(32)
  par y in 1..ny - 1 @ [block.y]
    par x in 1..nx - 1 @ [thread.x 32, block.x]
      let at: i32 = y * nx + x
      let layer: i32 = nx * ny
      let west: i32 = x == 1 ? at : at - 1
      var here: f32 = a[at + layer]
      for z in 1..nz - 1
        let above: f32 = a[at + (z - 1) * layer + 2 * layer]
        o[at + z * layer] = here + a[at + nx + z * layer - 1] + a[west + z * layer] - above
        here = above
"""


def test_indices_are_by_coordinates_then() -> None:
    k = parse_kernel(PLANE)
    after = applied(k, "normalise")
    assert body_of(after).split("[seq]\n")[1].replace("        ", "") == (
        "let above: f32 = a[x + y * nx + (z + 1) * (nx * ny)]\n"
        "let here: f32 = a[x + y * nx + z * (nx * ny)]\n"
        "o[x + y * nx + z * (nx * ny)] = here + a[x + (y + 1) * nx + z * (nx * ny) - 1] + a[west + z * layer] - above\n"
    )
    sizes = [{"nx": nx, "ny": ny, "nz": nz} for nx, ny, nz in ((3, 3, 3), (9, 4, 5))]
    assert differs(k, after, sizes, elements=9 * 5 * 7) is None
