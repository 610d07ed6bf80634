"""Macro expansion as GCC does it: a stack of what is being read, in time linear in what macros expand to.

The body of a macro is read in place of its call, and while any of it is still to be read the macro's name stands for
itself: so it does in the arguments of other macros inside that body, and for good once it was met there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .macro_bodies import body_with
from .pp_lines import BLANKS
from .pp_tokens import Token


@dataclass(slots=True)
class _Reading:
    """Tokens that are still to be read, the next one last, and the macro whose body they are."""

    rest: list[Token]
    macro: str = ""


@dataclass
class Expander:
    """What stays the same for a whole source; ``macros`` is the preprocessor's own table.

    ``spend`` is told how many tokens each expansion makes and by which macro, and stops what grows without limit.
    ``wrong`` is told of calls with too few or too many arguments.
    """

    macros: Mapping[str, Any]
    spend: Callable[[int, str], None]
    wrong: Callable[[Token, str], None]
    line: int = 0
    """The line of the outermost call, which is what ``__LINE__`` means inside."""
    counter: int = 0
    depth: int = 0
    latest: str = ""
    """The macro that was expanded last."""
    _active: set[str] = field(default_factory=set)

    def expanded(self, tokens: list[Token]) -> list[Token]:
        """``tokens`` with every macro in them expanded."""
        if self.depth == 0:
            self._active.clear()
        self.depth += 1
        try:
            return _Run(self, tokens).run()
        finally:
            self.depth -= 1


class _Run:
    """The expansion of one list of tokens: a text, or an argument before it is put into a body."""

    def __init__(self, expander: Expander, tokens: list[Token]) -> None:
        self._of = expander
        self._active = expander._active
        self._base = _Reading(tokens[::-1])
        self._stack = [self._base]

    def run(self) -> list[Token]:
        out: list[Token] = []
        of, macros = self._of, self._of.macros
        while (token := self._next()) is not None:
            if token.type != "CPP_ID":
                out.append(token)
                continue
            if of.depth == 1 and len(self._stack) == 1:
                of.line = token.lineno
            macro = macros.get(token.value)
            if macro is None:
                out.append(self._positional(token))
            elif token.painted or not self._entered(token, macro, out):
                out.append(token)
        return out

    def _next(self) -> Token | None:
        """The next token; a name whose macro is being read stands for itself from now on."""
        stack = self._stack
        while not stack[-1].rest:
            if len(stack) == 1:
                return None
            self._active.discard(stack.pop().macro)
        token = stack[-1].rest.pop()
        if token.type == "CPP_ID" and token.value in self._active and not token.painted:
            token = token.moved(token)
            token.painted = True
        return token

    def _positional(self, token: Token) -> Token:
        if token.value not in ("__LINE__", "__COUNTER__"):
            return token
        number = self._of.line
        if token.value == "__COUNTER__":
            number = self._of.counter
            self._of.counter += 1
        return Token("CPP_INTEGER", str(number), token.lineno, token.source)

    def _entered(self, name: Token, macro: Any, out: list[Token]) -> bool:
        """Put the body in place of a call of ``macro``; False where ``name`` is no call of it."""
        args: list[list[Token]] = []
        if macro.arglist is not None:
            raw, args, closed = self._arguments(macro)
            if not raw:
                return False
            if not closed:  # nor is a call behind it: what follows is not to be read once for each
                out.append(name)
                out.extend(raw)
                return True
            if complaint := _miscounted(macro, args):
                self._of.wrong(name, complaint)
                out.append(name)
                out.extend(raw)
                return True
            args += [[]] * (len(macro.arglist) - len(args))
        self._of.latest = name.value
        body = body_with(macro, args, self._of.expanded, name)
        self._of.spend(len(body), name.value)
        self._active.add(name.value)
        self._stack.append(_Reading(body[::-1], name.value))
        return True

    def _arguments(self, macro: Any) -> tuple[list[Token], list[list[Token]], bool]:
        """The tokens of a call, its arguments, and whether it is closed; nothing is read where no ``(`` follows."""
        raw: list[Token] = []
        args: list[list[Token]] = []
        start = nested = 0
        rest = len(macro.arglist) if macro.variadic else -1
        while (token := self._next()) is not None:
            raw.append(token)
            value = token.value if token.type == "CPP_OTHER" else ""
            if not nested:
                if value == "(":
                    nested, start = 1, len(raw)
                elif not token.type.startswith(BLANKS):
                    break
            elif value == "(":
                nested += 1
            elif (value == "," and nested == 1 and len(args) + 1 != rest) or value == ")":
                nested -= value == ")"
                if value == "," or not nested:
                    args.append(_stripped(raw[start:-1]))
                    start = len(raw)
                if not nested:
                    if self._of.depth > 1:  # read again for each call around it
                        self._of.spend(len(raw) // 8, self._of.latest)
                    return raw, args, True
        if nested:
            return raw, args, False
        self._stack[-1].rest.extend(reversed(raw))
        return [], args, False


def _miscounted(macro: Any, args: list[list[Token]]) -> str:
    """What is wrong about the number of a call's arguments; '' if nothing is."""
    wanted, given = len(macro.arglist), len(args)
    if macro.variadic:
        return "" if given >= wanted - 1 else f"Macro {macro.name} must have at least {wanted - 1} arguments"
    if given == wanted or (args == [[]] and wanted <= 1):
        return ""
    return f"Macro {macro.name} requires {wanted} arguments but was passed {given}"


def _stripped(tokens: list[Token]) -> list[Token]:
    """``tokens`` without blanks at either end."""
    first, last = 0, len(tokens)
    while first < last and tokens[first].type.startswith(BLANKS):
        first += 1
    while last > first and tokens[last - 1].type.startswith(BLANKS):
        last -= 1
    return tokens[first:last]
