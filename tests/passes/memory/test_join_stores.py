"""join-stores: which stores of a branch are one behind it, and which are not."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.memory import join_stores
from tests.passes.checks import applied, body_of, differs, refused


def kernel(body: str):
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return parse_kernel(f"""\
kernel k(y: f32* align 16, z: f32*, x: f32 const*, n: i32)
  par i in 0..n @ [thread.x 8, block.x]
{lines}
""")


BOTH = """\
if x[i] > 0.0
  let t: f32 = x[i] * 2.0
  y[i] = t
  z[i] = t + 1.0
else
  y[i] = 0.0
  z[i] = 3.0
"""
CHAIN = """\
if x[i] > 2.0
  y[i] = 1.0
elif x[i] > 0.0
  y[i] = x[i]
else
  y[i] = -1.0
"""
LAST = """\
if x[i] > 0.0
  y[i] = 1.0
  z[i] = x[i]
else
  y[i] = 0.0
  z[i] = 2.0
"""


def test_before_and_after() -> None:
    assert (
        body_of(applied(kernel(CHAIN), "join-stores{loop=i}"))
        == """\
  par i in 0..n @ [thread.x 8, block.x]
    var y_value: f32
    if x[i] > 2.0
      y_value = 1.0
    else
      var y_value_1: f32
      if x[i] > 0.0
        y_value_1 = x[i]
      else
        y_value_1 = -1.0
      y_value = y_value_1
    y[i] = y_value
"""
    )


@pytest.mark.parametrize("text, stores", [(BOTH, 2), (CHAIN, 1), (LAST, 3)])
def test_meaning_stays(text: str, stores: int) -> None:
    k = kernel(text)
    done = applied(k, "join-stores{loop=i}")
    assert sum(line.lstrip().startswith(("y[", "z[")) for line in body_of(done).splitlines()) == stores
    assert differs(k, done, [{"n": n} for n in (1, 8, 31)]) is None


def test_wide_stores_come_of_it() -> None:
    wide = "distribute{loop=i map=[vec 4, thread.x 8, block.x]}"
    k = kernel(CHAIN)
    assert differs(k, applied(k, f"join-stores{{loop=i}} | {wide}"), [{"n": 32}, {"n": 36}]) is None


@pytest.mark.parametrize(
    "body",
    [
        "if x[i] > 0.0\n  y[i] = 1.0\n",
        "if x[i] > 0.0\n  y[i] = 1.0\nelse\n  y[i + n] = 1.0\n",
        "if x[i] > 0.0\n  y[i] = 1.0\n  z[i] = y[i]\nelse\n  y[i] = 0.0\n  z[i + n] = 0.0\n",
        "if x[i] > 0.0\n  y[i] = 1.0\n  let t: f32 = y[i]\n  z[i] = t\nelse\n  y[i] = 0.0\n",
        "var j: i32 = i\nif x[i] > 0.0\n  j = i + n\n  y[j] = 1.0\nelse\n  y[j] = 0.0\n",
    ],
)
def test_refusals(body: str) -> None:
    assert refused(kernel(body), "join-stores{loop=i}").code == "E-JOIN-NONE"


def test_a_store_behind_what_reads_it_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    k = kernel("if x[i] > 0.0\n  y[i] = 1.0\n  let t: f32 = y[i]\n  z[i] = t\nelse\n  y[i] = 0.0\n  z[i] = 2.0\n")
    assert differs(k, applied(k, "join-stores{loop=i}"), [{"n": 9}]) is None  # z alone, the last on both sides
    monkeypatch.setattr(join_stores, "is_movable", lambda e: True)
    assert differs(k, applied(k, "join-stores{loop=i}"), [{"n": 9}]) is not None
