"""narrow-doubles: variables of 64 bits that hold floats, the numbers between floats, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.text import parse_kernel
from ktc.passes.scalar import narrow_doubles
from tests.passes.checks import applied, body_of, refused

LARGEST = float(np.finfo(np.float32).max)


def least(update: str, start: str = "1e+40_f64", end: str = "y[r] = best", before: str = "") -> str:
    return f"""\
kernel k(y: f32* restrict, z: f64* restrict, x: f32 const* restrict, n: i32 range 0..40)
  par r in 0..4 @ [block.x]
    var best: f64 = {start}
    var place: i32 = -1
{before}\
    for i in 0..n
      let d: f32 = x[r * n + i]
{update}\
    {end}
    z[r] = place as f64
"""


LESS = "      if d < best\n        best = d\n        place = i\n"
CASES = {
    "the least": least(LESS),
    "beyond the floats below": least(LESS.replace("<", ">"), "-1e+40_f64"),
    "a float": least(LESS, "2.5_f64"),
    "a number between floats": least(LESS, "0.1_f64", "y[r] = place as f32"),
    "a number between floats, from above": least(
        LESS.replace("d < best", "best < d"), "0.1_f64", "y[r] = place as f32"
    ),
    "stored as the float above": least(LESS, "0.1_f64"),
    "at least": least(LESS.replace("<", ">="), "0.1_f64", "y[r] = place as f32"),
    "handed on": least(
        "      if d < best\n        second = best\n        best = d\n        place = i\n"
        "      elif d < second\n        second = d\n",
        end="y[r] = second",
        before="    var second: f64 = 1e+40_f64\n",
    ),
    "chosen": least("      best = d < best ? d as f64 : best\n      place = d < best ? i : place\n"),
    "the less of two": least("      best = min(d as f64, best)\n"),
    "no number": least(LESS, "nan_f64"),
}
"""Kernels in which ``best`` is narrowed."""

KEPT = {
    "arithmetic": least(LESS.replace("best = d", "best = d as f64 * 0.5_f64")),
    "handed on to what else holds a double": least(
        "      if d < 0.0_f64\n        sum = best\n      else\n        sum = sum * 0.5_f64\n",
        "0.0_f64",
        end="y[r] = sum",
        before="    var sum: f64 = 0.0_f64\n",
    ),
    "arithmetic with it": least(LESS, end="y[r] = best * 0.1_f64"),
    "doubles from memory": least(LESS.replace("best = d", "best = z[i]")),
    "compared with a double": least(LESS.replace("d < best", "z[i] < best")),
    "asked about in both ways": least(
        LESS + "      if best < d\n        place = -2\n", "0.1_f64", "y[r] = place as f32"
    ),
    "whether equal": least(LESS.replace("<", "=="), "0.1_f64", "y[r] = place as f32"),
    "stored as the float below": least(LESS, "0.7_f64"),
    "the largest float is not infinity": least(LESS.replace("<", ">"), "1e+40_f64"),
    "stored in 64 bits": least(LESS, end="z[r + 4] = best"),
    "compared with a number between floats": least(LESS.replace("d < best", "best > 0.1_f64")),
}
"""Kernels in which it is not."""


def test_before_and_after() -> None:
    body = body_of(applied(parse_kernel(CASES["the least"]), "narrow-doubles"))
    assert "    var best: f32 = inf\n" in body
    assert "      if d < best\n        best = d\n" in body and "    y[r] = best\n" in body


def results(text: str, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    args = {"y": np.zeros(4, np.float32), "z": np.zeros(8, np.float64), "x": rows.ravel(), "n": rows.shape[1]}
    left = run(parse_kernel(text) if isinstance(text, str) else text, args, domain="float").outputs
    return left["y"], left["z"]


def rows() -> np.ndarray:
    """Floats around the numbers that kernels begin with, infinities, and what is no number."""
    tenth = np.float32(0.1)
    near = [np.nextafter(tenth, np.float32(way)) for way in (-1, 1)]
    values = [tenth, *near, 2.5, 0.0, -0.0, math.inf, -math.inf, math.nan, LARGEST, -LARGEST, 1e-45, 7.0]
    rng = np.random.default_rng(1)
    return rng.choice(np.array(values, np.float32), (4, 9))


@pytest.mark.parametrize("case", CASES)
def test_every_result_is_the_same(case: str) -> None:
    before = parse_kernel(CASES[case])
    after = applied(before, "narrow-doubles")
    assert "best: f32" in body_of(after)
    for data in (rows(), rows()[:, :1], np.full((4, 2), np.float32(0.1)), np.full((4, 2), np.float32(math.inf))):
        for a, b in zip(results(before, data), results(after, data)):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("case", KEPT)
def test_what_is_no_float_stays(case: str) -> None:
    assert refused(parse_kernel(KEPT[case]), "narrow-doubles").code == "E-DOUBLES-NONE"


def test_what_is_narrowed_in_the_wrong_way_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of this file: with the float on the other side of 0.1 a comparison comes out differently."""
    monkeypatch.setattr(narrow_doubles, "UP", {op: -way for op, way in narrow_doubles.UP.items()})
    before = parse_kernel(CASES["a number between floats"])
    after = applied(before, "narrow-doubles")
    data = np.full((4, 2), np.float32(np.nextafter(np.float32(0.1), np.float32(-1))))
    assert any(a.tobytes() != b.tobytes() for a, b in zip(results(before, data), results(after, data)))


@pytest.mark.parametrize(
    ("n", "below", "above"),
    [
        (0.5, 0.5, 0.5),
        (1e40, LARGEST, math.inf),
        (-1e40, -math.inf, -LARGEST),
        (1e-60, 0.0, float(np.float32(1e-45))),
        (-1e-60, -float(np.float32(1e-45)), -0.0),
        (math.inf, math.inf, math.inf),
    ],
)
def test_floats_beside_a_number(n: float, below: float, above: float) -> None:
    assert (narrow_doubles._near(n, -1), narrow_doubles._near(n, 1)) == (below, above)
