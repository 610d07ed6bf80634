"""What a device attains, by whichever probe fits it."""

from __future__ import annotations

from ktc.backends.base import Runtime
from ktc.ir.diagnostics import KtcError

from .rates import Rates


def attained_rates(runtime: Runtime, anew: bool = False) -> Rates:
    """The rates of ``runtime``'s device: of the cores of this machine the best of a day (``anew``: measured now, too),
    through numba whichever way kernels run on them; of any other measured now."""
    if runtime.device.is_cpu:
        from ktc.backends.runtimes.cpu_runtime import CpuRuntime

        from .cpu_rates import rates_of_cores

        try:
            return rates_of_cores(runtime if isinstance(runtime, CpuRuntime) else CpuRuntime(), anew)
        except KtcError:  # no numba here
            return Rates()
    from .measured_rates import measure_rates

    return measure_rates(runtime)


__all__ = ["attained_rates"]
