"""A compilation database says how a build compiles its sources, whatever its CMakeLists.txt computes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ktc.project.as_built import kernels_as_built
from ktc.project.build_files import build_flags

FUNCTION = "function(setting NAME VALUE)\n  target_compile_definitions(lib PRIVATE ${NAME}=${VALUE})\nendfunction()\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("src", "inc", "build"):
        (tmp_path / "p" / folder).mkdir(parents=True)
    (tmp_path / "p" / "CMakeLists.txt").write_text(f"{FUNCTION}setting(WIDTH 4)\n")
    return tmp_path / "p"


def write(project: Path, *rows: dict[str, object], folder: str = "build") -> None:
    (project / folder / "compile_commands.json").write_text(json.dumps(rows))


def test_the_options_of_a_source(project: Path) -> None:
    command = "nvcc -DWIDTH=4 '-DNAME=\"a b\"' -D FAST -I../inc -isystem /usr/include -Xcompiler=-O3 -c ../src/k.cu"
    other = ["nvcc", "-DWIDTH=8", "src/other.cu"]
    write(
        project,
        {"directory": str(project / "build"), "command": command, "file": "../src/k.cu"},
        {"directory": str(project), "arguments": other, "file": "src/other.cu"},
    )
    flags = build_flags(str(project / "src" / "k.cu"), str(project))
    assert flags.macros == {"WIDTH": "4", "NAME": '"a b"', "FAST": "1"}
    assert flags.folders == (str(project / "inc"),), "what lies outside the project is not read unasked"
    assert flags.file.endswith("compile_commands.json")


def test_a_header_has_what_all_sources_beside_it_are_given(project: Path) -> None:
    rows = [
        {"directory": str(project), "command": f"nvcc -DWIDTH=4 -DPART={n} {name}", "file": name}
        for n, name in enumerate(("src/a.cu", "src/b.cu"))
    ]
    write(project, *rows, {"directory": str(project), "command": "g++ -DHOST main.cpp", "file": "main.cpp"})
    assert build_flags(str(project / "src" / "k.cuh"), str(project)).macros == {"WIDTH": "4"}


def test_a_database_that_cannot_be_read_says_nothing(project: Path) -> None:
    (project / "build" / "compile_commands.json").write_text('[{"directory": ')
    assert build_flags(str(project / "src" / "k.cu"), str(project)).macros == {}


def test_an_error_for_a_macro_that_the_build_gives_is_led_around(project: Path) -> None:
    (project / "inc" / "modes.h").write_text('#ifndef WIDTH\n#error "the build must define WIDTH"\n#endif\n')
    text = '#include "modes.h"\n__global__ void k(float *x) { x[threadIdx.x * WIDTH] = 0; }\n'
    (project / "src" / "k.cu").write_text(text)
    write(project, {"directory": str(project), "command": "nvcc -DWIDTH=4 -Iinc src/k.cu", "file": "src/k.cu"})
    (kernel,), notes = kernels_as_built(str(project / "src" / "k.cu"))
    assert kernel.name == "k"
    assert any("compile_commands.json" in n and "WIDTH=4" in n for n in notes)
