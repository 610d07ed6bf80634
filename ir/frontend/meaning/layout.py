"""The layout of types in memory: sizes, alignments, field offsets, and the scalar that a buffer of them is made of.

A struct in memory is a run of scalars. Its *unit* is the scalar that the IR's buffer holds: the one type all leaves
have, or the smallest (as a type of that size) when they differ. A field is an element of the buffer, or several
consecutive ones read as one; the bits are the same either way. Sizes follow the LP64 rules that CUDA uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ktc.ir.frontend.lowering.memory.buffers import UNSIGNED
from ktc.ir.frontend.lowering.memory.lvalues import Places
from ktc.ir.frontend.syntax.program import functions_of
from ktc.ir.types import BOOL, U8, U64, VOID, Scalar, Type, Vec

from .cxx_types import DIM3, UINT3, CArray, Pointer, RecordType, Reference, show


@dataclass(frozen=True)
class Field:
    """A non-static member: its place in bytes; ``bits`` is (first bit, count) for a bit-field."""

    name: str
    type: Type
    default: Any
    offset: int
    bits: tuple[int, int] | None = None


class Layouts(Places):
    """Sizes and units of C++ types."""

    fields_of: Any
    bases_of: Any
    record_scope: Any

    def layout(self, t: Type, node: Any) -> tuple[int, int]:
        """(size, alignment) of ``t`` in bytes.

        Raises:
            KtcError: E-SEMA-SIZEOF for a type whose size is not known.
        """
        if isinstance(t, Reference):
            t = t.elem
        t = UINT3 if t == DIM3 else t
        if isinstance(t, Scalar):
            return t.bytes, t.bytes
        if isinstance(t, Vec) and isinstance(t.n, int):
            size = t.elem.bytes * t.n
            return size, t.elem.bytes if t.n == 3 else min(size, 16)
        if isinstance(t, Pointer):
            return 8, 8
        if isinstance(t, CArray) and t.n is not None:
            size, align = self.layout(t.elem, node)
            return size * t.n, align
        if isinstance(t, RecordType):
            _, size, align, _ = self._record_layout(t, node)
            return size, align
        if t == VOID:
            return 1, 1  # as compilers do
        self.fail("E-SEMA-SIZEOF", f"the size of '{show(t)}' is not known", node)

    def field_layout(self, t: RecordType, node: Any) -> list[Field]:
        return self._record_layout(t, node)[0]

    def _record_layout(self, t: RecordType, node: Any) -> tuple[list[Field], int, int, int]:
        """(fields, size, alignment, bytes before the padding at the end)."""
        if t not in self._layouts:
            self._layouts[t] = self._lay_out(t, node)
        return self._layouts[t]

    def _lay_out(self, t: RecordType, node: Any) -> tuple[list[Field], int, int, int]:
        if self.is_polymorphic(t) and not self.only_destructor_virtual(t):
            self.fail("E-UNSUPPORTED-VIRTUAL", f"'{t.name}' has virtual functions: it cannot be in memory here", node,
                      hint="keep it in a variable, or make its functions plain ones")  # fmt: skip
        record = t.decl[0].node
        packed = "packed" in record.align
        union = record.kind == "union"
        out, end, widest, inherited = self._bases_laid_out(t, node)
        first_free_bit = 8 * end  # the bit after the last one used
        for name, ft, default, member in self.fields_of(t, node)[inherited:]:
            size, align = self.layout(ft, node)
            if packed and align > 1:
                self.fail("E-UNSUPPORTED-STRUCT", f"'{t.name}' is packed: its members may be misaligned", node,
                          hint="align the members")  # fmt: skip
            align = max(align, self._asked_alignment(t, getattr(member, "align", None) or []))
            bits = None
            if member.bitsize is not None:
                width = self.const_int(member.bitsize, "the width of a bit-field")
                if union:
                    first_free_bit = 0
                if width == 0 or first_free_bit // (8 * size) != (first_free_bit + width - 1) // (8 * size):
                    first_free_bit = -(-first_free_bit // (8 * align)) * 8 * align
                offset = first_free_bit // (8 * size) * size
                bits = (first_free_bit - 8 * offset, width)
                first_free_bit += width
                end = max(end, -(-first_free_bit // 8))
                if width == 0:
                    continue
            else:
                offset = 0 if union else -(-end // align) * align
                end = max(end, offset + size)
                first_free_bit = 8 * end
            widest = max(widest, align)
            if name:
                out.append(Field(name, ft, default, offset, bits))
        widest = max(widest, self._asked_alignment(t, [a for a in record.align if a != "packed"]))
        return out, max(1, -(-end // widest) * widest), widest, end

    def _bases_laid_out(self, t: RecordType, node: Any) -> tuple[list[Field], int, int, int]:
        """(fields, bytes, alignment, count of members) of the base classes.

        A member of the class may lie in the padding at the end of its last base, unless that is plain old data. Before
        all is the pointer to the table of virtual functions, or the base that has one (Itanium C++ ABI, 2.4).
        """
        out: list[Field] = []
        end, widest, count = 0, 1, 0
        bases = self.bases_of(t)
        if any(map(self.is_polymorphic, bases[1:])):
            self.fail("E-UNSUPPORTED-VIRTUAL", f"'{t.name}' has a base class with virtual functions that is not its "
                      "first: where it lies is not known here", node, hint="name it first")  # fmt: skip
        if self.is_polymorphic(t) and not any(map(self.is_polymorphic, bases)):
            end = widest = 8
        for base in bases:
            fields, size, align, used = self._record_layout(base, node)
            count += len(self.fields_of(base, node))
            widest = max(widest, align)
            if not fields:
                continue
            start = -(-end // align) * align
            out += [replace(f, offset=start + f.offset) for f in fields]
            plain = self._is_plain(base, node)
            if plain is None and size != used:
                self.fail("E-UNSUPPORTED-STRUCT", f"where members of '{t.name}' lie after those of its base class "
                          f"'{base.name}' depends on whether they are private", node)  # fmt: skip
            end = start + (size if plain else used)
        return out, end, widest, count

    def _is_plain(self, t: Type, node: Any) -> bool | None:
        """Whether ``t`` is plain old data as C++98 has it; None if that depends on its members' access."""
        if isinstance(t, CArray):
            return self._is_plain(t.elem, node)
        if not isinstance(t, RecordType):
            return not isinstance(t, Reference)
        code = [f for f, _ in functions_of(t.decl[0].node.items) if f.kind in ("ctor", "dtor") or f.name == "operator="]
        if code or any(True for _ in self.bases_of(t)):
            return False
        inner = [self._is_plain(ft, node) for _, ft, _, _ in self.fields_of(t, node)]
        if False in inner:
            return False
        return None if None in inner or t.decl[0].node.kind == "class" else True

    def _asked_alignment(self, t: RecordType, alignas: list) -> int:
        """What ``alignas`` in the class asks for, which may depend on its template parameters."""
        if not alignas:
            return 1
        with self.record_scope(t, *t.decl):
            return max(self.const_int(a.alignment, "an alignment") for a in alignas)

    _layouts: dict[RecordType, tuple[list[Field], int, int, int]]

    def leaves(self, t: Type, node: Any) -> Iterator[Type]:
        """The scalars and pointers that ``t`` is made of, each array element type once."""
        if isinstance(t, CArray):
            yield from self.leaves(t.elem, node)
        elif isinstance(t, RecordType):
            for f in self.field_layout(t, node):
                yield from self.leaves(f.type, node)
        elif isinstance(t, Vec):
            yield t.elem
        elif isinstance(t, Scalar | Pointer):
            yield t
        elif t == VOID:
            yield U8
        else:
            self.fail("E-UNSUPPORTED-STRUCT", f"memory of '{show(t)}' is not supported", node)

    def unit(self, t: Type, node: Any) -> Scalar:
        """The scalar that a buffer of ``t`` holds."""
        found: Counter[Scalar] = Counter()
        for x in self.leaves(t, node):
            found[U8 if x == BOOL else x if isinstance(x, Scalar) else U64] += 1
        if not found:
            return U8  # an empty struct
        if t == BOOL:
            return BOOL
        smallest = min(x.bytes for x in found)
        same = [x for x, _ in found.most_common() if x.bytes == smallest]
        if len(same) == 1 or len(same) == len(found):
            return same[0]
        return UNSIGNED[smallest]


__all__ = ["Field", "Layouts"]
