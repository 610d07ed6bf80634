"""A recipe is all that it needs: it is printed, replayed and verified in an empty folder, its source deleted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import ktc
from ktc.api import program_of
from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload
from ktc.recipes import CHANGED, GONE, is_recipe, open_recipe
from ktc.search.records.recipe import Recipe, sha256
from ktc.search.records.recipe_sources import Sources, gathered, parsed

SOURCE = """#include "../common/op.cuh"
#ifndef TWICE
#error "the macro of the workload is missing"
#endif
template <typename T> __global__ void twice(T* y, const T* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = TWICE(combined(x[i]));
}
"""
WORKLOAD = """
[kernel]
source = "twice.cu"
name = "twice"
include = ["../headers", "../common"]
template = { T = "float" }
defines = { TWICE = "TIMES_TWO" }
[[args]]
name = "y"
dtype = "T"
shape = ["n"]
role = "out"
[[args]]
name = "x"
dtype = "T"
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
    """A kernel with a header in a folder beside its own, one that a folder of headers has, and a macro."""
    there = tmp_path / "project"
    for name, text in {
        "kernels/twice.cu": SOURCE,
        "kernels/workload.toml": WORKLOAD,
        "common/op.cuh": '#include "nested.cuh"\n__device__ inline float combined(float v) { return v + OFFSET; }\n',
        "headers/nested.cuh": "// f\u00fcr alle\n#define OFFSET 1.0f\n#define TIMES_TWO(v) (2.0f * (v))\n",
        "headers/unused.cuh": "#define SECRET\n",
    }.items():
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_text(text, encoding="utf-8")
    return there


def recipe_of(project: Path, **more: object) -> Recipe:
    """What a run would leave behind for :data:`SCRIPT` with V=2 on the processor."""
    work = Workload.load(project / "kernels")
    text = ktc.load(str(project / "kernels")).apply(SCRIPT).lower("numba", V=2).text
    what = {
        "kernel": "twice", "source_sha256": sha256(work.source.read_bytes()), "script": SCRIPT, "knobs": {"V": 2},
        "target": "numba", "source": str(work.source), "workload": str(work.path), "output_sha256": sha256(text),
        "sources": gathered(work, None).to_json(),
    }  # fmt: skip
    return Recipe(**(what | more))  # type: ignore[arg-type]


def old(recipe: Recipe, path: Path, version: int) -> None:
    """``recipe`` as an earlier ktc wrote it: no texts."""
    data = json.loads(Recipe(**{**vars(recipe), "sources": {}, "heldout": {}}).to_json())
    path.write_text(
        json.dumps({k: v for k, v in data.items() if k not in ("sources", "heldout")} | {"format": version})
    )


def test_it_is_replayed_and_printed_where_nothing_else_is(project: Path, tmp_path: Path, ktc_run: Callable) -> None:
    recipe = recipe_of(project)
    assert set(recipe.sources["files"]) == {
        "kernels/twice.cu", "kernels/workload.toml", "common/op.cuh", "headers/nested.cuh"
    }  # fmt: skip
    (tmp_path / "alone").mkdir()
    recipe.save(tmp_path / "alone/recipe.json")
    expected = ktc.load(str(project / "kernels")).apply(SCRIPT).lower("cuda", V=2).text
    shutil.rmtree(project)
    done = ktc_run("replay", "alone", "--no-time", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert (
        data["same_text"] is True and data["source_state"] == GONE and data["verdict"]["status"] in ("PROVEN", "TESTED")
    )
    for what in ("alone", "alone/recipe.json"):
        done = ktc_run("lower", what)
        assert done.returncode == 0 and done.stdout.rstrip() == expected.rstrip(), done.stderr
    assert "V = 1" in ktc_run("lower", "alone/recipe.json", "--set", "V=1").stdout
    plain = ktc_run("lower", "alone/recipe.json", "-p", "raise")
    assert plain.returncode == 0 and "V = " not in plain.stdout


def test_the_command_line_s_instance_goes_with_it(project: Path, tmp_path: Path) -> None:
    program = ktc.load(str(project / "kernels"), template={"T": "double"}, defines={"TWICE": "(float)"})
    assert program.workload is not None
    found = gathered(program.workload, None)
    shutil.rmtree(project)
    again = found.opened(None)
    assert again.template() == {"T": "double"} and again.defines == {"TWICE": "(float)"}
    assert str(again.load_kernel().params[0].sym.type.elem) == "f64"


def test_a_workload_elsewhere_that_names_its_source_by_an_absolute_path(project: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "out/workload.toml"
    sheet.parent.mkdir()
    absolute = {'"twice.cu"': f'"{project}/kernels/twice.cu"', '"../': f'"{project}/'}
    text = WORKLOAD
    for relative, path in absolute.items():
        text = text.replace(relative, path)
    sheet.write_text(text)
    found = gathered(Workload.load(sheet), None)
    shutil.rmtree(project)
    assert str(project) not in json.dumps(found.to_json())
    assert found.opened(None).load_kernel().name == "twice"


def test_bytes_that_are_no_utf8_come_back(project: Path, tmp_path: Path) -> None:
    source = project / "kernels/twice.cu"
    source.write_bytes(b"// caf\xe9\r\n" + source.read_bytes())
    found = gathered(Workload.load(project / "kernels"), None)
    assert found.latin1 == ["kernels/twice.cu"]
    again = parsed(json.loads(json.dumps(found.to_json())))
    assert again.written(tmp_path / "copy").read_bytes() == source.read_bytes()


@pytest.mark.parametrize("name", ["../escape.cu", "/tmp/escape.cu", "a/../../escape.cu", "a\\b.cu"])
def test_nothing_is_written_outside_of_its_tree(project: Path, name: str) -> None:
    good = gathered(Workload.load(project / "kernels"), None).to_json()
    with pytest.raises(ValueError, match="outside"):
        parsed({**good, "files": {**good["files"], name: ""}})


def test_a_source_that_was_edited_in_the_recipe_is_found(project: Path, tmp_path: Path) -> None:
    data = json.loads(recipe_of(project).to_json())
    header = "headers/nested.cuh"
    for name, code in (("kernels/twice.cu", "source in it"), (header, "its hash is")):
        bad = json.loads(json.dumps(data))
        bad["sources"]["files"][name] += "// edited\n"
        (tmp_path / "recipe.json").write_text(json.dumps(bad))
        with pytest.raises(KtcError, match=code) as info:
            Recipe.load(tmp_path / "recipe.json")
        assert info.value.code == "E-RECIPE-HASH"


def test_an_earlier_format_is_made_portable_where_its_source_is(project: Path, tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    old(recipe_of(project), path, 2)
    opened = open_recipe(path)
    assert opened.recipe.sources == recipe_of(project).sources and "read as format 3" in opened.notes[0]
    assert (
        program_of(opened).apply(SCRIPT).lower("numba", V=2).text
        == ktc.load(str(path)).apply(SCRIPT).lower("numba", V=2).text
    )
    source = project / "kernels/twice.cu"
    source.write_text(source.read_text() + "// edited\n")
    opened = open_recipe(path)
    assert opened.state == CHANGED and not opened.recipe.sources and "not made portable" in opened.notes[0]


def test_an_earlier_format_whose_source_is_gone(project: Path, tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    old(recipe_of(project), path, 2)
    shutil.rmtree(project)
    with pytest.raises(KtcError, match="is gone") as info:
        open_recipe(path)
    assert info.value.code == "E-RECIPE-SOURCE" and "put twice.cu" in info.value.hint


def test_the_first_format_is_taken_where_it_prints_the_same_text(
    project: Path, tmp_path: Path, ktc_run: Callable
) -> None:
    """Its scripts named loops otherwise: only the text shows that the same ones are meant."""
    old(recipe_of(project), tmp_path / "recipe.json", 1)
    assert ktc_run("replay", "recipe.json", "--no-time").returncode == 0
    old(recipe_of(project, output_sha256="0" * 64), tmp_path / "recipe.json", 1)
    done = ktc_run("replay", "recipe.json", "--no-time")
    assert done.returncode == 2 and "E-RECIPE-VERSION" in done.stderr and "ktc optimize" in done.stderr


def test_what_is_taken_for_a_recipe(project: Path, tmp_path: Path) -> None:
    recipe_of(project).save(project / "kernels/recipe.json")
    assert is_recipe(project / "kernels/recipe.json")
    assert not is_recipe(project / "kernels"), "a folder with a workload is the kernel's, which may be edited"
    (tmp_path / "data.json").write_text('{"a": 1}')
    assert not is_recipe(tmp_path / "data.json") and not is_recipe(project / "kernels/twice.cu")


def test_options_that_a_recipe_decides_are_refused(project: Path, tmp_path: Path, ktc_run: Callable) -> None:
    recipe_of(project).save(tmp_path / "recipe.json")
    done = ktc_run("lower", "recipe.json", "--template", "T=double")
    assert done.returncode == 2 and "which says itself" in done.stderr


def test_sources_round_trip(project: Path) -> None:
    found = gathered(Workload.load(project / "kernels"), None)
    assert parsed(json.loads(json.dumps(found.to_json()))) == found and isinstance(found, Sources)


def test_a_run_whose_texts_cannot_be_read_is_written_all_the_same(
    project: Path, tmp_path: Path, ktc_run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ktc.agent import results

    def broken(*args: object) -> Sources:
        raise KtcError("E-FILE", "cannot read a header")

    monkeypatch.setattr(results, "gathered", broken)
    where = str(project / "kernels")
    done = ktc_run("tune", where, "-p", SCRIPT, "--device", "numba", "--budget", "1", "--out", "out")
    assert done.returncode == 0 and "names its source instead of holding it: cannot read" in done.stderr, done.stderr
    assert not Recipe.load(tmp_path / "out/recipe.json").sources
    assert ktc_run("lower", "out/recipe.json").returncode == 0, "from where its source is"
    assert ktc_run("update", "out", "--check").returncode == 1
    assert ktc_run("update", "out").returncode == 0
    assert Recipe.load(tmp_path / "out/recipe.json").sources["source"] == "kernels/twice.cu"
