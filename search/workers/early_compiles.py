"""What the first measuring process on a machine compiles, compiled by a process of its own while the device is opened:
``python -m ktc.search.workers.early_compiles DEVICE``.

That are the tables of the grammar in which scripts state conditions, which the search reads first, and the kernels that
show what a GPU attains. All of it lands in caches: where this process fails, whoever needs such a thing makes it.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys

from ktc.backends.runtimes import early_trials, expected_device
from ktc.ir.support.child_python import python_environment, python_module

_begun: list[subprocess.Popen[bytes]] = []
"""Processes that nobody waits for."""


def begin(device: str) -> None:
    """Start that process, where ``device`` is a GPU and nothing is in caches yet."""
    if early_trials.untried_gpu(device):
        with contextlib.suppress(OSError):
            _begun.append(subprocess.Popen(
                python_module("ktc.search.workers.early_compiles", device), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=python_environment(),
            ))  # fmt: skip


def main(argv: list[str]) -> int:
    """Compile for the device ``argv[0]``, which the CUDA driver describes."""
    from ktc.backends import emit
    from ktc.backends.runtimes.checksum import cubin_of_checksum
    from ktc.backends.runtimes.nvrtc import cubin_of
    from ktc.ir.text import parse_expr, parse_kernel
    from ktc.search.bounds.measured_rates import KERNELS

    parse_expr("1", {})
    kernels = [parse_kernel(text) for text in KERNELS]
    device = expected_device(argv[0])
    if device is not None:
        cubin_of_checksum(device.extra["arch"])
        for kernel in kernels:
            cubin_of(emit(kernel, device.backend), device.extra["arch"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
