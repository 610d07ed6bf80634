"""What can be said of a workload's expressions and formulas before any kernel is read.

Names, functions and what kinds of expression are allowed: of all of them. What shapes come out: of the reference, by
evaluating it once on the inputs of the smallest scenario, where these are few enough.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.nodes import Expr, i32

from . import real_expressions, reference, size_expressions
from .reference import FormulaError
from .workloads import ArgSpec, Workload

TRIED = 1 << 18
"""Elements of inputs up to which a reference is evaluated when its file is read."""

_ALLOWED = (
    ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Tuple, ast.List, ast.Subscript, ast.Slice,
    ast.Call, ast.keyword, ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip


class Misplaced(Exception):
    """An error in the ``item``-th text of ``key`` in the ``index``-th ``[table]``: ``text``."""

    def __init__(self, error: FormulaError, place: _Place) -> None:
        super().__init__(error.message)
        self.error = error
        self.table, self.index, self.key, self.item = place.table, place.index, place.key, place.item
        self.text = place.text


@dataclass(frozen=True)
class _Place:
    """Where a text stands in the file."""

    table: str
    index: int
    key: str
    item: int
    text: str


def check(workload: Workload, formulas: bool = True) -> None:
    """Every expression of ``workload``, and with ``formulas`` those of its reference, for which numpy is needed.

    Raises:
        Misplaced: the first that is wrong, with its place in the file.
    """
    names = {n: i32(1) for s in workload.scenarios for n in s.sizes}
    for place in _size_texts(workload):
        real = place.key == "value" and workload.is_real(workload.args[place.index])
        judge = real_expressions.check if real else _number
        _at(place, lambda text=place.text, judge=judge: judge(text, names))
    for place in _launch_texts(workload):
        _at(place, lambda text=place.text: reference.parse(text))
    if formulas and workload.formulas:
        _reference(workload)


def _at(place: _Place, judge: Any) -> Any:
    try:
        return judge()
    except FormulaError as e:
        raise Misplaced(e, place) from e


def _size_texts(workload: Workload) -> Iterator[_Place]:
    """The expressions over a scenario's sizes alone."""
    for k, a in enumerate(workload.args):
        yield from (_Place("args", k, "shape", i, text) for i, text in enumerate(a.shape))
        ends = [x for x in a.range or () if isinstance(x, str)]
        yield from (_Place("args", k, "range", i, text) for i, text in enumerate(ends))
        elements = [x for x in a.values if isinstance(x, str)]
        yield from (_Place("args", k, "init", i, text) for i, text in enumerate(elements))
        for key in ("value", "null"):
            if isinstance(text := getattr(a, key), str):
                yield _Place("args", k, key, 0, text)


def _launch_texts(workload: Workload) -> Iterator[_Place]:
    """The expressions in which parameters of the kernel may occur too."""
    if workload.launch is not None:
        for key in ("grid", "block"):
            yield from (_Place("launch", 0, key, i, t) for i, t in enumerate(getattr(workload.launch, key)))
        yield _Place("launch", 0, "shared", 0, workload.launch.shared)
    yield from (_Place("assume", 0, "facts", i, t) for i, t in enumerate(workload.assume))


def _number(text: str, names: Mapping[str, Expr]) -> None:
    """Whether ``text`` is a number or an expression of integers over ``names``; a division by zero is none here."""
    size_expressions.to_ir(text, names)


# ------------------------------------------------------------------------------------------------------ the reference


def _reference(workload: Workload) -> None:
    known = {a.name for a in workload.args} | _readable_sizes(workload)
    outputs = {a.name: a for a in workload.args if a.role in ("out", "inout")}
    places = {name: _Place("reference", 0, name, 0, text) for name, text in workload.formulas}
    for name, text in workload.formulas:
        _at(places[name], lambda text=text: _judge(reference.parse(text), known))
        spec = next((a for a in workload.args if a.name == name), None)
        if spec is not None and name not in outputs:
            what = f"'{name}' is an input: nothing is expected of it"
            hint = f"formulas are for outputs ({', '.join(outputs)}), or name what other formulas use"
            raise Misplaced(FormulaError(what, hint, 0), places[name])
        if name not in outputs:
            known.add(name)
    used = {n for _, text in workload.formulas for n in reference.names(text)}
    for name, _ in workload.formulas:
        if name not in outputs and name not in used:
            what = f"'{name}' is no output of {workload.kernel_name}, and no other formula uses it"
            raise Misplaced(FormulaError(what, f"the outputs are: {', '.join(outputs)}", 0), places[name])
    _tried(workload, outputs, places)


def _readable_sizes(workload: Workload) -> set[str]:
    """The sizes that a formula may name: those that stand alone in a shape or are a scalar's value."""
    texts = {t for a in workload.args for t in ((str(a.value),) if a.role == "scalar" else a.shape)}
    return texts & {n for s in workload.scenarios for n in s.sizes}


def _judge(tree: ast.expr, known: set[str]) -> None:
    """The nodes, names and functions of a formula."""
    for n in reference.named(tree):
        if n.id not in known and n.id not in reference.CONSTANTS:
            hint = f"known here: {', '.join(sorted(known))}"
            raise FormulaError(f"no value named '{n.id}'", hint, n.col_offset)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr_context):
            continue  # that a name is read: nodes made without it have it from Python 3.13 on
        at = getattr(node, "col_offset", None)
        if not isinstance(node, _ALLOWED) or isinstance(node, ast.Not):
            raise FormulaError(f"{type(node).__name__} is not allowed in a formula", at=at)
        if isinstance(node, ast.Call):
            _call(node)


def _call(node: ast.Call) -> None:
    if not isinstance(node.func, ast.Name):
        raise FormulaError("only functions by their names are called", at=node.col_offset)
    name = node.func.id
    if name == "arg":
        return
    fn = reference.functions().get(name)
    if fn is None:
        raise reference.unknown_function(name, node.col_offset)
    try:
        inspect.signature(fn).bind(*node.args, **{str(k.arg): k.value for k in node.keywords})
    except TypeError as e:
        raise FormulaError(f"{name}: {e}", at=node.col_offset) from e
    except ValueError:  # numpy does not say what this one takes
        return


def _tried(workload: Workload, outputs: Mapping[str, ArgSpec], places: Mapping[str, _Place]) -> None:
    """Evaluate the reference on the smallest scenario's inputs: numpy takes it, and shapes are those of the outputs."""
    try:
        sizes = min((s.sizes for s in workload.scenarios), key=lambda sizes: _elements(workload, sizes))
        if _elements(workload, sizes) > TRIED:
            return
        env = workload.formula_names(inputs := workload.make_inputs(sizes))
    except KtcError:
        return  # what is wrong with the inputs is told where they are wanted
    for name, text in workload.formulas:
        value = _at(places[name], lambda text=text: reference.evaluate(text, env))
        if name not in outputs:
            env[name] = value
            continue
        _at(places[name], lambda value=value, name=name: workload.fit(name, value, inputs))


def _elements(workload: Workload, sizes: Mapping[str, int]) -> int:
    return sum(math.prod(size_expressions.evaluate(t, sizes) for t in a.shape) for a in workload.args if a.shape)
