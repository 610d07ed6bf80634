"""persistent: blocks that stay; what they compute does not change."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.mapping import persistent
from tests.passes.checks import applied, body_of, differs, refused

ROWS = parse_kernel("""\
kernel rms(out: f32* restrict, x: f32 const* restrict, d: i32, host n: i32)
  par r in 0..n @ [block.x]
    reduce(+) s: f32 = 0.0 over i in 0..d @ [thread.x 64, seq]
      yield x[r * d + i] * x[r * d + i]
    par i in 0..d @ [thread.x 64, seq]
      out[r * d + i] = x[r * d + i] * s
""")
FLAT = parse_kernel("""\
kernel scale(out: f32* restrict, x: f32 const* restrict, n: i32)
  par i in 0..n @ [thread.x 32, block.x]
    out[i] = x[i] * 3.0
""")


def test_before_and_after() -> None:
    assert (
        body_of(applied(FLAT, "persistent{loop=i blocks=$B:4,8}"))
        == """\
  knob $B in {4, 8} default 8 owner "persistent" doc "blocks that share the work"
  par i in 0..n @ [thread.x 32, block.x $B, seq]
    out[i] = x[i] * 3.0
"""
    )


@pytest.mark.parametrize("blocks", [1, 3, 8])
def test_meaning_stays_on_awkward_sizes(blocks: int) -> None:
    rows = applied(ROWS, f"persistent{{loop=r blocks={blocks}}}")
    assert differs(ROWS, rows, [{"n": n, "d": d} for n, d in ((1, 1), (3, 65), (7, 31), (9, 64))]) is None
    flat = applied(FLAT, f"persistent{{loop=i blocks={blocks}}}")
    assert differs(FLAT, flat, [{"n": n} for n in (1, 31, 32, 33, 257)]) is None


@pytest.mark.parametrize(
    ("body", "script", "code"),
    [
        (
            "  par i in 0..n @ [thread.x 32, block.x 4, seq]\n    out[i] = 0.0\n",
            "persistent{loop=i}",
            "E-PERSISTENT-BLOCK",
        ),
        ("  par i in 0..n @ [block.x]\n    out[i] = 0.0\n", "persistent{loop=j}", "E-PLACE"),
        (
            "  par i in 0..n @ [block.x]\n    atomic add out[0], 1.0\n    out[i + 1] = out[0]\n",
            "persistent{loop=i}",
            "E-PERSISTENT-WAIT",
        ),
    ],
)  # fmt: skip
def test_refusals(body: str, script: str, code: str) -> None:
    assert refused(parse_kernel("kernel k(out: f32*, n: i32)\n" + body), script).code == code


def test_blocks_that_take_one_iteration_only_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong version that caps the grid and forgets the walk."""
    from ktc.ir.fold import i32
    from ktc.ir.nodes import Level

    def forgetful(kind, *rest):
        return Level("seq", i32(1)) if kind == "seq" else Level(kind, *rest)

    monkeypatch.setattr(persistent, "Level", forgetful)
    wrong = applied(FLAT, "persistent{loop=i blocks=2}")
    assert differs(FLAT, wrong, [{"n": 257}]) is not None
