"""What a device attains, whoever measured it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rates:
    """Attained rates, per second: bytes of a copy (read plus written) and of a read, operations in 32-bit floats (a
    fused multiplication and addition being two). 0: not measured."""

    copy_bytes: float = 0.0
    read_bytes: float = 0.0
    f32_flops: float = 0.0
