"""What the process that owns a device does: run, verify and time kernels."""

from __future__ import annotations

import dataclasses
import json
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ktc.backends.base import Emitted, Executable, Runtime
from ktc.backends.runtimes import open_runtime
from ktc.backends.runtimes.device_trial import run_trial
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Repeat
from ktc.search.bounds.attained_rates import attained_rates
from ktc.search.verification.device.kept_launches import KeptLaunches
from ktc.search.verification.device.repeated_launches import in_step, launch_in_step
from ktc.search.verification.floats.any_order import unordered

from .device_arguments import Array, on_device, whole
from .expected_results import ExpectedResults
from .timing import rotation, timing
from .worker_protocol import code_from_json, device_to_json, inputs_from_json, save_array, timing_to_json

if TYPE_CHECKING:
    from ktc.ir.workload import Workload

KEPT_CODE, KEPT_DATA, KEPT_SETS = 64, 3, 2
"""Executables and input sets kept between requests."""

KEPT_BYTES = 2 << 30
"""Of what a program gave that others meet: more is computed and fetched again for each."""


@dataclass(frozen=True)
class Resident:
    """One scenario on the device: outputs as they are before a launch, and the sets of arguments that launches take."""

    pristine: dict[str, Any]
    sets: list[dict[str, Any]]
    outputs: tuple[str, ...]
    bytes: int
    host: dict[str, Any]  # the arguments as they were described; where launches read host memory, of the first set
    expected: dict[object, ExpectedResults] = field(default_factory=dict)  # of the program that others met last

    def reset(self, runtime: Runtime, count: int | None = None) -> list[dict[str, Any]]:
        """The first ``count`` sets (all), with their outputs as they were at the start."""
        chosen = self.sets[:count]
        for s in chosen:
            for n in self.outputs:
                runtime.copy_into(s[n], self.pristine[n])
        return chosen


class Measurer:
    """One runtime and its caches."""

    def __init__(self, device: str, folder: Path) -> None:
        self.folder = folder
        self.runtime = open_runtime(device, expendable=True)
        self._code: OrderedDict[str, tuple[Emitted, Executable]] = OrderedDict()
        self._sets: OrderedDict[str, Resident] = OrderedDict()
        self._data: OrderedDict[str, tuple[dict[str, Any], list[str]]] = OrderedDict()
        self._workloads: dict[str, Workload] = {}
        self._kept = KeptLaunches()

    def handlers(self) -> dict[str, Any]:
        return {
            "hello": self.hello, "canary": self.canary, "rates": self.rates,
            "run": self.run, "verify": self.verify, "load": self.load, "time": self.time,
        }  # fmt: skip

    def hello(self, m: Mapping[str, Any]) -> dict[str, Any]:
        return {"device": device_to_json(self.runtime.device)}

    def canary(self, m: Mapping[str, Any]) -> dict[str, Any]:
        """A kernel with a known answer: is the device sane?"""
        if why := run_trial(self.runtime, unseen=False):
            raise KtcError("E-DEVICE-CANARY", f"of a kernel with a known answer, {why}", exit_code=3)
        return {}

    def rates(self, m: Mapping[str, Any]) -> dict[str, Any]:
        """What the device attains on kernels with nothing in their way."""
        return {"rates": dataclasses.asdict(attained_rates(self.runtime, bool(m.get("anew"))))}

    @property
    def target(self) -> str:
        return self.runtime.device.backend

    # ------------------------------------------------------------------------------------------------------ requests

    def run(self, m: Mapping[str, Any]) -> dict[str, Any]:
        """Launch once on fresh buffers; the outputs come back as files."""
        _, exe = self._executable(m["code"])
        values, outputs = self._inputs(m["inputs"])
        args = {n: on_device(self.runtime, v) for n, v in values.items()}
        exe.launch(args)
        self.runtime.synchronize()
        got = {n: self.runtime.to_host(args[n], values[n]) for n in outputs}
        return {"outputs": {n: save_array(a, self.folder) for n, a in got.items()}}

    def verify(self, m: Mapping[str, Any]) -> dict[str, Any]:
        """Original against candidate on this device, by :func:`ktc.search.verification.device.differential` (or as
        twins)."""
        from ktc.search.verification import differential, twin_differential

        (a, exe_a), (b, exe_b) = self._executable(m["original"]), self._executable(m["code"])
        same: dict[str, Any] = {"variant": m["variant"], "sizes": m["sizes"], "seed": m["seed"]}
        pair, workload = (exe_a, exe_b), self._workload(str(m["workload"]))
        if m.get("twin"):
            verdict = twin_differential(self.runtime, a, b, workload, executables=pair, **same)
        else:
            same |= {"count": m["count"], "kept": self._kept}
            verdict = differential(self.runtime, a, b, workload, executables=pair, **same)
        return {"verdict": json.loads(json.dumps(dataclasses.asdict(verdict), default=str)), "accepted": verdict.ok}

    def load(self, m: Mapping[str, Any]) -> dict[str, Any]:
        """Have the arguments ready that kernels will be timed on."""
        self._resident(m["inputs"], m["cold"])
        return {}

    def time(self, m: Mapping[str, Any]) -> dict[str, Any]:
        """Time ``code``, interleaved with ``baseline`` if there is one, over buffers that rotate past the cache.

        A launch that does several sweeps counts with the time of one.
        """
        code, exe = self._executable(m["code"])
        sweeps = code.kernel.sweeps
        on_device = self._resident(m["inputs"], m["cold"])
        before, first_launch = self._fingerprint(exe, on_device)
        sets = on_device.reset(self.runtime)
        out: dict[str, Any] = {"resources": dict(exe.resources), "copies": len(sets), "bytes": on_device.bytes}
        if m.get("baseline"):
            source, base = self._executable(m["baseline"])
            paced = in_step(source.kernel, code.kernel)
            if paced is None:
                return {"status": "wrong", "message": "a launch does no whole number of the source's sweeps"}
            expected = self._baseline((source, base), on_device, paced.repeat)  # a broken baseline fails, too
            out["disagreement"] = expected.disagreement(self._outputs(exe, on_device))
            sweeps = sweeps // source.kernel.sweeps
            on_device.reset(self.runtime)
            first, second, ratio = self.runtime.time_pair((base, sets), (exe, sets), budget_s=m["budget_s"])
            out |= {"baseline": timing_to_json(first), "timing": timing_to_json(second.shared(sweeps))}
            out["ratio"] = [r * sweeps for r in ratio]
        most = m["budget_s"] / 2
        long = self.runtime.reads_host and first_launch > most and "timing" not in out  # one launch has to do
        if "timing" not in out and not long:
            out["timing"] = timing_to_json(self.runtime.time(exe, sets, budget_s=m["budget_s"]).shared(sweeps))
        self.runtime.synchronize()
        after, again = self._fingerprint(exe, on_device)
        if long:  # what is only long the first time, while threads start, is timed as others are
            sets = on_device.reset(self.runtime)
            found = timing([again]) if again > most else self.runtime.time(exe, sets, budget_s=m["budget_s"])
            out["timing"] = timing_to_json(found.shared(sweeps))
        if changed := {n for n in after if after[n] != before[n]}:
            free = changed <= unordered(code.kernel)  # sums by atomics come in any order
            apart = self._results((code, exe), on_device).disagreement(self._outputs(exe, on_device)) if free else ""
            if apart or not free:
                message = f"the results change from one launch to the next{': ' * bool(apart)}{apart}"
                return {"status": "wrong", "message": message}
        return out

    # ------------------------------------------------------------------------------------------------------- helpers

    def _executable(self, m: Mapping[str, Any]) -> tuple[Emitted, Executable]:
        key = json.dumps([m["text"], m["entry"], m["options"], m["kernel"]])
        if key not in self._code:
            code = code_from_json(m)
            self._code[key] = (code, self.runtime.compile(code))
            while len(self._code) > KEPT_CODE:
                self._code.popitem(last=False)
        self._code.move_to_end(key)
        return self._code[key]

    def _workload(self, path: str) -> Workload:
        """The workload in ``path``, read once: what was found out about it is kept by its identity."""
        if path not in self._workloads:
            from ktc.ir.workload import Workload

            self._workloads[path] = Workload.load(path)
        return self._workloads[path]

    def _inputs(self, m: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        key = json.dumps(m, sort_keys=True)
        if key not in self._data:
            self._data[key] = inputs_from_json(m, self.folder)
            while len(self._data) > KEPT_DATA:
                self._data.popitem(last=False)
        self._data.move_to_end(key)
        return self._data[key]

    def _resident(self, m: Mapping[str, Any], cold: bool) -> Resident:
        """The inputs on the device, uploaded once and kept for the requests that follow."""
        key = json.dumps([m, cold], sort_keys=True)
        if key not in self._sets:
            while len(self._sets) >= KEPT_SETS:
                self._sets.popitem(last=False)
            values, outputs = self._inputs(m)
            in_place, device = self.runtime.reads_host, self.runtime.device  # what nobody writes is needed once there
            values = whole(values) if in_place else values
            size = sum(v.nbytes for v in values.values() if isinstance(v, Array))
            copies = rotation(size, device.l2_bytes, device.global_bytes, alone=in_place) if cold else 1
            read = {n: v for n, v in values.items() if n not in outputs and _as_it_is(v)} if in_place else {}
            first = read | {n: on_device(self.runtime, v) for n, v in values.items() if n not in read}
            pristine = {n: values[n] if in_place else self.runtime.copy(first[n]) for n in outputs}
            sets = [first]
            for _ in range(1, copies):
                sets.append({n: self.runtime.copy(v) if isinstance(values[n], Array) else v for n, v in first.items()})
            self._sets[key] = Resident(pristine, sets, tuple(outputs), size, values)
        self._sets.move_to_end(key)
        return self._sets[key]

    def _results(
        self, program: tuple[Emitted, Executable], data: Resident, repeat: Repeat | None = None
    ) -> ExpectedResults:
        """What ``program`` gives on the timed inputs, launched as ``repeat`` says."""
        code, exe = program
        once = repeat is None or repeat.launches == 1
        return ExpectedResults(self.runtime, code, data.host, self._outputs(exe, data, repeat), once)

    def _baseline(self, program: tuple[Emitted, Executable], data: Resident, repeat: Repeat | None) -> ExpectedResults:
        """The same, kept with the inputs for those that meet ``program`` next, unless it is large."""
        key = (program[0].text, program[0].entry, repeat)
        if key not in data.expected:
            made = self._results(program, data, repeat)
            if made.bytes > KEPT_BYTES:
                return made
            data.expected.clear()
            data.expected[key] = made
        return data.expected[key]

    def _outputs(self, exe: Executable, data: Resident, repeat: Repeat | None = None) -> dict[str, np.ndarray]:
        """The outputs of ``exe`` on the timed inputs, on the host, after as many launches as ``repeat`` says."""
        args = data.reset(self.runtime, 1)[0]
        spare = (
            on_device(self.runtime, data.host[repeat.swap[0]]) if repeat is not None and repeat.launches > 1 else None
        )
        at = launch_in_step(exe, args, repeat, spare)
        self.runtime.synchronize()
        swapped = repeat is not None and spare is not None and at == repeat.swap[0]
        held = {**args, repeat.swap[1]: spare} if repeat is not None and swapped else args
        return {n: self.runtime.to_host(held[n], data.host[n]) for n in data.outputs}

    def _fingerprint(self, exe: Executable, data: Resident) -> tuple[dict[str, str], float]:
        """Checksums of the outputs of one launch on pristine inputs, by name; and how long it took, in seconds."""
        args = data.reset(self.runtime, 1)[0]
        self.runtime.synchronize()
        start = time.perf_counter()
        exe.launch(args)
        self.runtime.synchronize()
        seconds = time.perf_counter() - start
        return {n: self.runtime.checksum(args[n]) for n in data.outputs}, seconds


def _as_it_is(value: Any) -> bool:
    """Whether a launch may be given this argument itself, where it reads host memory."""
    return not isinstance(value, np.ndarray) or bool(value.flags.c_contiguous and value.flags.writeable)
