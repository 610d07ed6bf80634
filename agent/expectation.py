"""What the cost model expects of a kernel at a scenario's sizes, in one sentence for the report."""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.analysis.register_pressure import register_estimate
from ktc.ir.analysis.schedule_counts import schedule_counts
from ktc.ir.kernel import Kernel, bind
from ktc.passes.lowering import materialise
from ktc.search.bounds.cost_model import estimate, machine_of
from ktc.search.target import DeviceInfo

REASONS = 2
"""Reasons that are told, at most."""


def expectation(
    kernel: Kernel, knobs: Mapping[str, int], scalars: Mapping[str, int | float], device: DeviceInfo
) -> str:
    """Expected microseconds and the reasons; '' where the model knows neither the device nor the launch."""
    try:
        machine = machine_of(device.name, device.compute_units)
    except KeyError:
        return ""
    lowered = materialise(bind(kernel, knobs))
    counts = schedule_counts(lowered, scalars)
    found = estimate(counts, register_estimate(lowered), machine) if counts is not None else None
    if found is None:
        return ""
    return f"{found.seconds * 1e6:.4g} us expected from counts ({'; '.join(found.why[:REASONS])})"
