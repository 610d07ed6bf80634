"""Reading ``workload.toml``: TOML to :class:`~ktc.ir.workload.Workload`, every complaint with its place in the file."""

from __future__ import annotations

import itertools
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ktc.ir.diagnostics import KtcError, Loc

from . import formula_checks
from .input_data import INITS, VALUES
from .workloads import ROLES, SPECIAL_VALUES, ArgSpec, LaunchSpec, Scenario, Workload

_KEYS: dict[str, tuple[str, ...]] = {
    "": ("kernel", "variants", "args", "launch", "assume", "scenario", "reference", "check", "repeat"),
    "kernel": ("source", "name", "template", "defines", "include"),
    "args": (
        "name",
        "dtype",
        "shape",
        "role",
        "init",
        "value",
        "range",
        "align",
        "divisible_by",
        "noalias",
        "mark",
        "null",
        "guessed",
        "observed",
    ),
    "launch": ("grid", "block", "shared"),
    "assume": ("facts",),
    "repeat": ("swap",),
    "scenario": ("name", "sizes", "weight", "heldout"),
}
GUESSES = ("range", "divisible_by", "align", "noalias")
"""What a draft may guess or have observed of an argument: promises that passes would otherwise build on."""

ASSUMED = 'assume = ["rows == batch * length"] above all tables, or the same list as the facts of a table [assume]'

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z")
MAX_BYTES = 1 << 20


class _File:
    """One file's text, for errors that point into it."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text

    def fail(self, message: str, table: str = "", index: int = 0, key: str = "", hint: str = "") -> KtcError:
        """An error at ``key`` of the ``index``-th ``[table]``."""
        return KtcError("E-WORKLOAD-SCHEMA", message, self.loc(table, index, key), hint, source=self.text)

    def has_table(self, name: str) -> bool:
        return re.search(rf"(?m)^\s*\[\s*{re.escape(name)}\s*\]", self.text) is not None

    def loc(self, table: str, index: int, key: str) -> Loc:
        lines = self.text.splitlines()
        start = 0
        if table:
            head = re.compile(rf"\s*\[\[?\s*{re.escape(table)}\s*\]\]?")
            heads = [i for i, line in enumerate(lines) if head.match(line)]
            start = heads[index] if index < len(heads) else 0
        for i in range(start, len(lines)):
            if i > start and lines[i].lstrip().startswith("["):
                break
            if key and (m := re.match(rf"\s*([\"']?){re.escape(key)}\1\s*=", lines[i])):
                return Loc(str(self.path), i + 1, m.end() - len(m.group().lstrip()) + 1)
        return Loc(str(self.path), start + 1, 1)

    def inside(self, table: str, index: int, key: str, item: int, value: str, offset: int | None) -> Loc:
        """The place of a character of ``value``, the ``item``-th text of a key; of the key where that is not clear."""
        loc = self.loc(table, index, key)
        lines = self.text.splitlines(keepends=True)
        start = sum(map(len, lines[: loc.line - 1])) + loc.col - 1
        for m in itertools.islice(_TOML_TEXT.finditer(self.text, start), item, item + 1):
            raw = next(g for g in m.groups() if g is not None)
            if raw == value and offset is not None:
                at = m.end() - len(m[0]) + m[0].index(raw) + min(offset, len(raw))
                before = self.text[:at]
                return Loc(str(self.path), before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1)
        return loc


_TOML_TEXT = re.compile(r'"""\n?(.*?)"""|\'\'\'\n?(.*?)\'\'\'|"([^"\\\n]*)"|\'([^\'\n]*)\'', re.DOTALL)
"""A text of TOML without escapes, and what is in it."""


def read(path: Path, formulas: bool = True) -> Workload:
    """Parse and check a workload file, or the ``workload.toml`` of a folder; the reference only with ``formulas``."""
    if path.is_dir():
        path = path / "workload.toml"
    try:
        raw = path.read_bytes()[: MAX_BYTES + 1]
    except OSError as e:
        raise KtcError("E-WORKLOAD-FILE", f"cannot read {path}: {e.strerror}", exit_code=2) from e
    if len(raw) > MAX_BYTES:
        raise KtcError("E-WORKLOAD-FILE", f"{path} is larger than {MAX_BYTES} bytes")
    return parse(raw.decode("utf-8", errors="replace"), path, formulas)


def parse(text: str, path: Path, formulas: bool = True) -> Workload:
    """:func:`read` of a file at ``path`` that holds ``text``, or is going to."""
    try:
        doc = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        m = re.search(r"\(at line (\d+), column (\d+)\)", str(e))
        loc = Loc(str(path), int(m[1]), int(m[2])) if m else Loc(str(path), max(1, text.count("\n")), 1)
        raise KtcError("E-WORKLOAD-TOML", re.sub(r" \(at .*\)", "", str(e)), loc, source=text) from e
    return _build(_File(path, text), doc, formulas)


def _beside(f: _File, path: str) -> Path:
    """``path`` seen from the file's folder, without detours: messages are full of it."""
    long = f.path.parent / path
    short = Path(os.path.normpath(long))
    return short if os.path.realpath(short) == os.path.realpath(long) else long  # a link's .. is not the text's


def _build(f: _File, doc: dict[str, Any], formulas_too: bool) -> Workload:
    _only(f, doc, "")
    head = _table(f, doc, "kernel")
    _only(f, head, "kernel")
    name = _text(f, head, "name", "kernel")
    templates = {"": _strings(f, head.get("template", {}), "kernel", "template")}
    for variant, args in _table(f, doc, "variants", optional=True).items():
        templates[variant] = templates[""] | _strings(f, args, "variants", variant)
    args = tuple(_arg(f, a, i) for i, a in enumerate(_tables(f, doc, "args")))
    scenarios = tuple(_scenario(f, s, i) for i, s in enumerate(_tables(f, doc, "scenario")))
    for what, items in (("args", args), ("scenario", scenarios)):
        seen: set[str] = set()
        for i, item in enumerate(items):
            if item.name in seen:
                raise f.fail(f"two {what} tables named '{item.name}'", what, i, "name")
            seen.add(item.name)
    if not scenarios:
        raise f.fail(
            "a workload needs at least one [[scenario]]", hint='[[scenario]]\nname = "small"\nsizes = { n = 1024 }'
        )
    if not any(a.role in ("out", "inout") for a in args):
        raise f.fail("no argument is an output", "args", hint='give one role = "out" or "inout"')
    formulas = tuple((k, _formula(f, k, v)) for k, v in _table(f, doc, "reference", optional=True).items())
    made = Workload(
        path=f.path,
        source=_beside(f, _text(f, head, "source", "kernel")),
        kernel_name=name,
        args=args,
        scenarios=scenarios,
        templates=templates,
        launch=_launch(f, doc),
        assume=_assumed(f, doc),
        formulas=formulas,
        check=_checks(f, doc),
        defines=_strings(f, head.get("defines", {}), "kernel", "defines"),
        include_dirs=tuple(str(_beside(f, i)) for i in _texts(f, head.get("include", []), "kernel", 0, "include")),
        swap=_swap(f, doc, args),
        unchecked="" if formulas_too else f.text,
    )
    _check_expressions(f, made, formulas_too)
    return made


def check_formulas(workload: Workload, text: str) -> None:
    """The formulas of ``workload`` as they were read; ``text`` is that of its file, for what errors show.

    Raises:
        KtcError: E-WORKLOAD-FORMULA with its place in the file.
    """
    _check_expressions(_File(workload.path, text), workload, True)


def _check_expressions(f: _File, made: Workload, formulas: bool) -> None:
    """Every expression and formula of the file, as far as it can be judged without the kernel.

    Raises:
        FormulaError: with the place of what is wrong, in the file.
    """
    try:
        formula_checks.check(made, formulas)
    except formula_checks.Misplaced as e:
        table, key = ("", "assume") if e.table == "assume" and not f.has_table("assume") else (e.table, e.key)
        loc = f.inside(table, e.index, key, e.item, e.text, e.error.at)
        raise KtcError(e.error.code, e.error.message, loc, e.error.hint, source=f.text) from e


def _arg(f: _File, a: Mapping[str, Any], i: int) -> ArgSpec:
    _only(f, a, "args", i)
    role = _text(f, a, "role", "args", i)
    if role not in ROLES:
        raise f.fail(f"role '{role}' is none of {', '.join(ROLES)}", "args", i, "role")
    scalar = role == "scalar"
    if scalar and not isinstance(a.get("value"), str | int | float):
        raise f.fail("a scalar needs a value: a number, or an expression over the sizes", "args", i, "value")
    if not scalar and "shape" not in a:
        raise f.fail("a buffer needs a shape", "args", i, "name", hint='shape = ["n", "2 * d"]')
    init, values = a.get("init", ""), ()
    if isinstance(init, list):
        values, init = tuple(init), VALUES
        if scalar or not values or not all(isinstance(v, int | float) for v in values):
            raise f.fail("a list for init has a buffer's numbers, one an element", "args", i, "init")
    elif init and init not in INITS:
        raise f.fail(f"init '{init}' is none of {', '.join(INITS)}", "args", i, "init")
    span = a.get("range")
    if span is not None and not (isinstance(span, list) and len(span) == 2):
        raise f.fail("range is [low, high], both inclusive", "args", i, "range")
    for key in ("align", "divisible_by"):
        if key in a and (not isinstance(a[key], int) or a[key] < 1):
            raise f.fail(f"{key} is a positive integer", "args", i, key)
    if (scalar and "noalias" in a) or not isinstance(a.get("noalias", False), bool):
        raise f.fail("noalias is true or false, for a buffer", "args", i, "noalias")
    null = a.get("null")
    if null is not None and (scalar or not isinstance(null, bool | str)):
        hint = 'null = true, null = false, or when: null = "bias == 0"'
        raise f.fail("null says of a buffer whether there is none", "args", i, "null", hint)
    mark = a.get("mark")
    if mark is not None and (scalar or span is None or not isinstance(mark, int) or mark >= 0):
        raise f.fail("mark is a negative integer, for a buffer with a range", "args", i, "mark")
    guessed, observed = (_unpromised(f, a, i, how) for how in ("guessed", "observed"))
    return ArgSpec(
        name=_text(f, a, "name", "args", i),
        dtype=_text(f, a, "dtype", "args", i),
        role=role,
        shape=_texts(f, a.get("shape", []), "args", i, "shape"),
        init=init,
        values=values,
        value=a.get("value"),
        range=tuple(span) if span else None,  # type: ignore[arg-type]
        align=a.get("align", 0),
        divisible_by=a.get("divisible_by", 1),
        noalias=a.get("noalias", False),
        mark=mark,
        null=str(null).lower() if isinstance(null, bool) else null,
        guessed=guessed,
        observed=observed,
    )


def _unpromised(f: _File, a: Mapping[str, Any], i: int, how: str) -> frozenset[str]:
    """The facts of an argument that nobody promises: ``guessed`` by a draft, or ``observed`` in launches."""
    named = _texts(f, a.get(how, []), "args", i, how)
    for key in named:
        if key not in GUESSES:
            what = f"{how} names '{key}', which is none of {', '.join(GUESSES)}"
            raise f.fail(what, "args", i, how, hint=f'{how} = ["range", "align"]')
        if key not in a:
            raise f.fail(f"{how} names '{key}', which this argument does not have", "args", i, how)
    return frozenset(named)


def _scenario(f: _File, s: Mapping[str, Any], i: int) -> Scenario:
    _only(f, s, "scenario", i)
    sizes = s.get("sizes")
    if not isinstance(sizes, dict) or not all(isinstance(v, int) and _IDENTIFIER.match(k) for k, v in sizes.items()):
        raise f.fail("sizes is a table of integers", "scenario", i, "sizes", hint="sizes = { n = 16, d = 4096 }")
    weight = s.get("weight", 1.0)
    if not isinstance(weight, int | float) or weight < 0:
        raise f.fail("weight is a number, 0 or more", "scenario", i, "weight")
    return Scenario(_text(f, s, "name", "scenario", i), sizes, float(weight), bool(s.get("heldout", False)))


def _checks(f: _File, doc: Mapping[str, Any]) -> dict[str, Any]:
    """How results are judged: ``special`` names the special values that the kernel is called with."""
    table = _table(f, doc, "check", optional=True)
    asked = table.get("special", "all")
    if asked not in ("all", "none") and not (isinstance(asked, list) and all(x in SPECIAL_VALUES for x in asked)):
        names = ", ".join(f'"{n}"' for n in SPECIAL_VALUES)
        raise f.fail('special is "all", "none", or a list of values', "check", 0, "special", f"the values are: {names}")
    return table


def _launch(f: _File, doc: Mapping[str, Any]) -> LaunchSpec | None:
    if "launch" not in doc:
        return None
    table = _table(f, doc, "launch")
    _only(f, table, "launch")
    shape = {}
    for key in ("grid", "block"):
        shape[key] = _texts(f, table.get(key, []), "launch", 0, key)
        if not 1 <= len(shape[key]) <= 3:
            raise f.fail(f"{key} has one to three expressions", "launch", 0, key, hint='grid = ["n"]')
    return LaunchSpec(shape["grid"], shape["block"], str(table.get("shared", "0")))


def _assumed(f: _File, doc: Mapping[str, Any]) -> tuple[str, ...]:
    """Facts about parameters and sizes: a list, or one in a table of its own."""
    given = doc.get("assume", [])
    table, key = ("assume", "facts") if isinstance(given, dict) else ("", "assume")
    if isinstance(given, dict):
        _only(f, given, "assume")
        given = given.get("facts", [])
    if not isinstance(given, list) or not all(isinstance(v, str) for v in given):
        raise f.fail(f"{key} is a list of conditions", table, 0, key, hint=ASSUMED)
    return tuple(given)


def _swap(f: _File, doc: Mapping[str, Any], args: tuple[ArgSpec, ...]) -> tuple[str, str] | None:
    """The buffers that the host swaps between launches: what is read, and what is written."""
    if "repeat" not in doc:
        return None
    table = _table(f, doc, "repeat")
    _only(f, table, "repeat")
    names = _texts(f, table.get("swap", []), "repeat", 0, "swap")
    specs = [next((a for a in args if a.name == n and a.role != "scalar"), None) for n in names]
    if len(names) != 2 or names[0] == names[1] or None in specs:
        hint = 'swap = ["a", "b"]: the buffer that a launch reads and the one that it writes'
        raise f.fail("swap names two buffers among the arguments", "repeat", 0, "swap", hint)
    read, written = (a for a in specs if a is not None)
    if read.role != "in" or written.role == "in":
        raise f.fail(f"'{read.name}' has to be an input and '{written.name}' an output", "repeat", 0, "swap")
    if (read.dtype, read.shape) != (written.dtype, written.shape):
        raise f.fail(f"'{read.name}' and '{written.name}' differ in type or shape", "repeat", 0, "swap")
    return read.name, written.name


def _formula(f: _File, name: str, text: Any) -> str:
    if not isinstance(text, str):
        raise f.fail(f"the reference of '{name}' is not text", "reference", 0, name)
    return text


def _only(f: _File, table: Mapping[str, Any], kind: str, index: int = 0) -> None:
    for key in table:
        if key not in _KEYS[kind]:
            where = f"[{kind}]" if kind else "a workload file"
            raise f.fail(f"unknown key '{key}' in {where}", kind, index, key, hint=f"known: {', '.join(_KEYS[kind])}")


def _table(f: _File, doc: Mapping[str, Any], key: str, optional: bool = False) -> dict[str, Any]:
    value = doc.get(key, {} if optional else None)
    if not isinstance(value, dict):
        raise f.fail(f"a workload needs a [{key}] table", key)
    return value


def _tables(f: _File, doc: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    value = doc.get(key, [])
    if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
        raise f.fail(f"{key} are [[{key}]] tables", key)
    return value


def _text(f: _File, table: Mapping[str, Any], key: str, kind: str, index: int = 0) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise f.fail(f'[{kind}] needs {key} = "..."', kind, index, key)
    return value


def _texts(f: _File, value: Any, kind: str, index: int, key: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str | int) for v in value):
        raise f.fail(f"{key} is a list of expressions", kind, index, key, hint='shape = ["n", "2 * d"]')
    return tuple(str(v) for v in value)


def _strings(f: _File, table: Any, kind: str, key: str) -> dict[str, str]:
    if not isinstance(table, dict):
        raise f.fail(f"{key} is a table of strings", kind, 0, key)
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in table.items()}
