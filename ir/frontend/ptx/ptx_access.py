"""One load or store of global or shared memory as inline PTX, understood: the C++ that moves the same elements.

    asm volatile("ld.global.nc.L1::no_allocate.v2.s32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "l"(p))

    void ptx(unsigned int& o0, unsigned int& o1, const void* p) { uint2 v = __ldg((const uint2*)p); o0 = v.x; ... }

An access may be guarded by a predicate; registers that it may leave alone have been given values before.

    asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; mov.b32 %0, 0; @p ld.global.u32 %0, [%1]; }"
                 : "=r"(a) : "l"(p), "r"(there))

    void ptx(unsigned int& o0, const void* p, unsigned int there) { o0 = 0u; if (there != 0u) { ... o0 = v; } }

Cache operators become the intrinsics of that name; where to allocate and how much to prefetch are hints without one,
and go. What others may be waiting for stays as it is: volatile, relaxed and acquiring accesses. Loads of a volatile
statement that say nothing of where they read being read once or never written meanwhile may be what a loop waits by:
of these the kernel's loops tell (:mod:`.awaited_loads`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from .ptx_types import CONSTRAINTS

_REGISTER, _NUMBER = r"%\d+", r"[+-]?\s*\d+"
_ACCESS = re.compile(
    rf"""\s*(?P<op>ld|st)\.(?P<space>global|shared)(?P<hints>(?:\.(?!v[24]\b)[A-Za-z]\w*(?:::\w+)?)*?)(?:\.v(?P<lanes>[24]))?
         \.[busf](?P<bits>16|32|64)\s+
         (?P<first>\[[^\]]*\]|{{[^}}]*}}|{_REGISTER})\s*,\s*(?P<second>\[[^\]]*\]|{{[^}}]*}}|{_REGISTER})\s*;?\s*""",
    re.VERBOSE,
)
_ADDRESS = re.compile(r"\[\s*%(?P<number>\d+)\s*(?:\+\s*(?P<offset>\d+)\s*)?\]")

_PREDICATE = r"[A-Za-z_$][\w$]*"
_GUARDED = re.compile(
    rf"""\s*{{\s*\.reg\s+\.pred\s+(?P<p>{_PREDICATE})\s*;\s*
         setp\.ne\.[busi]32\s+(?P=p)\s*,\s*%(?P<guard>\d+)\s*,\s*0\s*;\s*
         (?P<before>(?:mov\.[busf](?:16|32|64)\s+%\d+\s*,\s*(?:0|%\d+)\s*;\s*)*)
         @(?P=p)\s+(?P<access>[^;]*;)\s*}}\s*;?\s*""",
    re.VERBOSE,
)
_GIVEN = re.compile(r"mov\.[busf](?P<bits>\d+)\s+%(?P<to>\d+)\s*,\s*(?:0|%(?P<value>\d+))\s*;")

LOADS = {"nc": "__ldg", "ca": "__ldca", "cg": "__ldcg", "cs": "__ldcs", "lu": "__ldlu"}
STORES = {"wb": "__stwb", "cg": "__stcg", "cs": "__stcs", "wt": "__stwt"}
"""Cache operators with the intrinsics that stand for them (PTX ISA, cache operators; CUDA C++ Programming Guide)."""

ALLOCATION = re.compile(r"L1::(?:no_allocate|evict_\w+)|L2::(?:64B|128B|256B|evict_\w+)")
ONCE = frozenset({"nc", "cs", "lu"})
"""What is read so is not polled: it does not change, or is not read again."""

WIDTHS = {"global": "l", "shared": "rl"}
"""Constraints of registers that an address in each space may lie in: shared memory has addresses of 32 bits, too."""

LANES = "xyzw"
VECTORS = {"h": "ushort", "r": "uint", "l": "ulonglong", "f": "float", "d": "double"}


@dataclass(frozen=True)
class Understood:
    """C++ of the access; the numbers of its operands: registers in order, the address, and behind it what else the
    function takes: the guard, and values that registers have where nothing is loaded.

    ``space``: ``global`` or ``shared``; an address in shared memory is a number within it. ``may_wait``: a load that a
    loop may repeat until it gives what somebody else has written.
    """

    text: str
    registers: tuple[int, ...]
    address: int
    space: str
    loads: bool
    more: tuple[int, ...] = ()
    may_wait: bool = False


@cache
def understood_access(text: str, constraints: tuple[str, ...], volatile: bool) -> Understood | None:
    """The access that ``text`` makes on operands of these ``constraints``; None where it is another, or none."""
    text = text.replace("%%", "%")
    guarded = _GUARDED.fullmatch(text)
    m = _ACCESS.fullmatch(text if guarded is None else guarded["access"])
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
    letters = {constraints[n].lstrip("=&") for n in registers if n < len(constraints)}
    letter = next(iter(letters))
    if len(letters) != 1 or letter not in CONSTRAINTS or CONSTRAINTS[letter][1].bits != int(m["bits"]):
        return None
    if "nc" in kept and len(kept) > 1:
        kept = ["nc"]
    known = {} if m["space"] == "shared" else LOADS if loads else STORES
    if len(kept) > 1 or any(h not in known for h in kept) or constraints[int(at["number"])] not in WIDTHS[m["space"]]:
        return None
    fn = known[kept[0]] if kept else ""
    offset, size = int(at["offset"] or 0), int(m["bits"]) // 8
    if offset % size:
        return None
    around = _Guard((), "", "") if guarded is None else _guard(guarded, registers if loads else (), constraints, letter)
    if around is None:
        return None
    code = (_load if loads else _store)(fn, letter, len(registers), offset // size, around)
    may_wait = loads and volatile and not ONCE & set(kept) and len(kept) == len(names)
    return Understood(code, registers, int(at["number"]), m["space"], loads, around.operands, may_wait)


@dataclass(frozen=True)
class _Guard:
    """What a guarded access takes besides: numbers of operands, their parameters, what is done before the access."""

    operands: tuple[int, ...]
    params: str
    before: str


def _guard(m: re.Match[str], out: tuple[int, ...], constraints: tuple[str, ...], letter: str) -> _Guard | None:
    """The guard of an access to the registers ``out``, None where one of these has no value if nothing is loaded."""
    guard = int(m["guard"])
    given = [(int(g["to"]), g["value"], int(g["bits"])) for g in _GIVEN.finditer(m["before"])]
    one, t = CONSTRAINTS[letter]
    if guard >= len(constraints) or constraints[guard] != "r" or sorted(out) != sorted({to for to, _, _ in given}):
        return None
    if len(given) != len(out) or any(bits != t.bits for _, _, bits in given):
        return None
    values = {to: int(value) for to, value, _ in given if value is not None}
    if any(n >= len(constraints) or constraints[n] != letter for n in values.values()):
        return None
    inputs = tuple(dict.fromkeys(values.values()))
    names = {n: f"z{k}" for k, n in enumerate(inputs)}
    before = " ".join(f"o{k} = {names[values[n]] if n in values else f'({one})0'};" for k, n in enumerate(out))
    params = "".join(f", {one} {name}" for name in names.values())
    return _Guard((guard, *inputs), f", unsigned int guard{params}", f"{before} if (guard != 0u) ")


def _types(letter: str, lanes: int) -> tuple[str, str]:
    """Of a register, and of the whole access."""
    one = CONSTRAINTS[letter][0]
    return one, one if lanes == 1 else f"{VECTORS[letter]}{lanes}"


def _place(one: str, whole: str, offset: int) -> str:
    """Where the access is, ``offset`` registers beyond its address."""
    return f"reinterpret_cast<{whole}*>(static_cast<{one}*>(p) + {offset})" if offset else f"static_cast<{whole}*>(p)"


def _load(fn: str, letter: str, lanes: int, offset: int, around: _Guard) -> str:
    one, whole = _types(letter, lanes)
    place = _place(f"const {one}", f"const {whole}", offset)
    params = ", ".join(f"{one}& o{n}" for n in range(lanes))
    parts = " ".join(f"o{n} = v.{LANES[n]};" for n in range(lanes)) if lanes > 1 else "o0 = v;"
    moved = f"{whole} v = {fn or '*'}({place}); {parts}"
    return f"__device__ void ptx({params}, const void* p{around.params}) {{ {around.before}{{ {moved} }} }}\n"


def _store(fn: str, letter: str, lanes: int, offset: int, around: _Guard) -> str:
    one, whole = _types(letter, lanes)
    place = _place(one, whole, offset)
    params = ", ".join(f"{one} i{n}" for n in range(lanes))
    value = "i0" if lanes == 1 else f"make_{whole}({', '.join(f'i{n}' for n in range(lanes))})"
    stored = f"{fn}({place}, {value});" if fn else f"*{place} = {value};"
    return f"__device__ void ptx({params}, void* p{around.params}) {{ {around.before}{{ {stored} }} }}\n"


__all__ = ["Understood", "understood_access"]
