"""CUDA kernels compiled by NVRTC and launched by the driver, both through ctypes: no nvcc, no package besides Python's.

The context is the device's primary one, which PyTorch and CuPy use too. Nothing here allocates device memory or waits
for the device, so that a launch can be captured in a CUDA graph; a kernel that is compiled during a capture is loaded
with the capture's checks relaxed for that call.
"""

from __future__ import annotations

import ctypes
import functools
import glob
import importlib.util
import os
import struct
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .dispatch import BYTES, Kernel, Launch, python_name

SHARED_LIMIT = 48 * 1024
"""Bytes of shared memory a block may have without asking for more (CUDA C++ programming guide)."""

_SCALARS: Mapping[str, Any] = {
    "i8": ctypes.c_int8, "u8": ctypes.c_uint8, "i16": ctypes.c_int16, "u16": ctypes.c_uint16, "i32": ctypes.c_int32,
    "u32": ctypes.c_uint32, "i64": ctypes.c_int64, "u64": ctypes.c_uint64, "f32": ctypes.c_float,
    "f64": ctypes.c_double, "bool": ctypes.c_bool,
}  # fmt: skip
_MATRIX_TYPES = {"f16": 6, "bf16": 9}
"""CUtensorMapDataType; 16-bit integers else."""


@functools.lru_cache(None)
def driver() -> Any:
    """The CUDA driver's library."""
    lib = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    number, pointer = ctypes.c_uint, ctypes.c_void_p
    lib.cuLaunchKernel.argtypes = (pointer, *[number] * 7, pointer, pointer, pointer)
    lib.cuLaunchCooperativeKernel.argtypes = (pointer, *[number] * 7, pointer, pointer)
    _check(lib, lib.cuInit(0))
    return lib


def _check(lib: Any, code: int, what: str = "") -> None:
    if code:
        text = ctypes.c_char_p()
        lib.cuGetErrorString(code, ctypes.byref(text))
        said = (text.value or b"unknown error").decode()
        raise RuntimeError(f"CUDA error {code}: {said}{f' ({what})' if what else ''}")


_thread = threading.local()


def use_device(ordinal: int) -> None:
    """Make the primary context of a device current in this thread, if the CUDA runtime has not done so yet. Where it
    has, the caller has chosen the device through it."""
    if ordinal in _thread.__dict__.setdefault("devices", set()):
        return
    lib, current, device = driver(), ctypes.c_void_p(), ctypes.c_int(-1)
    _check(lib, lib.cuCtxGetCurrent(ctypes.byref(current)))
    if current.value:
        _check(lib, lib.cuCtxGetDevice(ctypes.byref(device)))
    if device.value != ordinal:
        _check(lib, lib.cuDevicePrimaryCtxRetain(ctypes.byref(current), ordinal))
        _check(lib, lib.cuCtxSetCurrent(current))
    _thread.devices.add(ordinal)


def _attribute(ordinal: int, number: int) -> int:
    value = ctypes.c_int()
    _check(driver(), driver().cuDeviceGetAttribute(ctypes.byref(value), number, ordinal))
    return value.value


@functools.lru_cache(None)
def limits(ordinal: int) -> tuple[int, str]:
    """Shared memory that a block may have in bytes, and the architecture (``sm_90``) of a device."""
    return _attribute(ordinal, 97), f"sm_{_attribute(ordinal, 75)}{_attribute(ordinal, 76)}"


class Functions:
    """The loaded kernels of one package: each is compiled for a device when it is first launched there."""

    def __init__(self) -> None:
        self._loaded: dict[tuple[int, str], tuple[Any, int]] = {}
        self._raised: dict[tuple[int, str], int] = {}
        self._lock = threading.Lock()

    def get(self, kernel: Kernel, ordinal: int) -> tuple[Any, int]:
        """The function and its static shared memory in bytes; the device's context is current."""
        key = (ordinal, kernel.key)
        found = self._loaded.get(key)
        if found is None:
            with self._lock:
                found = self._loaded.get(key)
                if found is None:
                    found = self._loaded[key] = _relaxed(lambda: _load(kernel, limits(ordinal)[1]))
        return found

    def launch(self, launch: Launch, ordinal: int, stream: int, addresses: Mapping[str, int | None]) -> None:
        """Enqueue ``launch`` in ``stream`` with buffers at ``addresses``, scratch ones too."""
        kernel, lib = launch.kernel, driver()
        if launch.prepared is None:
            launch.prepared = Arguments(launch)
        function = self._ready(launch, ordinal)
        kept, pointers = launch.prepared.packed(addresses)
        if kernel.cooperative:
            code = lib.cuLaunchCooperativeKernel(function, *launch.grid, *launch.block, launch.shared, stream, pointers)
        else:
            code = lib.cuLaunchKernel(function, *launch.grid, *launch.block, launch.shared, stream, pointers, None)
        del kept  # what the pointers point to has lived until here
        if code:
            _check(lib, code, f"{kernel.entry}, grid {launch.grid}, block {launch.block}")

    def _ready(self, launch: Launch, ordinal: int) -> Any:
        """The function, allowed as much shared memory as the launch takes."""
        function, static = self.get(launch.kernel, ordinal)
        key = (ordinal, launch.kernel.key)
        if launch.shared + static > SHARED_LIMIT and launch.shared > self._raised.get(key, 0):
            code = driver().cuFuncSetAttribute(function, 8, launch.shared)
            _check(driver(), code, f"{launch.shared} bytes of shared memory")
            self._raised[key] = launch.shared
        return function


class Arguments:
    """The arguments of a launch as the driver wants them: an array of pointers to values. Scalars stay; addresses of
    buffers, and descriptors of matrices, are made anew for each launch, so that threads share nothing."""

    def __init__(self, launch: Launch) -> None:
        self.names = launch.names
        self.matrices = launch.kernel.matrices
        self.buffers = [n for n, kind in launch.kernel.arguments if kind.startswith("*")]
        self.scalars = {k: _scalar(n, kind, launch.names) for k, (n, kind) in enumerate(launch.kernel.arguments)
                        if not kind.startswith("*")}  # fmt: skip
        places = iter(range(len(self.buffers)))
        self.places = [
            (0, ctypes.addressof(self.scalars[k])) if k in self.scalars else (1, 8 * next(places))
            for k in range(len(launch.kernel.arguments))
        ]

    def packed(self, addresses: Mapping[str, int | None]) -> tuple[Any, Any]:
        """What must live until the launch is enqueued, and the array."""
        held = (ctypes.c_void_p * max(len(self.buffers), 1))(*(addresses[n] for n in self.buffers))
        base = ctypes.addressof(held)
        given = [offset + base if moves else offset for moves, offset in self.places]
        maps = [_matrix(m, self.names, addresses) for m in self.matrices]
        given += [m.at for m in maps]
        return (held, maps), (ctypes.c_void_p * max(len(given), 1))(*given)


def _relaxed(action: Any) -> Any:
    """``action`` with this thread's stream-capture mode relaxed: loading a module enqueues nothing."""
    mode = ctypes.c_int(2)  # CU_STREAM_CAPTURE_MODE_RELAXED
    driver().cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
    try:
        return action()
    finally:
        driver().cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))


def _scalar(name: str, kind: str, names: Mapping[str, Any]) -> Any:
    value = names[python_name(name)]
    if kind == "f16":
        return ctypes.c_uint16.from_buffer_copy(struct.pack("<e", value))
    if kind == "bf16":
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        return ctypes.c_uint16((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    return _SCALARS[kind](value)


class _Aligned:
    """128 bytes at a multiple of 64: a CUtensorMap."""

    def __init__(self) -> None:
        self.space = ctypes.create_string_buffer(128 + 64)
        start = ctypes.addressof(self.space)
        self.at = start + -start % 64


def _matrix(m: Sequence[Any], names: Mapping[str, Any], addresses: Mapping[str, int | None]) -> _Aligned:
    buffer, rows, columns, pitch, box_rows, dtype = m
    out = _Aligned()
    extents = [int(e(names)) for e in (columns, rows)]
    if min(extents) < 1:
        return out  # never read
    u64, u32 = ctypes.c_uint64, ctypes.c_uint32
    code = driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(out.at), _MATRIX_TYPES.get(dtype, 1), 2,
        ctypes.c_void_p(addresses[buffer]), (u64 * 2)(*extents),
        (u64 * 1)(int(pitch(names)) * BYTES[dtype]), (u32 * 2)(64, box_rows), (u32 * 2)(1, 1), 0, 3, 2, 0,
    )  # fmt: skip
    _check(driver(), code, f"describing {buffer} of {extents[1]} x {extents[0]}")
    return out


def _load(kernel: Kernel, arch: str) -> tuple[Any, int]:
    lib, module, function, static = driver(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    image, symbol = compiled(kernel, arch)
    _check(lib, lib.cuModuleLoadData(ctypes.byref(module), image), f"loading {kernel.entry}")
    _check(lib, lib.cuModuleGetFunction(ctypes.byref(function), module, symbol), kernel.entry)
    _check(lib, lib.cuFuncGetAttribute(ctypes.byref(static), 1, function))
    return function, static.value


# ------------------------------------------------------------------------------------------------------------- compiler


def _folders() -> list[Path]:
    """Where a CUDA toolkit, or the wheels that bring its parts, may be."""
    named = [os.environ.get(v) for v in ("CUDA_HOME", "CUDA_PATH")]
    homes = [*named, "/usr/local/cuda", *sorted(glob.glob("/usr/local/cuda-*"), reverse=True)]
    spec = importlib.util.find_spec("nvidia")
    roots = spec.submodule_search_locations or () if spec else ()
    wheels = [p for root in roots for p in sorted(Path(root).glob("*"))]
    return [*wheels, *(Path(h) for h in homes if h)]


@functools.lru_cache(None)
def include_folders() -> tuple[str, ...]:
    """Folders with ``cuda_fp16.h`` and its neighbours: the wheels', a toolkit's, or those that CuPy brings."""
    places = [f / i for f in _folders() for i in ("include", "targets/x86_64-linux/include")]
    for package in ("cupy", "triton"):
        spec = importlib.util.find_spec(package)
        for root in (spec.submodule_search_locations or ()) if spec else ():
            places += sorted(Path(root).glob("_core/include/cupy/_cuda/cuda-*"), reverse=True)
            places.append(Path(root) / "backends/nvidia/include")
    good = [str(p) for p in places if (p / "cuda_fp16.h").is_file()][:1]
    return (*good, *(f"{g}/cccl" for g in good if os.path.isdir(f"{g}/cccl")))


@functools.lru_cache(None)
def nvrtc() -> Any:
    """NVRTC's library: of a wheel, a toolkit, or the system."""
    names = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll")
    places = [str(f / d / n) for f in _folders() for d in ("lib", "lib64", "bin") for n in names]
    for place in [*(p for p in places if os.path.exists(p)), *names]:
        try:
            return ctypes.CDLL(place)
        except OSError:
            continue
    raise RuntimeError("no NVRTC library: pip install nvidia-cuda-nvrtc, or install the CUDA toolkit")


def compiled(kernel: Kernel, arch: str) -> tuple[bytes, bytes]:
    """Machine code for ``arch``, and the kernel's name in it.

    Raises:
        RuntimeError: no NVRTC, or what it says of the text.
    """
    lib, program, text = nvrtc(), ctypes.c_void_p(), kernel.source().encode()
    exact = kernel.arch if kernel.arch[-1:].isalpha() else arch
    known = ("-use_fast_math", "--use_fast_math", "-D", "-ftz", "-prec", "-fmad", "--fmad", "-maxrregcount")
    flags = [f"-arch={exact}", "-std=c++17", "-default-device", *(f"-I{d}" for d in include_folders())]
    flags += [o for o in kernel.options if o.startswith(known)]
    _nvrtc(lib, lib.nvrtcCreateProgram(ctypes.byref(program), text, kernel.file.name.encode(), 0, None, None))
    try:
        _nvrtc(lib, lib.nvrtcAddNameExpression(program, kernel.entry.encode()))
        options = (ctypes.c_char_p * len(flags))(*(f.encode() for f in flags))
        code = lib.nvrtcCompileProgram(program, len(flags), options)
        if code:
            log = _bytes(lib, program, "ProgramLog").rstrip(b"\0").decode(errors="replace").strip()
            raise RuntimeError(f"NVRTC does not compile {kernel.file} for {exact}:\n{log}")
        name = ctypes.c_char_p()
        _nvrtc(lib, lib.nvrtcGetLoweredName(program, kernel.entry.encode(), ctypes.byref(name)))
        return _bytes(lib, program, "CUBIN"), name.value or kernel.entry.encode()
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(program))


def _bytes(lib: Any, program: Any, what: str) -> bytes:
    size = ctypes.c_size_t()
    _nvrtc(lib, getattr(lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    out = ctypes.create_string_buffer(size.value or 1)
    _nvrtc(lib, getattr(lib, f"nvrtcGet{what}")(program, out))
    return out.raw[: size.value]


def _nvrtc(lib: Any, code: int) -> None:
    if code:
        lib.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise RuntimeError(f"NVRTC: {(lib.nvrtcGetErrorString(code) or b'unknown error').decode()}")
