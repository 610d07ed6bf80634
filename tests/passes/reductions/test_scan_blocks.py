"""scan over blocks: each takes tile after tile, and looks back at those before it."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from ktc.backends import emit, emit_launcher
from ktc.backends.runtimes import open_runtime
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.types import scalar_of
from ktc.ir.workload.input_data import numpy_dtype
from ktc.passes.lowering import LoweringError, materialise
from ktc.passes.reductions.scan import ScanPass
from tests.passes.checks import applied, body_of, differs, refused
from tests.passes.reductions.test_scan import LARGEST, ROWS

EXCLUSIVE = parse_kernel("""\
kernel offsets(out: i32* restrict, x: i32 const* restrict, n: i32)
  par r in 0..1 @ [block.x]
    var sum: i32 = 5
    for i in 2..n
      let a: i32 = x[i] * 2
      out[i] = sum - a
      sum += a
""")
PLANES = parse_kernel("""\
kernel planes(out: f32* restrict, x: f32 const* restrict, p: i32, r: i32, n: i32)
  par k in 0..p @ [block.z]
    par j in 1..r @ [block.y]
      var s: f32 = 1.0
      for i in 0..n
        s += x[(k * r + j) * n + i]
        out[(k * r + j) * n + i] = s
""")
WIDE = parse_kernel("""\
kernel cumsum(out: f32* restrict, x: f32 const* restrict, rows: i32, cols: i32)
  par r in 0..rows @ [block.x]
    var sum: f64 = 0.0
    for i in 0..cols
      sum += f64(x[r * cols + i])
      out[r * cols + i] = f32(sum)
""")
interpreter = importlib.import_module("ktc.ir.interp.run")
ROW_SIZES = [{"rows": r, "cols": c} for r, c in ((1, 4), (2, 32), (3, 132), (1, 128), (2, 256), (1, 520))]
LENGTHS = [{"n": n} for n in (3, 31, 64, 127, 257, 599)]


def over_blocks(source: Kernel, levels: str, blocks: int = 3) -> Kernel:
    rows = "distribute{loop=r map=[block.y]} | " if "par r" in print_kernel(source) else ""
    return applied(source, f"{rows}scan{{loop=i map=[{levels}, block.x {blocks}, seq]}}")


def launched(kernel: Kernel, rows: int = 1) -> list[dict[str, object]]:
    """Arguments of 2000 numbers, in one row or several, and empty scratch memory."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000).astype(np.float32)
    scratch = {
        p.sym.name: np.zeros(64, numpy_dtype(scalar_of(p.sym.type).name))
        for p in kernel.params
        if p.scratch is not None
    }
    return [{"out": np.zeros_like(x), "x": x, "rows": rows, "cols": x.size // rows, **scratch}]


def test_before_and_after() -> None:
    assert (
        body_of(over_blocks(ROWS, "vec 4, thread.x 64, unroll 2"))
        == """\
  assume cols % 4 == 0 origin guessed
  flags reassociates
  par r in 0..rows @ [block.y]
    scan(+) sum: f32 = 0.0 over i in 0..cols @ [vec 4, thread.x 64, unroll 2, block.x 3, seq]
      yield x[r * cols + i]
      out[r * cols + i] = sum
"""
    )


@pytest.mark.parametrize("levels", ["thread.x 32", "vec 4, thread.x 32", "vec 2, thread.x 64, unroll 3"])
@pytest.mark.parametrize("strategy", ["", " strategy shared"])
def test_tiles_compute_what_the_loop_did(levels: str, strategy: str) -> None:
    planes = [{"p": p, "r": r, "n": n} for p, r, n in ((1, 2, 64), (2, 3, 96))]
    for source, sizes in (
        (ROWS, ROW_SIZES),
        (WIDE, ROW_SIZES),
        (EXCLUSIVE, LENGTHS),
        (LARGEST, LENGTHS),
        (PLANES, planes),
    ):
        k = over_blocks(source, levels)
        text = print_kernel(k)
        head = next(line for line in text.splitlines() if "scan(" in line and "@" in line and "trace" not in line)
        k = parse_kernel(text.replace(head, head + strategy))
        fits = [s for s in sizes if "vec" not in levels or s.get("cols", s.get("n", 0)) % 4 == 0]
        assert differs(source, k, fits) is None


def test_a_total_is_told_before_the_tile_of_the_round_before_is_finished() -> None:
    """It goes out before the tile is put together; one register an element lives through the wait."""
    text = print_kernel(materialise(over_blocks(ROWS, "vec 4, thread.x 64, unroll 2")))
    told, waits = text.index("atomic exch sum_words"), text.index("atomic load sum_words")
    assert told < text.index("shfl_up(sum_part[u_5], 1") < waits, text
    assert "sum_part" not in text[waits:] and "sum_held" in text[waits:], text


def test_launches_follow_one_another_and_give_the_same_bits() -> None:
    """Scratch memory is left fit for the next launch; sums do not depend on who finds which prefix."""
    k = materialise(over_blocks(ROWS, "vec 4, thread.x 32"))
    exe = open_runtime("numba").compile(emit(k, "numba"))
    rng = np.random.default_rng(1)
    for rows, cols in ((1, 9000), (3, 1000), (1, 9000)):
        x = rng.normal(size=(rows, cols)).astype(np.float32)
        outs = []
        for _ in range(4):
            args = {"out": np.zeros_like(x), "x": x, "rows": rows, "cols": cols}
            exe.launch(args)
            outs.append(args["out"])
        np.testing.assert_allclose(outs[0], np.cumsum(x, 1, dtype=np.float64), atol=1e-3)
        assert all((o.view(np.uint32) == outs[0].view(np.uint32)).all() for o in outs)


@pytest.mark.parametrize("source", [ROWS, WIDE])
def test_scratch_memory_is_fit_for_a_launch_of_another_shape(source: Kernel) -> None:
    """Whatever tiles the memory was used for, no tag in it says that a tile of the next launch is there."""
    k = materialise(over_blocks(source, "thread.x 32"))
    kept = {n: v for n, v in launched(k)[0].items() if n.startswith("sum_")}
    for launch, rows in enumerate((1, 2, 4, 2, 1), start=1):
        args = {**launched(k, rows)[0], **kept}
        out = run(k, args).outputs
        want = np.cumsum(np.reshape(args["x"], (rows, -1)), 1, dtype=np.float64)
        np.testing.assert_allclose(out["out"].reshape(rows, -1), want, atol=1e-3)
        kept = {n: out[n] for n in kept}
        assert kept["sum_launches"][0] == launch and not kept["sum_tickets"].any() and not kept["sum_done"].any()
        tags = kept["sum_words"] >> 32 if "sum_words" in kept else kept["sum_flags"]
        assert (tags <= launch).all(), "the next launch waits for launch + 1"


def test_values_that_fill_a_word_have_a_flag_and_fences() -> None:
    text = print_kernel(materialise(over_blocks(WIDE, "thread.x 32")))
    told, heard = text.index("sum_told["), text.index("while sum_flag !=")
    assert told < text.index("fence device", told) < text.index("atomic exch sum_flags"), text
    assert heard < text.index("fence device", heard) < text.index("sum_told.cg[", heard), text


def test_the_sanitizer_knows_the_messages_between_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "LANES", 64)  # two blocks at once: later ones find prefixes
    for source, needed in ((WIDE, (0, 1, 3)), (ROWS, (1,))):  # the others repeat what a thread did before
        k = materialise(over_blocks(source, "thread.x 32"))
        (args,) = launched(k, rows=2)
        assert run(k, args).ok
        again = run(k, {**args, **run(k, args).outputs})
        assert again.ok, "the second launch finds the scratch memory of the first"
        text = print_kernel(k)
        assert text.count("fence device") == max(needed) + 1
        for nth in needed:
            parts = text.split("fence device")
            mute = "fence device".join(parts[: nth + 1]) + "fence block" + "fence device".join(parts[nth + 1 :])
            found = {f.kind for f in run(parse_kernel(mute), args).findings}
            assert "race" in found, f"without the {nth}. fence"


@pytest.mark.parametrize(("language", "values"), [("cuda", "__ldcg(&"), ("hip", "load_cg(&")])
def test_what_is_waited_for_is_polled_without_updates_and_never_stale(language: str, values: str) -> None:
    wide = emit(materialise(over_blocks(WIDE, "thread.x 32")), language).text
    assert wide.count("sum_flag = load_relaxed(&sum_flags[") == wide.count(f"{values}sum_told[") == 1, wide
    text = emit(materialise(over_blocks(ROWS, "thread.x 32")), language).text
    assert text.count("sum_word = load_relaxed(&sum_words[") == 1 and "atomicAdd" not in text, text
    assert load(text, name=f"scan.{'cu' if language == 'cuda' else 'hip'}").name == "cumsum", "the text is read back"
    assert "__restrict__ out" in text and "__restrict__ sum_" not in text, "others write to the scratch memory"


def test_launchers_say_what_the_working_memory_must_hold() -> None:
    emitted = emit(materialise(over_blocks(ROWS, "thread.x 32")), "cuda")
    for kind, sign in (("cuda", "//"), ("cupy", "    #")):
        text = emit_launcher(emitted, kind)
        assert f"{sign} Working memory: zero before the first launch" in text, text
        assert f"{sign}   sum_tickets: rows elements" in text, text


def test_opencl_does_not_wait_for_work_groups() -> None:
    k = materialise(over_blocks(ROWS, "thread.x 32"))
    assert "membar.gl" in emit(k, "opencl-nvidia").text
    for profile in ("opencl-cl12", "opencl-cl30-subgroups"):
        with pytest.raises(KtcError, match="E-BACKEND-WAIT"):
            emit(k, profile)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("for base = group;", "for base = group + 1;"),
        ("if p < now", "if p < now - 1"),
        ("k < last_group - base", "k <= last_group - base"),
        ("sum_ahead + sum_held", "0.0 + sum_held"),
        ("waiting = tile", "waiting = tile + 1_u32"),
        ("while u32(sum_word >> 32) != `launch`", "while false"),
    ],
)
def test_wrong_versions_are_caught(old: str, new: str) -> None:
    k = materialise(over_blocks(ROWS, "thread.x 32"))
    text = print_kernel(k)
    assert text.count(old) == 1, text
    for args in launched(k):
        want = run(ROWS, {n: args[n] for n in ("out", "x", "rows", "cols")}, domain="field").outputs["out"]
        assert (run(k, args, domain="field").outputs["out"] == want).all()
        wrong = run(parse_kernel(text.replace(old, new)), args, domain="field", fuel=20_000)
        assert not wrong.ok or not (wrong.outputs["out"] == want).all()


TOTAL = parse_kernel("""\
kernel k(o: f32* restrict, x: f32 const* restrict, t: f32* restrict, n: i32)
  par r in 0..n @ [block.y]
    var s: f32 = 0.0
    for i in 0..n
      s += x[i]
      o[r * n + i] = s
    t[r] = s
""")


def test_refusals() -> None:
    script = "scan{loop=i map=[thread.x 32, block.%s 4, seq]}"
    assert refused(ROWS, script % "x").code == "E-DIST-AXIS"
    assert refused(TOTAL, script % "x").code == "E-SCAN-BLOCKS"
    total = parse_kernel(print_kernel(TOTAL).replace("    t[r] = s\n", ""))
    assert applied(total, script % "x").is_parallel
    ragged = parse_kernel(print_kernel(total).replace("for i in 0..n", "for i in 0..r"))
    assert refused(ragged, script % "x").code == "E-SCAN-BLOCKS"
    several = parse_kernel(print_kernel(total).replace("[block.y]", "[block.y 4, seq]"))
    assert refused(several, script % "x").code == "E-SCAN-BLOCKS"
    for levels in ("seq 2, block.y 4", "block.y", "block.y 4"):
        assert refused(ROWS, f"scan{{loop=i map=[thread.x 32, {levels}]}}").code == "E-SCAN-MAP"


def test_lowering_refuses_what_the_pass_would_not_make() -> None:
    text = print_kernel(over_blocks(ROWS, "thread.x 32")).replace("[block.y]", "[block.y 4, seq]")
    with pytest.raises(LoweringError, match="E-LOWER-SCAN"):
        materialise(parse_kernel(text))


def test_sites_name_an_axis_that_is_free() -> None:
    found = [str(s.step) for s in ScanPass().sites(ROWS)]
    assert found == [
        "scan{loop=i map=[vec $V, thread.x $T, unroll $U, seq]}",
        "scan{loop=i map=[vec $V, thread.x $T, unroll $U, block.y $BLOCKS, seq]}",
    ]
    for text in found:
        applied(ROWS, text)
    assert [str(s.step) for s in ScanPass().sites(TOTAL)] == found[:1]
