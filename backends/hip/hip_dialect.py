"""HIP C++: ROCm 5.2 and later, and NVIDIA GPUs through ``include/hip_on_nvidia.h``.

A warp stays a *logical* warp of 32 lanes on 64-lane hardware: every shuffle names its width, ballots take the half that
the lane belongs to.
"""

from __future__ import annotations

import dataclasses
import re
from importlib.resources import files
from typing import ClassVar

from ktc.backends.base import Emitted
from ktc.backends.c_family import fp8, odd_floats
from ktc.backends.c_family.cxx import CxxDialect
from ktc.backends.c_family.cxx_tables import POLLED
from ktc.backends.c_family.legalise import widen_small_floats
from ktc.backends.c_family.odd_floats import odd_float
from ktc.backends.c_family.piece import POSTFIX, UNARY, Piece
from ktc.backends.c_family.wide_shifts import guard_shifts
from ktc.backends.spellings import nearest, spelling
from ktc.backends.system_calls import MIPMAP_LEVELS, texture_object
from ktc.ir.fold import cdiv, i32, mul, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import MATCHES, VOTES, WARP_REDUCTIONS, Expr, Sym
from ktc.ir.types import BF16, BOOL, E4M3, E5M2, F16, F32, F64, I8, I16, I32, I64, U16, U32, U64, Scalar, Type

from .hip_helpers import HALVES, HELPERS, SATURATED, saturated

WORDS = (F32, F64, I32, U32, I64, U64)
"""What is loaded past the caches in one access: a plain load of what is uniform may take the scalar cache, which no
fence empties."""

COORDINATE = re.compile(r"(threadIdx|blockIdx|blockDim|gridDim)\.[xyz]")


class HipDialect(CxxDialect):
    """HIP C++ for hipcc, hiprtc and clang."""

    language = "hip"
    types: ClassVar = CxxDialect.types | {BF16: "bf16", E4M3: "e4m3", E5M2: "e5m2"}
    headers: ClassVar = {"f16": "hip/hip_fp16.h"}
    aligned = "__attribute__((aligned({n})))"
    helpers: ClassVar = HELPERS
    reserved = (
        CxxDialect.reserved
        | {"bf16", "ballot32", "sync_warp", "load_cg", "load_vec_cg", "load_relaxed", "bf16_to_float", "float_to_bf16"}
        | {*fp8.helpers("hip"), *odd_floats.helpers("hip"), "double_to_half"}
        | {saturated(source, to) for source in HALVES for to in SATURATED}
    )

    def prepare(self, kernel: Kernel) -> Kernel:
        return widen_small_floats(
            guard_shifts(kernel),
            has_operators=lambda t: t == F16,
            has_function=lambda fn, t: t == F16 and fn != "shfl" and spelling(fn, t, "hip") is not None,
        )

    def includes(self) -> list[str]:
        return ["#include <hip/hip_runtime.h>", *super().includes()]

    def note_scalar(self, t: Scalar) -> None:
        if t in fp8.FP8:
            return self.need(t.name)
        super().note_scalar(t)

    def narrow_float(self, p: Piece, source: Scalar, to: Scalar) -> Piece | None:
        narrow = fp8.convert(self, p, source, to)
        if narrow is not None:
            return narrow
        if source in HALVES and to in SATURATED:
            self.note_scalar(source)
            helper = saturated(source, to)
            self.need(helper)
            return Piece(f"{helper}({p.text})", POSTFIX, to)
        if source == BF16:
            self.note_scalar(source)
            wide = Piece(f"bf16_to_float({p.text})", POSTFIX, F32)
            return wide if to == F32 else self.convert(wide, to)
        if to == BF16:
            self.note_scalar(to)
            wide = p if source == F32 else odd_float(self, p, source)
            return Piece(f"float_to_bf16({wide.text})", POSTFIX, to)
        if source == F64 and to == F16:
            self.note_scalar(to)
            self.need("odd_float")
            self.need("double_to_half")
            return Piece(f"double_to_half({p.text})", POSTFIX, to)
        if source == F16 and to == F64:
            return self.convert(self.convert(p, F32), to)
        if to == F16 and source in (I16, U16):
            return self.convert(self.convert(p, I32), to)
        return super().narrow_float(p, source, to)

    def bitcast(self, p: Piece, to: Type) -> Piece:
        if isinstance(to, Scalar) and (same := fp8.bits(p, p.ctype, to)) is not None:
            self.note_scalar(to)
            return same
        if BF16 in (p.ctype, to) and p.ctype != to:  # a class in ROCm 5
            self.need("bit_cast")
            return Piece(f"bit_cast<{self.type_name(to)}>({p.text})", POSTFIX, to)
        return super().bitcast(p, to)

    def load_hint(self, cache: str) -> str:
        return "__builtin_nontemporal_load" if cache == "cs" else ""

    def hint_suffix(self, cache: str) -> str:
        if cache != "cs":
            return ""
        self.need("bits_of")
        return "_cs"

    def load(self, buffer: Sym, place: str, t: Type, cache: str) -> str:
        builtin_type = isinstance(t, Scalar) and t not in (F16, BF16, BOOL)
        if cache == "cg" and t in WORDS and getattr(buffer.type, "space", "local") == "global":
            self.need("load_cg")
            return f"load_cg(&{place})"
        return super().load(buffer, place, t, cache if builtin_type else "")

    def store(self, buffer: Sym, place: str, value: str, t: Type, cache: str) -> str:
        builtin_type = isinstance(t, Scalar) and t not in (F16, BF16, BOOL)
        if cache == "cs" and builtin_type and getattr(buffer.type, "space", "local") in ("global", "generic"):
            return f"__builtin_nontemporal_store({value}, &{place});"
        return f"{place} = {value};"

    def residency(self, blocks: Expr, threads: Expr) -> Expr:
        """HIP counts wavefronts (of 64) on each of the four SIMD units of a compute unit."""
        return simplify(cdiv(mul(blocks, threads), i32(4 * 64)))

    def load_vector(self, buffer: Sym, place: str, t, width: str, cache: str) -> str:
        if cache == "cg" and not self.native_vector(t) and getattr(buffer.type, "space", "local") == "global":
            self.vector_name(t)
            for helper in ("bits_of", "load_cg", "load_vec_cg"):
                self.need(helper)
            return f"load_vec_cg<{width}>(&{place})"
        return super().load_vector(buffer, place, t, width, "" if self.native_vector(t) else cache)

    def store_vector(self, buffer: Sym, place: str, value: Piece, t, width: str, cache: str) -> str:
        return super().store_vector(buffer, place, value, t, width, "" if self.native_vector(t) else cache)

    def warp(self, kind: str, value: Piece, arg: Piece | None, width: Piece, mask: Piece, ty: Type) -> Piece:
        lanes = mask.text if mask.literal is None or mask.literal.value not in (0xFFFFFFFF, -1) else "0xffffffff"
        if kind in MATCHES or kind in WARP_REDUCTIONS:
            if kind == "match_all":
                self.need("match_any32")
            self.need(f"{kind}32")
            return Piece(f"{kind}32({value.text}, {lanes})", POSTFIX, ty)
        if kind in VOTES:
            self.need("ballot32")
            if kind == "active":
                return Piece("ballot32(1, 0xffffffff)", POSTFIX, U32)
            votes = f"ballot32({value.text}, {lanes})"
            if kind == "ballot":
                return Piece(votes, POSTFIX, U32)
            return Piece(f"{votes} {'!= 0' if kind == 'any' else f'== {lanes}'}", 9, BOOL, op="==")
        assert arg is not None
        name = "__" + kind
        if isinstance(value.ctype, Scalar) and value.ctype.bits < 32:
            wide = Piece(f"{name}({self.convert(value, I32).text}, {arg.text}, {width.text})", POSTFIX, I32)
            return self.convert(wide, ty)
        return Piece(f"{name}({value.text}, {arg.text}, {width.text})", POSTFIX, ty)

    def call(self, fn, args, ty):
        if nearest(fn) and ty in (F32, F64):
            name = f"{fn}_{ty}"
            self.need(name)
            return Piece(f"{name}({', '.join(a.text for a in args)})", POSTFIX, ty)
        if fn in ("min", "max"):  # coordinates are classes there, which convert to several types
            args = [Piece(f"(unsigned){a.text}", UNARY, U32) if COORDINATE.fullmatch(a.text) else a for a in args]
        if texture_object(fn) and args[0].ctype == I8:  # a value to write
            args = [Piece(f"(char){args[0].at(UNARY)}", UNARY, I8), *args[1:]]
        return super().call(fn, args, ty)

    def system_call(self, fn: str, cell: str, args: list[str], ty: Type) -> Piece:
        if fn in MIPMAP_LEVELS and not self.profile.image_levels:
            self.refuse("IMAGE", f"'{fn}' fetches at a level of detail, which {self.profile.arch} cannot",
                        "fetch the first level, or take a GPU with graphics")  # fmt: skip
        # texels are of char, which is not signed char
        return super().system_call(fn, cell.replace("{T}", "char") if ty == I8 else cell, args, ty)

    def function_hint(self, fn: str) -> str:
        return "HIP rounds to nearest: use the plain operator" if fn[-3:] in ("_rz", "_ru", "_rd") else ""

    def foreign_call(self, fn, args, ty):
        self.refuse("FUNCTION", f"call of '{fn}', which is not known on this target", "inline it, or use a built-in")

    def barrier(self, scope: str, mask: Piece | None) -> str:
        if scope == "warp":
            self.need("sync_warp")
            return "sync_warp();"
        return super().barrier(scope, mask)

    def atomic(self, s, place, value, compare, t):
        if t in (F16, BF16):
            self.refuse("ATOMIC", f"no atomic {s.op} on {t.name}", "accumulate in f32")
        if s.scope == "system" and s.op in ("inc", "dec"):
            self.need(f"atomic_{s.op}_system")
            return f"atomic_{s.op}_system(&{place}, {value})"
        if s.op == "load" and t in POLLED and s.scope == "device" and getattr(s.buffer.type, "space", "") == "global":
            self.need(f"load_relaxed {t}")
            return f"load_relaxed(&{place})"
        if s.scope == "block":  # HIP's name only the system
            s = dataclasses.replace(s, scope="device")
        return super().atomic(s, place, value, compare, t)

    def signature(self, kernel: Kernel) -> tuple[str, str]:
        head, tail = super().signature(kernel)
        if "__launch_bounds__" not in head and (threads := self.threads_per_block(kernel)) is not None:
            # Without it the compiler leaves registers for 1024 threads.
            head = head.replace("void ", f"void __launch_bounds__({threads}) ", 1)
        return head, tail

    def bounds(self, kernel: Kernel) -> list[Expr]:
        explicit = super().bounds(kernel)
        return explicit or (
            [*kernel.launch.block] if self.threads_per_block(kernel) is not None and kernel.launch else []
        )


GROUPS = "#include <hip/hip_cooperative_groups.h>"
"""The header that has a CUDA counterpart of its own."""


def on_nvidia(emitted: Emitted) -> Emitted:
    """The same HIP text as CUDA source for NVRTC: HIP's headers replaced by one that maps them to CUDA's."""
    header = (files("ktc.backends.hip") / "include" / "hip_on_nvidia.h").read_text(encoding="utf-8")
    groups = "#include <cooperative_groups.h>"
    given = [groups if line == GROUPS else line for line in emitted.text.splitlines()]
    lines = [line for line in given if not line.startswith("#include <hip/")]
    text = "\n".join([lines[0], header, *lines[1:]]) + "\n"
    return dataclasses.replace(emitted, text=text, target="cuda")
