"""What a Python script gives the compiler where it builds a source as it runs: macros of ``load`` and its like.

    N = int(os.environ["HEAD_SIZE"])
    load(name="ops", sources=["ops.cpp", "ops.cu"], extra_cuda_cflags=["-O3", f"-D_N_={N}"])

Read as syntax, nothing is run. Of a call that names the source the flags count whatever condition it stands under. A
value that the script computes is followed to a constant: through names, ``os.environ``, and defaults of ``argparse``
in the scripts near by. One that whoever runs the script may give otherwise is a choice, which is said.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

BUILDERS = re.compile(r"(?:.*\.)?(?:load|load_inline|CUDAExtension|\w*[Ll]oad_?[Ee]xtension\w*)\Z")
"""Functions that compile what they are given."""

MAX_HOPS = 8
"""Names inside names that are followed."""

_FLAG = re.compile(r"-D\s*([A-Za-z_]\w*)(?:=(.*))?\Z", re.S)
_PLAIN = re.compile(r"[\w.+-]+\Z")
_CASTS = ("int", "str", "float", "bool")
_ENVIRONMENT = re.compile(r"(?:os\.)?(?:environ\[|environ\.get\(|getenv\()'(\w+)'")


@dataclass(frozen=True)
class Given:
    """A macro's value, and what it is a default of, '' for a constant of the script."""

    value: str
    choice: str = ""


@dataclass
class Script:
    """A Python file: what it assigns, by the text of the target, with the lines that this stands on."""

    file: str
    body: list[ast.stmt]

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return [n for s in self.body for n in ast.walk(s)]

    @cached_property
    def assigned(self) -> dict[str, list[tuple[int, ast.expr]]]:
        found: dict[str, list[tuple[int, ast.expr]]] = {}
        for n in self.nodes:
            if isinstance(n, ast.Assign):
                for t in n.targets:
                    found.setdefault(ast.unparse(t), []).append((n.lineno, n.value))
        return found

    @cached_property
    def options(self) -> dict[str, tuple[str, ast.expr]]:
        """The options of ``add_argument("--some-name", default=...)`` and their defaults by ``some_name``."""
        found: dict[str, tuple[str, ast.expr]] = {}
        for n in self.nodes:
            if isinstance(n, ast.Call) and ast.unparse(n.func).endswith("add_argument") and n.args:
                name = n.args[0].value if isinstance(n.args[0], ast.Constant) else None
                default = next((k.value for k in n.keywords if k.arg == "default"), None)
                if isinstance(name, str) and default is not None:
                    found.setdefault(name.lstrip("-").replace("-", "_"), (name, default))
        return found


@dataclass
class Loads:
    """The macros with which the script ``of`` builds a source; ``others``: scripts that may set what it asks for, the
    nearest first, read when they are needed."""

    of: Script
    others: Callable[[], Sequence[Script]]

    def macros(self, source: str) -> dict[str, Given]:
        """The macros by name, of the first call that names ``source``."""
        for call in self.of.nodes:
            if isinstance(call, ast.Call) and BUILDERS.match(ast.unparse(call.func)) and _names(call, source):
                return dict(self._flags(call))
        return {}

    def _flags(self, call: ast.Call) -> Iterator[tuple[str, Given]]:
        for keyword in call.keywords:
            if keyword.arg and "flags" in keyword.arg:
                for flag in self._elements(keyword.value, call.lineno):
                    yield from self._macro(flag)

    def _elements(self, node: ast.expr, line: int) -> Iterator[ast.expr]:
        """The elements of a list, or of the list that a name was last given before ``line``."""
        if isinstance(node, ast.Name) and (before := [v for at, v in self.of.assigned.get(node.id, ()) if at < line]):
            node = before[-1]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            yield from self._elements(node.left, line)
            yield from self._elements(node.right, line)
        elif isinstance(node, ast.List | ast.Tuple):
            yield from node.elts

    def _macro(self, flag: ast.expr) -> Iterator[tuple[str, Given]]:
        """The macro of one flag, ``"-DFAST"`` or ``f"-DN={n}"``, where its value is known."""
        parts = flag.values if isinstance(flag, ast.JoinedStr) else [flag]
        text, choices = "", list[str]()
        for part in parts:
            inside = part.value if isinstance(part, ast.FormattedValue) else part
            known = self._value(inside, self.of, flag.lineno, MAX_HOPS)
            if known is None:
                return
            text += known.value
            choices += [known.choice] if known.choice else []
        m = _FLAG.match(text)
        if m is not None and (m[2] is None or _PLAIN.match(m[2])):
            yield m[1], Given(m[2] or "1", " and ".join(choices))

    def _value(self, node: ast.expr, script: Script, line: int, hops: int) -> Given | None:
        """What an expression of ``script`` on ``line`` comes to; None where that cannot be told."""
        if isinstance(node, ast.Constant):
            return Given(str(node.value)) if isinstance(node.value, str | int | float) else None
        if not hops:
            return None
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _CASTS and len(node.args) == 1:
            return self._value(node.args[0], script, line, hops - 1)
        text = ast.unparse(node)
        if (m := _ENVIRONMENT.match(text)) is not None:
            default = node.args[1] if isinstance(node, ast.Call) and len(node.args) > 1 else None
            return self._environment(m[1], default, script, line, hops)
        before = [v for at, v in script.assigned.get(text, ()) if at < line]
        if before:
            return self._value(before[-1], script, line, hops - 1)
        return self._option(node.attr, script, hops) if isinstance(node, ast.Attribute) else None

    def _environment(self, name: str, default: ast.expr | None, script: Script, line: int, hops: int) -> Given | None:
        """The value of an environment variable: its default where it is asked for, or what a script sets it to."""
        found = None if default is None else self._value(default, script, line, hops - 1)
        for other in () if found is not None else (script, *self.others()):
            values = other.assigned.get(f"os.environ['{name}']", ())
            known = (self._value(v, other, at, hops - 1) for at, v in values)
            if (found := next(filter(None, known), None)) is not None:
                break
        return None if found is None else Given(found.value, found.choice or f"${name}")

    def _option(self, name: str, script: Script, hops: int) -> Given | None:
        """The default of a command-line option ``--name``."""
        for other in (script, *self.others()):
            if name in other.options:
                spelled, default = other.options[name]
                if (found := self._value(default, other, 1 << 30, hops - 1)) is not None:
                    return Given(found.value, f"{spelled} of {os.path.basename(other.file)}")
        return None


def _names(call: ast.Call, source: str) -> bool:
    """Whether a call has a text that ends with the name of ``source``."""
    end = os.path.basename(source)
    texts = (n.value for n in ast.walk(call) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return any(t == end or t.endswith("/" + end) for t in texts)


__all__ = ["Given", "Loads", "Script"]
