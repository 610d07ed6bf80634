"""From what a user types (a file, a folder, a library kernel's name, ``-``) to a kernel and its workload."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ktc.ir.diagnostics import KtcError

if TYPE_CHECKING:
    from ktc.ir.kernel import Kernel
    from ktc.ir.workload import Workload

IR_SUFFIX = ".ktir"
MAX_SOURCE_BYTES = 16 << 20


@dataclass(frozen=True)
class SourceSpec:
    """A kernel as the user names it.

    ``kernel`` is a path, a folder with a ``workload.toml``, the name of a library kernel, or ``-`` for standard input;
    ``name`` picks one ``__global__`` function of several; ``template`` and ``variant`` its instantiation. Without
    ``beside``, a workload file next to the source is not looked at. ``notes``: how the source is read, where
    the user did not say so (:mod:`ktc.project.as_built`).
    """

    kernel: str
    name: str | None = None
    template: Mapping[str, str] = field(default_factory=dict)
    variant: str | None = None
    defines: Mapping[str, str] = field(default_factory=dict)
    include_dirs: Sequence[str] = ()
    workload: str | None = None
    dialect: str | None = None
    beside: bool = True
    notes: tuple[str, ...] = ()


def resolve(spec: SourceSpec) -> tuple[Kernel, Workload | None]:
    """The kernel in the form it was written in, with its workload's facts when there is a workload.

    Raises:
        KtcError: E-FILE (exit code 2) for what cannot be read; whatever the front-end or the workload file raise.
    """
    if spec.kernel == "-":
        return from_text(sys.stdin.read(MAX_SOURCE_BYTES), spec), None
    path = _find(spec.kernel)
    workload = _explicit_workload(spec) or _workload_of(path, spec)
    if workload is None:
        if path.is_dir():
            raise unfinished(path) or KtcError(
                "E-FILE", f"{path} has no workload.toml", hint="name a .cu file, or run `ktc init` on one", exit_code=2
            )
        text = _read(path)
        return _parse_ir(text, str(path)) if path.suffix == IR_SUFFIX else _parse_cuda(str(path), spec), None
    workload = _instantiated(workload, spec)
    return workload.load_kernel(spec.variant), workload


def _instantiated(workload: Workload, spec: SourceSpec) -> Workload:
    """``workload`` with the template arguments, macros and include folders of the command line added to its own."""
    if not spec.template and not spec.defines and not spec.include_dirs:
        return workload
    key = spec.variant or ""
    template = {**workload.template(spec.variant), **spec.template}
    return replace(
        workload,
        templates={**workload.templates, key: template},
        defines={**workload.defines, **spec.defines},
        include_dirs=(*workload.include_dirs, *spec.include_dirs),
    )


def library() -> Path:
    """The folder of the kernel library that ships with ktc."""
    from ktc import kernels

    return Path(kernels.__path__[0])


def library_kernels() -> dict[str, Path]:
    """``family/name`` to folder, for every kernel of the library."""
    root = library()
    return {str(p.parent.relative_to(root)): p.parent for p in sorted(root.glob("*/*/workload.toml"))}


def has_workload(spec: SourceSpec) -> bool:
    """Whether a workload file says how the kernel of ``spec`` is read."""
    if spec.workload:
        return True
    return spec.kernel != "-" and _workload_of(_find(spec.kernel), spec) is not None


def unfinished(folder: Path) -> KtcError | None:
    """What to say of a folder whose run has begun and not ended, for it has no recipe yet; None for any other."""
    if not (folder / "run.json").is_file() or (folder / "recipe.json").is_file():
        return None
    hint = f"`ktc report {folder}` shows what it has found, and under Reproduce the command that goes on with it"
    return KtcError("E-RUN-UNFINISHED", f"the run in {folder} has not ended", hint=hint, exit_code=2)


def _find(text: str) -> Path:
    path = Path(text)
    if path.exists():
        return path
    matches = [p for key, p in library_kernels().items() if text in (key, key.rsplit("/", 1)[-1], f"kernels/{key}")]
    if len(matches) == 1:
        here = Path.cwd()
        return matches[0].relative_to(here) if matches[0].is_relative_to(here) else matches[0]
    import difflib

    name = "" if path.suffix == ".json" else path.stem
    near = difflib.get_close_matches(name, [k.rsplit("/", 1)[-1] for k in library_kernels()], 1)
    hint = (
        f"did you mean '{near[0]}'?"
        if near
        else "KERNEL is a .cu file, a recipe.json, a folder with a workload.toml, or a name that `ktc kernels` lists"
    )
    raise KtcError("E-FILE", f"no such file or kernel: '{text}'", hint=hint, exit_code=2)


def _explicit_workload(spec: SourceSpec) -> Workload | None:
    from ktc.ir.workload import Workload

    return Workload.load(spec.workload, formulas=False) if spec.workload else None


def _workload_of(path: Path, spec: SourceSpec) -> Workload | None:
    """The workload file of a folder, of a TOML path, or beside a source that it names."""
    from ktc.ir.workload import Workload

    if not spec.beside:
        return None
    if path.suffix == ".toml":
        return Workload.load(path, formulas=False)
    if path.is_dir():
        return Workload.load(path, formulas=False) if (path / "workload.toml").exists() else None
    beside = path.parent / "workload.toml"
    if not beside.exists():
        return None
    workload = Workload.load(beside, formulas=False)
    same = workload.source.resolve() == path.resolve()
    return workload if same and spec.name in (None, workload.kernel_name) else None


def _read(path: Path) -> str:
    try:
        with open(path, "rb") as f:
            data = f.read(MAX_SOURCE_BYTES + 1)
    except OSError as e:
        raise KtcError("E-FILE", f"cannot read {path}: {e.strerror}", exit_code=2) from e
    if len(data) > MAX_SOURCE_BYTES:
        raise KtcError("E-FILE", f"{path} is larger than {MAX_SOURCE_BYTES >> 20} MiB", exit_code=2)
    return data.decode("utf-8", errors="replace")


def from_text(text: str, spec: SourceSpec) -> Kernel:
    """The kernel that ``text`` holds, in any language that a file may be in.

    Raises:
        KtcError: what the text gets wrong, with its place.
    """
    if not text.strip():
        raise KtcError("E-FILE", "the source is empty: no kernel to read", exit_code=2)
    return _parse_ir(text) if looks_like_ir(text) else _parse_cuda(text, spec)


def looks_like_ir(text: str) -> bool:
    """Whether ``text`` is the IR's text form rather than CUDA C++: its first word, after comments, is ``kernel``."""
    for line in text.splitlines():
        line = line.strip()
        if line and not line.startswith(("//", "#")):
            return line.startswith("kernel ")
    return False


def _parse_ir(text: str, file: str = "<stdin>") -> Kernel:
    from ktc.ir.text import parse_kernel
    from ktc.ir.verifier import check

    kernel = parse_kernel(text, file)
    check(kernel)
    return kernel


def _parse_cuda(path_or_text: str, spec: SourceSpec) -> Kernel:
    from ktc.ir.frontend import load
    from ktc.ir.verifier import check

    kernel = load(
        path_or_text,
        kernel=spec.name,
        template=dict(spec.template) or None,
        defines=dict(spec.defines) or None,
        include_dirs=tuple(spec.include_dirs),
        dialect=spec.dialect,
    )
    check(kernel)
    return kernel
