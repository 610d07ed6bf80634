"""What a copy reaches: the bandwidth that floors are counted at, and copies of as many bytes as a kernel moves.

A launch that moves few bytes is not done in bytes / bandwidth: memory starts to answer after a microsecond and blocks
run out one by one. On an H200 a copy of 24 MB onto 24 MB takes 13.3 us where its bytes ask for 11.2, and one of a
gigabyte 251 where they ask for 250. So a kernel of that size is held against a copy of that size, too.
"""

from __future__ import annotations

from typing import Any

from tests.bench.graphs import ROTATE_BYTES, Contender, race

TEXT = """template <int U> __device__ void copy(float4* out, const float4* in, long long n) {
  const long long i = (long long)blockIdx.x * blockDim.x * U + threadIdx.x;
  float4 v[U];
  #pragma unroll
  for (int k = 0; k < U; ++k) if (i + k * blockDim.x < n) v[k] = in[i + k * blockDim.x];
  #pragma unroll
  for (int k = 0; k < U; ++k) if (i + k * blockDim.x < n) out[i + k * blockDim.x] = v[k];
}
extern "C" __global__ void copy1(float4* o, const float4* i, long long n) { copy<1>(o, i, n); }
extern "C" __global__ void copy2(float4* o, const float4* i, long long n) { copy<2>(o, i, n); }
extern "C" __global__ void copy4(float4* o, const float4* i, long long n) { copy<4>(o, i, n); }
"""
SHAPES = ((1, 128), (1, 256), (2, 256), (4, 512))
"""Vectors a thread copies, threads a block: the fastest of each size that was tried."""


def copies(moved: float) -> list[Contender]:
    """Copies that read ``moved / 2`` bytes and write as many, over buffers that rotate past the L2."""
    import cupy as cp

    from tests.bench.serving import _launch, compiled

    n = max(1, int(moved / 2) // 16)
    rotations = max(1, -(-ROTATE_BYTES // (32 * n)))
    sets = [(cp.zeros(4 * n, cp.float32), cp.zeros(4 * n, cp.float32)) for _ in range(min(rotations, 64))]

    def contender(unroll: int, threads: int) -> Contender:
        f, blocks = compiled(TEXT, f"copy{unroll}"), -(-n // (threads * unroll))

        def go(s: Any) -> None:
            _launch(f, (blocks, 1, 1), (threads, 1, 1), [s[1], s[0], n], 0)

        return Contender(f"copy {unroll}x{threads}", go, sets)

    return [contender(*shape) for shape in SHAPES]


def copy_bandwidth() -> float:
    """Bytes read plus written per second by the best copy of 1 GiB: the measured ceiling."""
    moved = 2.0 * (1 << 30)
    contenders = copies(moved)
    race(contenders, 10)
    return moved / min(c.time for c in contenders)
