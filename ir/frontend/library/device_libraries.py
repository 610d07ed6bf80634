"""Device libraries that kernels use, written in the language that the front-end reads.

Cooperative groups, cub and their like are C++ headers over the machine's own operations, so what they mean is said in
C++ here too: ``library/NAME.cuh`` declares one namespace, its functions are inlined like the user's, and every backend
gets plain shuffles, barriers and indices. A library is read when the file names its namespace, whether or not the
header was found.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from pycparser import c_ast

PREFIX = "<library>/"
"""How the file of a library function is called in coordinates: messages name the user's call instead."""

NAMESPACES: dict[str, tuple[str, ...]] = {
    "cooperative_groups": ("cooperative_groups",),
    "cub": ("cub",),
    "hipcub": ("cub",),
    "cuda": ("cuda",),
    "std": ("std",),
    "wmma": ("wmma",),
    "nvcuda": ("wmma",),
    "thrust": ("thrust",),
    "at": ("torch",),
    "c10": ("torch",),
    "torch": ("torch",),
    "DirectX": ("directx",),
    "cutlass": ("cutlass",),
    "glm": ("glm",),
    "RAJA": ("raja",),
}
"""Library files by the namespace that a source must mention to get them."""

_ONE = r"(u?(char|short|int|long|longlong)|float|double)1"
"""Names of vectors of one component."""

WORDS: dict[str, str] = {
    r"cu(Float|Double)?Complex|cufft(Double)?(Complex|Real)|cuC(real|imag|onj|add|sub|mul|div|abs|fma)f?": "cucomplex",
    r"__nv_fp8x\w+|__nv_fp8_(storage|interpretation)_t|__nv_saturation_t|__NV_(E4M3|E5M2|NOSAT|SATFINITE)|"
    r"__nv_cvt_\w+": "fp8",
    r"__(half|nv_bfloat16)2?_raw": "half_raw",
    r"__nv_fp4\w+|__nv_fp8_e8m0|__NV_E2M1|__nv_cvt_\w+_(to_)?(fp4|e8m0)\w*": "fp4",
    r"cuda(Extent|Pos|PitchedPtr|Stream(CreateWithFlags|Destroy))": "runtime",
    r"curand(State|_|DirectionVectors)\w*": "curand",
    r"__nv_atomic_\w+": "nv_atomic",
    rf"(make_)?{_ONE}": "vector1",
    r"__u?int128_t": "int128",
    r"flashinfer::vec_t|namespace\s+flashinfer": "flashinfer",
    r"PtrStep(Sz)?(b|f|i|us)?|PtrSz": "opencv",
    r"THC(Numerics|Device(Sub)?Tensor|CeilDiv|RoundUp|State|udaTensor)|ScalarConvert|TH_INDEX_BASE": "thc",
    r"gpuAtomic(Add|Max|Min)|C10_WARP_SIZE|WARP_SHFL(_XOR|_UP|_DOWN)?": "torch",
}
"""Library files without a namespace, by the names that bring them in."""

DEFINES: dict[str, str] = {
    "torch": r"\bnamespace\s+c10\b(?!\s*;)|\bclass\s+Tensor\b(?!\s*;)",
    "cutlass": r"\bnamespace\s+cutlass\b(?!\s*;)",
    "glm": r"\bnamespace\s+glm\b(?!\s*;)",
    "raja": r"\bnamespace\s+RAJA\b(?!\s*;)",
    "opencv": r"\bstruct\s+PtrStep\b",
    "flashinfer": r"\bstruct\s+vec_t\b",
    "thc": r"\b(struct|class)\s+(THCNumerics|THCDeviceTensor|ScalarConvert)\b",
    "vector1": rf"\w[\s*&]+{_ONE}\s*[=;,)\[{{:]|\b[)}}]\s*{_ONE}\s*;",
}
"""What a text has that brings the library's own headers: then ours stays out of the way."""

NOT_BUILT: dict[str, str] = {
    r"curand(StateMtgp32|_mtgp32|_poisson|_discrete|Discrete)\w*": (
        "of cuRAND, MTGP32 and Poisson and discrete distributions are not built here: they need the host's tables"
    ),
    r"(hip)?cub::(Block|Warp|Device|Grid|Agent)\w+": "this part of cub is not built here: use shared memory",
    r"(nvcuda::)?wmma::(experimental|precision)::\w+": "sub-byte fragments are not built here",
    r"(at|c10)::(Philox\w+|CUDAGenerator\w*)": "random states of PyTorch are not built here: pass seed and offset",
    r"cuda(Graph|Stream|Event|Mem|Array)\w*": "a handle of the host API has no meaning in a kernel here",
}
"""Types of libraries that are known and refused, with what to do instead."""

_OF_CUDA = r"memory_order\w*|atomic\w*"
"""What of ``cuda::std`` our ``cuda`` has, with a scope besides."""

_FOLDER = os.path.dirname(__file__)


@dataclass(frozen=True)
class Library:
    """A parsed library: its declarations, and the names that the parser must know as types and templates.

    ``types`` lists the types of each namespace, by the namespace's own name; ``aliases`` are other names of namespaces.
    """

    items: tuple[Any, ...]
    types: dict[str, frozenset[str]]
    templates: frozenset[str]
    aliases: dict[str, Any]
    enumerators: dict[str, frozenset[str]]


def with_plain_std(text: str) -> str:
    """``text`` with ``std`` for libcu++'s ``cuda::std``, which is that for device code, each name where it was.

    A text that has libcu++'s own headers is left as it is: they define what they name.
    """
    if "cuda" not in text or re.search(r"\bnamespace\s+cuda\s*\{\s*(inline\s+)?namespace\s+std\b", text):
        return text
    text = re.sub(rf"\b(cuda\s*::\s*)(std\s*::\s*)(?={_OF_CUDA})", lambda m: m[1] + " " * len(m[2]), text)
    return re.sub(r"\b(cuda\s*::\s*)(?=std\b)", lambda m: " " * len(m[1]), text)


def libraries_of(text: str) -> list[Library]:
    """The libraries that the preprocessed ``text`` mentions, in the table's order."""
    wanted = dict.fromkeys(
        name for namespace, names in NAMESPACES.items() if re.search(rf"\b{namespace}\s*(::|;)", text) for name in names
    )
    wanted |= dict.fromkeys(name for words, name in WORDS.items() if re.search(rf"\b({words})\b", text))
    return [_library(name) for name in wanted if not re.search(DEFINES.get(name, r"(?!)"), text)]


def why_not_built(name: str) -> str:
    """What to do about the type ``name`` of a library, '' if it is none of those known."""
    return next((hint for words, hint in NOT_BUILT.items() if re.fullmatch(words, name)), "")


def in_library(file: str | None) -> bool:
    """Whether a coordinate's file is one of these libraries."""
    return bool(file) and str(file).startswith(PREFIX)


@cache
def _library(name: str) -> Library:
    from ktc.ir.frontend.preprocess.preprocessor import preprocess
    from ktc.ir.frontend.syntax.cxx_parser import CudaParser

    with open(os.path.join(_FOLDER, f"{name}.cuh"), encoding="utf-8") as f:
        text = f.read()
    text = re.sub(r"//[^\n]*", "", text)
    if "#define" in text:
        text = preprocess(text, f"{PREFIX}{name}.cuh").text
    parser = CudaParser()
    items = parser.parse_unit(text, f"{PREFIX}{name}.cuh")
    types: dict[str, frozenset[str]] = {}
    _collect(items, "", types)
    return Library(
        tuple(items), types, frozenset(parser._templates), dict(parser._namespace_aliases), dict(parser._enumerators)
    )


def _collect(items: Iterable[Any], namespace: str, types: dict[str, frozenset[str]]) -> None:
    """Names of records, enumerations and aliases by the namespace they are in."""
    from ktc.ir.frontend.syntax.cxx_ast import Alias, Bad, Namespace, Record, Template

    for item in items:
        if isinstance(item, Namespace):
            _collect(item.items, item.name, types)
        elif isinstance(item, Template):
            _collect(item.decl, namespace, types)
        elif isinstance(item, Record | Alias | c_ast.Enum | c_ast.Typedef) and item.name:
            types[namespace] = types.get(namespace, frozenset()) | {item.name}
        elif isinstance(item, Bad):
            raise item.error
