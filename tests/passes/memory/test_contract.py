"""A temporary whose rows belong to one iteration each becomes an array of a row."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from tests.passes.checks import applied, body_of, refused

TEXT = """\
kernel rows(x: f32 const* noalias, y: f32* noalias temporary(rows * d), z: f32* noalias, rows: i32, d: i32)
  launch grid(rows) block(32)
  par r in 0..rows @ [block.x]
    let at: i32 = r * d
    reduce(max) m: f32 = 0.0 over i in 0..d @ [thread.x 32, seq]
      y[at + i] = x[at + i] * 2.0
      yield x[at + i]
    par j in 0..d @ [thread.x 32, seq]
      z[at + j] = y[r * d + j] + m
"""


def read(text: str = TEXT) -> Kernel:
    return parse_kernel(text)


def test_rows_in_shared_memory() -> None:
    k = applied(read(), "contract{array=y where=shared}")
    assert body_of(k) == (
        "  launch grid(rows) block(32)\n"
        "  par r in 0..rows @ [block.x]\n"
        "    let at: i32 = r * d\n"
        "    array y_row: shared f32[d] dynamic align 16\n"
        "    reduce(max) m: f32 = 0.0 over i in 0..d @ [thread.x 32, seq]\n"
        "      y_row[i] = x[at + i] * 2.0\n"
        "      yield x[at + i]\n"
        "    par j in 0..d @ [thread.x 32, seq]\n"
        "      z[at + j] = y_row[j] + m\n"
    )


@pytest.mark.parametrize("spread, where", [("", "shared"), ("[thread.x 32, unroll 3]", "registers")])
@pytest.mark.parametrize("rows, d", [(1, 1), (3, 31), (2, 96)])
def test_the_result_is_the_same(spread: str, where: str, rows: int, d: int) -> None:
    from ktc.passes.lowering import materialise

    script = f"distribute{{loop=i,j map={spread}}} | " if spread else ""
    k = applied(read(), f"{script}contract{{array=y where={where}}}")
    x = np.random.default_rng(0).integers(-9, 9, rows * d).astype(np.float32)
    args = {"x": x, "z": np.zeros(rows * d, np.float32), "rows": rows, "d": d}
    want = run(read(), args).outputs["z"]
    for now in (k, materialise(k)):
        got = run(now, args)
        assert not got.findings
        np.testing.assert_array_equal(got.outputs["z"], want)


def test_a_row_in_shared_memory_moves_to_registers_once_threads_own_its_elements() -> None:
    shared, kept = "contract{array=y where=shared}", "contract{array=y_row where=registers}"
    assert refused(read(), f"{shared} | {kept}").code == "E-CONTRACT-SEQ"
    spread = "distribute{loop=i,j map=[thread.x 32, unroll 3]}"
    owned = body_of(applied(read(), f"{shared} | {spread} | {kept}"))
    straight = body_of(applied(read(), f"{spread} | contract{{array=y where=registers}}"))
    assert owned.replace("y_row_1", "y_row") == straight


REFUSED = {
    "E-CONTRACT-SEQ": (TEXT, "contract{array=y where=registers}"),
    "E-CONTRACT-TEMPORARY": (TEXT, "contract{array=z}"),
    "E-CONTRACT-ROW": (TEXT.replace("y[r * d + j]", "y[r * d + d - 1 - j]"), "contract{array=y}"),
    "E-CONTRACT-LOOP": (TEXT + "  par k in 0..rows @ [block.x]\n    z[k] = y[k]\n", "contract{array=y}"),
    "E-PLACE": (TEXT, "contract{array=nothing}"),
}


@pytest.mark.parametrize("code", REFUSED)
def test_refusals(code: str) -> None:
    text, script = REFUSED[code]
    assert refused(read(text), script).code == code


def test_rows_that_overlap_are_not_rows_of_their_own() -> None:
    overlapping = TEXT.replace("y[at + i] =", "y[r + i] =").replace("y[r * d + j]", "y[r + j]")
    no = refused(read(overlapping), "contract{array=y}")
    assert no.code == "E-CONTRACT-ROW" and "y[r + i]" in no.why
