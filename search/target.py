"""What the layers above the search see of a device: its data, a time measured on it, code printed for it."""

from ktc.backends.base import DeviceInfo, Emitted, Timing

__all__ = ["DeviceInfo", "Emitted", "Timing"]
