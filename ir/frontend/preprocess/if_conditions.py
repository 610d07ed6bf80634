"""The value of an ``#if`` expression after macro expansion: 64-bit integers, short circuits, C++'s word operators."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_TOKEN = re.compile(
    r"""\s*(?:(?P<int>(?:0[xX][0-9a-fA-F']+|0[bB][01']+|[0-9][0-9']*)[uUlLzZ]*)(?![\w.])
        | (?P<char>(?:u8|[uUL])?'(?:[^'\\]|\\[0-7]{1,3}|\\x[0-9a-fA-F]+|\\.)')
        | (?P<word>[^\W\d]\w*) | (?P<op><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>&^|!~?:(),]) | (?P<bad>\S))""",
    re.VERBOSE,
)
_WORDS = {"not": "!", "and": "&&", "or": "||", "bitand": "&", "bitor": "|", "xor": "^", "compl": "~", "not_eq": "!="}
_LEVELS = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
           ("*", "/", "%"))  # fmt: skip
_LEVEL = {op: level for level, ops in enumerate(_LEVELS) for op in ops}
_ESCAPES = {"n": 10, "t": 9, "r": 13, "0": 0, "a": 7, "b": 8, "f": 12, "v": 11}
MAX_NESTING = 200


class BadCondition(ValueError):
    """What about the expression is wrong, in words."""


class _Int(int):
    """A 64-bit integer that remembers whether it is unsigned."""

    unsigned: bool

    def __new__(cls, value: int, unsigned: bool = False) -> _Int:
        value &= (1 << 64) - 1
        x = super().__new__(cls, value if unsigned or value < 1 << 63 else value - (1 << 64))
        x.unsigned = unsigned
        return x


def condition_value(text: str, word: Callable[[str], int]) -> int:
    """The value of ``text``; ``word`` gives the value of a name that is no macro (0 for most).

    Raises:
        BadCondition: a syntax error, or a division by zero in a part that counts.
    """
    reader = _Reader(list(_tokens(text)), word)
    value = reader.ternary(True)
    if reader.peek() != ("end", ""):
        raise BadCondition(f"unexpected '{reader.peek()[1]}' in the condition")
    return value


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    for m in _TOKEN.finditer(text.strip()):
        kind = m.lastgroup or "bad"
        token = m.group(kind)
        if kind == "bad":
            raise BadCondition(f"'{token}' cannot stand in a condition")
        yield ("op", _WORDS[token]) if token in _WORDS else (kind, token)
    yield "end", ""


class _Reader:
    """Precedence climbing; ``live`` is false in the part of ``&& || ?:`` that is not evaluated."""

    def __init__(self, tokens: list[tuple[str, str]], word: Callable[[str], int]) -> None:
        self._tokens, self._at, self._depth, self._word = tokens, 0, 0, word

    def peek(self) -> tuple[str, str]:
        return self._tokens[self._at]

    def _take(self, op: str) -> bool:
        if self.peek() != ("op", op):
            return False
        self._at += 1
        return True

    def _need(self, op: str) -> None:
        if not self._take(op):
            raise BadCondition(f"expected '{op}' before '{self.peek()[1] or 'the end of the line'}' in the condition")

    def ternary(self, live: bool) -> _Int:
        test = self._binary(0, live)
        if not self._take("?"):
            return test
        yes = self.ternary(live and bool(test))
        self._need(":")
        no = self.ternary(live and not test)
        return _Int(yes if test else no, yes.unsigned or no.unsigned)

    def _binary(self, level: int, live: bool) -> _Int:
        a = self._unary(live)
        while True:
            kind, op = self.peek()
            if kind != "op" or _LEVEL.get(op, -1) < level:
                return a
            self._at += 1
            decided = (op == "&&" and not a) or (op == "||" and bool(a))
            b = self._binary(_LEVEL[op] + 1, live and not decided)
            a = _Int(bool(a) if decided else bool(b)) if op in ("&&", "||") else _apply(op, a, b, live)

    def _unary(self, live: bool) -> _Int:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise BadCondition(f"the condition nests deeper than {MAX_NESTING}")
        try:
            return self._primary(live)
        finally:
            self._depth -= 1

    def _primary(self, live: bool) -> _Int:
        kind, token = self.peek()
        self._at += 1
        if kind == "int":
            return _literal(token)
        if kind == "char":
            return _Int(_character(token))
        if kind == "word":
            if self._take("("):  # an unknown function-like name, as __has_feature(x) is to others: 0
                self._skip_arguments()
                return _Int(0)
            return _Int(self._word(token))
        if kind == "op" and token == "(":
            x = self.ternary(live)
            self._need(")")
            return x
        if kind == "op" and token in "+-!~":
            x = self._unary(live)
            return {"+": lambda: x, "-": lambda: _Int(-x, x.unsigned), "!": lambda: _Int(not x),
                    "~": lambda: _Int(~x, x.unsigned)}[token]()  # fmt: skip
        self._at -= 1
        raise BadCondition(f"expected a value before '{token or 'the end of the line'}' in the condition")

    def _skip_arguments(self) -> None:
        depth = 1
        while depth:
            kind, token = self.peek()
            if kind == "end":
                raise BadCondition("a parenthesis is not closed in the condition")
            self._at += 1
            depth += (token == "(") - (token == ")")


def _literal(token: str) -> _Int:
    digits = token.rstrip("uUlLzZ").replace("'", "")
    base = {"0x": 16, "0b": 2}.get(digits[:2].lower(), 8 if digits.startswith("0") else 10)
    try:
        value = int(digits, base)
    except ValueError:
        raise BadCondition(f"'{token}' is not a number") from None
    return _Int(value, "u" in token.lower() or value >= 1 << 63)


def _character(token: str) -> int:
    body = token[token.index("'") + 1 : -1]
    if not body.startswith("\\"):
        return ord(body)
    if body[1] == "x":
        return int(body[2:], 16)
    return int(body[1:], 8) if body[1].isdigit() else _ESCAPES.get(body[1], ord(body[1]))


def _apply(op: str, a: _Int, b: _Int, live: bool) -> _Int:
    if op in ("<<", ">>"):
        return _Int(a << (b & 63) if op == "<<" else a >> (b & 63), a.unsigned)
    unsigned = a.unsigned or b.unsigned
    x, y = int(_Int(a, unsigned)), int(_Int(b, unsigned))
    if op in _COMPARE:
        return _Int(_COMPARE[op](x, y))
    if op in "/%" and y == 0:
        if live:
            raise BadCondition("a division by zero in the condition")
        return _Int(0, unsigned)
    return _Int(_ARITHMETIC[op](x, y), unsigned)


def _quotient(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": int.__eq__, "!=": int.__ne__, "<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__,
}  # fmt: skip
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "&": int.__and__, "|": int.__or__, "^": int.__xor__,
    "/": _quotient, "%": lambda x, y: x - y * _quotient(x, y),
}  # fmt: skip
