"""Names for symbols: the source's, made unique among what is visible where they are declared."""

from __future__ import annotations

from collections.abc import Iterable

from ktc.ir.nodes import Sym

KEYWORDS = """auto break case char const continue default do double else enum extern float for goto if inline int long
register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true
false"""
C_KEYWORDS = frozenset(KEYWORDS.split())


class Names:
    """Lexically scoped name allocation. Siblings may share a name (two loops over ``i``); nothing is ever shadowed."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._scopes: list[set[str]] = [set(reserved) | C_KEYWORDS]
        self._of: dict[Sym, str] = {}

    def push(self) -> None:
        self._scopes.append(set())

    def pop(self) -> None:
        self._scopes.pop()

    def declare(self, sym: Sym) -> str:
        """The name of ``sym`` from here on: its own, or with the smallest number that makes it free."""
        base = sym.name
        if (base and base[0].isdigit()) or not base.isidentifier() or not base.isascii():
            base = "v" + "".join(ch if ch.isascii() and (ch.isalnum() or ch == "_") else "_" for ch in base)
        name, k = base, 2
        while any(name in scope for scope in self._scopes):
            name = f"{base}_{k}" if base[-1:].isdigit() else f"{base}{k}"
            k += 1
        self._scopes[-1].add(name)
        self._of[sym] = name
        return name

    def has(self, sym: Sym) -> bool:
        return sym in self._of

    def of(self, sym: Sym) -> str:
        return self._of[sym]
