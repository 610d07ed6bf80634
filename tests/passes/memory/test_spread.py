"""multi-buffer{issue=spread}: copies of the tile ahead between the steps of a round, and what they have in common."""

from __future__ import annotations

import pytest

from ktc.backends import emit
from ktc.ir.nodes import AsyncCommit, AsyncCopy, For
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.walk import walk
from ktc.passes.lowering import materialise
from ktc.passes.lowering.copies import spreading
from tests.passes.checks import applied, differs, refused
from tests.passes.tile_sources import GEMM, GEMM_ODD, GEMM_SIZES, SIMPLE, STAGED

ASYNC = "async-copy{loop=k_tile.*}"
SPREAD = "multi-buffer{loop=k_tile stages=3 issue=spread}"
EVERY = f"{STAGED} | {ASYNC} | {SPREAD}"


def tiles(rows: int, depth: int, each: int) -> str:
    """One staged array, ``rows x depth`` elements by eight threads."""
    return (
        f"tile{{loops=row,col sizes={rows},8}} | distribute{{loop=row map=[thread.y 2, unroll {each}]}}"
        f" | distribute{{loop=col map=[thread.x 4, unroll 2]}} | tile{{loops=k sizes={depth} tail=cut}}"
        f" | register-tile{{loop=k_tile.*}} | stage-shared{{array=A loop=k_tile.*}} | {ASYNC} | {SPREAD}"
    )


def rounds_of(script: str) -> str:
    """The loop over whole tiles with what stands in front of it, lowered."""
    text = print_kernel(materialise(applied(GEMM, script)))
    begin, end = text.index("  for k_tile in"), text.index("  for k_tile_1 in")
    return text[text.rindex("  barrier\n", 0, begin) + len("  barrier\n") : end]


def test_before_and_after() -> None:
    text = rounds_of(tiles(4, 4, 2))
    assert (
        text
        == """\
  let A_at: i32 = K * row_tile * 4 + 8 + K * tid_y + tid_x
  let A_left: i32 = M - row_tile * 4 - tid_y
  for k_tile in 0..K / 4 * 4 step 4
    for k in k_tile..k_tile + 4
      array A_s_i: f32[2]
      for u_4 in 0..2 unroll
        if row + u_4 * 2 < min(4, M - row_tile * 4)
          A_s_i[u_4] = A_s[k_tile / 4 % 3, row + u_4 * 2, k - k_tile]
      array B_i: f32[2]
      for u_5 in 0..2 unroll
        if col + u_5 * 4 < min(8, N - col_tile * 8)
          B_i[u_5] = B[k * N + (col_tile * 8 + (col + u_5 * 4))]
      for u_6 in 0..2 unroll
        if row + u_6 * 2 < min(4, M - row_tile * 4)
          for u_7 in 0..2 unroll
            if col + u_7 * 4 < min(8, N - col_tile * 8)
              acc[u_6, u_7] += A_s_i[u_6] * B_i[u_7]
      if (k - k_tile) % 2 == 0
        if k_tile + 8 < K / 4 * 4
          async_copy A_s[(k_tile / 4 + 2) % 3, tid_y + (k - k_tile), tid_x] = A[A_at + (k_tile + K * ((k - k_tile) / 2) * 2)] if k - k_tile < A_left
    async_commit
    async_wait (1)
    barrier
"""  # noqa: E501
    )


@pytest.mark.parametrize(
    "script",
    [EVERY, tiles(4, 4, 2), tiles(6, 4, 3), tiles(16, 4, 8), tiles(10, 4, 5), tiles(2, 8, 1)],
    ids=["as many copies as steps", "fewer", "fewer, unevenly", "more", "more, unevenly", "one in four"],
)
def test_every_number_of_copies_means_the_same(script: str) -> None:
    assert differs(GEMM, applied(GEMM, script), GEMM_SIZES + GEMM_ODD if "vec" not in script else GEMM_SIZES) is None


def test_an_open_number_of_stages() -> None:
    k = applied(GEMM, f"{STAGED} | {ASYNC} | multi-buffer{{loop=k_tile stages=$S issue=spread}}")
    for stages in (2, 4):
        assert differs(GEMM, k, GEMM_SIZES, knobs={"S": stages}) is None


def test_no_branch_parts_the_steps_in_cuda() -> None:
    kernel = materialise(applied(GEMM, EVERY))
    text = emit(kernel, "cuda").text
    main = text[text.index("for (int k_tile = 0") : text.index("for (int k_tile = K / 4 * 4")]
    assert main.count("cp_async_if<") == 2
    assert "if (" not in main
    for target in ("hip", "opencl"):
        assert "if (k_tile + 8 < K / 4 * 4)" in emit(kernel, target).text


def test_rounds_of_unknown_length_copy_first() -> None:
    """The last tile may be a part of one: how many steps it has is not known."""
    script = SIMPLE + f" | register-tile{{loop=k_tile.*}} | stage-shared{{array=A loop=k_tile.*}} | {ASYNC}"
    kernel = applied(GEMM, f"{script} | multi-buffer{{loop=k_tile stages=3 issue=spread}}")
    lowered = materialise(kernel)
    assert not any(isinstance(s, AsyncCommit) and s.spread for s in walk(lowered.body))
    (loop,) = (s for s in walk(lowered.body) if isinstance(s, For) and s.var.name == "k_tile")
    steps = next(s for s in walk(loop.body) if isinstance(s, For) and s.var.name == "k")
    assert not any(isinstance(s, AsyncCopy) for s in walk(steps.body))
    assert differs(GEMM, kernel, GEMM_ODD) is None


def test_the_mark_is_text_too() -> None:
    text = print_kernel(applied(GEMM, EVERY))
    assert text.count("async_commit spread\n") == 1
    assert print_kernel(parse_kernel(text)) == text


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (f"{STAGED} | {SPREAD}", "E-BUFFER-COPIES"),
        (f"{STAGED} | {ASYNC} | multi-buffer{{loop=k_tile issue=spread by=producer}}", "E-BUFFER-COPIES"),
        (f"{STAGED} | {ASYNC} | multi-buffer{{loop=k_tile issue=late}}", "E-ARG-RANGE"),
    ],
)
def test_refusals(script: str, code: str) -> None:
    assert refused(GEMM, script).code == code


# ---------------------------------------------------------------------------------------------------- wrong versions


def test_turns_that_leave_some_copies_out_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = spreading._Spreading._between
    monkeypatch.setattr(spreading._Spreading, "_between", lambda self, c: right(self, c)[:0] if c.u else right(self, c))
    assert differs(GEMM, applied(GEMM, tiles(4, 4, 2)), GEMM_ODD) is not None


def test_an_address_that_does_not_follow_the_round_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes with the round taken for the same in all of them."""
    right = spreading._Spreading._split

    def wrong(self, c, p):
        fixed, rest = right(self, c, p)
        stuck = {f: k for f, k in rest.items() if any(getattr(x, "sym", None) == self.round.loop.var for x in f)}
        return fixed, {f: k for f, k in rest.items() if f not in stuck}

    monkeypatch.setattr(spreading._Spreading, "_split", wrong)
    assert differs(GEMM, applied(GEMM, tiles(4, 4, 2)), GEMM_ODD) is not None


def test_copies_without_a_tile_ahead_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = spreading._Spreading._one
    monkeypatch.setattr(spreading._Spreading, "_one", lambda self, c, now: right(self, c, now)[0].then)
    assert differs(GEMM, applied(GEMM, tiles(4, 4, 2)), [{"M": 13, "N": 11, "K": 17}], elements=13 * 17) is not None
