"""Workloads from what a program did: captures and profiles as calls of a kernel, and these as a workload file.

:mod:`.launch_records` reads the calls of a kernel from a capture or a profile, :mod:`.fitted_calls` finds sizes, launch
and extents that explain them, :mod:`.observed_workload` writes them down. What was seen is marked as observed: no
promise, but what a launcher tests wherever a pass builds on it.
"""

from .observed_calls import ObservedBuffer, ObservedCall, ObservedCalls

__all__ = ["ObservedBuffer", "ObservedCall", "ObservedCalls"]
