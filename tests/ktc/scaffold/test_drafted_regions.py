"""Drafts of kernels whose floating-point numbers say where something is: the image of each region, as an integer."""

from __future__ import annotations

from pathlib import Path

import ktc
from ktc.ir.frontend import load
from ktc.ir.workload import Workload
from ktc.scaffold import workload_text
from ktc.scaffold.integer_values import whole_floats
from ktc.search.verification import check_original

CROP = """
__global__ void crop(const float* maps, const float* boxes, float* out, int boxes_n, int C, int H, int W, int S) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= boxes_n * C * S) return;
  int s = i % S, c = i / S % C, b = i / S / C;
  const float* box = boxes + b * 4;
  int image = box[0];
  float y = box[1] + (box[2] - box[1]) * s / S, x = box[3];
  const float* map = maps + (image * C + c) * H * W;
  float sum = 0;
  for (int u = 0; u < W; u++)
    if (y >= 0 && y < H && u >= x) sum += map[(int)y * W + u];
  out[i] = sum;
}
void go(const float* maps, const float* boxes, float* out, int n, int C, int H, int W, int S) {
  crop<<<(n * C * S + 127) / 128, 128>>>(maps, boxes, out, n, C, H, W, S);
}
"""

GATHER = """
__global__ void gather(const float* table, const double* which, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = table[(int)which[i]] * which[i];
}
void go(const float* t, const double* w, float* o, int n) { gather<<<(n + 255) / 256, 256>>>(t, w, o, n); }
"""


def written(source: str, folder: Path) -> str:
    """The workload drafted for ``source``, which the kernel runs clean with."""
    (folder / "k.cu").write_text(source)
    program = ktc.load(str(folder / "k.cu"))
    assert program.source is not None
    text, doubts = workload_text(program.kernel, program.source, folder / "workload.toml")
    assert not [x for x in doubts if "run at" in x]
    (folder / "workload.toml").write_text(text)
    work = Workload.load(folder)
    assert check_original(work.load_kernel(), work) == []
    return text


def argument(text: str, name: str) -> str:
    return text.split(f'name = "{name}"\n')[1].split("[[")[0]


def test_the_elements_that_are_taken_as_integers_are_known_by_their_place_in_a_row() -> None:
    assert whole_floats(load(CROP, name="k.cu")) == {"boxes": (4, 0)}
    assert whole_floats(load(GATHER, name="k.cu")) == {"which": (1, 0)}


def test_regions_lie_in_one_of_several_images(tmp_path: Path) -> None:
    text = written(CROP, tmp_path)
    assert 'shape = ["boxes_values", "C", "H", "W"]' in argument(text, "maps")
    assert 'init = "index"\nrange = [0, "boxes_values - 1"]' in argument(text, "boxes")


def test_floats_that_are_indices_stay_below_the_length_of_the_table(tmp_path: Path) -> None:
    text = written(GATHER, tmp_path)
    assert 'shape = ["which_values"]' in argument(text, "table")
    assert 'init = "index"\nrange = [0, "which_values - 1"]' in argument(text, "which")


def test_a_coordinate_that_is_computed_with_is_no_index(tmp_path: Path) -> None:
    source = GATHER.replace("table[(int)which[i]]", "table[max(0, min((int)(which[i] + 0.5), n - 1))]")
    assert whole_floats(load(source, name="k.cu")) == {}
    assert 'init = "normal"' in argument(written(source, tmp_path), "which")
