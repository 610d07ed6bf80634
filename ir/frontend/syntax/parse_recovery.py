"""Going on after a declaration that does not parse: where it ends, and what is known of it."""

from __future__ import annotations

from ktc.ir.diagnostics import KtcError

from .cxx_ast import Bad
from .parse_functions import DEVICE_SPECS, FunctionParser

_BEFORE_QUESTION = frozenset({"requires", "=", "&&", "||", "!"})
"""What stands before a ``requires`` that asks whether code compiles, and so has braces of its own."""


class RecoveringParser(FunctionParser):
    """Recovery at the top level and in namespaces."""

    def _skip_external(self, error: KtcError, until: str | None = None) -> Bad:
        """Skip one declaration, noting whether it is device code and which function it is.

        It ends at the latest before the token that closes what it stands in, of type ``until``.
        """
        name, is_device, previous, record, asks = None, False, None, None, False
        is_global, before_args, variable = False, None, None
        open_: list[str] = []
        while (open_ or self._peek_type() != until) and (tok := self._tokens.next()) is not None:
            if tok.value in DEVICE_SPECS and not open_:
                is_device = True
                is_global = is_global or tok.value in ("__global__", "__kernel")
            if tok.type == "LT" and not open_ and previous is not None and previous.type in ("ID", "TYPEID"):
                before_args = previous  # a specialisation says its arguments between its name and its parameters
            named = before_args if previous is not None and previous.value == ">" else previous
            if (
                tok.type == "LPAREN"
                and not open_
                and name is None
                and named is not None
                and named.type in ("ID", "TYPEID")
                and named.value != "requires"
            ):
                name = named.value
            if tok.type == "EQUALS" and not open_ and variable is None and previous is not None:
                variable = previous.value if previous.type in ("ID", "TYPEID") else None
            if tok.value == "requires" and not open_:  # the braces of a requires-expression end nothing
                asks = self._peek_type() == "LBRACE" or (previous is not None and previous.value in _BEFORE_QUESTION)
            if (
                not open_
                and tok.type in ("ID", "TYPEID")
                and previous is not None
                and previous.type in ("STRUCT", "CLASS", "UNION")
            ):
                record = tok.value
            if tok.type in ("LBRACE", "LPAREN"):
                open_.append(tok.type)
            elif tok.type == "RPAREN" and open_ and open_[-1] == "LPAREN":
                open_.pop()
            elif tok.type == "RBRACE":  # closes what was left open inside its braces too
                while open_ and open_.pop() != "LBRACE":
                    pass
            previous = tok
            if asks and not open_ and tok.type == "RBRACE":
                asks = False
                continue
            if not open_ and tok.type in ("SEMI", "RBRACE"):
                if tok.type == "RBRACE" and self._peek_type() == "SEMI":
                    self._advance()
                break
        defines = is_global and previous is not None and previous.type == "RBRACE"
        record = record if name is None else None
        return Bad(error, name or variable, is_device, record, defines, coord=None)
