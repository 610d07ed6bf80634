"""Peak numbers of known devices, with their sources. Rates are per second, decimal: 1 TB/s = 1e12 bytes/s.

``f32_flops`` is plain (non-tensor) FP32, counting a fused multiply-add as two; ``f16_matrix_flops`` dense tensor or
matrix-core FP16 with FP32 accumulation. Peaks are ceilings by datasheet: the bounds of
``search/bounds/speed_of_light.py`` are corrected by what a copy kernel measures on the very device.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peaks:
    """One device: substrings of its reported name, rates, last-level cache in bytes, and where they come from.

    The cache size matters where a driver reports another one: NVIDIA's OpenCL gives 4 MiB for an H200.
    """

    names: tuple[str, ...]
    dram_bytes_per_s: float
    f32_flops: float
    f64_flops: float
    f16_matrix_flops: float
    cache_bytes: int
    source: str


MIB = 1 << 20

DEVICES: tuple[Peaks, ...] = (
    # More specific names first: the first whose every word occurs in the device's name wins.
    Peaks(("H200 NVL",), 4.8e12, 60e12, 30e12, 835e12, 60 * MIB, "NVIDIA H200 Tensor Core GPU datasheet (NVL)"),
    Peaks(("H200",), 4.8e12, 67e12, 34e12, 989e12, 60 * MIB, "NVIDIA H200 Tensor Core GPU datasheet (SXM)"),
    Peaks(("H100 NVL",), 3.9e12, 60e12, 30e12, 835e12, 60 * MIB, "NVIDIA H100 Tensor Core GPU datasheet (NVL)"),
    Peaks(("H100 PCIe",), 2.0e12, 51e12, 26e12, 756e12, 50 * MIB, "NVIDIA H100 Tensor Core GPU datasheet (PCIe)"),
    Peaks(("H100",), 3.35e12, 67e12, 34e12, 989e12, 50 * MIB, "NVIDIA H100 Tensor Core GPU datasheet (SXM)"),
    Peaks(("A100", "80GB PCIe"), 1.935e12, 19.5e12, 9.7e12, 312e12, 40 * MIB, "NVIDIA A100 datasheet (80GB PCIe)"),
    Peaks(("A100", "80GB"), 2.039e12, 19.5e12, 9.7e12, 312e12, 40 * MIB, "NVIDIA A100 datasheet (80GB SXM)"),
    Peaks(("A100",), 1.555e12, 19.5e12, 9.7e12, 312e12, 40 * MIB, "NVIDIA A100 datasheet (40GB)"),
    Peaks(("L40S",), 0.864e12, 91.6e12, 1.43e12, 362e12, 96 * MIB, "NVIDIA L40S datasheet"),
    Peaks(("V100",), 0.9e12, 15.7e12, 7.8e12, 125e12, 6 * MIB, "NVIDIA V100 datasheet (SXM2)"),
    Peaks(
        ("RTX 4090",), 1.008e12, 82.6e12, 1.29e12, 165.2e12, 72 * MIB, "NVIDIA Ada architecture whitepaper, appendix A"
    ),
    Peaks(("RTX 3090",), 0.936e12, 35.6e12, 0.556e12, 71e12, 6 * MIB, "NVIDIA Ampere GA102 whitepaper, table 2"),
    Peaks(("MI300X",), 5.3e12, 163.4e12, 81.7e12, 1307.4e12, 256 * MIB, "AMD Instinct MI300X datasheet"),
    Peaks(("MI250X",), 3.2768e12, 47.9e12, 47.9e12, 383e12, 16 * MIB, "AMD Instinct MI250X datasheet (both dies)"),
    Peaks(("MI210",), 1.6384e12, 22.6e12, 22.6e12, 181e12, 8 * MIB, "AMD Instinct MI210 datasheet"),
    Peaks(("7900 XTX",), 0.96e12, 61.4e12, 1.92e12, 122.8e12, 96 * MIB, "AMD Radeon RX 7900 XTX product page"),
)

LAUNCH_FLOOR_S = {"cuda": 1.5e-6, "hip": 2.0e-6, "opencl": 3.0e-6, "numba": 1.0e-6}
"""Shortest time of one kernel, seconds, inside a replayed graph (or as a profiled event): start, drain, no work.

A conservative prior, replaced by the time of an empty kernel where a runtime measures one.
"""


def peaks_of(name: str) -> Peaks | None:
    """The row of the device called ``name``, or None when it is not in the table."""
    upper = name.upper()
    for row in DEVICES:
        if all(part.upper() in upper for part in row.names):
            return row
    return None
