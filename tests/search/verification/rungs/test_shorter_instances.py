"""Sizes that make runs long, made smaller: as few statements as are allowed, and all else as it was."""

from __future__ import annotations

from ktc.ir.frontend.entry_points import load
from ktc.search.verification.instances.instances import Instance, Maker
from ktc.search.verification.rungs.shorter_instances import foreseen, shortened
from tests.search.verification.rungs.test_small_launch_limits import workload

IN_TWO_BLOCKS = """
__global__ void rowwise(float* __restrict__ o, const float* __restrict__ a, int rows, int cols) {
  for (int j = blockIdx.x; j < rows; j += gridDim.x)
    for (int t = threadIdx.x; t < cols; t += blockDim.x) o[j * cols + t] = 2 * a[j * cols + t];
}
void run(float* o, const float* a, int rows, int cols) { rowwise<<<2, 64>>>(o, a, rows, cols); }
"""


def _maker() -> Maker:
    kernel = load(IN_TWO_BLOCKS, name="source.cu")
    return Maker((kernel, kernel), workload("o", "a", rows=900, cols=700), 1 << 17)


def _made(maker: Maker, rows: int, cols: int) -> Instance:
    made = maker.make({"rows": rows, "cols": cols})
    assert made is not None
    return made


def test_many_rows_of_few_elements_become_fewer_rows() -> None:
    maker = _maker()
    many, few = _made(maker, 16_391, 3), _made(maker, 5, 700)
    short, long = shortened(maker, [many, few], 500)
    assert few in short and long == [many]
    less = next(i for i in short if i is not few)
    assert less.sizes["cols"] == 3 and 64 < less.sizes["rows"] < 1000
    assert foreseen(maker.kernels, maker.workload, less.sizes) <= 500


def test_what_no_size_makes_shorter_stays() -> None:
    maker = _maker()
    least = _made(maker, 1, 1)
    assert shortened(maker, [least], 0) == ([least], [])
