"""What the parser relies on in pycparser, pinned: its private methods have moved between releases."""

from __future__ import annotations

import importlib.metadata
import inspect

import pytest
from pycparser import c_ast
from pycparser.c_lexer import CLexer, Token
from pycparser.c_parser import CParser, _TokenStream

from ktc.ir.frontend.syntax.cxx_parser import CudaParser

OVERRIDDEN = {
    "_parse_error", "_add_typedef_name", "_add_identifier", "_starts_declaration", "_parse_specifiers",
    "_starts_declarator",
    "_parse_declarator", "_parse_id_declarator", "_parse_abstract_declarator_opt", "_parse_decl_suffixes",
    "_parse_function_decl", "_parse_parameter_declaration_body", "_parse_type_name", "_parse_init_declarator",
    "_starts_expression", "_parse_binary_expression", "_parse_assignment_expression", "_parse_conditional_expression",
    "_try_parse_paren_type_name", "_parse_unary_expression", "_parse_postfix_expression", "_parse_primary_expression",
    "_parse_initializer", "_parse_initializer_item", "_parse_block_item_list", "_parse_block_item",
    "_parse_static_assert", "_parse_statement",
    "_parse_external_declaration", "_parse_enum_specifier",
}  # fmt: skip

USED = {
    "_push_scope", "_pop_scope", "_is_type_in_scope", "_type_modify_decl", "_build_declarations",
    "_build_type_name", "_peek",
    "_peek_type", "_advance", "_accept", "_expect", "_mark", "_reset", "_tok_coord", "_parse_alignment_specifier",
    "_parse_attribute_specifier_sequence", "_parse_declaration_specifiers", "_parse_unified_string_literal",
    "_parse_compound_statement", "_parse_pragmacomp_or_statement", "_parse_pppragma_directive",
    "_parse_expression", "_parse_expression_opt", "_parse_cast_expression", "_parse_constant_expression",
    "_parse_labeled_statement", "_is_assignment_op",
}  # fmt: skip


def test_version_is_pinned():
    assert importlib.metadata.version("pycparser") == "3.12"


@pytest.mark.parametrize("name", sorted(OVERRIDDEN | USED))
def test_method_exists(name):
    assert callable(getattr(CParser, name))


@pytest.mark.parametrize("name", sorted(OVERRIDDEN))
def test_override_takes_the_same_arguments(name):
    ours = list(inspect.signature(getattr(CudaParser, name)).parameters)
    theirs = list(inspect.signature(getattr(CParser, name)).parameters)
    assert ours[: len(theirs)] == theirs


def test_token_stream_buffer_can_be_split():
    tokens = iter([Token("RSHIFT", ">>", 1, 1, "f"), None])
    stream = _TokenStream(lambda: next(tokens))
    assert stream.peek().type == "RSHIFT"
    assert isinstance(stream._buffer, list) and stream._index == 0


def test_lexer_keyword_map_is_per_instance():
    a = CLexer(lambda *args: None, dialect="c23")
    a._keyword_map["zzz"] = "ZZZ"
    assert "zzz" not in CLexer(lambda *args: None, dialect="c23")._keyword_map


def test_node_shapes():
    assert c_ast.Enum.__slots__[:3] == ("name", "values", "underlying_type")
    assert c_ast.PtrDecl.__slots__[:2] == ("quals", "type")
    assert c_ast.Decl.__slots__[:5] == ("name", "quals", "align", "storage", "funcspec")
