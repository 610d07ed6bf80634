"""One PTX instruction after another as C++ on the registers' bits."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .ptx_operands import Operands
from .ptx_types import (
    BITS,
    INTEGERS,
    NAMESPACE,
    Opaque,
    Value,
    as_type,
    class_type,
    register_name,
    signature,
    signed_type,
)

ORDERED = {"eq": "==", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
COMPARISONS: dict[str, str] = (
    {name: f"{{a}} {op} {{b}}" for name, op in ORDERED.items()}
    | {"ne": "{a} != {b}"}
    | {"lo": "{a} < {b}", "ls": "{a} <= {b}", "hi": "{a} > {b}", "hs": "{a} >= {b}"}
)
FLOAT_COMPARISONS: dict[str, str] = {name: f"{{a}} {op} {{b}}" for name, op in ORDERED.items()} | {
    "ne": "({a} < {b} || {a} > {b})", "equ": "!({a} < {b} || {a} > {b})", "neu": "{a} != {b}", "ltu": "!({a} >= {b})",
    "leu": "!({a} > {b})", "gtu": "!({a} <= {b})", "geu": "!({a} < {b})", "num": "({a} == {a} && {b} == {b})",
    "nan": "({a} != {a} || {b} != {b})",
}  # fmt: skip
"""Of setp: without a suffix false where an operand is NaN (PTX ISA 8.5, 9.7.6), with ``u`` true there."""

JOINS = {"and": "&&", "or": "||", "xor": "!="}
FIRST_BARRIER = frozenset({"bar_sync", "barrier_sync", "barrier_sync_aligned", "barrier_cta_sync", "bar_cta_sync"})
CARRIES = {"add": "", "addc": "", "sub": "", "subc": "", "mad_lo": "mul_lo", "madc_lo": "mul_lo", "mad_hi": "mul_hi",
           "madc_hi": "mul_hi"}  # fmt: skip
"""Instructions with ``.cc`` or a carry in; those of products with the instruction that multiplies."""


class Writer(Operands):
    """The C++ of one asm statement, written instruction by instruction."""

    _carry = False
    """Whether an instruction has set the carry flag."""

    def whole(self, trees: list[Any]) -> str:
        """The C++ of all statements, after which every output must have a value."""
        text = self.items(trees)
        if self._carry:
            text = f"unsigned int carry = 0u; {text}"
        if any(n not in self._written and not self.reads_output(n) for n in range(self._outputs)):
            raise Opaque
        return text

    def items(self, trees: list[Any]) -> str:
        return " ".join(text for tree in trees if (text := getattr(self, f"_{tree.data}")(tree.children)))

    def _scope(self, children: list[Any]) -> str:
        self._scopes.append({})
        text = self.items(children)
        self._scopes.pop()
        return f"{{ {text} }}"

    def _registers(self, children: list[Any]) -> str:
        t = class_type(str(children[1]))
        names: list[str] = []
        for r in children[2:]:
            name = str(r.children[0])
            count = int(str(r.children[1]), 0) if len(r.children) > 1 else 0
            if count > 64:
                raise Opaque
            names += [f"{name}{k}" for k in range(count)] if len(r.children) > 1 else [name]
        if any(name in self._scopes[-1] for name in names):
            raise Opaque
        self._scopes[-1].update(dict.fromkeys(names, t))
        return f"{t} {', '.join(map(register_name, names))};"

    def _instruction(self, children: list[Any]) -> str:
        guard = children[0] if getattr(children[0], "data", "") == "guard" else None
        rest = children[1:] if guard is not None else children
        words = [str(t).lstrip(".").replace("::", "_") for t in rest if hasattr(t, "type")]
        operands = [t for t in rest if not hasattr(t, "type")]
        condition = ""
        if guard is not None:
            negated = len(guard.children) > 1
            condition = ("!" if negated else "") + as_type(self._source(guard.children[-1]), "bool")
        text = self._operation(words, operands)
        return f"if ({condition}) {{ {text} }}" if condition else text

    def _operation(self, words: list[str], operands: list[Any]) -> str:
        structural: dict[str, Callable[[list[str], list[Any]], str]] = {
            "mov": self._mov, "setp": self._setp, "selp": self._selp, "shfl": self._shfl, "cvt": self._cvt,
        }  # fmt: skip
        special = structural.get(words[0])
        if special is not None:
            return special(words, operands)
        opcode = "_".join(words)
        if opcode in FIRST_BARRIER:
            if len(operands) != 1 or operands[0].data != "number" or self._source(operands[0]).text != "0":
                raise Opaque  # barriers other than the first, or of some warps only
            return f"{NAMESPACE}::bar_sync();"
        if "cc" in words or words[0] in ("addc", "subc", "madc"):
            return self._carrying(words, operands)
        return self._call(opcode, operands)

    def _call(self, opcode: str, operands: list[Any]) -> str:
        result, params = signature(opcode)
        targets = operands[:1] if result != "void" else []
        sources = operands[len(targets) :]
        if len(sources) != len(params):
            raise Opaque
        args = ", ".join(as_type(self._source(x), t) for x, t in zip(sources, params))
        call = f"{NAMESPACE}::{opcode}({args})"
        return self._assign(targets[0], Value(call, result)) if targets else f"{call};"

    def _mov(self, words: list[str], operands: list[Any]) -> str:
        if len(words) != 2 or len(operands) != 2:
            raise Opaque
        to, source = operands
        t = class_type(words[1])
        if source.data == "vector":
            parts = [self._source(x) for x in source.children]
            return self._assign(to, Value(self._packed(parts, t), t))
        if to.data == "vector":
            return self._unpacked(to.children, as_type(self._source(source), t), t)
        value = self._source(source)
        return self._assign(to, Value(as_type(value, t), t) if value.type == "" else value)

    def _packed(self, parts: list[Value], t: str) -> str:
        width = BITS[t] // len(parts)
        piece = f"unsigned {INTEGERS.get(width, '')}"
        if piece not in BITS or t not in BITS:
            raise Opaque
        each = [f"({t}){as_type(p, piece)}" for p in parts]
        return "(" + " | ".join(f"({e} << {k * width})" if k else e for k, e in enumerate(each)) + ")"

    def _unpacked(self, targets: list[Any], source: str, t: str) -> str:
        width = BITS[t] // len(targets)
        piece = f"unsigned {INTEGERS.get(width, '')}"
        if piece not in BITS:
            raise Opaque
        kept = [(k, x) for k, x in enumerate(targets) if str(x.children[0]) != "_"]
        stores = [self._assign(x, Value(f"({piece})(whole >> {k * width})", piece)) for k, x in kept]
        return f"{{ const {t} whole = {source}; {' '.join(stores)} }}"

    def _setp(self, words: list[str], operands: list[Any]) -> str:
        t = signed_type(words[-1])
        table = FLOAT_COMPARISONS if t in ("float", "double") else COMPARISONS
        if words[1] not in table or len(words) != (4 if len(operands) == 4 else 3):
            raise Opaque
        a, b = (as_type(self._source(x), t) for x in operands[1:3])
        test = f"({table[words[1]].format(a=a, b=b)})"
        both = operands[0].children if operands[0].data == "pair" else [operands[0]]
        values = [test, f"!{test}"][: len(both)]
        if len(words) == 4:
            if words[2] not in JOINS:
                raise Opaque
            c = as_type(self._source(operands[3]), "bool")
            values = [f"({v} {JOINS[words[2]]} {c})" for v in values]
        if len(both) == 1:
            return self._assign(both[0], Value(values[0], "bool"))
        stores = [self._assign(x, Value(f"q{k}", "bool")) for k, x in enumerate(both) if str(x.children[0]) != "_"]
        return f"{{ const bool q0 = {values[0]}, q1 = {values[1]}; {' '.join(stores)} }}"

    def _selp(self, words: list[str], operands: list[Any]) -> str:
        if len(words) != 2 or len(operands) != 4:
            raise Opaque
        t = class_type(words[1])
        a, b = (as_type(self._source(x), t) for x in operands[1:3])
        return self._assign(operands[0], Value(f"({as_type(self._source(operands[3]), 'bool')} ? {a} : {b})", t))

    def _shfl(self, words: list[str], operands: list[Any]) -> str:
        """``shfl.sync.MODE.b32 d|p, a, b, c, mask``; ``p``: whether the source lane is in range."""
        if operands[0].data != "pair":
            return self._call("_".join(words), operands)
        d, p = operands[0].children
        _, params = signature("_".join(words))
        if len(operands) != 1 + len(params):
            raise Opaque
        b, c = (as_type(self._source(x), "unsigned int") for x in operands[2:4])
        inside = f"{{ const bool q0 = {NAMESPACE}::shfl_{words[2]}_inside({b}, {c});"
        moved = self._call("_".join(words), [d, *operands[1:]])
        return f"{inside} {moved} {self._assign(p, Value('q0', 'bool'))} }}"

    def _cvt(self, words: list[str], operands: list[Any]) -> str:
        """Between integers any width goes, and a register may be wider than what is read of it or written to it."""
        if len(words) > 3 and words[-2] in ("s8", "u8") and len(operands) == 2:
            return self._bytes(words, *operands)
        if len(words) != 3 or not all(re.fullmatch(r"[us](8|16|32|64)", w) for w in words[1:]):
            return self._call("_".join(words), operands)
        to, source = (signed_type(w) for w in words[1:])
        if len(operands) != 2:
            raise Opaque
        value, target = self._source(operands[1]), self._target(operands[0])
        narrow = value.type.startswith(("float", "double", "bool")) or target.type in ("float", "double", "bool")
        if narrow or value.type == "" or BITS[value.type] < BITS[source] or BITS[target.type] < BITS[to]:
            raise Opaque
        return f"{target.text} = ({target.type})({to})({source}){value.text};"

    def _bytes(self, words: list[str], to: Any, source: Any) -> str:
        """A conversion with saturation to a byte, which a register of any width takes, with its sign."""
        opcode = "_".join(words)
        result, params = signature(opcode)
        target = self._target(to)
        if len(params) != 1 or result != "unsigned int" or target.type.startswith(("float", "double", "bool")):
            raise Opaque
        call = f"{NAMESPACE}::{opcode}({as_type(self._source(source), params[0])})"
        return f"{target.text} = ({target.type})(int){call};"

    def _carrying(self, words: list[str], operands: list[Any]) -> str:
        """Sums with the carry flag in, out, or both (PTX ISA 8.5, 9.7.2); a flag from outside is not known."""
        t = class_type(words[-1])
        stem = "_".join(w for w in words[:-1] if w != "cc")
        takes, gives = words[0].endswith("c"), "cc" in words
        if t not in ("unsigned int", "unsigned long long") or stem not in CARRIES or (takes and not self._carry):
            raise Opaque
        sources = [as_type(self._source(x), t) for x in operands[1:]]
        if len(sources) != (3 if CARRIES[stem] else 2):
            raise Opaque
        if CARRIES[stem]:
            product = f"{CARRIES[stem]}_{words[-1]}"
            _, params = signature(product)
            sources = [
                f"({t}){NAMESPACE}::{product}({', '.join(f'({p}){x}' for p, x in zip(params, sources))})",
                sources[2],
            ]
        minus = words[0].startswith("sub")
        op, carry = ("-", "carry" if takes else "0u") if minus else ("+", "carry" if takes else "0u")
        lost = f"a < b || part < {carry}" if minus else "part < a || sum < part"
        out = f" carry = {lost} ? 1u : 0u;" if gives else ""
        head = f"const {t} a = {sources[0]}, b = {sources[1]}, part = a {op} b, sum = part {op} {carry};"
        text = f"{{ {head}{out} {self._assign(operands[0], Value('sum', t))} }}"
        self._carry = self._carry or gives
        return text
