"""OpenCL C: 1.2 everywhere, with sub-groups or NVIDIA's inline PTX where the profile has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from ktc.backends.c_family import fp8
from ktc.backends.c_family.c_dialect import LANES, Dialect
from ktc.backends.c_family.legalise import widen_small_floats
from ktc.backends.c_family.odd_floats import odd_float
from ktc.backends.c_family.piece import HW_UPPER, LIMIT, POSTFIX, Piece
from ktc.backends.c_family.protocol import TemplateParts
from ktc.backends.c_family.return_predicates import Unsuited, has_barrier, predicate_returns, stray_return
from ktc.backends.c_family.wide_shifts import guard_shifts
from ktc.backends.spellings import nearest, spelling
from ktc.backends.system_calls import texture_object
from ktc.ir.analysis.uniform_control import control_of
from ktc.ir.arith.integer_casts import without_implicit_integers
from ktc.ir.fact_origins import is_alone
from ktc.ir.group_copies import by_threads
from ktc.ir.kernel import Kernel, KnobDecl, Param
from ktc.ir.nodes import Binary, Expr, GroupCopy, HwIndex, Return, accessed_type
from ktc.ir.types import (
    BF16,
    BOOL,
    E4M3,
    E5M2,
    EVENT,
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
    Ptr,
    Scalar,
    Type,
    Vec,
)
from ktc.ir.walk import walk

from . import opencl_helpers as text_of
from .opencl_collectives import SPACES, waiting_loop
from .opencl_memory import OpenCLMemory
from .prepare import hoist_shared, without_approximations

KEYWORDS = """kernel global local constant private read_only write_only half uint ushort uchar ulong f16 bf16 event_t
float2 float3 float4 float8 float16 int2 int4 size_t barrier half_to_float float_to_half bf16_to_float float_to_bf16"""

CLOCKS = ("clock", "clock64")


class OpenCLDialect(OpenCLMemory):
    """OpenCL C."""

    language = "opencl"
    types: ClassVar = {
        F16: "f16", BF16: "bf16", E4M3: "e4m3", E5M2: "e5m2", F32: "float", F64: "double", I8: "char", I16: "short",
        I32: "int", I64: "long",
        U8: "uchar", U16: "ushort", U32: "uint", U64: "ulong", BOOL: "bool",
        EVENT: "event_t",
    }  # fmt: skip
    suffixes: ClassVar = {"u32": "u", "i64": "L", "u64": "UL"}
    native_vectors: ClassVar = {
        (t, n): f"{name}{n}"
        for t, name in ((F32, "float"), (F64, "double"), (I32, "int"), (U32, "uint"), (I16, "short"), (U16, "ushort"),
                        (I8, "char"), (U8, "uchar"), (I64, "long"), (U64, "ulong"))
        for n in (2, 4)
    }  # fmt: skip
    helpers: ClassVar = text_of.HELPERS
    null = "0"
    wide_indices = True
    reserved: frozenset[str] = (
        frozenset(KEYWORDS.split()) | frozenset(fp8.helpers("opencl")) | frozenset(text_of.TO_INT)
    )

    # ------------------------------------------------------------------------------------------------ preparation

    def prepare(self, kernel: Kernel) -> Kernel:
        self.knobs = kernel.knobs
        if kernel.name in self.reserved:  # a kernel that is called ``kernel``
            kernel = kernel.with_(name=f"{kernel.name}_")
        if self.profile.shuffle != "ptx" and (waiting := waiting_loop(kernel.body)) is not None:
            self.loc = waiting.loc or kernel.loc
            self.refuse("WAIT", "a loop waits for other work-groups, which OpenCL does not promise to run meanwhile",
                        "give each row to one block, or split the kernel")  # fmt: skip
        if not (self.profile.native_functions or "fast_math" in kernel.flags):
            kernel = kernel.with_(body=without_approximations(kernel.body))
        kernel = self.find_images(kernel)
        if not all(self._copies(s) for s in walk(kernel.body) if isinstance(s, GroupCopy)):
            kernel = by_threads(kernel)
        kernel = widen_small_floats(
            guard_shifts(kernel),
            has_operators=lambda t: False,
            has_function=lambda fn, t: spelling(fn, F32, "opencl") is None and not nearest(fn) and fn != "shfl",
        )
        body, stray = kernel.body, None
        if has_barrier(body) and any(isinstance(s, Return) for s in walk(body)):
            facts = control_of(kernel)
            try:
                body = predicate_returns(body, facts)
                stray = stray_return(body, facts)
            except Unsuited as e:
                stray = e.args[0]
        if stray is not None:
            self.loc = stray.loc
            self.refuse("RETURN", "a return before a barrier that other threads reach", "raise the kernel first")
        return kernel.with_(body=hoist_shared(body))

    def _copies(self, s: GroupCopy) -> bool:
        """Whether the language has a copy of such elements: of its own numbers and vectors, not of stored bits."""
        t = accessed_type(s.dst, len(s.dst_index))
        if isinstance(t, Vec):
            return bool(self.native_vector(t))
        return t not in (F16, BF16, BOOL)

    # ------------------------------------------------------------------------------------------------ conversions

    def c_converts(self, source: Type, to: Type) -> bool:
        if isinstance(source, Scalar) and isinstance(to, Scalar) and source.is_float and (to.is_int or to == BOOL):
            return False  # to integers it does not saturate, and no float may stand before ``?``
        return super().c_converts(source, to)

    def convert(self, p: Piece, to: Type, style: str = "c") -> Piece:
        source = p.ctype
        if not isinstance(source, Scalar) or not isinstance(to, Scalar):
            return super().convert(p, to)
        narrow = fp8.convert(self, p, source, to)
        if narrow is not None:
            return narrow
        if source in (F16, BF16):
            name = "half_to_float" if source == F16 else "bf16_to_float"
            self._use(name, source)
            wide = Piece(f"{name}({p.text})", POSTFIX, F32)
            return wide if to == F32 else self._truncate(wide, to) if to.is_int else self.convert(wide, to)
        if to in (F16, BF16):
            name = "double_to_half" if (source, to) == (F64, F16) else "float_to_half" if to == F16 else "float_to_bf16"
            self._use(name, to)
            exact = source == F32 or name.startswith("double")
            wide = p if exact else odd_float(self, p, source) if to == BF16 else self.convert(p, F32)
            return Piece(f"{name}({wide.text})", POSTFIX, to)
        if source.is_float and to.is_int:
            if to.bits >= 32:
                return self._truncate(p, to)
            return super().convert(self._truncate(p, I32 if to.is_signed else U32), to, "c")
        return super().convert(p, to)

    def _truncate(self, p: Piece, to: Scalar) -> Piece:
        """Toward zero, saturating, NaN to 0."""
        name = f"{self.types[p.ctype]}_to_{self.types[to]}"  # type: ignore[index]
        self.need(name)
        return Piece(f"{name}({p.text})", POSTFIX, to)

    def _use(self, helper: str, t: Scalar) -> None:
        self.note_scalar(t)
        self.need(helper)

    def bitcast(self, p: Piece, to: Type) -> Piece:
        source = p.ctype
        if not isinstance(source, Scalar) or not isinstance(to, Scalar):
            if not all(isinstance(t, Scalar) or (isinstance(t, Vec) and self.native_vector(t)) for t in (source, to)):
                self.refuse("TYPE", "a reinterpretation of this vector", "use shifts and masks")
            name = self.types[to] if isinstance(to, Scalar) else self.vector_name(to)  # type: ignore[arg-type]
            return Piece(f"as_{name}({p.text})", POSTFIX, to)
        if source == to or {source, to} <= {U16, F16, BF16}:
            return Piece(p.text, p.prec, to, p.upper)
        if (same := fp8.bits(p, source, to)) is not None:
            self.note_scalar(to)
            return same
        if not source.is_float and not to.is_float:
            return super().convert(p, to)
        if source in (F16, BF16) or to in (F16, BF16):
            return Dialect.convert(self, Piece(p.text, p.prec, U16), I16 if to == I16 else U16)
        return Piece(f"as_{self.types[to]}({p.text})", POSTFIX, to)

    # ------------------------------------------------------------------------------------------------- expressions

    def hw_index(self, level: str, axis: str) -> Piece:
        name = {"thread": "local_id", "block": "group_id", "block_dim": "local_size", "grid_dim": "num_groups"}[level]
        return Piece(f"get_{name}({LANES.index(axis)})", POSTFIX, U64, HW_UPPER[level])

    def index_idiom(self, e: Binary) -> Piece | None:
        """``blockIdx.x * blockDim.x + threadIdx.x`` is ``get_global_id(0)``."""
        if e.op == "+":
            for a, b in ((e.a, e.b), (e.b, e.a)):
                a, b = without_implicit_integers(a), without_implicit_integers(b)
                if not isinstance(b, HwIndex) or b.level != "thread" or not isinstance(a, Binary) or a.op != "*":
                    continue
                if _hardware_factors(a) == {HwIndex("block", b.axis), HwIndex("block_dim", b.axis)}:
                    return Piece(f"get_global_id({LANES.index(b.axis)})", POSTFIX, U64, LIMIT)
        if e.op == "*":
            for axis in "xyz":
                if _hardware_factors(e) == {HwIndex("grid_dim", axis), HwIndex("block_dim", axis)}:
                    return Piece(f"get_global_size({LANES.index(axis)})", POSTFIX, U64, LIMIT)
        return None

    def call(self, fn: str, args: Sequence[Piece], ty: Type) -> Piece:
        if texture_object(fn) is not None:
            return self.image_call(fn, args, ty)
        if args and args[0].ctype in (I64, U64) and fn in text_of.WIDE_BITS:
            self.generated[f"{fn}l_"] = text_of.WIDE_BITS[fn]
            return Piece(f"{fn}l_({args[0].text})", POSTFIX, I32 if fn == "ffs" else U64)
        if args and args[0].ctype in (I64, U64) and fn == "byte_perm":
            self.refuse("FUNCTION", f"no 64-bit '{fn}'", "split the value into two words")
        if (op := nearest(fn)) and isinstance(ty, Scalar):
            name, t = f"{fn}_{ty}", self.type_name(ty)
            self.generated[name] = text_of.uncontracted(name, t, op)
            return Piece(f"{name}({', '.join(a.text for a in args)})", POSTFIX, ty)
        found = super().call(fn, args, ty)
        kind = args[0].ctype if args else ty
        if fn in ("popc", "clz", "abs", "mulhi") and isinstance(kind, Scalar) and kind.is_int:
            signed = fn != "abs" and kind.is_signed
            return Piece(found.text, found.prec, kind if signed else {32: U32, 64: U64}[max(32, kind.bits)])
        if fn in ("isnan", "isinf", "isfinite", "signbit"):
            return Piece(found.text, found.prec, I32)
        return found

    def system_call(self, fn: str, cell: str, args: list[str], ty: Type) -> Piece:
        if fn in CLOCKS and self.profile.shuffle in text_of.CLOCK:
            self.generated["clock_now"] = text_of.CLOCK[self.profile.shuffle]
            return self.convert(Piece("clock_now()", POSTFIX, U64), ty, "c")
        if fn == "printf":  # long has 64 bits, and there is no ll
            args = [re.sub(r"%([-+ #0-9.]*)(?:ll|z|j|t)([diuoxX])", r"%\1l\2", args[0]), *args[1:]]
            if any(a.startswith("&") for a in args):  # only literals, OpenCL C 6.15.14
                self.refuse("SYSTEM", "printf of text in an array", "print it character by character: %c")
        return super().system_call(fn, cell, args, ty)

    def function_hint(self, fn: str) -> str:
        return "OpenCL rounds to nearest: use the plain operator" if fn[-3:] in ("_rz", "_ru", "_rd") else ""

    def helper_texts(self) -> list[tuple[str, str]]:
        self.needed |= set(self.generated)
        return [*self.helpers.items(), *self.generated.items()]

    # ------------------------------------------------------------------------------------------------ whole kernel

    def parameter(self, p: Param, name: str) -> str:
        t = p.sym.type
        if p.sym in self.images:
            return self.images[p.sym].declaration(name)
        if not isinstance(t, Ptr):  # no bool parameters (OpenCL C 6.9): one byte, as in CUDA
            return f"{'uchar' if t == BOOL else self.type_name(t)} {name}"
        const = "const " if (t.const or p.readonly) and t.space != "const" else ""
        volatile = "volatile " if t.volatile else ""
        alone = is_alone(p) and p.scratch is None  # work-groups write to each other there
        restrict = " restrict" if alone else ""
        elem = "uchar" if t.elem == BOOL else self.type_name(t.elem)
        return f"{SPACES[t.space]}{const}{volatile}{elem}*{restrict} {name}"

    def extra_parameters(self) -> list[str]:
        return self.dynamic

    def signature(self, kernel: Kernel) -> tuple[str, str]:
        size = ""
        if self.threads_per_block(kernel) is not None and kernel.launch is not None:
            extents = ", ".join(self.exprs.text(e) for e in kernel.launch.block)
            size = f"__attribute__((reqd_work_group_size({extents})))\n"
        if self.profile.shuffle == "subgroup" and self.generated:
            size += "__attribute__((intel_reqd_sub_group_size(32)))\n"
        return f"{size}__kernel void {kernel.name}(", ")"

    def bounds(self, kernel: Kernel) -> list[Expr]:
        return (
            [*kernel.launch.block] if kernel.launch is not None and self.threads_per_block(kernel) is not None else []
        )

    def knob_constant(self, name: str, value: int) -> str:
        return f"#define {name} {value}"

    def template(self, kernel: Kernel, knobs: Sequence[KnobDecl]) -> TemplateParts:
        """Knobs as macros that the build options may override (``-DV=4``)."""
        lines: list[str] = []
        for k in knobs:
            lines += [f"#ifndef {k.name}", f"#define {k.name} {kernel.knob_values[k.name]}", "#endif"]
        return TemplateParts(top=tuple(lines))


def _hardware_factors(e: Binary) -> set[HwIndex]:
    """The hardware indices that ``e`` is a product of."""
    return {x for x in map(without_implicit_integers, (e.a, e.b)) if isinstance(x, HwIndex)}
