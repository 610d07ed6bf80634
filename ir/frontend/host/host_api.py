"""Functions that host code calls between launches, and what they do to memory of the device.

Sources: CUDA Runtime API reference (memory management, stream and event management); HIP has the same functions under
its own prefix.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Does:
    """What a function does to the arguments at these places: ``allocates`` through a pointer to a pointer, of as many
    ``bytes`` as that argument says; ``reads``, ``writes`` and ``frees`` memory; ``fills`` it with the value there.
    ``managed``: the host reaches the memory without a copy."""

    allocates: int | None = None
    bytes: int | None = None
    reads: int | None = None
    writes: int | None = None
    fills: int | None = None
    frees: int | None = None
    managed: bool = False


KNOWN = {
    "cudaMalloc": Does(allocates=0, bytes=1),
    "cudaMallocAsync": Does(allocates=0, bytes=1),
    "cudaMallocManaged": Does(allocates=0, bytes=1, managed=True),
    "cudaMallocHost": Does(allocates=0, bytes=1, managed=True),
    "cudaHostAlloc": Does(allocates=0, bytes=1, managed=True),
    "cudaMemcpy": Does(writes=0, reads=1),
    "cudaMemcpyAsync": Does(writes=0, reads=1),
    "cudaMemcpy2D": Does(writes=0, reads=2),
    "cudaMemcpy2DAsync": Does(writes=0, reads=2),
    "cudaMemset": Does(writes=0, fills=1),
    "cudaMemsetAsync": Does(writes=0, fills=1),
    "cudaFree": Does(frees=0),
    "cudaFreeAsync": Does(frees=0),
    "cudaFreeHost": Does(frees=0),
}  # fmt: skip

_HARMLESS = re.compile(
    r"cuda(GetLastError|PeekAtLastError|DeviceSynchronize|ThreadSynchronize|GetError(String|Name)|StreamSynchronize"
    r"|Event(Create|CreateWithFlags|Record|Synchronize|ElapsedTime|Destroy|Query)|Get(Device|DeviceCount|DeviceProperties)"
    r"|Stream(Create|CreateWithFlags|Destroy)|DeviceGetAttribute|Func(SetAttribute|SetCacheConfig|GetAttributes)"
    r"|Occupancy\w+|MemGetInfo|Profiler(Start|Stop)|DeviceSetCacheConfig|DeviceSetLimit)"
    r"|(f|s|sn|v|vf)?printf|puts|fputs|putchar|fflush|exit|abort|assert|__assert_fail|perror|free|malloc|calloc|realloc"
    r"|mem(set|cpy|cmp)|str\w+|ato[ifl]+|rand|srand|time|clock|gettimeofday|clock_gettime|omp_get_wtime|usleep|sleep"
    r"|sqrtf?|powf?|expf?|logf?|log2f?|ceilf?|floorf?|roundf?|fabsf?|abs|min|max|fminf?|fmaxf?|swap|move|forward"
    r"|nvtxRange\w+|now|duration|duration_cast|count|ceil_div|div_up|cdiv|getenv|isnan|isinf|fopen|fclose|fread|fwrite"
    r"|checkCudaErrors|check_?(cuda_?)?err(or)?s?(Msg)?|gpuErrchk|gpuAssert|cutilSafeCall|cutilCheckMsg|CUDA_SAFE_CALL"
    r"|(__)?getLastCudaError|sdk\w*Timer\w*|cut\w*Timer\w*|CUT_\w+|CUDA_CHECK|findCudaDevice|get_time|gettime|rtclock"
    r"|size|numel|data_ptr|data|mutable_data_ptr|const_data_ptr|scalar_type|dtype|device|stride|dim|sizes|strides"
    r"|is_cuda|is_contiguous|options|get_device|current_device|getCurrentCUDAStream|stream|c_str|begin|end|length"
    r"|getCurrentDeviceProperties|optional_device_of|device_of|TORCH_CHECK|C10_CUDA_CHECK|check|item_size|element_size"
)
"""Names of functions that neither touch memory of the device nor wait for anything that matters to the order of
launches in one stream."""

ALLOCATORS = {"empty": False, "empty_like": False, "new_empty": False, "zeros": True, "zeros_like": True}
"""Functions that return new memory of the device, and whether it is 0 everywhere."""

STATUS = frozenset({"cudaSuccess", "hipSuccess"})
"""What a condition that only asks whether a call failed compares with: the program ends in that branch."""


def cuda_name(name: str) -> str:
    """The name of CUDA's function of this name, where it is HIP's."""
    return f"cuda{name[3:]}" if name.startswith("hip") else name


def is_harmless(name: str) -> bool:
    """Whether a call of this function changes nothing for launches around it. Of functions that a program may have
    defined itself in another file, those are taken for it that samples have under one name."""
    return _HARMLESS.fullmatch(cuda_name(name)) is not None


__all__ = ["ALLOCATORS", "KNOWN", "STATUS", "Does", "cuda_name", "is_harmless"]
