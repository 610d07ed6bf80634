"""The campaigns of the second tier, as a table: a command, the files it rests on, and the figures in what it prints."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Figures = dict[str, object]


@dataclass(frozen=True)
class Settings:
    """What a run of the second tier is given. ``suites`` and ``corpora`` hold public trees, a folder each; ``scale``
    multiplies the time of every part; ``folder`` is where logs are kept."""

    seed: int
    jobs: int
    scale: float
    folder: Path
    suites: Path | None
    corpora: Path | None

    def seconds(self, part: Part) -> int:
        return max(1, round(part.minutes * 60 * self.scale))


@dataclass(frozen=True)
class Part:
    """One campaign. ``own``: its code, beside the product's; ``minutes`` on two cores, of those that can be told to
    stop; ``needs``: a folder of others' files, without which it is not run."""

    name: str
    what: str
    own: tuple[str, ...]
    command: Callable[[Part, Settings], list[str]]
    figures: Callable[[str], Figures]
    minutes: float = 0
    needs: Callable[[Settings], Path | None] | None = None


def _python(module: str, *args: object) -> list[str]:
    return [sys.executable, "-m", module, *map(str, args)]


def last_document(text: str) -> Figures:
    """The last JSON document of ``text``: a line of its own, or all of it."""
    for candidate in (text, *reversed(text.splitlines())):
        try:
            found = json.loads(candidate)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return {}


def of(*keys: str) -> Callable[[str], Figures]:
    """The figures called ``keys`` of the last document; of a list, how long it is."""

    def read(text: str) -> Figures:
        found = last_document(text)
        values = ((k, found.get(k)) for k in keys)
        return {k: len(v) if isinstance(v, list) else v for k, v in values if v is not None}

    return read


def _tests(text: str) -> Figures:
    """The counts of pytest's closing line."""
    return {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped)", "".join(text.splitlines()[-1:]))}


def _summary(text: str) -> Figures:
    found = last_document(text).get("summary")
    return dict(found) if isinstance(found, Mapping) else {}


def _fault(kind: str, count: int) -> Part:
    return Part(
        f"faults {kind}", "faults injected into the search: nothing lost, doubled, orphaned or wrong",
        ("tests/faults.py", "tests/search/tuning/fake_tune.py"),
        lambda p, s: _python("tests.faults", kind, "--count", max(1, round(count * s.scale)), "--jobs", s.jobs,
                             "--seed", s.seed),
        lambda text: {k: v for k, v in last_document(text).items() if k not in ("fault", "seed")},
    )  # fmt: skip


def _labelled(suite: str) -> Part:
    return Part(
        f"labelled {suite}", "the sanitizer on kernels that others have labelled", ("tests/labelled",),
        lambda p, s: _python("tests.labelled", _tree(s.suites, suite), "--suite", suite, "--jobs", s.jobs, "--seconds",
                             6, "--json"),
        _summary, needs=lambda s: _tree(s.suites, suite),
    )  # fmt: skip


def _tree(folder: Path | None, name: str = "") -> Path | None:
    path = folder / name if folder is not None else None
    return path if path is not None and path.is_dir() else None


WIDE = ("tests/agent", "tests/ir", "tests/kernels", "tests/passes", "tests/search")
"""Folders whose tests every run takes a sample of, and this tier all."""

PARTS: Sequence[Part] = (
    Part(
        "tests", "all tests, the slow ones too, of which every run has a sixth", ("tests",),
        lambda p, s: _python("pytest", "-n", s.jobs, "tests"), _tests,
    ),
    Part(
        "fuzz", "random kernels under random scripts, against the interpreter", ("tests/fuzz",),
        lambda p, s: _python("tests.fuzz", "--cases", 10**6, "--chunk", 40, "--scripts", 20, "--seed", s.seed, "--jobs",
                             s.jobs, "--seconds", s.seconds(p), "--log", s.folder / f"fuzz-{s.seed}.jsonl"),
        of("kernels", "drawn", "compared", "failures"), minutes=10,
    ),
    Part(
        "sequences", "random sequences of launches under passes that fuse them, against the launches",
        ("tests/sequences",),
        lambda p, s: _python("tests.sequences", "--cases", 10**5, "--seed", s.seed, "--jobs", s.jobs, "--seconds",
                             s.seconds(p)),
        of("cases", "rewritten", "fused", "as one buffer", "wrong"), minutes=10,
    ),
    Part(
        "hostile texts", "broken and malicious sources through the front-end", ("tests/fuzz",),
        lambda p, s: _python("tests.fuzz.frontend_texts", "--cases", 10**6, "--seed", s.seed, "--jobs", s.jobs,
                             "--seconds", s.seconds(p)),
        of("cases", "findings"), minutes=3,
    ),
    Part(
        "arithmetic", "what is known of random integers, against brute force", ("tests/ir/arith",),
        lambda p, s: _python("tests.ir.arith.campaign", "--cases", 10**5, "--seed", s.seed, "--jobs", s.jobs,
                             "--seconds", s.seconds(p)),
        of("cases", "kernels", "checked", "simplified", "wrong"), minutes=10,
    ),
    Part(
        "proofs", "the mutation campaign's own proofs, against near misses", ("tests/mutation",),
        lambda p, s: _python("pytest", "-m", "campaign", "-n", s.jobs, "tests/mutation"), _tests,
    ),
    Part(
        "wide tests", "texts whatever numbers symbols have; steps of every variant; sizes of every shape; all seeds",
        WIDE, lambda p, s: _python("pytest", "-m", "campaign", "-n", s.jobs, *WIDE), _tests,
    ),
    Part(
        "vector math", "functions of single precision on a CPU, over every float",
        ("tests/backends/numba",),
        lambda p, s: _python("pytest", "-m", "campaign", "-n", 1, "tests/backends/numba"), _tests,
    ),
    Part(
        "launchers", "launcher texts of every pass, through the compilers",
        ("tests/bench/launchers.py", "tests/backends/launchers"),
        lambda p, s: _python("tests.bench.launchers", "--every", max(1, round(1 / s.scale))), of("texts", "refused"),
    ),
    Part(
        "mutation", "wrong programs before the verification ladder", ("tests/mutation",),
        lambda p, s: _python("tests.mutation", "--sample", 10**6, "--seed", s.seed, "--jobs", s.jobs, "--seconds",
                             s.seconds(p), "--log", s.folder / f"mutation-{s.seed}.jsonl", "--json"),
        of("pipelines", "mutants", "equivalent", "unknown", "accepted", "false_rejects"), minutes=15,
    ),
    Part(
        "experts", "every committed script of the library, through all of verify", ("tests/experts.py",),
        lambda p, s: _python("tests.experts", "--jobs", s.jobs),
        of("scripts", "TESTED", "PROVED", "not_accepted"),
    ),
    *(_fault(kind, count) for kind, count in
      (("kills", 100), ("pairs", 4), ("cache", 6), ("workers", 6), ("disk", 6))),
    *(_labelled(suite) for suite in ("faial", "gpuverify", "indigo", "oclgrind")),
    Part(
        "audit", "kernels of public trees: raised and lowered, against their sources", ("tests/audit",),
        lambda p, s: _python("tests.audit", *_corpora(s), "--jobs", s.jobs, "--seed", s.seed, "--limit", s.seconds(p),
                             "--out", s.folder / "audit.jsonl"),
        last_document, minutes=10, needs=lambda s: _tree(s.corpora),
    ),
    Part(
        "texts", "every text printed of the library and of public trees, as one hash", ("tests/bench/texts.py",),
        lambda p, s: _python("tests.bench.texts", "record", s.folder / "texts.jsonl", *_corpora(s), "--every",
                             max(1, round(4 / s.scale)), "--jobs", s.jobs, "--seconds", 20),
        of("kernels", "texts", "slow", "errors", "sha"),
    ),
)  # fmt: skip
"""In the order in which they run."""


def _corpora(s: Settings) -> list[Path]:
    return sorted(p for p in s.corpora.iterdir() if p.is_dir()) if s.corpora is not None else []
