"""Drafts of kernels behind wrappers that only other files of the project call."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktc
from ktc.ir.workload import Workload
from ktc.scaffold.text import workload_text

HEADER = """
#pragma once
struct Sizes { int rows, cols, pitch; };
extern "C" {
void scale_d(dim3 blocks, dim3 block, double* x, double by, Sizes s);
void scale_f(dim3 blocks, dim3 block, float* x, float by, Sizes s);
}
"""
OVERLOADS = """
#include "k.h"
inline void scale(dim3 g, dim3 b, float* x, float by, Sizes s) { scale_f(g, b, x, by, s); }
inline void scale(dim3 g, dim3 b, double* x, double by, Sizes s) { scale_d(g, b, x, by, s); }
"""
KERNEL = """
#include "k.h"
template <typename T> __global__ void scale_kernel(T* x, T by, Sizes s) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (j < s.cols && i < s.rows) x[i * s.pitch + j] *= by;
}
void scale_f(dim3 blocks, dim3 block, float* x, float by, Sizes s) { scale_kernel<<<blocks, block>>>(x, by, s); }
void scale_d(dim3 blocks, dim3 block, double* x, double by, Sizes s) { scale_kernel<<<blocks, block>>>(x, by, s); }
"""
CALLER = """
#include "gone/base.h"
#include "kernels.h"
inline int blocks_for(int n, int each) { return n / each + (n % each == 0 ? 0 : 1); }
template <typename T> class Matrix {
 public:
  int Rows() const { return rows_; }
  int Cols() const { return cols_; }
  Sizes Size() const { Sizes s = {rows_, cols_, pitch_}; return s; }
  void Scale(T by);

 private:
  T* data_;
  int rows_, cols_, pitch_;
};
template <typename T> void Matrix<T>::Scale(T by) {
  if (rows_ == 0) return;
  dim3 block(64, 4);
  dim3 blocks(blocks_for(Cols(), 64), blocks_for(this->Rows(), 4));
  scale(blocks, block, data_, by, Size());
}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    for name, text in {"k.h": HEADER, "kernels.h": OVERLOADS, "k.cu": KERNEL, "matrix.cc": CALLER}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def drafted(project: Path, **template: str) -> tuple[Workload, list[str]]:
    program = ktc.load(str(project / "k.cu"), template=template)
    assert program.source is not None
    text, todo = workload_text(program.kernel, program.source, project / "k.toml")
    return Workload.parse(text, project / "k.toml"), todo


def test_what_another_file_passes_for_extents_is_the_launch(project: Path) -> None:
    work, todo = drafted(project, T="float")
    values = {a.name: a.value for a in work.args if a.role == "scalar"}
    assert (values["block_x"], values["block_y"]) == (64, 4)
    assert (values["blocks_x"], values["blocks_y"]) == ("cdiv(s_cols, 64)", "cdiv(s_rows, 4)")
    assert not any("launch" in t for t in todo)
    assert {a.name: a.shape for a in work.args if a.role != "scalar"} == {"x": ("s_rows", "s_cols")}


def test_callers_of_the_kernel_s_own_file_are_enough(project: Path) -> None:
    own = "void go(float* x, Sizes s) { scale_f(dim3(s.cols / 32, s.rows), dim3(32), x, 2.0f, s); }\n"
    (project / "k.cu").write_text(KERNEL + own)
    work, _ = drafted(project, T="float")
    assert {a.name: a.value for a in work.args}["block_x"] == 32


def test_files_outside_of_a_project_are_not_looked_at(project: Path) -> None:
    (project / ".git").rmdir()
    work, todo = drafted(project, T="float")
    assert {a.name: a.value for a in work.args}["block_x"] == 16 and any("the launch" in t for t in todo)
