"""The parser: translation units of CUDA C++, with recovery at the top level.

It is a subclass of pycparser's hand-written recursive-descent C parser. The private methods that are overridden or
relied upon are pinned by ``tests/ir/frontend/syntax/test_pycparser_contract.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from pycparser import c_ast
from pycparser.c_parser import ParseError

from ktc.ir.diagnostics import InternalError, KtcError, Loc
from ktc.ir.frontend.dialects.dialect import CUDA, OPENCL, Dialect
from ktc.ir.frontend.library.device_libraries import Library
from ktc.ir.frontend.meaning.cxx_types import TYPE_NAMES
from ktc.ir.frontend.meaning.type_traits import VALUES

from .cxx_ast import OWNED, SPECIALISED, Function, NamedType, NamePart, Namespace, Record
from .lexer import CudaLexer, TokenList
from .parse_decls import name_of
from .parse_templates import TemplateParser

TRAIT_VALUES = frozenset(f"{name}_v" for name in VALUES)
"""Variable templates of ``<type_traits>``."""

POINTS_TO = {"__shared__": "local pointer", "__constant__": "constant pointer"}
"""What a qualifier before a pointer declaration says in OpenCL: where it points."""


class CudaParser(TemplateParser):
    """Parses preprocessed CUDA C++ into pycparser's tree plus the nodes of ``cxx_ast``."""

    def __init__(self, libraries: Sequence[Library] = (), dialect: Dialect = CUDA) -> None:
        super().__init__(lexer=CudaLexer, dialect="c23")
        self.clex.words = dialect.words
        self._language = dialect
        self._libraries = tuple(libraries)
        self._templates: set[str] = set(TRAIT_VALUES).union(*(lib.templates for lib in self._libraries))
        self._namespace_aliases: dict[str, list[NamePart]] = {}
        self._library_types: dict[str, frozenset[str]] = {}
        self._enumerators: dict[str, frozenset[str]] = {}
        for library in self._libraries:
            self._namespace_aliases.update(library.aliases)
            self._enumerators.update(library.enumerators)
            for namespace, types in library.types.items():
                self._library_types[namespace] = self._library_types.get(namespace, frozenset()) | types
        self._member_types: set[str] = set()
        self._concepts: set[str] = set()
        self._constraints: list[Any] = []
        self._class_types: dict[str, dict[str, bool]] = {}
        self._specialised: dict[str, list] = {}
        self._owner_args: dict[str, list] = {}
        self._no_template_args: set[int] = set()
        self._taken_apart: dict[int, Any] = {}
        self._no_gt = False
        self._host_body = False
        self._record: list[str] = []

    def parse_unit(
        self, text: str, filename: str, types: Iterable[str] = (), templates: Iterable[str] = ()
    ) -> list[c_ast.Node]:
        """Top-level declarations of ``text``, which may name ``types`` and ``templates``; what does not parse becomes a
        ``Bad`` node."""
        self._templates.update(templates)
        self._scope_stack = [dict.fromkeys((*TYPE_NAMES, *self._language.types, *types), True)]
        self._scope_stack[0].update(dict.fromkeys(self._library_types.get("", ()), True))
        self._typedef_checked_token = None
        self.clex.input(text, filename)
        self._tokens = TokenList(self.clex.tokens())
        if "..." not in text:
            self._folds_of, self._folds = self._tokens, frozenset()
        return self._parse_items(until=None)

    def _parse_error(self, msg: str, coord) -> NoReturn:
        msg = msg.replace("before: ", "unexpected ")
        if isinstance(coord, str):  # pycparser knows only the file here
            coord = self._here() or coord
        raise KtcError("E-PARSE-SYNTAX", msg, to_loc(coord, self.clex.filename))

    def refused(self, raised: Exception, start: Any) -> KtcError:
        """What is said of a declaration at ``start`` that cannot be read: the user's error, or ours, called so."""
        if isinstance(raised, KtcError):
            return raised
        if isinstance(raised, ParseError):
            place = to_loc(self._here() or start, self.clex.filename)
            return KtcError("E-PARSE-SYNTAX", f"cannot parse this declaration ({raised})", place)
        return InternalError(raised, to_loc(start, self.clex.filename))

    def _unsupported(self, what: str, coord, hint: str) -> NoReturn:
        raise KtcError("E-UNSUPPORTED-SYNTAX", f"{what} is not supported", to_loc(coord, self.clex.filename), hint=hint)

    # ------------------------------------------------------------------ top level
    def _parse_items(self, until: str | None) -> list[c_ast.Node]:
        items: list[c_ast.Node] = []
        while (kind := self._peek_type()) is not None and kind != until:
            self._forget_splits()
            mark, depth, records, start = self._mark(), len(self._scope_stack), len(self._record), self._here()
            try:
                items.extend(self._parse_external_declaration())
            except RecursionError:
                raise
            except Exception as raised:
                error = self.refused(raised, start)
                del self._scope_stack[depth:], self._record[records:]
                self._typedef_checked_token, self._no_gt, self._host_body = None, False, False
                self._reset(mark)
                items.append(self._skip_external(error, until))
        return items

    def _parse_external_declaration(self) -> list[c_ast.Node]:
        tok = self._peek()
        kind = tok.type
        if kind == "SEMI":
            self._advance()
            return []
        if kind in ("PPPRAGMA", "_PRAGMA"):
            pragma = self._parse_pppragma_directive()
            self._note_pragma(str(pragma.string))
            return [pragma]
        if kind == "ATTRIBUTE_BEGIN":
            self._parse_attribute_specifier_sequence()
            return self._parse_external_declaration()
        if kind == "_STATIC_ASSERT":
            return [self._parse_static_assert()]
        if kind == "TEMPLATE":
            return [self._parse_template()]
        if kind == "NAMESPACE" or (kind == "INLINE" and self._peek_type(2) == "NAMESPACE"):
            return [self._parse_namespace()]
        if kind == "USING":
            return [self._parse_using()]
        if kind == "EXTERN" and str(self._peek_type(2)).endswith("STRING_LITERAL"):
            self._advance()
            self._advance()
            if self._accept("LBRACE"):
                items = self._parse_items(until="RBRACE")
                self._expect("RBRACE")
                return items
            return self._parse_external_declaration()
        return self._parse_simple_declaration(top=True)

    def _parse_namespace(self) -> Namespace:
        self._accept("INLINE")
        tok = self._expect("NAMESPACE")
        names = []
        while self._peek_type() not in ("LBRACE", "EQUALS", None):
            names.append(self._advance().value)
        if self._accept("EQUALS"):
            self._namespace_aliases["".join(names)] = self._parse_qual_name().parts
            self._expect("SEMI")
            return Namespace("", [], coord=self._tok_coord(tok))
        self._expect("LBRACE")
        items = self._parse_items(until="RBRACE")
        self._expect("RBRACE")
        return Namespace("".join(names), items, coord=self._tok_coord(tok))

    # ------------------------------------------------------------------ declarations and functions
    def _parse_simple_declaration(self, top: bool = False) -> list:
        """Specifiers, declarators and ``;``, or a function definition."""
        spec, saw_type, coord = self._parse_declaration_specifiers(allow_no_type=True)
        if self._accept("SEMI"):
            for t in spec["type"]:
                if isinstance(t, Record):
                    t.alone = True
            return [t for t in spec["type"] if isinstance(t, Record | c_ast.Enum)]
        types = [t for t in spec["type"] if isinstance(t, Record | c_ast.Enum)]
        if not saw_type:
            if not top or self._peek_type() not in ("ID", "TYPEID"):
                tok = self._peek()
                self._parse_error(
                    f"expected a declaration before '{tok.value if tok else 'end of file'}'", self._here()
                )
            spec["type"] = [c_ast.IdentifierType(["void"], coord=coord)]
        owner = _constructor_of(spec["type"][-1]) if top and self._peek_type() == "LPAREN" else None
        if owner is not None:
            full = f"{owner.name}::{owner.name}"
            if owner.args is not None:
                self._owner_args[full] = owner.args
            decl = c_ast.TypeDecl(full, None, None, None, coord=coord)
            spec["type"] = [c_ast.IdentifierType(["void"], coord=coord)]
            decl = self._type_modify_decl(decl, self._parse_function_decl(decl))
            return [self._parse_function(spec, decl, "ctor")]
        if top and self._peek_type() == "OPERATOR" and self._behind() == "COLONCOLON":
            return [self._parse_outer_conversion(spec, coord)]
        decl = self._parse_cxx_declarator(abstract=False)
        if isinstance(decl, c_ast.FuncDecl):
            return [*types, self._parse_function(spec, decl, "function")]
        if not saw_type:
            self._parse_error(f"'{name_of(decl)}' is declared without a type", coord)
        if top and self._in_template and (name := name_of(decl)) is not None:
            self._templates.add(name)  # its initialiser may name other instances of it
        infos = [self._parse_declarator_init(decl)]
        while self._accept("COMMA"):
            infos.append(self._parse_init_declarator())
        while self._peek_type() in ("PPPRAGMA", "_PRAGMA"):
            self._parse_pppragma_directive()
        self._expect("SEMI")
        declared = self._build_declarations(spec=spec, decls=infos, typedef_namespace=True)
        for d in declared:
            name = getattr(d, "name", None) or ""
            for word, table in ((SPECIALISED, self._specialised), (OWNED, self._owner_args)):
                if (args := table.pop(name, None)) is not None:
                    d.funcspec = [*(d.funcspec or []), (word, args)]
        return [*types, *declared]

    def _behind(self) -> str | None:
        """The type of the token that was read last."""
        tok = self._tokens._buffer[self._mark() - 1]
        return None if tok is None else tok.type

    def _parse_outer_conversion(self, spec, coord) -> Function:
        """``C<T>::operator T*()``, behind the ``::``: a conversion defined outside of its class."""
        parts = spec["type"][-1].name.parts
        owner = "::".join(part.name for part in parts) + "::"
        if parts[-1].args is not None:
            self._owner_args[f"{owner}operator type"] = parts[-1].args
        return self._parse_conversion(spec, coord, owner)

    def _build_declarations(self, **given):
        """OpenCL's address space of what a pointer points to is no property of the pointer variable. Attributes behind
        a declarator are of its variable alone."""
        decls = super()._build_declarations(**given)
        for d, info in zip(decls, given["decls"]):
            if info.get("align") and isinstance(d, c_ast.Decl):
                d.align = [*(d.align or []), *info["align"]]
        for d in decls:
            of = d.type.type if isinstance(d, c_ast.Typedef) and isinstance(d.type, c_ast.TypeDecl) else None
            if isinstance(of, Record) and not of.name:  # the name for all purposes but the scope's ([dcl.typedef])
                of.name = d.name
        if self._language is OPENCL:
            for d in decls:
                if isinstance(getattr(d, "type", None), c_ast.PtrDecl) and d.funcspec:
                    d.funcspec = [POINTS_TO.get(s, s) for s in d.funcspec if isinstance(s, str)]
        return decls


def _constructor_of(spec: c_ast.Node) -> NamePart | None:
    """The class where a declaration starts with ``C::C`` or ``C<T>::C``: a constructor defined outside of it."""
    parts = spec.name.parts if isinstance(spec, NamedType) else []
    return parts[-2] if len(parts) > 1 and parts[-1].name == parts[-2].name else None


def to_loc(coord, file: str) -> Loc:
    """A pycparser coordinate as a place."""
    if coord is None or isinstance(coord, str):
        return Loc(str(coord or file), 1)
    return Loc(coord.file or file, coord.line, coord.column or 1)
