"""What every test may use: the repository's root, the kernel library, one way to run the command line, optional tools.

``--update-goldens`` rewrites golden files from the current output instead of comparing with them.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TypeVar

import pytest

from ktc.__main__ import main
from tests import devices, rotation
from tests.paths import ROOT

T = TypeVar("T")
COMPILERS = {"nvcc": "cuda", "hipcc": "hip"}
"""Compilers and what they compile."""
PLAIN = {"NO_COLOR": "1", "COLUMNS": "120"}
"""Environment of a command whose output is read by a test."""
TURN = "KTC_TESTS_TURN"
"""The environment's name for which of the slow tests run; absent where all do."""

# Hundreds of tests start ``ktc`` or a worker of it: compiling the packages anew takes longer than what most of them do.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Hundreds of tests raise the same few kernels: each is raised once in a run, by whichever process comes first. Nothing
# is left of it by the next run, and the tests of raising itself do without (tests/passes/raising/conftest.py).
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["KTC_RAISE_CACHE"] = tempfile.mkdtemp(prefix="ktc-raised-")
    atexit.register(shutil.rmtree, os.environ["KTC_RAISE_CACHE"], ignore_errors=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="rewrite golden files")


def pytest_configure(config: pytest.Config) -> None:
    """A run of everything has the slow tests whose turn it is (:mod:`tests.rotation`); the processes that share the
    work are told."""
    if hasattr(config, "workerinput"):
        return
    os.environ.pop(TURN, None)
    chosen = config.getoption("keyword") or config.getoption("markexpr") != "not campaign"
    if config.args_source is not pytest.Config.ArgsSource.ARGS and not chosen:
        os.environ[TURN] = str(rotation.turn())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if TURN in os.environ:
        part = int(os.environ[TURN]) % rotation.PARTS + 1
        terminalreporter.write_line(f"slow tests: part {part} of {rotation.PARTS}; `pytest -n 2 tests` runs all")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if TURN not in os.environ:
        return
    slow, turn = rotation.slow_tests(), int(os.environ[TURN])
    due: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        due[rotation.is_due(item.nodeid, slow, turn)].append(item)
    config.hook.pytest_deselected(items=due[False])
    items[:] = due[True]


def pytest_collection_finish() -> None:
    """The collector leaves alone what lives as long as the session does: thousands of tests and all modules."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(name, text)`` compares ``text`` with ``goldens/name`` beside the test file."""

    def check(name: str, text: str) -> None:
        path = Path(request.path).parent / "goldens" / name
        if request.config.getoption("--update-goldens"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing: run pytest --update-goldens"
        assert text == path.read_text(encoding="utf-8")

    return check


@pytest.fixture
def ktc_process(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run ``ktc ARGS`` in a child process, in an empty folder, without colours; returns the completed process."""

    def run(*args: str, stdin: str = "", timeout: float = 120, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ktc", *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=tmp_path,
            env=os.environ | PLAIN | env,
        )

    return run


@pytest.fixture
def ktc_run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``ktc_process`` without the process, which takes longer to start than most commands to run: for what a command
    prints, writes and returns."""

    def run(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name, value in PLAIN.items():
                patch.setenv(name, value)
            patch.chdir(tmp_path)
            patch.setattr(sys, "stdin", io.StringIO(stdin))
            code = main(list(args))
        return subprocess.CompletedProcess(args, code, out.getvalue(), err.getvalue())

    return run


def processor_seconds(work: Callable[..., object], *given: object) -> float:
    """What one call costs this process. The collector waits: a pass over all that a session holds is no growth."""
    gc.disable()
    try:
        start = time.process_time()
        work(*given)
        return time.process_time() - start
    finally:
        gc.enable()


@pytest.fixture
def linear() -> Callable[..., None]:
    """``linear(build, run, 500, 2_000, 6.5)``: ``run(build(2_000))`` costs less than 6.5 times ``run(build(500))``.

    Only ``run`` is timed, on something built anew each time. The least of a few measurements counts: what else the
    machine does can only add to them.
    """

    def check(
        build: Callable[[int], T], run: Callable[[T], object], short: int, long: int, most: float, more: float = 0.0
    ) -> None:
        run(build(10))  # what the first call alone does: imports, compiled patterns, caches
        shorts, longs = list[float](), list[float]()
        for _ in range(5):
            shorts.append(processor_seconds(run, build(short)))
            longs.append(processor_seconds(run, build(long)))
            if min(longs) < most * min(shorts) + more:
                return
        pytest.fail(f"{long} take {min(longs):.2f} s, {short} take {min(shorts):.2f} s")

    return check


@pytest.fixture
def soon() -> Callable[[Callable[[], object], float], None]:
    """``soon(run, 2)``: ``run()`` costs the processor less than 2 s, in the least of a few measurements."""

    def check(run: Callable[[], object], seconds: float) -> None:
        spent = list[float]()
        while not spent or min(spent) >= seconds:
            assert len(spent) < 4, f"takes {min(spent):.2f} s, not {seconds} s"
            spent.append(processor_seconds(run))

    return check


@pytest.fixture
def nvcc() -> None:
    """The test needs an nvcc that compiles: ``@pytest.mark.usefixtures("nvcc")``."""
    devices.compiler("cuda")


@pytest.fixture
def needs() -> Callable[[str], str]:
    """``needs("nvcc")`` is the tool's path; the test is skipped, with the reason, where it is not installed or compiles
    nothing."""

    def find(tool: str) -> str:
        path = shutil.which(tool)
        if path is None:
            pytest.skip(f"{tool} is not installed")
        if tool in COMPILERS:
            devices.compiler(COMPILERS[tool])
        return path

    return find
