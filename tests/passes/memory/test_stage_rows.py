"""stage-rows: tiles of rows that a thread each goes along, in shared memory."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.memory import stage_rows
from tests.passes.checks import applied, body_of, differs, refused

HEAD = "kernel k(y: f32* restrict, z: f32* restrict, x: f32 const*, n: i32 range 0..40, m: i32 range 0..40)\n"
ROW = "  par r in 0..m @ [thread.x 32, block.x]\n"
PATH = (
    f"{HEAD}{ROW}    var s: f32 = 0.0\n    for j in 0..n\n      s = s * s + x[r * 40 + j]\n"
    "      y[r * 40 + j] = s\n      z[r * 40 + j] = z[r * 40 + j] + y[r * 40 + j]\n"
)
TILED = (
    "tile{loops=r sizes=8} | distribute{loop=r map=[thread.x 8]} | tile{loops=j sizes=16} | register-tile{loop=j_tile}"
)
STAGED = "".join(f" | stage-rows{{array={a} loop=j rows=2}} | pad-shared{{array={a}_s by=1}}" for a in "xyz")
SIZES = [{"n": n, "m": m} for n, m in ((0, 3), (1, 1), (16, 8), (17, 9), (40, 15))]


def test_before_and_after() -> None:
    body = body_of(applied(parse_kernel(PATH), f"{TILED} | stage-rows{{array=z loop=j rows=4}}"))
    assert body.endswith("""\
    array z_s: shared f32[8, 16] align 16
    for j_tile in 0..n step 16
      par z_r in 0..min(8, m - r_tile * 8) @ [thread.y 4, unroll 2]
        par z_c in 0..min(16, n - j_tile) @ [thread.x 8, unroll 2]
          z_s[z_r, z_c] = z[(r_tile * 8 + z_r) * 40 + (j_tile + z_c)]
      par r_1 in 0..min(8, m - r_tile * 8) @ [thread.x 8]
        for j in j_tile..min(j_tile + 16, n)
          s[r_1] = s[r_1] * s[r_1] + x[(r_tile * 8 + r_1) * 40 + j]
          y[(r_tile * 8 + r_1) * 40 + j] = s[r_1]
          z_s[r_1, j - j_tile] += y[(r_tile * 8 + r_1) * 40 + j]
      par z_r_1 in 0..min(8, m - r_tile * 8) @ [thread.y 4, unroll 2]
        par z_c_1 in 0..min(16, n - j_tile) @ [thread.x 8, unroll 2]
          z[(r_tile * 8 + z_r_1) * 40 + (j_tile + z_c_1)] = z_s[z_r_1, z_c_1]
""")


def test_meaning_stays() -> None:
    before = parse_kernel(PATH)
    assert differs(before, applied(before, TILED + STAGED), SIZES, elements=1600) is None


def test_what_is_only_read_is_not_copied_out_and_what_is_only_written_not_in() -> None:
    kernel = parse_kernel(PATH.replace("z[r * 40 + j] + y[r * 40 + j]", "s"))
    read = body_of(applied(kernel, f"{TILED} | stage-rows{{array=x loop=j rows=2}}"))
    assert "x_s[x_r, x_c] = x[" in read and read.count("par x_r") == 1
    written = body_of(applied(kernel, f"{TILED} | stage-rows{{array=y loop=j rows=2}}"))
    assert "y_s[y_r, y_c] = y[" not in written and written.count("par y_r") == 1


def test_owners_read_what_copies_stored() -> None:
    """Elements that other threads copied out are read by the row's own thread: a barrier stands between."""
    before = parse_kernel(f"{PATH}    z[r * 40] = y[r * 40 + n / 2] + z[r * 40]\n")
    sizes = [s for s in SIZES if s["n"]]
    assert differs(before, applied(before, TILED + STAGED), sizes, elements=1600) is None


def tiled(loop: str, head: str = HEAD, script: str = TILED) -> object:
    done = apply_script(parse_kernel(f"{head}{ROW}    for j in 0..n\n{loop}"), parse_script(script))
    assert done.refused is None
    return done.kernel


@pytest.mark.parametrize(
    ("loop", "array", "code"),
    [
        ("      y[r * 40 + j] = x[j]\n", "x", "E-ROWS-INDEX"),
        ("      y[r * 40 + j] = x[j * 40 + r]\n", "x", "E-ROWS-INDEX"),
        ("      y[r * 40 + j] = x[r * 40 + j] + x[r * 40 + j + 1]\n", "x", "E-ROWS-INDEX"),
        ("      y[r * 40 + j] = j > 3 ? x[r * 40 + j] : 0.0\n", "x", "E-ROWS-ARRAY"),
        ("      if j > 3\n        y[r * 40 + j] = 1.0\n", "y", "E-ROWS-ARRAY"),
        ("      y[r * 40 + j] = 1.0\n", "x", "E-ROWS-ARRAY"),
        ("      y[r * 40 + j] = 1.0\n      if x[0] > 0.0\n        break\n", "y", "E-ROWS-LOOP"),
    ],
)
def test_refusals(loop: str, array: str, code: str) -> None:
    kernel = tiled(loop) if "break" not in loop else tiled(loop, script="tile{loops=r sizes=8}")
    assert refused(kernel, f"stage-rows{{array={array} loop=j rows=2}}").code == code  # type: ignore[arg-type]


def test_loops_that_are_not_the_blocks() -> None:
    kernel = parse_kernel(PATH)
    assert refused(kernel, "stage-rows{array=y loop=j rows=2}").code == "E-ROWS-LOOP"
    assert refused(kernel, "stage-rows{array=y loop=r rows=2}").code == "E-ROWS-LOOP"


def test_arrays_that_may_overlap() -> None:
    head = HEAD.replace("y: f32* restrict, z: f32* restrict", "y: f32*, z: f32*")
    kernel = tiled("      y[r * 40 + j] = z[r * 40 + j]\n      z[r * 40 + j] = 0.0\n", head)
    assert refused(kernel, "stage-rows{array=y loop=j rows=2}").code == "E-ROWS-ALIAS"  # type: ignore[arg-type]
    assert refused(kernel, "stage-rows{array=s loop=j rows=2}").code == "E-PLACE"  # type: ignore[arg-type]


def test_sites() -> None:
    found = stage_rows.StageRows().sites(applied(parse_kernel(PATH), TILED))
    assert [str(s.step) for s in found] == [f"stage-rows{{array={a} loop=j rows=$TY}}" for a in "yzx"]
    assert stage_rows.StageRows().sites(parse_kernel(PATH)) == []


def test_rows_that_are_not_copied_out_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = stage_rows._copy
    monkeypatch.setattr(stage_rows, "_copy", lambda r, tile, n, into: kept(r, tile, n, True))
    before = parse_kernel(PATH)
    assert differs(before, applied(before, TILED + STAGED), SIZES, elements=1600) is not None
