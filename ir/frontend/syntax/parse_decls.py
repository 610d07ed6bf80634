"""Parsing declarations: specifiers, declarators, initialisers, parameters."""

from __future__ import annotations

from pycparser import c_ast

from .cxx_ast import CtorInit, RefDecl
from .parse_specifiers import QUALIFIERS, SpecifierParser

_PTR = ("TIMES", "AND", "LAND")


class DeclParser(SpecifierParser):
    """Declarations. CUDA's qualifiers travel in ``Decl.funcspec``; ``__launch_bounds__`` there as a (name,
    args) pair."""

    _pack = False
    """Whether the declarator just read had ``...``."""

    # ------------------------------------------------------------------ specifiers
    # ------------------------------------------------------------------ declarators
    def _starts_declarator(self, id_only: bool = False) -> bool:
        return self._peek_type() in ("ID", "TYPEID", "LPAREN", "OPERATOR", "ELLIPSIS", *_PTR)

    def _parse_declarator(self):
        return self._parse_cxx_declarator(abstract=False)

    def _parse_id_declarator(self):
        return self._parse_cxx_declarator(abstract=False)

    def _parse_abstract_declarator_opt(self):
        if self._peek_type() in (*_PTR, "LBRACKET") or (
            self._peek_type() == "LPAREN" and self._peek_type(2) in (*_PTR, "RPAREN")
        ):
            return self._parse_cxx_declarator(abstract=True)
        return None

    def _parse_cxx_declarator(self, abstract: bool):
        """Pointers and references, then a name, a parenthesised declarator or nothing, then suffixes."""
        layers = self._parse_pointer_layers()
        self._pack = self._accept("ELLIPSIS") is not None or self._pack
        kind = self._peek_type()
        coord = self._here()
        if kind == "LPAREN" and self._peek_type(2) in _PTR:
            self._advance()
            decl = self._parse_cxx_declarator(abstract)
            self._expect("RPAREN")
        elif kind in ("ID", "TYPEID", "OPERATOR"):
            decl = c_ast.TypeDecl(self._parse_declarator_name(), None, None, None, coord=coord)
        elif abstract or (layers and kind in ("COMMA", "RPAREN", "GT")):
            decl = c_ast.TypeDecl(None, None, None, None, coord=coord)
        else:
            tok = self._peek()
            self._parse_error(f"expected a name before '{tok.value if tok else 'end of file'}'", coord)
        return self._with_layers(self._parse_decl_suffixes(decl), layers)

    def _parse_pointer_layers(self) -> list:
        layers = []
        while self._peek_type() in _PTR:
            tok = self._advance()
            quals = []
            while self._peek_type() in QUALIFIERS:
                quals.append(self._advance().value.strip("_"))
            while self._peek_type() == "CUDA" and self._specifiers is not None:  # ``int* __device__ at(int i)``
                self._specifiers["function"].append(self._advance().value)
            layers.append((tok, quals))
        return layers

    def _with_layers(self, decl, layers: list):
        ptr = None
        for tok, quals in layers:
            at = self._tok_coord(tok)
            ptr = c_ast.PtrDecl(quals, ptr, at) if tok.type == "TIMES" else RefDecl(quals, ptr, tok.type == "LAND", at)
        return self._type_modify_decl(decl, ptr) if ptr is not None else decl

    def _parse_declarator_name(self) -> str:
        """A name, ``A::b`` or ``operator+``, as one string."""
        if self._peek_type() == "OPERATOR":
            return self._parse_operator_name()
        mark = self._mark()
        name = self._parse_qual_name()
        if self._peek_type() in ("COLONCOLON", "OPERATOR") and self._peek_type(2) in ("OPERATOR", "NOT"):
            self._accept("COLONCOLON")
        if self._peek_type() == "OPERATOR":
            full = f"{name.text}::{self._parse_operator_name()}"
            if name.parts[-1].args is not None:
                self._owner_args[full] = name.parts[-1].args
            return full
        if len(name.parts) == 1 and name.parts[0].args is None:
            return name.parts[0].name
        if name.parts[-1].args is not None:
            self._specialised[name.text] = name.parts[-1].args
        if len(name.parts) > 1 and name.parts[-2].args is not None:
            self._owner_args[name.text] = name.parts[-2].args
        del mark
        return name.text

    def _parse_operator_name(self) -> str:
        self._expect("OPERATOR")
        tok = self._advance()
        if tok.type in ("LPAREN", "LBRACKET"):
            return "operator" + tok.value + self._advance().value
        if tok.value == '""' and self._peek_type() in ("ID", "TYPEID"):
            return literal_operator(self._advance().value)
        return "operator" + tok.value

    def _parse_decl_suffixes(self, decl):
        """Array bounds and parameter lists; a ``(`` that starts constructor arguments is left for the initialiser."""
        while True:
            kind = self._peek_type()
            if kind == "LBRACKET":
                coord = self._tok_coord(self._advance())
                dim = None
                if self._peek_type() != "RBRACKET":
                    dim = self._parse_bracketed(self._parse_conditional_expression)
                self._expect("RBRACKET")
                decl = self._type_modify_decl(decl, c_ast.ArrayDecl(None, dim, [], coord))
            elif kind == "LPAREN" and self._is_parameter_list():
                decl = self._type_modify_decl(decl, self._parse_function_decl(decl))
            else:
                return decl

    def _is_parameter_list(self) -> bool:
        mark = self._mark()
        self._advance()
        try:
            unnamed = self._peek_type(2) == "LPAREN" and self._peek_type(3) in _PTR and self._peek_type(4) == "RPAREN"
            return self._peek_type() in ("RPAREN", "ELLIPSIS") or unnamed or self._starts_declaration()
        finally:
            self._reset(mark)

    def _parse_function_decl(self, base_decl):
        self._expect("LPAREN")
        saved, self._no_gt = self._no_gt, False
        params = []
        while self._peek_type() != "RPAREN":
            if tok := self._accept("ELLIPSIS"):
                params.append(c_ast.EllipsisParam(self._tok_coord(tok)))
            else:
                params.append(self._parse_parameter_declaration_body())
            if not self._accept("COMMA"):
                break
        self._expect("RPAREN")
        self._no_gt = saved
        if len(params) == 1 and isinstance(params[0], c_ast.Typename) and _is_void(params[0]):
            params = []
        args = c_ast.ParamList(params, base_decl.coord)
        return c_ast.FuncDecl(args, None, base_decl.coord)

    def _parse_parameter_declaration_body(self):
        self._need_type = True  # a parameter starts with its type, known or not
        spec, _, coord = self._parse_declaration_specifiers(allow_no_type=False)
        decl = None
        self._pack = False
        if self._starts_declarator() or self._peek_type() == "LBRACKET":
            decl = self._parse_cxx_declarator(abstract=True)
        pack = self._pack
        if decl is None or name_of(decl) is None:
            node = self._build_type_name(spec, decl, coord)
            if self._accept("EQUALS"):
                self._parse_initializer()
            return c_ast.Decl(None, [], [], ["pack"], [], node.type, None, None, coord) if pack else node
        node = self._build_declarations(spec=spec, decls=[{"decl": decl}])[0]
        if pack:
            node.storage = [*(node.storage or []), "pack"]
        if self._accept("EQUALS"):
            node.init = self._parse_initializer()
        return node

    def _parse_type_name(self):
        self._need_type = True  # nothing but a type can stand here, known or not
        spec, saw_type, coord = self._parse_specifiers(allow_storage_and_function=False)
        if spec is None or not saw_type:
            tok = self._peek()
            self._parse_error(f"expected a type before '{tok.value if tok else 'end of file'}'", self._here())
        return self._build_type_name(spec, self._parse_abstract_declarator_opt(), coord)

    def _parse_conversion_type(self):
        """The type behind ``operator``: specifiers and pointers; a bracket starts the parameter list."""
        mark = self._mark()
        spec, _, coord = self._parse_specifiers(allow_storage_and_function=False)
        if spec is None:  # nothing but a type can stand here, known or not
            self._reset(mark)
            coord = self._here()
            spec = {"qual": [], "storage": [], "type": [self._parse_named_type()], "function": [], "alignment": []}
            spec["type_attributes"] = []
        decl = self._with_layers(c_ast.TypeDecl(None, None, None, None, coord=coord), self._parse_pointer_layers())
        return self._build_type_name(spec, decl, coord)

    # ------------------------------------------------------------------ initialisers
    def _parse_init_declarator(self, id_only: bool = False):
        return self._parse_declarator_init(self._parse_cxx_declarator(abstract=False))

    def _parse_declarator_init(self, decl):
        """Attributes and an optional initialiser after ``decl``; the name is in scope from here on, as in C++."""
        if (name := name_of(decl)) is not None:
            self._add_identifier(name, decl.coord)
        align: list = []
        while self._peek_type() == "CUDA_ARGS":
            self._parse_cuda_args(lambda new, kind: align.append(new) if isinstance(new, c_ast.Alignas) else None)
        found = {"decl": decl, "align": align}
        tok = self._peek()
        kind = tok.type if tok else None
        if kind == "EQUALS":
            self._advance()
            return found | {"init": self._parse_initializer()}
        if kind in ("LPAREN", "LBRACE"):
            close = "RPAREN" if kind == "LPAREN" else "RBRACE"
            args = self._parse_argument_list(close)
            return found | {"init": CtorInit(args, kind == "LBRACE", coord=self._tok_coord(tok))}
        return found

    def _parse_argument_list(self, close: str) -> list:
        """Arguments after an opening bracket still to be consumed, up to ``close``."""
        self._advance()
        saved, self._no_gt = self._no_gt, False
        args = []
        while self._peek_type() != close:
            args.append(self._parse_initializer_item())
            if self._accept("ELLIPSIS"):
                from .cxx_ast import PackExpansion

                args[-1] = PackExpansion(args[-1], coord=args[-1].coord)
            if not self._accept("COMMA"):
                break
        self._expect(close)
        self._no_gt = saved
        return args

    def _next(self):
        """The next token, where there must be one."""
        tok = self._peek()
        if tok is None:
            self._parse_error("unexpected end of file", self.clex.filename)
        return tok

    def _here(self):
        tok = self._peek()
        return self._tok_coord(tok) if tok is not None else None


def name_of(decl) -> str | None:
    while not isinstance(decl, c_ast.TypeDecl):
        decl = decl.type
    return decl.declname


def _is_void(node: c_ast.Typename) -> bool:
    t = node.type
    return isinstance(t, c_ast.TypeDecl) and isinstance(t.type, c_ast.IdentifierType) and t.type.names == ["void"]


def literal_operator(suffix: str) -> str:
    """The function that a literal with a suffix of the program's own calls: ``1.0_h`` is ``operator""_h(1.0)``."""
    return f'operator""{suffix}'
