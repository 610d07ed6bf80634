"""Macros that headers define which are not read: of libraries that are not on this machine, but part of the language
that their users write in.
"""

from __future__ import annotations

import re

_CASE = "case enum_type: { using {name} = c10::impl::ScalarTypeToCPPTypeT<enum_type>; return __VA_ARGS__(); }"
_CASES = {
    "FLOATING_TYPES": ("Double", "Float"),
    "REDUCED_FLOATING_TYPES": ("Half", "BFloat16"),
    "INTEGRAL_TYPES": ("Byte", "Char", "Int", "Long", "Short"),
    "ALL_TYPES": ("Byte", "Char", "Int", "Long", "Short", "Double", "Float"),
}
"""Sets of element types that ``AT_DISPATCH_<set>`` runs its lambda for."""


def _dispatch() -> dict[str, str]:
    """ATen's dispatch: a switch over the element type, with ``scalar_t`` as its C++ type in each case.

    ``..._AND_HALF``, ``..._AND(t, ...)`` and ``..._AND2(t, u, ...)`` add types to a set.
    """
    out = {
        "AT_DISPATCH_SWITCH(TYPE, NAME, ...)": "[&] { switch (TYPE) { __VA_ARGS__ } }()",
        "AT_DISPATCH_CASE(enum_type, ...)": _CASE.replace("{name}", "scalar_t"),
        "AT_PRIVATE_CASE_TYPE_USING_HINT(enum_type, HINT, ...)": _CASE.replace("{name}", "HINT"),
    }
    for name, types in _CASES.items():
        cases = " ".join(f"AT_DISPATCH_CASE(at::ScalarType::{t}, __VA_ARGS__)" for t in types)
        out[f"AT_DISPATCH_CASE_{name}(...)"] = cases
        half = "AT_DISPATCH_CASE(at::ScalarType::Half, __VA_ARGS__)"
        for suffix, given in (("", ()), ("_AND_HALF", ()), ("_AND", ("T1",)), ("_AND2", ("T1", "T2"))):
            more = " ".join(f"AT_DISPATCH_CASE({t}, __VA_ARGS__)" for t in given)
            params = "".join(f"{t}, " for t in given)
            if given:
                out[f"AT_DISPATCH_CASE_{name}{suffix}({params}...)"] = f"{cases} {more}"
            body = f"{cases} {half if suffix == '_AND_HALF' else more}"
            out[f"AT_DISPATCH_{name}{suffix}({params}TYPE, NAME, ...)"] = f"AT_DISPATCH_SWITCH(TYPE, NAME, {body})"
    return out


MACROS: dict[str, dict[str, str]] = {
    r"(ATen|c10|torch|caffe2)/": {
        "C10_HOST_DEVICE": "__host__ __device__",
        "C10_DEVICE": "__device__",
        "C10_HOST": "__host__",
        "C10_ALWAYS_INLINE": "inline",
        "C10_LAUNCH_BOUNDS_0": "__launch_bounds__(256, 4)",
        "C10_LAUNCH_BOUNDS_1(threads)": "__launch_bounds__(threads)",
        "C10_LAUNCH_BOUNDS_2(threads, blocks)": "__launch_bounds__(threads, blocks)",
        "C10_RESTRICT": "__restrict__",
        "C10_LIKELY(x)": "(x)",
        "C10_UNLIKELY(x)": "(x)",
        **_dispatch(),
        "CUDA_KERNEL_ASSERT(...)": "assert(__VA_ARGS__)",
        "CUDA_KERNEL_ASSERT2(...)": "assert(__VA_ARGS__)",
        "TORCH_DSA_KERNEL_ARGS": "void* const assertions_data, unsigned int assertion_caller_id",
        "TORCH_DSA_KERNEL_ARGS_PASS": "assertions_data, assertion_caller_id",
        "TORCH_DSA_KERNEL_LAUNCH(kernel, blocks, threads, shared_mem, stream, ...)":
            "kernel<<<blocks, threads, shared_mem, stream>>>(__VA_ARGS__, nullptr, 0)",
        "CUDA_KERNEL_LOOP_TYPE(i, n, type)":
            "for (type i = ((int64_t)blockIdx.x) * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)",
        "CUDA_KERNEL_LOOP(i, n)": "CUDA_KERNEL_LOOP_TYPE(i, n, int)",
    },
    r"(THC/)?THC\w*\.(cuh|h)": {
        "TH_CONCAT_2_(x, y)": "x ## y",
        "TH_CONCAT_2(x, y)": "TH_CONCAT_2_(x, y)",
        "TH_CONCAT_3_(x, y, z)": "x ## y ## z",
        "TH_CONCAT_3(x, y, z)": "TH_CONCAT_3_(x, y, z)",
        "TH_CONCAT_4_(x, y, z, w)": "x ## y ## z ## w",
        "TH_CONCAT_4(x, y, z, w)": "TH_CONCAT_4_(x, y, z, w)",
        "TH_API": "extern",
        "THC_API": "extern",
        "THCTensor": "TH_CONCAT_3(TH, CReal, Tensor)",
        "THCTensor_(NAME)": "TH_CONCAT_4(TH, CReal, Tensor_, NAME)",
    },
    r"RAJA/": {
        "RAJA_HOST_DEVICE": "__host__ __device__",
        "RAJA_DEVICE": "__device__",
        "RAJA_INLINE": "inline",
        "RAJA_RESTRICT": "__restrict__",
        "RAJA_TEAM_SHARED": "__shared__",
        "RAJA_UNUSED_VAR(...)": "",
        "RAJA_UNUSED_ARG(x)": "",
        "RAJA_UNROLL": "",
        "RAJA_DIVIDE_CEILING_INT(dividend, divisor)": "(((dividend) + (divisor) - 1) / (divisor))",
        "RAJA_MIN(a, b)": "(((b) < (a)) ? (b) : (a))",
        "RAJA_MAX(a, b)": "(((b) > (a)) ? (b) : (a))",
    },
}  # fmt: skip
"""Macros by the beginning of the headers' paths."""

STAND_INS: dict[str, str] = {
    r"(THC/)?THCGenerateFloatTypes?\.h": """
#ifdef THC_GENERIC_FILE
#define real float
#define accreal float
#define Real Cuda
#define CReal Cuda
#define THC_REAL_IS_FLOAT
#include THC_GENERIC_FILE
#undef real
#undef accreal
#undef Real
#undef CReal
#undef THC_REAL_IS_FLOAT
#undef THC_GENERIC_FILE
#endif
""",
}
"""Headers that do something where they are included, by their paths. Torch's compile a file once for each of its types:
here once, for float."""


def stand_in(header: str) -> str | None:
    """What takes the place of ``header``, which was not found; None for most."""
    return next((text for path, text in STAND_INS.items() if re.fullmatch(path, header)), None)


def macros_of(header: str) -> dict[str, str]:
    """The macros that ``header``, which was not found, is known to define."""
    return next((macros for prefix, macros in MACROS.items() if re.match(prefix, header)), {})
