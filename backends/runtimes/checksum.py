"""Checksums of device buffers, computed on the device: what tells whether two launches left the same bits.

Every 32-bit word is mixed with its position (the finaliser of splitmix64; Steele, Lea, Flood, OOPSLA 2014) and the
results are summed modulo 2^64, so that a changed, moved or swapped word changes the sum. Downloading and hashing a
large output costs more than measuring the kernel.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .nvrtc import Cubin, compile_cubin

LANES = 1 << 16
"""Work-items; each sums every LANES-th word."""

BODY = """
  u64 total = 0;
  for (u64 i = lane; i < n; i += lanes) {
    u64 z = words[i] ^ ((i + 1) * 0x9E3779B97F4A7C15UL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9UL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBUL;
    total += z ^ (z >> 31);
  }
  sums[lane] = total;
}
"""
CUDA = (
    """
typedef unsigned long long u64;
extern "C" __global__ void checksum(const unsigned int* words, u64 n, u64* sums) {
  const u64 lane = (u64)blockIdx.x * blockDim.x + threadIdx.x, lanes = (u64)gridDim.x * blockDim.x;"""
    + BODY
)
OPENCL = (
    """
typedef ulong u64;
__kernel void checksum(__global const uint* words, ulong n, __global ulong* sums) {
  const u64 lane = get_global_id(0), lanes = get_global_size(0);"""
    + BODY
)


def cubin_of_checksum(arch: str) -> Cubin:
    """The kernel for ``arch`` (``sm_90``), through the cache."""
    return compile_cubin(CUDA, "checksum", arch)


@functools.cache
def _cuda_kernel(cp: Any, arch: str) -> Any:
    cubin = cubin_of_checksum(arch)
    module = cp.cuda.function.Module()
    module.load(cubin.code)
    return module.get_function(cubin.symbol)


def cuda_checksum(cp: Any, arch: str, array: Any) -> str:
    """Checksum of a CuPy array of any type, on a device of ``arch``, in the current stream."""
    raw = array.reshape(-1).view(cp.uint8)
    whole = raw.size // 4
    sums = cp.zeros(LANES, cp.uint64)
    _cuda_kernel(cp, arch)((LANES // 256,), (256,), (raw, np.uint64(whole), sums))
    return _text(cp.asnumpy(sums), cp.asnumpy(raw[whole * 4 :]))


def opencl_checksum(cl: Any, queue: Any, kernel: Any, buffer: Any, nbytes: int) -> str:
    """Checksum of an OpenCL buffer; ``kernel`` is ``checksum`` of :data:`OPENCL`."""
    whole, sums = nbytes // 4, np.zeros(LANES, np.uint64)
    out = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, sums.nbytes)
    kernel.set_args(buffer, np.uint64(whole), out)
    cl.enqueue_nd_range_kernel(queue, kernel, (LANES,), None)
    cl.enqueue_copy(queue, sums, out)
    rest = np.empty(nbytes - whole * 4, np.uint8)
    if rest.nbytes:
        cl.enqueue_copy(queue, rest, buffer, src_offset=whole * 4)
    return _text(sums, rest)


def _text(sums: np.ndarray, rest: np.ndarray) -> str:
    """The sum modulo 2^64 and the bytes behind the last whole word."""
    return f"{int(sums.sum(dtype=np.uint64)):016x}{rest.tobytes().hex()}"
