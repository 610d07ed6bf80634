"""OpenCL's types and memory: vectors native or as structs of lanes, address spaces in every pointer, local arrays."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ktc.backends.c_family import fp8
from ktc.backends.c_family.c_dialect import LANES
from ktc.backends.c_family.piece import POSTFIX, Piece
from ktc.backends.c_family.protocol import const_int, element_of
from ktc.ir.fold import KnobValues, evaluate
from ktc.ir.kernel import KnobDecl
from ktc.ir.nodes import Alloc, Expr, Sym
from ktc.ir.types import BF16, BOOL, F16, Ptr, Scalar, Type, Vec, scalar_of

from . import opencl_helpers as text_of
from .images import ImageCalls
from .opencl_collectives import SPACES

BITS = (F16, BF16, *fp8.FP8)
"""Floats that are kept as their bits."""

ACCESS_BYTES = 16
"""Alignment of wider vectors: they move by several accesses."""


class OpenCLMemory(ImageCalls):
    """Where values live and how they move."""

    knobs: tuple[KnobDecl, ...] = ()

    def __init__(self, profile) -> None:
        super().__init__(profile)
        self.vectors: dict[str, Vec] = {}
        self.late: dict[str, str] = {}
        """Functions on the vector types that are declared behind the other helpers."""
        self.dynamic: list[str] = []

    # ------------------------------------------------------------------------------------------------------- types

    def type_name(self, t: Type) -> str:
        """A pointer variable without its space would point to the work-item's own memory."""
        return SPACES[t.space] + super().type_name(t) if isinstance(t, Ptr) else super().type_name(t)

    def note_scalar(self, t: Scalar) -> None:
        if t in BITS:
            self.need(t.name)

    def vector_name(self, t: Vec) -> str:
        native = self.native_vector(t)
        if native:
            return native
        n = self.extent(t.n)
        name = f"{self.type_name(t.elem)}x{re.sub(r'[^A-Za-z0-9]+', '_', n)}"
        self.vectors[name] = t
        return name

    def extent(self, n: int | Expr) -> str:
        return str(n) if isinstance(n, int) else self.exprs.text(n)

    def late_declarations(self) -> list[str]:
        lines = []
        for name, t in self.vectors.items():
            elem, n = self.type_name(t.elem), self.extent(t.n)
            size = n if re.fullmatch(r"\w+", n) else f"({n})"
            align = f"sizeof({elem}) * {size}"
            if self._most_lanes(t) * scalar_of(t).bytes > ACCESS_BYTES:
                align = f"{align} > {ACCESS_BYTES} ? {ACCESS_BYTES} : {align}"
            attribute = f" __attribute__((aligned({align})))" if n != "3" else ""  # as CUDA's float3
            lines.append(f"typedef struct {{ {elem} lane[{n}]; }}{attribute} {name};")
        for text in self.late.values():
            lines += ["", *text.splitlines()]
        return lines

    def _most_lanes(self, t: Vec) -> int:
        """The most elements that ``t`` can have: a number, or the end of its knob's domain."""
        if isinstance(t.n, int):
            return t.n
        most = ((k.name, max(k.domain, default=k.default) if k.value is None else k.value) for k in self.knobs)
        return int(evaluate(t.n, KnobValues(most)) or 0)

    # ------------------------------------------------------------------------------------------------------ memory

    def lane(self, vector: str, t: Vec, lane: Expr, lane_text: str) -> str:
        if self.native_vector(t):
            return f"{vector}.{LANES[const_int(lane) or 0]}"
        return f"{vector}.lane[{lane_text}]"

    def make_vector(self, t: Vec, args: Sequence[str]) -> str:
        name = self.vector_name(t)
        return f"({name})({', '.join(args)})" if self.native_vector(t) else f"({name}){{{{{', '.join(args)}}}}}"

    def load_vector(self, buffer: Sym, place: str, t: Vec, width: str, cache: str) -> str:
        return f"*(const {self.space_of(buffer)}{self.vector_name(t)}*)&{place}"

    def store_vector(self, buffer: Sym, place: str, value: Piece, t: Vec, width: str, cache: str) -> str:
        return f"*({self.space_of(buffer)}{self.vector_name(t)}*)&{place} = {value.text};"

    def volatile_place(self, buffer: Sym, place: str, t: Type) -> str:
        return f"*(volatile {self.space_of(buffer)}{self.type_name(t)}*)&{place}"

    def pointer_as(self, buffer: Sym, place: str, t: Type, qualifiers: str) -> str:
        return f"({qualifiers}{self.space_of(buffer)}{self.type_name(t)}*)&{place}"

    def reshape_bits(self, p: Piece, to: Type) -> Piece:
        native = [isinstance(t, Scalar) or self.native_vector(t) for t in (p.ctype, to)]  # type: ignore[arg-type]
        kinds = {scalar_of(t) for t in (p.ctype, to)}  # type: ignore[arg-type]
        if BOOL in kinds:
            self.refuse("TYPE", f"no reinterpretation of {p.ctype} as {to}")
        if all(native) and not kinds & set(BITS):
            return Piece(f"as_{self.type_name(to)}({p.text})", POSTFIX, to)
        names = [self.type_name(t) for t in (p.ctype, to)]  # type: ignore[arg-type]
        helper = f"{names[1]}_from_{names[0]}"
        self.late[helper] = text_of.same_bits(helper, *names)
        return Piece(f"{helper}({p.text})", POSTFIX, to)

    # -------------------------------------------------------------------------------------------------- statements

    def is_byte(self, buffer: Sym) -> bool:
        return isinstance(buffer.type, Ptr) and buffer.type.elem == BOOL  # kernels take no pointer to bool

    def has_compound(self, t: Scalar) -> bool:
        return t not in BITS

    def alignas(self, n: int) -> str:
        return f"__attribute__((aligned({n})))"

    def async_copy(self, dst: str, src: str, elem: Scalar, width: int | Expr, valid: str | None = None) -> str:
        if const_int(width) == 1:
            return f"{dst} = {src};"
        name = self.vector_name(Vec(elem, width))
        return f"*(__local {name}*)&{dst} = *(const __global {name}*)&{src};"

    def group_copy(self, dst: str, src: str, numbers: Sequence[str], after: str | None) -> str:
        name = "async_work_group_strided_copy" if len(numbers) > 1 else "async_work_group_copy"
        return f"{name}(&{dst}, &{src}, {', '.join(numbers)}, {after or '0'})"

    def group_wait(self, event: str) -> str:
        return f"wait_group_events(1, &{event});"

    def shared_array(self, s: Alloc, name: str, extents: str) -> list[str]:
        align = f" __attribute__((aligned({s.align})))" if s.align else ""
        return [f"__local {self.type_name(element_of(s))} {name}{extents}{align};"]

    def dynamic_arrays(self, allocs: Sequence[tuple[Alloc, str, str]]) -> list[str]:
        if len(allocs) == 1:
            s, name, _ = allocs[0]
            self.dynamic = [f"__local {self.type_name(element_of(s))}* {name}"]
            return []
        self.dynamic = ["__local uchar* dynamic_shared"]
        lines, start = [], "dynamic_shared"
        for s, name, size in allocs:
            elem = self.type_name(element_of(s))
            lines.append(f"__local {elem}* {name} = (__local {elem}*)({start});")
            start = f"{name} + {size}"
        return lines
