"""A file of kernels is read by the unit that includes it, with the headers and macros of its project."""

from __future__ import annotations

import pytest

from ktc import api
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.project.as_built import as_built, kernels_as_built
from ktc.sources import SourceSpec

KERNELS = "__global__ void scale(real* p, int n) { int i = blockIdx.x * TILE + threadIdx.x; if (i < n) p[i] *= 2; }\n"
MAIN = """typedef float real;
#define TILE 64
#include "kernels.cu"
void run(real* p, int n) { scale<<<(n + TILE - 1) / TILE, TILE>>>(p, n); }
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A function that writes files below a folder, and works in it."""
    monkeypatch.chdir(tmp_path)

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_cu", ".cu").replace("_h", ".h")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def test_a_file_of_kernels_is_read_by_the_unit_that_includes_it(project):
    project(kernels_cu=KERNELS, main_cu=MAIN)
    program = api.load("kernels.cu")
    assert program.kernel.name == "scale" and program.kernel.launch is not None
    assert program.source.kernel == "main.cu" and program.source.name == "scale"
    assert program.source.notes == ("kernels.cu is read as main.cu includes it",)


def test_a_part_of_a_unit_is_no_unit(project):
    """The file that includes the kernels is itself included by what defines their types."""
    project(
        kernels_cu=KERNELS,
        host_cu='#include "kernels.cu"\nvoid run(real* p, int n) { scale<<<n / TILE, TILE>>>(p, n); }\n',
        main_cu='typedef float real;\n#define TILE 64\n#include "host.cu"\nint main() { run(0, 0); }\n',
    )
    assert as_built(SourceSpec("kernels.cu")).kernel == "main.cu"


def test_a_file_that_can_be_read_and_launches_its_kernels_is_read_alone(project):
    text = (
        "typedef float real;\n#define TILE 64\n" + KERNELS + "void go(real* p, int n) { scale<<<n, TILE>>>(p, n); }\n"
    )
    project(kernels_cu=text, main_cu='#include "kernels.cu"\nint main() { go(0, 0); }\n')
    assert as_built(SourceSpec("kernels.cu")) == SourceSpec("kernels.cu")


def test_of_several_kernels_those_of_the_file_are_meant(project):
    other = "__global__ void other(float* q) { q[0] = 1; }\n"
    project(kernels_cu=KERNELS, main_cu=other + MAIN)
    found, notes = kernels_as_built("kernels.cu")
    assert [k.name for k in found] == ["scale"] and found[0].launches and notes
    assert api.load("kernels.cu").kernel.name == "scale"


def test_headers_of_the_project_s_other_folders_are_read(project):
    folder = project(
        src__k_cu='#include "sizes.h"\n__global__ void k(float* p) { p[threadIdx.x] = ROWS; }\n',
        include__sizes_h='#include "../more/rows.h"\n',
        more__rows_h="#define ROWS 3\n",
    )
    with pytest.raises(KtcError, match="outside the source's folder, and was not read"):
        api.load("src/k.cu")
    (folder / "Makefile").write_text("all:\n")
    program = api.load("src/k.cu")
    assert list(program.source.include_dirs) == ["include", "more"]
    assert [n.partition(" is read from ")[0] for n in program.source.notes] == ["sizes.h", "../more/rows.h"]


def test_a_header_that_a_link_leads_to_is_not_read(project):
    """... nor one above the project, whatever its build says."""
    folder = project(
        p__src__k_cu='#include "rows.h"\n__global__ void k(float* p) { p[threadIdx.x] = ROWS; }\n',
        outside__rows_h="#define ROWS 3\n",
        p__Makefile="CFLAGS = -I../outside\n",
    )
    (folder / "p" / "include").mkdir()
    (folder / "p" / "include" / "rows.h").symlink_to(folder / "outside" / "rows.h")
    with pytest.raises(KtcError, match="ROWS"):
        api.load("p/src/k.cu")


def test_macros_of_the_build_that_the_source_mentions_are_defined(project):
    project(kernels_cu=KERNELS, Makefile="CFLAGS = -Dreal=double -DTILE=32 -DUNUSED=1\n")
    program = api.load("kernels.cu", defines={"TILE": "128"})
    assert dict(program.source.defines) == {"real": "double", "TILE": "128"}
    assert program.source.notes == ("macros are as Makefile has them (-D real=double)",)


def test_what_no_unit_can_read_says_why(project):
    project(kernels_cu=KERNELS, main_cu='#include "kernels.cu"\nint main() { scale<<<1, 1>>>(0, 0); }\n')
    with pytest.raises(KtcError, match="unknown type 'real'") as e:
        api.load("kernels.cu")
    assert e.value.loc is not None and e.value.loc.file == "kernels.cu"


def test_a_template_is_read_as_some_instance_of_it_can_be(project):
    """A header that is in the way of every instance is left out."""
    project(
        src__k_cu='#include "more.h"\ntemplate <typename T> __global__ void k(T* p) { p[threadIdx.x] = SCALE(2); }\n',
        include__more_h="#define SCALE(x) no_such_function(x)\n",
        Makefile="CFLAGS = -DOTHER\n",
    )
    spec = SourceSpec("src/k.cu", defines={"SCALE(x)": "x"})
    assert list(as_built(spec).include_dirs) == []


def test_a_header_with_folders_of_its_own_is_none_of_cuda_s(project):
    """... whatever its name begins with."""
    project(
        Makefile="all:\n",
        src__layers__k_cu='#include "app/math_loops.h"\n__global__ void k(float* p) { p[threadIdx.x] = ROWS; }\n',
        include__app__math_loops_h="#define ROWS 3\n",
    )
    assert [n.partition(" is read from ")[0] for n in api.load("src/layers/k.cu").source.notes] == ["app/math_loops.h"]


def test_an_error_of_a_header_says_nothing_while_headers_are_missing(project):
    """... that may define what its condition asks for; one of the source itself does."""
    text = '%s\n#include "own.h"\n%s__global__ void k(float* p) { p[threadIdx.x] = 1; }\n'
    stop = "#if !HAS_IT\n#error no way\n#endif\n"
    folder = project(k_cu=text % ("#include <lib/base.h>", ""), own_h=stop)
    assert api.load("k.cu").source.notes == (
        f"the #error of {folder}/own.h:2:1 is passed over, as headers are missing",
    )
    for source in (text % ("", ""), text % ("#include <lib/base.h>", stop)):
        project(k_cu=source)
        with pytest.raises(KtcError, match="#error no way"):
            api.load("k.cu")


def test_kernels_of_the_file_itself_are_listed_before_those_of_its_headers(project):
    project(
        own_h="__global__ void first(int* p) { p[0] = 1; }\n",
        k_cu='#include "own.h"\n' + "__global__ void second(int* p) { p[0] = 2; }\n",
    )
    assert [k.name for k in kernels_as_built("k.cu")[0]] == ["second", "first"]


def test_a_header_that_one_folder_of_the_project_has_is_read_from_there(project):
    """... wherever that is; where several have it, or it is one of CUDA's libraries, it stays unread."""
    source = "#include <parts/rows.h>\n#include <cub/own.h>\n__global__ void k(float* p) { p[threadIdx.x] = ROWS; }\n"
    project(
        Makefile="all:\n",
        src__k_cu=source,
        other__parts__own__parts__rows_h="#define ROWS 3\n",
        other__cub__own_h="#error not to be read\n",
    )
    assert list(api.load("src/k.cu").source.include_dirs) == ["other/parts/own"]
    project(more__parts__rows_h="#define ROWS 4\n")
    with pytest.raises(KtcError, match="unknown name 'ROWS'"):
        api.load("src/k.cu")


def test_a_header_that_is_named_with_a_way_up_is_read_where_it_is(project):
    """The folder that it is in is not that from which the way up begins."""
    project(
        Makefile="all:\n\tnvcc part/kernels.cu\n",
        sizes_h="#define TILE 64\ntypedef float real;\n",
        part__kernels_cu='#include "../sizes.h"\n' + KERNELS
        + "void run(real* p, int n) { scale<<<(n + TILE - 1) / TILE, TILE>>>(p, n); }\n",
    )  # fmt: skip
    assert api.load("part/kernels.cu").kernel.launch is not None


def test_a_header_without_folders_that_only_one_folder_of_the_project_has(project):
    """In quotation marks: ``<name.h>`` is a library's."""
    kernel = KERNELS.replace("TILE", "64")
    project(Makefile="", src__cuda__k_cu='#include "real.h"\n' + kernel, math__shared__real_h="typedef float real;\n")
    found = as_built(SourceSpec("src/cuda/k.cu"))
    assert found.include_dirs == ("math/shared",)
    assert found.notes == ("real.h is read from math/shared, a folder of the same project (-I math/shared)",)
    project(src__cuda__k_cu="#include <real.h>\n" + kernel)
    assert as_built(SourceSpec("src/cuda/k.cu")).include_dirs == ()
    project(src__cuda__k_cu='#include "real.h"\n' + kernel, other__real_h="typedef double real;\n")
    assert as_built(SourceSpec("src/cuda/k.cu")).include_dirs == ()


@pytest.mark.parametrize("condition", ["#ifdef MORE", "#if MORE", "#if defined(MORE)"])
def test_a_kernel_that_a_macro_hides_is_read_with_it(project, condition):
    """The one that is asked for; where another is, the macro stays undefined."""
    kernel = "__global__ void NAME(float* x) { x[threadIdx.x] *= 2; }\n"
    text = f"{condition}\n{kernel.replace('NAME', 'hidden')}#endif\n{kernel.replace('NAME', 'seen')}"
    project(k_cu=text)
    found = as_built(SourceSpec("k.cu", "hidden"))
    assert found.defines == {"MORE": "1"}
    assert found.notes == ("hidden is there where MORE is defined, which it is taken to be (-D MORE)",)
    assert as_built(SourceSpec("k.cu", "seen")).defines == {}
    assert as_built(SourceSpec("k.cu", "hidden", defines={"MORE": "0"})).defines == {"MORE": "0"}


def test_a_kernel_that_several_macros_hide_is_read_with_all_of_them(project):
    text = "#if defined(HAVE_ARITHM) && defined(HAVE_WARPING)\n__global__ void k(float* x) { x[0] = 1; }\n#endif\n"
    project(k_cu=text)
    found = as_built(SourceSpec("k.cu", "k"))
    assert found.defines == {"HAVE_ARITHM": "1", "HAVE_WARPING": "1"}
    assert found.notes[0].endswith("where HAVE_ARITHM and HAVE_WARPING are defined, which it is taken to be "
                                   "(-D HAVE_ARITHM -D HAVE_WARPING)")  # fmt: skip


@pytest.mark.parametrize("name", ["WITH_CUDA", "USE_CUDA", "K2_WITH_CUDA", "MY_LIB_ENABLE_CUDA"])
@pytest.mark.parametrize("condition", ["#ifdef {}", "#if {}", "#if defined({})"])
def test_a_project_with_kernels_is_built_with_cuda(project, name, condition):
    """Whatever it calls the macro that says so: what it stands for is no CUDA without it."""
    header = f"{condition.format(name)}\n#define EACH(i, n) for (int i = threadIdx.x; i < n; ++i)\n#else\n"
    header += "#define __global__\n#endif\n"
    project(loops_h=header, k_cu='#include "loops.h"\n__global__ void k(float* x, int n) { EACH(i, n) x[i] = 1; }\n')
    found = as_built(SourceSpec("k.cu", "k"))
    assert found.defines == {name: "1"}
    assert found.notes == (f"the project is taken to be built with CUDA (-D {name})",)
    assert as_built(SourceSpec("k.cu", "k", defines={name: "0"})).defines == {name: "0"}


@pytest.mark.parametrize("name", ["TORCH_USE_CUDA_DSA", "USE_CUDA_GRAPHS", "CUDA_DISABLER"])
def test_other_macros_with_cuda_in_their_names_stay_undefined(project, name):
    project(k_cu=f"#ifdef {name}\n#error no\n#endif\n__global__ void k(float* x) {{ x[0] = 1; }}\n")
    assert as_built(SourceSpec("k.cu", "k")).defines == {}


@pytest.mark.parametrize("header", ["cuda_utils.cuh", "device_common.h", "vector_loads.h", "math_helpers.h"])
def test_a_project_s_header_may_be_called_as_cuda_s_own_begin(project, tmp_path, header):
    kernel = KERNELS.replace("TILE", "64")
    project(Makefile="", src__cuda__k_cu=f'#include "{header}"\n' + kernel)
    (tmp_path / "math").mkdir()
    (tmp_path / "math" / header).write_text("typedef float real;\n")
    assert as_built(SourceSpec("src/cuda/k.cu")).include_dirs == ("math",)


@pytest.mark.parametrize("name", ["GOOGLE_CUDA", "USE_CUDA"])
def test_an_error_for_builds_without_a_platform_is_led_around_by_cuda_s_macro(project, name):
    text = f"#if {name}\n#elif MY_USE_ROCM\n#error never here\n#else\n#error needs a platform\n#endif\n"
    project(k_cu=text + "__global__ void k(float* x) { x[0] = 1; }\n")
    found = as_built(SourceSpec("k.cu", "k"))
    assert found.defines == {name: "1"}
    assert found.notes == (f"the project is taken to be built with CUDA (-D {name})",)


def test_an_error_that_no_macro_of_cuda_s_leads_around_stays(project):
    project(
        k_cu="#ifdef WITH_CUDA_FP8\n#else\n#error needs a type\n#endif\n__global__ void k(float* x) { x[0] = 1; }\n"
    )
    assert as_built(SourceSpec("k.cu", "k")).defines == {}


def test_a_macro_that_a_build_has_to_define_is_the_least_number_allowed(project):
    """Features are switched on by 1; what a header compares with other numbers is one of those; CUDA is there."""
    text = "".join(
        f'#ifndef {n}\n#error "define {n}"\n#endif\n' for n in ("COMPILE_CUDA", "COMPILE_MPI", "FLOAT_PRECISION")
    )
    text += "#if !(FLOAT_PRECISION == 2 || FLOAT_PRECISION == 1)\n#error a precision\n#endif\n"
    project(k_cu=text + "__global__ void k(float* x) { x[0] = COMPILE_CUDA + COMPILE_MPI; }\n")
    found = as_built(SourceSpec("k.cu", "k"))
    assert found.defines == {"COMPILE_CUDA": "1", "COMPILE_MPI": "0", "FLOAT_PRECISION": "1"}
    assert any("-D COMPILE_MPI=0 -D FLOAT_PRECISION=1" in note for note in found.notes)
    assert as_built(SourceSpec("k.cu", "k", defines={"COMPILE_MPI": "1"})).defines["COMPILE_MPI"] == "1"


def test_a_kernel_that_a_header_declares_is_read_by_the_unit_that_defines_it(project):
    """Which may not include that header, where others do."""
    project(
        kernels_h="__global__ void one(float* x);\n__global__ void two(float* x);\n",
        one_cu='#include "kernels.h"\n__global__ void one(float* x) { x[0] = 1; }\n'
        "void go(float* x) { one<<<1, 1>>>(x); }\n",
        two_cu="__global__ void two(float* x) { x[0] = 2; }\nvoid go2(float* x) { two<<<1, 1>>>(x); }\n",
    )
    assert as_built(SourceSpec("kernels.h", "one")).kernel == "one.cu"
    found = as_built(SourceSpec("kernels.h", "two"))
    assert found.kernel == "two.cu"
    assert found.notes == ("the kernel that kernels.h declares is read as two.cu defines it",)
    with pytest.raises(KtcError, match="no kernel") as refused:
        load("__global__ void gone(float* x);\n__global__ void k(float* x) { x[0] = 1; }", kernel="gone")
    assert "only declared" in refused.value.hint


def test_the_unit_that_mentions_a_kernel_is_tried_before_those_that_include_its_header(project):
    include = '#include "all.h"\n'
    project(
        all_h="__global__ void last(float* x);\n",
        **{f"u{i}_cu": include + f"__global__ void k{i}(float* x) {{ x[0] = {i}; }}\n" for i in range(5)},
        v_cu=include + "__global__ void last(float* x) { x[0] = 9; }\nvoid go(float* x) { last<<<1, 1>>>(x); }\n",
    )
    assert as_built(SourceSpec("all.h", "last")).kernel == "v.cu"


def test_a_kernel_for_newer_libraries_is_there_with_the_version_that_it_asks_for(project):
    text = "#define LIB_GROUPS 130300\n#if LIB_VERSION >= LIB_GROUPS\n{}#endif\n"
    project(k_cu=text.format("__global__ void k(float* x) { x[0] = LIB_VERSION; }\n"))
    found = as_built(SourceSpec("k.cu", "k"))
    assert found.defines == {"LIB_VERSION": "LIB_GROUPS"}
    assert found.notes == (
        "k is there where LIB_VERSION is defined, which it is taken to be (-D LIB_VERSION=LIB_GROUPS)",
    )
    assert load("k.cu", kernel="k", defines=found.defines).name == "k"
