"""peel: an interior without boundary conditions."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.loops import peel
from tests.passes.checks import applied, body_of, differs, refused

EDGES = """\
      if i > 0 && i < n - 1
        b[i] = a[i - 1] + a[i + 1]
      else
        b[i] = a[i]
"""
HEAD = "kernel blur(b: f32* restrict, a: f32 const* restrict, n: i32)\n"
PARALLEL = parse_kernel(HEAD + "  par i in 0..n @ [thread.x 4, block.x]\n" + EDGES)
SERIAL = parse_kernel(HEAD + "  launch grid(1) block(1)\n  for i in 0..n\n" + EDGES)
SIZES = [{"n": n} for n in (1, 2, 3, 4, 5, 8, 9, 23)]


def test_before_and_after() -> None:
    assert (
        body_of(applied(PARALLEL, "peel{loop=i first=1 last=1}"))
        == """\
  par i in 0..n @ [thread.x 4, block.x]
    if i >= 1 && i < n - 1
      b[i] = a[i - 1] + a[i + 1]
    elif i > 0 && i < n - 1
      b[i] = a[i - 1] + a[i + 1]
    else
      b[i] = a[i]
"""
    )


@pytest.mark.parametrize(("first", "last"), [(1, 1), (2, 1), (0, 1), (1, 0), (3, 4)])
def test_meaning_stays(first: int, last: int) -> None:
    script = f"peel{{loop=i first={first} last={last}}}"
    assert differs(PARALLEL, applied(PARALLEL, script), SIZES) is None
    assert differs(SERIAL, applied(SERIAL, script), SIZES, lower=False) is None


def test_the_interior_of_a_serial_loop_has_no_branch() -> None:
    body = body_of(applied(SERIAL, "peel{loop=i first=1 last=1}"))
    assert body.count("for i") == 3 and body.count("if ") == 2


def test_sites_say_how_much() -> None:
    assert [str(s.step) for s in peel.Peel().sites(SERIAL)] == ["peel{loop=i first=1 last=1}"]
    plain = parse_kernel(HEAD + "  par i in 0..n @ [thread.x 4, block.x]\n    b[i] = a[i]\n")
    assert peel.Peel().sites(plain) == []


@pytest.mark.parametrize(
    ("body", "script", "code"),
    [
        ("  for i in 0..n\n    b[i] = 0.0\n", "peel{loop=i}", "E-PEEL-COUNT"),
        ("  for i in 0..n\n    b[i] = 0.0\n", "peel{loop=i first=1000}", "E-PEEL-COUNT"),
        ("  for i = n; i > 0; i - 1\n    b[i] = 0.0\n", "peel{loop=i first=1}", "E-PEEL-FORM"),
        ("  for i in 0..n\n    if a[i] > 0.0\n      break\n", "peel{loop=i last=1}", "E-PEEL-JUMP"),
        ("  for i in 0..n\n    b[i] = 0.0\n", "peel{loop=q first=1}", "E-PLACE"),
    ],
)
def test_refusals(body: str, script: str, code: str) -> None:
    assert refused(parse_kernel(HEAD + body), script).code == code


def test_a_wrong_version_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking the interior to begin one iteration too early."""
    real = peel._sure
    monkeypatch.setattr(peel, "_sure", lambda p, n: real(p, n - 1))
    k = applied(PARALLEL, "peel{loop=i first=0 last=1}")
    assert differs(PARALLEL, k, [{"n": n} for n in (3, 8)]) is not None
