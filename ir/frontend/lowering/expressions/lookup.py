"""Literals and names in expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.meaning import constants
from ktc.ir.frontend.meaning.cxx_types import CArray, RecordType
from ktc.ir.frontend.meaning.literals import character, characters, integer
from ktc.ir.frontend.meaning.name_meanings import OpaqueVal, TypeVal
from ktc.ir.frontend.meaning.values import Dim3Val, NullVal, RVal, Value  # fmt: skip
from ktc.ir.frontend.syntax.cxx_ast import QualName
from ktc.ir.frontend.syntax.program import name_parts, pick
from ktc.ir.nodes import Const
from ktc.ir.types import BOOL, F32, F64, I8, Scalar

from .lazy import LazyOperators

MAX_LITERAL = 200
"""Characters of a number or character literal: 64 bits need 64 digits and separators at most."""

FUNCTION_NAMES = ("__func__", "__FUNCTION__", "__PRETTY_FUNCTION__")
"""The name of the function as text."""

HW = {"threadIdx": "thread", "blockIdx": "block", "blockDim": "block_dim", "gridDim": "grid_dim"}


class Lookup(LazyOperators):
    """What a literal or a name means."""

    hardware: Callable[[str, str], RVal]

    def _constant(self, node: c_ast.Constant) -> Value:
        text, kind = node.value, node.type
        if kind == "bool":
            return RVal(Const(text == "true", BOOL, text))
        if kind == "nullptr_t":
            return NullVal()
        if kind == "char":
            return RVal(Const(self._literal(character, text, node), Scalar("int", 8), text))
        if kind == "string":
            return OpaqueVal(text, CArray(I8, len(characters(text))))
        if "int" in kind:
            return RVal(self._literal(integer, text, node))
        digits = text.replace("'", "")
        f32 = digits[-1] in "fF" and not (digits[:2].lower() == "0x" and "p" not in digits.lower())
        value = float.fromhex(digits.rstrip("fFlL")) if digits[:2].lower() == "0x" else float(digits.rstrip("fFlL"))
        c = RVal(Const(value, F64, text))
        return RVal(Const(self.convert(c, F32).expr.value, F32, text)) if f32 else c  # type: ignore[attr-defined]

    def _literal(self, read: Any, text: str, node: Any) -> Any:
        """``read(text)``; a literal that has no value is refused."""
        if len(text) > MAX_LITERAL:
            self.fail("E-SEMA-VALUE", f"this literal is longer than {MAX_LITERAL} characters", node)
        try:
            return read(text)
        except (ValueError, IndexError):
            self.fail("E-SEMA-VALUE", f"{text} is no literal", node)

    def _id(self, node: c_ast.ID) -> Value:
        found = self.scope.find(node.name)
        if found is not None:
            return found
        value = self.global_name((), node.name, node)
        if value is not None:
            return value
        function = self.function_value(node.name)
        if function is not None:
            return function
        if node.name in FUNCTION_NAMES:
            return OpaqueVal(f'"{self.frame.name}"', CArray(I8, len(self.frame.name) + 1))
        if node.name == "NULL":
            return NullVal()
        if node.name in HW:
            x, y, z = (self.hardware(HW[node.name], axis).expr for axis in "xyz")
            return Dim3Val(x, y, z)
        if (bad := self.program.bad_function(node.name)) is not None:
            raise bad
        extra = self.source.why_missing
        looks_macro = node.name.isupper()
        hint = (
            f"give it a value with -D {node.name}=..."
            if looks_macro
            else "check the spelling, or add the folder of its header"
        )
        self.fail("E-SEMA-NAME", f"unknown name '{node.name}'{extra}", node, hint=hint)

    def _qual(self, node: QualName) -> Value:
        node = self.in_std(node)
        qualifier, name, args = name_parts(node)
        if qualifier == ("std",) and args:
            known = name.endswith("_v")
            answer = self.predicate(name[:-2], args, node) if known else self.concept(name, args, node)
            if answer is not None:
                return RVal(Const(answer, BOOL))
        if name == "value" and len(node.parts) >= 2:
            trait = node.parts[-2]
            answer = self.predicate(trait.name, trait.args or [], node)
            if answer is not None:
                return RVal(Const(answer, BOOL))
        if len(node.parts) > 1 and node.parts[-2].name == "numeric_limits" and node.parts[-2].args:
            t = self.arg_type(node.parts[-2].args[0])
            limit = constants.limit_property(t, name) if isinstance(t, Scalar) else None
            if limit is not None:
                return RVal(limit)
        if len(node.parts) > 1:
            owner = self.try_type(QualName(node.parts[:-1], False, coord=node.coord))
            if isinstance(owner, RecordType):
                member = self.static_member(owner, name, node, args)
                if member is not None:
                    return member
                object_ = self._enclosing_record()
                if (
                    object_ is not None
                    and name in object_.fields
                    and (owner == object_.type or self.derives(object_.type, owner))
                ):
                    return object_.fields[name]
            elif (enumerator := self.qualified_enumerator(node)) is not None:
                return enumerator
        value = self.global_name(qualifier, name, node, args)
        value = self.function_named(qualifier, name, args, node) if value is None else value
        if value is not None:
            return value
        if (bad := self.program.bad_function(name)) is not None:
            raise bad
        self.fail(
            "E-SEMA-NAME",
            f"unknown name '{node.text}'{self.source.why_unknown(qualifier)}",
            node,
            hint="check the spelling, or add the folder of its header",
        )

    def global_name(self, qualifier: tuple[str, ...], name: str, node: Any, args: list | None = None) -> Value | None:
        """A file-scope constant, enumerator or named constant."""
        variables = pick(self.program.variables.get(name, []), qualifier, self.scope.namespace)
        if variables:
            return self.global_variable(*self.variable_instance(variables, args, node), node)
        found = self.file_enumerator(qualifier, name, node)
        if found is not None:
            return found
        if name in constants.NAMED:
            return RVal(constants.NAMED[name])
        t = self.try_type(node) if isinstance(node, c_ast.ID) else None
        return TypeVal(t) if t is not None else None
