"""A program with tuned kernels in place of its own: what is swapped, what stays, and what is compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ktc.__main__ import main
from ktc.backends.runtimes.nvrtc import Cubin
from ktc.observed import tryout
from ktc.profiling import Profile, ProfileSettings, profile, profile_run
from ktc.search.records.recipe import Recipe, sha256

SCALE = """
__global__ void scale(float *out, float *in, int n, float factor) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = in[i] * factor;
}
__global__ void step(float *x, int n) { x[blockIdx.x * blockDim.x + threadIdx.x] += n; }
void run(float *o, float *i, int n) { scale<<<(n + 255) / 256, 256>>>(o, i, n, 0.5f); }
"""
SCRIPT = "raise | distribute{loop=i map=[vec 4, thread.x 128, block.x]}"


@pytest.fixture
def tuned(built, tmp_path, monkeypatch) -> Path:
    """The folder of a profile, of sources, and of a run with a recipe for one of the kernels."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(built))
    monkeypatch.setattr(profile_run, "cupti_libraries", lambda program: [])
    monkeypatch.setattr("ktc.observed.swaps.cubin_of", lambda code, arch: Cubin(b"code", code.entry, ""))
    monkeypatch.chdir(tmp_path)
    Path("src").mkdir()
    Path("src/scale.cu").write_text(SCALE)
    profile([str(built / "program"), "dlsym"], tmp_path / "p", ProfileSettings("events"))
    assert main(["init", "--from", "p", "--source", "src", "--kernel", "scale"]) == 0
    recipe(SCRIPT)
    return tmp_path


@pytest.fixture
def swap_lines(monkeypatch) -> list[str]:
    """The lines that the preloaded library reads."""
    lines: list[str] = []
    run = tryout._run

    def noted(profile, variables, *rest):
        lines.extend(Path(variables["KTC_PROFILE_SWAPS"]).read_text().splitlines() if variables else ())
        return run(profile, variables, *rest)

    monkeypatch.setattr(tryout, "_run", noted)
    return lines


def recipe(script: str, kernel: str = "scale", **timings) -> None:
    source = Path("src/scale.cu")
    Recipe(
        kernel, sha256(source.read_bytes()), script, {}, "cuda-sm90", source=str(source.resolve()), timings=timings
    ).save(f"ktc-out/{kernel}/recipe.json")


def test_launches_of_tuned_sizes_are_swapped(tuned, capsys):
    assert main(["tryout", "p", "--source", "src", "--runs", "2", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    # 9 launches of 1000 elements, which 4 divides; it does not divide the 77 of 3 others; no other kernel has a recipe.
    assert out["kernels"] == ["scale(float*, float*, int, float)"]
    assert (out["swapped"], out["refused"]) == (9, 0) and out["launches"] > 400
    assert [(u["launches"], u["why"]) for u in out["left"]] == [
        (3, "what the tuned kernel assumes of sizes does not hold")
    ]
    assert out["different"] == [] and len(out["after"]) == 2
    assert [(o["name"], o["status"]) for o in out["outputs"]] == [("standard output", "same")]


def test_pointers_are_tested_at_each_launch(tuned, capsys, monkeypatch):
    """The program passes pointers of 64 bytes' alignment: a kernel that needs more runs where they have it."""
    from ktc.backends.launchers import launch_geometry

    own = launch_geometry._aligned_buffers
    monkeypatch.setattr(launch_geometry, "_aligned_buffers", lambda k: [(p, 1 << 40) for p, _ in own(k)])
    assert main(["tryout", "p", "--source", "src", "--runs", "1", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert (out["swapped"], out["refused"]) == (0, 9)


def test_each_scenario_has_its_own_winner(tuned, capsys):
    plain = "raise | distribute{loop=i map=[thread.x 64, block.x]}"
    recipe("", **{"1000": {"script": "", "knobs": {}}, "77": {"script": plain, "knobs": {}}})
    assert main(["tryout", "p", "--source", "src", "--runs", "1", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["swapped"] == 3
    assert [(u["launches"], u["why"]) for u in out["left"]] == [(9, "the original is the fastest at the sizes of 1000")]


def test_what_only_the_host_knows_is_passed_to_the_tuned_kernel(tuned, capfd, monkeypatch, swap_lines):
    """Each block of the original does 64 elements; the tuned one has other blocks, and must know how many there are."""
    monkeypatch.setenv("SHOW_LAST", "1")
    assert main(["init", "--from", "p", "--source", "src", "--kernel", "step"]) == 0
    recipe("raise | distribute{loop=i map=[thread.x 96, block.x]}", "step")
    assert main(["tryout", "p", "--source", "src", "--runs", "1", "--json"]) == 0
    text = capfd.readouterr()
    assert "step 255 2" in text.err, "n as it was passed, and the number of the original's blocks"
    out = json.loads(text.out)
    # 256 values of n have a row each, and the launches of the others are one: nobody knows their arguments.
    assert out["swapped"] == 9 + 256 and [u["launches"] for u in out["left"] if "too many" in u["why"]] == [145]
    words = next(x for x in swap_lines if x.startswith("_Z4stepPfi ")).split()
    at = words.index("kernel1-0.cubin")
    assert words[at + 2 : at + 9] == ["2", "1", "1", "96", "1", "1", "0"]
    assert words[at + 9] == "0200000000000000" and words[at + 10 : at + 17] == ["3", "0", "8", "8", "4", "12", "4"]


SUM = """
__global__ void scale(float *out, float *in, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
  for (int j = 0; j < n; ++j) sum += in[j];
  out[i] = sum * factor;
}
void run(float *o, float *i, int n) { scale<<<(n + 255) / 256, 256>>>(o, i, n, 0.5f); }
"""


def test_working_memory_is_the_library_s(tuned, capsys, swap_lines, monkeypatch):
    Path("src/scale.cu").write_text(SUM)
    assert main(["init", "--from", "p", "--source", "src", "--kernel", "scale", "--force"]) == 0
    monkeypatch.setattr("ktc.observed.swaps.cubin_of", lambda *_: Cubin(b"code", "summed", ""))
    recipe("raise | normalise | map{i=[thread.x 32, block.x] j=[thread.y 4, block.y 4, seq]}")
    capsys.readouterr()
    assert main(["tryout", "p", "--source", "src", "--runs", "1", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert (out["swapped"], out["refused"], out["left"]) == (9 + 3, 0, [])
    words = next(x for x in swap_lines if x.startswith("_Z5scalePfS_if ")).split()
    assert words[-5:] == ["2", "24", str(4 * 1024 * 4), "32", str(32 * 4)], "four parts of each sum, a ticket a block"
    assert "6 0 8 8 8 16 4 20 4 24 8 32 8" in " ".join(words), "their addresses follow the launch's own arguments"


def test_a_result_that_differs_is_an_error(tuned, capsys, monkeypatch):
    monkeypatch.setenv("WRONG_IF_SWAPPED", "1")
    assert main(["tryout", "p", "--source", "src", "--runs", "1"]) == 1
    text = capsys.readouterr()
    assert "the program's results differ: standard output" in text.err and "9 of" in text.out


def test_files_are_compared_and_those_that_never_repeat_are_not(tuned, built, capsys):
    Path("go").write_text(f"#!/bin/sh\n{built}/program dlsym > same\ndate +%N > other\n")
    Path("go").chmod(0o755)
    head = json.loads(Path("p/profile.json").read_text())
    Path("p/profile.json").write_text(json.dumps({**head, "command": [str(Path("go").resolve())]}))
    assert main(["tryout", "p", "--source", "src", "--runs", "2", "--compare", "same", "--compare", "other"]) == 0
    text = capsys.readouterr()
    assert "standard output: the same\nsame: the same" in text.out
    assert "other: not compared: the program itself does not repeat it" in text.err


def test_nothing_to_swap_is_said(tuned, capsys):
    recipe("raise | nothing-of-this-name")
    assert main(["tryout", "p", "--source", "src", "--runs", "1"]) == 2
    assert "recipe.json: " in capsys.readouterr().err
    Path("ktc-out/scale/recipe.json").unlink()
    assert main(["tryout", "p", "--source", "src"]) == 2
    err = capsys.readouterr().err
    assert "no launch of the program can be swapped" in err and "ktc optimize PROFILE" in err
    recipe("", **{"1000": {"script": "", "knobs": {}}})
    assert main(["tryout", "p", "--source", "src"]) == 2
    err = capsys.readouterr().err
    assert "the original is the fastest at the sizes of 1000" in err and "ktc report RUN" in err
    assert Profile.load(Path("p")).processes


def test_what_differs_leaves_one_document(tuned, capsys, built):
    Path("go").write_text(f"#!/bin/sh\n{built}/program dlsym\necho $KTC_PROFILE_SWAPS\n")
    Path("go").chmod(0o755)
    head = json.loads(Path("p/profile.json").read_text())
    Path("p/profile.json").write_text(json.dumps({**head, "command": [str(Path("go").resolve())]}))
    assert main(["tryout", "p", "--source", "src", "--runs", "1", "--json"]) == 1
    out = capsys.readouterr()
    assert json.loads(out.out)["different"] == ["standard output"] and "E-TRYOUT-DIFFERS" in out.err
