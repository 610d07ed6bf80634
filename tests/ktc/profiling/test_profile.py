"""Profiling a program through a driver and CUPTI that need no GPU: what is seen, how it is ranked, what is said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ktc
from ktc.__main__ import main
from ktc.ir.diagnostics import KtcError
from ktc.profiling import Profile, ProfileSettings, profile, profile_run, ranked, unseen, verdict
from ktc.profiling.argument_text import arguments_text
from ktc.profiling.profile_format import Geometry, Launched, Shape, Times
from ktc.profiling.program_limits import listed, short_name
from ktc.profiling.shape_groups import MANY, grouped


@pytest.fixture
def run(built, tmp_path, monkeypatch):
    """Runs the program under the profiler."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(built))
    monkeypatch.setattr(profile_run, "cupti_libraries", lambda program: [built / "libcuda.so.1"])

    def go(*args: str, program: str = "program", clock: str = "auto", folder: str = "p") -> Profile:
        return profile([str(built / program), *args], tmp_path / folder, ProfileSettings(clock))

    return go


@pytest.mark.parametrize(("how", "program"), [("runtime", "program"), ("dlsym", "program"), ("dlsym", "linked")])
def test_launches_are_seen_whatever_way_the_program_reaches_the_driver(run, how, program):
    (process,) = run(how, program=program).processes
    assert process.complete and process.clock == "cupti" and process.device.startswith("NVIDIA H100")
    launched = {f.kernel: f for f in process.launched}
    assert {k: f.launches for k, f in launched.items()} == {
        "scale(float*, float*, int, float)": 12, "step(float*, int)": 401, "tuned(float*)": 1,
    }  # fmt: skip
    scale = launched["scale(float*, float*, int, float)"]
    first, last = scale.shapes
    assert scale.parameters == ((0, 8), (8, 8), (16, 4), (20, 4))
    assert (first.geometry, first.launches) == (Geometry((4, 1, 1), (256, 1, 1)), 9)
    assert first.times.count == 9 and first.times.total == pytest.approx(9 * 4e-6)
    assert [p.bytes for p in first.pointers] == [8192, 4096] and last.launches == 3
    assert scale.alignments[0] in (16, 32, 64) and scale.equal == {(0, 8)}
    assert arguments_text(scale.kernel, scale.parameters, first) == "float* 8 KiB, float* 4 KiB, 1000, 0.5"
    tuned = launched["tuned(float*)"].shapes[0]
    assert tuned.geometry == Geometry((6, 1, 1), (32, 1, 1), 512, (2, 1, 1)) and [p.bytes for p in tuned.pointers] == [
        4096
    ]


def test_launches_in_a_row_with_equal_pointers_are_noted(run):
    (process,) = run("dlsym").processes
    kernels = [f.kernel for f in process.launched]
    named = {(kernels[s.first[0]], kernels[s.second[0]], s.count, s.equal) for s in process.successions}
    step, tuned = "step(float*, int)", "tuned(float*)"
    assert {x for x in named if x[0] != x[1]} == {(step, tuned, 1, ((0, 0),)), (tuned, step, 1, ((0, 0),))}
    scale = next(i for i, k in enumerate(kernels) if k.startswith("scale"))
    (same,) = [s for s in process.successions if s.first == s.second == (scale, 0)]
    assert same.count == 8 and same.equal == ((8, 8),), "what it writes moves on each time"


def test_kernels_of_graphs_and_launches_past_the_watched_functions_are_named(run):
    found = run("runtime")
    rows = {r.kernel: r for r in ranked(found)}
    step, hidden = rows["step(float*, int)"], rows["hidden()"]
    assert (step.launches, step.in_graphs, step.unseen) == (400, 6, 0) and step.seconds == pytest.approx(830e-6)
    assert (hidden.launches, hidden.unseen) == (0, 1) and hidden.seconds == pytest.approx(40e-6)
    said = unseen(found, list(rows.values()), True)
    assert any("1 launches of 1 kernels came past" in s and "(hidden)" in s for s in said), said
    assert any(s.startswith("6 kernels ran as nodes of CUDA graphs") for s in said), said
    assert any(s.startswith("4 kernels with 100% of the device time have no source there") for s in said), said


def test_a_step_that_counts_makes_no_shapes(run):
    rows = {r.kernel: r for r in ranked(run("runtime"))}
    step = rows["step(float*, int)"]
    assert len(step.launched[0].shapes) > 250, "the profiler keeps them apart, up to its limit"
    assert len(step.shapes) == 2 and step.shapes[0].varies and step.shapes[0].launches == 400
    assert step.shapes[0].times.count == 400 and step.median == pytest.approx(2e-6)


def test_without_cupti_events_take_the_times_and_it_is_said_what_they_cannot_tell(run):
    found = run("dlsym", clock="events")
    rows = {r.kernel: r for r in ranked(found)}
    assert rows["scale(float*, float*, int, float)"].seconds == pytest.approx(39e-6)
    assert "hidden()" not in rows and rows["step(float*, int)"].seconds == pytest.approx(800e-6)
    assert rows["launches of CUDA graphs"].seconds == pytest.approx(30e-6)
    assert verdict(found, list(rows.values())).kind == "unknown"
    said = unseen(found, list(rows.values()), False)
    assert any("3 launches of CUDA graphs are timed whole" in s for s in said), said
    assert any("CUPTI was not found" in s for s in said), said


def test_a_program_that_ends_at_once_leaves_what_it_launched_before(run):
    found = run("dlsym", "die", clock="events")
    assert found.status == 3 and not found.processes[0].complete
    assert sum(f.launches for f in found.processes[0].launched) == 413
    assert any("ended without its exit handlers" in s for s in unseen(found, ranked(found), False))


def test_a_launch_that_fails_is_said_and_has_no_time(run):
    found = run("dlsym", "fails")
    said = unseen(found, ranked(found), False)
    assert any(s.startswith("1 launches failed in process") for s in said), said
    assert not any("are missing" in s for s in said), said


def test_child_processes_are_profiled_too(built, tmp_path, run):
    program = built / "program"
    found = profile(["sh", "-c", f"{program} dlsym & {program} runtime; wait"], tmp_path / "both")
    assert len(found.processes) == 2 and found.status == 0
    (scale,) = [r for r in ranked(found) if r.kernel.startswith("scale")]
    assert scale.launches == 24 and len(scale.launched) == 2 and scale.seconds == pytest.approx(2 * 39e-6)


def test_what_bounds_a_program(run):
    busy, idle = run("runtime"), run("runtime", "gaps", folder="q")
    assert verdict(busy, ranked(busy)).kind == "kernels"
    (process,) = idle.processes
    assert process.busy == pytest.approx(915e-6) and process.span == pytest.approx(915e-6 + 413 * 30e-6, rel=0.01)
    said = verdict(idle, ranked(idle))
    assert said.kind == "host" and "the device worked 7% of 13.3 ms" in " ".join(said.facts)
    short = replace(idle, processes=(replace(process, span=process.busy + 413 * 5e-6),))
    assert verdict(short, ranked(short)).kind == "launches"
    assert "CUDA graph" in verdict(short, ranked(short)).advice[0]


def test_amdahl(run):
    found = replace(run("runtime"), seconds=1660e-6)
    rows = ranked(found)
    assert [r.kernel.split("(")[0] for r in rows] == ["step", "hidden", "scale", "tuned"]
    step = rows[0]
    assert step.of_program == pytest.approx(0.5) and step.gain(2) == pytest.approx(4 / 3)
    assert step.most == pytest.approx(2.0)
    bounded = replace(step, least=step.seconds / 2)
    assert bounded.of_bound == pytest.approx(0.5) and bounded.most == pytest.approx(4 / 3)
    # Kernels that overlap share the time in which the device was busy.
    (process,) = found.processes
    halved = ranked(replace(found, processes=(replace(process, busy=process.busy / 2),)))
    assert halved[0].elapsed == pytest.approx(step.elapsed / 2) and halved[0].seconds == pytest.approx(step.seconds)


SCALE = """
#include "parts.h"
__global__ void scale(float *out, float *in, int n, float factor) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = in[i] * factor;
}
"""


def test_the_command_finds_sources_and_bounds(run, built, tmp_path, capsys, monkeypatch):
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "scale.cu").write_text(SCALE)
    (tmp_path / "src" / "deep" / "parts.h").write_text(
        "template <class T> __global__ void step(T *x, int n) { x[n] += 1; }\n"
    )
    program, where = str(built / "program"), str(tmp_path / "j")
    assert main(["profile", "--json", "--source", str(tmp_path / "src"), "-o", where, "--", program]) == 0
    out = json.loads(capsys.readouterr().out)
    kernels = {k["kernel"]: k for k in out["kernels"]}
    scale = kernels["scale(float*, float*, int, float)"]
    assert scale["source"].endswith("scale.cu:3") and scale["bound_by"] in ("launch", "memory")
    assert scale["bound"] == pytest.approx(12 * 1.5e-6, rel=0.01) and 0 < scale["of_bound"] < 1
    assert kernels["step(float*, int)"]["source"].endswith("deep/parts.h:1")
    assert kernels["hidden()"]["source"] == "" and kernels["hidden()"]["of_bound"] is None
    assert main(["profile", "-o", str(tmp_path / "t"), "--shapes", "--", program]) == 0
    text = capsys.readouterr()
    assert "step         406" in text.out and "float* 8 KiB, float* 4 KiB, 77, 0.5" in text.out
    assert "ktc init --from" in text.err
    assert main(["profile", "-o", str(tmp_path / "t"), "--", program]) == 0
    assert main(["profile", "-o", str(tmp_path / "u"), "--", "true"]) == 3
    assert "launched no kernel that was seen" in capsys.readouterr().err


def test_what_a_program_compiles_as_it_runs_is_a_source(run, built, tmp_path, capsys):
    found = run("dlsym", "compiles")
    assert found.status == 0 and found.sources is not None
    (text,) = [p.read_text() for p in found.sources.iterdir()]
    assert text.startswith("__global__ void scale(")
    assert run("dlsym", folder="q").sources is None
    assert main(["init", "--from", str(found.folder), "--kernel", "scale", "-o", str(tmp_path / "w.toml")]) == 0
    assert "sizes = { n = 1000 }" in (tmp_path / "w.toml").read_text()


def test_a_profile_from_python_has_a_table_and_workloads(run, built, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.cu").write_text(SCALE.replace('#include "parts.h"', ""))
    found = ktc.profile([str(built / "program"), "dlsym"], source="scale.cu", contents_mib=1)
    assert [k.source != "" for k in found.kernels if k.kernel.startswith("scale")] == [True]
    assert repr(found).startswith("<ProgramProfile ") and "4 kernels" in repr(found)
    assert "<td>scale</td>" in found._repr_html_() and "<script" not in found._repr_html_()
    folder = found.workload("scale")
    assert folder == Path("ktc-out/scale") and ktc.load(str(folder)).kernel.name == "scale"
    with pytest.raises(KtcError, match="no launch of such a kernel"):
        found.workload("nothing")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("how", ["runtime", "dlsym"])
def test_what_buffers_held_before_the_first_launch_is_kept_on_request(built, tmp_path, monkeypatch, how):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(built))
    monkeypatch.setattr(profile_run, "cupti_libraries", lambda program: [built / "libcuda.so.1"])
    command = [str(built / "program"), how, "counts"]
    found = profile(command, tmp_path / "p", ProfileSettings(contents_mib=1))
    scale = next(f for f in found.processes[0].launched if f.kernel.startswith("scale"))
    held = {at: np.fromfile(path, np.float32) for at, path in scale.contents.items()}
    assert {at: x.size for at, x in held.items()} == {0: 2048, 8: 1024}, "from the pointer to the end of its allocation"
    assert np.array_equal(held[8], np.arange(1024) - 5)
    (tmp_path / "scale.cu").write_text(SCALE.replace('#include "parts.h"', ""))
    where = str(tmp_path / "w.toml")
    source = ["--source", str(tmp_path / "scale.cu")]
    assert main(["init", "--from", str(tmp_path / "p"), *source, "--kernel", "scale", "-o", where]) == 0
    assert "1000 elements, -5 to 994" in (tmp_path / "w.toml").read_text(), (
        "the buffer, not what is allocated beside it"
    )
    profile(command, tmp_path / "p", ProfileSettings())
    assert not (tmp_path / "p" / "contents").exists()


def test_a_folder_that_is_no_profile_is_said(tmp_path):
    with pytest.raises(KtcError, match="is not a profile"):
        Profile.load(tmp_path)
    (tmp_path / "profile.json").write_text('{"command": ["x"], "status": 0, "seconds": 1}')
    (tmp_path / "profile.7.json").write_text('{"pid": 7}')
    with pytest.raises(KtcError, match="cannot be read"):
        Profile.load(tmp_path)


def test_rows_that_differ_in_sizes_stay_apart():
    def row(n: int, step: int) -> Shape:
        arguments = n.to_bytes(4, "little") + step.to_bytes(4, "little")
        return Shape(Geometry((1, 1, 1), (32, 1, 1)), 1, 0, arguments, (), Times(1, n * 1e-6, 0, 0, (n * 1e-6,)))

    rows = tuple(row(n, s) for n in (100, 200) for s in range(MANY + 1))
    f = Launched("k", "k(int, int)", "", len(rows), True, ((0, 4), (4, 4)), {}, frozenset(), rows)
    shapes = grouped(f)
    assert [(s.launches, s.varies) for s in shapes] == [(MANY + 1, True)] * 2
    few = replace(f, shapes=tuple(row(n, s) for n in (100, 200) for s in range(2)))
    assert len(grouped(few)) == 4


def test_names_are_cut_in_their_middle():
    assert short_name("void at::native::add<float, 4>(float*, int)") == "at::native::add<float, 4>"
    assert listed(["void a::f<int>(int)", "g", "h", "i"]) == "a::f<int>, g, h and 1 more" and listed(["g"]) == "g"
    assert short_name("k" * 100, 11) == "kkkkkk…kkkk" and len(short_name("k" * 100, 11)) == 11


def test_a_profile_takes_the_place_of_an_earlier_one(built, tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(built))
    command, settings = [str(built / "program"), "dlsym"], ProfileSettings("events")
    first = profile(command, tmp_path / "p", settings)
    again = profile(command, tmp_path / "p", settings)
    assert len(again.processes) == len(first.processes) == 1
    (tmp_path / "p/mine").write_text("not of a profile")
    with pytest.raises(KtcError, match="is not empty"):
        profile(command, tmp_path / "p", settings)
