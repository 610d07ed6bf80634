"""Include folders and macros that a build file gives every source."""

from __future__ import annotations

import pytest

from ktc.project.build_files import build_flags


@pytest.fixture
def flags_of(tmp_path):
    """The flags for ``src/k.cu`` of a project with these build files."""

    def flags(**files):
        for name in ("src", "inc", "outside/inc"):
            (tmp_path / name).mkdir(parents=True, exist_ok=True)
        project = tmp_path / "p"
        for folder in ("src", "inc"):
            (project / folder).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (project / name.replace("_txt", ".txt")).write_text(text)
        return project, build_flags(str(project / "src" / "k.cu"), str(project))

    return flags


def test_a_makefile_s_flags_with_its_variables_put_in(flags_of):
    project, flags = flags_of(
        Makefile="ORDER = 6\nCFLAGS := $(EXTRA) -DREAL=double -DFAST -DN=$(ORDER) -Iinc \\\n  -DM=$(shell date) -I /\n"
    )
    assert flags.macros == {"REAL": "double", "FAST": "1", "N": "6"}
    assert flags.folders == (str(project / "inc"),)


def test_what_stands_under_a_condition_or_is_said_in_two_ways_is_not_taken(flags_of):
    _, flags = flags_of(
        Makefile="ifeq ($(D),yes)\nCFLAGS += -DDEBUG\nelse\nCFLAGS += -DFAST\nendif\n"
        "f:\n\tnvcc -DT=float k.cu\nd:\n\tnvcc -DT=double -DW=2 k.cu # -DX\n"
    )
    assert flags.macros == {"W": "2"}


def test_a_value_in_quotes_is_one_word(flags_of):
    _, flags = flags_of(Makefile="CFLAGS = -DT='unsigned int'\n")
    assert flags.macros == {"T": "unsigned int"}


def test_cmake_s_commands(flags_of):
    project, flags = flags_of(
        CMakeLists_txt="include_directories(${CMAKE_CURRENT_SOURCE_DIR}/inc ../outside/inc)  # (x)\n"
        "add_definitions(-DREAL=float)\ntarget_compile_definitions(app PRIVATE N=4)\n"
        "if(DEBUG)\n  add_definitions(-DDEBUG)\nendif()\n"
    )
    assert flags.macros == {"REAL": "float", "N": "4"}
    assert flags.folders == (str(project / "inc"),)


def test_a_makefile_that_only_includes_what_another_program_writes_says_nothing(flags_of):
    made = "all:\ninclude ../flags.mk\n"
    project, flags = flags_of(
        CMakeLists_txt="add_definitions(-DWITH_GPU=1)\nadd_subdirectory(src)\n", **{"src/Makefile": made}
    )
    assert flags.macros == {"WITH_GPU": "1"} and flags.file == str(project / "CMakeLists.txt")
    _, flags = flags_of(**{"src/Makefile": made + "CFLAGS = -DWITH_GPU=2\n"})
    assert flags.macros == {"WITH_GPU": "2"}


CONDITIONS = {
    'option(FAST "(doc)" ON)\nif(FAST AND (NOT MSVC))\n%s\nelse()\nadd_definitions(-DB)\nendif()': {"A": "1"},
    "option(FAST doc)\nif((FAST) OR APPLE)\n%s\nelseif(UNIX)\nadd_definitions(-DB)\nendif()": {"B": "1"},
    'set(KIND gpu CACHE STRING "")\nif("${KIND}" STREQUAL gpu)\n%s\nendif()': {"A": "1"},
    "if(FOUND_IT)\n%s\nelse()\nadd_definitions(-DB)\nendif()": {},
    "if(FOUND_IT)\nset(KIND gpu)\nendif()\nif(KIND STREQUAL gpu)\n%s\nendif()": {},
    "if(A AND (B OR C))\nendif()\nif(D)\n%s\nendif()": {},
    "if(CUDA_FOUND OR NOT HAVE_CUDA)\n%s\nendif()": {"A": "1"},
    "function(f)\n%s\nendfunction()": {},
    'cmake_dependent_option(FAST doc ON "UNIX;NOT MSVC" OFF)\nif(FAST)\n%s\nendif()': {"A": "1"},
    'set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} -O3 -DC=2")\nset(OTHER "-DD")': {"C": "2"},
}


@pytest.mark.parametrize("text", CONDITIONS)
def test_cmake_s_conditions_hold_with_options_at_their_defaults_or_cannot_be_told(flags_of, text):
    _, flags = flags_of(CMakeLists_txt=text.replace("%s", "add_definitions(-DA)"))
    assert flags.macros == CONDITIONS[text]


def test_a_project_without_build_files_gives_nothing(flags_of):
    assert flags_of()[1].macros == {} and flags_of()[1].folders == ()


def test_a_folder_gets_what_the_files_above_say_that_add_it_to_their_build(tmp_path):
    for name in ("inc", "a/b", "other"):
        (tmp_path / "p" / name).mkdir(parents=True)
    project = tmp_path / "p"
    (project / "CMakeLists.txt").write_text(
        "include_directories(inc)\nadd_definitions(-DN=4 -DM=1)\nadd_subdirectory(a)\n"
    )
    (project / "a" / "CMakeLists.txt").write_text("add_definitions(-DM=2)\nadd_subdirectory(b)\n")
    (project / "a" / "b" / "CMakeLists.txt").write_text("add_library(k k.cu)\n")
    (project / "other" / "CMakeLists.txt").write_text("add_library(k k.cu)\n")
    flags = build_flags(str(project / "a" / "b" / "k.cu"), str(project))
    assert flags.folders == (str(project / "inc"),) and flags.macros == {"N": "4", "M": "2"}
    assert build_flags(str(project / "other" / "k.cu"), str(project)).folders == ()
