"""Macros that Python files which build extensions give: setup.py, and builders that name their sources."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ktc.project.build_files import build_flags

Macros = Callable[..., dict[str, str]]


@pytest.fixture
def macros_of(tmp_path: Path) -> Macros:
    """The macros for ``csrc/scale.cu`` of a project with these Python files."""

    def macros(**files: str) -> dict[str, str]:
        for name, text in files.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "csrc").mkdir(exist_ok=True)
        return dict(build_flags(str(tmp_path / "csrc" / "scale.cu"), str(tmp_path)).macros)

    return macros


def test_arguments_of_a_compiler_and_macros_of_a_setup(macros_of: Macros) -> None:
    text = """
define_macros = [("WITH_CUDA", None), ("LANES", "4")]
names = [("left", "right")]
define_macros += [("FAST", None)]
CUDAExtension("ops", s, extra_compile_args={"nvcc": ["-O3", "-DTHREADS=128", "-DDONE"]}, define_macros=define_macros)
"""
    assert macros_of(setup=text) == {"WITH_CUDA": "1", "LANES": "4", "FAST": "1", "THREADS": "128", "DONE": "1"}


@pytest.mark.parametrize(
    ("condition", "then", "otherwise"),
    [
        ("torch.cuda.is_available()", True, False),
        ("torch.cuda.is_available() and CUDA_HOME is not None or force", True, False),
        ("CUDA_HOME is None", False, True),
        ("not is_rocm()", True, False),
        ("torch.version.hip", False, True),
        ("debug", False, False),
        ("cuda_version >= 11", False, False),
        ("os.path.exists('cuda')", False, False),
    ],
)
def test_cuda_is_there_and_all_else_is_not_known(
    macros_of: Macros, condition: str, then: bool, otherwise: bool
) -> None:
    text = f"""
if {condition}:
    flags = ["-DTHEN"]
else:
    flags = ["-DOTHERWISE"]
flags += ["-DONE"] if {condition} else ["-DOTHER"]
"""
    expected = dict.fromkeys(then * ["THEN", "ONE"] + otherwise * ["OTHERWISE", "OTHER"], "1")
    assert macros_of(setup=text) == expected


def test_a_builder_that_names_the_source_and_what_it_is_built_on(macros_of: Macros) -> None:
    builder = """
from .base import CudaBuilder
class Scale(CudaBuilder):
    sources = ["csrc/scale.cu"]
    def flags(self):
        return super().flags() + ["-DSCALE"]
"""
    base = """
PART = "-DPART"
class Builder:
    def flags(self):
        try:
            if not self.is_rocm():
                return [PART, "-DON_DEVICE"]
        except OSError:
            return ["-DFAILED"]
        return ["-DON_HOST"]
class CudaBuilder(Builder):
    pass
class HostBuilder(Builder):
    more = ["-DHOST"]
"""
    found = macros_of(build__base=base, build__scale=builder, setup="flags = ['-DSETUP']")
    assert found == {"SCALE": "1", "PART": "1", "ON_DEVICE": "1"}


def test_what_is_put_together_or_said_in_two_ways_is_no_macro(macros_of: Macros) -> None:
    text = "a = f'-DNAME={n}'\nb = '-DCOUNT=' + str(n)\nc = ['-DT=float']\nd = ['-DT=half']\ne = ['-DW=2']\n"
    assert macros_of(setup=text) == {"W": "2"}


def test_a_makefile_comes_first_and_a_file_that_is_no_python_says_nothing(macros_of: Macros, tmp_path: Path) -> None:
    assert macros_of(setup="def (") == {}
    assert macros_of(setup="flags = ['-DP']") == {"P": "1"}
    (tmp_path / "Makefile").write_text("CFLAGS = -DM\n")
    assert macros_of() == {"M": "1"}
