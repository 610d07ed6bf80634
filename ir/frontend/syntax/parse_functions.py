"""Parsing functions: what follows a declarator, and which bodies can wait.

Most text of a benchmark is host code that nothing here asks for. The body of a host function without a launch is passed
over by its braces and parsed when a launch expression calls the function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.dialects.dialect import OPENCL, Dialect

from .cxx_ast import CONST_METHOD, Function
from .parse_constraints import ConstraintParser
from .parse_decls import name_of

DEVICE_SPECS = frozenset({"__global__", "__device__"})


class FunctionParser(ConstraintParser):
    """Functions, after their specifiers and declarator."""

    _language: Dialect
    _record: list[str]
    _in_template = 0

    def _parse_function(self, spec, decl, kind: str) -> Function:
        name = name_of(decl) or ""
        specialised = self._specialised.pop(name, None)
        owner_args = self._owner_args.pop(name, None)
        specs = [s for s in spec["function"] if isinstance(s, str)] + spec["storage"]
        bounds = {s[0]: s[1] for s in spec["function"] if isinstance(s, tuple)}
        owner, _, short = name.rpartition("::")
        if self._in_template and self._in_template > len(self._record):
            self._templates.add(short)
        if not self._record and not owner:
            for scope in self._scope_stack[:1]:
                scope[short] = False
        self._typedef_checked_token = None
        node = self._build_declarations(spec=spec, decls=[{"decl": decl}])[0]
        node.funcspec = specialised
        asked: list[Any] = []
        while self._peek_type() in (
            "CONST",
            "NOEXCEPT",
            "VOLATILE",
            "AND",
            "LAND",
            "ID",
            "CUDA",
            "CUDA_ARGS",
            "ATTRIBUTE_BEGIN",
            "ASM",
        ):
            if self._accept("ASM"):  # the symbol's own name
                self._expect("LPAREN")
                self._skip_to_close()
                continue
            if self._peek_type() == "CUDA_ARGS":
                self._parse_cuda_args(lambda new, k: bounds.update([new]) if isinstance(new, tuple) else None)
                continue
            if self._peek_type() == "CONST":
                specs.append(CONST_METHOD)
            if self._next().value == "requires":
                asked += self._parse_requires()
                continue
            if self._advance().type == "NOEXCEPT" and self._accept("LPAREN"):
                self._skip_to_close()
        if self._accept("ARROW"):
            node.type.type = self._parse_type_name().type
            asked += self._parse_requires()
        saved = self._host_body
        self._push_scope()
        for p in node.type.args.params:
            if getattr(p, "name", None):
                self._add_identifier(p.name, p.coord)
        inits = self._parse_member_inits() if self._accept("COLON") else []
        body = None
        if self._peek_type() == "LBRACE":
            device = bool(DEVICE_SPECS & set(specs)) or "constexpr" in specs or self._record or self._language is OPENCL
            self._host_body = not device or (bool(self._record) and kind != "dtor")  # a class outlives one bad method
            body = None if device or self._in_template else self._skipped_body(node)
            if body is None:
                body = self._parse_compound_statement(new_scope=False)
        else:
            if self._accept("EQUALS") and self._advance().type == "DEFAULT":
                body = c_ast.Compound([], decl.coord)
                if node.type.args is not None and node.type.args.params and kind != "dtor":
                    kind = "defaulted"  # a copy, which every class has
            self._expect("SEMI")
        self._host_body = saved
        self._pop_scope()
        function = Function(short, node, body, specs, bounds, inits, kind, owner, coord=decl.coord)
        function.owner_args = owner_args
        function.constraints = tuple(asked)
        return function

    def _skipped_body(self, decl: c_ast.Decl) -> Callable[[], c_ast.Compound] | None:
        """The body of a host function without a launch, passed over: parsed when asked for (a launch may call it)."""
        start = end = self._mark()
        buffer, depth = self._tokens._buffer, 0
        while (tok := buffer[end]) is not None:
            depth += (tok.type == "LBRACE") - (tok.type == "RBRACE")
            if tok.type == "LSHIFT" and (nxt := buffer[end + 1]) is not None and nxt.type == "LT":
                return None
            end += 1
            if depth == 0:
                break
        else:
            return None
        self._reset(end)

        def parse() -> c_ast.Compound:
            outer = self._scope_stack, self._mark(), self._no_gt, self._host_body
            self._scope_stack, self._no_gt, self._host_body = [self._scope_stack[0], {}], False, True
            self._typedef_checked_token = None
            try:
                for p in decl.type.args.params:
                    if getattr(p, "name", None):
                        self._add_identifier(p.name, p.coord)
                self._reset(start)
                return self._parse_compound_statement(new_scope=False)
            finally:
                self._scope_stack, mark, self._no_gt, self._host_body = outer
                self._typedef_checked_token = None
                self._reset(mark)

        def words() -> frozenset[str]:
            return frozenset(t.value for t in buffer[start:end] if t is not None and t.type in ("ID", "TYPEID"))

        parse.words = words  # type: ignore[attr-defined]
        return parse

    def _parse_member_inits(self) -> list:
        inits = []
        while True:
            name = self._parse_qual_name()
            close = "RPAREN" if self._peek_type() == "LPAREN" else "RBRACE"
            inits.append((name, self._parse_argument_list(close)))
            if not self._accept("COMMA"):
                return inits
