# ruff: noqa: E501
"""tensorize: the rewrite, its meaning on awkward sizes, what it refuses, and wrong versions that must be caught."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ktc.backends import emit
from ktc.driver.printing import printed
from ktc.ir.fold import evaluate
from ktc.ir.fragments import FRAGMENTS, Digit
from ktc.ir.interp import equivalent, run
from ktc.ir.kernel import Kernel, bind
from ktc.ir.nodes import Alloc, For, MatrixLoad, Mma
from ktc.ir.text import parse_kernel
from ktc.ir.verifier import verify
from ktc.ir.walk import map_body, walk
from ktc.passes.core.catalogue import PASSES
from ktc.passes.lowering import LoweringError, materialise
from ktc.passes.lowering.tensor import fragment_products as fragments
from tests.passes.checks import applied, body_of, refused

GEMM = parse_kernel("""\
kernel gemm(C: f32* restrict align 16, A: f16 const* restrict align 16, B: f16 const* restrict align 16, M: i32, N: i32, K: i32)
  par row in 0..M @ [thread.y 16, block.y]
    par col in 0..N @ [thread.x 16, block.x]
      var acc: f32 = 0.0
      for k in 0..K
        acc += f32(A[row * K + k]) * f32(B[k * N + col])
      C[row * N + col] = acc * 0.5
""")

STAGED_TEXT = """\
kernel gemm(C: f32* restrict align 16, A: f16 const* restrict align 16, B: f16 const* restrict align 16, M: i32, N: i32, K: i32)
  par rt in 0..cdiv(M, 32) @ [block.y]
    par ct in 0..cdiv(N, 32) @ [block.x]
      array acc: f32[32, 32]
      array As: shared f16[32, 32] align 16
      array Bs: shared f16[32, 32] align 16
      par row in 0..32 @ [thread.y 8, unroll 4]
        par col in 0..32 @ [thread.x 8, unroll 4]
          acc[row, col] = 0.0
      for kt in 0..K step 32
        par i in 0..1024 @ [thread.x 8, thread.y 8, unroll 16]
          As[i / 32, i % 32 ^ i / 64 % 4 * 8] = rt * 32 + i / 32 < M && kt + i % 32 < K ? A[(rt * 32 + i / 32) * K + kt + i % 32] : 0.0_f16
        par j in 0..1024 @ [thread.x 8, thread.y 8, unroll 16]
          Bs[j / 32, j % 32] = kt + j / 32 < K && ct * 32 + j % 32 < N ? B[(kt + j / 32) * N + ct * 32 + j % 32] : 0.0_f16
        par row in 0..32 @ [thread.y 8, unroll 4]
          par col in 0..32 @ [thread.x 8, unroll 4]
            for k in 0..32
              acc[row, col] += f32(As[row, k ^ row / 2 % 4 * 8]) * f32(Bs[k, col])
      par row in 0..32 @ [thread.y 8, unroll 4]
        par col in 0..32 @ [thread.x 8, unroll 4]
          if rt * 32 + row < M && ct * 32 + col < N
            C[(rt * 32 + row) * N + ct * 32 + col] = acc[row, col] * 0.5
"""
STAGED = parse_kernel(STAGED_TEXT)

SIZES = ((1, 1, 1), (16, 8, 16), (17, 9, 15), (33, 31, 32), (40, 70, 47))


def arguments(m: int, n: int, k: int, seed: int = 0) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-8, 8, size).astype(np.float16) for size in (m * k, k * n))
    return {"C": np.zeros(m * n, np.float32), "A": a, "B": b, "M": m, "N": n, "K": k}


def mismatch(kernel: Kernel, sizes=SIZES, before: Kernel = GEMM) -> object:
    return equivalent(before, kernel, [arguments(*s) for s in sizes])


def test_before_and_after() -> None:
    k = applied(GEMM, "tensorize{loop=k warps=2,1 repeat=$FM:(1,2),2}")
    expected = """\
  knob $FM in {1, 2} default 2 owner "tensorize" doc "fragments a warp holds along rows"
  flags reassociates
  par row in 0..M @ [thread.x1 8, unroll 2, unroll $FM, thread.x3 2, block.y]
    par col in 0..N @ [unroll 2, thread.x0 4, unroll 2, thread.x2 1, block.x]
      reduce(+) acc: f32 = 0.0 over k in 0..K @ [seq] strategy m16n8k16_f16
        yield f32(A[row * K + k]) * f32(B[k * N + col])
      C[row * N + col] = acc * 0.5
"""
    assert body_of(k).endswith(expected)


def test_tiles_keep_their_extent() -> None:
    k = applied(GEMM, "tile{loops=row,col sizes=$TM:(32,64),64} | tensorize{loop=k warps=$WM,2}")
    assert "where $TM % (16 * $WM) == 0" in body_of(k)
    assert "@ [thread.x1 8, unroll 2, unroll $TM / (16 * $WM), thread.x3 $WM]" in body_of(k)
    assert "@ [unroll 2, thread.x0 4, unroll 4, thread.x2 2]" in body_of(k)


@pytest.mark.parametrize(
    "script",
    [
        "tensorize{loop=k warps=1,2 repeat=2,1}",
        "tile{loops=row,col sizes=32,16} | tensorize{loop=k warps=2,2 pairs=yes}",
    ],
)
def test_from_global_memory_on_awkward_sizes(script: str) -> None:
    lowered = materialise(applied(GEMM, script))
    assert any(isinstance(s, Mma) for s in walk(lowered.body))
    assert verify(lowered) == []
    assert mismatch(lowered) is None


def tensorized_tiles() -> Kernel:
    """The staged kernel, its copies spread over the threads that tensorize asks for."""
    maps = "".join(f" | distribute{{loop={v} map=[thread.x 128, unroll 8]}}" for v in "ij")
    return applied(STAGED, "tensorize{loop=k warps=2,2}" + maps)


def test_from_shared_memory_by_matrix_loads() -> None:
    lowered = materialise(tensorized_tiles())
    loads = [s for s in walk(lowered.body) if isinstance(s, MatrixLoad)]
    pair = [("As", 8, False), ("Bs", 8, True)]
    assert [(s.buffer.name, s.width, s.trans) for s in loads] == [*pair, *pair]  # of the first step, of the next one
    assert mismatch(lowered, before=STAGED) is None
    assert mismatch(STAGED) is None


def test_the_other_factor_first_and_transposed_operands() -> None:
    """b * a instead of a * b; A stored k-major, B stored column-major."""
    other = parse_kernel("""\
kernel gemm(C: f32* restrict, A: f16 const* restrict, B: f16 const* restrict, M: i32, N: i32, K: i32)
  par row in 0..M @ [thread.y 16, block.y]
    par col in 0..N @ [thread.x 16, block.x]
      var acc: f32 = 1.0
      for k in 0..K
        let b: f32 = f32(B[col * K + k])
        acc += b * f32(A[k * M + row])
      C[row * N + col] = acc
""")
    lowered = materialise(applied(other, "tensorize{loop=k warps=1,1 repeat=1,2}"))
    assert any(isinstance(s, Mma) for s in walk(lowered.body))
    assert mismatch(lowered, before=other) is None


def test_float_results_are_within_the_bound() -> None:
    rng = np.random.default_rng(1)
    m, n, k = 16, 16, 48
    args = arguments(m, n, k) | {x: rng.standard_normal(s).astype(np.float16) for x, s in (("A", m * k), ("B", k * n))}
    lowered = materialise(applied(GEMM, "tensorize{loop=k warps=1,1 repeat=1,1}"))
    got = run(lowered, args, domain="float").outputs["C"].reshape(-1)
    bound = run(lowered, args, domain="bound").outputs["C"].reshape(-1)
    exact = 0.5 * (np.asarray(args["A"], np.float64).reshape(m, k) @ np.asarray(args["B"], np.float64).reshape(k, n))
    assert np.allclose(bound.real, exact.reshape(-1), atol=1e-12)
    assert np.all(np.abs(got - exact.reshape(-1)) <= bound.imag) and bound.imag.max() < 1e-3


@pytest.mark.parametrize("target", ["hip", "opencl", "numba"])
def test_other_targets_sum_per_thread(target: str) -> None:
    text = printed(bind(tensorized_tiles(), {}), target).text
    assert "mma" not in text and "ldmatrix" not in text


def test_a_target_that_lacks_the_instruction_refuses_the_statement() -> None:
    lowered = materialise(applied(GEMM, "tensorize{loop=k warps=1,1 repeat=1,1}"))
    for target in ("hip", "opencl", "cuda-sm70"):
        with pytest.raises(Exception, match="E-BACKEND-MMA"):
            emit(lowered, target)


HEAD = "kernel k(C: f32* restrict, A: f16 const* restrict, B: f16 const* restrict, D: f32 const* restrict, M: i32, N: i32, K: i32)\n"
NEST = "  par row in 0..M @ [thread.y 16, block.y]\n    par col in 0..N @ [thread.x 16, block.x]\n      var acc: f32 = 0.0\n      for k in 0..K\n        {}\n      C[row * N + col] = acc\n"


@pytest.mark.parametrize(
    ("body", "script", "code"),
    [
        (NEST.format("acc += D[row * K + k] * D[k * N + col]"), "tensorize{loop=k}", "E-TENSOR-TYPE"),
        (NEST.format("acc += f32(D[row * K + k]) * f32(B[k * N + col])"), "tensorize{loop=k}", "E-TENSOR-TYPE"),
        (NEST.format("acc += f32(A[row * K + k] * B[k * N + col])"), "tensorize{loop=k}", "E-TENSOR-TYPE"),
        (NEST.format("acc -= f32(A[row * K + k]) * f32(B[k * N + col])"), "tensorize{loop=k}", "E-TENSOR-FORM"),
        (NEST.format("acc = acc * f32(A[row * K + k]) * f32(B[k * N + col])"), "tensorize{loop=k}", "E-TENSOR-FORM"),
        (NEST.format("C[k] += f32(A[row * K + k]) * f32(B[k * N + col])"), "tensorize{loop=k}", "E-TENSOR-FORM"),
        (NEST.format("acc += f32(A[row * K + k]) * f32(B[col])"), "tensorize{loop=k}", "E-TENSOR-OPERAND"),
        (NEST.format("acc += f32(A[row * K + k]) * f32(B[k * N])"), "tensorize{loop=k}", "E-TENSOR-NEST"),
        (NEST.format("acc += f32(A[row * K + k]) * f32(B[k * N + col + row])"), "tensorize{loop=k}", "E-TENSOR-NEST"),
        (
            NEST.format("acc += f32(A[row * K + k]) * f32(B[k * N + col])").replace("0..K", "0..row"),
            "tensorize{loop=k}",
            "E-TENSOR-NEST",
        ),
        (
            NEST.format("acc += f32(A[row * K + k]) * f32(B[k * N + col])").replace("0..K", "0..K step 2"),
            "tensorize{loop=k}",
            "E-TENSOR-FORM",
        ),
        (
            NEST.format("acc += f32(A[row * K + k]) * f32(B[k * N + col])"),
            "tensorize{loop=k fragment=m16n8k16_bf16}",
            "E-TENSOR-TYPE",
        ),
        (
            NEST.format("acc += f32(A[row * K + k]) * f32(B[k * N + col])"),
            "tensorize{loop=k fragment=m4n4k4}",
            "E-TENSOR-FRAGMENT",
        ),
        (NEST.format("acc += f32(A[row * K + k]) * f32(B[k * N + col])"), "tensorize{loop=k warps=2}", "E-ARG-RANGE"),
        (NEST.format("acc += f32(A[row * K + k]) * f32(B[k * N + col])"), "tensorize{loop=row}", "E-TENSOR-FORM"),
        (NEST.format("acc += f32(A[row * K + k]) * f32(B[k * N + col])"), "tensorize{loop=q}", "E-PLACE"),
        (
            NEST.format("acc += f32(A[row * K + k]) * f32(B[k * N + col])"),
            "tile{loops=row,col sizes=24,16} | tensorize{loop=k warps=1,1}",
            "E-TENSOR-DIST",
        ),
    ],
)
def test_refusals(body: str, script: str, code: str) -> None:
    assert refused(parse_kernel(HEAD + body), script).code == code


def test_an_empty_loop_is_no_product() -> None:
    k = parse_kernel(HEAD + NEST.format("acc += f32(A[row * K + k]) * f32(B[k * N + col])"))
    empty = k.with_(body=map_body(k.body, lambda s: dataclasses.replace(s, body=()) if isinstance(s, For) else s))
    assert PASSES["tensorize"].sites(k) and not PASSES["tensorize"].sites(empty)
    assert refused(empty, "tensorize{loop=k}").code == "E-TENSOR-FORM"


def test_lowering_checks_the_distribution_again() -> None:
    """A reduction that names the instruction in loops that are not spread as it spreads them."""
    k = applied(
        GEMM,
        "tensorize{loop=k warps=1,1 repeat=1,1} | distribute{loop=col map=[thread.x0 4, unroll 2, thread.x2 1, block.x]}",
    )
    with pytest.raises(LoweringError, match="E-LOWER-MMA"):
        materialise(k)


# ------------------------------------------------------------------------------------------------- seeded wrong versions


@pytest.mark.parametrize(
    "change",
    [
        {"a": dataclasses.replace(FRAGMENTS["m16n8k16_f16"].a, slot=(Digit(2, 0, 1), Digit(2, 0, 8), Digit(2, 8, 0)))},
        {"b": dataclasses.replace(FRAGMENTS["m16n8k16_f16"].b, lane=(Digit(4, 0, 2), Digit(8, 1, 0)))},
    ],
    ids=["rows and k swapped in a", "b taken by rows"],
)
def test_a_wrong_lane_map_is_caught(change: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = dataclasses.replace(FRAGMENTS["m16n8k16_f16"], **change)
    k = applied(GEMM, "tensorize{loop=k warps=1,1 repeat=1,1}")
    monkeypatch.setattr(fragments, "FRAGMENTS", {wrong.name: wrong})
    assert mismatch(materialise(k)) is not None


def test_a_lost_tail_of_k_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    k = applied(GEMM, "tensorize{loop=k warps=1,1 repeat=1,1}")
    monkeypatch.setattr(
        fragments, "bounds_of", lambda s, x, sides, scope, k, old=fragments.bounds_of: old(s, x, sides, scope, None)
    )
    assert mismatch(materialise(k)) is not None


def test_a_lost_edge_of_the_rows_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    k = applied(GEMM, "tensorize{loop=k warps=1,1 repeat=1,1}")
    old = fragments.bounds_of
    monkeypatch.setattr(fragments, "bounds_of", lambda *args: dataclasses.replace(old(*args), side=None))
    assert mismatch(materialise(k)) is not None


def test_a_lost_barrier_before_matrix_loads_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowering that takes operands of a product for the thread's own, as it may for plain loops."""
    from ktc.passes.lowering import parallel_form

    monkeypatch.setattr(parallel_form, "conflict", lambda before, after, at_once=False: False)
    assert mismatch(materialise(tensorized_tiles()), before=STAGED) is not None


def test_an_undone_swizzle_is_caught() -> None:
    wrong = STAGED_TEXT.replace("k ^ row / 2 % 4 * 8", "k ^ row % 4 * 8")
    maps = "".join(f" | distribute{{loop={v} map=[thread.x 128, unroll 8]}}" for v in "ij")
    k = applied(parse_kernel(wrong), "tensorize{loop=k warps=2,2}" + maps)
    assert mismatch(materialise(k), before=STAGED) is not None


# ---------------------------------------------------------------------------------------------- with the staging passes

SCRIPT = (
    "tile{{loops=row,col sizes=$BM={bm},$BN={bn}}} | tile{{loops=k sizes=$BK={bk} tail=cut}} | register-tile{{loop=k_tile.*}}"
    " | tensorize{{loop=k.* warps={wm},{wn} pairs=yes}}"
    " | stage-shared{{array=A loop=k_tile.* vec=8}} | stage-shared{{array=B loop=k_tile.* vec=8}}"
)


def test_staged_by_passes_on_sizes_of_whole_vectors() -> None:
    script = SCRIPT.format(bm=32, bn=32, bk=32, wm=1, wn=2) + " | swizzle-shared{array=A_s} | swizzle-shared{array=B_s}"
    k = bind(applied(GEMM, script), {})
    lowered = materialise(k)
    assert {s.buffer.name for s in walk(lowered.body) if isinstance(s, MatrixLoad)} == {"A_s", "B_s"}
    assert mismatch(lowered, sizes=((8, 8, 8), (33, 40, 72), (40, 24, 104))) is None


def test_tiles_beyond_the_static_limit_are_the_launchs() -> None:
    lowered = materialise(bind(applied(GEMM, SCRIPT.format(bm=128, bn=256, bk=128, wm=2, wn=4)), {}))
    assert lowered.launch is not None and str(lowered.launch.dynamic_shared)
    assert {s.sym.name for s in walk(lowered.body) if isinstance(s, Alloc) and s.dynamic} == {"A_s", "B_s"}
    assert evaluate(lowered.launch.dynamic_shared, lowered.knob_values) == (128 + 256) * 128 * 2
    small = materialise(bind(applied(GEMM, SCRIPT.format(bm=128, bn=128, bk=32, wm=2, wn=2)), {}))
    assert small.launch is not None and small.launch.dynamic_shared is None
