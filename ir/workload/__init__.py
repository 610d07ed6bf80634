"""Workloads: what a kernel is called with, read from ``workload.toml``; input data and the reference's formulas."""

from .workloads import ArgSpec, LaunchSpec, Scenario, Workload

__all__ = ["ArgSpec", "LaunchSpec", "Scenario", "Workload"]
