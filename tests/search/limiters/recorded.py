"""What Nsight Compute prints, written after its documentation: both tables, and how it fails."""

from __future__ import annotations

from ktc.search.limiters.counters import METRICS

HEAD = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
        "Device", "CC"]  # fmt: skip
LAUNCH = ["0", "1234", "python3.11", "127.0.0.1", "k", "1", "7", "(256, 1, 1)", "(4096, 1, 1)", "0", "9.0"]

PREAMBLE = """==PROF== Connected to process 1234 (/usr/bin/python3.11)
==PROF== Profiling "k" - 0: 0%....50%....100% - 11 passes
the program prints a line, with, commas
==PROF== Disconnected from process 1234
"""

STREAM = {
    "seconds": ("ns", "35200"), "memory": ("%", "91.25"), "cache": ("%", "55.5"), "load-store": ("%", "41.0"),
    "issue": ("%", "18.4"), "matrix": ("%", "0"), "special": ("%", "2.1"), "occupancy": ("%", "88.0"),
    "active lanes": ("", "32"), "bytes read": ("byte", "67108864"), "bytes written": ("byte", "33554432"),
    "load sectors": ("sector", "2097152"), "load requests": ("request", "131072"),
    "registers": ("register/thread", "24"), "waves": ("", "3.88"),
    "cycles an instruction": ("cycle/instruction", "60"), "stalled on loads": ("inst", "48"),
    "bank conflicts": ("", "0"), "shared turns": ("", "0"), "local bytes read": ("byte", "0"),
    "local bytes written": ("byte", "0"), "global bytes": ("byte", "67108864"),
    "stalled on barriers": ("inst", "0"), "stalled on shared memory": ("inst", "1"),
    "stalled on load-store queues": ("inst", "2"),
}  # fmt: skip
"""A copy: name -> (unit, value)."""


def changed(**values: str) -> dict[str, tuple[str, str]]:
    """:data:`STREAM` with other values; names with ``_`` for spaces and hyphens."""
    names = {n.replace(" ", "_").replace("-", "_"): n for n in STREAM}
    return STREAM | {names[k]: (STREAM[names[k]][0], v) for k, v in values.items()}


def quoted(row: list[str]) -> str:
    return ",".join(f'"{x}"' for x in row)


def raw_page(values: dict[str, tuple[str, str]]) -> str:
    """``--page raw``: a row a launch, under a row of units."""
    names = [METRICS[n] for n in values]
    units = ["", *[""] * (len(HEAD) - 1), *(u for u, _ in values.values())]
    return (
        PREAMBLE + "\n".join(map(quoted, ([*HEAD, *names], units, [*LAUNCH, *(v for _, v in values.values())]))) + "\n"
    )


def details_page(values: dict[str, tuple[str, str]]) -> str:
    """``--page details``: a row a metric."""
    rows = [[*HEAD, "Section Name", "Metric Name", "Metric Unit", "Metric Value"]]
    rows += [[*LAUNCH, "Command line profiler metrics", METRICS[n], u, v] for n, (u, v) in values.items()]
    return PREAMBLE + "\n".join(map(quoted, rows)) + "\n"


FORBIDDEN = """==PROF== Connected to process 9012 (/usr/bin/python3.11)
==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target \
device 0. For instructions on enabling permissions and to get more information see \
https://developer.nvidia.com/ERR_NVGPUCTRPERM
==PROF== Disconnected from process 9012
"""
UNKNOWN = f"==ERROR== Failed to find metric {METRICS['matrix']}\n"
