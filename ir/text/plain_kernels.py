"""Kernels as plain data, exactly: every field of every node, places in the source and comments included.

The text form is for people and keeps what a program means; a kernel that comes back from a cache must be the one that
went in, down to what messages say of it. A node becomes ``[class, field, ...]``, a symbol its number in order of first
use; what was named before (the symbols of another kernel) comes back as the same symbols.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ktc.ir.kernel_json import kernel_classes
from ktc.ir.support.frozen import names_of, values_of
from ktc.ir.symbols import Sym, fresh


class Writer:
    """Values as plain data; ``known`` symbols have the first numbers."""

    def __init__(self, known: Iterable[Sym] = ()) -> None:
        self.symbols = list(known)
        self.numbers = {s: k for k, s in enumerate(self.symbols)}

    def plain(self, x: Any) -> Any:
        """``x`` as lists, strings, numbers and None.

        Raises:
            TypeError: it holds something else than nodes, tuples, sets of strings and constants.
        """
        if x is None or isinstance(x, bool | int | str):
            return x
        if isinstance(x, float):
            return ["float", x.hex()]
        if isinstance(x, Sym):
            number = self.numbers.get(x)
            if number is not None:
                return ["Sym", number]
            self.numbers[x] = number = len(self.symbols)
            self.symbols.append(x)
            return ["Sym", number, x.name, x.stem, self.plain(x.type)]
        if isinstance(x, tuple):
            return ["tuple", *map(self.plain, x)]
        if isinstance(x, frozenset):
            return ["frozenset", *sorted(x)]
        cls: type = type(x)
        if kernel_classes().get(cls.__name__) is not cls:
            raise TypeError(f"no plain form of a {cls.__name__}")
        return [cls.__name__, *(self.plain(value) for _, value in values_of(x))]


class Reader:
    """What :class:`Writer` wrote; ``known``: the symbols that it knew."""

    def __init__(self, known: Iterable[Sym] = ()) -> None:
        self.symbols = list(known)

    def value(self, x: Any) -> Any:
        """The value whose plain form is ``x``.

        Raises:
            ValueError, TypeError, KeyError, IndexError: it is no such form.
        """
        if not isinstance(x, list):
            return x
        kind, *rest = x
        if kind == "Sym":
            return self.symbols[rest[0]] if len(rest) == 1 else self._symbol(*rest)
        if kind == "float":
            return float.fromhex(*rest)
        if kind == "tuple":
            return tuple(map(self.value, rest))
        if kind == "frozenset":
            return frozenset(rest)
        cls = kernel_classes()[kind]
        return cls(**dict(zip(names_of(cls), map(self.value, rest), strict=True)))

    def _symbol(self, number: int, name: str, stem: str, of: Any) -> Sym:
        made = fresh(name, None, stem)  # type: ignore[arg-type]
        if number != len(self.symbols):
            raise ValueError("symbols out of order")
        self.symbols.append(made)
        object.__setattr__(made, "type", self.value(of))  # a type may name further symbols
        return made


__all__ = ["Reader", "Writer"]
