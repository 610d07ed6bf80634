"""Parsing templates: their parameters, what they declare, and explicit instantiations."""

from __future__ import annotations

from typing import Any

from pycparser.c_parser import ParseError

from ktc.ir.diagnostics import KtcError

from .cxx_ast import Function, Record, Template, TemplateParam
from .parse_decls import name_of
from .parse_recovery import RecoveringParser


class TemplateParser(RecoveringParser):
    """``template`` and what follows it, at the top level, in namespaces and in classes."""

    def _parse_template(self) -> Template:
        coord = self._tok_coord(self._expect("TEMPLATE"))
        if self._peek_type() != "LT":
            return Template(None, self._parse_instantiation(), coord=coord)
        self._push_scope()
        outer, self._constraints = self._constraints, []
        params = self._parse_template_params()
        self._constraints += self._parse_requires()
        if self._peek_type() == "TEMPLATE":
            self._constraints, ours = outer, self._constraints
            inner = self._parse_template()
            self._pop_scope()
            return _constrained(Template([*params, *(inner.params or [])], inner.decl, coord=coord), ours)
        self._in_template += 1
        try:
            decl = self._parse_using_or_declaration()
        finally:
            self._in_template -= 1
            self._constraints, ours = outer, self._constraints
        self._pop_scope()
        for d in decl:
            name = getattr(d, "name", None) or ""
            if isinstance(d, Record) or type(d).__name__ == "Alias":
                self._add_typedef_name(name, coord)
                self._templates.add(name)
            elif name:
                self._templates.add(name.split("::")[-1])
                if not getattr(d, "owner", "") and name not in self._record[-1:]:  # constructors have the class's name
                    self._add_identifier(name, coord)
        return _constrained(Template(params, decl, coord=coord), ours)

    def _parse_instantiation(self) -> list:
        """What ``template ...;`` instantiates: nothing where that does not parse, it only says what there is anyway."""
        mark, depth, records = self._mark(), len(self._scope_stack), len(self._record)
        names = dict(self._scope_stack[-1])
        try:
            decl = self._parse_simple_declaration(top=True)
        except (KtcError, ParseError):
            decl = None
        del self._scope_stack[depth:], self._record[records:]
        self._scope_stack[-1].clear()
        self._scope_stack[-1].update(names)  # it declares nothing new
        self._typedef_checked_token = None
        if decl is None:
            self._no_gt = self._host_body = False
            self._specialised.clear()
            self._reset(mark)
            self._skip_external(KtcError("", ""))
        return [d for d in decl or () if isinstance(d, Function | Record)]

    def _parse_template_params(self) -> list[TemplateParam]:
        """``<typename T, int N>``, declared in the current scope."""
        self._expect("LT")
        params = []
        saved, self._no_gt = self._no_gt, True
        while not self._at_gt():
            params.append(self._parse_template_param())
            if not self._accept("COMMA"):
                break
        self._no_gt = saved
        self._expect_gt()
        return params

    def _parse_using_or_declaration(self) -> list:
        if self._peek_type() == "USING":
            return [self._parse_using()]
        if self._next().value == "concept" and self._peek_type(2) in ("ID", "TYPEID"):
            return self._parse_concept(self._here())
        if self._record:
            return self._parse_member() if self._peek_type() != "FRIEND" else self._parse_template_friend()
        return self._parse_simple_declaration(top=True)

    def _parse_template_friend(self) -> list:
        """A friend that is a template; one that does not parse is the host's."""
        mark, depth = self._mark(), len(self._scope_stack)
        try:
            return self._parse_simple_declaration(top=True)
        except KtcError:
            del self._scope_stack[depth:]
            self._reset(mark)
            self._skip_external(KtcError("", ""))
            return []

    def _parse_template_param(self) -> TemplateParam:
        tok = self._next()
        coord = self._tok_coord(tok)
        if tok.type == "TEMPLATE":
            return self._parse_template_template_param(coord)
        plain_type = tok.type == "CLASS" or (tok.type == "TYPENAME" and self._peek_type(3) != "COLONCOLON")
        if plain_type:
            self._advance()
            pack = self._accept("ELLIPSIS") is not None
            name = self._advance().value if self._peek_type() in ("ID", "TYPEID") else ""
            default = self._parse_type_name() if self._accept("EQUALS") else None
            self._scope_stack[-1][name] = True
            self._typedef_checked_token = None
            return TemplateParam(name, "type", None, default, pack, coord=coord)
        constrained = self._try_constrained_param()
        if constrained is not None:
            concept, pack, name = constrained
            self._scope_stack[-1][name] = True
            self._typedef_checked_token = None
            self._constrain(concept, pack, name)
            default = self._parse_type_name() if self._accept("EQUALS") else None
            return TemplateParam(name, "type", None, default, pack, coord=coord)
        self._need_type = True  # a concept that is known was tried before
        spec, _, _ = self._parse_declaration_specifiers(allow_no_type=False)
        pack = self._peek_type() == "ELLIPSIS"
        decl = self._parse_cxx_declarator(abstract=True)
        name = name_of(decl) or ""
        typ = self._build_type_name(spec, decl, coord)
        default = self._parse_conditional_expression() if self._accept("EQUALS") else None
        self._add_identifier(name, coord)
        return TemplateParam(name, "value", typ, default, pack, coord=coord)

    def _parse_template_template_param(self, coord) -> TemplateParam:
        """``template <...> class Name``."""
        self._expect("TEMPLATE")
        self._expect("LT")
        self._push_scope()
        while not self._at_gt():
            self._parse_template_param()
            if not self._accept("COMMA"):
                break
        self._pop_scope()
        self._expect_gt()
        if self._accept("CLASS") is None:
            self._expect("TYPENAME")
        pack = self._accept("ELLIPSIS") is not None
        name = self._advance().value if self._peek_type() in ("ID", "TYPEID") else ""
        self._add_typedef_name(name, coord)
        self._templates.add(name)
        default = self._parse_type_name() if self._accept("EQUALS") else None
        return TemplateParam(name, "template", None, default, pack, coord=coord)

    # provided by the parser of translation units
    def _parse_simple_declaration(self, top: bool = False) -> list:
        raise NotImplementedError


def _constrained(template: Template, asked: list[Any]) -> Template:
    """``template``, whose functions and classes are there for arguments of which all of ``asked`` holds."""
    for d in template.decl if asked else ():
        if isinstance(d, Function | Record):
            d.constraints = (*d.constraints, *asked)
    return template
