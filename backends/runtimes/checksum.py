"""Checksums of device buffers, computed on the device: what tells whether two launches left the same bits.

Every 32-bit word is mixed with its position (the finaliser of splitmix64; Steele, Lea, Flood, OOPSLA 2014) and the results
are summed modulo 2^64, so that a changed, moved or swapped word changes the sum. Downloading and hashing a large output
costs more than measuring the kernel.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

MIX = """
    unsigned long long z = ((unsigned long long)v << 32 | (unsigned int)v) ^ ((i + 1) * 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    z ^= z >> 31;
"""

OPENCL_LANES = 1 << 14
OPENCL = (
    """
__kernel void checksum(__global const uint* words, ulong n, __global ulong* sums) {
  ulong total = 0;
  for (ulong i = get_global_id(0); i < n; i += get_global_size(0)) {
    uint v = words[i];
"""
    + MIX.replace("unsigned long long", "ulong").replace("unsigned int", "uint").replace("ULL", "UL")
    + """    total += z;
  }
  sums[get_global_id(0)] = total;
}
"""
)


@functools.cache
def _cuda_reduction(cp: Any) -> Any:
    mix = "__device__ unsigned long long mix(unsigned int v, unsigned long long i) {" + MIX + "return z; }"
    return cp.ReductionKernel("uint32 v", "uint64 s", "mix(v, _i)", "a + b", "s = a", "0", "ktc_checksum", preamble=mix)


def cuda_checksum(cp: Any, array: Any) -> str:
    """Checksum of a CuPy array of any type."""
    raw = array.reshape(-1).view(cp.uint8)
    whole = raw.size // 4 * 4
    total = int(_cuda_reduction(cp)(raw[:whole].view(cp.uint32))) if whole else 0
    return f"{total:016x}{cp.asnumpy(raw[whole:]).tobytes().hex()}"


def opencl_checksum(cl: Any, queue: Any, kernel: Any, buffer: Any, nbytes: int) -> str:
    """Checksum of an OpenCL buffer; ``kernel`` is ``checksum`` of :data:`OPENCL`."""
    whole, sums = nbytes // 4, np.zeros(OPENCL_LANES, np.uint64)
    out = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, sums.nbytes)
    kernel.set_args(buffer, np.uint64(whole), out)
    cl.enqueue_nd_range_kernel(queue, kernel, (OPENCL_LANES,), None)
    cl.enqueue_copy(queue, sums, out)
    rest = np.empty(nbytes - whole * 4, np.uint8)
    if rest.nbytes:
        cl.enqueue_copy(queue, rest, buffer, src_offset=whole * 4)
    with np.errstate(over="ignore"):
        total = int(sums.sum(dtype=np.uint64))
    return f"{total:016x}{rest.tobytes().hex()}"
