"""The main job from Python: searches, results, kernels to call, help and completion, what notebooks show."""

from __future__ import annotations

import inspect
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ktc
from ktc.ir.diagnostics import KtcError
from ktc.live.board import Board, after
from ktc.passes.core.catalogue import PASSES
from ktc.python.notebook_progress import _Standing, showing_here
from ktc.python.search_results import RunResult
from tests.ktc.live.test_live import BEGIN, BOUND, ORIGINAL, about, result, tune

SCALE = """
__global__ void scale(const float* __restrict__ x, float* __restrict__ y, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = factor * x[i];
}
void launch(const float* x, float* y, float factor, int n) { scale<<<(n + 255) / 256, 256>>>(x, y, factor, n); }
"""
WORKLOAD = """
[kernel]
source = "k.cu"
name = "scale"
[[args]]
name = "x"
dtype = "f32"
shape = ["n"]
role = "in"
[[args]]
name = "y"
dtype = "f32"
shape = ["n"]
role = "out"
[[args]]
name = "factor"
dtype = "f32"
role = "scalar"
value = 2.0
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[[scenario]]
name = "large"
sizes = { n = 300000 }
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scale")
    (folder / "k.cu").write_text(SCALE)
    (folder / "workload.toml").write_text(WORKLOAD)
    return folder


@pytest.fixture(scope="module")
def tuned(source: Path) -> tuple[RunResult, list[str]]:
    """One real run on the CPU, with every warning an error; and the events that were heard."""
    heard: list[str] = []
    p = ktc.load(str(source)).apply("raise").unroll(loop="i", factor="$U:1,2")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = ktc.tune(
            p, device="numba", budget=2, out=source / "out", quiet=True, progress=lambda e: heard.append(e["event"])
        )
    return run, heard


def test_a_run_has_its_numbers_code_and_program(tuned: tuple[RunResult, list[str]]) -> None:
    run, heard = tuned
    assert heard[0] == "begin" and heard[-1] == "done"
    assert list(run.scenarios) == ["large"] and run.speedup > 0
    assert "def scale" in run.text and run.program.lower("numba").text == run.text
    assert repr(run).startswith("<RunResult scale on ") and "large" in str(run) and len(repr(run)) < 200
    assert run.page().read_text().startswith("<!doctype html>")


def test_a_run_is_a_function_of_arrays(tuned: tuple[RunResult, list[str]]) -> None:
    run, _ = tuned
    x = np.arange(1000, dtype=np.float32)
    np.testing.assert_array_equal(run.kernel(x, factor=3.0), 3 * x)
    y = np.empty_like(x)
    run.kernel.into(x, y, factor=2.0)
    np.testing.assert_array_equal(y, 2 * x)
    with pytest.raises(TypeError, match="float64"):
        run.kernel(x.astype(np.float64), factor=2.0)
    assert "scale(x, factor) on numpy arrays" in repr(run.kernel)
    assert "x: f32 [n], read" in (run.kernel.__doc__ or "") and run.kernel is run.kernel


def test_a_run_is_exported(tuned: tuple[RunResult, list[str]], tmp_path: Path) -> None:
    run, _ = tuned
    folder = ktc.export(run, out=tmp_path / "out")
    assert folder == tmp_path / "out" and (folder / "selftest.py").is_file()
    with pytest.raises(KtcError, match="to= one of auto, torch"):
        ktc.export(run, to="cuda")


def test_a_kernel_of_several_is_named(tmp_path: Path) -> None:
    path = tmp_path / "two.cu"
    path.write_text(SCALE + "__global__ void other(float* x) { x[threadIdx.x] = 1; }")
    assert ktc.load(str(path), kernel="scale").kernel.name == ktc.load(str(path), name="scale").kernel.name == "scale"
    with pytest.raises(KtcError) as e:
        ktc.optimize(str(path), device="numba")
    assert "kernel='scale'" in e.value.hint


def test_optimize_takes_a_program_without_passes(source: Path, tmp_path: Path) -> None:
    p = ktc.load(str(source))
    with pytest.raises(KtcError, match="without any"):
        ktc.optimize(p.apply("raise"))
    with pytest.raises(KtcError, match="no open knob"):
        ktc.tune(p, "raise")
    with pytest.raises(KtcError, match="no device kind 'abacus'"):
        ktc.optimize(p, device="abacus", out=tmp_path)


def test_every_pass_is_a_method_with_a_signature_and_help(source: Path) -> None:
    p = ktc.load(str(source)).apply("raise")
    for name, each in PASSES.items():
        method = getattr(p, name.replace("-", "_") + ("_" if name == "raise" else ""))
        named = [q.name.replace("-", "_") for q in each.parameters if q.name != "*"]
        taken = inspect.signature(method).parameters
        assert [n for n in taken if n != "values"] == named, name
        assert all(v.annotation is not inspect.Parameter.empty for v in taken.values()), name
        assert all(f"    {n}: " in method.__doc__ for n in named) and method.__name__ in dir(p), name
    assert (
        str(inspect.signature(p.unroll))
        == "(*, loop: str | Cursor, factor: int | str | Literal['full'] = '$U') -> Program"
    )
    assert "before" in (p.unroll.__doc__ or "") and "E-UNROLL-FULL" in (p.unroll.__doc__ or "")
    with pytest.raises(AttributeError, match="no attribute or pass 'unrol'"):
        p.unrol  # noqa: B018


def test_values_show_themselves_in_a_line(source: Path) -> None:
    p = ktc.load(str(source))
    assert repr(p) == "<Program scale: as it is>"
    open_ = p.apply("raise").unroll(loop="i")
    assert repr(open_) == "<Program scale: raise | unroll{loop=i}; U in 1,2,4,8,16>"
    assert repr(open_.unroll(loop="z")).endswith("refused, no loop 'z' in this kernel [E-PLACE]>")
    assert repr(open_.loop("i")).startswith("<Cursor to loop i of scale")
    code = open_.lower("cuda", U=2)
    assert repr(code).startswith("<Emitted scale for cuda") and str(code) == code.text
    assert repr(p.apply("raise").sites("unroll")["unroll"][0]).startswith("Site('unroll{loop=i factor=$U}'")


HOSTILE = "<script>alert(1)</script>"


def test_notebooks_show_markup_that_is_closed_and_escaped(tuned: tuple[RunResult, list[str]], source: Path) -> None:
    run, _ = tuned
    p = ktc.load(str(source)).apply("raise")
    for shown in (p._repr_html_(), p.unroll(loop="z")._repr_html_(), run._repr_html_()):
        assert shown.startswith('<div class="ktc">') and shown.count("<table") == shown.count("</table>") >= 1
    named = about("improvement", HOSTILE, seconds=50e-6)
    drawn = notebook(BEGIN | {"scenarios": [HOSTILE]}, named | {"scenario": HOSTILE})
    assert "<script" not in drawn[-1] and "&lt;script" in drawn[-1]


def notebook(*events: dict[str, Any]) -> list[str]:
    """What a notebook was told to draw."""
    drawn: list[str] = []

    class Handle:
        def update(self, value: Any) -> None:
            drawn.append(value._repr_html_())

    def display(value: Any, display_id: bool) -> Handle:
        drawn.append(value._repr_html_())
        return Handle()

    module, inner = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    module.get_ipython = lambda: types.SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    inner.display = display  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "IPython", module)
        patch.setitem(sys.modules, "IPython.display", inner)
        with showing_here() as show:
            for e in events:
                show(e)
    return drawn


def test_a_notebook_has_one_table_that_changes(capsys: pytest.CaptureFixture[str]) -> None:
    best = about("improvement", "fast", seconds=60e-6)
    drawn = notebook(BEGIN, ORIGINAL, BOUND, best, tune(50e-6, "faster"))
    assert "60.0 µs, verified" in drawn[-1] and "50.0 µs ±1.0 %, not yet verified" in drawn[-1]
    assert "TESTED" in notebook(BEGIN, ORIGINAL, best, result(60, "fast"))[-1]
    said = capsys.readouterr()
    assert said.err == said.out == ""


def test_where_only_text_is_shown_the_table_is_lines() -> None:
    shown = _Standing(after(after(Board(), BEGIN), ORIGINAL))
    assert "measured" in repr(shown) and "µs" in repr(shown) and " at 0x" not in repr(shown)
    assert "<table" in shown._repr_html_()


def test_elsewhere_there_are_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with showing_here() as show:
        show(BEGIN)
    assert capsys.readouterr().err.startswith("k on a GPU (cuda)")
    with showing_here(quiet=True) as show:
        show(BEGIN)
    assert capsys.readouterr().err == ""


def test_what_a_program_is_asked_for_shows_itself_in_a_line_and_in_a_notebook() -> None:
    k = ktc.load("silu_and_mul").apply("raise")
    verdict, code, facts = k.verify(device="none"), k.lower("cuda"), k.facts()
    assert repr(verdict).startswith("<Verdict TESTED") and "Rung(" not in repr(verdict)
    assert all(f"<td>{r.name}</td>" in verdict._repr_html_() for r in verdict.rungs)
    assert "&lt;__half, V&gt;" not in code._repr_html_() and "__global__" in code._repr_html_()
    assert repr(facts).startswith("<ProgramFacts at ") and len(repr(facts)) < 200
    assert repr(ktc.list_passes()["unroll"]).startswith("<pass unroll: ")
