"""The OpenCL runtime: pyopencl, one profiling queue, event times.

Device names: ``opencl`` takes the best device (GPUs first, then CPUs by what they can do), ``opencl:1`` the one after
it, ``opencl:TEXT`` the first whose platform, its version or device name contains TEXT. ``KTC_OPENCL_DEVICE`` does the
same from the environment.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ktc.backends.base import CompileFailure, DeviceInfo, Emitted, Executable
from ktc.backends.device_table import peaks_of
from ktc.backends.system_calls import texture_objects
from ktc.ir.diagnostics import KtcError
from ktc.ir.nodes import Alloc
from ktc.ir.types import Ptr
from ktc.ir.walk import walk

from .checksum import OPENCL, opencl_checksum
from .common import Geometry, Sampler, Scratch, TimedRuntime, geometry, need, scalar, signature
from .file_cache import Cache, cache_root, key_of, write_atomic
from .processor import own_caches
from .sequence_executable import SequenceExecutable

BATCH_SECONDS = 200e-6

CPU_TYPE = 2
"""CL_DEVICE_TYPE_CPU."""


class ClArray:
    """A device buffer that remembers its size; ``buffer`` is what a kernel takes."""

    def __init__(self, buffer: Any, nbytes: int) -> None:
        self.buffer, self.nbytes = buffer, nbytes


class ClExecutable:
    """A built kernel; ``resources``: local and private bytes, as the implementation reports them."""

    def __init__(self, runtime: ClRuntime, code: Emitted, program: Any) -> None:
        cl = runtime.cl
        self.code, self._runtime = code, runtime
        if objects := texture_objects(code.kernel):
            names = ", ".join(sym.name for sym in objects)
            raise KtcError("E-LAUNCH-TEXTURE", f"the OpenCL runtime does not make images: {names}", code.kernel.loc,
                           "call the kernel from a host program that passes an image and a sampler")  # fmt: skip
        self._kernel = getattr(program, code.entry)
        info, dev = cl.kernel_work_group_info, runtime.cl_device
        self.resources: Mapping[str, int] = {
            "shared": int(self._kernel.get_work_group_info(info.LOCAL_MEM_SIZE, dev)),
            "local": int(self._kernel.get_work_group_info(info.PRIVATE_MEM_SIZE, dev)),
            "max_threads": int(self._kernel.get_work_group_info(info.WORK_GROUP_SIZE, dev)),
        }
        self._signature = signature(code.kernel)
        self._scratch = Scratch(code.kernel, runtime.to_device)
        self._dynamic = any(isinstance(s, Alloc) and s.dynamic for s in walk(code.kernel.body))

    def launch(self, args: Mapping[str, object]) -> None:
        """Enqueue once. Raises KtcError E-LAUNCH-FAILED when the implementation refuses the geometry or arguments."""
        g = geometry(self.code.kernel, args)
        if not g.empty:
            self.enqueue(g, self.pack(args))

    def prepared(self, args: Mapping[str, object]) -> list[tuple[ClExecutable, Geometry, list[Any]]]:
        """What one launch enqueues; nothing where its grid is empty."""
        g = geometry(self.code.kernel, args)
        return [] if g.empty else [(self, g, self.pack(args))]

    def pack(self, args: Mapping[str, object]) -> list[Any]:
        args = self._scratch.complete(args)
        values = ((need(args, n), t) for n, t in self._signature)
        return [getattr(v, "buffer", None) if isinstance(t, Ptr) else scalar(v, t) for v, t in values]

    def enqueue(self, g: Geometry, packed: list[Any]) -> Any:
        """Enqueue and return the event."""
        cl = self._runtime.cl
        try:
            local = [cl.LocalMemory(max(g.shared, 1))] if self._dynamic else []
            self._kernel.set_args(*packed, *local)
            size = tuple(a * b for a, b in zip(g.grid, g.block))
            return cl.enqueue_nd_range_kernel(self._runtime.queue, self._kernel, size, g.block)
        except (cl.Error, TypeError) as e:
            raise KtcError(
                "E-LAUNCH-FAILED", f"launch of {self.code.entry} with grid {g.grid}, block {g.block} failed: {e}"
            ) from None


class ClRuntime(TimedRuntime):
    """One OpenCL device."""

    def __init__(self, wanted: str = "") -> None:
        self._checksum: Any = None
        self.cl: Any = import_pyopencl()
        self.cl_device = choose(self.cl, wanted or os.environ.get("KTC_OPENCL_DEVICE", ""))
        dev, cl = self.cl_device, self.cl
        self.context = cl.Context([dev])
        self.queue = cl.CommandQueue(self.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        peaks = peaks_of(dev.name)
        self.device = DeviceInfo(
            "opencl", dev.name.strip(), profile_of(dev), dev.max_compute_units, dev.max_work_group_size,
            dev.local_mem_size,
            l2_bytes=max(dev.global_mem_cache_size, peaks.cache_bytes if peaks else 0),
            global_bytes=dev.global_mem_size,
            dram_bytes_per_s=peaks.dram_bytes_per_s if peaks else 0.0, f32_flops=peaks.f32_flops if peaks else 0.0,
            extra={"platform": dev.platform.name.strip(), "version": dev.version.strip(),
                   "driver": dev.driver_version.strip(),
                   "kind": cl.device_type.to_string(dev.type), "extensions": dev.extensions.strip(),
                   **(own_caches() if dev.type & CPU_TYPE else {})},
            gives_up=undefined_values(cl.device_fp_config, dev.single_fp_config),
        )  # fmt: skip

    def compile(self, code: Emitted) -> ClExecutable | SequenceExecutable:
        """Build for the device. Raises CompileFailure with the build log."""
        if code.launches:
            return SequenceExecutable(code, self.compile, self.to_device)
        if code.target != "opencl":
            raise KtcError(
                "E-DEVICE-TARGET", f"the OpenCL runtime runs 'opencl' code, not '{code.target}'", exit_code=2
            )
        options = " ".join((*code.options, *self._exact_division()))
        who = (self.device.name, self.device.extra["platform"], self.device.extra["driver"])
        cache, key = Cache("opencl"), key_of(code.text, options, *who)
        try:
            program = self._from_binary(cache.get(key), options)
            if program is None:
                with warnings.catch_warnings():  # "non-empty compiler output" of a build that succeeds
                    warnings.simplefilter("ignore")
                    # pyopencl's own disk cache is switched off: it pickles.
                    program = self.cl.Program(self.context, code.text).build(options, cache_dir=False)
                binary = program.get_info(self.cl.program_info.BINARIES)[0]
                if binary:
                    cache.put(key, bytes(binary), {"entry": code.entry, "device": self.device.name})
            return ClExecutable(self, code, program)
        except self.cl.Error as e:
            raise CompileFailure(str(e)) from None

    def _exact_division(self) -> tuple[str, ...]:
        """Division and square root rounded as CUDA does by default, where the device can (OpenCL: 2.5 ulp)."""
        can = self.cl_device.single_fp_config & self.cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
        return ("-cl-fp32-correctly-rounded-divide-sqrt",) if can else ()

    def _from_binary(self, hit: tuple[bytes, dict] | None, options: str) -> Any | None:
        """The program of a cached binary, or None (no hit, or the driver no longer takes it)."""
        if hit is None:
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self.cl.Program(self.context, [self.cl_device], [hit[0]]).build(options)
        except self.cl.Error:
            return None

    def _buffer(self, size: int) -> ClArray:
        return ClArray(self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, max(size, 1)), size)

    def to_device(self, array: np.ndarray) -> ClArray:
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        made = self._buffer(flat.nbytes)
        if flat.nbytes:
            self.cl.enqueue_copy(self.queue, made.buffer, flat)
        return made

    def full(self, n: int, value: np.generic) -> ClArray:
        """An array that is filled on the device."""
        made = self._buffer(n * value.itemsize)
        if made.nbytes:
            self.cl.enqueue_fill_buffer(self.queue, made.buffer, value, 0, made.nbytes)
        return made

    def repeated(self, block: np.ndarray, n: int) -> ClArray:
        """An array that repeats ``block``, which travels once; then as much as is there is copied behind it."""
        made = self._buffer(n * block.itemsize)
        part = np.ascontiguousarray(block[:n]).view(np.uint8)
        done = part.nbytes
        if done:
            self.cl.enqueue_copy(self.queue, made.buffer, part)
        while done < made.nbytes:
            more = min(done, made.nbytes - done)
            self.cl.enqueue_copy(self.queue, made.buffer, made.buffer, byte_count=more, src_offset=0, dst_offset=done)
            done += more
        return made

    def copy(self, array: object) -> ClArray:
        """Another buffer with the same content."""
        assert isinstance(array, ClArray)
        made = self._buffer(array.nbytes)
        self.copy_into(made, array)
        return made

    def to_host(self, array: object, like: np.ndarray) -> np.ndarray:
        assert isinstance(array, ClArray)
        raw = np.empty(array.nbytes, np.uint8)
        if raw.nbytes:
            self.cl.enqueue_copy(self.queue, raw, array.buffer)
        return raw.view(like.dtype).reshape(like.shape)

    def copy_into(self, target: Any, source: Any) -> None:
        """Overwrite one buffer with another of its size."""
        if source.nbytes:
            self.cl.enqueue_copy(self.queue, target.buffer, source.buffer, byte_count=source.nbytes)

    def checksum(self, array: Any) -> str:
        """A position-dependent checksum of the buffer's bits, computed on the device."""
        if self._checksum is None:
            self._checksum = self.cl.Program(self.context, OPENCL).build().checksum
        return opencl_checksum(self.cl, self.queue, self._checksum, array.buffer, array.nbytes)

    def synchronize(self) -> None:
        """Wait; a failed command raises KtcError E-DEVICE-FAULT."""
        try:
            self.queue.finish()
        except self.cl.Error as e:
            raise KtcError("E-DEVICE-FAULT", f"the kernel failed on the device: {e}") from None

    def sampler(self, exe: Executable, arg_sets: Sequence[Mapping[str, object]]) -> Sampler:
        """Event time per launch, averaged over a batch that rotates through ``arg_sets``."""
        assert isinstance(exe, ClExecutable | SequenceExecutable)
        ready = [exe.prepared(a) for a in arg_sets]
        if not all(ready):
            return lambda: 0.0
        turn = [0]

        def run(n: int) -> float:
            runs = (ready[(turn[0] + i) % len(ready)] for i in range(n))
            events = [one.enqueue(g, packed) for launches in runs for one, g, packed in launches]
            turn[0] += n
            self.synchronize()
            return sum(e.profile.end - e.profile.start for e in events) * 1e-9 / n

        once = run(1)
        batch = max(1, min(64, int(BATCH_SECONDS / max(once, 1e-7))))
        return lambda: run(batch)


def profile_of(dev: Any) -> str:
    """The emitter profile that fits the device."""
    if "NVIDIA" in dev.platform.name.upper():
        return "opencl-nvidia"
    has_subgroups = "cl_intel_required_subgroup_size" in dev.extensions
    warps = has_subgroups and not dev.opencl_c_version.startswith("OpenCL C 1.")
    if dev.type & CPU_TYPE:
        return "opencl-cpu-subgroups" if warps else "opencl-cpu"
    return "opencl-cl30-subgroups" if warps else "opencl-cl12"


def undefined_values(bits: Any, config: int) -> tuple[str, ...]:
    """The special values that a device does not define in float arithmetic, by its CL_DEVICE_SINGLE_FP_CONFIG."""
    lost = () if config & bits.DENORM else ("subnormal",)
    return lost if config & bits.INF_NAN else (*lost, "inf", "-inf", "nan")


def import_pyopencl() -> Any:
    """pyopencl, with the vendor files of wheels in this environment visible to its loader.

    Raises KtcError E-DEVICE-OPENCL when it is missing.
    """
    _show_environment_drivers()
    try:
        import pyopencl
    except Exception as e:
        raise KtcError(
            "E-DEVICE-OPENCL", f"pyopencl cannot be imported: {e}", hint="pip install 'ktc[opencl]'", exit_code=3
        ) from None
    return pyopencl


def _show_environment_drivers() -> None:
    """Point the loader at the system's drivers and those that wheels of this Python environment bring.

    A wheel's driver path may be a placeholder of a package manager: the library of that name under ``sys.prefix/lib``
    is meant then. Nothing happens when the user chose the drivers (``OCL_ICD_VENDORS``) or the environment brings none.
    """
    own = sorted((Path(sys.prefix) / "etc" / "OpenCL" / "vendors").glob("*.icd"))
    if not own or "OCL_ICD_VENDORS" in os.environ:
        return
    found = {p.name: p.read_text("utf-8") for p in sorted(Path("/etc/OpenCL/vendors").glob("*.icd"))}
    for icd in own:
        named = Path(icd.read_text("utf-8").strip())
        path = named if named.is_file() else Path(sys.prefix) / "lib" / named.name
        if path.is_file() and "_emu" not in path.name:
            found[icd.name] = f"{path}\n"
    folder = cache_root() / "opencl-vendors" / key_of(*found, *found.values())[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in found.items():
            write_atomic(folder / name, text.encode())
    except OSError:
        return  # the system's drivers alone, then
    os.environ["OCL_ICD_VENDORS"] = str(folder)


def devices(cl: Any) -> list[Any]:
    """Every usable device, best first: GPUs, accelerators, then CPUs with sub-groups, then newer OpenCL C."""
    try:
        found = [d for p in cl.get_platforms() for d in p.get_devices() if d.available]
    except cl.Error:
        return []

    def rank(d: Any) -> tuple:
        gpu = bool(d.type & cl.device_type.GPU)
        return (not gpu, "cl_khr_subgroups" not in d.extensions and "subgroup" not in d.extensions, -_version(d))

    return sorted((d for d in found if not d.type & cl.device_type.CUSTOM and "FPGA" not in d.name), key=rank)


def _version(d: Any) -> float:
    words = d.opencl_c_version.split()
    try:
        return float(words[2])
    except (IndexError, ValueError):
        return 0.0


def numbered(found: Sequence[Any]) -> list[str]:
    """``0: NAME (PLATFORM)`` of each device: what ``opencl:0`` means."""
    return [f"{i}: {d.name.strip()} ({d.platform.name.strip()})" for i, d in enumerate(found)]


def choose(cl: Any, wanted: str) -> Any:
    """The best device, or that of the number ``wanted`` among :func:`devices`, or the first whose platform or name
    contains it. Raises KtcError E-DEVICE-OPENCL."""
    all_ = devices(cl)
    if wanted.isdigit():
        match = all_[int(wanted) :]
    else:
        match = [d for d in all_ if wanted.lower() in f"{d.platform.name} {d.platform.version} {d.name}".lower()]
    if match:
        return match[0]
    have = "; ".join(numbered(all_)) or "none"
    what = f"no OpenCL device matches '{wanted}'" if all_ else "no OpenCL device"
    raise KtcError(
        "E-DEVICE-OPENCL",
        what,
        hint=f"devices here: {have}" if all_ else "pip install 'ktc[opencl]' brings a CPU one",
        exit_code=3,
    )
