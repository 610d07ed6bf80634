"""What every launch keeps to, on any device: threads of a block and blocks of a grid, in all and by axis."""

from __future__ import annotations

MAX_BLOCK = (1024, 1024, 64)

MAX_BLOCK_THREADS = 1024

MAX_GRID = ((1 << 31) - 1, 65535, 65535)
"""CUDA C++ Programming Guide, technical specifications per compute capability (the same from 5.0 to 10.0)."""
