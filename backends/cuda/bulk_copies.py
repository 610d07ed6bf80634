"""Copies by a producer in CUDA C++: mbarriers, bulk tensor copies, and the descriptor they take (PTX ISA 8.5, 9.7.9).

Each buffer has two mbarriers. ``full`` completes when the producer has announced its bytes and they have arrived,
``empty`` when a lane of every warp of the block has given it up. Whoever waits keeps one bit of parity a buffer, so
buffers may come in any order that both sides share.
"""

from __future__ import annotations

TENSOR_MAP = """\
// A matrix as bulk copies see it: the launcher makes it (CUtensorMap of the driver API).
struct alignas(64) tensor_map {
  unsigned long long opaque[16];
};"""

MBARRIER = """\
__device__ inline void mbarrier_init(unsigned long long* b, int arrivals) {
  const unsigned p = static_cast<unsigned>(__cvta_generic_to_shared(b));
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(p), "r"(arrivals) : "memory");
}

// Made before by this thread, seen by the copy engine.
__device__ inline void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void mbarrier_arrive(unsigned long long* b) {
  const unsigned p = static_cast<unsigned>(__cvta_generic_to_shared(b));
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(p) : "memory");
}

// Arrives, and lets the phase last until that many bytes have come too.
__device__ inline void mbarrier_arrive_expect(unsigned long long* b, int bytes) {
  const unsigned p = static_cast<unsigned>(__cvta_generic_to_shared(b));
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(p), "r"(bytes) : "memory");
}

// Until the phase of this parity is over; that before the first counts as one of parity 1.
__device__ inline void mbarrier_wait(unsigned long long* b, unsigned parity) {
  const unsigned p = static_cast<unsigned>(__cvta_generic_to_shared(b));
  unsigned over = 0;
  while (!over) {
    asm volatile("{ .reg .pred over; mbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\\n\\t"
                 "selp.u32 %0, 1, 0, over; }" : "=r"(over) : "r"(p), "r"(parity) : "memory");
  }
}"""

BULK_COPY = """\
// One box of a matrix to a shared tile whose columns are permuted by row; its bytes arrive at the mbarrier.
__device__ inline void bulk_copy(void* tile, const tensor_map& matrix, unsigned long long* full, int row, int column) {
  const unsigned t = static_cast<unsigned>(__cvta_generic_to_shared(tile));
  const unsigned p = static_cast<unsigned>(__cvta_generic_to_shared(full));
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
               ::"r"(t), "l"(&matrix), "r"(p), "r"(column), "r"(row) : "memory");
}"""

CLUSTER = """\
__device__ inline unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// What must be seen behind the wait is released before: the mbarriers by their own fence.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }

__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// Arrives at the mbarrier that lies at the same place in another block of the cluster, when products have read the
// tile: they are waited for, and there is nothing else that the other block should see.
__device__ inline void mbarrier_arrive_at(unsigned long long* b, unsigned rank) {
  const unsigned p = static_cast<unsigned>(__cvta_generic_to_shared(b));
  asm volatile("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;\\n\\t"
               "mbarrier.arrive.shared::cluster.b64 _, [remote]; }" ::"r"(p), "r"(rank) : "memory");
}

// The same when threads have read the tile: their reads come first. This waits for all memory.
__device__ inline void mbarrier_release_at(unsigned long long* b, unsigned rank) {
  const unsigned p = static_cast<unsigned>(__cvta_generic_to_shared(b));
  asm volatile("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;\\n\\t"
               "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote]; }" ::"r"(p), "r"(rank) : "memory");
}

// This block's part of a box of Rows rows, to all Blocks blocks of the cluster; arrives at the mbarrier of each.
template <int Rows, int Blocks>
__device__ inline void bulk_copy_shared(void* tile, const tensor_map& matrix, unsigned long long* full, int row,
                                        int column) {
  const int part = cluster_rank() * (Rows / Blocks);
  const unsigned t = static_cast<unsigned>(__cvta_generic_to_shared(tile)) + part * 128;
  const unsigned p = static_cast<unsigned>(__cvta_generic_to_shared(full));
  const unsigned short all = (1 << Blocks) - 1;
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
               "[%0], [%1, {%3, %4}], [%2], %5;"
               ::"r"(t), "l"(&matrix), "r"(p), "r"(column), "r"(row + part), "h"(all) : "memory");
}"""

HELPERS = {"tensor_map": TENSOR_MAP, "mbarrier": MBARRIER, "bulk_copy": BULK_COPY, "cluster": CLUSTER}
