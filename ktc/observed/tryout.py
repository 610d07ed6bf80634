"""A program with tuned kernels in place of its own: how long it takes, and whether its outputs are the same."""

from __future__ import annotations

import functools
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ktc.backends.base import Emitted
from ktc.capture.preloaded import compiled, found_program
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.host.captured import spelled
from ktc.ir.kernel import Kernel
from ktc.ir.workload import Workload
from ktc.profiling import Profile
from ktc.profiling.kernel_sources import SourceTree
from ktc.profiling.profile_format import Launched
from ktc.profiling.profile_run import PARTS, SOURCE
from ktc.search.records.recipe import Recipe

from .from_program import source_of
from .outputs import DTYPES, Compared, compared
from .swaps import Tuned, Unswapped, swap_lines


@dataclass(frozen=True)
class Run:
    """One run of the program: seconds, exit code, and what it left: its output, and the files asked for."""

    seconds: float
    status: int
    outputs: Mapping[str, bytes | None]
    swapped: int = 0
    refused: int = 0
    launches: int = 0


@dataclass(frozen=True)
class Tryout:
    """Runs of the program as it is and with the tuned kernels, taken in turns."""

    before: tuple[Run, ...]
    after: tuple[Run, ...]
    kernels: tuple[str, ...]
    left: tuple[Unswapped, ...]
    compared: tuple[Compared, ...] = ()

    @property
    def ratio(self) -> float:
        """How many times as fast: of the median runs."""
        return self.median(self.before) / self.median(self.after)

    @staticmethod
    def median(runs: Sequence[Run]) -> float:
        return statistics.median(r.seconds for r in runs)

    @property
    def different(self) -> list[Compared]:
        """Outputs that a run with the tuned kernels left differently from all runs of the program as it is."""
        return [c for c in self.compared if c.status == "different"]

    @property
    def failed(self) -> bool:
        return any(r.status != self.before[0].status for r in self.after)


def tryout(
    profile: Profile, tree: SourceTree, runs: Path, times: int, files: Sequence[str] = (),
    tolerance: float = 0.0, done: Callable[[int], None] = lambda runs: None,
) -> Tryout:  # fmt: skip
    """Run the program of ``profile`` as it is and with the kernels of the recipes in ``runs``, ``times`` each.

    Args:
        files: what the program writes, to be compared, beside its standard output: NAME, or NAME:DTYPE for an array.
        tolerance: by how much numbers of outputs may differ (:class:`~.outputs.Compared`).
        done: is told how many runs have ended.

    Raises:
        KtcError: E-TRYOUT (exit code 2), no recipe in ``runs`` is of a kernel that the program launched.
    """
    library = compiled(SOURCE, PARTS)
    dtypes = dict(_typed(f) for f in files)
    with tempfile.TemporaryDirectory(prefix="ktc-tryout-") as text:
        folder = Path(text)
        kernels, left = _prepared(profile, tree, runs, folder)
        variables = {"KTC_PROFILE_SWAPS": str(folder / "swaps"), "KTC_PROFILE_CLOCK": "none",
                     "LD_PRELOAD": ":".join(filter(None, (str(library), os.environ.get("LD_PRELOAD"))))}  # fmt: skip
        before, after = list[Run](), list[Run]()
        for _ in range(times):
            before.append(_run(profile, {}, [*dtypes]))
            done(len(before) + len(after))
            seen = folder / f"run{len(after)}"
            seen.mkdir()
            after.append(_run(profile, {**variables, "KTC_PROFILE_DIR": str(seen)}, [*dtypes], seen))
            done(len(before) + len(after))
    found = tuple(
        compared(n, [r.outputs[n] for r in before], [r.outputs[n] for r in after], dtypes.get(n, ""), tolerance)
        for n in before[0].outputs
    )
    return Tryout(tuple(before), tuple(after), tuple(kernels), tuple(left), found)


def _typed(file: str) -> tuple[str, str]:
    """``result.bin:f32`` as a name and a dtype."""
    name, _, dtype = file.rpartition(":")
    return (name, dtype) if name and dtype in DTYPES else (file, "")


def _prepared(profile: Profile, tree: SourceTree, runs: Path, folder: Path) -> tuple[list[str], list[Unswapped]]:
    """Writes the modules and the list of swaps to ``folder``."""
    lines, kernels, left = list[str](), list[str](), list[Unswapped]()
    recipes = list(_recipes(runs, left))
    names = {name.partition("(")[0].split("::")[-1] for (_, name, _), _ in recipes}
    for f in (f for p in profile.processes for f in p.launched):
        if not _named(f.kernel) & names:
            continue
        try:
            found = tree.instance(f.kernel, f.parameters, f.shapes[0].geometry)
            if found is None:
                continue
            spec = source_of(tree, found[0], f.kernel)
            key = (Path(spec.kernel).resolve(), spec.name, dict(spec.template))
            tuned = next((t for k, t in recipes if k == key), None)
            if tuned is None:
                continue
            more, rest = swap_lines(f, found[1], tuned, folder, f"kernel{len(kernels)}")
        except KtcError as e:
            left.append(Unswapped(f.kernel, f.launches, e.message.splitlines()[0]))
            continue
        lines += more
        left += rest
        kernels += [f.kernel] if more else []
    if not lines:
        why = "; ".join(f"{u.kernel}: {u.why}" for u in _together(left)) or f"{runs} holds no recipe of its kernels"
        made = "ktc optimize PROFILE --source DIR makes the recipes"
        hint = "ktc report RUN shows what was tried of a kernel" if left else made
        raise KtcError("E-TRYOUT", f"no launch of the program can be swapped: {why}", hint=hint, exit_code=2)
    (folder / "swaps").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return kernels, _together(left)


def _together(left: Sequence[Unswapped]) -> list[Unswapped]:
    """``left`` with one entry for each kernel and reason."""
    counts: dict[tuple[str, str], int] = {}
    for u in left:
        counts[u.kernel, u.why] = counts.get((u.kernel, u.why), 0) + u.launches
    return [Unswapped(kernel, n, why) for (kernel, why), n in counts.items()]


def _named(kernel: str) -> set[str]:
    """The name of the function that a (demangled) kernel is of; none where it is no C++ name."""
    try:
        return {spelled(kernel).name}
    except KtcError:
        return set()


def _recipes(runs: Path, left: list[Unswapped]) -> Iterator[tuple[tuple[Path, str, dict[str, str]], Tuned]]:
    """The tuned kernels of ``runs``, a folder of runs or a run's: by source, name and template arguments. What cannot
    be printed goes to ``left``."""
    for path in sorted({*runs.glob("recipe.json"), *runs.glob("*/recipe.json")}):
        file = path.with_name("workload.toml")
        try:
            recipe = Recipe.load(path)
            if not file.is_file() or not recipe.target.startswith("cuda-sm"):
                continue
            w = Workload.load(file)
            original = w.load_kernel(recipe.variant or None)
            codes = _codes(recipe, w, original)
        except KtcError as e:
            left.append(Unswapped(str(path), 0, e.message.splitlines()[0]))
            continue
        key = (w.source.resolve(), w.kernel_name, w.template(recipe.variant or None))
        yield key, Tuned(w, original, codes, f"sm_{recipe.target.rpartition('sm')[2]}")


def _codes(recipe: Recipe, w: Workload, original: Kernel) -> dict[str, Emitted | None]:
    """What takes the place of ``original`` in each scenario: the scenario's own winner, else the recipe's."""
    from ktc.api import Program
    from ktc.driver.printing import printed

    start = Program(original, w, recipe.variant or None, original=original)

    @functools.cache
    def code(script: str, knobs: tuple[tuple[str, int], ...]) -> Emitted | None:
        return printed(start.apply(script).ok.bind(**dict(knobs)).kernel, recipe.target) if script else None

    common = {"script": recipe.script, "knobs": recipe.knobs}
    own = {s.name: {**recipe.timings, **recipe.heldout}.get(s.name, common) for s in w.scenarios}
    return {name: code(won["script"], tuple(sorted(won["knobs"].items()))) for name, won in own.items()}


def _run(profile: Profile, variables: Mapping[str, str], files: Sequence[str], seen: Path | None = None) -> Run:
    """One run of the program, where it ran when it was profiled; ``files`` are named from there too."""
    where = Path(profile.cwd or ".")
    command = profile.command
    program = found_program([str(where / command[0]) if "/" in command[0] else command[0]])
    begun = time.monotonic()
    done = subprocess.run([program, *command[1:]], env={**os.environ, **variables}, stdout=subprocess.PIPE, cwd=where)
    seconds = time.monotonic() - begun
    outputs: dict[str, bytes | None] = {"standard output": done.stdout}
    for name in files:
        path = where / name
        outputs[name] = path.read_bytes() if path.is_file() else None
    shapes = [s for f in _launched(seen) for s in f.shapes] if seen is not None else []
    return Run(seconds, done.returncode, outputs, sum(s.swapped for s in shapes), sum(s.refused for s in shapes),
               sum(s.launches + s.captured for s in shapes))  # fmt: skip


def _launched(seen: Path) -> list[Launched]:
    (seen / "profile.json").write_text('{"command": [], "status": 0, "seconds": 0}')
    return [f for p in Profile.load(seen).processes for f in p.launched]


__all__ = ["Run", "Tryout", "tryout"]
