"""Vectors and memory in CUDA C++ and HIP C++: native vectors or ``vec<T, N>``, hinted accesses, shared arrays."""

from __future__ import annotations

from collections.abc import Sequence

from ktc.ir.nodes import Alloc, Expr, Sym
from ktc.ir.types import Type, Vec

from .c_dialect import LANES, Dialect
from .piece import POSTFIX, Piece
from .protocol import const_int, element_of


class CxxMemory(Dialect):
    """Where values live and how they move."""

    aligned = "__align__({n})"
    """The attribute of an array's or a variable's alignment."""

    # ------------------------------------------------------------------------------------------------------ vectors

    def vector_name(self, t: Vec) -> str:
        native = self.native_vector(t)
        if native:
            self.note_scalar(t.elem)
            return native
        self.need("vec")
        return f"vec<{self.type_name(t.elem)}, {self.extent(t.n)}>"

    def extent(self, n: int | Expr) -> str:
        return str(n) if isinstance(n, int) else self.exprs.text(n)

    def lane(self, vector: str, t: Vec, lane: Expr, lane_text: str) -> str:
        if self.native_vector(t):
            return f"{vector}.{LANES[const_int(lane) or 0]}"
        return f"{vector}[{lane_text}]"

    def make_vector(self, t: Vec, args: Sequence[str]) -> str:
        native = self.native_vector(t)
        if native and native not in ("__half2", "__nv_bfloat162"):
            return f"make_{native}({', '.join(args)})"
        if native:
            return f"{native}({', '.join(args)})"
        return f"{self.vector_name(t)}{{{', '.join(args)}}}"

    def load_vector(self, buffer: Sym, place: str, t: Vec, width: str, cache: str) -> str:
        native = self.native_vector(t)
        hint = self.load_hint(cache) if self.has_hinted(native or "") else ""
        if native:
            address = f"reinterpret_cast<const {native}*>(&{place})"
            return f"{hint}({address})" if hint else f"*{address}"
        self.vector_name(t)
        name = "load_vec" + self.hint_suffix(cache)
        self.need(name)
        return f"{name}<{width}>(&{place})"

    def store_vector(self, buffer: Sym, place: str, value: Piece, t: Vec, width: str, cache: str) -> str:
        native = self.native_vector(t)
        hint = self.store_hint(cache) if self.has_hinted(native or "") else ""
        if native:
            address = f"reinterpret_cast<{native}*>(&{place})"
            return f"{hint}({address}, {value.text});" if hint else f"*{address} = {value.text};"
        self.vector_name(t)
        name = "store_vec" + self.hint_suffix(cache)
        self.need(name)
        return f"{name}(&{place}, {value.text});"

    def volatile_place(self, buffer: Sym, place: str, t: Type) -> str:
        return f"*const_cast<volatile {self.type_name(t)}*>(&{place})"

    def pointer_as(self, buffer: Sym, place: str, t: Type, qualifiers: str) -> str:
        return f"reinterpret_cast<{qualifiers}{self.type_name(t)}*>(&{place})"

    def reshape_bits(self, p: Piece, to: Type) -> Piece:
        self.need("bit_cast")
        return Piece(f"bit_cast<{self.type_name(to)}>({p.text})", POSTFIX, to)

    # ------------------------------------------------------------------------------------------------- cache hints

    def load_hint(self, cache: str) -> str:
        """The intrinsic of a hinted load, '' for a plain one."""
        return ""

    def store_hint(self, cache: str) -> str:
        return ""

    def has_hinted(self, name: str) -> bool:
        """Whether the intrinsics of hinted accesses take this type; it is moved by a plain access if not."""
        return True

    def hint_suffix(self, cache: str) -> str:
        return ""

    def load(self, buffer: Sym, place: str, t: Type, cache: str) -> str:
        hint = self.load_hint(cache) if self.has_hinted(self.type_name(t)) else ""
        if not hint or getattr(buffer.type, "space", "local") not in ("global", "const", "generic"):
            return place
        return f"{hint}(&{place})"

    def store(self, buffer: Sym, place: str, value: str, t: Type, cache: str) -> str:
        hint = self.store_hint(cache) if self.has_hinted(self.type_name(t)) else ""
        if not hint or getattr(buffer.type, "space", "local") not in ("global", "generic"):
            return f"{place} = {value};"
        return f"{hint}(&{place}, {value});"

    def shared_array(self, s: Alloc, name: str, extents: str) -> list[str]:
        align = f"{self.aligned.format(n=s.align)} " if s.align else ""
        return [f"__shared__ {align}{self.type_name(element_of(s))} {name}{extents};"]

    def dynamic_arrays(self, allocs: Sequence[tuple[Alloc, str, str]]) -> list[str]:
        if len(allocs) == 1:
            s, name, _ = allocs[0]
            align = max(s.align, 16 if isinstance(element_of(s), Vec) else 0)
            return [
                f"extern __shared__ {f'__align__({align}) ' if align else ''}{self.type_name(element_of(s))} {name}[];"
            ]
        widest = max(16, *(s.align for s, _, _ in allocs))
        lines = [f"extern __shared__ {self.aligned.format(n=widest)} unsigned char dynamic_shared[];"]
        start = "dynamic_shared"
        for s, name, size in allocs:
            elem = self.type_name(element_of(s))
            lines.append(f"{elem}* {name} = reinterpret_cast<{elem}*>({start});")
            start = f"{name} + {size}"
        return lines
