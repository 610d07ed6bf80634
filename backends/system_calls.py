"""Functions that reach outside the program: output, clocks, traps, textures and surfaces. One row a function.

A cell is a template: ``{0} {1}`` the printed arguments, ``{*}`` all of them, ``{T}`` the result's type. ``-`` is
refused with a place. Sources: CUDA C++ Programming Guide 13.0 (10.8 textures, 10.11 time, 10.35 printf),
HIP kernel language reference, OpenCL C 3.0 section 6.15.14.
"""

from __future__ import annotations

from functools import cache

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Call, Sym, Var
from ktc.ir.walk import expressions

SYSTEM = """
printf      | printf({*})                | printf({*})                                     | printf({*})
trap        | __trap()                   | __builtin_trap()                                | -
null_access | __trap()                   | __builtin_trap()                                | null_access()
clock       | clock()                    | (long long)clock()                                    | -
clock64     | clock64()                  | clock64()                                       | -
globaltimer | global_timer()             | global_timer()                                  | -
stream_create  | stream_create({0})                     | -                                 | -
stream_destroy | cudaStreamDestroy((cudaStream_t){0})   | -                                 | -
graph_condition | cudaGraphSetConditional({0}, {1}) | -                                  | -
"""

TEXTURES = """
tex1Dfetch 1, tex1D 1, tex2D 2, tex3D 3, texCubemap 3, tex1DLayered 2, tex2DLayered 3, tex1DLod 2, tex2DLod 3,
tex3DLod 4, tex2Dgather 3
"""
"""Texture fetches with their number of arguments after the texture object; ``x<T>(object, ...)`` in CUDA and HIP."""

SURFACES = {"1D": 1, "2D": 2, "3D": 3, "1DLayered": 2, "2DLayered": 3}
"""Coordinates of ``surf2Dread<T>(object, x, y)`` and ``surf2Dwrite(value, object, x, y)``; x counts bytes."""

BOUNDARY = {"clamp": "BoundaryModeClamp", "zero": "BoundaryModeZero"}
"""Suffix of a surface function that does not trap outside: ``surf2Dread_zero``."""

COLUMNS = {"cuda": 0, "hip": 1, "opencl": 2}


def _object(language: str, kind: str, place: str) -> str:
    return place if language == "cuda" else f"(hip{kind}Object_t){place}"


@cache
def table() -> dict[str, tuple[str, str, str]]:
    """Every function: its templates in CUDA, HIP and OpenCL ('-': refused)."""
    rows = {}
    for line in SYSTEM.strip().splitlines():
        name, *cells = (c.strip() for c in line.split("|"))
        rows[name] = (cells[0], cells[1], cells[2])
    for row in TEXTURES.replace("\n", " ").split(","):
        name, count = row.split()
        rest = "".join(f", {{{i + 1}}}" for i in range(int(count)))
        cells = [f"{name}<{{T}}>({_object(lang, 'Texture', '{0}')}{rest})" for lang in ("cuda", "hip")]
        rows[name] = (cells[0], cells[1], "-")
    for shape, n in SURFACES.items():
        for mode, spelled in {"": "", **BOUNDARY}.items():
            suffix = f"_{mode}" if mode else ""
            for kind, first in (("read", 1), ("write", 2)):
                rest = "".join(f", {{{i + first}}}" for i in range(n))
                cells = []
                for lang in ("cuda", "hip"):
                    last = f", {lang}{spelled}" if spelled else ""
                    target = _object(lang, "Surface", f"{{{first - 1}}}")
                    read = f"surf{shape}read" if lang == "cuda" else f"surf{shape}_value"
                    head = f"{read}<{{T}}>({target}" if kind == "read" else f"surf{shape}write({{0}}, {target}"
                    cells.append(f"{head}{rest}{last})")
                rows[f"surf{shape}{kind}{suffix}"] = (cells[0], cells[1], "-")
    return rows


def template(fn: str, language: str) -> str | None:
    """The template of ``fn``, '-' where the language has nothing like it, None if it is no system function."""
    row = table().get(fn)
    return None if row is None else row[COLUMNS[language]]


def texture_object(fn: str) -> tuple[str, int] | None:
    """(kind, position) of the object argument of a texture or surface function."""
    if fn.startswith("tex") and fn in table():
        return "Texture", 0
    if fn.startswith("surf") and fn in table():
        return "Surface", 0 if "read" in fn else 1
    return None


def texture_objects(kernel: Kernel) -> dict[Sym, str]:
    """The parameters that texture and surface functions use: a 64-bit handle with a name of its own in CUDA and HIP."""
    found: dict[Sym, str] = {}
    params = {p.sym for p in kernel.params}
    for e in expressions(kernel.body):
        if isinstance(e, Call) and (place := texture_object(e.fn)) is not None:
            kind, at = place
            x = e.args[at]
            if isinstance(x, Var) and x.sym in params:
                found[x.sym] = kind
    return found


def expand(cell: str, args: list[str], result: str) -> str:
    """A template with its arguments filled in."""
    cell = cell.replace("{*}", ", ".join(args)).replace("{T}", result)
    for i, a in enumerate(args):
        cell = cell.replace(f"{{{i}}}", a)
    return cell


MIPMAP_LEVELS = {"tex1DLod": "tex1D", "tex2DLod": "tex2D", "tex3DLod": "tex3D"}
"""Fetches from a level of a mipmap: level 0 is the image itself."""
