"""Reading ``workload.toml``: TOML to :class:`~ktc.ir.workload.Workload`, every complaint with its place in the file."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ktc.ir.diagnostics import KtcError, Loc

from . import formula_checks
from .input_data import INITS, VALUES
from .toml_file import TomlFile, only, strings_at, table, tables, text_at, texts_at
from .workloads import ROLES, SPECIAL_VALUES, TEMPORARY, ArgSpec, LaunchSpec, Scenario, SequenceLaunch, Workload

GUESSES = ("range", "divisible_by", "align", "noalias")
"""What a draft may guess or have observed of an argument: promises that passes would otherwise build on."""

ASSUMED = 'assume = ["rows == batch * length"] above all tables, or the same list as the facts of a table [assume]'

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z")
MAX_BYTES = 1 << 20


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
    return _build(TomlFile(path, text), doc, formulas)


def beside(f: TomlFile, path: str) -> Path:
    """``path`` seen from the file's folder, without detours: messages are full of it."""
    long = f.path.parent / path
    short = Path(os.path.normpath(long))
    return short if os.path.realpath(short) == os.path.realpath(long) else long  # a link's .. is not the text's


def _build(f: TomlFile, doc: dict[str, Any], formulas_too: bool) -> Workload:
    only(f, doc, "")
    kind = "sequence" if "sequence" in doc else "kernel"
    head = table(f, doc, kind)
    only(f, head, kind)
    name = text_at(f, head, "name", kind)
    templates = {"": strings_at(f, head.get("template", {}), kind, "template")}
    for variant, args in table(f, doc, "variants", optional=True).items():
        templates[variant] = templates[""] | strings_at(f, args, "variants", variant)
    every = tuple(_arg(f, a, i) for i, a in enumerate(tables(f, doc, "args")))
    args = tuple(a for a in every if a.role != TEMPORARY)
    launches: tuple[SequenceLaunch, ...] = ()
    if kind == "sequence":
        from .sequence_file import launches_of

        launches = launches_of(f, doc, head)
    elif len(args) < len(every):
        i = next(i for i, a in enumerate(every) if a.role == TEMPORARY)
        raise f.fail("a kernel has no temporaries: a sequence of launches has", "args", i, "role", "see [sequence]")
    scenarios = tuple(_scenario(f, s, i) for i, s in enumerate(tables(f, doc, "scenario")))
    for what, names in (("args", [a.name for a in every]), ("scenario", [s.name for s in scenarios])):
        for i, n in enumerate(names):
            if n in names[:i]:
                raise f.fail(f"two {what} tables named '{n}'", what, i, "name")
    if not scenarios:
        raise f.fail(
            "a workload needs at least one [[scenario]]", hint='[[scenario]]\nname = "small"\nsizes = { n = 1024 }'
        )
    _check_sizes(f, scenarios)
    if not any(a.role in ("out", "inout") for a in args):
        raise f.fail("no argument is an output", "args", hint='give one role = "out" or "inout"')
    if launches:
        from .sequence_file import with_sizes

        args = with_sizes(args, scenarios)
    formulas = tuple((k, _formula(f, k, v)) for k, v in table(f, doc, "reference", optional=True).items())
    made = Workload(
        path=f.path,
        source=f.path if launches else beside(f, text_at(f, head, "source", "kernel")),
        kernel_name=name,
        args=args,
        scenarios=scenarios,
        templates=templates,
        launch=None if launches else _launch(f, doc),
        assume=_assumed(f, doc),
        assume_guessed=_assume_guessed(f, doc),
        formulas=formulas,
        check=_checks(f, doc),
        defines=strings_at(f, head.get("defines", {}), kind, "defines"),
        include_dirs=tuple(str(beside(f, i)) for i in texts_at(f, head.get("include", []), kind, 0, "include")),
        swap=_swap(f, doc, args),
        launches=launches,
        temporaries=tuple(a for a in every if a.role == TEMPORARY),
        unchecked="" if formulas_too else f.text,
    )
    _check_expressions(f, made, formulas_too)
    return made


def check_formulas(workload: Workload, text: str) -> None:
    """The formulas of ``workload`` as they were read; ``text`` is that of its file, for what errors show.

    Raises:
        KtcError: E-WORKLOAD-FORMULA with its place in the file.
    """
    _check_expressions(TomlFile(workload.path, text), workload, True)


def _check_expressions(f: TomlFile, made: Workload, formulas: bool) -> None:
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


def _arg(f: TomlFile, a: Mapping[str, Any], i: int) -> ArgSpec:
    only(f, a, "args", i)
    role = text_at(f, a, "role", "args", i)
    if role not in (*ROLES, TEMPORARY):
        raise f.fail(f"role '{role}' is none of {', '.join((*ROLES, TEMPORARY))}", "args", i, "role")
    scalar = role == "scalar"
    if scalar and not isinstance(a.get("value"), str | int | float):
        hint = 'value = 8, value = "rows * d", or, of a floating-point scalar: value = "1 / sqrt(d)"'
        raise f.fail("a scalar needs a value: a number, or an expression over the sizes", "args", i, "value", hint)
    if not scalar and "shape" not in a:
        raise f.fail("a buffer needs a shape", "args", i, "name", hint='shape = ["n", "2 * d"]')
    init, values = a.get("init", ""), ()
    if isinstance(init, list):
        values, init = tuple(init), VALUES
        if scalar or not values or not all(isinstance(v, int | float | str) for v in values):
            hint = 'init = [4, "n", "n * d"]'
            raise f.fail("a list for init has a buffer's numbers, one an element", "args", i, "init", hint)
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
        name=text_at(f, a, "name", "args", i),
        dtype=text_at(f, a, "dtype", "args", i),
        role=role,
        shape=texts_at(f, a.get("shape", []), "args", i, "shape"),
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


def _unpromised(f: TomlFile, a: Mapping[str, Any], i: int, how: str) -> frozenset[str]:
    """The facts of an argument that nobody promises: ``guessed`` by a draft, or ``observed`` in launches."""
    named = texts_at(f, a.get(how, []), "args", i, how)
    for key in named:
        if key not in GUESSES:
            what = f"{how} names '{key}', which is none of {', '.join(GUESSES)}"
            raise f.fail(what, "args", i, how, hint=f'{how} = ["range", "align"]')
        if key not in a:
            raise f.fail(f"{how} names '{key}', which this argument does not have", "args", i, how)
    return frozenset(named)


def _scenario(f: TomlFile, s: Mapping[str, Any], i: int) -> Scenario:
    only(f, s, "scenario", i)
    sizes = s.get("sizes")
    if not isinstance(sizes, dict) or not all(isinstance(v, int) and _IDENTIFIER.match(k) for k, v in sizes.items()):
        raise f.fail("sizes is a table of integers", "scenario", i, "sizes", hint="sizes = { n = 16, d = 4096 }")
    weight = s.get("weight", 1.0)
    if not isinstance(weight, int | float) or weight < 0:
        raise f.fail("weight is a number, 0 or more", "scenario", i, "weight")
    return Scenario(text_at(f, s, "name", "scenario", i), sizes, float(weight), bool(s.get("heldout", False)))


def _check_sizes(f: TomlFile, scenarios: Sequence[Scenario]) -> None:
    """Every scenario gives a number for every size that any of them has: what is computed from sizes needs them all."""
    first = scenarios[0]
    for i, s in enumerate(scenarios):
        lacking, beyond = first.sizes.keys() - s.sizes.keys(), s.sizes.keys() - first.sizes.keys()
        if lacking or beyond:
            said = [f"lacks {', '.join(sorted(lacking))}"] if lacking else []
            said += [f"has {', '.join(sorted(beyond))} besides"] if beyond else []
            hint = f"sizes = {{ {', '.join(f'{name} = ...' for name in first.sizes)} }}"
            what = f"scenario '{s.name}' {' and '.join(said)}: not the sizes of '{first.name}'"
            raise f.fail(what, "scenario", i, "sizes", hint)


def _checks(f: TomlFile, doc: Mapping[str, Any]) -> dict[str, Any]:
    """How results are judged: ``special`` names the special values that the kernel is called with."""
    found = table(f, doc, "check", optional=True)
    asked = found.get("special", "all")
    if asked not in ("all", "none") and not (isinstance(asked, list) and all(x in SPECIAL_VALUES for x in asked)):
        names = ", ".join(f'"{n}"' for n in SPECIAL_VALUES)
        raise f.fail('special is "all", "none", or a list of values', "check", 0, "special", f"the values are: {names}")
    return found


def _launch(f: TomlFile, doc: Mapping[str, Any]) -> LaunchSpec | None:
    if "launch" not in doc:
        return None
    found = table(f, doc, "launch")
    only(f, found, "launch")
    return geometry(f, found, 0)


def geometry(f: TomlFile, given: Mapping[str, Any], index: int) -> LaunchSpec:
    shape = {}
    for key in ("grid", "block"):
        shape[key] = texts_at(f, given.get(key, []), "launch", index, key)
        if not 1 <= len(shape[key]) <= 3:
            raise f.fail(f"{key} has one to three expressions", "launch", index, key, hint='grid = ["n"]')
    return LaunchSpec(shape["grid"], shape["block"], str(given.get("shared", "0")))


def _assumed(f: TomlFile, doc: Mapping[str, Any]) -> tuple[str, ...]:
    """Facts about parameters and sizes: a list, or one in a table of its own."""
    given = doc.get("assume", [])
    table, key = ("assume", "facts") if isinstance(given, dict) else ("", "assume")
    if isinstance(given, dict):
        only(f, given, "assume")
        given = given.get("facts", [])
    if not isinstance(given, list) or not all(isinstance(v, str) for v in given):
        raise f.fail(f"{key} is a list of conditions", table, 0, key, hint=ASSUMED)
    return tuple(given)


def _assume_guessed(f: TomlFile, doc: Mapping[str, Any]) -> bool:
    """Whether nobody vouches for these facts: ``guessed = true`` in their table."""
    given = doc.get("assume", [])
    guessed = given.get("guessed", False) if isinstance(given, dict) else False
    if not isinstance(guessed, bool):
        raise f.fail("guessed is true or false", "assume", 0, "guessed")
    return guessed


def _swap(f: TomlFile, doc: Mapping[str, Any], args: tuple[ArgSpec, ...]) -> tuple[str, str] | None:
    """The buffers that the host swaps between launches: what is read, and what is written."""
    if "repeat" not in doc:
        return None
    found = table(f, doc, "repeat")
    only(f, found, "repeat")
    names = texts_at(f, found.get("swap", []), "repeat", 0, "swap")
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


def _formula(f: TomlFile, name: str, text: Any) -> str:
    if not isinstance(text, str):
        raise f.fail(f"the reference of '{name}' is not text", "reference", 0, name)
    return text
