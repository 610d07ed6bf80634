"""Which file a launched kernel is read by: its own or one that includes it, with headers from all of the tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.ir.diagnostics import KtcError
from ktc.observed.from_program import source_of
from ktc.profiling.kernel_sources import SourceTree
from ktc.profiling.profile_format import Geometry
from ktc.sources import resolve

KERNEL = (
    "__global__ void fill(float* x, int n) { int i = blockIdx.x * 256 + threadIdx.x; if (i < COUNT(n)) x[i] = 1; }\n"
)
LAUNCH = "void run(float* x, int n) { fill<<<(n + 255) / 256, 256>>>(x, n); }\n"
NAME, PARAMETERS, GEOMETRY = "fill(float*, int)", ((0, 8), (8, 4)), Geometry((4, 1, 1), (256, 1, 1))


def written(tmp_path: Path, **files: str) -> SourceTree:
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return SourceTree([str(tmp_path)])


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(KtcError) as e:
        SourceTree([str(tmp_path / "nowhere")]).places(NAME)
    assert e.value.code == "E-FILE"


def test_a_file_of_kernels_is_read_by_the_unit_that_launches_them(tmp_path: Path) -> None:
    whole = {"kernels_cu": "#define COUNT(n) n\n" + KERNEL, "main_cu": '#include "kernels.cu"\n' + LAUNCH}
    tree = written(tmp_path, **whole)
    found = tree.instance(NAME, PARAMETERS, GEOMETRY)
    assert found is not None and Path(found[0].units[0]).name == "main.cu"
    kernel, _ = resolve(source_of(tree, found[0], NAME))
    assert kernel.launch is not None


def test_a_header_beside_the_folder_is_read_again_from_the_workload(tmp_path: Path) -> None:
    tree = written(tmp_path, common__count_h="#define COUNT(n) n\n",
                   src__fill_cu='#include "../common/count.h"\n' + KERNEL + LAUNCH)  # fmt: skip
    found = tree.instance(NAME, PARAMETERS, GEOMETRY)
    assert found is not None
    spec = source_of(tree, found[0], NAME)
    assert spec.include_dirs == (str(tmp_path / "common"),)
    resolve(spec)


def test_branches_for_posix_are_those_of_a_host_compiler(tmp_path: Path) -> None:
    timer = "#include <unistd.h>\n#if _POSIX_VERSION >= 200112L\n#define COUNT(n) n\n#else\n#error no timer\n#endif\n"
    assert written(tmp_path, fill_cu=timer + KERNEL).instance(NAME, PARAMETERS, GEOMETRY) is not None


def test_a_kernel_that_several_files_define_is_said(tmp_path: Path) -> None:
    text = "#define COUNT(n) n\n" + KERNEL
    other = text.replace("float* x, int n)", "float* x, int n, int m)", 1)
    tree = written(tmp_path, a_cu=text + LAUNCH, b_cu=text, c_cu=other)
    found = tree.instance(NAME, PARAMETERS, GEOMETRY)
    assert found is not None and found[0].file == str(tmp_path / "a.cu")
    assert tree.others(found[0], NAME, PARAMETERS, GEOMETRY) == [str(tmp_path / "b.cu")]
