"""One load or store of global memory as inline PTX, understood: the C++ that moves the same elements.

    asm volatile("ld.global.nc.L1::no_allocate.v2.s32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "l"(p))

    void ptx(unsigned int& o0, unsigned int& o1, const void* p) { uint2 v = __ldg((const uint2*)p); o0 = v.x; ... }

Cache operators become the intrinsics of that name; where to allocate and how much to prefetch are hints without one,
and go. What others may be waiting for stays as it is: volatile, relaxed and acquiring accesses, and loads of a volatile
statement that say nothing of where they read being read once or never written meanwhile.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from .ptx_types import CONSTRAINTS

_REGISTER, _NUMBER = r"%\d+", r"[+-]?\s*\d+"
_ACCESS = re.compile(
    rf"""\s*(?P<op>ld|st)\.global(?P<hints>(?:\.(?!v[24]\b)[A-Za-z]\w*(?:::\w+)?)*?)(?:\.v(?P<lanes>[24]))?
         \.[busf](?P<bits>16|32|64)\s+
         (?P<first>\[[^\]]*\]|{{[^}}]*}}|{_REGISTER})\s*,\s*(?P<second>\[[^\]]*\]|{{[^}}]*}}|{_REGISTER})\s*;?\s*""",
    re.VERBOSE,
)
_ADDRESS = re.compile(r"\[\s*%(?P<number>\d+)\s*(?:\+\s*(?P<offset>\d+)\s*)?\]")

LOADS = {"nc": "__ldg", "ca": "__ldca", "cg": "__ldcg", "cs": "__ldcs", "lu": "__ldlu"}
STORES = {"wb": "__stwb", "cg": "__stcg", "cs": "__stcs", "wt": "__stwt"}
"""Cache operators with the intrinsics that stand for them (PTX ISA, cache operators; CUDA C++ Programming Guide)."""

ALLOCATION = re.compile(r"L1::(?:no_allocate|evict_\w+)|L2::(?:64B|128B|256B|evict_\w+)")
ONCE = frozenset({"nc", "cs", "lu"})
"""What is read so is not polled: it does not change, or is not read again."""

LANES = "xyzw"
VECTORS = {"h": "ushort", "r": "uint", "l": "ulonglong", "f": "float", "d": "double"}


@dataclass(frozen=True)
class Understood:
    """C++ of the access; the numbers of its operands: registers in order, and the address."""

    text: str
    registers: tuple[int, ...]
    address: int
    loads: bool


@cache
def understood_access(text: str, constraints: tuple[str, ...], volatile: bool) -> Understood | None:
    """The access that ``text`` makes on operands of these ``constraints``; None where it is another, or none."""
    m = _ACCESS.fullmatch(text.replace("%%", "%"))
    if m is None:
        return None
    loads = m["op"] == "ld"
    cells, place = (m["first"], m["second"]) if loads else (m["second"], m["first"])
    at = _ADDRESS.fullmatch(place)
    registers = tuple(int(n) for n in re.findall(r"%(\d+)", cells))
    names = [h for h in m["hints"].split(".") if h]
    kept = [h for h in names if not ALLOCATION.fullmatch(h)]
    if at is None or len(registers) != int(m["lanes"] or 1) or len(set(registers)) != len(registers):
        return None
    if loads and volatile and not ONCE & set(kept) and len(kept) == len(names):
        return None
    letters = {constraints[n].lstrip("=&") for n in registers if n < len(constraints)}
    letter = next(iter(letters))
    if len(letters) != 1 or letter not in CONSTRAINTS or CONSTRAINTS[letter][1].bits != int(m["bits"]):
        return None
    if "nc" in kept and len(kept) > 1:
        kept = ["nc"]
    known = LOADS if loads else STORES
    if len(kept) > 1 or any(h not in known for h in kept) or constraints[int(at["number"])] != "l":
        return None
    fn = known[kept[0]] if kept else ""
    offset, size = int(at["offset"] or 0), int(m["bits"]) // 8
    if offset % size:
        return None
    code = (_load if loads else _store)(fn, letter, len(registers), offset // size)
    return Understood(code, registers, int(at["number"]), loads)


def _types(letter: str, lanes: int) -> tuple[str, str]:
    """Of a register, and of the whole access."""
    one = CONSTRAINTS[letter][0]
    return one, one if lanes == 1 else f"{VECTORS[letter]}{lanes}"


def _place(one: str, whole: str, offset: int) -> str:
    """Where the access is, ``offset`` registers beyond its address."""
    return f"reinterpret_cast<{whole}*>(static_cast<{one}*>(p) + {offset})" if offset else f"static_cast<{whole}*>(p)"


def _load(fn: str, letter: str, lanes: int, offset: int) -> str:
    one, whole = _types(letter, lanes)
    place = _place(f"const {one}", f"const {whole}", offset)
    params = ", ".join(f"{one}& o{n}" for n in range(lanes))
    parts = " ".join(f"o{n} = v.{LANES[n]};" for n in range(lanes)) if lanes > 1 else "o0 = v;"
    return f"__device__ void ptx({params}, const void* p) {{ {whole} v = {fn or '*'}({place}); {parts} }}\n"


def _store(fn: str, letter: str, lanes: int, offset: int) -> str:
    one, whole = _types(letter, lanes)
    place = _place(one, whole, offset)
    params = ", ".join(f"{one} i{n}" for n in range(lanes))
    value = "i0" if lanes == 1 else f"make_{whole}({', '.join(f'i{n}' for n in range(lanes))})"
    stored = f"{fn}({place}, {value});" if fn else f"*{place} = {value};"
    return f"__device__ void ptx({params}, void* p) {{ {stored} }}\n"


__all__ = ["Understood", "understood_access"]
