"""The C library's allocator, told to keep what is freed: arrays of many threads come and go with every statement.

By default glibc maps each array of more than 128 kB anew and unmaps it when it is freed, so that the kernel of the
operating system clears its pages every time: half of the time of a launch of some 10^5 threads.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
"""Parameters of ``mallopt`` (malloc.h of the GNU C library)."""

LARGEST = 1 << 30
"""Bytes of the largest array that is kept for the next one; larger ones are mapped as before."""

PAD = 64 << 20
"""Bytes that the heap grows by at least."""

OWN_SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


@cache
def keep_freed_memory() -> bool:
    """Lets freed arrays stay with this process, once; whether the C library could be told.

    Who has set the allocator's parameters in the environment keeps them.
    """
    if any(name in os.environ for name in OWN_SETTINGS):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    settings = ((M_MMAP_THRESHOLD, LARGEST), (M_TRIM_THRESHOLD, 2 * LARGEST - 1), (M_TOP_PAD, PAD))
    return all(mallopt(what, value) == 1 for what, value in settings)


__all__ = ["keep_freed_memory"]
