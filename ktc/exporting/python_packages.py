"""Python packages that run an export: the description, the kernels' texts, and the modules that read them."""

from __future__ import annotations

import json
import keyword
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources

from .artefact import Artefact, Code, Parameter
from .building import Built, Refusal, no_refusal
from .example_data import archive, cases
from .shipped.dispatch import python_name

Files = dict[str, str | bytes]
"""Paths in the exported folder, and what they hold."""


@dataclass(frozen=True)
class Package:
    """A target that is a Python package: ``modules`` of :mod:`.shipped` go into it, ``init`` prints its ``__init__``.

    ``selftest``: the body of the self-test; ``needs``: what to install; ``arrays``: what its callers pass.
    """

    language: str
    modules: tuple[str, ...]
    init: Callable[[Artefact], str]
    selftest: str
    needs: str
    arrays: str
    refuses: Refusal = no_refusal


def package_files(built: Built, package: Package, target: str) -> Files:
    """Everything in the exported folder."""
    a = built.artefact
    name = package_name(a)
    files: Files = {
        "README.md": readme(a, package, target),
        "pyproject.toml": PYPROJECT.format(name=name, distribution=name.replace("_", "-")),
        "selftest.py": SELFTEST.format(name=name, body=package.selftest.format(name=name)),
        "selftest.npz": archive(cases(built)),
        f"{name}/__init__.py": package.init(a),
        f"{name}/kernel.json": json.dumps(a.to_json(), indent=1) + "\n",
    }
    for module in ("dispatch", *package.modules, "selfcheck"):
        files[f"{name}/{module}.py"] = shipped(module)
    for file, emitted in built.texts.items():
        files[f"{name}/kernels/{file}"] = emitted.text
    return files


TAKEN = sys.stdlib_module_names | {"torch", "numpy", "cupy", "numba", "pyopencl", "triton", "nvidia", "selftest"}
"""Names of modules that a package of that name would hide."""


def package_name(a: Artefact) -> str:
    """The package is called as the kernel is, where that hides no other one."""
    return f"{a.name}_kernel" if a.name in TAKEN or keyword.iskeyword(a.name) else a.name


def shipped(module: str) -> str:
    """The text of a module that is copied as it is."""
    return resources.files("ktc.exporting.shipped").joinpath(f"{module}.py").read_text(encoding="utf-8")


PYPROJECT = """\
[build-system]
requires = ["setuptools>=61"]
build-backend = "setuptools.build_meta"

[project]
name = "{distribution}"
version = "0.1.0"
requires-python = ">=3.9"

[tool.setuptools]
packages = ["{name}"]

[tool.setuptools.package-data]
{name} = ["kernel.json", "kernels/*"]
"""

SELFTEST = '''\
"""Compares every tuned kernel with the original one on small inputs: python selftest.py"""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import {name} as package  # noqa: E402
from {name} import selfcheck  # noqa: E402

{body}
sys.exit(selfcheck.check(package.exported, HERE / "selftest.npz", to_device, to_host, run))
'''


# ------------------------------------------------------------------------------------------------- signatures and text


@dataclass(frozen=True)
class Signature:
    """The two callables: ``pure`` takes inputs and returns outputs, ``into`` writes into what it is given. Texts of
    parameters with annotations, and of arguments."""

    inputs: tuple[Parameter, ...]
    buffers: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    updated: tuple[Parameter, ...]
    scalars: tuple[str, ...]
    annotated: tuple[str, ...]

    def parameters(self, buffers: tuple[Parameter, ...], array: str) -> str:
        taken = [
            f"{python_name(p.name)}: {array} | None" if p.optional else f"{python_name(p.name)}: {array}"
            for p in buffers
        ]
        return ", ".join([*taken, *(["*"] if self.annotated else []), *self.annotated])

    def arguments(self, buffers: tuple[Parameter, ...]) -> str:
        return ", ".join([*(python_name(p.name) for p in buffers), *self.scalars])


def signature(a: Artefact) -> Signature:
    buffers = tuple(p for p in a.parameters if p.role != "scalar")
    scalars = [p for p in a.parameters if p.role == "scalar" and not p.value]
    defined = {p.defines for p in scalars}
    loose = [s.size for s in a.sizes if not s.parameter and s.size not in defined]
    dtypes = a.instances[0].dtypes
    annotated = []
    for p in scalars:
        kind = "float" if dtypes.get(p.name, "i64")[0] in "fe" or dtypes.get(p.name) == "bf16" else "int"
        annotated.append(f"{python_name(p.name)}: {kind}")
    return Signature(
        tuple(p for p in buffers if p.role != "out"),
        buffers,
        tuple(p for p in buffers if p.role == "out"),
        tuple(p for p in buffers if p.role == "inout"),
        (*(python_name(p.name) for p in scalars), *loose),
        (*annotated, *(f"{s}: int" for s in loose)),
    )


def described(p: Parameter, dtypes: list[Mapping[str, str]], pure: bool = False) -> str:
    """``input: f16 [n, 2 * d]``; ``pure``: of the callable that changes nothing it is given."""
    kinds = " or ".join(dict.fromkeys(d[p.name] for d in dtypes))
    updated = "copied, and the copy updated" if pure else "updated in place"
    role = {"in": "read", "out": "written", "inout": updated}[p.role]
    return f"{python_name(p.name)}: {kinds} [{', '.join(p.shape)}], {role}" + (", or None" if p.optional else "")


LISTED = 4
"""Measurements that a line names; ``kernel.json`` has all."""


def what_runs(a: Artefact, in_one_file: bool = False) -> list[str]:
    """Which kernel runs when, a line each. Kernels go by their files, or by their namespaces ``in_one_file``."""
    lines = []
    for n, i in enumerate(a.instances):
        of = f"{i.variant_name}: " if i.variant_name else ""
        for k, v in enumerate(i.variants):
            knobs = "".join(f" {n}={value}" for n, value in v.knobs.items())
            won = [p for p in i.points if p.variant == k]
            said = [f"{', '.join(f'{n} = {x}' for n, x in p.at.items())} ({p.ratio[0]:.2f}x)" for p in won if p.ratio]
            places = "; ".join(said[:LISTED]) + (f" and {len(said) - LISTED} more" if len(said) > LISTED else "")
            where = f"measured at {places}" if won else "wherever its conditions hold (not measured)"
            name = f"tuned{a.tag(n)}{k}" if in_one_file else v.file
            lines.append(f"{of}`{name}`: `{v.script}`{knobs}; {where}; needs {_needs(v)}")
        kept = [p for p in i.points if p.variant is None]
        if kept:
            names = ", ".join(p.name for p in kept[:LISTED])
            names += f" and {len(kept) - LISTED} more" if len(kept) > LISTED else ""
            lines.append(f"{of}the original near {names}, where nothing measured was faster")
        original = "the original" if in_one_file else f"`{i.original.file}`, the original"
        lines.append(f"{of}{original}: everywhere else")
    return lines


def _needs(v: Code) -> str:
    needs = [f"`{t}`" for t in v.requires] + [f"{n} aligned to {b} bytes" for n, b in v.aligned.items()]
    needs += [f"{x.one} and {x.other} in different memory" for x in v.apart]
    needs += [f"{v.arch}{' alone' if v.arch[-1].isalpha() else ' or later'}"] if v.arch else []
    return ", ".join(needs) or "nothing more"


def scalars_said(a: Artefact) -> list[str]:
    """The scalars that callers pass, each with the value that the workload has."""
    examples = {python_name(p.name): p.example for p in a.parameters if p.example is not None}
    said = [(t, examples.get(t.split(":")[0])) for t in signature(a).annotated]
    return [t if example is None else f"{t}, for example {example!r}" for t, example in said]


def readme(a: Artefact, package: Package, target: str) -> str:
    """Three lines of use, then what runs when."""
    s = signature(a)
    out = ", ".join(python_name(p.name) for p in (*s.outputs, *s.updated))
    source = "".join(f"; {k} {v}" for k, v in a.about.items())
    name, function = package_name(a), python_name(a.name)
    lines = [
        f"# {a.name} for {target}", "",
        f"1. Install {package.needs}; put the folder `{name}` on the path, or `pip install .`",
        f"2. `import {name}`, then `{out} = {name}.{function}({s.arguments(s.inputs)})`, with {package.arrays}; "
        f"`{name}.{function}_out({s.arguments(s.buffers)})` writes into its arguments instead",
        "3. `python selftest.py` compares the tuned kernels with the original one on small inputs",
        "", "## Arguments", "",
        *(f"- {described(p, [i.dtypes for i in a.instances])}" for p in s.buffers),
        *(f"- {line}" for line in scalars_said(a)),
        "", "## What runs", "",
        "Between the sizes that were measured that tuned kernel runs whose least speed-up at the nearest "
        "measurements is the greatest, if what it needs holds; the original kernel runs for all other calls.", "",
        *(f"- {line}" for line in what_runs(a)),
        "", f"Written by ktc{source}.", "",
    ]  # fmt: skip
    return "\n".join(lines)
