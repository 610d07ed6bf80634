"""What a device attains, by whichever probe fits it."""

from __future__ import annotations

from ktc.backends.base import Runtime

from .rates import Rates


def attained_rates(runtime: Runtime) -> Rates:
    """The rates of ``runtime``'s device: of the cores of this machine the best of a day, of any other measured now."""
    from ktc.backends.runtimes.cpu_runtime import CpuRuntime

    if isinstance(runtime, CpuRuntime):
        from .cpu_rates import rates_of_cores

        return rates_of_cores(runtime)
    from .measured_rates import measure_rates

    return measure_rates(runtime)


__all__ = ["attained_rates"]
