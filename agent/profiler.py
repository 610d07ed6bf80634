"""What limits a configuration at a scenario's sizes: hardware counters where they are asked for and may be read, else
what the cost model expects, beside the compiler's report and the measured time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ktc.ir.analysis.memory_costs import requests
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, bind
from ktc.passes.lowering import materialise
from ktc.search.bounds.cost_model import Estimate, estimate_of, machine_of
from ktc.search.limiters.counters import Launch, profile_of
from ktc.search.limiters.estimated import estimated
from ktc.search.limiters.limiter import Profile
from ktc.search.limiters.ncu import Unavailable
from ktc.search.target import DeviceInfo

from .gate import bound

Count = Callable[[Kernel, Mapping[str, int | float]], Launch | Unavailable]
"""Counters of one launch of a kernel, knobs bound, at a scenario's sizes."""


@dataclass
class Profiler:
    """Profiles on one device. ``count`` (None: nobody asked for counters) is not called again once it said that there
    are none on this machine."""

    device: DeviceInfo
    count: Count | None = None
    unavailable: str = ""

    def of(
        self,
        kernel: Kernel,
        knobs: Mapping[str, int],
        scalars: Mapping[str, int | float],
        sizes: Mapping[str, int | float],
        seconds: float = 0.0,
        resources: Mapping[str, int] | None = None,
    ) -> Profile | None:
        """The profile of ``kernel`` at ``knobs``; None where nothing is known of the device or the launch.

        ``seconds``: the measured time of a launch (0: none); ``resources``: of the loaded kernel.
        """
        if self.count is not None and not self.unavailable:
            found = self.count(bind(kernel, knobs), sizes)
            if isinstance(found, Launch):
                return profile_of(found)
            if not found.lasting:
                return self._estimated(kernel, knobs, scalars, seconds, resources, str(found))
            self.unavailable = str(found)
        return self._estimated(kernel, knobs, scalars, seconds, resources, self.unavailable)

    def expected(
        self, lowered: Kernel, knobs: Mapping[str, int], scalars: Mapping[str, int | float]
    ) -> Estimate | None:
        """What the cost model expects of a launch of ``lowered``, its knobs open, at ``knobs``; None where it does not
        know the device or the launch."""
        try:
            machine = machine_of(self.device.name, self.device.compute_units)
        except KeyError:
            return None
        return estimate_of(bind(lowered, knobs), scalars, machine)

    def _estimated(
        self,
        kernel: Kernel,
        knobs: Mapping[str, int],
        scalars: Mapping[str, int | float],
        seconds: float,
        resources: Mapping[str, int] | None,
        why: str,
    ) -> Profile | None:
        try:
            machine = machine_of(self.device.name, self.device.compute_units)
            lowered = materialise(bound(kernel, knobs))
        except (KeyError, KtcError):
            return None
        found = estimate_of(lowered, scalars, machine, (resources or {}).get("registers", 0))
        if found is None:
            return None
        asked = requests(lowered, scalars)
        return estimated(found, seconds=seconds, resources=resources, requests=asked, why=why)
