"""What the Python files that build a project's extensions say of how its sources are compiled: macros.

    CUDAExtension("ops", ["ops.cu"], extra_compile_args={"nvcc": ["-DWITH_CUDA"]}, define_macros=[("FAST", None)])

That is a ``setup.py``, or a module that names the source and is built by one that it imports. Read as syntax, nothing
is run. Where CUDA is asked for it is there, and ROCm is not; what stands under any other condition is left out.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from .python_loads import Given, Loads, Script
from .source_trees import SKIPPED_FOLDERS, read_bytes

MOST_FILES = 4000
"""Python files of a project that are looked at; of a larger one, a ``setup.py`` above the source alone."""

MOST_BYTES = 1 << 18
"""Of a Python file that is read."""

MOST_BUILDERS = 16
"""Files that are read for what they build with, those that they import included."""

SETUP = "setup.py"

_MACRO = re.compile(r"-D\s*([A-Za-z_]\w*)(?:=(.+))?\Z", re.S)
_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_ROCM = re.compile(r"rocm|hip", re.I)
_CUDA = re.compile(r"cuda|nvcc", re.I)

Names = frozenset[str]
"""What of a module counts: names at its top."""

ALL: Names = frozenset({"*"})


def python_macros(source: str, root: str) -> tuple[str, list[str], dict[str, str]]:
    """The file that builds ``source``, in the project ``root``; the macros that it and what it imports give, as flags
    of a compiler; and of those that are a choice of whoever runs it, what says so. None where no file does."""
    files = _python_files(root)
    first = _naming(files, source) or _setups(source, root)[:1]
    loaded = _loaded(first[0], files, source) if first else {}
    flags = [f"-D{name}={given.value}" for name, given in loaded.items()]
    flags += [
        flag
        for f, names in _with_imports(first, files).items()
        for flag in _flags(f, names)
        if flag[2:].partition("=")[0] not in loaded
    ]
    return (first[0], flags, {n: g.choice for n, g in loaded.items() if g.choice}) if flags else ("", [], {})


def _loaded(first: str, files: list[str], source: str) -> dict[str, Given]:
    """The macros with which the script ``first`` builds ``source`` where it runs."""

    @cache
    def others() -> list[Script]:
        near = sorted(files, key=lambda f: (-len(os.path.commonpath([f, first])), f))
        setting = (f for f in near if f != first and re.search(rb"environ\[|add_argument", _text(f)))
        return [Script(f, _parsed(f)) for f in islice(setting, MOST_BUILDERS)]

    return Loads(Script(first, _parsed(first)), others).macros(source)


def _naming(files: list[str], source: str) -> list[str]:
    """The one of ``files`` with the name of ``source`` in what may be a list of sources that lies nearest to it."""
    quoted = re.compile(rb"[\"'/]" + re.escape(os.path.basename(source).encode()) + rb"[\"']")
    found = [f for f in files if quoted.search(_text(f))]
    return sorted(found, key=lambda f: (-len(os.path.commonpath([f, source])), f))[:1]


def _setups(source: str, root: str) -> list[str]:
    """The ``setup.py`` of the folders above ``source``, the nearest first."""
    above = [p for p in Path(os.path.realpath(source)).parents if p == Path(root) or Path(root) in p.parents]
    return [str(p / SETUP) for p in above if (p / SETUP).is_file()]


def _python_files(root: str) -> list[str]:
    found: list[str] = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS)
        found += [os.path.join(folder, n) for n in names if n.endswith(".py")]
        if len(found) > MOST_FILES:
            return []
    return sorted(found)


def _text(file: str) -> bytes:
    return read_bytes(file)[:MOST_BYTES]


def _parsed(file: str) -> list[ast.stmt]:
    try:
        return ast.parse(_text(file)).body
    except (SyntaxError, ValueError):
        return []


def _with_imports(files: list[str], known: list[str]) -> dict[str, Names]:
    """``files`` whole, and what they import of those ``known``, through others too."""
    found = dict.fromkeys(files, ALL)
    left = [*files]
    while left:
        file = left.pop(0)
        for other, names in _imported(file, found[file], known):
            more = found.get(other, frozenset()) | names
            if more != found.get(other) and (other in found or len(found) < MOST_BUILDERS):
                found[other] = more
                left.append(other)
    return found


def _imported(file: str, names: Names, known: list[str]) -> Iterator[tuple[str, Names]]:
    """The files of the project that what counts of ``file`` imports names from, by the ends of their paths."""
    for node in (n for s in _of_names(file, names) for n in ast.walk(s) if isinstance(n, ast.ImportFrom)):
        parts = node.module.split(".") if node.module else []
        taken = frozenset(a.name for a in node.names)
        if node.level:
            here = Path(file).parents[node.level - 1]
            module = str(here.joinpath(*parts).with_suffix(".py")) if parts else ""
            yield from [(module, taken)] if module in known else []
            whole = ((str(here.joinpath(*parts, n).with_suffix(".py")), ALL) for n in taken)
            yield from (way for way in whole if way[0] in known)
        elif parts:
            end = os.path.join(os.sep, *parts) + ".py"
            same = [f for f in known if f.endswith(end)]
            yield from [(same[0], taken)] if len(same) == 1 else []


def _of_names(file: str, names: Names) -> list[ast.stmt]:
    """The statements of ``file`` that give it ``names``, and those that these are made of; imports always."""
    body = _parsed(file)
    if names & ALL:
        return body
    given = [(s, _gives(s)) for s in body]
    found: list[ast.stmt] = []
    wanted, left = {*names}, [*names]
    while left:
        name = left.pop()
        for s in (s for s, gives in given if name in gives and s not in found):
            found.append(s)
            more = {n.id for n in ast.walk(s) if isinstance(n, ast.Name)} - wanted
            wanted |= more
            left += more
    return [s for s in body if s in found or isinstance(s, ast.ImportFrom)]


def _gives(s: ast.stmt) -> set[str]:
    """The names that a statement at the top of a module gives something."""
    if isinstance(s, ast.ClassDef | ast.FunctionDef):
        return {s.name}
    targets = s.targets if isinstance(s, ast.Assign) else [s.target] if isinstance(s, ast.AnnAssign) else []
    return {t.id for t in targets if isinstance(t, ast.Name)}


def _flags(file: str, names: Names) -> Iterator[str]:
    """The macros that what counts of ``file`` gives, as flags of a compiler."""
    for node in (n for s in _of_names(file, names) for n in _certain(s)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (m := _MACRO.match(node.value)):
            yield f"-D{m[1]}" + (f"={m[2]}" if m[2] is not None else "")
        elif isinstance(of := _macros_given(node), ast.List):
            yield from (
                flag for e in of.elts if isinstance(e, ast.Tuple) and len(e.elts) == 2 for flag in _pair(*e.elts)
            )


def _macros_given(node: ast.AST) -> ast.expr | None:
    """What ``define_macros`` is given, or gets more of."""
    if isinstance(node, ast.keyword):
        return node.value if node.arg == "define_macros" else None
    if isinstance(node, ast.Assign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return node.value if any("macro" in ast.unparse(t).lower() for t in targets) else None
    return None


def _pair(name: ast.expr, value: ast.expr) -> Iterator[str]:
    """An element of ``define_macros``: ``("FAST", None)``, ``("N", "4")``."""
    told = [x.value if isinstance(x, ast.Constant) else "" for x in (name, value)]
    if (
        isinstance(told[0], str)
        and _NAME.match(told[0])
        and (told[1] is None or (isinstance(told[1], str) and told[1]))
    ):
        yield f"-D{told[0]}" + (f"={told[1]}" if told[1] is not None else "")


def _certain(node: ast.AST) -> Iterator[ast.AST]:
    """``node`` and what is in it, but for what is not known to be run and texts that are put together."""
    yield node
    if isinstance(node, ast.JoinedStr | ast.ExceptHandler):
        return
    for _, part in ast.iter_fields(node):
        if isinstance(node, ast.If | ast.IfExp) and part in (node.test, *_ways_not_taken(node)):
            continue
        for child in _up_to_the_end(part) if isinstance(part, list) else [part]:
            yield from _certain(child) if isinstance(child, ast.AST) else ()


def _ways_not_taken(node: ast.If | ast.IfExp) -> list[Any]:
    holds = _holds(node.test)
    return [node.body, node.orelse] if holds is None else [node.orelse if holds else node.body]


def _up_to_the_end(block: list[Any]) -> Iterator[Any]:
    """The statements of a block up to one that may leave it."""
    for s in block:
        yield s
        if isinstance(s, ast.stmt) and _may_leave(s):
            return


def _may_leave(s: ast.stmt) -> bool:
    if isinstance(s, ast.If):
        gone = _ways_not_taken(s) if _holds(s.test) is not None else []
        return any(_may_leave(x) for way in (s.body, s.orelse) if way not in gone for x in way)
    if isinstance(s, ast.Try | ast.With):
        return any(map(_may_leave, s.body))
    return isinstance(s, ast.Return | ast.Raise | ast.Break | ast.Continue)


def _holds(test: ast.expr) -> bool | None:
    """Whether a condition holds where CUDA is there and ROCm is not; None if it is about anything else."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return None if (inner := _holds(test.operand)) is None else not inner
    if isinstance(test, ast.BoolOp):
        parts, decides = [_holds(v) for v in test.values], isinstance(test.op, ast.Or)
        return decides if decides in parts else None if None in parts else not decides
    if isinstance(test, ast.Compare):
        none = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
        there = _holds(test.left) if none and len(test.ops) == 1 else None
        return there if there is None or isinstance(test.ops[0], ast.IsNot | ast.NotEq) else not there
    named = ast.unparse(test.func if isinstance(test, ast.Call) else test)
    if not isinstance(test, ast.Call | ast.Name | ast.Attribute):
        return None
    return False if _ROCM.search(named) else True if _CUDA.search(named) else None


__all__ = ["python_macros"]
