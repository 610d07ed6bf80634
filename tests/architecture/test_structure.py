"""Folders that one can take in, names that mean one thing, no cycle of imports but those that are listed."""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest

from tests.architecture.imports import Module, cycles, import_graph, modules

MOST_MODULES = 30
"""A folder with more is several folders."""

MEAN_ONE_THING = {
    "base": "the protocol that the modules beside it implement",
}
"""Names that several folders may use, and what each of them means there."""

CLOSED_IN_FUNCTIONS = {
    "kernels name themselves by their text form, which prints kernels: statements declared once": {
        "ktc.ir.kernel", "ktc.ir.text",
    },
    "the parser reads device libraries, whose names it must know: the front-end as functions over a session": {
        "ktc.ir.frontend.library", "ktc.ir.frontend.syntax",
    },
    "lowering is one object in parts: the front-end as functions over a session": {
        "ktc.ir.frontend.lowering", "ktc.ir.frontend.meaning.overload_bodies", "ktc.ir.frontend.meaning.overloads",
        "ktc.ir.frontend.ptx.inline_asm",
    },
    "a workload is read from its file, and knows its facts: origins of facts": {"ktc.ir.workload"},
    "domains by name, each of which is a domain: the reasoner's algebras": {"ktc.ir.interp.domains"},
    "operands of tensor cores are loaded as matrices: the reasoner, which takes the digits of both": {
        "ktc.passes.lowering.tensor",
    },
    "a draft is a program, whose facts and comparisons may draft: origins of facts": {
        "ktc.api", "ktc.comparing", "ktc.facts", "ktc.scaffold",
    },
}  # fmt: skip
"""Cycles that imports inside functions close: why, what will open them, and who takes part (modules or packages)."""


@pytest.fixture(scope="module")
def product() -> dict[str, Module]:
    return modules()


def test_no_folder_has_too_many_modules(product: dict[str, Module]) -> None:
    held = defaultdict[str, list[str]](list)
    for m in product.values():
        if not m.is_package:
            held[str(m.path.parent)].append(m.path.name)
    assert {folder: len(names) for folder, names in held.items() if len(names) > MOST_MODULES} == {}


def test_a_module_name_means_one_thing(product: dict[str, Module]) -> None:
    places = defaultdict[str, list[str]](list)
    for m in product.values():
        if not m.is_package and m.path.stem != "__main__":
            places[m.path.stem].append(m.name)
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert {n: w for n, w in twice.items() if n not in MEAN_ONE_THING} == {}
    assert MEAN_ONE_THING.keys() <= twice.keys(), "a name in the table is used once: take it out"


def test_every_folder_says_what_it_holds(product: dict[str, Module]) -> None:
    packages = [m for m in product.values() if m.is_package]
    unsaid = [m.name for m in packages if len(ast.get_docstring(ast.parse(m.path.read_text())) or "") < 10]
    assert unsaid == []


def test_no_cycle_at_load_time(product: dict[str, Module]) -> None:
    assert cycles(import_graph(product, in_functions=False)) == []


def test_functions_close_no_cycle_that_is_not_listed(product: dict[str, Module]) -> None:
    found = cycles(import_graph(product, in_functions=True))
    unlisted = [sorted(c) for c in found if not any(_within(c, parts) for parts in CLOSED_IN_FUNCTIONS.values())]
    assert unlisted == []
    open_now = [why for why, parts in CLOSED_IN_FUNCTIONS.items() if not any(_within(c, parts) for c in found)]
    assert open_now == [], "a cycle in the list is none any more: take it out"


def _within(cycle: frozenset[str], parts: set[str]) -> bool:
    return all(any(name == p or name.startswith(f"{p}.") for p in parts) for name in cycle)


def test_the_reader_of_imports_sees_each_kind() -> None:
    """The checks above rest on it: imports at load time, in functions, for type checkers."""
    from tests.architecture.imports import _imports

    text = """
import a
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import b
class C:
    import c
    def f(self):
        import d
try:
    import e
except ImportError:
    pass
"""
    tree = ast.parse(text)

    def names(in_functions: bool) -> set[str]:
        return {a.name for n in _imports(tree, in_functions) if isinstance(n, ast.Import) for a in n.names}

    assert names(False) == {"a", "c", "e"}
    assert names(True) == {"a", "c", "d", "e"}
