"""The CUDA runtime: NVRTC cubins launched through CuPy, timed as replayed CUDA graphs.

HIP text runs here too, through the thin header (``nvrtc.HIP_SHIM``): the HIP kernel language on an NVIDIA GPU.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ktc.backends.base import CompileFailure, Emitted, Executable
from ktc.ir.diagnostics import KtcError
from ktc.ir.nodes import is_cooperative
from ktc.ir.producer_launch import tensor_maps
from ktc.ir.types import Ptr, Scalar

from . import cuda_driver, tensor_map
from .checksum import cuda_checksum
from .common import NUMPY_SCALAR, Geometry, Sampler, Scratch, TimedRuntime, geometry, integers, need, scalar, signature
from .module_symbols import Symbols
from .nvrtc import cubin_of
from .row_tables import RowTables
from .sequence_executable import SequenceExecutable

STATIC_SHARED_LIMIT = 48 * 1024
"""Bytes of shared memory a launch may ask for without raising the function's limit (CUDA C++ guide)."""

GRAPH_SECONDS = 400e-6
"""A graph replays launches for about this long, so that event resolution (0.5 us) and graph start-up do not matter."""

FILL_ELEMENTS = 1 << 18
"""So many equal elements travel to the device; the others are copies of theirs."""

NATIVE = frozenset(map(np.dtype, NUMPY_SCALAR.values()))
"""dtypes that CuPy knows."""

MAX_GRAPH_LAUNCHES = 200


class CudaExecutable:
    """A loaded kernel; ``resources``: registers, local (spill) bytes, static shared bytes, max threads per block."""

    def __init__(self, runtime: CudaRuntime, code: Emitted, cubin: bytes, symbol: str) -> None:
        cp = runtime.cp
        self.code = code
        self._runtime = runtime
        self._module = cp.cuda.function.Module()
        self._module.load(cubin)
        self._fn = self._module.get_function(symbol)
        attr = _attributes(cp, self._fn)
        self.resources: Mapping[str, int] = attr
        self._signature = signature(code.kernel, symbols=False)
        self._symbols = Symbols(
            code.kernel, self._module.get_global_var, runtime.copy_bytes, cp.cuda.driver.CUDADriverError
        )
        self._scratch = Scratch(code.kernel, runtime.to_device)
        self._tables = RowTables(code.kernel, runtime.to_device)
        self._maps = tensor_maps(code.kernel)
        self._raised = 0
        self._cooperative = is_cooperative(code.kernel.body)

    def launch(self, args: Mapping[str, object]) -> None:
        """Launch on the current stream; errors of the launch itself raise KtcError E-LAUNCH-FAILED."""
        g = geometry(self.code.kernel, args)
        if not g.empty:
            args = self._scratch.complete(args)
            self.launch_packed(g, self.pack(args))
            self._symbols.get(args)

    def prepared(self, args: Mapping[str, object]) -> list[tuple[CudaExecutable, Geometry, tuple]]:
        """What one launch enqueues; nothing where its grid is empty."""
        g = geometry(self.code.kernel, args)
        return [] if g.empty else [(self, g, self.pack(args))]

    def pack(self, args: Mapping[str, object]) -> tuple:
        """The kernel's arguments; variables at file scope are set."""
        args = self._tables.complete(self._scratch.complete(args))
        self._symbols.set(args)
        packed = tuple(_argument(need(args, n), t) for n, t in self._signature)
        if not self._maps:
            return packed
        env = integers(self.code.kernel, args)
        maps = (tensor_map.encode(m, need(args, m.src.name).data.ptr, env) for m in self._maps)
        return tensor_map.Packed((*packed, *maps))

    def launch_packed(self, g: Geometry, packed: tuple) -> None:
        cp = self._runtime.cp
        total = g.shared + self.resources["shared"]
        try:
            if total > STATIC_SHARED_LIMIT and g.shared > self._raised:
                attribute = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                cp.cuda.driver.funcSetAttribute(self._fn.ptr, attribute, g.shared)
                self._raised = g.shared
            if isinstance(packed, tensor_map.Packed):
                error = tensor_map.launch(
                    self._fn.ptr, g.grid, g.block, packed, g.shared, cp.cuda.get_current_stream().ptr
                )
                if error:
                    raise cp.cuda.driver.CUDADriverError(error)
                return
            with warnings.catch_warnings():
                # CuPy reduces the grid of a cooperative launch that does not fit, and warns: another launch altogether.
                warnings.simplefilter("error", UserWarning)
                self._fn(g.grid, g.block, packed, g.shared, enable_cooperative_groups=self._cooperative)
        except UserWarning as e:
            raise KtcError(
                "E-LAUNCH-FAILED",
                f"launch of {self.code.entry} with grid {g.grid}, block {g.block}: all blocks of a cooperative launch "
                f"must be resident at once: {e}",
                hint="fewer blocks, or __launch_bounds__ with a minimum of blocks",
            ) from None
        except cp.cuda.driver.CUDADriverError as e:
            raise KtcError(
                "E-LAUNCH-FAILED",
                f"launch of {self.code.entry} with grid {g.grid}, block {g.block}, {g.shared} bytes failed: {e}",
            ) from None


def _attributes(cp: Any, fn: Any) -> dict[str, int]:
    codes = {"max_threads": 0, "shared": 1, "const": 2, "local": 3, "registers": 4}  # CUfunction_attribute
    return {name: int(cp.cuda.driver.funcGetAttribute(code, fn.ptr)) for name, code in codes.items()}


def _argument(value: Any, t: Ptr | Scalar) -> Any:
    if isinstance(t, Ptr):
        return np.uint64(0) if value is None else value
    return scalar(value, t)


class CudaRuntime(TimedRuntime):
    """One CUDA device. The context belongs to the process that makes it: do so in a worker, never fork after."""

    def __init__(self, ordinal: int = 0) -> None:
        self.cp: Any = import_cupy()
        cp = self.cp
        there = int(cp.cuda.runtime.getDeviceCount())
        if not 0 <= ordinal < there:
            known = ", ".join(f"cuda:{n}" for n in range(there))
            raise KtcError("E-DEVICE-CUDA", f"there is no device cuda:{ordinal}", hint=f"there is {known}", exit_code=3)
        cp.cuda.Device(ordinal).use()
        self.device = cuda_driver.described(ordinal)
        self.arch = self.device.extra["arch"]
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.stream.use()
        self._scratch: Any = None

    def compile(self, code: Emitted) -> CudaExecutable | SequenceExecutable:
        """NVRTC for this device's architecture, through the cache. Raises CompileFailure."""
        if code.launches:
            return SequenceExecutable(code, self.compile, self.to_device)
        if code.target not in ("cuda", "hip"):
            raise KtcError(
                "E-DEVICE-TARGET", f"the CUDA runtime runs 'cuda' or 'hip' code, not '{code.target}'", exit_code=2
            )
        cubin = cubin_of(code, self.arch)
        try:
            return CudaExecutable(self, code, cubin.code, cubin.symbol)
        except self.cp.cuda.driver.CUDADriverError as e:
            raise CompileFailure(f"the driver refused the compiled kernel: {e}") from None

    def to_device(self, array: np.ndarray) -> Any:
        """A device copy; bf16 and fp8 travel as their bits."""
        flat = np.ascontiguousarray(array)
        if flat.dtype not in NATIVE:
            flat = flat.view(f"u{flat.dtype.itemsize}")
        return self.cp.asarray(flat)

    def full(self, n: int, value: np.generic) -> Any:
        """An array that is filled on the device."""
        return self.repeated(np.full(min(n, FILL_ELEMENTS), value), n)

    def repeated(self, block: np.ndarray, n: int) -> Any:
        """An array that repeats ``block``, which travels once: what is there is copied behind itself, again and again.
        (CuPy's own ways compile a kernel each.)"""
        part = self.to_device(block.reshape(-1)[:n])
        made = self.cp.empty(n, part.dtype)
        self.copy_bytes(made.data.ptr, part.data.ptr, part.nbytes)
        done = part.nbytes
        while done < made.nbytes:
            more = min(done, made.nbytes - done)
            self.copy_bytes(made.data.ptr + done, made.data.ptr, more)
            done += more
        return made

    def copy(self, array: Any) -> Any:
        """Another array with the same content."""
        made = self.cp.empty_like(array)
        self.copy_into(made, array)
        return made

    def to_host(self, array: Any, like: np.ndarray) -> np.ndarray:
        return self.cp.asnumpy(array).view(like.dtype).reshape(like.shape)

    def copy_into(self, target: Any, source: Any) -> None:
        """Overwrite one device array with another of its shape."""
        self.copy_bytes(target.data.ptr, source.data.ptr, target.nbytes)

    def copy_bytes(self, target: int, source: int, size: int) -> None:
        """Copy between device addresses, in the stream."""
        self.cp.cuda.runtime.memcpyAsync(target, source, size, 4, self.stream.ptr)  # cudaMemcpyDefault

    def checksum(self, array: Any) -> str:
        """A position-dependent checksum of the array's bits, computed on the device."""
        return cuda_checksum(self.cp, self.arch, array)

    def synchronize(self) -> None:
        """Wait; a fault of an earlier launch raises KtcError E-DEVICE-FAULT (the context is then lost)."""
        try:
            self.cp.cuda.Device().synchronize()
        except self.cp.cuda.runtime.CUDARuntimeError as e:
            raise KtcError("E-DEVICE-FAULT", f"the kernel failed on the device: {e}") from None

    def sampler(self, exe: Executable, arg_sets: Sequence[Mapping[str, object]]) -> Sampler:
        """Graphs of several launches, rotating through ``arg_sets``; one measurement is one replay between two events.

        Cold means cold: if all sets together fit in twice the L2, a replay uses each set once at most and the L2 is
        overwritten before it, outside the timed part.
        """
        assert isinstance(exe, CudaExecutable | SequenceExecutable)
        cp, stream = self.cp, self.stream
        ready = [exe.prepared(a) for a in arg_sets]
        if not all(ready):
            return lambda: 0.0
        flush = len(ready) > 1 and _bytes(arg_sets) < 2 * self.device.l2_bytes
        begin, end = cp.cuda.Event(), cp.cuda.Event()

        def timed(work: Callable[[], None]) -> float:
            begin.record(stream)
            work()
            end.record(stream)
            end.synchronize()
            return cp.cuda.get_elapsed_time(begin, end) * 1e-3

        def launches(first: int, n: int) -> None:
            for i in range(first, first + n):
                for one, g, packed in ready[i % len(ready)]:
                    one.launch_packed(g, packed)

        seconds = timed(lambda: launches(0, 1))
        if seconds < GRAPH_SECONDS:  # of a short launch, the first one tells little
            seconds = timed(lambda: launches(0, 2)) / 2
        n = graph_launches(seconds, len(ready), once_each=flush)
        rounds = itertools.cycle(range(0, max(len(ready), n), n))

        @functools.cache
        def graph(first: int) -> Any:
            stream.begin_capture()
            try:
                launches(first, n)
            finally:
                made = stream.end_capture()
            made.upload(stream)
            return made

        def measure() -> float:
            replayed = graph(next(rounds))
            if flush:
                self._overwrite_l2()
            return timed(lambda: replayed.launch(stream)) / n

        return measure

    def _overwrite_l2(self) -> None:
        size = 2 * self.device.l2_bytes
        if self._scratch is None:
            self._scratch = self.cp.cuda.alloc(size)
        self.cp.cuda.runtime.memsetAsync(self._scratch.ptr, 0, size, self.stream.ptr)


def graph_launches(seconds: float, sets: int, *, once_each: bool) -> int:
    """How many launches a graph holds: about ``GRAPH_SECONDS`` of them, in whole rounds over the argument sets, or a
    part of a round where launches take long, the next graph going on from there."""
    wanted = max(1, min(MAX_GRAPH_LAUNCHES, int(GRAPH_SECONDS / max(seconds, 1e-7))))
    return min(sets, wanted) if once_each or wanted < sets else wanted // sets * sets


def _bytes(arg_sets: Sequence[Mapping[str, Any]]) -> int:
    return sum(getattr(v, "nbytes", 0) for a in arg_sets for v in a.values() if hasattr(v, "data"))


def import_cupy() -> Any:
    """CuPy. Raises KtcError E-DEVICE-CUDA with the reason when it is missing or sees no device."""
    try:
        import cupy
    except Exception as e:
        raise KtcError(
            "E-DEVICE-CUDA", f"CuPy cannot be imported: {e}", hint="pip install 'ktc[cuda]'", exit_code=3
        ) from None
    if getattr(cupy.cuda.runtime, "is_hip", False):
        raise KtcError(
            "E-DEVICE-CUDA",
            "this CuPy is ROCm's, and what is compiled here is NVIDIA's: AMD GPUs are measured through OpenCL",
            hint="--device opencl; `ktc doctor` says what it needs",
            exit_code=3,
        )
    try:
        if cupy.cuda.runtime.getDeviceCount() < 1:
            raise KtcError("E-DEVICE-CUDA", "no CUDA device", exit_code=3)
    except cupy.cuda.runtime.CUDARuntimeError as e:
        raise KtcError(
            "E-DEVICE-CUDA", f"no CUDA device: {e}", hint="check nvidia-smi and the driver", exit_code=3
        ) from None
    return cupy
