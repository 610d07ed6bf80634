"""The input languages: CUDA C++, HIP and OpenCL C. One parser reads them all; a dialect is the difference.

HIP is CUDA with other names for launches and a few types. OpenCL C's address-space qualifiers become CUDA's, its
functions are rows of ``opencl.txt`` and ``opencl.cuh``, and :mod:`.opencl_lowering` adds what its vectors can do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from ktc.ir.diagnostics import KtcError
from ktc.ir.types import EVENT, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Type, Vec


@dataclass(frozen=True)
class Dialect:
    """``macros`` are predefined; ``words`` maps a word to a (token type, spelling), or to None to leave it out.

    ``tables`` are files of built-ins that go before ``builtins.txt``; ``types`` are names known without a header.
    ``vector_operators``: ``+ - * / ...`` work on vectors lane by lane.
    """

    name: str
    macros: Mapping[str, str]
    words: Mapping[str, tuple[str, str] | None] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    types: Mapping[str, Type] = field(default_factory=dict)
    vector_operators: bool = False


_SIZES = {"SHORT": 2, "INT": 4, "LONG": 8, "LONG_LONG": 8, "FLOAT": 4, "DOUBLE": 8, "POINTER": 8, "SIZE_T": 8}

_HOST = {
    **dict.fromkeys(
        ("__x86_64__", "__x86_64", "__amd64__", "__amd64", "__linux__", "__linux", "__unix__", "__unix"), "1"
    ),
    **{f"__SIZEOF_{name}__": str(size) for name, size in _SIZES.items()},
    "__ORDER_LITTLE_ENDIAN__": "1234",
    "__ORDER_BIG_ENDIAN__": "4321",
    "__BYTE_ORDER__": "1234",
    "__STDC__": "1",
    "_POSIX_VERSION": "200809L",  # of <unistd.h>, which is not read
    "__LP64__": "1",
    "__CHAR_BIT__": "8",
    "__cplusplus": "201703L",
    **{
        f"{sign}INT{n}_C(x)": f"x ## {suffix}" if suffix else "x"
        for n in (8, 16, 32, 64)
        for sign, suffix in (("", "LL" if n == 64 else ""), ("U", "ULL" if n == 64 else "U" if n == 32 else ""))
    },
}

CUDA = Dialect(
    "cuda",
    {
        "__CUDACC__": "1", "__NVCC__": "1", "__CUDA_ARCH__": "900", "CUDART_VERSION": "12080", "CUDA_VERSION": "12080",
        "__CUDACC_VER_MAJOR__": "12", "__CUDACC_VER_MINOR__": "8", **_HOST, "__GNUC__": "12", "__GNUC_MINOR__": "2",
        "__GNUG__": "12", "__GXX_EXPERIMENTAL_CXX0X__": "1",
        # of the toolkit's libraries, whose headers are not read
        "CUBLAS_VERSION": "120804", "CUBLAS_VER_MAJOR": "12", "CUBLAS_VER_MINOR": "8", "CUSPARSE_VERSION": "12508",
        "CUSOLVER_VERSION": "11703", "CUFFT_VERSION": "11303", "CURAND_VERSION": "10309",
    },
)  # fmt: skip
"""What a CUDA 12 compiler for sm_90 defines, with GCC as the host's."""

_HIP_INDEX = {
    f"hip{cuda[0].upper()}{cuda[1:]}_{axis}": f"{cuda}.{axis}"
    for cuda in ("threadIdx", "blockIdx", "blockDim", "gridDim")
    for axis in "xyz"
}

HIP = Dialect(
    "hip",
    {
        "__HIPCC__": "1", "__HIP__": "1", "__HIP_DEVICE_COMPILE__": "1", "__HIP_PLATFORM_AMD__": "1",
        "HIP_VERSION": "60000000", **_HOST, **_HIP_INDEX,
        "hipLaunchKernelGGL(kernel, grid, block, shared, stream, ...)":
            "kernel<<<grid, block, shared, stream>>>(__VA_ARGS__)",
        "hipLaunchKernel(kernel, grid, block, shared, stream, ...)":
            "kernel<<<grid, block, shared, stream>>>(__VA_ARGS__)",
        "HIP_KERNEL_NAME(...)": "__VA_ARGS__", "HIP_SYMBOL(x)": "x",
        "HIP_DYNAMIC_SHARED(type, var)": "extern __shared__ type var[];",
        "hip_bfloat16": "__nv_bfloat16", "__hip_bfloat16": "__nv_bfloat16", "__hip_bfloat162": "__nv_bfloat162",
        "hipStream_t": "cudaStream_t", "hipError_t": "cudaError_t", "hipEvent_t": "cudaEvent_t",
        "__builtin_amdgcn_s_barrier": "__syncthreads",
    },
    vector_operators=True,
)  # fmt: skip
"""HIP as hipcc reads it. Warps are 32 wide here (RDNA and NVIDIA); code that asks ``warpSize`` is told so."""

_ELEMENTS = {
    "char": I8, "uchar": U8, "short": I16, "ushort": U16, "int": I32, "uint": U32, "long": I64, "ulong": U64,
    "half": F16, "float": F32, "double": F64,
}  # fmt: skip

OPENCL_VECTORS: dict[str, Type] = {f"{name}{n}": Vec(t, n) for name, t in _ELEMENTS.items() for n in (2, 3, 4, 8, 16)}

_QUALIFIERS: dict[str, tuple[str, str] | None] = {
    "kernel": ("CUDA", "__global__"), "local": ("CUDA", "__shared__"), "constant": ("CUDA", "__constant__"),
    "global": None, "private": None, "generic": None, "read_only": None, "write_only": None, "read_write": None,
}  # fmt: skip

# Words of C++ that are ordinary names in OpenCL C.
_CPP_ONLY = ("template", "typename", "namespace", "using", "class", "operator", "new", "delete", "this", "public",
             "private", "protected", "friend", "explicit", "virtual", "mutable", "try", "catch", "throw")  # fmt: skip

OPENCL = Dialect(
    "opencl",
    {
        "__OPENCL_VERSION__": "120", "__OPENCL_C_VERSION__": "120", "CL_VERSION_1_0": "100", "CL_VERSION_1_1": "110",
        "CL_VERSION_1_2": "120", "__ENDIAN_LITTLE__": "1", "CLK_LOCAL_MEM_FENCE": "1", "CLK_GLOBAL_MEM_FENCE": "2",
        "cl_khr_fp64": "1", "cl_khr_global_int32_base_atomics": "1", "cl_khr_local_int32_base_atomics": "1",
        "cl_khr_byte_addressable_store": "1", "MAXFLOAT": "3.402823466e+38f", "M_PI_F": "3.14159274101257f",
        "M_E_F": "2.71828182845904523536028747135f", "M_PI_2_F": "1.57079637050629f", "M_PI_4_F": "0.78539818525314f",
        "M_1_PI_F": "0.31830987334251f", "M_2_PI_F": "0.63661974668503f", "M_SQRT2_F": "1.41421353816986f",
        "M_LN2_F": "0.69314718246460f", "M_LOG2E_F": "1.44269502162933f",
    },
    {w: ("ID", w) for w in _CPP_ONLY} | _QUALIFIERS | {f"__{w}": new for w, new in _QUALIFIERS.items()},
    ("opencl.txt",),
    {**OPENCL_VECTORS, "event_t": EVENT},
    vector_operators=True,
)  # fmt: skip
"""OpenCL C 1.2 with double precision."""

DIALECTS = {d.name: d for d in (CUDA, HIP, OPENCL)}

_SUFFIXES = {".cu": "cuda", ".cuh": "cuda", ".hip": "hip", ".cl": "opencl", ".ocl": "opencl"}

_HIP_TEXT = re.compile(r"#\s*include\s*[<\"]hip/|\bhipLaunchKernelGGL\b|\bhipMalloc\b|\bhipThreadIdx_x\b")
_CUDA_TEXT = re.compile(r"\b__global__\b")
_OPENCL_TEXT = re.compile(r"\b(__kernel|get_global_id|get_local_id|get_group_id)\b|\bkernel\s+void\b")


_CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|else|elif|endif)\b", re.M)


def _certain(text: str, at: int) -> bool:
    """Whether ``at`` in ``text`` stands under no condition but one like an include guard's: what does may be there for
    the other of two compilers."""
    asked: list[str] = []
    for m in _CONDITION.finditer(text, 0, at):
        if m[1].startswith("if"):
            asked.append(m[1])
        elif m[1] == "endif":
            del asked[-1:]
        elif asked:
            asked[-1] = m[1]
    return all(word == "ifndef" for word in asked)


def dialect_named(name: str) -> Dialect:
    """The dialect of that name.

    Raises:
        KtcError: E-DIALECT (exit code 2) with the names there are.
    """
    if name not in DIALECTS:
        raise KtcError("E-DIALECT", f"no dialect '{name}'", hint=f"there are: {', '.join(DIALECTS)}", exit_code=2)
    return DIALECTS[name]


def dialect_of(file: str, text: str) -> Dialect:
    """The dialect by file name and, where that leaves it open, by what the text calls."""
    by_name = _SUFFIXES.get(PurePath(file).suffix.lower())
    if by_name in ("hip", "opencl"):
        return DIALECTS[by_name]
    if "hip" in text and any(_certain(text, m.start()) for m in _HIP_TEXT.finditer(text)):
        return HIP
    if by_name is None and not _CUDA_TEXT.search(text) and _OPENCL_TEXT.search(text):
        return OPENCL
    return CUDA
