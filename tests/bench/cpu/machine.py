"""What the figures are of: processor, cores in use and width of its vectors."""

from __future__ import annotations

from dataclasses import dataclass

WIDTHS = (("avx512f", 512), ("avx2", 256), ("avx", 256), ("sse2", 128), ("neon", 128))
"""Feature as LLVM names it, bits of a register; the first that the processor has counts."""


@dataclass(frozen=True)
class Machine:
    processor: str
    cores: int
    vector_bits: int

    def __str__(self) -> str:
        return f"{self.processor}, {self.cores} cores, vectors of {self.vector_bits} bits"


def this_machine() -> Machine:
    """The machine that this process runs on; cores: threads of numba."""
    import llvmlite.binding as llvm
    import numba

    from ktc.backends.runtimes.processor import cpu_name

    features = llvm.get_host_cpu_features()
    bits = next((bits for name, bits in WIDTHS if features.get(name)), 0)
    return Machine(cpu_name(), numba.get_num_threads(), bits)
