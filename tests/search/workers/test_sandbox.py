"""Landlock confinement of workers, tried from the inside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ktc.search.workers import sandbox

pytestmark = pytest.mark.skipif(not sandbox.abi(), reason="this kernel has no Landlock")

PROBE = """\
import socket, sys
from pathlib import Path
from ktc.search.workers.sandbox import confine
inside, outside = map(Path, sys.argv[1:])
assert confine([inside, Path("/dev")]) > 0
(inside / "a").write_text("x")
(inside / "b").mkdir()
(inside / "a").rename(inside / "b" / "c")
Path("/dev/null").write_text("x")
(outside / "present").read_text()
tried = {
    "write": lambda: (outside / "new").write_text("x"),
    "append": lambda: (outside / "present").open("a"),
    "remove": lambda: (outside / "present").unlink(),
    "rename": lambda: (inside / "b").rename(outside / "b"),
    "mkdir": lambda: (outside / "d").mkdir(),
    "connect": lambda: socket.create_connection(("127.0.0.1", 9), timeout=1),
    "child": lambda: __import__("subprocess").run(["/bin/sh", "-c", f"echo x > {outside}/e"], check=True, stderr=-3),
}
for name, f in tried.items():
    try:
        f()
        print(name, "allowed")
    except Exception as e:
        print(name, type(e).__name__)
"""


def test_a_confined_process_writes_only_inside(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "present").write_text("old")
    done = subprocess.run([sys.executable, "-c", PROBE, str(inside), str(outside)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = dict(line.split() for line in done.stdout.splitlines())
    network = {"connect": "PermissionError" if sandbox.abi() >= 4 else "ConnectionRefusedError"}
    assert said == dict.fromkeys(("write", "append", "remove", "mkdir"), "PermissionError") | network | {
        "rename": said["rename"],
        "child": "CalledProcessError",
    }
    assert said["rename"] in ("PermissionError", "OSError")  # EACCES or EXDEV
    assert sorted(p.name for p in outside.iterdir()) == ["present"]
    assert (outside / "present").read_text() == "old"


def test_what_a_worker_may_write_to_is_its_own(tmp_path: Path) -> None:
    folders = sandbox.writable_folders(tmp_path)
    assert tmp_path in folders and Path("/dev") in folders
    assert Path.home() not in folders and Path.cwd() not in folders
    assert "Landlock" in sandbox.describe()


def test_a_worker_of_a_user_without_caches_makes_them_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh account has no ``~/.cache``; confined, the worker could not make it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba" / "deep"))
    folders = sandbox.writable_folders(tmp_path)
    assert tmp_path / "home" / ".cache" in folders
    assert tmp_path / "numba" / "deep" in folders
