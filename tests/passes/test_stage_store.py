"""stage-store: results through shared memory, stored by neighbouring threads; refusals and wrong versions."""

from __future__ import annotations

import numpy as np
import pytest
from checks import applied, refused
from ktc.ir.interp import equivalent, run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Barrier, Store
from ktc.ir.text import canonical, parse_kernel, print_kernel
from ktc.ir.verifier import verify
from ktc.ir.walk import map_body, walk
from ktc.passes import stage_store
from ktc.passes.lowering import materialise
from test_tensorize import GEMM, arguments
from test_tensorize_warpgroup import LAYOUT, PIPELINE

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
    assert "assume n % 4 == 0 origin runtime_guard" in text
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
    from ktc.passes.catalogue import PASSES

    assert [s.step for s in PASSES["stage-store"].sites(TURN)] == ["stage-store{array=out}"]
