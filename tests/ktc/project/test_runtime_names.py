"""A template that only a compiler at run time makes an instance of: where the program says what its arguments are."""

from __future__ import annotations

from pathlib import Path

from ktc.project.runtime_names import named_at_run_time

KERNEL = "template <typename T, int N> __global__ void scaled(T* x) { x[threadIdx.x] *= N; }\n"


def test_a_string_that_names_an_instance_is_found(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("project(p)\n")
    (tmp_path / "device").mkdir()
    kernel = tmp_path / "device" / "scaled.cuh"
    kernel.write_text(KERNEL)
    host = tmp_path / "host.cpp"
    host.write_text(
        '#include <string>\n// "rescaled<int>"\nstd::string name = format("ns::scaled<{}, {}>", type, n);\n'
    )
    told = named_at_run_time(str(kernel), "scaled")
    assert told is not None and "host.cpp:3 " in told and '"ns::scaled<{}, {}>"' in told


def test_other_names_and_launches_are_none(tmp_path: Path) -> None:
    kernel = tmp_path / "scaled.cu"
    kernel.write_text(KERNEL + "void go(float* x) { scaled<float, 2><<<1, 32>>>(x); }\n")
    (tmp_path / "host.py").write_text('names = ("rescaled<float>", "scaled")\n')
    assert named_at_run_time(str(kernel), "scaled") is None
