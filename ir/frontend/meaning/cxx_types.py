"""C++ types as the front-end sees them: the IR's scalars and vectors plus pointers, references, arrays, records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ktc.ir.types import (
    BF16,
    BOOL,
    E4M3,
    E5M2,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    VOID,
    Opaque,
    Scalar,
    Type,
    Vec,
)  # fmt: skip


@dataclass(frozen=True)
class Pointer(Type):
    elem: Type
    const: bool = False
    restrict: bool = False
    volatile: bool = False

    def __str__(self) -> str:
        return f"{'const ' if self.const else ''}{self.elem}*"


@dataclass(frozen=True)
class Reference(Type):
    elem: Type
    const: bool = False
    rvalue: bool = False
    volatile: bool = False

    def __str__(self) -> str:
        return f"{'const ' if self.const else ''}{self.elem}&"


@dataclass(frozen=True)
class CArray(Type):
    """``elem[n]``; ``n`` is None for ``[]``."""

    elem: Type
    n: int | None

    def __str__(self) -> str:
        return f"{self.elem}[{'' if self.n is None else self.n}]"


def innermost(t: Type) -> Type:
    """What an array, of however many dimensions, is made of; any other type itself."""
    while isinstance(t, CArray):
        t = t.elem
    return t


@dataclass(frozen=True)
class RecordType(Type):
    """An instance of a struct or class: ``decl`` is its definition, ``args`` its template arguments.

    ``owner`` is the class it is a member of: members of two instances of a class template are different types. So are
    classes of one name in two namespaces or functions: ``syntax`` is the definition as it was parsed. ``within`` is
    what the template parameters around a class in a function stand for, as far as the class mentions them.
    """

    name: str
    args: tuple[object, ...] = ()
    decl: Any = field(default=None, compare=False, repr=False)
    owner: RecordType | None = None
    within: tuple[tuple[str, object], ...] = field(default=(), repr=False)
    syntax: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "syntax", self.decl[0].node if self.decl is not None else None)

    def __str__(self) -> str:
        return self.name + (f"<{', '.join(map(_argument, self.args))}>" if self.args else "")


@dataclass(frozen=True)
class FunctionType(Type):
    """The type of a lambda or function passed as a value."""

    name: str


@dataclass(frozen=True)
class ListType(Type):
    """``std::initializer_list``: a parameter of it keeps the values of the braces it is given."""

    elem: Type


@dataclass(frozen=True)
class Auto(Type):
    """``auto``: takes the type of the initialiser."""


NULLPTR_T = Opaque("std::nullptr_t")
DIM3 = Opaque("dim3")
UINT3 = Vec(U32, 3)
"""What a ``dim3`` is where it is kept: three numbers."""


def _vectors() -> dict[str, Type]:
    bases = {
        "char": I8, "uchar": U8, "short": I16, "ushort": U16, "int": I32, "uint": U32, "long": I64, "ulong": U64,
        "longlong": I64, "ulonglong": U64, "float": F32, "double": F64,
    }  # fmt: skip
    out: dict[str, Type] = {f"{name}{n}": Vec(elem, n) for name, elem in bases.items() for n in (2, 3, 4)}
    out |= {
        "half2": Vec(F16, 2),
        "__half2": Vec(F16, 2),
        "__nv_bfloat162": Vec(BF16, 2),
        "nv_bfloat162": Vec(BF16, 2),
        "nv_half2": Vec(F16, 2),
    }
    return out


VECTOR_TYPES = _vectors()

SCALAR_TYPES: dict[str, Type] = {
    "half": F16, "__half": F16, "__nv_bfloat16": BF16, "nv_bfloat16": BF16, "nv_half": F16,
    "__nv_fp8_e4m3": E4M3, "__nv_fp8_e5m2": E5M2, "size_t": U64, "ssize_t": I64,
    "ptrdiff_t": I64, "intptr_t": I64, "uintptr_t": U64,
    "int8_t": I8, "int16_t": I16, "int32_t": I32, "int64_t": I64, "uint8_t": U8, "uint16_t": U16, "uint32_t": U32,
    "uint64_t": U64, "uint": U32, "uchar": U8, "ushort": U16, "ulong": U64, "__int64": I64,
    "__int8_t": I8, "__int16_t": I16, "__int32_t": I32, "__int64_t": I64, "__uint8_t": U8, "__uint16_t": U16,
    "__uint32_t": U32, "__uint64_t": U64, "clock_t": I64,
    "time_t": I64, "cudaTextureObject_t": U64, "cudaSurfaceObject_t": U64, "CUtexObject": U64, "CUsurfObject": U64,
    "hipTextureObject_t": U64, "hipSurfaceObject_t": U64, "cudaGraphConditionalHandle": U64,
    "cudaStream_t": U64, "int32": I32, "uint32": U32, "int64": I64, "uint64": U64,
}  # fmt: skip
"""Types that a program need not declare. ``int32`` and its like are those of a header of its libraries which may not be
there; ``int8`` and ``int16`` may be vectors as well, as OpenCL has them."""

COMPONENTS = "xyzw"
"""The members of a vector."""


def components(name: str, t: Type) -> list[tuple[str, Scalar]] | None:
    """The parameters that a parameter ``name`` of type ``t`` becomes, if that is a vector of up to four numbers: each
    component by itself, ``name_x`` and so on, with its type."""
    t = UINT3 if t == DIM3 else t
    if not isinstance(t, Vec) or not isinstance(t.n, int) or t.n > len(COMPONENTS):
        return None
    return [(f"{name}_{axis}", t.elem) for axis in COMPONENTS[: t.n]]


BITS_MEMBERS: dict[Scalar, tuple[str, Scalar]] = {
    E4M3: ("__x", U8), E5M2: ("__x", U8), F16: ("x", U16), BF16: ("x", U16),
}  # fmt: skip
"""Members that hold the bits of the classes of cuda_fp8.h, cuda_fp16.h and cuda_bf16.h."""

OPAQUE_TYPES = (
    "cudaError_t", "cudaEvent_t", "cudaDeviceProp",
    "FILE",
    "CUstream", "cudaMemcpyKind", "cudaFuncAttribute", "cudaLaunchConfig_t", "cudaLaunchAttribute", "cudaDataType_t",
)  # fmt: skip
"""Types that only host code names."""

TYPE_NAMES: dict[str, Type] = {
    **SCALAR_TYPES, **VECTOR_TYPES, "dim3": DIM3, "uint3": UINT3, **{n: Opaque(n) for n in OPAQUE_TYPES}
}  # fmt: skip
"""Types known without any header, by spelling."""

BASIC: dict[tuple[str, ...], Type] = {
    ("void",): VOID, ("bool",): BOOL, ("_Bool",): BOOL, ("char",): I8, ("char", "signed"): I8,
    ("char", "unsigned"): U8, ("short",): I16, ("int", "short"): I16, ("short", "signed"): I16,
    ("short", "unsigned"): U16, ("int", "short", "unsigned"): U16, ("int", "short", "signed"): I16,
    ("int",): I32, ("signed",): I32, ("int", "signed"): I32,
    ("unsigned",): U32, ("int", "unsigned"): U32, ("long",): I64, ("int", "long"): I64, ("long", "long"): I64,
    ("int", "long", "long"): I64, ("long", "signed"): I64, ("int", "long", "signed"): I64,
    ("long", "long", "signed"): I64, ("int", "long", "long", "signed"): I64, ("long", "unsigned"): U64,
    ("int", "long", "unsigned"): U64, ("long", "long", "unsigned"): U64, ("int", "long", "long", "unsigned"): U64,
    ("float",): F32, ("double",): F64, ("double", "long"): F64,
}  # fmt: skip
"""Built-in types by the sorted words of their spelling (LP64; ``char`` is signed;
``long double`` is double on devices)."""

_SPELLING = {
    "f16": "__half", "bf16": "__nv_bfloat16", "f32": "float", "f64": "double", "i8": "signed char",
    "u8": "unsigned char", "copyevent": "event_t",
    "i16": "short", "u16": "unsigned short", "i32": "int", "u32": "unsigned int", "i64": "long long",
    "u64": "unsigned long long", "bool": "bool", "e4m3": "__nv_fp8_e4m3", "e5m2": "__nv_fp8_e5m2",
}  # fmt: skip


def decayed(t: Type, const: bool = False) -> Type:
    """The type of a parameter that is declared as ``t``: an array is a pointer to its first element.

    ``const`` says whether the array's elements are.
    """
    return Pointer(t.elem, const) if isinstance(t, CArray) else t


def show(t: object) -> str:
    """A C++ spelling of a type, for messages."""
    if isinstance(t, Scalar):
        return _SPELLING[t.name]
    if isinstance(t, Vec):
        for name, v in VECTOR_TYPES.items():
            if v == t:
                return name
        return f"{show(t.elem)} x {t.n}"
    if isinstance(t, Pointer):
        return f"{'const ' if t.const else ''}{show(t.elem)}*"
    if isinstance(t, Reference):
        return f"{'const ' if t.const else ''}{show(t.elem)}&"
    if isinstance(t, CArray):
        return f"{show(t.elem)}[{'' if t.n is None else t.n}]"
    if isinstance(t, ListType):
        return f"std::initializer_list<{show(t.elem)}>"
    if isinstance(t, Opaque):
        return t.spelling
    return str(t)


def _argument(a: object) -> str:
    """A template argument (a value of ``values``) for messages."""
    if hasattr(a, "expr"):
        value = getattr(a.expr, "value", "...")
        return str(value).lower() if isinstance(value, bool) else str(value)
    return show(getattr(a, "type", a))


def size_of(t: Type) -> int | None:
    """Size in bytes, or None where it is not known (records are asked elsewhere)."""
    if isinstance(t, Scalar):
        return t.bytes
    if isinstance(t, Vec) and isinstance(t.n, int):
        return t.elem.bytes * t.n
    if isinstance(t, Pointer):
        return 8
    if isinstance(t, CArray) and t.n is not None:
        inner = size_of(t.elem)
        return None if inner is None else inner * t.n
    return None
