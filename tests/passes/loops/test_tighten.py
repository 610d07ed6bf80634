"""tighten: what a condition leaves of a loop, and nothing else."""

from __future__ import annotations

import pytest

from ktc.agent.embedded.trials import wherever
from ktc.ir.text import parse_kernel
from ktc.passes.loops import tighten
from tests.passes.checks import applied, body_of, differs, refused

HEAD = "kernel k(y: i32* restrict, x: i32 const* restrict, n: i32, m: i32, s: i32, p: i32 range 0..8)\n"


def loop(cond: str, at: str = "i + p - k", inner: str = "sum += x[k] * (k + 7)", lo: str = "0") -> str:
    return (
        f"{HEAD}  par i in 0..n\n    var sum: i32 = 0\n"
        f"    for k in {lo}..m\n      var at: i32 = {at}\n      if {cond}\n"
        f"        at /= s\n        {inner}\n    y[i] = sum + 1\n"
    )


STRIDED = loop("at >= 0 && at % s == 0")
SIZES = [
    {"n": n, "m": m, "s": s, "p": p}
    for n, m, s, p in ((1, 1, 1, 0), (5, 9, 2, 0), (9, 5, 3, 1), (20, 17, 7, 4), (7, 16, 5, 8), (4, 0, 2, 3))
]


def test_before_and_after() -> None:
    kernel = parse_kernel(STRIDED)
    done = applied(kernel, "tighten{loop=k}")
    assert body_of(done) == (
        "  assume s >= 1 origin guessed\n"
        "  par i in 0..n\n"
        "    var sum: i32 = 0\n"
        "    let k_first: i32 = (i + p) % s\n"
        "    for k_i in 0..cdiv(min(m, i + p + 1) - k_first, s)\n"
        "      let k: i32 = k_first + k_i * s\n"
        "      var at: i32 = i + p - k\n"
        "      at /= s\n"
        "      sum += x[k] * (k + 7)\n"
        "    y[i] = sum + 1\n"
    )
    assert differs(kernel, done, SIZES) is None


@pytest.mark.parametrize(
    "text",
    [
        loop("at % s == 0"),
        loop("!(at % s)", at="k - i"),
        loop("at % s == 0 && at < n && at > -5"),
        loop("at % s == 0", at="i - 9 - k", lo="3"),
        loop("at % s == 0 && x[k] > 0", at="k + i"),
        loop("at >= 0 && 3 <= at && n > at"),
        loop("at <= 2", at="k - i"),
        loop("2 >= at && at % s == 0 && k != 4"),
    ],
)
def test_the_same_iterations_run_in_the_same_order(text: str) -> None:
    kernel = parse_kernel(text.replace("sum += x[k] * (k + 7)", "sum = 3 * sum + x[k]"))
    assert differs(kernel, applied(kernel, "tighten{loop=k}"), SIZES) is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (loop("at % s == 0", at="2 * k - i"), "E-TIGHTEN-CONDITION"),
        (loop("at % (k + 1) == 0"), "E-TIGHTEN-CONDITION"),
        (loop("at % s == 1"), "E-TIGHTEN-CONDITION"),
        (loop("at % s == 0", at="x[k] - k"), "E-TIGHTEN-LOOP"),
        (loop("at % (s - 3) == 0"), "E-TIGHTEN-STEP"),
        (loop("at % s == 0", inner="sum += 1\n      else\n        sum += 2"), "E-TIGHTEN-LOOP"),
        (loop("sum % s == 0"), "E-TIGHTEN-CONDITION"),
        (STRIDED.replace("      var at", "      sum += 1\n      var at"), "E-TIGHTEN-LOOP"),
        (STRIDED.replace("for k in 0..m", "for k: i32 = 0; k < m; k + 2"), "E-TIGHTEN-LOOP"),
    ],
)
def test_refusals(text: str, code: str) -> None:
    assert refused(parse_kernel(text), "tighten{loop=k}").code == code


def test_only_remainders_are_worth_it() -> None:
    assert wherever(parse_kernel(STRIDED), "tighten")[0] == "tighten{loop=k} | "
    assert wherever(parse_kernel(loop("at >= 0 && at < n")), "tighten")[0] == ""


def test_a_first_iteration_that_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = parse_kernel(loop("at % s == 0", at="i - 9 - k"))
    monkeypatch.setattr(tighten.Facts, "never_negative", lambda self, e: True)
    assert differs(kernel, applied(kernel, "tighten{loop=k}"), SIZES) is not None


def test_dilations_stand_in_the_way() -> None:
    dilated = parse_kernel(loop("at >= 0 && at % s == 0", at="i - k * p"))
    assert tighten.dilations(dilated) == {"p"} and tighten.dilations(parse_kernel(STRIDED)) == set()
    assert wherever(dilated, "tighten")[0] == ""
    assert wherever(applied(dilated, "specialize{p=1}"), "tighten")[0] == "tighten{loop=k} | "
