"""Hardware counters of one launch through Nsight Compute's command line, where it is installed and allowed.

The kernel runs once more for each group of counters, in a process of its own, and what was counted is kept in the
cache folder by the content of text, arguments and device. No clock is changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ktc.backends.base import DeviceInfo, Emitted
from ktc.backends.runtimes.file_cache import Cache, key_of
from ktc.ir.diagnostics import KtcError
from ktc.ir.support.child_python import python_environment, python_module
from ktc.ir.support.ended_children import end
from ktc.search.workers.worker_protocol import FromWorkload, code_to_json, inputs_to_json

from .counters import METRICS, Launch, parse

DEADLINE_S = 120.0
"""Of one call of ncu: some 10 replays of a launch, and seconds to start."""

PLACES = ("/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
PERMISSION = "ERR_NVGPUCTRPERM"
_UNKNOWN = re.compile(r"Failed to find metric[s]?[^\w]*((?:[\w.]+(?:,\s*)?)+)")


@dataclass(frozen=True)
class Unavailable:
    """Why there are no counters, and what would help; ``lasting``: of no kernel, on this machine."""

    why: str
    hint: str = ""
    lasting: bool = True

    def __str__(self) -> str:
        return f"{self.why}; {self.hint}" if self.hint else self.why


def find_ncu() -> str:
    """The path of ncu: ``$KTC_NCU``, the search path, then where toolkits are installed; '' if there is none."""
    named = os.environ.get("KTC_NCU") or shutil.which("ncu")
    return named or next((p for place in PLACES for p in sorted(glob.glob(place), reverse=True)), "")


def command(ncu: str, job: Path, metrics: Iterable[str]) -> list[str]:
    """ncu on the one launch of :mod:`.profiled_launch` that it is to count."""
    options = ["--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
    options += ["--profile-from-start", "off", "--launch-count", "1", "--metrics", ",".join(metrics)]
    return [ncu, *options, *python_module("ktc.search.limiters.profiled_launch", str(job))]


def count(
    code: Emitted, inputs: FromWorkload, device: DeviceInfo, name: str, *, deadline_s: float = DEADLINE_S
) -> Launch | Unavailable:
    """The counters of one launch of ``code`` on ``inputs``; ``name``: the device's, as ``open_runtime`` takes it."""
    if device.backend != "cuda":
        return Unavailable(f"{device.backend} has no counters that ktc can read")
    ncu = find_ncu()
    if not ncu:
        return Unavailable("ncu (Nsight Compute) is not installed", "it comes with the CUDA toolkit; KTC_NCU names one")
    cache = Cache("counters")
    given = json.dumps(dataclasses.asdict(inputs), sort_keys=True, default=str)
    key = key_of(code.text, code.entry, repr(code.options), given, device.name, *METRICS.values())
    if (hit := cache.get(key)) is not None:
        known = json.loads(hit[0])
        return Launch(known["kernel"], known["values"])
    found = _counted(ncu, code, inputs, name, deadline_s)
    if isinstance(found, Launch):
        with contextlib.suppress(KtcError):  # it is counted again next time
            cache.put(key, json.dumps(dataclasses.asdict(found)).encode(), {"kernel": found.kernel})
    return found


def _counted(ncu: str, code: Emitted, inputs: FromWorkload, name: str, deadline_s: float) -> Launch | Unavailable:
    """One call of ncu, and another without the metrics that it does not know."""
    with tempfile.TemporaryDirectory(prefix="ktc-counters-") as folder:
        job = Path(folder, "job.json")
        wanted = {"device": name, "code": code_to_json(code), "inputs": inputs_to_json(inputs, job.parent)}
        job.write_text(json.dumps(wanted), encoding="utf-8")
        said = _said(command(ncu, job, METRICS.values()), deadline_s)
        if isinstance(said, str) and (unknown := _UNKNOWN.search(said)):
            left_out = set(re.split(r",\s*", unknown[1]))
            said = _said(command(ncu, job, [m for m in METRICS.values() if m not in left_out]), deadline_s)
    if isinstance(said, Unavailable):
        return said
    launches = [x for x in parse(said) if x.values]
    return launches[-1] if launches else _fault(said)


def _said(command: list[str], deadline_s: float) -> str | Unavailable:
    """What a command prints, within the deadline."""
    environment = python_environment() | {"LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment,
            start_new_session=True,
        )  # fmt: skip
    except OSError as e:
        return Unavailable(f"{command[0]} does not start: {e.strerror}")
    try:
        return process.communicate(timeout=deadline_s)[0]
    except subprocess.TimeoutExpired:
        end(process)
        return Unavailable(f"ncu gave no answer within {deadline_s:g} s", lasting=False)


def _fault(said: str) -> Unavailable:
    """Why ncu printed no counters."""
    if PERMISSION in said:
        hint = f"an administrator can allow it: https://developer.nvidia.com/{PERMISSION}"
        return Unavailable(f"this user may not read the GPU's counters ({PERMISSION})", hint)
    errors = [line.strip() for line in said.splitlines() if "error" in line.lower()]
    last = (errors or [line.strip() for line in said.splitlines() if line.strip()] or ["it printed nothing"])[-1]
    return Unavailable(f"ncu counted nothing: {last[:200]}", lasting=False)
