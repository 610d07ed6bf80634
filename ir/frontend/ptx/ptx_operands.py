"""Operands of inline PTX: the asm statement's own, declared registers in their scopes, special registers."""

from __future__ import annotations

from typing import Any

from ktc.ir.types import I64, Scalar

from .ptx_types import CONSTRAINTS, NAMESPACE, Opaque, Value, as_type, literal, register_name, signature


class Operands:
    """What the operands of one asm statement stand for, and which of them have a value."""

    def __init__(self, constraints: tuple[str, ...], outputs: int) -> None:
        self._constraints, self._outputs = constraints, outputs
        self._scopes: list[dict[str, str]] = [{}]
        self._read: set[int] = set()
        self._written: set[int] = set()
        for n in range(outputs):
            self.operand_type(n)

    @property
    def inputs(self) -> tuple[int, ...]:
        """Numbers of the inputs that are read, in order."""
        return tuple(sorted(n for n in self._read if n >= self._outputs))

    def register(self, n: int) -> tuple[str, Scalar]:
        """The type of operand ``n``, as C++ spells it and as the IR does."""
        letter = self._constraints[n].lstrip("=+&") if n < len(self._constraints) else ""
        if letter == "n" and n >= self._outputs:
            return "long long", I64
        if letter not in CONSTRAINTS:
            raise Opaque
        return CONSTRAINTS[letter]

    def operand_type(self, n: int) -> str:
        return self.register(n)[0]

    def param(self, n: int, reference: str = "") -> str:
        return f"{self.operand_type(n)} {reference}o{n}"

    def reads_output(self, n: int) -> bool:
        """Whether output ``n`` has a value when the statement starts."""
        return "+" in self._constraints[n]

    def _source(self, tree: Any) -> Value:
        if tree.data == "number":
            return literal("".join(str(t) for t in tree.children))
        if tree.data == "inverted":
            return Value(f"!{as_type(self._source(tree.children[1]), 'bool')}", "bool")
        if tree.data != "name":
            raise Opaque
        name = str(tree.children[0])
        if tree.children[0].type == "OPERAND":
            n = int(name[1:])
            if n < self._outputs and not self.reads_output(n) and n not in self._written:
                raise Opaque  # what it reads there is left to the compiler
            self._read.add(n)
            t = self.operand_type(n)
            return Value(f"o{n}", "" if self._constraints[n] == "n" else t)
        for scope in reversed(self._scopes):
            if name in scope:
                return Value(register_name(name), scope[name])
        special = name[1:].replace(".", "_")
        result, params = signature(special)
        if not name.startswith("%") or params or result == "void":
            raise Opaque
        return Value(f"{NAMESPACE}::{special}()", result)

    def _target(self, tree: Any) -> Value:
        """A register that is written."""
        if tree.data == "name" and tree.children[0].type == "OPERAND":
            n = int(str(tree.children[0])[1:])
            if n >= self._outputs:
                raise Opaque
            self._written.add(n)
            return Value(f"o{n}", self.operand_type(n))
        value = self._source(tree)
        if not value.text.startswith("r_"):
            raise Opaque
        return value

    def _assign(self, target: Any, value: Value) -> str:
        to = self._target(target)
        return f"{to.text} = {as_type(value, to.type)};"
