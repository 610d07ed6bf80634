"""Proofs that the rounds of a loop may come in another order."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent

SNAKE = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..1000)
  launch grid(4) block(8)
  array s: f32[4, 8]
  array t: f32[8]
  for a = 0; a < 4; a + 1
    for b = 0; b < 8; b + 1
      s[a, b] = 0.0
  for i = 0; i < n; i + 1
    for u = 0; u < 8; u + 1
      t[u] = x[i * 8 + u]
    for u = 0; u < 4; u + 1
      for v = 0; v < 8; v + 1
        let w: i32 = u % 2 != 0 ? 7 - v : v
        s[u, w] = s[u, w] + t[w]
  for a = 0; a < 4; a + 1
    for b = 0; b < 8; b + 1
      y[a * 8 + b] = s[a, b]
"""
TURN = "u % 2 != 0 ? 7 - v : v"


def proof(new: str, text: str = SNAKE) -> bool:
    assert TURN in text
    found = equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(TURN, new))))
    assert not found or "another order" in found
    return bool(found)


@pytest.mark.parametrize("new", ["v", "7 - v", "v ^ 1", "(v * 3) % 8", "u % 2 == 0 ? 7 - v : v"])
def test_rounds_may_come_in_any_order(new: str) -> None:
    assert proof(new)


@pytest.mark.parametrize("new", ["v + 1", "v / 2", "v * 2 % 8", "6 - v", "u", "v + i - i / 2 * 2", "v % n"])
def test_and_each_comes_once(new: str) -> None:
    assert not proof(new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("s[u, w] = s[u, w] + t[w]", "s[u, v] = s[u, v] + t[w]"),  # a round's cell is another one's
        ("s[u, w] = s[u, w] + t[w]", "s[u, 0] = s[u, 0] + t[w]"),
        ("s[u, w] = s[u, w] + t[w]", "s[u, w] = s[u, 7 - w] + t[w]"),
        ("s[u, w] = s[u, w] + t[w]", "s[w % 4, u] = s[w % 4, u] + t[w]"),
        ("s[u, w] = s[u, w] + t[w]", "y[0] = t[w]"),  # the last one stays
        ("        s[u, w] = s[u, w] + t[w]", "        s[u, w] = s[u, w] + t[w]\n        t[0] = s[u, w]"),
    ],
)
def test_nor_where_rounds_have_to_do_with_each_other(old: str, new: str) -> None:
    assert old in SNAKE
    assert not proof("v", SNAKE.replace(old, new))


def test_nor_one_sum_in_another_order() -> None:
    summed = SNAKE.replace("        s[u, w] = s[u, w] + t[w]", "        m = m + t[w]").replace(
        "  array t: f32[8]\n", "  array t: f32[8]\n  var m: f32 = 0.0\n"
    )
    assert not proof("v", summed + "  y[33] = m\n")
