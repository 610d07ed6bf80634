"""Where things lie in a checkout, for tests and benchmarks that read files of it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "kernels"
WORKLOADS = sorted(KERNELS.glob("*/*/workload.toml"))
"""The workload file of every kernel of the library."""
