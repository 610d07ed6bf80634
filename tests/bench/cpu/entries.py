"""Which kernels of the library take part, at which sizes: float32 where there is such a variant."""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.workload import Scenario, Workload
from tests.paths import KERNELS


@dataclass(frozen=True)
class Entry:
    """``folder``: below ``kernels/``. ``scenario``: of its workload. ``variant``: '' where there is none."""

    folder: str
    scenario: str
    variant: str = ""

    @property
    def name(self) -> str:
        return self.folder.split("/")[1]

    def workload(self) -> Workload:
        return Workload.load(KERNELS / self.folder)

    def at(self, work: Workload) -> Scenario:
        return work.scenario(self.scenario)


ENTRIES = (
    Entry("dense/sgemm", "square-1024"),
    Entry("training/column_sum", "large-32768x4096", "f32"),
    Entry("stencil/jacobi2d", "large-8192"),
    Entry("training/softmax", "rows-8192x8192", "f32"),
    Entry("serving/silu_and_mul", "prefill-4096x11008", "f32"),
    Entry("dense/saxpy", "large-64M"),
    Entry("basic/axpby", "large-32M"),
    Entry("basic/cumsum", "rows-8192x8192"),
    Entry("basic/dot", "large-64M"),
    Entry("basic/histogram", "large-256M"),
    Entry("basic/sum", "large-64M"),
    Entry("dense/hgemm", "small-1024"),
    Entry("dense/sgemm_tiled", "square-1024"),
    Entry("dense/transpose", "large-8192x8192"),
    Entry("dense/transpose_tiled", "large-8192x8192"),
    Entry("serving/fused_add_rmsnorm", "batch-1024x4096", "f32"),
    Entry("serving/gelu_and_mul", "prefill-4096x11008", "f32"),
    Entry("serving/merge_attn_states", "prefill-4096x32x128", "f32"),
    Entry("serving/quant_fp8", "prefill-16384x8192", "f32"),
    Entry("serving/quant_int8", "prefill-16384x8192", "f32"),
    Entry("serving/rmsnorm", "prefill-8192x8192", "f32"),
    Entry("serving/rope", "prefill-4096x32x128", "f32"),
    Entry("stencil/heat3d", "large-512"),
    Entry("stencil/hotspot", "large-8192"),
    Entry("training/cross_entropy", "batch-8192x8192", "f32"),
    Entry("training/layernorm", "rows-8192x8192", "f32"),
)
"""The kernels of the first table of this yardstick, then the others by folder."""
