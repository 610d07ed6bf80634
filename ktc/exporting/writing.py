"""The targets by name, and an export written into its folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ktc.api import Program
from ktc.ir.diagnostics import KtcError
from ktc.recipes import OpenedRecipe

from .artefact import Artefact
from .building import Built, Refusal, build, no_refusal
from .code_of import passed_addresses
from .compile_trial import compile_trial
from .cxx_libraries import library
from .file_scope import unreachable
from .python_packages import Files, package_files
from .python_targets import PACKAGES
from .source_files import several_source_files, source_files


@dataclass(frozen=True)
class Target:
    """``language``: what kernels are printed in. ``files`` writes everything."""

    language: str
    files: Callable[[Built], Files]
    refuses: Refusal = no_refusal


def _package(name: str) -> Target:
    package = PACKAGES[name]
    return Target(package.language, lambda built: package_files(built, package, name), package.refuses)


TARGETS: dict[str, Target] = {
    **{name: _package(name) for name in PACKAGES},
    "source": Target("cuda", source_files),
    "cmake": Target("cuda", library("cuda"), passed_addresses),
    "hip": Target("hip", library("hip"), passed_addresses),
}


CALLED_FROM = {"cuda": "torch", "numba": "numpy", "opencl": "pyopencl", "hip": "hip"}
"""Backend -> the target whose users call its kernels."""


def own_target(recipes: Sequence[OpenedRecipe]) -> str:
    """What runs in the language that was measured; PyTorch for a kernel that has no run."""
    from ktc.backends.profiles import profile_for

    return CALLED_FROM[profile_for(recipes[0].recipe.target).backend] if recipes else "torch"


@dataclass(frozen=True)
class Written:
    """What was exported where; ``notes``: what the target could not carry, and what else to know. ``artefacts``: of
    each kernel."""

    folder: Path
    files: tuple[str, ...]
    artefacts: tuple[Artefact, ...]
    notes: tuple[str, ...]

    @property
    def artefact(self) -> Artefact:
        """That of the first kernel."""
        return self.artefacts[0]


def export(
    recipes: Sequence[OpenedRecipe],
    programs: Sequence[Program],
    to: str,
    folder: Path,
    profile: str = "",
    check: bool = False,
    elsewhere: bool = False,
    ordered: bool = False,
) -> Written:
    """Write runs of one kernel, and kernels with scripts of their own, as ``to`` into ``folder``; to ``source``, runs
    of several kernels too.

    ``profile``: the device to print for, where it is not the plainest of the target's language. An earlier export in
    ``folder`` is replaced; a folder that holds something else is left alone. ``check``: compile C++ files, where their
    compiler is installed. ``elsewhere``: what a CPU measured may decide for a GPU. ``ordered``: without
    kernels that take a sum in an order that depends on timing.

    Raises:
        KtcError: E-EXPORT-FOLDER, E-WRITE, E-EXPORT-COMPILE, E-EXPORT-DEVICE; as :func:`.building.build`.
    """
    target = TARGETS[to]
    if not elsewhere:
        _check_measured(target, to, recipes)
    printed_for = _printed_for(target, recipes, profile)
    groups = _by_kernel(recipes) if to == "source" and not programs else [list(recipes)]
    every = [build(group, programs, printed_for, target.refuses, ordered) for group in groups]
    outside = next((name for b in every for code in b.artefact.codes for name in code.symbols), "")
    if outside and to != "source":
        raise unreachable(outside, "only --to source has the tuned kernel in the file that declares it")
    files = several_source_files(every) if len(every) > 1 else target.files(every[0])
    _put(folder, files)
    notes = list[str]()
    for built, group in zip(every, groups):
        said = compile_trial(folder, _own(files, built, len(every)), built.artefact, built.workload) if check else ""
        notes += [*built.dropped, *_notes(built.artefact, target, group), *([said] if said else [])]
    return Written(folder, tuple(files), tuple(b.artefact for b in every), tuple(dict.fromkeys(notes)))


def _check_measured(target: Target, to: str, recipes: Sequence[OpenedRecipe]) -> None:
    """That no run on a CPU says what is fast on a GPU: its kernels have one thread a block, say."""
    from ktc.backends.profiles import profile_for

    on_cpu = [r for r in recipes if profile_for(r.recipe.target).name.startswith(("numba", "opencl-cpu"))]
    if on_cpu and target.language in ("cuda", "hip"):
        raise KtcError(
            "E-EXPORT-DEVICE", f"this run was measured on a CPU, and what won there is slow on the GPUs of --to {to}",
            hint="`ktc optimize` on a machine with the GPU, then export that run; `ktc export KERNEL --to ... -p "
            "SCRIPT` for a script of your own; --measured-elsewhere exports this one all the same", exit_code=2,
        )  # fmt: skip


def _by_kernel(recipes: Sequence[OpenedRecipe]) -> list[list[OpenedRecipe]]:
    """Runs of the same kernel of the same source together."""
    groups: dict[tuple[str, str], list[OpenedRecipe]] = {}
    for r in recipes:
        groups.setdefault((r.recipe.kernel, Path(r.recipe.source).name), []).append(r)
    return list(groups.values())


def _own(files: Files, built: Built, several: int) -> list[str]:
    """The files to compile for ``built``: of several kernels, its source."""
    return list(files) if several == 1 else [Path(built.workload.source).name]


def _printed_for(target: Target, recipes: Sequence[OpenedRecipe], profile: str) -> str:
    """The profile of the target's language: as asked, as the run's device had it, else the plainest."""
    from ktc.backends.profiles import profile_for

    if profile:
        return profile
    tuned = {r.recipe.target for r in recipes}
    same = [t for t in tuned if profile_for(t).backend == target.language]
    return same[0] if len(tuned) == 1 and same else target.language


def _notes(a: Artefact, target: Target, recipes: Sequence[OpenedRecipe]) -> list[str]:
    from ktc.backends.profiles import profile_for

    notes = []
    others = {r.recipe.target for r in recipes if profile_for(r.recipe.target).backend != target.language}
    for other in sorted(others):
        notes.append(
            f"tuned on {other}: how fast these kernels are in {target.language} was not measured; `ktc optimize` on "
            "such a device measures it"
        )
    for i in a.instances:
        if not i.variants:
            notes.append("no tuned kernel: the export runs the original everywhere")
        elif i.everywhere is not None:
            notes.append("not measured: the script's kernel runs wherever what it needs holds")
    return notes


def _put(folder: Path, files: Files) -> None:
    """Write ``files``; what an earlier export left there goes."""
    try:
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(20, "not a folder")
        held = list(folder.iterdir()) if folder.is_dir() else []
        manifest = folder / MANIFEST
        if held and not manifest.is_file():
            raise KtcError(
                "E-EXPORT-FOLDER", f"{folder} holds files that no export wrote", hint="choose another folder with -o",
                exit_code=2,
            )  # fmt: skip
        if held:
            for name in manifest.read_text(encoding="utf-8").split("\n"):
                path = folder / name
                if name and ".." not in Path(name).parts and not Path(name).is_absolute() and path.is_file():
                    path.unlink()
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                path.write_text(content, encoding="utf-8")
        manifest.write_text("\n".join([*files, MANIFEST]) + "\n", encoding="utf-8")
    except OSError as e:
        raise KtcError("E-WRITE", f"cannot write {folder}: {e.strerror}", exit_code=3) from None


MANIFEST = ".ktc-export"
"""Lists the files of an export, so that the next one can take them away."""
