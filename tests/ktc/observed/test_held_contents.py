"""Workloads of kernels whose indices lie in memory: what a real call was passed says what runs of them cannot."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from ktc.observed.from_program import write_workload
from ktc.observed.launch_records import KernelRecord, ProgramRecord, Record
from ktc.observed.observed_calls import ObservedBuffer
from ktc.profiling.kernel_sources import SourceTree
from ktc.profiling.profile_format import Geometry

SOURCE = """
struct Point { float at, low, high; };
__global__ void look_up(float *out, const float *edges, const int *first, const Point *points, int n, int kinds,
                        int cells) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float q = 1.0f / (i + 2);
  int low = 0, high = kinds * cells - 1;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (edges[middle] > q) high = middle;
    else low = middle;
  }
  float sum = 0;
  for (int k = 0; k < kinds; ++k) {
    int c = first[low * kinds + k], from = c == cells - 1 ? k * cells + c - 1 : k * cells + c;
    sum += points[from].low + points[from + 1].high;
  }
  out[i] = sum;
}
void run(float *out, float *edges, int *first, Point *points, int n, int kinds, int cells) {
  look_up<<<(n + 127) / 128, 128>>>(out, edges, first, points, n, kinds, cells);
}
"""
NAME = "look_up(float*, float const*, int const*, Point const*, int, int, int)"
N, KINDS, CELLS = 1000, 5, 310

PICK = """
__global__ void pick(float *out, const float *table, const int *which, const float *weights, int n, int m) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = table[which[i]] * weights[m - 1];
}
void run(float *out, float *table, int *which, float *weights, int n, int m) {
  pick<<<(n + 127) / 128, 128>>>(out, table, which, weights, n, m);
}
"""
PICKED = "pick(float*, float const*, int const*, float const*, int, int)"


def drafted(
    folder: Path, source: str, name: str, held: list[np.ndarray], numbers: list[int]
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]], str]:
    """Arguments, scenarios and the text of the workload of one call, of which a capture holds what buffers held."""
    (folder / "source.cu").write_text(source)
    buffers = {8 * i: ObservedBuffer(i + 1 << 20, i + 1 << 20, x.nbytes, x.view(np.uint8)) for i, x in enumerate(held)}
    arguments = np.uint64([b.address for b in buffers.values()]).tobytes() + np.int32(numbers).tobytes()
    record = Record(Geometry((-(-numbers[0] // 128), 1, 1), (128, 1, 1)), arguments, buffers)
    parameters = (*((at, 8) for at in buffers), *((8 * len(held) + 4 * i, 4) for i in range(len(numbers))))
    k = KernelRecord(name, name.partition("(")[0], parameters, (record,))
    program = ProgramRecord(folder, ("./prog",), "ktc capture", (k,))
    text = write_workload(program, k, SourceTree([str(folder)]), folder / "w.toml").path.read_text()
    doc = tomllib.loads(text)
    return {a["name"]: a for a in doc["args"]}, doc["scenario"], text


def picked(folder: Path, which: np.ndarray, m: int = CELLS) -> tuple[dict[str, Any], dict[str, int], str]:
    """What is said of the indices of :data:`PICK`, and the sizes of its call."""
    held = [np.zeros(N, np.float32), np.zeros(m, np.float32), which.astype(np.int32), np.zeros(m, np.float32)]
    args, scenarios, text = drafted(folder, PICK, PICKED, held, [N, m])
    return args["which"], scenarios[0]["sizes"], text


def indices(below: int, n: int = N) -> np.ndarray:
    return np.random.default_rng(1).permutation(np.arange(n) % below)


def test_indices_stay_below_the_parameter_that_those_of_the_call_stay_below(tmp_path: Path) -> None:
    which, sizes, _ = picked(tmp_path, indices(CELLS))
    assert (which["init"], which["range"]) == ("index", [0, "m - 1"])
    assert sizes == {"n": N, "m": CELLS}, "no size of the indices' own"


def test_indices_below_no_parameter_have_a_size_of_their_own(tmp_path: Path) -> None:
    which, sizes, text = picked(tmp_path, indices(70))
    (own,) = sizes.keys() - {"n", "m"}
    assert which["range"] == [0, f"{own} - 1"] and sizes[own] == 70
    assert "no launch shows it" not in text


def test_memory_that_nobody_wrote_says_nothing_of_indices(tmp_path: Path) -> None:
    which = indices(CELLS)
    which[7] = -875_900_000
    found, sizes, _ = picked(tmp_path, which)
    (own,) = sizes.keys() - {"n", "m"}
    assert found["range"] == [0, f"{own} - 1"] and sizes[own] == CELLS, "as many as the table has"


def test_buffers_are_as_long_as_allocated_in_the_sizes_that_subscripts_are_made_of(tmp_path: Path) -> None:
    """Runs of this kernel do not tell ``n`` from ``kinds``, and what an index reaches hangs on what it holds."""
    rng = np.random.default_rng(0)
    edges, points = rng.random(KINDS * CELLS, dtype=np.float32), rng.random(3 * KINDS * CELLS, dtype=np.float32)
    first = indices(CELLS, KINDS * KINDS * CELLS).astype(np.int32)
    held = [np.zeros(N, np.float32), np.sort(edges), first, points]
    args, scenarios, text = drafted(tmp_path, SOURCE, NAME, held, [N, KINDS, CELLS])
    assert args["out"]["shape"] == ["n"] and args["points"]["shape"] == ["kinds", "3 * cells"], "records of three"
    assert sorted(args["first"]["shape"]) == ["cells", "kinds", "kinds"]
    assert scenarios[0]["sizes"] == {"n": N, "kinds": KINDS, "cells": CELLS}
    assert args["edges"]["init"] == "sorted", "a table that is searched"
    assert args["points"]["init"] == "uniform"
    assert "CHECK" not in text
