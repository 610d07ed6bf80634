"""Kernels that programs launch one after the other, and sequences of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ktc.ir.kernel import Kernel
from ktc.ir.text import named_apart
from ktc.ir.workload import Workload

KERNELS = """
__global__ void scale(float* y, const float* x, float s, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * s;
}
__global__ void shift(float* z, const float* y, float b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = y[i] + b;
}
__global__ void neighbours(float* z, const float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = y[i] + (i + 1 < n ? y[i + 1] : 0.0f);
}
__global__ void normalise_rows(float* y, const float* x, int d) {
  __shared__ float part[64];
  float sum = 0.f;
  for (int i = threadIdx.x; i < d; i += blockDim.x) sum += x[blockIdx.x * d + i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  for (int i = threadIdx.x; i < d; i += blockDim.x) y[blockIdx.x * d + i] = x[blockIdx.x * d + i] - part[0];
}
__global__ void scale_rows(float* top, float* q, const float* y, int d) {
  __shared__ float part[32];
  float m = 0.f;
  for (int i = threadIdx.x; i < d; i += blockDim.x) m = fmaxf(m, fabsf(y[blockIdx.x * d + i]));
  part[threadIdx.x] = m;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + s]);
    __syncthreads();
  }
  if (threadIdx.x == 0) top[blockIdx.x] = part[0];
  for (int i = threadIdx.x; i < d; i += blockDim.x)
    q[blockIdx.x * d + i] = y[blockIdx.x * d + i] * 4.0f + part[0];
}
__global__ void column_sums(float* out, const float* y, int rows, int d) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j < d) {
    float sum = 0.f;
    for (int r = 0; r < rows; ++r) sum += y[r * d + j];
    out[j] = sum;
  }
}
"""

FLAT = {"grid": "cdiv(n, 64)", "block": "64"}
Launch = tuple[str, Mapping[str, object], str, str]
"""Kernel, what is passed, grid, block."""


def workload(
    folder: Path, args: Sequence[str], launches: Sequence[Launch], sizes: str = "n = 300", kernels: str = KERNELS
) -> Workload:
    """The workload of a sequence: ``args`` as ``name dtype shape role``, with ``apart`` for noalias; of a scalar that
    carries the size of its name, what that is between as ``name dtype low,high scalar``."""
    (folder / "kernels.cu").write_text(kernels)
    text = ['[sequence]\nname = "sequence"\nsource = "kernels.cu"\n']
    for row in args:
        name, dtype, shape, role, *apart = row.split()
        if role == "scalar":
            text.append(f'[[args]]\nname = "{name}"\ndtype = "{dtype}"\nrole = "scalar"\nvalue = "{name}"')
            text.append(f"range = [{shape}]\n")
            continue
        dims = ", ".join(f'"{s}"' for s in shape.split(","))
        text.append(f'[[args]]\nname = "{name}"\ndtype = "{dtype}"\nshape = [{dims}]\nrole = "{role}"')
        text.append("noalias = true\n" if apart else "")
    for kernel, passed, grid, block in launches:
        given = ", ".join(f"{k} = {v}" if isinstance(v, float) else f'{k} = "{v}"' for k, v in passed.items())
        text.append(f'[[launch]]\nkernel = "{kernel}"\nargs = {{ {given} }}\ngrid = ["{grid}"]\nblock = ["{block}"]\n')
    text.append(f'[[scenario]]\nname = "usual"\nsizes = {{ {sizes} }}\n')
    path = folder / "workload.toml"
    path.write_text("\n".join(text))
    return Workload.load(path)


def elementwise(folder: Path, apart: str = " apart", second: str = "shift") -> Workload:
    """Two element-wise launches, of other block sizes, by a temporary."""
    more: Mapping[str, object] = {"b": 1.0} if second == "shift" else {}
    return workload(
        folder,
        [f"x f32 n in{apart}", "y f32 n temp", f"z f32 n out{apart}"],
        [("scale", {"s": 2.0}, "cdiv(n, 64)", "64"), (second, more, "cdiv(n, 128)", "128")],
    )


ROWS = "rows = 9, d = 70"


def rows(folder: Path) -> Workload:
    """Two kernels with a block a row, of other block sizes, by a temporary."""
    return workload(
        folder,
        ["x f32 rows,d in apart", "y f32 rows,d temp", "top f32 rows out apart", "q f32 rows,d out apart"],
        [("normalise_rows", {}, "rows", "64"), ("scale_rows", {}, "rows", "32")],
        ROWS,
    )


def of(work: Workload) -> Kernel:
    """The sequence, as a script is applied to it."""
    return named_apart(work.load_kernel())
