"""Who imports whom, read from the sources: at load time, or inside functions; not what only type checkers see."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import networkx as nx

from tests.paths import ROOT


@dataclass(frozen=True)
class Module:
    """A module of the product: its dotted name, its file, and whether it is a package's ``__init__``."""

    name: str
    path: Path

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def package(self) -> list[str]:
        """The parts of the package that its relative imports start from."""
        parts = self.name.split(".")
        return parts if self.is_package else parts[:-1]


def modules() -> dict[str, Module]:
    """Every module that a wheel would hold, by dotted name."""
    folders = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    found: dict[str, Module] = {}
    for package, folder in folders.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            name = ".".join([package, *parts])
            found[name] = Module(name, path)
    return found


def import_graph(known: dict[str, Module], *, in_functions: bool) -> nx.DiGraph:
    """An edge from each module to what it imports when it is loaded and, if asked for, when its functions run."""
    graph = nx.DiGraph()
    graph.add_nodes_from(known)
    for module in known.values():
        for node in _imports(ast.parse(module.path.read_text(encoding="utf-8")), in_functions):
            for target in _targets(module, node, known):
                graph.add_edges_from((module.name, loaded) for loaded in _loaded_with(target, module.name))
    return graph


def _loaded_with(target: str, importer: str) -> Iterator[str]:
    """``target``, and the packages around it that are loaded before it: all but those that ``importer`` lies in."""
    parts = target.split(".")
    yield target
    for k in range(1, len(parts)):
        package = ".".join(parts[:k])
        if not importer.startswith(f"{package}.") and importer != package:
            yield package


def cycles(graph: nx.DiGraph) -> list[frozenset[str]]:
    """The sets of modules of which each imports each other one, if only through others."""
    return [frozenset(c) for c in nx.strongly_connected_components(graph) if len(c) > 1]


def _imports(tree: ast.AST, in_functions: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from _imports(ast.Module([other], []), in_functions)
        elif in_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _imports(node, in_functions)


def _targets(module: Module, node: ast.Import | ast.ImportFrom, known: dict[str, Module]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (a.name for a in node.names if a.name in known)
        return
    origin = node.module or ""
    if node.level:
        base = module.package[: len(module.package) - (node.level - 1)]
        origin = ".".join([*base, origin] if origin else base)
    for a in node.names:
        if f"{origin}.{a.name}" in known:
            yield f"{origin}.{a.name}"
        elif origin in known:
            yield origin
