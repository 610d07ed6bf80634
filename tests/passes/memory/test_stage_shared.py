"""stage-shared: footprints, their copies at the edges, whole tiles, refusals."""

from __future__ import annotations

import dataclasses
import re

import pytest

from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Barrier, If, Store
from ktc.ir.storage import is_shared
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.text.printer import print_expr
from ktc.ir.walk import map_body, walk
from ktc.passes.lowering import materialise
from ktc.passes.memory import region_reads, tile_copy
from tests.passes.checks import applied, arguments, body_of, differs, refused
from tests.passes.tile_sources import (
    GEMM,
    GEMM_ODD,
    GEMM_SIZES,
    REGISTERS,
    SIMPLE,
    SQUARES,
    STAGED,
    STAR,
    STAR_SIZES,
    TRANSPOSE,
)  # fmt: skip

PLAIN = f"{SIMPLE} | register-tile{{loop=k_tile}} | stage-shared{{array=A loop=k_tile}}"
STAR_TILED = (
    "tile{loops=y,x sizes=4,8} | distribute{loop=y map=[thread.y 2, unroll 2]}"
    " | distribute{loop=x map=[thread.x 4, unroll 2]}"
)
STAR_BARE = f"{STAR_TILED} | stage-shared{{array=a loop=x_tile fill=none}}"
STAR_STAGED = f"{STAR_TILED} | stage-shared{{array=a loop=x_tile}}"
TURNED = (
    "tile{loops=row,col sizes=8,8} | distribute{loop=row map=[seq]} | distribute{loop=col map=[thread.y 2, unroll 4]}"
    " | distribute{loop=row map=[thread.x 4, unroll 2]} | stage-shared{array=in loop=col_tile}"
)


def test_before_and_after() -> None:
    text = body_of(applied(GEMM, PLAIN))
    assert (
        text[text.index("      array A_s") : text.index("      par row_2")]
        == """\
      array A_s: shared f32[4, 4] align 16
      for k_tile in 0..K step 4
        par A_i in 0..16 @ [thread.x 4, thread.y 2, unroll 2]
          A_s[A_i / 4, A_i % 4] = A_i / 4 < M - row_tile * 4 && A_i % 4 < K - k_tile ? A[K * row_tile * 4 + k_tile + A_i / 4 * K + A_i % 4] : 0.0
        par row_1 in 0..min(4, M - row_tile * 4) @ [thread.y 2, unroll 2]
          par col_1 in 0..min(8, N - col_tile * 8) @ [thread.x 4, unroll 2]
            for k in k_tile..min(k_tile + 4, K)
              acc[row_1, col_1] += A_s[row_1, k - k_tile] * B[k * N + (col_tile * 8 + col_1)]
"""  # noqa: E501
    )


def test_a_nest_over_staged_arrays_runs_whole_tiles() -> None:
    text = body_of(applied(GEMM, f"{PLAIN} | stage-shared{{array=B loop=k_tile}}"))
    assert "par row_1 in 0..4 @" in text and "par row_2 in 0..min(4, M - row_tile * 4) @" in text


@pytest.mark.parametrize(
    "script",
    [
        PLAIN,
        f"{PLAIN} | stage-shared{{array=B loop=k_tile}}",
        f"{PLAIN} | stage-shared{{array=B loop=k_tile transpose=yes}}",
    ],
)
def test_meaning_stays_on_awkward_sizes(script: str) -> None:
    assert differs(GEMM, applied(GEMM, script), GEMM_ODD) is None


@pytest.mark.parametrize("script", [STAGED, f"{REGISTERS} | stage-shared{{array=B loop=k_tile.* vec=$V:1,2,4}}"])
def test_meaning_stays_with_vectors(script: str) -> None:
    knobs = {"V": 2} if "$V" in script else {}
    assert differs(GEMM, applied(GEMM, script), GEMM_SIZES, knobs=knobs) is None


def test_a_star_keeps_its_corners_unread() -> None:
    k = applied(STAR, STAR_STAGED)
    assert "array a_s: shared f32[6, 10]" in body_of(k)
    assert differs(STAR, k, STAR_SIZES) is None
    corners = body_of(k).count("||")
    assert corners == 1  # rows and columns of the star; its corners belong to neither


def test_without_zeros_a_copy_is_one_condition_and_one_access() -> None:
    """All that stands before a thread's part of the copy, its share of the tile too: loads first, then stores."""
    k = applied(STAR, STAR_BARE)
    assert differs(STAR, k, STAR_SIZES) is None and "0.0" not in body_of(k)
    lowered = materialise(k)
    plain = [s for s in walk(lowered.body) if isinstance(s, If) and len(s.then) == 1 and not s.orelse]
    moves = [s for s in plain if isinstance(s.then[0], Store) and s.then[0].buffer.name != "b"]
    assert [is_shared(s.then[0].buffer) for s in moves] == [False, True], print_kernel(lowered)
    assert all(re.match(r"[^|]* < 60 && ", print_expr(s.cond)) for s in moves), print_kernel(lowered)


def test_a_nest_keeps_its_guards_over_tiles_without_zeros() -> None:
    k = applied(GEMM, f"{PLAIN} | stage-shared{{array=B loop=k_tile fill=none}}")
    assert "par row_1 in 0..min(4, M - row_tile * 4) @" in body_of(k) and "par row_1 in 0..4 @" not in body_of(k)
    assert differs(GEMM, k, GEMM_SIZES) is None


@pytest.mark.parametrize(
    "more", ["async-copy{loop=k_tile}", "pad-shared{array=B_s by=1}", "multi-buffer{loop=k_tile stages=2}"]
)
def test_passes_for_copies_take_those_without_zeros(more: str) -> None:
    bare = f"{SIMPLE} | register-tile{{loop=k_tile}} | stage-shared{{array=B loop=k_tile fill=none}}"
    assert differs(GEMM, applied(GEMM, f"{bare} | {more}"), GEMM_SIZES) is None


def test_an_arm_of_a_star_that_is_left_out_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    merged = tile_copy._merged
    monkeypatch.setattr(tile_copy, "_merged", lambda taps, path: merged(taps, path)[:1])
    assert differs(STAR, applied(STAR, STAR_BARE), STAR_SIZES) is not None


def test_a_transpose_through_shared_memory() -> None:
    assert differs(TRANSPOSE, applied(TRANSPOSE, TURNED), SQUARES) is None


def test_parts_at_an_unknown_distance_get_a_tile_each() -> None:
    """A product of a matrix with itself: rows of one tile times rows of another."""
    syrk = parse_kernel("""\
kernel syrk(C: f32* restrict, A: f32 const* restrict, N: i32, K: i32)
  par i in 0..N @ [thread.y 2, block.y]
    par j in 0..N @ [thread.x 4, block.x]
      var acc: f32 = 0.0
      for k in 0..K
        acc += A[i * K + k] * A[j * K + k]
      C[i * N + j] = acc
""")
    tiled = SIMPLE.replace("row", "i").replace("col", "j")
    k = applied(syrk, f"{tiled} | register-tile{{loop=k_tile}} | stage-shared{{array=A loop=k_tile}}")
    assert "array A_s: shared f32[4, 4]" in body_of(k) and "array A_s_1: shared f32[8, 4]" in body_of(k)
    assert "[A_i % 4" not in body_of(k) and " A[" in body_of(k)
    assert differs(syrk, k, [{"N": n, "K": m} for n, m in ((1, 1), (5, 3), (8, 4), (9, 5), (13, 17))]) is None


def test_every_derived_barrier_is_needed() -> None:
    """All but the last: that the loop over what is left has one round at most is not seen."""
    lowered = materialise(applied(GEMM, STAGED))
    barriers = [s for s in walk(lowered.body) if isinstance(s, Barrier)]
    args = arguments(GEMM, 600, M=9, N=20, K=13)
    assert run(lowered, args).ok and len(barriers) == 4
    for b in barriers[:-1]:
        fewer = lowered.with_(body=map_body(lowered.body, lambda s, b=b: None if s is b else s))
        assert any(f.kind == "race" for f in run(fewer, args).findings), b


HEAD = "kernel k(C: f32* restrict, A: f32 const* restrict, M: i32, K: i32)\n  par t in 0..cdiv(M, 8) @ [block.x]\n"
ROWS = HEAD + "    par row in t * 8..min(t * 8 + 8, M) @ [thread.x 8]\n"
AT = "stage-shared{array=A loop=t}"
BROKEN_OFF = "      for k in 0..3\n        if C[row] > 0.0\n          break\n        C[row] = A[row]\n"


@pytest.mark.parametrize(
    ("source", "script", "code"),
    [
        (ROWS + "      C[row] = A[row * row]\n", AT, "E-STAGE-FOOTPRINT"),
        (ROWS + "      C[row] = A[row / 3]\n", AT, "E-STAGE-FOOTPRINT"),
        (ROWS + "      for k in 0..K\n        C[row] = A[row * K + k]\n", AT, "E-STAGE-FOOTPRINT"),
        (ROWS + "      for k in 0..3\n        C[row] = k > 1 ? A[row] : 0.0\n", AT, "E-STAGE-GUARD"),
        (ROWS + "      C[row] = C[row] > 0.0 ? A[row] : 0.0\n", AT, "E-STAGE-GUARD"),
        (ROWS + "      C[row] = row / K > 0 ? A[row] : 0.0\n", AT, "E-STAGE-GUARD"),
        (ROWS + BROKEN_OFF, AT, "E-STAGE-GUARD"),
        (ROWS + "      C[row] = row > 0 ? A[row - 1] : 0.0\n", "stage-shared{array=A loop=t vec=2}", "E-STAGE-VEC"),
        (ROWS + "      for s = 1; s * 2 < K; s + 1\n        C[row] = A[row]\n", AT, "E-STAGE-FOOTPRINT"),
        (ROWS + "      C[row] = A[row]\n", "stage-shared{array=C loop=t}", "E-STAGE-WRITTEN"),
        ((ROWS + "      C[row] = A[row]\n").replace("restrict", ""), AT, "E-STAGE-WRITTEN"),
        (ROWS + "      C[row] = A[row]\n", "stage-shared{array=A loop=row}", "E-STAGE-LOOP"),
        (ROWS + "      for k in 0..K\n        C[row] = A[row]\n", "stage-shared{array=A loop=k}", "E-STAGE-LOOP"),
        (ROWS + "      C[row] = 1.0\n", AT, "E-STAGE-NONE"),
        (ROWS + "      C[row] = A[row + 1] + A[row]\n", "stage-shared{array=A loop=t vec=2}", "E-STAGE-VEC"),
        (ROWS + "      C[row] = A[row]\n", "stage-shared{array=A loop=t vec=8}", "E-STAGE-VEC"),
    ],
)  # fmt: skip
def test_refusals(source: str, script: str, code: str) -> None:
    assert refused(parse_kernel(source), script).code == code


def test_a_copy_without_its_guard_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the edge it would read what is not there: out of bounds at the end of the buffer."""
    monkeypatch.setattr(tile_copy, "touched", lambda c, at: None)
    wrong = applied(STAR, STAR_STAGED)
    assert differs(STAR, wrong, [{"h": 13, "w": 17}], elements=13 * 17) is not None


def test_a_footprint_off_by_one_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = region_reads.footprint

    def wrong(touches, *known):
        box = right(touches, *known)
        shifted = [dataclasses.replace(t, coords=(t.coords[0], u.coords[1]))
                   for t, u in zip(box.taps, (*box.taps[1:], box.taps[0]))]  # fmt: skip
        return dataclasses.replace(box, taps=tuple(shifted))

    monkeypatch.setattr(region_reads, "footprint", wrong)
    assert differs(STAR, applied(STAR, STAR_STAGED), STAR_SIZES) is not None


def test_what_the_workload_promises_not_to_overlap_may_be_staged() -> None:
    open_ = (ROWS + "      C[row] = A[row]\n").replace(" restrict", "")
    assert refused(parse_kernel(open_), AT).code == "E-STAGE-WRITTEN"
    promised = open_.replace("C: f32*", "C: f32* noalias")
    assert promised != open_ and "A_s" in body_of(applied(parse_kernel(promised), AT))


# ------------------------------------------------------------------------------------------------ conditions and clamps

RIM = """\
kernel rim(out: f32* restrict, in: f32 const* restrict, H: i32, W: i32)
  par y in 0..H @ [thread.y 4, block.y]
    par x in 0..W @ [thread.x 8, block.x]
      var s: f32 = 0.0
      for dy in 0..3
        for dx = -1; dx <= 1; dx + 1
%s
      out[y * W + x] = s
"""
RIM_TILED = "tile{loops=y,x sizes=4,8} | stage-shared{array=in loop=x_tile}"
BARE_RIM = RIM_TILED.replace("loop=x_tile", "loop=x_tile fill=none")
RIM_SIZES = [{"H": h, "W": w} for h, w in ((1, 1), (2, 3), (4, 8), (5, 9), (11, 17))]
PADDED = (
    "          s += y + dy - 1 >= 0 && y + dy - 1 < H && x + dx >= 0 && x + dx < W ? in[(y + dy - 1) * W + x + dx] : %s"
)
TESTED = """\
          if y + dy >= 1 && y + dy <= H && x + dx >= 0 && !(x + dx >= W)
            s += in[(y + dy - 1) * W + x + dx]"""
LEFT_OUT = """\
          if x + dx < 0 || x + dx >= W
            continue
          s += y + dy - 1 >= 0 && y + dy - 1 < H ? in[(y + dy - 1) * W + x + dx] : 0.0"""
CLAMPED = "          s += in[min(max(y + dy - 1, 0), H - 1) * W + min(max(x + dx, 0), W - 1)]"
WRAPPED = "          s += in[(y + dy - 1 + H) % H * W + (x + dx + W) % W]"
MIRRORED = "          s += in[min(max(y + dy - 1, 0), H - 1) * W + (x + dx < 0 ? 0 : x + dx >= W ? W - 1 : x + dx)]"


def rim(inner: str) -> Kernel:
    return parse_kernel(RIM % inner)


def test_a_rim_that_is_read_is_not_left_out() -> None:
    assert refused(rim(PADDED % "0.0"), BARE_RIM).code == "E-STAGE-FILL"
    assert refused(rim(TESTED), BARE_RIM.replace("none", "some")).code == "E-ARG-RANGE"
    assert differs(rim(TESTED), applied(rim(TESTED), BARE_RIM), RIM_SIZES) is None


@pytest.mark.parametrize("copy", ["flat", "rows"])
@pytest.mark.parametrize(
    "inner",
    [PADDED % "0.0", PADDED % "2.5", TESTED, LEFT_OUT, CLAMPED, WRAPPED, MIRRORED],
    ids=["zeros", "a-number", "if", "continue", "clamped", "wrapped", "mirrored"],
)
def test_a_rim_is_staged_whatever_stands_for_what_is_beyond_it(inner: str, copy: str) -> None:
    k = applied(rim(inner), RIM_TILED.replace("}", f" copy={copy}}}", 2).replace(f" copy={copy}", "", 1))
    assert "array in_s: shared f32[6, 10]" in body_of(k) and body_of(k).count("array") == 1
    assert differs(rim(inner), k, RIM_SIZES) is None


def test_the_copy_makes_the_choice_that_every_read_made() -> None:
    text = body_of(applied(rim(PADDED % "2.5"), RIM_TILED))
    assert (
        text.count("?") == 1
        and ": 2.5" in text
        and "s += in_s[dy + (y - y_tile * 4), dx - -1 + (x - x_tile * 8)]" in text
    )
    assert "H - y_tile" not in text  # that a block has so many rows follows from what is tested of each element


def test_reads_under_different_conditions_keep_them() -> None:
    source = parse_kernel("""\
kernel sides(out: f32* restrict, in: f32 const* restrict, W: i32)
  par x in 0..W @ [thread.x 8, block.x]
    out[x] = (x > 0 ? in[x - 1] : 3.0) + in[x] + (x + 1 < W ? in[x + 1] : 5.0)
""")
    k = applied(source, "tile{loops=x sizes=8} | stage-shared{array=in loop=x_tile}")
    assert "array in_s: shared f32[10]" in body_of(k) and ": 3.0)" in body_of(k) and ": 5.0)" in body_of(k)
    assert differs(source, k, [{"W": w} for w in (1, 2, 7, 8, 9, 17)]) is None


def test_what_each_iteration_reads_alone_stays_where_it_is() -> None:
    """A plane of a volume: the neighbours in it are shared, those before and behind are one iteration's own."""
    source = parse_kernel("""\
kernel plane(v: f32* restrict, u: f32 const* restrict, n: i32, m: i32)
  par x in 0..n @ [thread.x 8, block.x]
    for k in 1..m - 1
      v[k * n + x] = u[k * n + x] + (x > 0 ? u[k * n + x - 1] : 0.0) + u[k * n - n + x] + u[k * n + n + x]
""")
    k = applied(source, "tile{loops=x sizes=8} | register-tile{loop=k} | stage-shared{array=u loop=k}")
    assert body_of(k).count("array u_s") == 1 and body_of(k).count(" u[") == 3
    assert differs(source, k, [{"n": n, "m": m} for n, m in ((1, 3), (8, 4), (9, 5), (17, 7))]) is None


def test_a_copy_without_the_condition_of_its_reads_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = region_reads.contents
    monkeypatch.setattr(
        region_reads, "contents", lambda *a: dataclasses.replace(right(*a), conds=tuple(() for _ in a[1]))
    )
    wrong = applied(rim(PADDED % "0.0"), RIM_TILED)
    assert differs(rim(PADDED % "0.0"), wrong, RIM_SIZES, elements=11 * 17) is not None


def test_what_the_loops_see_to_counts_as_tested() -> None:
    """Four rows an iteration, of which only the last three are tested: that the first exists, the loop's end says."""
    source = parse_kernel("""\
kernel four(out: f32* restrict, in: f32 const* restrict, n: i32)
  par i in 0..cdiv(n, 4) @ [thread.x 8, block.x]
    out[i * 4] = in[i * 4]
    if i * 4 + 1 < n
      out[i * 4 + 1] = in[i * 4 + 1]
    if i * 4 + 2 < n
      out[i * 4 + 2] = in[i * 4 + 2]
    if i * 4 + 3 < n
      out[i * 4 + 3] = in[i * 4 + 3]
""")
    k = applied(source, "tile{loops=i sizes=8} | stage-shared{array=in loop=i_tile}")
    assert body_of(k).count("array in_s") == 1
    assert differs(source, k, [{"n": n} for n in (1, 4, 5, 31, 32, 33, 67)]) is None


WINDOW = parse_kernel("""\
kernel window(out: f32* restrict, x: f32 const* restrict, k: i32, n: i32 range 1..4096)
  par t in 0..n @ [block.x]
    par i in 0..64 @ [thread.x 64]
      var s: f32 = 0.0
      for j in 0..k
        s += x[t * 64 + i + j]
      out[t * 64 + i] = s
""")


def test_a_window_of_unknown_width_says_what_makes_it_known() -> None:
    no = refused(WINDOW, "stage-shared{array=x loop=t}")
    assert no.code == "E-STAGE-FOOTPRINT" and "specialize{k=3}" in no.hint
    assert "array x_s" in body_of(applied(WINDOW, "specialize{k=3} | stage-shared{array=x loop=t}"))


FILTER = """\
kernel filter(out: f32* restrict, in: f32 const* restrict, c: f32 const* restrict, H: i32, W: i32)
  par y in 0..H @ [thread.y 4, block.y]
    par x in 0..W @ [thread.x 8, block.x]
      var s: f32 = 0.0
      for dy in 0..3
        for dx in 0..3
          %s
      out[y * W + x] = s
"""
TAP = "s += (y + dy >= 1 && y + dy <= H && x + dx >= 1 && x + dx <= W ? in[(y + dy - 1) * W + x + dx - 1] : 0.0) * "
FILTERED = (
    "tile{loops=y,x sizes=8,16} | distribute{loop=y map=[seq]} | distribute{loop=x map=[vec 2, thread.x 8]}"
    " | distribute{loop=y map=[unroll 2, thread.y 4]} | register-tile{loop=dy} | stage-shared{array=in loop=x_tile}"
)
EVEN = [{"H": h, "W": w} for h, w in ((1, 2), (3, 8), (9, 16), (8, 18), (17, 34))]


@pytest.mark.parametrize(
    "weight, whole",
    [("c[dy * 3 + dx]", True), ("c[dy * W + dx]", True), ("c[y]", False), ("(x > 3 ? c[dy] : 1.0)", False),
     ("c[dy * 3 + i32(s)]", False)],
    ids=["of-the-filter", "of-sizes", "of-a-row", "under-a-condition", "of-a-value"],
)  # fmt: skip
def test_what_all_read_keeps_no_tile_from_being_whole(weight: str, whole: bool) -> None:
    """Iterations beyond the edge may read what those within read; nobody else's elements."""
    kernel = parse_kernel(FILTER % (TAP + weight))
    k = applied(kernel, FILTERED)
    inner = body_of(k)[body_of(k).index("for dy") :]
    assert ("in 0..8 @" in inner and "in 0..16 @" in inner) == whole, body_of(k)
    if weight != "c[dy * 3 + i32(s)]":
        assert differs(kernel, k, EVEN) is None


def test_a_loop_of_open_length_is_no_reason_to_read() -> None:
    """Where a filter has no taps, nobody reads its weights."""
    kernel = parse_kernel(
        FILTER.replace("W: i32)", "W: i32, n: i32)").replace("dx in 0..3", "dx in 0..min(n, 3)") % (TAP + "c[dx]")
    )
    k = applied(kernel, FILTERED)
    assert differs(kernel, k, [{**s, "n": n} for s in EVEN for n in (0, 2)]) is None
    assert differs(kernel, k, [{"H": 3, "W": 4, "n": 0}], elements=12) is None


def test_a_guarded_copy_of_several_turns_has_one_condition_an_access() -> None:
    """Zero first, then what there is to read: conditions are joined, not nested, and stores stand behind all loads."""
    lowered = materialise(applied(rim(PADDED % "0.0"), RIM_TILED.replace("x_tile", "x_tile copy=rows")))
    text = print_kernel(lowered)
    nested = [s for s in walk(lowered.body) if isinstance(s, If) and any(isinstance(x, If) for x in walk(s.then))]
    assert not any("in_s[" in print_kernel(lowered.with_(body=(s,))) for s in nested if s.then[0] in nested), text
    assert text.index("= in[") < text.index("in_s[")


def test_a_copy_that_stores_vectors_of_what_it_loads_one_by_one() -> None:
    """The tile is aligned, the buffer is not known to be: stores have a lane, loads have none, threads have a guard."""
    unaligned = parse_kernel(print_kernel(TRANSPOSE).replace("const* restrict align 16", "const* restrict"))
    script = (
        "tile{loops=row,col sizes=8,8} | distribute{loop=row map=[seq]} | distribute{loop=col map=[thread.y 4, seq]}"
        " | distribute{loop=row map=[thread.x 32]} | stage-shared{array=in loop=col_tile vec=4}"
    )
    k = applied(unaligned, script)
    assert differs(unaligned, k, [{"rows": n, "cols": m} for n, m in ((1, 4), (7, 8), (13, 20))]) is None


def test_what_reads_the_new_tile_is_no_copy_before_it() -> None:
    """A row that is cached from the tile, through a named value: the tile is filled first."""
    kernel = parse_kernel("""kernel k(x: i32 const* restrict align 16, y: i32* restrict align 16, n: i32 range 1..99)
  par r in 0..n @ [block.x]
    array row: shared i32[16]
    par t in 0..16 @ [thread.x 8, unroll 2]
      let v: i32 = x[r * 16 + t]
      row[t] = v
    par u in 0..16 @ [thread.x 8, unroll 2]
      y[r * 16 + u] = row[u] - row[15 - u]
""")
    k = applied(kernel, "stage-shared{array=x loop=r}")
    text = body_of(k)
    assert text.index("x_s[x_i] =") < text.index("= x_s["), text
    assert differs(kernel, k, [{"n": 3}], elements=48) is None


INTERLEAVED = """\
kernel k(out: f32* noalias align 16, qkv: f32 const* noalias align 16 readonly, n: i32 range 1..4096,
    d: i32 range 1..512)
  launch grid(n) block(64)
  par y in 0..n @ [block.y]
    par x in 0..n @ [thread.x 64, block.x]
      var s: f32 = 0.0
      for c in 0..d
        s += qkv[y * 3 * d + c] * qkv[x * 3 * d + d + c]
      out[y * n + x] = s
"""
TILES = (
    "tile{loops=y,x sizes=16,32} | map{y=[thread.y 8, unroll 2] x=[thread.x 32]} | tile{loops=c sizes=8 tail=exact}"
    " | register-tile{loop=c_tile} | stage-shared{array=qkv loop=c_tile transpose=yes vec=4}"
)


def test_rows_with_others_between_them_are_staged_alone() -> None:
    """Every third row of ``d`` elements is read: the tiles hold these, and whole vectors of ``d`` are all they ask."""
    k = parse_kernel(INTERLEAVED)
    after = applied(k, TILES)
    assert sorted(re.findall(r"array qkv_s\S*: shared (\S+ \S+)", body_of(after))) == ["f32[8, 16]", "f32[8, 32]"]
    assert [print_expr(a.expr) for a in after.assumptions] == ["d % 8 == 0", "d % 4 == 0"]
    assert differs(k, after, [{"n": n, "d": d} for n, d in ((1, 8), (17, 8), (33, 16), (40, 24))], 3000) is None


def test_rows_beside_each_other_are_staged_with_those_between_them() -> None:
    """``y`` goes by three, and its taps are one row apart: all rows are touched."""
    k = parse_kernel(INTERLEAVED.replace("qkv[x * 3 * d + d + c]", "qkv[y * 3 * d + d + c]"))
    after = applied(k, TILES.replace(" transpose=yes vec=4", ""))
    assert "array qkv_s: shared f32[47, 8]" in body_of(after)
    assert differs(k, after, [{"n": n, "d": d} for n, d in ((1, 8), (17, 8), (33, 16))], 3000) is None


def points(*taps: str) -> Kernel:
    """Each of ``n`` queries looks for the nearest of ``m`` points, whose coordinates it reads in the order ``taps``."""
    read = " + ".join(f"abs(q[i * 3 + {c}] - p[k * 3 + {c}])" for c in taps)
    return parse_kernel(f"""\
kernel k(out: i32* noalias align 16, q: f32 const* noalias align 16 readonly, p: f32 const* noalias align 16 readonly,
    n: i32 range 1..4096, m: i32 range 1..4096)
  launch grid((n + 31) / 32) block(32)
  par i in 0..n @ [thread.x 32, block.x]
    var best: f32 = 1000.0
    var nearest: i32 = 0
    for k in 0..m
      var d: f32 = {read}
      if d < best
        best = d
        nearest = k
    out[i] = nearest
""")


POINT_TILES = (
    "tile{loops=i sizes=64} | map{i=[thread.x 32, unroll 2]} | tile{loops=k sizes=16 tail=cut}"
    " | register-tile{loop=k_tile.*} | stage-shared{array=p loop=k_tile.*}"
)


@pytest.mark.parametrize("taps", [("0", "1", "2"), ("2", "0", "1"), ("1", "2", "0")])
def test_coordinates_of_a_point_are_one_row(taps: tuple[str, ...]) -> None:
    """What each iteration reads of ``p`` is a whole point, whichever of its coordinates it reads first."""
    k = points(*taps)
    after = applied(k, POINT_TILES)
    assert "array p_s: shared f32[16, 3]" in body_of(after)
    assert differs(k, after, [{"n": n, "m": m} for n, m in ((1, 1), (65, 16), (70, 37), (3, 15))], 3000) is None


def test_points_that_the_kernel_writes_are_not_staged() -> None:
    """A body that writes what it would stage, or that may under another name, reads what it wrote."""
    text = print_kernel(points("0", "1", "2")).replace("nearest = k", "nearest = k\n        p[k * 3] = best")
    own = parse_kernel(text.replace("p: f32 const*", "p: f32*").replace("noalias readonly", "noalias"))
    assert refused(own, POINT_TILES).code == "E-STAGE-WRITTEN"
    other = parse_kernel(print_kernel(points("0", "1", "2")).replace(" noalias", ""))
    assert refused(other, POINT_TILES).code == "E-STAGE-WRITTEN"


def test_points_are_not_staged_where_a_query_ends_early() -> None:
    early = print_kernel(points("0", "1", "2")).replace("        nearest = k\n", "        nearest = k\n        break\n")
    assert refused(parse_kernel(early), POINT_TILES).code == "E-TILE-BREAK"


BACKWARDS = parse_kernel("""\
kernel turned(y: f32* noalias, x: f32 const* noalias, w: f32 const* noalias, n: i32, m: i32)
  launch grid(cdiv(n, 8)) block(8)
  par t in 0..cdiv(n, 8) @ [block.x]
    par i in 0..min(8, n - t * 8) @ [thread.x 8]
      var s: f32 = 0.0
      for r in 0..3
        for q in 0..2
          s += (t * 8 + i + 1 - r >= 0 && t * 8 + i + 1 - r < n ? x[(t * 8 + i + 1 - r) * m + q] : 0.0) * w[3 * q + r]
      y[t * 8 + i] = s
""")


def test_windows_that_run_backwards() -> None:
    """Gradients by the input of a convolution: the last tap reads the first element."""
    after = applied(BACKWARDS, "stage-shared{array=x loop=t}")
    assert "array x_s: shared f32[10, 2]" in body_of(after) and "x_s[r * -1 + (i + 2), q]" in body_of(after)
    assert differs(BACKWARDS, after, [{"n": n, "m": m} for n, m in ((1, 2), (7, 3), (8, 2), (9, 2), (30, 5))]) is None
    clipped = parse_kernel(print_kernel(BACKWARDS).replace("in 0..3", "in 0..min(3, m)"))
    assert refused(clipped, "stage-shared{array=x loop=t}").code == "E-STAGE-FOOTPRINT"


def test_windows_run_backwards_over_rows_whose_length_is_a_difference() -> None:
    """``m - 1`` is no less than zero where ``m`` is known to be 3 at least; else nobody knows which tap is first."""
    text = print_kernel(BACKWARDS).replace(") * m + q", ") * (m - 1) + q")
    kernel = parse_kernel(text.replace("m: i32", "m: i32 range 3..64"))
    after = applied(kernel, "stage-shared{array=x loop=t}")
    assert "array x_s: shared f32[10, 2]" in body_of(after)
    assert differs(kernel, after, [{"n": n, "m": m} for n, m in ((1, 3), (7, 3), (9, 5), (30, 6))]) is None
    assert refused(parse_kernel(text), "stage-shared{array=x loop=t}").code == "E-STAGE-FOOTPRINT"


WEIGHTS = parse_kernel("""\
kernel channels(y: f32* noalias, w: f32 const* noalias, k_: i32, c_: i32)
  launch grid(cdiv(k_, 8)) block(4)
  par t in 0..cdiv(k_, 8) @ [block.x]
    array acc: f32[8]
    par k in 0..8 @ [unroll 2, thread.x 4]
      acc[k] = 0.0
    for c in 0..c_
      par k in 0..min(8, k_ - t * 8) @ [unroll 2, thread.x 4]
        for r in 0..3
          acc[k] += w[(c * k_ + t * 8 + k) * 3 + r]
    par k in 0..min(8, k_ - t * 8) @ [unroll 2, thread.x 4]
      y[t * 8 + k] = acc[k]
""")


def test_the_dimension_of_a_loop_is_the_last() -> None:
    """What a thread has several of lies together, and is copied so that each thread of a warp has a bank."""
    after = applied(WEIGHTS, "stage-shared{array=w loop=c inner=k}")
    text = body_of(after)
    assert "array w_s: shared f32[3, 8]" in text and "acc[k_1] += w_s[r, k_1]" in text
    assert "w_s[w_i / 4 % 3, w_i / 4 / 3 * 4 + w_i % 4] =" in text, "four channels of a tap, then the next tap"
    assert differs(WEIGHTS, after, [{"k_": k, "c_": c} for k, c in ((1, 1), (8, 2), (9, 0), (21, 3))]) is None
    assert refused(WEIGHTS, "stage-shared{array=w loop=c inner=q}").code == "E-STAGE-INNER"
    assert refused(WEIGHTS, "stage-shared{array=w loop=c inner=k transpose=yes}").code == "E-STAGE-INNER"
