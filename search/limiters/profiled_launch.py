"""The program that a profiler runs: one kernel on its workload's arguments, launched once to warm up and once counted.

    python -m ktc.search.limiters.profiled_launch JOB.json

JOB holds the device, the printed code and what the arguments are made from, as requests to workers do. The counted
launch lies between ``cudaProfilerStart`` and ``cudaProfilerStop``, so that a profiler sees no other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ktc.backends.base import Runtime
from ktc.backends.runtimes import open_runtime
from ktc.search.workers.device_arguments import on_device
from ktc.search.workers.worker_protocol import code_from_json, inputs_from_json


def launch(job: Path) -> None:
    """Run the job in the file ``job``. Raises KtcError: no such device, or the kernel does not run on it."""
    wanted = json.loads(job.read_text("utf-8"))
    runtime = open_runtime(wanted["device"])
    executable = runtime.compile(code_from_json(wanted["code"]))
    values, _ = inputs_from_json(wanted["inputs"], job.parent)
    args = {n: on_device(runtime, v) for n, v in values.items()}
    executable.launch(args)
    runtime.synchronize()
    with _counted(runtime):
        executable.launch(args)
        runtime.synchronize()


@contextmanager
def _counted(runtime: Runtime) -> Iterator[None]:
    if runtime.device.backend != "cuda":
        yield
        return
    from ktc.backends.runtimes.cuda_runtime import import_cupy

    api = import_cupy().cuda.runtime
    api.profilerStart()
    try:
        yield
    finally:
        api.profilerStop()


if __name__ == "__main__":
    launch(Path(sys.argv[1]))
