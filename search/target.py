"""What the layers above the search see of a device: its data, a time measured on it, and code printed for it."""

from __future__ import annotations

from ktc.backends.base import DeviceInfo, Emitted, Timing
from ktc.ir.kernel import Kernel

__all__ = ["DeviceInfo", "Emitted", "Timing", "emit"]


def emit(kernel: Kernel, target: str, mode: str = "source") -> Emitted:
    """See :func:`ktc.backends.emit`."""
    from ktc.backends import emit as print_for

    return print_for(kernel, target, mode)
