"""The half of CUDA and HIP that is the same: C++ spellings of types, vectors, conversions, atomics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ktc.ir.fact_origins import is_alone
from ktc.ir.fold import add
from ktc.ir.kernel import Kernel, KnobDecl, Param, producer_threads
from ktc.ir.nodes import Const, Expr, i32
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
    Opaque,
    Ptr,
    Scalar,
    Type,
    scalar_of,
)

from .cxx_atomics import CxxAtomics
from .cxx_tables import BITCASTS, CXX_NAMES, FROM_FLOAT, HALF_FROM_INT, HALF_TO_INT, TO_FLOAT
from .line_layout import wrap
from .piece import HW_UPPER, POSTFIX, Piece
from .protocol import TemplateParts, const_int


class CxxDialect(CxxAtomics):
    """CUDA C++ and HIP C++."""

    types: ClassVar = {
        F16: "__half", BF16: "__nv_bfloat16", F32: "float", F64: "double", I8: "signed char", I16: "short", I32: "int",
        I64: "long long", U8: "unsigned char", U16: "unsigned short", U32: "unsigned", U64: "unsigned long long",
        BOOL: "bool", E4M3: "__nv_fp8_e4m3", E5M2: "__nv_fp8_e5m2",
    }  # fmt: skip
    suffixes: ClassVar = {"u32": "u", "i64": "LL", "u64": "ULL"}
    native_vectors: ClassVar = {
        (t, n): f"{name}{n}"
        for t, name in (
            (F32, "float"), (I32, "int"), (U32, "uint"), (I16, "short"), (U16, "ushort"), (I8, "char"), (U8, "uchar"),
            (F64, "double"), (I64, "longlong"), (U64, "ulonglong"),
        )
        for n in (2, 3, 4)
    }  # fmt: skip
    constant_keyword = "constexpr"
    headers: ClassVar[dict[str, str]] = {}
    reserved = frozenset(CXX_NAMES.split())

    def note_scalar(self, t: Scalar) -> None:
        if t in (F16, BF16, E4M3, E5M2):
            self.need(f"include {t.name}")

    def opaque(self, t: Opaque) -> str:
        return t.spelling

    # ------------------------------------------------------------------------------------------------- conversions

    def convert(self, p: Piece, to: Type, style: str = "c") -> Piece:
        source = p.ctype
        if isinstance(source, Scalar) and isinstance(to, Scalar):
            found = self.narrow_float(p, source, to)
            if found is not None:
                return found
        return super().convert(p, to, style)

    def narrow_float(self, p: Piece, source: Scalar, to: Scalar) -> Piece | None:
        """Conversions from and to 16- and 8-bit floats; None where a C cast does."""
        for t in (source, to):
            self.note_scalar(t)
        if source in TO_FLOAT:
            if to == F32:
                return Piece(f"{TO_FLOAT[source]}({p.text})", POSTFIX, F32)
            if to in HALF_TO_INT:
                stem = "__half2" if source == F16 else "__bfloat162"
                return Piece(f"{stem}{HALF_TO_INT[to]}_rz({p.text})", POSTFIX, to)
            return self.convert(self.convert(p, F32), to)
        if to in FROM_FLOAT:
            if source == F32:
                return Piece(f"{FROM_FLOAT[to]}({p.text})", POSTFIX, to)
            if source == F64:
                name = "__double2half" if to == F16 else "__double2bfloat16"
                return Piece(f"{name}({p.text})", POSTFIX, to)
            if source in HALF_FROM_INT:
                stem = "half" if to == F16 else "bfloat16"
                return Piece(f"__{HALF_FROM_INT[source]}{stem}_rn({p.text})", POSTFIX, to)
            return self.convert(self.convert(p, F32 if source.is_float else I32), to)
        if source in (E4M3, E5M2) or to in (E4M3, E5M2):
            return Piece(f"{self.type_name(to)}({p.text})", POSTFIX, to)
        return None

    def bitcast(self, p: Piece, to: Type) -> Piece:
        source = p.ctype
        if source == to:
            return p
        if not isinstance(source, Scalar) or not isinstance(to, Scalar):
            self.need("bit_cast")
            return Piece(f"bit_cast<{self.type_name(to)}>({p.text})", POSTFIX, to)
        if source.bits == to.bits == 8 and (E4M3 in (source, to) or E5M2 in (source, to)):
            self.need("bit_cast")
            return Piece(f"bit_cast<{self.type_name(to)}>({p.text})", POSTFIX, to)
        if not source.is_float and not to.is_float:
            return super().convert(p, to)
        for t in (source, to):
            self.note_scalar(t)
        name = BITCASTS.get((source, to))
        if name is None:  # through the signed integer of the same size
            via = {64: I64, 32: I32, 16: U16}.get(source.bits)
            if via is None or via in (source, to):
                self.refuse("TYPE", f"no reinterpretation of {source.name} as {to.name}")
            return self.bitcast(self.bitcast(p, via), to)
        return Piece(f"{name}({p.text})", POSTFIX, to)

    # --------------------------------------------------------------------------------------------------- statements

    def hw_index(self, level: str, axis: str) -> Piece:
        name = {"thread": "threadIdx", "block": "blockIdx", "block_dim": "blockDim", "grid_dim": "gridDim"}[level]
        return Piece(f"{name}.{axis}", POSTFIX, U32, HW_UPPER[level])

    def foreign_call(self, fn: str, args: Sequence[Piece], ty: Type) -> Piece:
        return Piece(f"{fn}({', '.join(a.text for a in args)})", POSTFIX, ty)

    def barrier(self, scope: str, mask: Piece | None) -> str:
        if scope == "warp":
            return f"__syncwarp({mask.text if mask else ''});"
        if scope == "grid":
            self.need("grid_sync")
            return "grid_sync();"
        return "__syncthreads();"

    def fence(self, scope: str) -> str:
        return {"block": "__threadfence_block();", "device": "__threadfence();", "system": "__threadfence_system();"}[
            scope
        ]

    def async_copy(self, dst: str, src: str, elem: Scalar, width: int | Expr, valid: str | None = None) -> str:
        if const_int(width) == 1:
            return f"{dst} = {src};"
        for helper in ("vec", "load_vec", "store_vec"):
            self.need(helper)
        return f"store_vec(&{dst}, load_vec<{self.extent(width)}>(&{src}));"

    def parameter(self, p: Param, name: str) -> str:
        t = p.sym.type
        if not isinstance(t, Ptr):
            if p.sym in self.texture_objects:
                return f"{self.language}{self.texture_objects[p.sym]}Object_t {name}"
            return f"{self.type_name(t)} {name}"
        const = "const " if t.const or p.readonly else ""
        volatile = "volatile " if t.volatile else ""
        alone = is_alone(p) and p.scratch is None  # blocks write to each other there
        restrict = " __restrict__" if alone else ""
        table = " const*" if p.rows else ""
        return f"{const}{volatile}{self.type_name(t.elem)}*{restrict}{table} {name}"

    def is_argument(self, p: Param) -> bool:
        return not p.host and not p.symbol

    def file_scope(self, kernel: Kernel) -> list[str]:
        lines = []
        for p in (p for p in kernel.params if p.symbol):
            assert isinstance(p.sym.type, Ptr)
            elem = p.sym.type.elem
            values = ", ".join(self.exprs.assigned(Const(v, scalar_of(elem)), elem) for v in p.init)
            align = f"{self.aligned.format(n=p.align)} " if p.align else ""
            init = f" = {{{values}}}" if p.init else ""
            word = {"managed": "__device__ __managed__"}.get(p.symbol, f"__{p.symbol}__")
            lines += wrap(f"{word} {align}{self.type_name(elem)} {self.exprs.names.of(p.sym)}[{p.extent}]{init};", "")
        return lines

    def residency(self, blocks: Expr, threads: Expr) -> Expr:
        """The second argument of ``__launch_bounds__`` for ``blocks`` resident blocks of ``threads``."""
        return blocks

    def signature(self, kernel: Kernel) -> tuple[str, str]:
        bounds = ""
        if kernel.launch is not None and kernel.launch.max_threads is not None:
            beside = producer_threads(kernel)
            limits = [add(kernel.launch.max_threads, i32(beside)) if beside else kernel.launch.max_threads]
            if beside and kernel.launch.min_blocks is None:
                limits.append(i32(1))  # ptxas may settle for far too few registers without a number of blocks
            if kernel.launch.min_blocks is not None:
                limits.append(self.residency(kernel.launch.min_blocks, kernel.launch.max_threads))
            bounds = f"__launch_bounds__({', '.join(self.exprs.text(e) for e in limits)}) "
        cluster = kernel.launch.cluster if kernel.launch is not None else None
        together = f"__cluster_dims__({', '.join(self.exprs.text(e) for e in cluster)}) " if cluster else ""
        return f"__global__ void {together}{bounds}{kernel.name}(", ")"

    def includes(self) -> list[str]:
        names = (name for key, name in self.headers.items() if f"include {key}" in self.needed)
        return [f"#include <{name}>" for name in dict.fromkeys(names)]

    def knob_constant(self, name: str, value: int) -> str:
        return f"constexpr int {name} = {value};"

    def template(self, kernel: Kernel, knobs: Sequence[KnobDecl]) -> TemplateParts:
        """Knobs as template parameters, and one explicit instantiation with their values."""
        if not knobs:
            return TemplateParts()
        names = ", ".join(f"int {k.name}" for k in knobs)
        values = ", ".join(str(kernel.knob_values[k.name]) for k in knobs)
        kept = [self.parameter(p, "").rstrip() for p in kernel.params if self.is_argument(p)]
        types = ", ".join([*kept, *("const tensor_map" for _ in self.tensor_maps)])
        return TemplateParts(
            head=(f"template <{names}>",), tail=("", f"template __global__ void {kernel.name}<{values}>({types});")
        )
