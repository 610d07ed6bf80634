"""The grammar of a workload's formulas: expressions over names, where any identifier of C is a name.

    choice   = or ["if" or "else" choice]
    or, and  = ... joined by "or", "and"            not = "not" not | compare
    compare  = sums joined by < <= > >= == !=
    the rest = | ^ & << >> + - * / // % @, in the order of their precedence; - + ~ before, ** above them
    postfix  = atom {"(" arguments ")" | "[" subscripts "]"}
    atom     = number | string | name | "(" choice {"," choice} ")" | "[" choice {"," choice} "]"

Precedences are Python's. The result is made of the nodes of Python's :mod:`ast`, for their names say what they are, but
Python's own parser never sees the text: `in`, `is`, `lambda`, `def`, `None` and `True` are parameters of kernels like
any others. ``and``, ``or``, ``not``, ``if`` and ``else`` are operators where an operator may stand, and else names.
"""

from __future__ import annotations

import ast
import re
from typing import Any, NoReturn

MAX_TEXT = 4000
MAX_DEPTH = 60

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>0[xX][0-9a-fA-F]+|(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
          |(?P<name>[^\W\d]\w*)
          |(?P<string>'[^'\n]*'|"[^"\n]*")
          |(?P<op>\*\*|//|<<|>>|<=|>=|==|!=|[-+*/%@&|^~<>()\[\],:=])
          |(?P<end>\Z))""",
    re.VERBOSE,
)

_LEVELS: tuple[dict[str, type], ...] = (
    {"|": ast.BitOr},
    {"^": ast.BitXor},
    {"&": ast.BitAnd},
    {"<<": ast.LShift, ">>": ast.RShift},
    {"+": ast.Add, "-": ast.Sub},
    {"*": ast.Mult, "/": ast.Div, "//": ast.FloorDiv, "%": ast.Mod, "@": ast.MatMult},
)
"""Binary operators from loose to tight."""

_BINARY = {op: (level, made) for level, ops in enumerate(_LEVELS) for op, made in ops.items()}

_COMPARE: dict[str, type] = {
    "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "==": ast.Eq, "!=": ast.NotEq,
}  # fmt: skip
_UNARY: dict[str, type] = {"-": ast.USub, "+": ast.UAdd, "~": ast.Invert}
_JOINED: tuple[tuple[str, type], ...] = (("or", ast.Or), ("and", ast.And))

_AFTER_OPERAND = ("and", "or", "if", "else")
"""Words that are operators wherever an operand has just ended."""


class GrammarError(ValueError):
    """A text that is no formula; ``at`` is the offset of the first character that does not fit."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.message, self.at = message, at


def parse_formula(text: str) -> ast.expr:
    """The syntax tree of ``text``; ``col_offset`` of a node is the offset of its first character in ``text``.

    Raises:
        GrammarError: with the place where the text stops being a formula.
    """
    return _Parser(text).whole()


class _Parser:
    """Recursive descent over the tokens (kind, text, offset) of one formula; ``self.at`` is the next one's index."""

    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.at, self.depth = 0, 0

    def whole(self) -> ast.expr:
        tree = self.choice()
        if self.kind != "end":
            self.fail(f"'{self.text}' does not belong there")
        return tree

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    @property
    def text(self) -> str:
        return self.tokens[self.at][1]

    @property
    def offset(self) -> int:
        return self.tokens[self.at][2]

    def fail(self, message: str) -> NoReturn:
        raise GrammarError(message, self.offset)

    def take(self, *ops: str) -> str:
        """The next token if it is one of these operators or words, else ''."""
        found = self.text if self.kind in ("op", "name") and self.text in ops else ""
        self.at += bool(found)
        return found

    def need(self, op: str) -> None:
        if not self.take(op):
            self.fail(f"'{op}' is missing" + (f" before '{self.text}'" if self.text else " at the end"))

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"it is nested deeper than {MAX_DEPTH}")

    def choice(self) -> ast.expr:
        start = self.offset
        self.deeper()
        value = self.joined(0)
        if self.take("if"):
            test = self.joined(0)
            self.need("else")
            value = _placed(ast.IfExp(test=test, body=value, orelse=self.choice()), start)
        self.depth -= 1
        return value

    def joined(self, level: int) -> ast.expr:
        """Operands joined by ``or``; one level down by ``and``."""
        if level == len(_JOINED):
            return self.negated()
        start, (word, op) = self.offset, _JOINED[level]
        values = [self.joined(level + 1)]
        while self.take(word):
            values.append(self.joined(level + 1))
        return values[0] if len(values) == 1 else _placed(ast.BoolOp(op=op(), values=values), start)

    def negated(self) -> ast.expr:
        start = self.offset
        if self.text == "not" and self.kind == "name" and self.begins_operand(self.at + 1):
            self.at += 1
            self.deeper()
            found = _placed(ast.UnaryOp(op=ast.Not(), operand=self.negated()), start)
            self.depth -= 1
            return found
        return self.compared()

    def begins_operand(self, at: int) -> bool:
        kind, text, _ = self.tokens[at]
        if kind == "name":
            return text not in _AFTER_OPERAND
        return kind in ("number", "string") or text in ("(", "[", *_UNARY)

    def compared(self) -> ast.expr:
        start = self.offset
        left = self.binary(0)
        ops, others = list[Any](), list[ast.expr]()
        while op := self.take(*_COMPARE):
            ops.append(_COMPARE[op]())
            others.append(self.binary(0))
        return _placed(ast.Compare(left=left, ops=ops, comparators=others), start) if ops else left

    def binary(self, loosest: int) -> ast.expr:
        """Operands joined by binary operators of level ``loosest`` and tighter ones."""
        start = self.offset
        left = self.signed()
        while self.kind == "op" and self.text in _BINARY and _BINARY[self.text][0] >= loosest:
            level, op = _BINARY[self.text]
            self.at += 1
            left = _placed(ast.BinOp(left=left, op=op(), right=self.binary(level + 1)), start)
        return left

    def signed(self) -> ast.expr:
        start = self.offset
        if self.kind == "op" and (op := self.take(*_UNARY)):
            self.deeper()
            found = _placed(ast.UnaryOp(op=_UNARY[op](), operand=self.signed()), start)
            self.depth -= 1
            return found
        base = self.postfix()
        if self.take("**"):
            self.deeper()
            base = _placed(ast.BinOp(left=base, op=ast.Pow(), right=self.signed()), start)
            self.depth -= 1
        return base

    def postfix(self) -> ast.expr:
        start = self.offset
        value = self.atom()
        while bracket := self.take("(", "["):
            if bracket == "(":
                args, keywords = self.arguments()
                value = _placed(ast.Call(func=value, args=args, keywords=keywords), start)
            else:
                value = _placed(ast.Subscript(value=value, slice=self.subscripts()), start)
        return value

    def arguments(self) -> tuple[list[ast.expr], list[ast.keyword]]:
        args, keywords = list[ast.expr](), list[ast.keyword]()
        while not self.take(")"):
            if self.kind == "name" and self.tokens[self.at + 1][1] == "=":
                name, start = self.text, self.offset
                self.at += 2
                keywords.append(_placed(ast.keyword(arg=name, value=self.choice()), start))
            elif keywords:
                self.fail("an argument without a name comes after one with a name")
            else:
                args.append(self.choice())
            if not self.take(","):
                self.need(")")
                break
        return args, keywords

    def subscripts(self) -> ast.expr:
        start, found, comma = self.offset, list[ast.expr](), False
        while not self.take("]"):
            found.append(self.subscript())
            if not self.take(","):
                self.need("]")
                break
            comma = True
        if not found:
            raise GrammarError("an index is missing", start)
        return _placed(ast.Tuple(elts=found), start) if comma else found[0]

    def subscript(self) -> ast.expr:
        start, parts, colons = self.offset, list[ast.expr | None]([None, None, None]), 0
        while True:
            if self.text not in (":", ",", "]") or self.kind == "string":
                parts[colons] = self.choice()
            if colons == 2 or not self.take(":"):
                break
            colons += 1
        if colons:
            return _placed(ast.Slice(lower=parts[0], upper=parts[1], step=parts[2]), start)
        if parts[0] is None:
            self.fail("an index is missing")
        return parts[0]

    def atom(self) -> ast.expr:
        kind, text, start = self.tokens[self.at]
        if kind == "end":
            self.fail("it ends where a value should follow")
        self.at += 1
        if kind == "name":
            return _placed(ast.Name(id=text), start)
        if kind == "number":
            return _placed(ast.Constant(value=_number(text, start)), start)
        if kind == "string":
            return _placed(ast.Constant(value=text[1:-1]), start)
        if text in ("(", "["):
            return self.several(text, start)
        raise GrammarError(f"a value should stand where '{text}' is", start)

    def several(self, bracket: str, start: int) -> ast.expr:
        """What is in parentheses or brackets: one value, a tuple or a list."""
        close, items, comma = {"(": ")", "[": "]"}[bracket], list[ast.expr](), False
        while not self.take(close):
            items.append(self.choice())
            if not self.take(","):
                self.need(close)
                break
            comma = True
        if bracket == "[":
            return _placed(ast.List(elts=items), start)
        return items[0] if len(items) == 1 and not comma else _placed(ast.Tuple(elts=items), start)


def _tokens(text: str) -> Any:
    """(kind, text, offset) of every token, the end last."""
    at, last = 0, ""
    while last != "end":
        m = _TOKEN.match(text, at)
        if m is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            raise GrammarError(f"'{text[start]}' is not part of a formula", start)
        last = str(m.lastgroup)
        at = m.end()
        if last == "number" and at < len(text) and (text[at].isalpha() or text[at] in "_."):
            raise GrammarError(f"'{m[last]}{text[at]}' is not a number", m.start(last))
        yield last, m[last], m.start(last)


def _number(text: str, at: int) -> int | float:
    try:
        if text[:2] in ("0x", "0X"):
            return int(text, 16)
        return int(text) if text.replace("_", "").isdigit() else float(text)
    except ValueError:
        raise GrammarError(f"'{text}' is not a number", at) from None


def _placed(node: Any, at: int) -> Any:
    node.lineno = node.end_lineno = 1
    node.col_offset = node.end_col_offset = at
    return node
