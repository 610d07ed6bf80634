"""Macros that headers define which are not read: of libraries that are not on this machine, but part of the language
that their users write in.
"""

from __future__ import annotations

import re

MACROS: dict[str, dict[str, str]] = {
    r"(ATen|c10|torch|caffe2)/": {
        "C10_HOST_DEVICE": "__host__ __device__",
        "C10_DEVICE": "__device__",
        "C10_HOST": "__host__",
        "C10_ALWAYS_INLINE": "inline",
        "C10_LAUNCH_BOUNDS_0": "__launch_bounds__(256, 4)",
        "C10_LAUNCH_BOUNDS_1(threads)": "__launch_bounds__(threads)",
        "C10_LAUNCH_BOUNDS_2(threads, blocks)": "__launch_bounds__(threads, blocks)",
        "C10_RESTRICT": "__restrict__",
        "CUDA_KERNEL_ASSERT(...)": "assert(__VA_ARGS__)",
        "CUDA_KERNEL_LOOP_TYPE(i, n, type)":
            "for (type i = ((int64_t)blockIdx.x) * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)",
        "CUDA_KERNEL_LOOP(i, n)": "CUDA_KERNEL_LOOP_TYPE(i, n, int)",
    },
}  # fmt: skip
"""Macros by the beginning of the headers' paths."""


def macros_of(header: str) -> dict[str, str]:
    """The macros that ``header``, which was not found, is known to define."""
    return next((macros for prefix, macros in MACROS.items() if re.match(prefix, header)), {})
