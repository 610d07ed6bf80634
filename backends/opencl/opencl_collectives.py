"""OpenCL's warps, barriers, fences and atomics: what the profile has, or an emulation, or a refusal."""

from __future__ import annotations

import dataclasses

from ktc.backends.c_family.c_dialect import Dialect
from ktc.backends.c_family.piece import POSTFIX, Piece
from ktc.backends.profiles import Profile
from ktc.ir.atomic_ops import BIT_ORDERS, TAKEN
from ktc.ir.nodes import MATCHES, VOTES, WARP_REDUCTIONS, Atomic, Body, Sym, While
from ktc.ir.types import BOOL, F32, F64, I32, I64, U32, U64, Scalar, Type
from ktc.ir.walk import used, walk

from . import opencl_helpers as text_of

SPACES = {"global": "__global ", "shared": "__local ", "const": "__constant ", "local": "", "generic": "__global "}
ATOMICS = {
    "add": "add", "sub": "sub", "min": "min", "max": "max", "and": "and", "or": "or", "xor": "xor", "exch": "xchg",
    "cas": "cmpxchg",
}  # fmt: skip
LOOPS = {
    "add": "x + v", "min": "fmin(x, v)", "max": "fmax(x, v)", "inc": "x >= v ? 0 : x + 1",
    "dec": "x == 0 || x > v ? v : x - 1", "exch": "v", "sub": "x - v", "mul": "x * v",
    **{op: f"{taken.text('v', 'x')} ? v : x" for op, taken in TAKEN.items()},
}  # fmt: skip


LOOP_TYPES = {F32: "float", U32: "uint", F64: "double", U64: "ulong", I32: "int", I64: "long"}
"""Types on which an atomic that the language lacks is a loop."""


def atomic_loop(op: str, t: Scalar, space: str) -> tuple[str, str]:
    """The name and the text of the function that is the atomic ``op`` on a ``t`` in ``space`` (``__global``)."""
    word, exchange = ("uint", "atomic_cmpxchg") if t.bits == 32 else ("ulong", "atom_cmpxchg")
    name = f"atomic_{op}_{LOOP_TYPES[t]}_{space.strip('_')}"
    return name, text_of.cas_loop(name, space, LOOP_TYPES[t], word, LOOPS[op], exchange, op in {"min", "max", *TAKEN})


def waiting_loop(body: Body) -> While | None:
    """A loop that ends when an atomic load finds what somebody else has written."""
    for s in walk(body):
        if isinstance(s, While):
            polled = {a.dst for a in walk(s.body) if isinstance(a, Atomic) and a.op == "load"}
            if polled & used(s.cond):
                return s
    return None


class OpenCLCollectives(Dialect):
    """The part of the OpenCL dialect in which work-items meet."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        self.generated: dict[str, str] = {}

    def space_of(self, buffer: Sym) -> str:
        return SPACES[getattr(buffer.type, "space", "local")]

    def warp(self, kind: str, value: Piece, arg: Piece | None, width: Piece, mask: Piece, ty: Type) -> Piece:
        style = self.profile.shuffle
        if style not in ("ptx", "subgroup"):
            self.refuse(
                "WARP", f"'{kind}' needs a warp of 32 lanes, which OpenCL C 1.2 lacks",
                "use reduce-strategy{loop=... strategy=shared}, or a profile with warps (opencl-nvidia, ...)",
            )  # fmt: skip
        lanes = "0xffffffff" if mask.literal is not None and mask.literal.value in (0xFFFFFFFF, -1) else mask.text
        if style in text_of.EXTENSIONS:
            self.generated["extensions"] = text_of.EXTENSIONS[style]
        if kind == "active" and style == "ptx":
            self.generated["warp_active"] = text_of.ACTIVE
            return Piece("warp_active()", POSTFIX, U32)
        if kind in MATCHES or kind in WARP_REDUCTIONS:
            return self._over_mask(kind, value, lanes, ty)
        if kind in VOTES:
            self.generated["warp_ballot"] = text_of.BALLOT[style]
            votes = f"warp_ballot({value.text}, {lanes})"
            if kind in ("ballot", "active"):
                return Piece(votes, POSTFIX, U32)
            return Piece(f"{votes} {'!= 0' if kind == 'any' else f'== {lanes}'}", 9, BOOL, op="==")
        if not isinstance(ty, Scalar):
            self.refuse("WARP", f"a shuffle of '{ty}'", "shuffle its components")
        assert arg is not None
        self.generated[f"warp_{kind}"] = text_of.shuffle(kind, style)
        name, word = f"warp_{kind}", U32
        if ty.bits == 64:
            self.generated[f"warp_{kind}64"] = text_of.wide_shuffle(kind)
            name, word = f"warp_{kind}64", U64
        bits = self.bitcast(value, word) if ty.bits >= 32 else super().convert(value, word)
        moved = Piece(f"{name}({bits.text}, {arg.text}, {width.text}, {lanes})", POSTFIX, word)
        return self.bitcast(moved, ty) if ty.bits >= 32 else super().convert(moved, ty)

    def _over_mask(self, kind: str, value: Piece, lanes: str, ty: Type) -> Piece:
        """Matches and reductions: every lane looks at the others' values in turn."""
        t = value.ctype
        assert isinstance(t, Scalar)
        name, word = ("warp_shfl64", U64) if t.bits == 64 else ("warp_shfl", U32)
        self.generated["warp_shfl"] = text_of.shuffle("shfl", self.profile.shuffle)
        if t.bits == 64:
            self.generated[name] = text_of.wide_shuffle("shfl")
        if kind in MATCHES:
            helper = f"warp_{kind}{t.bits if t.bits == 64 else ''}"
            self.generated[helper] = text_of.match(kind, helper, self.types[word], name)
            return Piece(f"{helper}({self.bitcast(value, word).text}, {lanes})", POSTFIX, U32)
        helper = f"warp_{kind}_{self.types[t]}"
        self.generated[helper] = text_of.reduction(helper, self.types[t], WARP_REDUCTIONS[kind])
        return Piece(f"{helper}({value.text}, {lanes})", POSTFIX, ty)

    def barrier(self, scope: str, mask: Piece | None) -> str:
        if scope == "warp":
            if self.profile.shuffle == "ptx":
                return f'asm volatile("bar.warp.sync %0;" ::"r"({mask.text if mask else "0xffffffff"}) : "memory");'
            if self.profile.shuffle == "subgroup":
                return "sub_group_barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"
            self.refuse("WARP", "a warp barrier needs sub-groups", "use a block barrier, or a profile with sub-groups")
        if scope == "grid":
            self.refuse("GRID", "OpenCL has no barrier across work-groups", "split the kernel at the grid barrier")
        return "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"

    def fence(self, scope: str) -> str:
        if scope == "block":
            return "mem_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"
        if self.profile.shuffle == "ptx":
            return f'asm volatile("membar.{"gl" if scope == "device" else "sys"};" ::: "memory");'
        if self.profile.device_fence:
            where = "memory_scope_device" if scope == "device" else "memory_scope_all_svm_devices"
            return f"atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, {where});"
        self.refuse(
            "FENCE",
            f"a fence at {scope} scope needs OpenCL C 2.0",
            "where blocks share a sum, use reduce-strategy{strategy=atomic}; else split the kernel",
        )

    def atomic(self, s: Atomic, place: str, value: str, compare: str | None, t: Scalar) -> str:
        space = self.space_of(s.buffer).strip()
        if s.op == "load":  # the language's own wants a type of its own
            return self.atomic(dataclasses.replace(s, op="add"), place, "0", None, t)
        if (t in (I32, U32) and s.op in ATOMICS) or (t == F32 and s.op == "exch"):
            args = [f"&{place}", *([compare] if compare is not None else []), value]
            return f"atomic_{ATOMICS[s.op]}({', '.join(args)})"
        if t in (I64, U64) and s.op in ATOMICS:
            self.need("int64_atomics")
            args = [f"&{place}", *([compare] if compare is not None else []), value]
            return f"atom_{ATOMICS[s.op]}({', '.join(args)})"
        if t in LOOP_TYPES and (s.op in BIT_ORDERS or (s.op == "cas" and t.is_float)):
            return self._on_bits(s, place, value, compare, t)
        if t not in LOOP_TYPES or s.op not in LOOPS:
            self.refuse("ATOMIC", f"no atomic {s.op} on {t.name}", "accumulate in a 32-bit type")
        if t.bits == 64:
            self.need("int64_atomics")
        name, text = atomic_loop(s.op, t, space)
        self.generated[name] = text
        return f"{name}(&{place}, {value})"

    def _on_bits(self, s: Atomic, place: str, value: str, compare: str | None, t: Scalar) -> str:
        """An atomic that sees the element as an integer: the language's own, on that integer."""
        signed, better = BIT_ORDERS.get(s.op, (False, ""))
        word = Scalar("int" if signed else "uint", t.bits)
        name, op = self.type_name(word), {">": "max", "<": "min", "": "cmpxchg"}[better]
        if t.bits == 64:
            self.need("int64_atomics")
        operands = [f"as_{name}({x})" for x in (compare, value) if x is not None]
        at = f"(volatile {self.space_of(s.buffer)}{name}*)&{place}"
        call = f"{'atom' if t.bits == 64 else 'atomic'}_{op}({', '.join([at, *operands])})"
        return call if s.dst is None else f"as_{self.type_name(t)}({call})"
