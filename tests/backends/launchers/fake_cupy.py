"""A cupy that launches nothing: which kernel a Python launcher chooses is all that is asked of it."""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest


class Stream:
    def __enter__(self) -> None: ...
    def __exit__(self, *why: object) -> None: ...


def launcher(monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[Callable[..., None], list[str]]:
    """``launch`` of a launcher's ``text``, and the names of the kernels that it has launched so far."""
    launched: list[str] = []

    class Module:
        def __init__(self, code: str, options: object, name_expressions: tuple[str, ...]) -> None:
            pass

        def get_function(self, name: str) -> Callable[..., None]:
            return lambda *args, **more: launched.append(name)

    cupy: Any = types.ModuleType("cupy")
    cupy.RawModule, cupy.cuda = Module, types.SimpleNamespace(get_current_stream=Stream)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    module: dict[str, Any] = {}
    exec(compile(ast.parse(text), "launcher", "exec"), module)
    return module["launch"], launched


def buffer(address: int) -> Any:
    """An array of cupy's that begins at ``address``."""
    return types.SimpleNamespace(data=types.SimpleNamespace(ptr=address))
