"""A workload's arguments on a device: arrays that repeat a block travel as that block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ktc.backends.base import Runtime
from ktc.ir.workload.input_data import Repeated

Array = np.ndarray | Repeated


def on_device(runtime: Runtime, value: Any) -> Any:
    """What a launch takes for the argument ``value``."""
    if isinstance(value, Repeated):
        return runtime.repeated(value.block, value.size)
    return runtime.to_device(value) if isinstance(value, np.ndarray) else value


def whole(values: Mapping[str, Any]) -> dict[str, Any]:
    """``values`` with every array made."""
    return {n: v.whole() if isinstance(v, Repeated) else v for n, v in values.items()}


__all__ = ["Array", "on_device", "whole"]
