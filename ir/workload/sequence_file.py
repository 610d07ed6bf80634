"""The launches of a sequence, as a workload file has them: one table ``[[launch]]`` each, in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .toml_file import TomlFile, only, strings_at, tables, text_at
from .workload_file import beside, geometry
from .workloads import ArgSpec, Scenario, SequenceLaunch

EXAMPLE = '[[launch]]\nsource = "norm.cu"\nkernel = "add_rms_norm"\nargs = { out = "normed" }'


def launches_of(f: TomlFile, doc: Mapping[str, Any], head: Mapping[str, Any]) -> tuple[SequenceLaunch, ...]:
    """The launches of the file; ``head`` is its table ``[sequence]``, whose source and template hold for each of them
    that does not say otherwise.

    Raises:
        KtcError: E-WORKLOAD-SCHEMA with its place.
    """
    found = tables(f, doc, "launch")
    if not found:
        raise f.fail("a sequence needs at least one [[launch]]", "sequence", 0, "name", hint=EXAMPLE)
    return tuple(_launch(f, given, i, head) for i, given in enumerate(found))


def _launch(f: TomlFile, given: Mapping[str, Any], i: int, head: Mapping[str, Any]) -> SequenceLaunch:
    only(f, given, "launch", i, known="launches")
    source = given.get("source", head.get("source"))
    if not isinstance(source, str) or not source:
        raise f.fail('a [[launch]] needs source = "..."', "launch", i, "source", hint=EXAMPLE)
    template = strings_at(f, given["template"], "launch", "template") if "template" in given else None
    passed = given.get("args", {})
    if not isinstance(passed, dict) or not all(isinstance(v, str | int | float) for v in passed.values()):
        hint = 'args = { out = "y", n = "rows * d" }'
        raise f.fail("args is a table: what is passed, by the kernel's parameters", "launch", i, "args", hint)
    shaped = "grid" in given or "block" in given
    return SequenceLaunch(
        source=beside(f, source),
        kernel=text_at(f, given, "kernel", "launch", i),
        template=template,
        passed=passed,
        launch=geometry(f, given, i) if shaped else None,
    )


def with_sizes(args: tuple[ArgSpec, ...], scenarios: tuple[Scenario, ...]) -> tuple[ArgSpec, ...]:
    """``args`` and a scalar of its own for each size that none of them carries: what launches pass, and how they are
    shaped, is made of sizes."""
    carried = {str(a.value) for a in args if a.role == "scalar"} | {a.name for a in args}
    most: dict[str, int] = {}
    for s in scenarios:
        for name, n in s.sizes.items():
            most[name] = max(n, most.get(name, 0))
    new = (n for n in most if n not in carried)
    return (*args, *(ArgSpec(n, "i32" if most[n] < 1 << 31 else "i64", "scalar", value=n) for n in new))


__all__ = ["launches_of", "with_sizes"]
