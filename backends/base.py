"""What an emitter returns and what a runtime offers: the two protocols every backend implements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Protocol

from ktc.ir.kernel import Kernel

if TYPE_CHECKING:
    import numpy as np


def accelerated(arch: str, text: str) -> str:
    """The architecture to compile ``text`` for: warpgroup instructions exist in ``sm_90a`` alone (PTX ISA 8.0)."""
    return "sm_90a" if arch == "sm_90" and any(word in text for word in ("wgmma.", "setmaxnreg.")) else arch


@dataclass(frozen=True)
class Emitted:
    """Printed code of one kernel: ``text`` is a complete translation unit, ``entry`` the kernel's name in it.

    ``kernel`` is the lowered (SPMD) kernel that was printed; its ``params`` (those not ``host``) are the signature in
    order, its ``launch`` gives geometry. ``options`` are compiler flags the text needs. ``sections``: the parts of the
    text (includes, helpers, types, constants, the function), in order, where its language has them.

    Of a sequence, ``launches`` are its launches in order, each a translation unit of its own, and ``text`` is all of
    them as one.
    """

    text: str
    entry: str
    target: str
    kernel: Kernel
    options: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    launches: tuple[Emitted, ...] = ()
    sections: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __repr__(self) -> str:
        return f"<Emitted {self.entry} for {self.target}: {self.text.count(chr(10))} lines; print() shows them>"

    def _repr_html_(self) -> str:
        """In notebooks: the text."""
        return f"<pre>{escape(self.text)}</pre>"

    def __str__(self) -> str:
        return self.text


def unit_of(sections: Sequence[str]) -> str:
    """Sections of a text as a translation unit."""
    return "\n\n".join(sections) + "\n"


@dataclass(frozen=True)
class DeviceInfo:
    """One device as the search and the bounds see it. Sizes in bytes, rates in bytes/s and FLOP/s (0: unknown)."""

    backend: str  # cuda | hip | opencl | numba
    name: str
    profile: str  # cuda-sm90, opencl-nvidia, opencl-cl12, numba...
    compute_units: int
    max_threads_per_block: int
    shared_per_block: int
    warp: int = 32
    l2_bytes: int = 0
    global_bytes: int = 0
    dram_bytes_per_s: float = 0.0
    f32_flops: float = 0.0
    extra: Mapping[str, str] = field(default_factory=dict)
    gives_up: tuple[str, ...] = ()  # special values, as a workload names them, that its arithmetic may lose

    @property
    def is_cpu(self) -> bool:
        """Whether the device is the host's processor."""
        return self.backend == "numba" or "CPU" in self.extra.get("kind", "")


class CompileFailure(Exception):
    """The device compiler refused the text; ``log`` is its output."""

    def __init__(self, log: str) -> None:
        super().__init__(log)
        self.log = log


class Executable(Protocol):
    """A compiled kernel, ready to launch on its runtime's arrays."""

    resources: Mapping[str, int]  # registers, shared, spills... as far as the runtime knows

    def launch(self, args: Mapping[str, object]) -> None:
        """Launch once; ``args`` maps parameter names (host ones too) to device arrays or Python scalars."""
        ...


@dataclass(frozen=True)
class Timing:
    """Device time of one launch in seconds: median with a 95 % interval; ``cold``: buffers rotate past L2."""

    median: float
    low: float
    high: float
    samples: int
    cold: bool = True

    def shared(self, n: int) -> Timing:
        """The time of one of ``n`` equal parts of the launch."""
        return replace(self, median=self.median / n, low=self.low / n, high=self.high / n)


class Runtime(Protocol):
    """Compile, move data, launch and time on one device."""

    device: DeviceInfo
    reads_host: bool
    """Launches take arrays of the host as they are."""

    def compile(self, code: Emitted) -> Executable: ...

    def to_device(self, array: np.ndarray) -> object: ...

    def full(self, n: int, value: np.generic) -> object:
        """A device array of ``n`` elements, each ``value``; none of them travels."""
        ...

    def repeated(self, block: np.ndarray, n: int) -> object:
        """A device array of ``n`` elements that repeats ``block``, which travels once."""
        ...

    def copy(self, array: object) -> object:
        """Another device array with the same content, made on the device."""
        ...

    def to_host(self, array: object, like: np.ndarray) -> np.ndarray: ...

    def copy_into(self, target: object, source: object) -> None:
        """Overwrite one device array with another of its shape, on the device."""
        ...

    def checksum(self, array: object) -> str:
        """A checksum of the array's bits: equal bits, equal text."""
        ...

    def synchronize(self) -> None: ...

    def time(self, exe: Executable, arg_sets: Sequence[Mapping[str, object]], *, budget_s: float = 0.3) -> Timing:
        """Device time per launch, rotating through ``arg_sets``."""
        ...

    def time_pair(
        self,
        a: tuple[Executable, Sequence[Mapping[str, object]]],
        b: tuple[Executable, Sequence[Mapping[str, object]]],
        *,
        budget_s: float = 0.6,
    ) -> tuple[Timing, Timing, tuple[float, float, float]]:
        """Both timed interleaved in one process; the third value is the ratio a/b with its 95 % interval."""
        ...
