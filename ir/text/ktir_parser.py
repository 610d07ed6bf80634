"""``.ktir`` text to IR: the lark parser, its limits, and errors with a line, a column and a caret."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from lark import Lark, Tree, UnexpectedInput
from lark.exceptions import UnexpectedEOF
from lark.indenter import DedentError, Indenter

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, Knob, Sym
from ktc.ir.support.grammars import load_grammar

from .read_exprs import ExprReader
from .read_kernel import KernelReader

MAX_KERNEL_CHARS = 4 << 20
MAX_EXPR_CHARS = 1 << 16
MAX_DEPTH = 250
"""Nesting of the parse tree. Text comes from files and from planners, so both limits hold for every parse."""


class _Indenter(Indenter):
    NL_type = "_NL"
    OPEN_PAREN_types = ["LPAR", "LSQB", "LBRACE"]  # noqa: RUF012 - lark's protocol
    CLOSE_PAREN_types = ["RPAR", "RSQB", "RBRACE"]  # noqa: RUF012
    INDENT_type = "_INDENT"
    DEDENT_type = "_DEDENT"
    tab_len = 8


def parse_kernel(text: str, file: str = "<ktir>") -> Kernel:
    """The kernel that ``text`` spells.

    Raises:
        KtcError: E-TEXT-SYNTAX, E-TEXT-NAME, E-TEXT-TYPE, E-TEXT-LIMIT or E-TEXT, with place and caret.
    """
    tree = _parse("kernel", text if text.endswith("\n") else text + "\n", file, MAX_KERNEL_CHARS)
    return KernelReader(file, text).kernel(tree)


def parse_expr(text: str, symbols: Mapping[str, Sym | Knob], file: str = "<expression>") -> Expr:
    """One C-like expression over ``symbols`` (``cdiv(n, 4) * min(d, 1024)``); knobs are written ``$V``, or bare if
    ``symbols`` maps their name to a knob.

    Raises:
        KtcError: as :func:`parse_kernel`.
    """
    return ExprReader(file, text, symbols).expr(_parse("start_expr", text, file, MAX_EXPR_CHARS))


@cache
def _lark(start: str) -> Lark:
    """One parser per start rule: the expression grammar alone builds its tables in a third of the time."""
    postlex = _Indenter() if start == "kernel" else None
    return load_grammar(Path(__file__).with_name("ktir.lark"), start, postlex=postlex)


def _parse(start: str, text: str, file: str, limit: int) -> Tree:
    if len(text) > limit:
        raise KtcError("E-TEXT-LIMIT", f"text of {len(text)} characters; the limit is {limit}", Loc(file, 1))
    try:
        tree = _lark(start).parse(text)
    except DedentError:
        raise KtcError(
            "E-TEXT-SYNTAX", "indentation does not match any enclosing block", _bad_dedent(text, file), source=text
        ) from None
    except UnexpectedInput as e:
        raise _syntax_error(e, text, file) from None
    if _too_deep(tree):
        raise KtcError("E-TEXT-LIMIT", f"nested more than {MAX_DEPTH} levels deep", Loc(file, 1), source=text)
    return tree


def _syntax_error(e: UnexpectedInput, text: str, file: str) -> KtcError:
    lines = text.splitlines() or [""]
    token = str(getattr(e, "token", "") or "")
    line, col = int(getattr(e, "line", 0) or 0), int(getattr(e, "column", 0) or 0)
    if (
        isinstance(e, UnexpectedEOF)
        or line <= 0
        or line > len(lines)
        or getattr(getattr(e, "token", None), "type", "") == "$END"
    ):
        last = max((i for i, row in enumerate(lines, 1) if row.strip()), default=1)
        return KtcError(
            "E-TEXT-SYNTAX", "unexpected end of text", Loc(file, last, len(lines[last - 1]) + 1), source=text
        )
    found = token.strip() or "end of line" if token else lines[line - 1][col - 1 : col]
    wanted = sorted(getattr(e, "accepts", None) or getattr(e, "expected", None) or getattr(e, "allowed", None) or ())
    names = [_TOKEN_NAMES.get(w, w.lower().lstrip("_")) for w in wanted if not w.startswith("__ANON")]
    hint = f"expected one of: {', '.join(names)}" if 0 < len(names) <= 12 else ""
    return KtcError("E-TEXT-SYNTAX", f"unexpected {found!r}", Loc(file, line, col), hint, source=text)


_TOKEN_NAMES = {"LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "COMMA": ",", "COLON": ":", "EQUAL": "=", "AT": "@",
                "_NL": "end of line", "_INDENT": "an indented block", "_DEDENT": "end of block"}  # fmt: skip


def _bad_dedent(text: str, file: str) -> Loc:
    """The first line whose indentation matches no enclosing block."""
    stack = [0]
    for number, row in enumerate(text.splitlines(), 1):
        if not row.strip() or row.strip().startswith("#"):
            continue
        width = len(row) - len(row.lstrip())
        if width > stack[-1]:
            stack.append(width)
            continue
        while width < stack[-1]:
            stack.pop()
        if width != stack[-1]:
            return Loc(file, number, width + 1)
    return Loc(file, 1)


def _too_deep(tree: Tree) -> bool:
    level: list[Tree] = [tree]
    for _ in range(MAX_DEPTH):
        level = [c for t in level for c in t.children if isinstance(c, Tree)]
        if not level:
            return False
    return True
