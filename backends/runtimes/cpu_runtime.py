"""The CPU runtime: generated numba modules as executables, timed by the wall clock."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ktc.backends.base import CompileFailure, DeviceInfo, Emitted, Executable
from ktc.backends.numba.numba_types import STORAGE_DTYPE
from ktc.ir.diagnostics import KtcError
from ktc.ir.support.child_python import rest_when_waiting
from ktc.ir.types import Ptr

from .common import Sampler, Scratch, TimedRuntime, need
from .file_cache import cache_root, key_of, write_atomic
from .processor import cpu_name, last_level_cache_bytes, own_caches, vector_registers
from .sequence_executable import SequenceExecutable

BATCH_SECONDS = 1e-3
"""A measurement covers at least this long, so that the clock's resolution and the call's overhead do not matter."""


HASHED_AT_ONCE = 4 << 20
"""Bytes."""

LONG_SECONDS = 0.1
"""A launch that takes as long as this has been measured once it has been made."""


class CpuExecutable:
    """A loaded module; ``resources`` is empty: a CPU has no per-kernel resource counts."""

    def __init__(self, code: Emitted, module: ModuleType) -> None:
        self.code = code
        self.resources: Mapping[str, int] = {}
        self.module = module
        self._call = getattr(module, code.entry)
        self._names = [p.sym.name for p in code.kernel.params]
        self._scratch = Scratch(code.kernel, lambda array: array)

    def launch(self, args: Mapping[str, object]) -> None:
        args = self._scratch.complete(args)
        self._call(*[need(args, n) for n in self._names])


class CpuRuntime(TimedRuntime):
    """All cores of this machine, through numba."""

    reads_host = True

    def __init__(self) -> None:
        rest_when_waiting()  # OpenMP threads that spin starve each other when cores are shared: 20 ms a launch, not 0.4
        # Where numba has Intel's vector functions, exp of an element depends on whether it is in the vectorised part of
        # a loop, and so on sizes and addresses.
        os.environ.setdefault("NUMBA_DISABLE_INTEL_SVML", "1")
        try:
            import numba
            from llvmlite.binding import get_host_cpu_features
        except ImportError as e:
            raise KtcError(
                "E-DEVICE-NUMBA", f"numba cannot be imported: {e}", hint="pip install numba", exit_code=3
            ) from None
        self.device = DeviceInfo(
            "numba", cpu_name(), "numba", numba.get_num_threads(), 1024, 1 << 20, 32,
            l2_bytes=last_level_cache_bytes(), global_bytes=_memory_bytes(),
            extra={"numba": numba.__version__, "threads": str(numba.get_num_threads()), **own_caches(),
                   **vector_registers(get_host_cpu_features())},
        )  # fmt: skip

    def compile(self, code: Emitted) -> CpuExecutable | SequenceExecutable:
        """Write the module under its content hash, import it and compile it for the kernel's types.

        Raises:
            CompileFailure: numba cannot type or compile the text.
        """
        if code.launches:
            return SequenceExecutable(code, self.compile, self.to_device)
        if code.target != "numba":
            raise KtcError("E-DEVICE-TARGET", f"the CPU runtime runs 'numba' code, not '{code.target}'", exit_code=2)
        exe = CpuExecutable(code, load_module(code.text))
        self._compile_now(exe)
        return exe

    def _compile_now(self, exe: CpuExecutable) -> None:
        """One launch on empty buffers when that is harmless is not possible in general: compile by signature."""
        from numba.core.errors import NumbaError

        grid = getattr(exe.module, f"{exe.code.entry}_grid", None)
        signature = grid_signature(exe.code, grid) if grid is not None else None
        if signature is None:
            return
        try:
            grid.compile(signature)  # type: ignore[union-attr]
        except NumbaError as e:
            raise CompileFailure(str(e)) from None

    def to_device(self, array: np.ndarray) -> np.ndarray:
        """A contiguous private copy."""
        return np.array(array, copy=True, order="C")

    def full(self, n: int, value: np.generic) -> np.ndarray:
        """An array of ``n`` elements, each ``value``."""
        return np.full(n, value, value.dtype)

    def repeated(self, block: np.ndarray, n: int) -> np.ndarray:
        """An array that repeats ``block``."""
        return np.resize(block, n)

    def copy(self, array: object) -> np.ndarray:
        """Another array with the same content."""
        assert isinstance(array, np.ndarray)
        return array.copy()

    def to_host(self, array: object, like: np.ndarray) -> np.ndarray:
        assert isinstance(array, np.ndarray)
        return array.reshape(like.shape).copy()

    def copy_into(self, target: Any, source: Any) -> None:
        """Overwrite one array with another of its shape."""
        np.copyto(target, source)

    def checksum(self, array: Any) -> str:
        """SHA-256 of the array's bytes; of large arrays that of their parts' sums, which the cores share."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if data.size <= HASHED_AT_ONCE:
            return hashlib.sha256(data.data).hexdigest()
        parts = (data[i : i + HASHED_AT_ONCE].data for i in range(0, data.size, HASHED_AT_ONCE))
        with ThreadPoolExecutor(int(self.device.extra["threads"])) as pool:
            return hashlib.sha256(b"".join(pool.map(lambda part: hashlib.sha256(part).digest(), parts))).hexdigest()

    def sampler(self, exe: Executable, arg_sets: Sequence[Mapping[str, object]]) -> Sampler:
        turn = [0]

        def run(n: int) -> float:
            sets = [arg_sets[(turn[0] + i) % len(arg_sets)] for i in range(n)]
            turn[0] += n
            start = time.perf_counter()
            for s in sets:
                exe.launch(s)
            return (time.perf_counter() - start) / n

        seconds = run(1)  # with what only a first launch does, which matters to short ones
        if seconds >= LONG_SECONDS:
            measured = [seconds]
            return lambda: measured.pop() if measured else run(1)
        batch = max(1, int(BATCH_SECONDS / max(run(1), 1e-7)))
        return lambda: run(batch)


def grid_signature(code: Emitted, grid: object) -> tuple | None:
    """The numba signature that the entry calls the grid function with: one specialisation, compiled ahead."""
    from numba import types

    out: list[object] = []
    for p in code.kernel.params:
        t = p.sym.type
        if isinstance(t, Ptr):
            from ktc.ir.types import scalar_of

            out.append(
                types.Array(
                    getattr(
                        types,
                        STORAGE_DTYPE[scalar_of(t).name].removeprefix("np.").rstrip("_").replace("bool", "boolean"),
                    ),
                    1,
                    "C",
                )
            )
        else:
            name = t.name  # type: ignore[attr-defined]
            kind = {"f64": types.float64, "u64": types.uint64, "bool": types.boolean}.get(name)
            out.append(kind or (types.float32 if t.is_float else types.int64))  # type: ignore[attr-defined]
    given = grid.py_func.__code__.co_argcount - len(out)  # type: ignore[attr-defined]
    return tuple(out) + (types.int64,) * given if given >= 0 else None


def load_module(text: str) -> ModuleType:
    """Import printed text from a file named by its hash, so that numba's own on-disk cache finds it again."""
    key = key_of(text, f"{sys.version_info[:2]}")[:32]
    name = f"ktc_numba_{key}"
    if name in sys.modules:
        return sys.modules[name]
    path = cache_root() / "numba" / key[:2] / f"{name}.py"
    try:
        if not path.is_file() or path.read_text("utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(Path(path), text.encode())
    except OSError as e:
        raise KtcError(
            "E-CACHE-WRITE",
            f"cannot write {path}: {e.strerror}",
            exit_code=3,
            hint="set KTC_CACHE to a writable folder",
        ) from None
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0
