"""A recipe is brought up to its edited source, or says which step no longer applies; ``--check`` writes nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ktc.search.records.recipe import Recipe
from tests.ktc.exporting.runs import recipe, timing

SOURCE = """#include "inc/op.cuh"
__global__ void scale(float* __restrict__ y, const float* __restrict__ x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = OP(x[i]);
}
"""
WORKLOAD = """
[kernel]
source = "scale.cu"
name = "scale"
include = ["inc"]
[[args]]
name = "y"
dtype = "f32"
shape = ["n"]
role = "out"
[[args]]
name = "x"
dtype = "f32"
shape = ["n"]
role = "in"
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[launch]
grid = ["cdiv(n, 256)"]
block = ["256"]
[[scenario]]
name = "small"
sizes = { n = 4096 }
"""
SCRIPT = "raise | distribute{loop=i map=[vec $V:(1,2), thread.x 64, block.x]}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "p"
    (folder / "inc").mkdir(parents=True)
    (folder / "scale.cu").write_text(SOURCE)
    (folder / "workload.toml").write_text(WORKLOAD)
    (folder / "inc/op.cuh").write_text("#define OP(v) (2.0f * (v))\n")
    recipe(folder, {"small": timing({"n": 4096}, SCRIPT, 2.0, V=2)}).save(tmp_path / "r.json")
    return folder


def written(tmp_path: Path) -> tuple[str, Recipe]:
    return (tmp_path / "r.json").read_text(), Recipe.load(tmp_path / "r.json")


def test_nothing_to_do(project: Path, tmp_path: Path, ktc_run: Callable) -> None:
    before = written(tmp_path)[0]
    for flags in ([], ["--check"]):
        done = ktc_run("update", "r.json", *flags)
        assert done.returncode == 0 and "is up to date" in done.stdout, done.stderr
    assert written(tmp_path)[0] == before


def test_a_comment_changes_no_text_and_keeps_what_was_measured(
    project: Path, tmp_path: Path, ktc_run: Callable
) -> None:
    (project / "scale.cu").write_text(SOURCE + "\n// the end\n")
    before = written(tmp_path)[0]
    done = ktc_run("update", "r.json", "--check")
    assert done.returncode == 1 and "E-UPDATE-NEEDED" in done.stderr and "the source has changed" in done.stderr
    assert written(tmp_path)[0] == before
    named = ktc_run("update", "r.json", "--check", "--source", str(project / "scale.cu"))
    assert f"ktc update r.json --source {project / 'scale.cu'};" in named.stderr
    done = ktc_run("update", "r.json")
    assert done.returncode == 0 and "every text is the same" in done.stderr, done.stderr
    now = written(tmp_path)[1]
    assert now.timings["small"]["ratio"][0] == 2.0 and "// the end" in now.sources["files"]["scale.cu"]
    assert ktc_run("update", "r.json", "--check").returncode == 0


def test_a_changed_header_is_verified_and_timed_again(project: Path, tmp_path: Path, ktc_run: Callable) -> None:
    (project / "inc/op.cuh").write_text("#define OP(v) (3.0f * (v))\n")
    done = ktc_run("update", "r.json", "--device", "numba")
    assert done.returncode == 0 and "the headers have changed" in done.stderr, done.stderr
    now = written(tmp_path)[1]
    assert now.timings["small"]["ratio"][0] != 2.0 and now.verdicts[0]["verdict"] in ("PROVEN", "TESTED")
    text = ktc_run("lower", "r.json").stdout
    assert "3.0f" in text and "V = 2" in text


def test_the_step_that_no_longer_applies_is_named(project: Path, tmp_path: Path, ktc_run: Callable) -> None:
    (project / "scale.cu").write_text(
        SOURCE.replace("int i =", "int at =").replace("[i]", "[at]").replace("i < n", "at < n")
    )
    before = written(tmp_path)[0]
    for flags in ([], ["--check"]):
        done = ktc_run("update", "r.json", *flags)
        assert done.returncode == 1 and "E-UPDATE-STEP" in done.stderr
        assert "step 2 of 2, distribute{loop=i" in done.stderr
    assert written(tmp_path)[0] == before


def test_a_source_that_moved_is_named(project: Path, tmp_path: Path, ktc_run: Callable) -> None:
    shutil.move(project, tmp_path / "moved")
    done = ktc_run("update", "r.json")
    assert done.returncode == 2 and "E-UPDATE-SOURCE" in done.stderr and "--source FILE" in done.stderr
    (tmp_path / "moved/workload.toml").unlink()
    assert ktc_run("update", "r.json", "--source", "moved/scale.cu", "--check").returncode == 0
    (tmp_path / "moved/scale.cu").write_text(SOURCE + "// the end\n")
    done = ktc_run("update", "r.json", "--source", "moved/scale.cu")
    assert done.returncode == 0, done.stderr
    now = written(tmp_path)[1]
    assert now.source == str(tmp_path / "moved/scale.cu")
    assert set(now.sources["files"]) == {"scale.cu", "workload.toml", "inc/op.cuh"}


def test_an_earlier_format_is_written_as_the_present_one(project: Path, tmp_path: Path, ktc_run: Callable) -> None:
    data = json.loads(written(tmp_path)[0])
    for name in ("sources", "heldout", "hash"):
        del data[name]
    (tmp_path / "r.json").write_text(json.dumps(data | {"format": 2, "workload": str(project / "workload.toml")}))
    assert ktc_run("update", "r.json", "--check").returncode == 1
    done = ktc_run("update", "r.json")
    assert done.returncode == 0 and "of format 2" in done.stderr, done.stderr
    assert written(tmp_path)[1].sources["source"] == "scale.cu"
    assert ktc_run("update", "r.json", "--check").returncode == 0
