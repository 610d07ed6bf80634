"""Looking ahead where a type, a declaration or an expression may stand ([stmt.ambig], [dcl.ambig.res])."""

from __future__ import annotations

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.library.device_libraries import why_not_built

from .cxx_ast import QualName
from .parse_names import NameParser

TYPE_SUFFIXES = ("_t", "Type", "type", "_type")
"""Last components of unknown qualified names (``Traits<T>::value_type``) that are taken for types."""

BASIC_TYPES = frozenset({
    "VOID", "_BOOL", "CHAR", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "SIGNED", "UNSIGNED", "WCHAR",
})  # fmt: skip

DECL_WORDS = frozenset({
    *BASIC_TYPES, "STRUCT", "UNION", "ENUM", "CLASS", "CONST", "VOLATILE", "RESTRICT", "STATIC", "EXTERN", "REGISTER",
    "TYPEDEF", "AUTO", "CONSTEXPR", "INLINE", "_ALIGNAS", "CUDA", "CUDA_ARGS", "CXX_SPEC", "TYPENAME", "DECLTYPE",
    "_THREAD_LOCAL",
})  # fmt: skip
"""Token types that can only start a declaration."""

_AFTER_DECLARED = frozenset({"SEMI", "EQUALS", "COMMA", "LPAREN", "LBRACE", "LBRACKET", "COLON", "COLONCOLON", "RPAREN",
                             "LT", "ATTRIBUTE_BEGIN", "CUDA_ARGS", None})  # fmt: skip
"""What may stand behind a name that is being declared."""

_OF_POINTERS = frozenset({"TIMES", "AND", "LAND", "CONST", "VOLATILE", "RESTRICT"})
_AFTER_TYPE = frozenset({"RPAREN", "GT", "RSHIFT", "COMMA"})
"""What may stand behind the type of a cast or a template argument."""

STD_TYPES = frozenset({
    "size_t", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "ptrdiff_t",
    "conditional_t", "enable_if_t", "remove_const_t", "remove_cv_t", "remove_reference_t", "decay_t", "array", "pair",
    "tuple", "vector", "string", "complex", "integral_constant", "true_type", "false_type", "make_unsigned_t",
    "underlying_type_t", "common_type_t", "remove_pointer_t", "add_const_t", "function", "optional", "numeric_limits",
    "is_same", "mt19937", "uniform_real_distribution", "chrono", "string_view", "initializer_list", "nullptr_t",
    "index_sequence", "integer_sequence", "remove_cvref_t", "invoke_result_t", "conditional", "enable_if", "ofstream",
    "ifstream", "stringstream", "ostringstream", "ostream", "istream", "unique_ptr", "shared_ptr", "map", "set",
    "unordered_map", "is_floating_point",
})  # fmt: skip


class AmbiguityParser(NameParser):
    """Whether what stands here is a type or begins a declaration. Nothing is consumed."""

    _library_types: dict[str, frozenset[str]]
    """The types of each library namespace."""
    _member_types: set[str]
    _enumerators: dict[str, frozenset[str]]
    """The enumerators of each enumeration with a name."""

    def _starts_type(self) -> bool:
        """Whether a type certainly starts here (in a cast or template argument, where an expression is possible)."""
        tok = self._peek()
        if tok is None:
            return False
        if tok.type in DECL_WORDS:
            return True
        if tok.type in ("TYPEID", "ID", "COLONCOLON"):
            if tok.type == "ID" and self._peek_type(2) not in ("COLONCOLON", "LT"):
                return self._is_pointer_to_name(2)
            if tok.type == "TYPEID" and self._peek_type(2) not in ("COLONCOLON", "LT"):
                return True
            return self._scan_type_name()
        return False

    def _scan_type_name(self) -> bool:
        mark = self._mark()
        try:
            return self._names_type(self._parse_qual_name()) or self._is_pointer_to_name(1)
        except KtcError:
            return False
        finally:
            self._reset(mark)

    def _is_pointer_to_name(self, at: int) -> bool:
        """Whether the ``at``-th token from here makes a pointer or reference of the name before it, and then the type
        ends: the operand that ``*`` and ``&`` would have in an expression is missing, so the name is a type's."""
        first = at
        while self._peek_type(at) in _OF_POINTERS:
            at += 1
        return at > first and self._peek_type(at) in _AFTER_TYPE

    def _names_type(self, name: QualName) -> bool:
        """Whether a parsed qualified name denotes a type, by its last component."""
        last = name.parts[-1].name
        if len(name.parts) == 1:
            return self._is_type_in_scope(last)
        if last in self._enumerators.get(name.parts[-2].name, ()):
            return False  # whatever else is called so: ``Kind::Half``
        if last in self._library_types.get(name.parts[-2].name, ()) or why_not_built(name.text):
            return True
        if name.parts[0].name == "std" and last.endswith("_v"):
            return False
        if name.parts[0].name == "std" and last in STD_TYPES:
            return True
        if self._is_known(last):
            return self._is_type_in_scope(last)
        if last in self._member_types:
            return True
        return last.endswith(TYPE_SUFFIXES) and last not in ("is_same_type",)

    def _starts_declaration(self, tok=None) -> bool:
        """Whether a declaration starts here, at a place where a statement or parameter may stand.

        Beyond known types: ``Unknown x`` and ``Unknown& x`` are declarations with a type that was not read; naming the
        type is left to the semantic analysis, which refuses it with its place.
        """
        tok = tok or self._peek()
        if tok is None:
            return False
        kind = tok.type
        if kind == "TYPENAME":
            return not self._constructs_dependent()
        if kind in DECL_WORDS:
            return not (kind in BASIC_TYPES and self._peek_type(2) in ("LPAREN", "LBRACE") and self._paren_is_cast())
        if kind == "ATTRIBUTE_BEGIN":
            return True
        if kind not in ("TYPEID", "ID", "COLONCOLON"):
            return False
        after = self._peek_type(2)
        if kind == "TYPEID" and after not in ("COLONCOLON", "LT"):
            return not (after in ("LPAREN", "LBRACE", "PERIOD") and self._paren_is_cast())
        if kind == "ID" and after not in (
            "COLONCOLON",
            "LT",
            "ID",
            "TIMES",
            "AND",
            "LAND",
            "ELLIPSIS",
            "CONST",
            "RESTRICT",
        ):
            return False
        if kind == "ID" and after in ("TIMES", "AND", "LAND", "ELLIPSIS") and self._is_known(tok.value):
            return False
        mark = self._mark()
        try:
            name = self._parse_qual_name()
            if self._names_type(name):
                return not (
                    self._peek_type() in ("LPAREN", "LBRACE", "COLONCOLON")
                    and len(name.parts) > 0
                    and self._paren_is_cast()
                )
            while self._peek_type() in ("TIMES", "AND", "LAND", "CONST", "RESTRICT", "ELLIPSIS"):
                if len(name.parts) == 1 and self._is_known(name.parts[0].name):
                    return False
                self._advance()
            return self._peek_type() in ("ID", "TYPEID") and self._peek_type(2) in _AFTER_DECLARED
        except KtcError:
            return False
        finally:
            self._reset(mark)

    def _constructs_dependent(self) -> bool:
        """At ``typename T::Inner(...)`` of a statement: an object that is made and used, as in ``.run()`` behind it."""
        mark = self._mark()
        try:
            self._advance()
            self._parse_qual_name()
            return self._peek_type() in ("LPAREN", "LBRACE") and self._paren_is_cast()
        except KtcError:
            return False
        finally:
            self._reset(mark)

    def _paren_is_cast(self) -> bool:
        """At ``T (`` of a statement: a functional cast rather than ``T (name)``, which nobody writes.

        ``T (*name)[`` and ``T (&name)[`` declare.
        """
        at = 2 if self._peek_type() != "LPAREN" else 1
        if self._peek_type(at) != "LPAREN" or self._peek_type(at + 1) not in ("TIMES", "AND"):
            return True
        at += 2
        while self._peek_type(at) in ("CONST", "RESTRICT", "VOLATILE"):
            at += 1
        declares = self._peek_type(at + 1) == "RPAREN" and self._peek_type(at + 2) in ("LBRACKET", "LPAREN")
        return not (self._peek_type(at) in ("ID", "TYPEID") and declares)
