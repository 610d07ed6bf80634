"""register-window: windows in registers, at the edges and within, and what is refused."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.memory import window_loads
from tests.passes.checks import applied, body_of, differs, refused

LINE = parse_kernel("""\
kernel smooth(to: f32* restrict align 16, of: f32 const* restrict align 16, n: i32)
  par q in 0..n @ [thread.x 8, block.x]
    var t: f32 = 0.0
    for b = -3; b <= 3; b + 1
      t += q + b >= 0 && q + b < n ? of[q + b] : 1.0
    to[q] = t
""")
INSIDE = parse_kernel("""\
kernel valid(to: f32* restrict align 16, of: f32 const* restrict align 16, n: i32)
  par q in 0..n @ [thread.x 8, block.x]
    var t: f32 = 0.0
    for b in 0..6
      t += of[q + b + 3] * f32(b)
    to[q] = t
""")
PLANE = parse_kernel("""\
kernel box(to: f32* restrict align 16, of: f32 const* restrict align 16, h: i32, w: i32, pitch: i32)
  par y in 0..h @ [thread.y 2, block.y]
    par x in 0..w @ [thread.x 4, block.x]
      var t: f32 = 0.0
      for dy = -1; dy <= 1; dy + 1
        for dx = -1; dx <= 1; dx + 1
          if y + dy >= 0 && y + dy < h && x + dx >= 0 && x + dx < w
            t += of[(y + dy) * pitch + x + dx] * f32(dx + 2 * dy)
      to[y * pitch + x] = t
""")

BY_FOUR = "tile{loops=q sizes=4} | map{q=[unroll 4] q_tile=[thread.x 8, block.x]}"
LINED = f"{BY_FOUR} | register-window{{array=of loop=q_tile}}"
ROWS = (
    "tile{loops=y,x sizes=2,4} | map{y=[unroll 2] x=[unroll 4] y_tile=[thread.y 2, block.y]"
    " x_tile=[thread.x 4, block.x]} | register-window{array=of loop=x_tile}"
)
SIZES = [{"n": n} for n in (1, 3, 4, 7, 8, 31, 32, 33, 63, 100)]
PLANES = [{"h": h, "w": w, "pitch": p} for h, w, p in ((1, 1, 4), (3, 5, 8), (4, 8, 8), (5, 17, 20), (9, 16, 17))]


def test_before_and_after() -> None:
    assert (
        body_of(applied(INSIDE, LINED))
        == """\
  par q_tile in 0..cdiv(n, 4) @ [thread.x 8, block.x]
    array of_w: f32[12] align 16
    if 8 < 5 + n - q_tile * 4 && 0 < q_tile
      par of_v in 0..4 @ [vec 4]
        of_w[of_v] = of[3 + q_tile * 4 + (of_v - 3)]
      for of_i in 1..3 unroll
        par of_v_1 in 0..4 @ [vec 4]
          of_w[of_i * 4 + of_v_1] = of[3 + q_tile * 4 + (of_i * 4 + of_v_1 - 3)]
    else
      for of_i_1 in 0..9 unroll
        of_w[of_i_1 + 3] = of_i_1 < 5 + n - q_tile * 4 ? of[3 + q_tile * 4 + of_i_1] : 0.0
    par q in q_tile * 4..min(q_tile * 4 + 4, n) @ [unroll 4]
      var t: f32 = 0.0
      for b in 0..6
        t += of_w[b + (q - q_tile * 4) + 3] * f32(b)
      to[q] = t
"""
    )


@pytest.mark.parametrize("kernel", [LINE, INSIDE])
def test_windows_of_a_line(kernel) -> None:
    done = applied(kernel, LINED)
    assert "@ [vec 4]" in body_of(done)
    assert differs(kernel, done, SIZES) is None


@pytest.mark.parametrize("n", [1, 4, 5, 8, 12, 30])
@pytest.mark.parametrize("kernel, more", [(LINE, 0), (INSIDE, 8)])
def test_nothing_is_read_that_the_kernel_does_not_read(kernel, more: int, n: int) -> None:
    assert differs(kernel, applied(kernel, LINED), [{"n": n}], elements=n + more) is None


def test_windows_of_a_plane() -> None:
    assert differs(PLANE, applied(PLANE, ROWS), PLANES) is None


def test_rows_that_begin_anywhere_are_loaded_element_by_element() -> None:
    assert "vec 4" not in body_of(applied(PLANE, ROWS))
    wide = applied(PLANE, f"divisible-by{{pitch=4}} | {ROWS}")
    assert "vec 4" in body_of(wide)
    assert differs(PLANE, wide, [s for s in PLANES if s["pitch"] % 4 == 0]) is None


@pytest.mark.parametrize("what", ["_everywhere", "_read_by_neighbour"])
def test_accesses_beyond_what_is_read_are_caught(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_loads.Window, what, lambda *a, **k: [])
    assert differs(LINE, applied(LINE, LINED), [{"n": 31}], elements=31) is not None


def test_a_window_that_begins_off_by_one_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = window_loads.Window.element
    monkeypatch.setattr(window_loads.Window, "element", lambda w, at: right(w, (*at[:-1], window_loads.i32(0))))
    assert differs(LINE, applied(LINE, LINED), [{"n": 30}]) is not None


@pytest.mark.parametrize(
    "script, code",
    [
        ("register-window{array=of loop=q}", "E-WINDOW-ONCE"),
        ("register-window{array=to loop=q}", "E-STAGE-WRITTEN"),
        ("register-window{array=of loop=b}", "E-WINDOW-LOOP"),
        ("tile{loops=q sizes=32} | register-window{array=of loop=q_tile}", "E-WINDOW-LOOP"),
        ("tile{loops=q sizes=$B:(4,8)} | map{q=[seq] q_tile=[thread.x 8, block.x]} | "
         "register-window{array=of loop=q_tile}", "E-WINDOW-SIZE"),
        ("tile{loops=q sizes=256} | map{q=[seq] q_tile=[thread.x 8, block.x]} | "
         "register-window{array=of loop=q_tile}", "E-WINDOW-SIZE"),
        (f"{LINED} | register-window{{array=of loop=q_tile}}", "E-WINDOW-PARTS"),
    ],
)  # fmt: skip
def test_refusals(script: str, code: str) -> None:
    assert refused(LINE, script).code == code


def test_sites_are_where_iterations_of_a_thread_have_something_in_common() -> None:
    from ktc.passes.core.pipeline import sites

    def windows(kernel) -> list[str]:
        return [str(s.step) for s in sites(kernel)["register-window"]]

    assert windows(applied(LINE, BY_FOUR)) == ["register-window{array=of loop=q_tile}"]
    assert windows(LINE) == []


ALIASED = parse_kernel("""\
kernel aliased(to: f32*, of: f32 const*, n: i32)
  par q in 0..n @ [thread.x 8, block.x]
    var t: f32 = 0.0
    for b in 0..3
      t += of[q + b]
    to[q] = t
    t = 0.0
    for c in 0..1
      t += of[q + c]
""")


def test_pointers_that_may_alias_are_read_before_an_iteration_writes() -> None:
    """Other iterations write nothing that it reads; it does, where it reads again after its own store."""
    assert refused(ALIASED, LINED).code == "E-STAGE-WRITTEN"
    body = ALIASED.body[0].body
    once = ALIASED.with_(body=(dataclasses.replace(ALIASED.body[0], body=body[:3]),))
    done = applied(once, LINED)
    assert differs(once, done, [{"n": n} for n in (1, 4, 9, 31)]) is None
    swapped = ALIASED.with_(body=(dataclasses.replace(ALIASED.body[0], body=(body[0], body[2], body[1])),))
    assert refused(swapped, LINED).code == "E-STAGE-WRITTEN"


BESIDE = parse_kernel("""\
kernel beside(to: f32* restrict align 16, of: f32 const* restrict align 16, n: i32)
  par q in 0..n @ [thread.x 8, block.x]
    var t: f32 = 0.0
    for b = -1; b <= 1; b + 1
      let at: i32 = q + b
      t += at >= 0 && at < n ? of[at] - of[q] : 0.0
    to[q] = t
""")


def test_reads_whose_conditions_are_of_other_places_stay() -> None:
    """Whether the middle is read hangs on its neighbours."""
    done = applied(BESIDE, LINED)
    assert "of_w[" in body_of(done) and "- of[q]" in body_of(done)
    assert differs(BESIDE, done, [{"n": n} for n in (1, 4, 9, 31)]) is None
