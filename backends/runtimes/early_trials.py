"""Trials of devices that begin before their libraries are loaded here: the two then load them at the same time.

Where nothing is known to work on this machine yet, the trial of a GPU (:mod:`.device_trial`) takes longer than anything
else at a first start: a process of its own that loads the libraries once more.
"""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess

from ktc.ir.support.child_python import python_environment, python_module
from ktc.ir.support.ended_children import end

from .file_cache import cache_root

_begun: dict[str, subprocess.Popen[str]] = {}


def trial_of(name: str) -> subprocess.Popen[str]:
    """The process that tries the device ``name``: one that was begun, or one that begins now.

    Raises:
        OSError: no process can be started.
    """
    begun = _begun.pop(name, None)
    return begun if begun is not None else _start(name)


def begin(name: str) -> None:
    """Begin the trial that opening ``name`` (as :func:`.open_runtime` takes it) begins with, if that is a GPU's."""
    first = untried_gpu(name)
    if first and first not in _begun:
        with contextlib.suppress(OSError):
            _begun[first] = _start(first)


def untried_gpu(name: str) -> str:
    """The GPU that opening ``name`` tries first; '' where there can be none, or where something has worked on this
    machine before: then it is likely that this GPU has."""
    first = "cuda" if name in ("auto", "") else name
    if first.partition(":")[0] != "cuda" or importlib.util.find_spec("cupy") is None:
        return ""
    return "" if any((cache_root() / "devices").glob("*.json")) else first


def give_up() -> None:
    """End the trials that nobody asked for."""
    while _begun:
        end(_begun.popitem()[1])


def _start(name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        python_module("ktc.backends.runtimes.trial_process", name), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, errors="replace", env=python_environment(),
    )  # fmt: skip


__all__ = ["begin", "give_up", "trial_of", "untried_gpu"]
