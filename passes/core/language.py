"""The pipeline language, read: text to the values of :mod:`.script`, which print back to it exactly.

    raise | distribute{loop=i map=[vec $V, thread.x $T:128,256, seq]} | fast-math{fns=exp,div}   # comment
    where V * T <= 1024

Values are integers, words and places (``loop:k``, ``k.*``: see ``place_names``), knobs (``$V``, ``$V:1,2,4``,
``$V=4``), distributions and comma lists (an argument given twice is a list too). Scripts may come from a planner, so
the grammar is closed and every size has a limit.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.nodes import LEVELS
from ktc.ir.support.grammars import load_grammar

from .script import Arg, DistSpec, KnobRef, LevelSpec, Script, Step

if TYPE_CHECKING:
    from lark import Lark

MAX_CHARS = 1 << 16
MAX_STEPS = 256
MAX_ARGS = 64
MAX_ITEMS = 256
MAX_NESTING = 8
MAX_INT = 1 << 31

_KNOB = re.compile(r"\$(\w+)(?:\s*:\s*\(?([-0-9,\s]+)\)?)?(?:=(-?\d+))?\Z")


def parse_script(text: str, file: str = "<script>") -> Script:
    """The script that ``text`` spells; an empty text is the empty script.

    Raises:
        KtcError: E-SCRIPT-SYNTAX or E-SCRIPT-LIMIT with line, column and caret.
    """
    from lark.exceptions import UnexpectedInput

    if len(text) > MAX_CHARS:
        raise KtcError("E-SCRIPT-LIMIT", f"script of {len(text)} characters; the limit is {MAX_CHARS}", Loc(file, 1))
    if text.count("(") > MAX_ITEMS or _depth(text) > MAX_NESTING:
        raise KtcError("E-SCRIPT-LIMIT", "the script nests too deeply", Loc(file, 1), source=text)
    try:
        tree = _lark().parse(text)
    except UnexpectedInput as e:
        raise _syntax_error(e, text, file) from None
    reader = _Reader(text, file)
    items: list[Any] = list(tree.children)
    steps = tuple(reader.step(c) for c in items if c.data == "step")
    if len(steps) > MAX_STEPS:
        raise KtcError("E-SCRIPT-LIMIT", f"{len(steps)} steps; the limit is {MAX_STEPS}", Loc(file, 1), source=text)
    return Script(steps, tuple(reader.where(c) for c in items if c.data == "where"))


# ---------------------------------------------------------------------------------------------------------- reading


@cache
def _lark() -> Lark:
    return load_grammar(Path(__file__).with_name("language.lark"), "start", placeholders=False)


class _Reader:
    """Parse trees to values."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file

    def fail(self, at: Any, message: str, hint: str = "", code: str = "E-SCRIPT-SYNTAX") -> KtcError:
        return KtcError(code, message, self.loc(at), hint, source=self.text)

    def loc(self, at: Any) -> Loc:
        place = getattr(at, "meta", at)
        return Loc(self.file, getattr(place, "line", 1) or 1, getattr(place, "column", 1) or 1)

    def step(self, t: Any) -> Step:
        name, *args = t.children
        values: dict[str, Arg] = {}
        if len(args) > MAX_ARGS:
            raise self.fail(t, f"{len(args)} arguments; the limit is {MAX_ARGS}", code="E-SCRIPT-LIMIT")
        for a in args:
            key, value = str(a.children[0]), self.value(a.children[1])
            if key in values:
                before, more = (v if isinstance(v, tuple) else (v,) for v in (values[key], value))
                value = (*before, *more)
            values[key] = value
        return Step(str(name), tuple(values.items()), self.loc(name))

    def where(self, t: Any) -> str:
        text = str(t.children[0])[len("where") :].split("//")[0].strip()
        if not text:
            raise self.fail(t, "'where' needs a condition, such as TM % V == 0")
        return " ".join(text.split())

    def value(self, t: Any) -> Arg:
        made: Arg = getattr(self, "v_" + t.data)(t)
        return made

    def v_int(self, t: Any) -> int:
        return self.number(str(t.children[0]), t)

    def number(self, digits: str, at: Any) -> int:
        if len(digits) > 11 or abs(int(digits)) > MAX_INT:
            raise self.fail(at, f"{digits[:20]} is out of range", code="E-SCRIPT-LIMIT")
        return int(digits)

    def v_word(self, t: Any) -> str:
        return str(t.children[0])

    def v_knob(self, t: Any) -> KnobRef:
        match = _KNOB.match(str(t.children[0]))
        assert match, t
        name, domain, value = match.groups()
        values = None if domain is None else tuple(self.number(v.strip(), t) for v in domain.split(","))
        if values is not None and len(values) > MAX_ITEMS:
            raise self.fail(t, f"a domain of {len(values)} values; the limit is {MAX_ITEMS}", code="E-SCRIPT-LIMIT")
        if values is not None and len(set(values)) != len(values):
            raise self.fail(t, f"${name} lists a value twice")
        return KnobRef(name, values, None if value is None else self.number(value, t))

    def v_tuple(self, t: Any) -> tuple[Arg, ...]:
        return tuple(self.value(c) for c in t.children)

    v_list = v_tuple

    def v_dist(self, t: Any) -> DistSpec:
        return DistSpec(tuple(self.level(c) for c in t.children))

    def level(self, t: Any) -> LevelSpec:
        word, *size = t.children
        kind, _, axis = str(word).partition(".")
        if kind not in LEVELS:
            raise self.fail(word, f"'{kind}' is not a level", f"levels: {', '.join(LEVELS)}")
        n = self.value(size[0]) if size else None
        assert n is None or isinstance(n, int | str | KnobRef)
        return LevelSpec(kind, n, axis)


def _depth(text: str) -> int:
    depth = deepest = 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        deepest = max(deepest, depth)
    return deepest


_EXPECTED = {
    "VBAR": "|", "LBRACE": "{", "RBRACE": "}", "EQUAL": "=", "COMMA": "','", "LSQB": "[", "RSQB": "]", "LPAR": "(",
    "RPAR": ")", "NAME": "a pass name", "KEY": "an argument name", "INT": "a number", "KNOB": "a knob",
    "WORD": "a word", "LEVEL": "a level", "WHERE": "where", "_ARGSEP": "','", "$END": "end of script",
}  # fmt: skip


def _syntax_error(e: Any, text: str, file: str) -> KtcError:
    rows = text.splitlines() or [""]
    token, line, col = getattr(e, "token", None), getattr(e, "line", 0) or 0, getattr(e, "column", 0) or 0
    wanted = getattr(e, "accepts", None) or getattr(e, "expected", None) or e.allowed
    hint = f"expected {' or '.join(sorted({_EXPECTED.get(w, w) for w in wanted}))}"
    if getattr(token, "type", "") == "$END" or not 0 < line <= len(rows):
        end = Loc(file, len(rows), len(rows[-1]) + 1)
        return KtcError("E-SCRIPT-SYNTAX", "unexpected end of script", end, hint, source=text)
    found = str(token) if token is not None else rows[line - 1][col - 1 : col]
    return KtcError("E-SCRIPT-SYNTAX", f"unexpected {found!r}", Loc(file, line, col), hint, source=text)
