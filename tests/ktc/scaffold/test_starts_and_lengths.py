"""Drafts of rows whose starts and lengths lie in two buffers, of rows that another buffer chooses, of lengths that a
kernel computes, and of what a number leaves."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import ktc
from ktc.scaffold import workload_text

POOL = """
__global__ void pool(const float* x, const int* begin, const int* length, float* o, int channels, int cells) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, cell = i / channels, c = i % channels;
  if (cell >= cells) return;
  int first = begin[cell], n = length[cell];
  const float* mine = x + first * channels + c;
  float sum = 0;
  for (int k = 0; k < n; k++) sum += mine[k * channels];
  o[cell * channels + c] = sum;
}
void go(const float* x, const int* begin, const int* length, float* o, int channels, int cells) {
  pool<<<(cells * channels + 255) / 256, 256>>>(x, begin, length, o, channels, cells);
}
"""
CLASSES = """
__global__ void sums(const float* x, const int* begin, const int* length, float* o, int all, int classes, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (int c = 0; c < classes; ++c) {
    float sum = 0;
    for (int k = 0; k < length[c]; k++) sum += x[i * all + begin[c] + k];
    o[i * classes + c] = sum;
  }
}
void go(const float* x, const int* begin, const int* length, float* o, int all, int classes, int n) {
  sums<<<(n + 127) / 128, 128>>>(x, begin, length, o, all, classes, n);
}
"""
CHOSEN = """
__global__ void rows(const float* val, const int* col, const int* ptr, const int* which, float* out, int m) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < m; i += gridDim.x * blockDim.x) {
    int row = which[i];
    for (int j = ptr[row]; j < ptr[row + 1]; ++j) out[col[j] * m + i] = val[j];
  }
}
void go(const float* val, const int* col, const int* ptr, const int* which, float* out, int m) {
  rows<<<32, 256>>>(val, col, ptr, which, out, m);
}
"""
PAIRS = """
__global__ void votes(const float* rho, const float* sums, float* out, int classes, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    int k = 0, pairs = classes * (classes - 1) / 2;
    for (int a = 0; a < classes; ++a)
      for (int b = a + 1; b < classes; ++b) {
        out[i * pairs + k] = sums[i * classes + a] - sums[i * classes + b] - rho[k];
        ++k;
      }
  }
}
void go(const float* rho, const float* sums, float* out, int classes, int n) {
  votes<<<16, 128>>>(rho, sums, out, classes, n);
}
"""
HALVES = """
#include <cuda_fp16.h>
__global__ void twice(int n, bool odd, const __half2* x, __half2* o) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (odd && i == n - 1) ((__half*)o)[2 * i] = __hadd(((const __half*)x)[2 * i], ((const __half*)x)[2 * i]);
  else o[i] = __hadd2(x[i], x[i]);
}
void go(const __half2* x, __half2* o, int count) {
  bool odd = count & 0x1;
  int n = (count + 1) / 2;
  twice<<<(n + 127) / 128, 128>>>(n, odd, x, o);
}
"""
DEVICE = """
int sm_count();
__global__ void most(const float* x, float* o, int n) {
  float best = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) best = fmaxf(best, x[i]);
  o[blockIdx.x * blockDim.x + threadIdx.x] = best;
}
void go(const float* x, float* o, int n) { const int num_sms = sm_count(); most<<<8 * num_sms, 64>>>(x, o, n); }
"""


def drafted(folder: Path, text: str) -> tuple[dict[str, Any], dict[str, dict[str, int]]]:
    (folder / "k.cu").write_text(text)
    program = ktc.load(str(folder / "k.cu"))
    assert program.source is not None
    written = tomllib.loads(workload_text(program.kernel, program.source, folder / "workload.toml")[0])
    return {a["name"]: a for a in written["args"]}, {s["name"]: s["sizes"] for s in written["scenario"]}


def test_rows_are_as_far_apart_as_they_are_long_at_most(tmp_path: Path) -> None:
    args, _ = drafted(tmp_path, POOL)
    assert args["x"]["shape"] == ["begin_apart", "cells", "channels"]
    assert (args["begin"]["init"], args["begin"]["range"]) == ("starts", [0, "(cells - 1) * begin_apart"])
    assert (args["length"]["init"], args["length"]["range"]) == ("index", [0, "begin_apart"])


def test_a_size_that_is_as_long_as_all_rows_together_is_that(tmp_path: Path) -> None:
    args, _ = drafted(tmp_path, CLASSES)
    assert args["all"]["value"] == "classes * begin_apart"
    assert sorted(args["x"]["shape"]) == ["begin_apart", "classes", "n"]


def test_rows_of_a_sparse_matrix_that_another_buffer_chooses_have_elements(tmp_path: Path) -> None:
    args, _ = drafted(tmp_path, CHOSEN)
    assert args["val"]["shape"] == args["col"]["shape"] == ["ptr_last"]
    assert len(args["out"]["shape"]) == 2


def test_rows_are_as_long_as_the_kernel_computes(tmp_path: Path) -> None:
    args, _ = drafted(tmp_path, PAIRS)
    assert args["rho"]["shape"] == ["classes * (classes - 1) / 2"]
    assert args["out"]["shape"] == ["n", "classes * (classes - 1) / 2"]


def test_a_flag_that_says_what_a_number_leaves_follows_it(tmp_path: Path) -> None:
    args, sizes = drafted(tmp_path, HALVES)
    assert (args["odd"]["value"], args["n"]["value"]) == ("count % 2", "(count + 1) / 2")
    assert args["x"]["shape"] == ["2 * ((count + 1) / 2)"]
    assert sizes["odd"]["count"] % 2 == 1


def test_the_number_of_multiprocessors_is_no_size(tmp_path: Path) -> None:
    args, sizes = drafted(tmp_path, DEVICE)
    assert args["num_sms"]["value"] == 128
    assert all({*s} == {"n"} for s in sizes.values())
