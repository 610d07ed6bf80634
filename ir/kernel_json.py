"""Kernels as JSON values: how they travel between processes of ours, and lie in files that these share.

The text form (:mod:`.text`) is for people: reading it takes a parser whose tables take a second to build, and leaves
out what people do not look for (places, tags). Here is all that a kernel holds, and reading it is one call a node:

    {"classes": [["Scalar", "kind", "bits"], ["Sym", "name", "type", "id", "stem"], ...],
     "nodes":   [[0, "int", 32], [1, "n", {"node": 0}, 1, "n"], ...]}

A node comes after those it refers to, the kernel last; ``classes`` gives a node's class, by its first number, and the
fields that the others are. What a tree holds twice, as one object, is written once and is one object again. Tuples are
arrays, ``{"node": i}`` is a node, ``{"set": [...]}`` a frozenset. Symbols are numbered as they come, and get numbers of
their own where they are read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any

from . import diagnostics, kernel, nodes, symbols, types
from .diagnostics import KtcError
from .kernel import Kernel
from .support.frozen import names_of, values_of
from .symbols import Sym, fresh
from .types import VOID

HOLDERS: tuple[ModuleType, ...] = (kernel, nodes, types, symbols, diagnostics)
"""Where the classes are whose objects a kernel may hold."""


def kernel_to_json(whole: Kernel) -> dict[str, Any]:
    """``whole`` as JSON values.

    Raises:
        TypeError: it holds something that is no node, number, string, tuple or set of strings.
    """
    return _Writer().written(whole)


def kernel_from_json(value: Mapping[str, Any]) -> Kernel:
    """The kernel that :func:`kernel_to_json` wrote, with symbols of its own.

    Raises:
        KtcError: E-KERNEL-JSON: that function has not written it.
    """
    try:
        identities: dict[int, int] = {}
        makers = [_maker(name, tuple(fields), identities) for name, *fields in value["classes"]]
        made: list[Any] = []
        for which, *values in value["nodes"]:
            made.append(makers[which](*(v if type(v) in _PLAIN else _read(v, made) for v in values)))
        found = made[-1]
    except (AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError) as e:
        raise KtcError("E-KERNEL-JSON", f"not a kernel: {type(e).__name__}: {e}") from e
    if not isinstance(found, Kernel):
        raise KtcError("E-KERNEL-JSON", f"not a kernel: {type(found).__name__}")
    return found


_PLAIN = frozenset({int, float, str, bool, type(None)})


@cache
def kernel_classes() -> dict[str, type]:
    """By name, the classes whose objects a kernel may hold."""
    return {
        name: cls for module in HOLDERS for name, cls in vars(module).items()
        if isinstance(cls, type) and dataclasses.is_dataclass(cls)
    }  # fmt: skip


def _maker(name: str, fields: tuple[str, ...], identities: dict[int, int]) -> Callable[..., Any]:
    """What makes a node of its fields' values, in their order; ``identities``: what symbols are here, by number."""
    cls = kernel_classes()[name]
    if fields != names_of(cls):
        raise ValueError(f"fields of another {name}")
    if cls is Sym:
        return lambda name, type, number, stem: Sym(name, type, identities.setdefault(number, fresh("", VOID).id), stem)
    named = {f.name for f in dataclasses.fields(cls) if f.kw_only}
    if not named:
        return cls
    return lambda *values: cls(
        *(v for f, v in zip(fields, values, strict=True) if f not in named),
        **{f: v for f, v in zip(fields, values, strict=True) if f in named},
    )


def _read(value: Any, made: list[Any]) -> Any:
    if isinstance(value, list):
        return tuple(v if type(v) in _PLAIN else _read(v, made) for v in value)
    ((kind, of),) = value.items()
    return made[of] if kind == "node" else {"set": frozenset}[kind](of)


class _Writer:
    def __init__(self) -> None:
        self._classes: dict[type, int] = {}
        self._nodes: list[list[Any]] = []
        self._places: dict[int, int] = {}  # by a node's identity
        self._symbols: dict[Sym, int] = {}  # their numbers

    def written(self, whole: Kernel) -> dict[str, Any]:
        waiting: list[Any] = [whole]
        while waiting:  # trees are deep: a sum of a thousand terms is as deep as it is long
            node = waiting[-1]
            parts = [p for p in _parts(node) if id(p) not in self._places] if id(node) not in self._places else []
            if parts:
                waiting += reversed(parts)
                continue
            waiting.pop()
            if id(node) not in self._places:
                self._add(node)
        classes = [[cls.__name__, *names_of(cls)] for cls in self._classes]
        return {"classes": classes, "nodes": self._nodes}

    def _add(self, node: Any) -> None:
        cls = type(node)
        if kernel_classes().get(cls.__name__) is not cls:
            raise TypeError(f"a kernel holds a {cls.__name__}, which cannot travel")
        which = self._classes.setdefault(cls, len(self._classes))
        values = dict(values_of(node))
        if cls is Sym:
            values["id"] = self._symbols.setdefault(node, len(self._symbols) + 1)
        self._places[id(node)] = len(self._nodes)
        self._nodes.append([which, *map(self._value, values.values())])

    def _value(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is tuple:
            return [self._value(v) for v in value]
        if kind is frozenset:
            return {"set": sorted(value)}
        return {"node": self._places[id(value)]}


def _parts(node: Any) -> list[Any]:
    """The nodes that ``node`` refers to."""
    found: list[Any] = []
    for _, value in values_of(node):
        _collect(value, found)
    return found


def _collect(value: Any, found: list[Any]) -> None:
    kind = type(value)
    if kind is tuple:
        for v in value:
            _collect(v, found)
    elif kind not in _PLAIN and kind is not frozenset:
        if not dataclasses.is_dataclass(value):
            raise TypeError(f"a kernel holds a {kind.__name__}, which cannot travel")
        found.append(value)


__all__ = ["kernel_classes", "kernel_from_json", "kernel_to_json"]
