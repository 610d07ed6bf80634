"""NVRTC through ctypes: CUDA C++ text to cubin, with no GPU, no CuPy and no nvcc needed.

The HIP text ktc prints compiles here too: its ``#include <hip/...>`` lines resolve to
``backends/include/hip_on_nvidia.h``.
"""

from __future__ import annotations

import ctypes
import functools
import glob
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from ktc.backends.base import CompileFailure, Emitted, accelerated
from ktc.ir.diagnostics import KtcError

from .file_cache import Cache, key_of
from .module_symbols import file_scope

_SONAMES = ("libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2")
HIP_SHIM = Path(__file__).parent.parent / "hip" / "include" / "hip_on_nvidia.h"
HIP_HEADERS = ("hip/hip_runtime.h", "hip/hip_fp16.h", "hip/hip_bf16.h", "hip/hip_bfloat16.h", "hip/hip_fp8.h")
HIP_GROUPS = ("hip/hip_cooperative_groups.h", "#include <cooperative_groups.h>\n")
"""A header of HIP's and what it is on an NVIDIA GPU."""


@dataclass(frozen=True)
class Cubin:
    """A compiled module: machine code, the kernel's name in it, the compiler's log."""

    code: bytes
    symbol: str
    log: str
    cached: bool = False


def _wheel_folders() -> list[Path]:
    """Folders ``nvidia/*`` of the CUDA component wheels that are installed."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    return sorted(p for r in roots for p in Path(r).glob("*") if p.is_dir())


def cuda_homes() -> list[Path]:
    """Toolkit folders, most specific first: $CUDA_HOME, $CUDA_PATH, /usr/local/cuda*."""
    named = [os.environ.get(v) for v in ("CUDA_HOME", "CUDA_PATH")]
    found = ["/usr/local/cuda", *sorted(glob.glob("/usr/local/cuda-*"), reverse=True)]
    return [Path(p) for p in dict.fromkeys([*[n for n in named if n], *found]) if Path(p).is_dir()]


@functools.cache
def include_dirs() -> tuple[str, ...]:
    """Where ``cuda_fp16.h`` and its neighbours are: a toolkit's, a wheel's or CuPy's bundled headers."""
    candidates = [h / "include" for h in cuda_homes()]
    candidates += [h / "targets" / "x86_64-linux" / "include" for h in cuda_homes()]
    candidates += [w / "include" for w in _wheel_folders()]
    cupy = importlib.util.find_spec("cupy")
    for root in (cupy.submodule_search_locations or ()) if cupy else ():
        candidates += sorted(Path(root).glob("_core/include/cupy/_cuda/cuda-*"), reverse=True)
    good = [str(c) for c in candidates if (c / "cuda_fp16.h").is_file()]
    cccl = [f"{d}/cccl" for d in good if os.path.isdir(f"{d}/cccl")]
    return tuple(dict.fromkeys([*good[:1], *cccl[:1]]))


@functools.cache
def library() -> ctypes.CDLL:
    """The NVRTC library. Raises KtcError E-NVRTC-MISSING with how to get it."""
    folders = [w / "lib" for w in _wheel_folders()] + [h / d for h in cuda_homes() for d in ("lib64", "lib")]
    paths = [str(f / n) for f in folders for n in _SONAMES if (f / n).exists()]
    paths += [p for f in folders for p in sorted(glob.glob(f"{f}/libnvrtc.so.*[0-9]"))]
    for path in [*paths, *_SONAMES]:
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise KtcError(
        "E-NVRTC-MISSING",
        "no NVRTC library found",
        hint="pip install 'ktc[cuda]', or install the CUDA toolkit",
        exit_code=3,
    )


def version() -> str:
    """The version of NVRTC: ``12.8``.

    Raises:
        KtcError: no library is found.
    """
    major, minor = ctypes.c_int(), ctypes.c_int()
    library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def cubin_of(code: Emitted, arch: str) -> Cubin:
    """A printed kernel, compiled as :func:`compile_cubin` does."""
    variables, hip = file_scope(code.kernel), code.target == "hip"
    return compile_cubin(code.text, code.entry, arch, code.options, hip=hip, variables=variables)


def compile_cubin(
    text: str,
    entry: str,
    arch: str,
    options: tuple[str, ...] = (),
    *,
    hip: bool = False,
    variables: tuple[str, ...] = (),
) -> Cubin:
    """Compile for ``arch`` (``sm_90``), through the cache.

    ``entry`` is the kernel's name or a template-id (``silu<8, 128>``). ``variables`` at file scope stay visible in the
    module: NVRTC makes them local otherwise. Raises CompileFailure with the compiler's log.
    """
    headers = HIP_SHIM.read_text("utf-8") if hip else ""
    flags = (
        f"-arch={accelerated(arch, text)}",
        "-std=c++17",
        "-default-device",
        *(f"-I{d}" for d in include_dirs()),
        *nvrtc_options(options),
    )
    cache, key = Cache("cubin"), key_of(text, entry, headers, version(), *flags, *variables)
    hit = cache.get(key)
    if hit is not None:
        return Cubin(hit[0], hit[1]["symbol"], hit[1]["log"], cached=True)
    built = _compile(text, entry, flags, headers, variables)
    cache.put(key, built.code, {"symbol": built.symbol, "log": built.log, "arch": arch, "entry": entry})
    return built


def get_ready(arch: str) -> None:
    """Have the library load what it compiles with: a process's first compilation takes ten times as long as others.

    Raises:
        KtcError: there is no library.
        CompileFailure: it compiles nothing for ``arch``.
    """
    _compile('extern "C" __global__ void nothing() {}', "nothing", (f"-arch={arch}",), "")


def nvrtc_options(options: tuple[str, ...]) -> tuple[str, ...]:
    """The options of ``options`` (nvcc's spelling) that NVRTC knows."""
    known = (
        "-use_fast_math",
        "--use_fast_math",
        "-D",
        "-I",
        "-ftz",
        "-prec",
        "-fmad",
        "--fmad",
        "-lineinfo",
        "-maxrregcount",
    )
    return tuple(o for o in options if o.startswith(known))


def _compile(text: str, entry: str, flags: tuple[str, ...], shim: str, variables: tuple[str, ...] = ()) -> Cubin:
    lib = library()
    headers = {**dict.fromkeys(HIP_HEADERS, shim), HIP_GROUPS[0]: HIP_GROUPS[1]} if shim else {}
    names = tuple(headers)
    sources = (ctypes.c_char_p * max(len(names), 1))(*[t.encode() for t in headers.values()])
    includes = (ctypes.c_char_p * max(len(names), 1))(*[n.encode() for n in names])
    prog = ctypes.c_void_p()
    _check(lib, lib.nvrtcCreateProgram(ctypes.byref(prog), text.encode(), b"ktc.cu", len(names), sources, includes))
    try:
        # A name expression of an extern "C" kernel is its own name; of any other, the mangled one.
        for name in (entry, *(f"&{v}" for v in variables)):
            _check(lib, lib.nvrtcAddNameExpression(prog, name.encode()))
        opts = (ctypes.c_char_p * len(flags))(*[f.encode() for f in flags])
        status = lib.nvrtcCompileProgram(prog, len(flags), opts)
        log = _text(lib, prog, "ProgramLog")
        if status != 0:
            raise CompileFailure(log.strip() or _error(lib, status))
        lowered = ctypes.c_char_p()
        _check(lib, lib.nvrtcGetLoweredName(prog, entry.encode(), ctypes.byref(lowered)))
        symbol = (lowered.value or entry.encode()).decode()
        return Cubin(_bytes(lib, prog, "CUBIN"), symbol, log.strip("\0\n "))
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(prog))


def _bytes(lib: ctypes.CDLL, prog: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(lib, getattr(lib, f"nvrtcGet{what}Size")(prog, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value or 1)
    _check(lib, getattr(lib, f"nvrtcGet{what}")(prog, buffer))
    return buffer.raw[: size.value]


def _text(lib: ctypes.CDLL, prog: ctypes.c_void_p, what: str) -> str:
    return _bytes(lib, prog, what).decode("utf-8", "replace").rstrip("\0")


def _error(lib: ctypes.CDLL, status: int) -> str:
    lib.nvrtcGetErrorString.restype = ctypes.c_char_p
    return (lib.nvrtcGetErrorString(status) or b"unknown NVRTC error").decode()


def _check(lib: ctypes.CDLL, status: int) -> None:
    if status != 0:
        raise CompileFailure(f"NVRTC: {_error(lib, status)}")
