"""stage-store: results through shared memory, stored by neighbouring threads; refusals and wrong versions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.interp import equivalent, run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Barrier, Binary, For, Load, Produce, Stmt, Store, Var, fresh, i32
from ktc.ir.text import canonical, parse_kernel, print_kernel
from ktc.ir.types import I32
from ktc.ir.verifier import verify
from ktc.ir.walk import map_body, walk
from ktc.passes.lowering import materialise
from ktc.passes.memory import stage_store
from tests.passes.checks import applied, refused
from tests.passes.tensor.test_tensorize import GEMM, arguments
from tests.passes.tensor.test_tensorize_warpgroup import LAYOUT, PIPELINE

TURN = parse_kernel("""\
kernel turn(out: f32* restrict align 16, in: f32 const* restrict, m: i32, n: i32)
  par bi in 0..cdiv(m, 32) @ [block.y]
    par bj in 0..cdiv(n, 128) @ [block.x]
      par i in 0..min(32, m - bi * 32) @ [thread.x 32]
        par j in 0..min(128, n - bj * 128) @ [unroll 16, thread.y 8]
          out[(bi * 32 + i) * n + (bj * 128 + j)] = in[(bj * 128 + j) * m + (bi * 32 + i)]
""")
SIZES = ((1, 4), (32, 128), (33, 132), (31, 124))


def arrays(m: int, n: int) -> dict:
    rng = np.random.default_rng(m)
    source = rng.integers(-99, 99, m * n).astype(np.float32)
    return {"out": np.zeros(m * n, np.float32), "in": source, "m": m, "n": n}


def mismatch(k: Kernel) -> object:
    return equivalent(TURN, k, [arrays(*s) for s in SIZES])


def test_before_and_after() -> None:
    k = applied(TURN, "stage-store{array=out}")
    text = print_kernel(k)
    assert "array out_s: shared f32[32, 128] align 16" in text
    assert "out_s[i, j] = in[(bj * 128 + j) * m + (bi * 32 + i)]" in text
    assert "par out_r in 0..min(32, m - bi * 32) @ [thread.y 8, unroll 4]" in text
    assert "par out_c in 0..min(128, n - bj * 128) @ [vec 4, thread.x 32, unroll 1]" in text
    assert "out[(bi * 32 + out_r) * n + (bj * 128 + out_c)] = out_s[out_r, out_c]" in text
    assert "assume n % 4 == 0 origin guessed" in text
    assert verify(k) == [] and canonical(parse_kernel(text)) == canonical(k)


@pytest.mark.parametrize("more", ["", " | swizzle-shared{array=out_s}", " | pad-shared{array=out_s by=1}"])
def test_meaning_at_edges(more: str) -> None:
    k = applied(TURN, f"stage-store{{array=out vec={1 if 'pad' in more else 4}}}{more}")
    assert mismatch(k) is None
    low = materialise(k)
    assert mismatch(low) is None and run(low, arrays(33, 132)).findings == []
    wide = [s.width for s in walk(low.body) if isinstance(s, Store) and s.buffer.name == "out"]
    assert wide and ("pad" in more or all(str(getattr(w, "value", w)) == "4" for w in wide))


def test_sums_of_tensor_cores_leave_by_rows() -> None:
    pipeline = (PIPELINE % (64, 1)).replace("stages=2", "stages=2 by=producer") + LAYOUT
    k = materialise(applied(GEMM, pipeline + " | stage-store{array=C} | swizzle-shared{array=C_s unit=4}"))
    assert verify(k) == []
    assert equivalent(GEMM, k, [arguments(72, 72, 128)]) is None


def test_sums_go_to_the_tile_unasked() -> None:
    """Asked one by one, those of a block at the edge took 1.3 us of a product of 1024 x 1504."""
    text = print_kernel(applied(GEMM, PIPELINE % (64, 1) + " | stage-store{array=C}"))
    into, _, out = text.partition("array C_s: ")[2].partition("par C_r in ")
    assert "par row_2 in 0..64 @" in into and "par col_2 in 0..64 @" in into
    assert out.startswith("0..min(64, M - row_tile * 64) @")  # the buffer ends there


@pytest.mark.parametrize("value", ["in[i]", "acc[i, j] + in[j]", "f32(j / m)", "f32(j % m)"])
def test_what_reads_memory_or_may_trap_is_asked_for(value: str) -> None:
    own = print_kernel(TURN).replace("par i in", "array acc: f32[32, 128]\n      par i in", 1)
    for e, asked in ((value, True), ("acc[i, j] * 2.0", False)):
        k = parse_kernel(own.replace("in[(bj * 128 + j) * m + (bi * 32 + i)]", e))
        text = print_kernel(applied(k, "stage-store{array=out}"))
        assert ("par i in 0..min(32, m - bi * 32)" in text) == asked == ("par j in 0..min(128" in text)


HALF = parse_kernel(print_kernel(GEMM).replace("C: f32*", "C: f16*").replace("= acc * 0.5", "= f16(acc * 0.5)"))
OVER = (PIPELINE % (64, 1)).replace("stages=2", "stages=3 by=producer") + " | stage-store{array=C over=B_s}" + LAYOUT


def halves(m: int, n: int, k: int) -> dict:
    return arguments(m, n, k) | {"C": np.zeros(m * n, np.float16)}


def test_the_tile_takes_the_memory_of_a_staged_array_that_is_through() -> None:
    k = applied(HALF, OVER)
    assert verify(k) == [] and canonical(parse_kernel(print_kernel(k))) == canonical(k)
    low = materialise(k)
    assert verify(low) == [] and not any(isinstance(s, Alloc) and s.sym.name == "C_s" for s in walk(low.body))
    assert equivalent(HALF, low, [halves(72, 72, 128), halves(64, 64, 0)]) is None
    assert run(low, halves(64, 72, 320)).findings == []
    moved = {(s.buffer.name, str(getattr(s.width, "value", s.width))) for s in walk(low.body) if isinstance(s, Store)}
    assert {("B_s", "2"), ("C", "8")} <= moved  # pairs in, rows of vectors out, through panels


def test_the_products_are_waited_for_before_the_tile_takes_their_memory() -> None:
    low = materialise(applied(HALF, OVER))
    bare = low.with_(body=map_body(low.body, lambda s: None if isinstance(s, Barrier) else s))
    assert run(bare, halves(64, 64, 128)).findings != []
    text = emit(low, "cuda-sm90").text
    last = text.rindex("wgmma_wait<0>();")
    assert last < text.index("bar.sync 1", last) < text.index("store_vec(&B_s[")


def test_places_in_the_staged_array_are_digits_of_threads_and_counters() -> None:
    """What divisions of whole indices leave to the compiler took 14 more registers and 1.2 us of a product of 2048."""
    text = emit(materialise(applied(HALF, OVER)), "cuda-sm90").text
    out = text[text.index("store_vec(&B_s[") :]
    assert "/ 64" not in out and "% 64" not in out and "(tx0 * 2 + u2 * 8) ^ (tx1 * 8)" in out


def test_the_array_is_the_producer_s_alone_while_it_copies() -> None:
    low = materialise(applied(HALF, OVER))
    tile = next(s.buffer for s in walk(low.body) if isinstance(s, Store) and s.buffer.name == "B_s")
    stores = (Store(tile, (i32(0),) * 4, Load(tile, (i32(0),) * 4)),)

    def inside(s: Stmt) -> Stmt:
        """The tile is stored in the producer's rounds."""
        produces = isinstance(s, For) and isinstance(s.body[0], Produce)
        return dataclasses.replace(s, body=(*s.body, *stores)) if produces else s

    def again(s: Stmt) -> Stmt:
        """The rounds come back: the next tile may be on its way when this one is stored."""
        turn = fresh("turn", I32)
        both = (s, *stores)
        once = For(turn, i32(0), Binary("<", Var(turn), i32(2)), Binary("+", Var(turn), i32(1)), both)
        return once if isinstance(s, For) and isinstance(s.body[0], Produce) else s

    for wrong in (inside, again):
        found = {p.code for p in verify(low.with_(body=map_body(low.body, wrong)))}
        assert "V-PRODUCE" in found


def test_other_arrays_and_fewer_buffers() -> None:
    for change in (("over=B_s", "over=A_s"), ("stages=3", "stages=2")):
        low = materialise(applied(HALF, OVER.replace(*change)))
        assert equivalent(HALF, low, [halves(72, 72, 128)]) is None


@pytest.mark.parametrize(
    ("kernel", "change", "code"),
    [
        (GEMM, ("", ""), "E-STORE-OVER"),  # results of another type
        (HALF, ("over=B_s", "over=nobody"), "E-PLACE"),
        (HALF, ("over=B_s", "over=acc"), "E-STORE-OVER"),
    ],
    ids=["type", "name", "space"],
)  # fmt: skip
def test_what_a_tile_is_not_put_over(kernel: Kernel, change: tuple[str, str], code: str) -> None:
    assert refused(kernel, OVER.replace(*change)).code == code


def test_a_tile_that_does_not_fit_is_refused() -> None:
    wide = (PIPELINE % (256, 4)).replace("stages=2", "stages=2 by=producer") + " | stage-store{array=C over=A_s}"
    found = refused(HALF, wide)
    assert found.code == "E-STORE-OVER" and "64 rows of 256 elements" in found.why


def test_two_launches_of_the_script_are_the_same_text() -> None:
    once, again = (print_kernel(applied(TURN, "stage-store{array=out vec=2}")) for _ in range(2))
    assert once == again


@pytest.mark.parametrize(
    ("change", "script", "code"),
    [
        (("", ""), "stage-store{array=nobody}", "E-PLACE"),
        (("", ""), "stage-store{array=out vec=3}", "E-ARG-RANGE"),
        (("", ""), "stage-store{array=out vec=8}", "E-STORE-SHAPE"),
        (("", ""), "stage-store{array=in}", "E-STORE-TOUCHED"),
        (("= in[", "= out[0] + in["), "stage-store{array=out}", "E-STORE-TOUCHED"),
        (("* n + (bj * 128 + j)] =", "+ (bj * 128 + j) * m] ="), "stage-store{array=out}", "E-STORE-SHAPE"),
        (("par j in 0..min", "par j in i..min"), "stage-store{array=out}", "E-STORE-NEST"),
        (("0..min(128, n - bj * 128)", "0..n"), "stage-store{array=out}", "E-STORE-SHAPE"),
    ],
)
def test_refusals(change: tuple[str, str], script: str, code: str) -> None:
    assert refused(parse_kernel(print_kernel(TURN).replace(*change)), script).code == code


def test_a_tile_read_at_other_places_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = stage_store.Load
    monkeypatch.setattr(stage_store, "Load", lambda tile, at: real(tile, (at[0], stage_store.i32(0))))
    assert mismatch(applied(TURN, "stage-store{array=out}")) is not None


def test_a_missing_barrier_is_found() -> None:
    low = materialise(applied(TURN, "stage-store{array=out}"))
    assert any(isinstance(s, Barrier) for s in walk(low.body)) and any(isinstance(s, Alloc) for s in walk(low.body))
    bare = low.with_(body=map_body(low.body, lambda s: None if isinstance(s, Barrier) else s))
    assert "race" in {f.kind for f in run(bare, arrays(32, 128)).findings}


def test_sites_name_what_fits() -> None:
    from ktc.passes.core.catalogue import PASSES

    assert [str(s.step) for s in PASSES["stage-store"].sites(TURN)] == ["stage-store{array=out}"]
