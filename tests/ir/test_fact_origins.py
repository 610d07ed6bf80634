"""Facts of parameters and where they come from: what launchers test, and what is no ground for a rewrite."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktc
from ktc import emission
from ktc.backends.launchers.launch_geometry import geometry
from ktc.driver.reliance import Resting, least_assuming
from ktc.ir.diagnostics import KtcError
from ktc.ir.fact_origins import facts_of, launch_tests, unvouched, unvouched_pairs, without
from ktc.ir.kernel import Kernel, Param
from ktc.ir.text import parse_kernel, print_expr, print_kernel
from ktc.ir.workload import Workload
from ktc.passes.core.base import Refused, Result, Step

TEXT = """\
kernel rows(y: f32*, n: i32 range 1..4096 origin guessed, d: i32 divisible_by 8 origin observed, m: i32 range 1..)
  launch grid(n) block(32)
  assume m >= 4 origin proven
  assume n % 2 == 0 origin guessed
  y[threadIdx.x] = 0.0
"""

SOURCE = """\
__global__ void scale(float* y, const float* x, const float* w, int rows, int cols) {
  int row = blockIdx.x;
  for (int c = threadIdx.x; c < cols; c += blockDim.x)
    y[(long long)row * cols + c] = x[(long long)row * cols + c] * w[c];
}
void launch(float* y, const float* x, const float* w, int rows, int cols) {
  scale<<<rows, 256>>>(y, x, w, rows, cols);
}
"""

WORKLOAD = """\
[kernel]
source = "k.cu"
name = "scale"

[[args]]
name = "y"
dtype = "f32"
shape = ["rows", "cols"]
role = "out"
align = 16
guessed = ["align"]

[[args]]
name = "x"
dtype = "f32"
shape = ["rows", "cols"]
role = "in"
noalias = true
guessed = ["noalias"]

[[args]]
name = "w"
dtype = "f32"
shape = ["cols"]
role = "in"

[[args]]
name = "rows"
dtype = "i32"
role = "scalar"
value = "rows"
range = [1, 1024]
guessed = ["range"]

[[args]]
name = "cols"
dtype = "i32"
role = "scalar"
value = "cols"
range = [1, 4096]
divisible_by = 4
guessed = ["divisible_by", "range"]

[[scenario]]
name = "small"
sizes = { rows = 8, cols = 64 }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "k.cu").write_text(SOURCE)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    return tmp_path


def test_the_text_form_keeps_origins() -> None:
    kernel = parse_kernel(TEXT)
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    said = {(f.sym.name, f.kind): f.origin for f in facts_of(kernel)}
    assert said == {("n", "range"): "guessed", ("d", "divisible_by"): "observed", ("m", "range"): "declared"}


def test_an_origin_that_there_is_not_is_an_error_with_its_place() -> None:
    with pytest.raises(KtcError, match="no origin 'hoped'"):
        parse_kernel(TEXT.replace("origin guessed, d", "origin hoped, d"))


def test_a_launcher_tests_what_nobody_vouches_for() -> None:
    tests = [print_expr(e) for e in launch_tests(parse_kernel(TEXT))]
    assert tests == ["n % 2 == 0", "n >= 1", "n <= 4096", "d % 8 == 0"]
    assert [print_expr(e) for e in geometry(parse_kernel(TEXT)).facts] == tests


def test_a_forgotten_fact_is_gone_with_its_origin() -> None:
    kernel = parse_kernel(TEXT)
    assert unvouched(without(kernel, unvouched(kernel))) == ()
    assert "1..4096" not in print_kernel(without(kernel, unvouched(kernel)))


def test_a_draft_is_no_promise(folder: Path) -> None:
    kernel = Workload.load(folder).load_kernel()
    origins = {(f.sym.name, f.kind): f.origin for f in facts_of(kernel)}
    assert origins == {
        ("y", "align"): "guessed", ("rows", "range"): "guessed", ("cols", "divisible_by"): "guessed",
        ("cols", "range"): "guessed", ("x", "noalias"): "guessed",
    }  # fmt: skip


def test_a_guess_that_no_launcher_can_test_is_no_ground(folder: Path) -> None:
    """Which elements of ``w`` are read, only memory says: nothing shows that they are none of ``x``."""
    (folder / "k.cu").write_text(SOURCE.replace("w[c]", "w[(int)w[c]]"))
    kernel = Workload.load(folder).load_kernel()
    assert not kernel.param("x").noalias and all(f.kind != "noalias" for f in facts_of(kernel))


def test_what_overlaps_is_asked_of_pairs_of_which_one_is_written(folder: Path) -> None:
    kernel = Workload.load(folder).load_kernel()
    assert [(p.sym.name, q.sym.name) for p, q in unvouched_pairs(kernel)] == [("y", "x")]
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    assert unvouched_pairs(without(kernel, unvouched(kernel))) == []


@pytest.mark.parametrize("bad", ['guessed = ["size"]', 'guessed = "range"', 'guessed = ["align", "range"]'])
def test_guesses_are_promises_of_the_same_table(folder: Path, bad: str) -> None:
    path = folder / "workload.toml"
    path.write_text(WORKLOAD.replace('guessed = ["align"]', bad))
    with pytest.raises(KtcError, match="guessed"):
        Workload.load(folder)


def resting(folder: Path, script: str) -> Resting:
    return emission.resting(ktc.load(str(folder)).apply(script).ok, "cuda", {})


VECTORS = "raise | distribute{loop=c map=[vec 4, thread.x 64, seq]}"


def test_what_a_kernel_rests_on_is_what_its_text_would_lack(folder: Path) -> None:
    found = resting(folder, VECTORS)
    assert "y aligned to 16 bytes" in found.conditions and "cols % 4 == 0" in found.conditions
    assert not any("1024" in c for c in found.conditions), "the range of rows plays no part"
    assert resting(folder, "raise").conditions == ()


def test_without_time_to_look_a_kernel_rests_on_all_that_was_guessed(folder: Path) -> None:
    program = ktc.load(str(folder)).apply(VECTORS).ok
    given = program.original, program.script, program.lower("cuda"), "cuda", lambda *_: True
    hurried, found = least_assuming(*given, seconds=0.0), least_assuming(*given)
    assert found.least and not hurried.least
    assert hurried.facts == unvouched(program.original) and set(found.facts) < set(hurried.facts)
    assert hurried.emitted.text == found.emitted.text


def test_guesses_of_sizes_are_tested_where_the_two_differ_without_them(folder: Path) -> None:
    """A text may be the same whatever the sizes are, and be right for those alone that were verified."""
    program = ktc.load(str(folder)).apply("raise").ok
    given = program.original, program.script, program.lower("cuda"), "cuda"
    kept = least_assuming(*given, lambda *_: False)
    assert {f.kind for f in kept.facts} == {"range", "divisible_by"}
    assert kept.emitted.text == least_assuming(*given, lambda *_: True).emitted.text


def test_narrow_index_on_a_drafted_range_is_tested_at_the_launch(folder: Path) -> None:
    """What ``ktc init`` guessed became a promise: 64-bit indices were narrowed and no launcher asked."""
    found = resting(folder, "raise | narrow-index")
    assert (
        "int row" in found.emitted.text and found.emitted.text == resting(folder, "raise | narrow-index").emitted.text
    )
    tests = [print_expr(e) for e in geometry(found.emitted.kernel).facts]
    assert any("rows" in t and "cols" in t and "<=" in t for t in tests)


def test_the_launcher_falls_back_where_a_guess_fails(folder: Path) -> None:
    text = printed(folder, VECTORS, "launcher").text
    assert "cols % 4 == 0" in text and "scale_original" in text
    assert "applies" not in printed(folder, "raise", "launcher").text, "nothing rests on a guess: nothing is asked"


def test_a_kernel_alone_says_what_its_launcher_would_test(folder: Path) -> None:
    (note,) = printed(folder, VECTORS, "source").notes
    assert "rests on what a draft guessed" in note and "--emit launcher" in note
    assert printed(folder, "raise", "source").notes == ()


def printed(folder: Path, script: str, kind: str) -> emission.Output:
    return emission.emit(ktc.load(str(folder)).apply(script), "cuda", kind, {})


def test_a_script_is_applied_once_to_each_kernel_that_knows_less(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another script begins where the first one did; a text is printed from what was applied for its conditions."""
    from ktc.passes.core import pipeline

    steps: list[str] = []
    raised: list[tuple[Param, ...]] = []
    apply_step = pipeline.apply_step

    def counted(kernel: Kernel, step: Step) -> Result | Refused:
        steps.append(step.name)
        raised.extend([kernel.params] if step.name == "raise" else [])
        return apply_step(kernel, step)

    program = ktc.load(str(folder)).apply(VECTORS).ok
    monkeypatch.setattr(pipeline, "apply_step", counted)
    emission.emit(program, "cuda", "source", {})
    assert len(set(raised)) == len(raised) > 1
    steps.clear()
    emission.emit(program, "cuda", "launcher", {})
    assert steps == []
