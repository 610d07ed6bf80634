"""multi-buffer, async-copy, prefetch: pipelines of staged tiles; their barriers, refusals and wrong versions."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.ir.interp import run
from ktc.ir.nodes import Alloc, AsyncWait, Barrier, For
from ktc.ir.text import parse_kernel
from ktc.ir.walk import map_body, walk
from ktc.passes.lowering import materialise
from ktc.passes.lowering.sync import derived_barriers as sync
from ktc.passes.memory import async_copy, prefetch, tile_pipeline
from tests.passes.checks import applied, arguments, body_of, differs, refused
from tests.passes.tile_sources import GEMM, GEMM_ODD, GEMM_SIZES, SIMPLE, STAGED

PLAIN = f"{SIMPLE} | register-tile{{loop=k_tile}} | stage-shared{{array=A loop=k_tile}}"
ASYNC = "async-copy{loop=k_tile.*}"
PIPES = [
    "multi-buffer{loop=k_tile stages=2}",
    "multi-buffer{loop=k_tile stages=3}",
    "multi-buffer{loop=k_tile stages=2} | prefetch{loop=k_tile}",
    ASYNC,
    f"{ASYNC} | multi-buffer{{loop=k_tile stages=2}}",
    f"{ASYNC} | multi-buffer{{loop=k_tile stages=4}}",
    f"{ASYNC} | pad-shared{{array=A_s by=4}} | multi-buffer{{loop=k_tile stages=3}}",
]


def loop_of(text: str) -> str:
    return text[text.index("      array A_s") : text.index("      par row_2")]


def test_double_buffering_before_and_after() -> None:
    assert (
        loop_of(body_of(applied(GEMM, f"{PLAIN} | multi-buffer{{loop=k_tile stages=2}}")))
        == """\
      array A_s: shared f32[2, 4, 4] align 16
      if 0 < K
        par A_i in 0..16 @ [thread.x 4, thread.y 2, unroll 2]
          A_s[0, A_i / 4, A_i % 4] = A_i / 4 < M - row_tile * 4 && A_i % 4 < K ? A[K * row_tile * 4 + A_i / 4 * K + A_i % 4] : 0.0
      for k_tile in 0..K step 4
        if k_tile + 4 < K
          par A_i_1 in 0..16 @ [thread.x 4, thread.y 2, unroll 2]
            A_s[(k_tile / 4 + 1) % 2, A_i_1 / 4, A_i_1 % 4] = A_i_1 / 4 < M - row_tile * 4 && A_i_1 % 4 < K - (k_tile + 4) ? A[K * row_tile * 4 + (k_tile + 4) + A_i_1 / 4 * K + A_i_1 % 4] : 0.0
        par row_1 in 0..min(4, M - row_tile * 4) @ [thread.y 2, unroll 2]
          par col_1 in 0..min(8, N - col_tile * 8) @ [thread.x 4, unroll 2]
            for k in k_tile..min(k_tile + 4, K)
              acc[row_1, col_1] += A_s[k_tile / 4 % 2, row_1, k - k_tile] * B[k * N + (col_tile * 8 + col_1)]
"""  # noqa: E501
    )


def test_asynchronous_copies_before_and_after() -> None:
    text = loop_of(body_of(applied(GEMM, f"{PLAIN} | {ASYNC}")))
    assert (
        text[text.index("          async_copy") : text.index("        par row_1")]
        == """\
          async_copy A_s[A_i / 4, A_i % 4] = A[K * row_tile * 4 + k_tile + A_i / 4 * K + A_i % 4] if A_i / 4 < M - row_tile * 4 && A_i % 4 < K - k_tile
        async_commit
        async_wait 0
"""  # noqa: E501
    )


def test_prefetch_before_and_after() -> None:
    k = applied(GEMM, f"{PLAIN} | multi-buffer{{loop=k_tile stages=2}} | prefetch{{loop=k_tile}}")
    text = body_of(k)
    assert "array A_next: f32[16]" in text
    assert "A_s[(k_tile / 4 + 1) % 2, A_i_2 / 4, A_i_2 % 4] = A_next[A_i_2]" in text


@pytest.mark.parametrize("pipe", PIPES)
def test_meaning_stays_on_awkward_sizes(pipe: str) -> None:
    assert differs(GEMM, applied(GEMM, f"{STAGED} | {pipe}"), GEMM_SIZES) is None


TWO_SUMS = parse_kernel("""\
kernel k(C: f32* restrict align 16, A: f32 const* restrict align 16, B: f32 const* restrict align 16, K: i32)
  par t in 0..2 @ [block.x]
    par row in t * 8..t * 8 + 8 @ [thread.x 8]
      var s: f32 = 0.0
      for k in 0..K
        s += A[row * K + k] * B[k]
      for k_1 in 0..K
        s += A[k_1] * B[row * K + k_1]
      C[row] = s
""")
ONE_AFTER_ANOTHER = (
    "tile{loops=k_1 sizes=4 tail=cut} | tile{loops=k sizes=4 tail=cut} | register-tile{loop=k_tile.*}"
    " | stage-shared{array=A loop=k_tile.*} | stage-shared{array=B loop=k_tile.*}"
)


@pytest.mark.parametrize("ahead", [f"{ASYNC} | multi-buffer{{loop=%s stages=3}}", PIPES[2].replace("k_tile", "%s")])
def test_sums_one_after_another_are_pipelines_in_the_same_arrays(ahead: str) -> None:
    script = f"{ONE_AFTER_ANOTHER} | {ahead.replace('%s', 'k_tile,k_1_tile')}"
    k = applied(TWO_SUMS, script)
    arrays = [s.sym.name for s in walk(k.body) if isinstance(s, Alloc) and s.sym.type.space == "shared"]
    assert len(arrays) == len(set(arrays)) == 4, "two for whole tiles, which both sums use, and two for what is left"
    assert differs(TWO_SUMS, k, [{"K": n} for n in (3, 4, 8, 21)]) is None


def test_an_open_number_of_stages() -> None:
    k = applied(GEMM, f"{STAGED} | {ASYNC} | multi-buffer{{loop=k_tile stages=$S}}")
    for stages in (2, 3, 5):
        assert differs(GEMM, k, GEMM_SIZES, knobs={"S": stages}) is None


def test_one_barrier_a_round() -> None:
    """The buffer that is filled and the one that is read are told apart; the tail's loop keeps its two."""
    lowered = materialise(applied(GEMM, f"{STAGED} | {ASYNC} | multi-buffer{{loop=k_tile stages=3}}"))
    loops = [s for s in lowered.body if isinstance(s, For) and s.var.name == "k_tile"]
    assert [sum(isinstance(x, Barrier) for x in walk(s.body)) for s in loops] == [1, 2]
    args = arguments(GEMM, 600, M=9, N=20, K=13)
    barriers = [s for s in walk(lowered.body) if isinstance(s, Barrier)]
    for b in barriers[:-1]:
        fewer = lowered.with_(body=map_body(lowered.body, lambda s, b=b: None if s is b else s))
        assert any(f.kind == "race" for f in run(fewer, args).findings), b


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("multi-buffer{loop=k_tile stages=1}", "E-BUFFER-STAGES"),
        ("multi-buffer{loop=k_tile stages=$S:1,2}", "E-BUFFER-STAGES"),
        ("multi-buffer{loop=k_tile slack=9}", "E-KNOB-EMPTY"),
        ("multi-buffer{loop=k}", "E-BUFFER-LOOP"),
        ("prefetch{loop=k_tile}", "E-PREFETCH-FORM"),
        ("prefetch{loop=k}", "E-PREFETCH-LOOP"),
        ("async-copy{loop=k_tile.*} | async-copy{loop=k_tile.*}", "E-ASYNC-COPIES"),
        ("stage-shared{array=B loop=k_tile.* vec=4 transpose=yes} | async-copy{loop=k_tile.*}", "E-ASYNC-STRIDE"),
    ],
)
def test_refusals(script: str, code: str) -> None:
    assert refused(GEMM, f"{PLAIN} | {script}").code == code


def test_a_loop_without_copies_is_no_pipeline() -> None:
    script = f"{SIMPLE} | register-tile{{loop=k_tile.*}}"
    assert refused(GEMM, f"{script} | multi-buffer{{loop=k_tile}}").code == "E-BUFFER-COPIES"
    assert refused(GEMM, f"{script} | async-copy{{loop=k_tile.*}}").code == "E-ASYNC-COPIES"


def test_two_bytes_are_too_few_for_an_asynchronous_copy() -> None:
    half = parse_kernel("""\
kernel k(C: f16* restrict align 16, A: f16 const* restrict align 16, M: i32)
  par t in 0..cdiv(M, 8) @ [block.x]
    par row in t * 8..min(t * 8 + 8, M) @ [thread.x 8]
      C[row] = A[row]
""")
    assert refused(half, "stage-shared{array=A loop=t} | async-copy{loop=t}").code == "E-ASYNC-SIZE"
    k = applied(half, "stage-shared{array=A loop=t vec=2} | async-copy{loop=t}")
    assert differs(half, k, [{"M": m} for m in (2, 8, 10, 16)]) is None


def test_a_value_carried_through_shared_memory_keeps_its_buffer() -> None:
    source = parse_kernel("""\
kernel k(C: f32* restrict, A: f32 const* restrict, K: i32)
  par t in 0..4 @ [block.x]
    array s: shared f32[4]
    for k in 0..K
      par i in 0..4 @ [thread.x 4]
        s[i] = A[k * 4 + i]
      par i in 0..4 @ [thread.x 4]
        C[k * 16 + t * 4 + i] = s[3 - i]
    par i in 0..4 @ [thread.x 4]
      C[K * 16 + t * 4 + i] = s[i]
""")
    assert refused(source, "multi-buffer{loop=k}").code == "E-BUFFER-FLOW"


# ---------------------------------------------------------------------------------------------------- wrong versions


def test_a_wait_for_too_little_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tile_pipeline._loops

    def wrong(p, how, new):
        def later(s):
            return dataclasses.replace(s, pending=2) if isinstance(s, AsyncWait) else s

        return map_body(whole(p, how, new), later)

    monkeypatch.setattr(tile_pipeline, "_loops", wrong)
    k = applied(GEMM, f"{STAGED} | {ASYNC} | multi-buffer{{loop=k_tile stages=2}}")
    assert differs(GEMM, k, GEMM_SIZES) is not None


def test_a_stale_stage_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the buffer that is being filled."""
    right = tile_pipeline._at

    def wrong(body, new, slot):
        from ktc.ir.fold import add, i32
        from ktc.ir.nodes import Binary, Par

        reading = isinstance(slot, Binary) and not any(isinstance(s, Par) and s.var.name == "A_i" for s in walk(body))
        return right(body, new, Binary("%", add(slot.a, i32(1)), slot.b) if reading else slot)

    monkeypatch.setattr(tile_pipeline, "_at", wrong)
    k = applied(GEMM, f"{PLAIN} | multi-buffer{{loop=k_tile stages=2}}")
    assert differs(GEMM, k, GEMM_ODD) is not None


def test_buffers_wrongly_told_apart_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowering that takes any two buffers for different ones derives too few barriers."""
    monkeypatch.setattr(sync, "apart", lambda a, b: a is not None and b is not None)
    k = applied(GEMM, f"{STAGED} | multi-buffer{{loop=k_tile stages=2}}")
    assert differs(GEMM, k, GEMM_SIZES) is not None


def test_a_copy_that_forgets_its_guard_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = async_copy._single

    def wrong(kernel, s, lane, width):
        made = right(kernel, s, lane, width)
        return tuple(dataclasses.replace(c, valid=None) for c in made) if isinstance(made, tuple) else made

    monkeypatch.setattr(async_copy, "_single", wrong)
    k = applied(GEMM, f"{PLAIN} | {ASYNC}")
    assert differs(GEMM, k, [{"M": 13, "N": 11, "K": 17}], elements=13 * 17) is not None


def test_a_prefetch_of_the_wrong_tile_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Storing before the round computes, under the same buffer."""
    whole = prefetch._split

    def wrong(kernel, s):
        made = whole(kernel, s)
        if not isinstance(made, tuple):
            return made
        *front, loop = made
        return (*front, dataclasses.replace(loop, body=(loop.body[-1], *loop.body[:-1])))

    monkeypatch.setattr(prefetch, "_split", wrong)
    k = applied(GEMM, f"{PLAIN} | multi-buffer{{loop=k_tile stages=2}} | prefetch{{loop=k_tile}}")
    assert differs(GEMM, k, GEMM_ODD) is not None
