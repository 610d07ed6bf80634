"""Workers under faults: a bad candidate costs its deadline and nothing else, and leaves no process behind."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.diagnostics import KtcError
from ktc.ir.text import parse_kernel
from ktc.search.workers.executor import Deadlines, LocalExecutor, Patience, Raw
from ktc.search.workers.worker_messages import ProtocolError, unpack
from ktc.search.workers.worker_protocol import code_from_json, code_to_json, load_array, save_array
from tests import devices

SCALE = """
kernel scale(y: f32* restrict, x: f32 const* restrict, a: f32, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    y[i] = a * x[i]
"""
SPIN = """
kernel scale(y: f32* restrict, x: f32 const* restrict, a: f32, n: i32)
  launch grid(1) block(64)
  var v: f32 = a
  while v > 0.0
    v = v * 1.5
    if v > 100.0
      v = v / 100.0
  y[0] = v
"""
X = np.arange(1000, dtype=np.float32)
INPUTS = Raw({"y": np.zeros_like(X), "x": X, "a": 2.0, "n": 1000}, ("y",))
KINDS = devices.kinds()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("KTC_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(params=KINDS, scope="module")
def lab(request, cache):
    with LocalExecutor(request.param, compilers=1, deadlines=Deadlines(run=4.0)) as ex:
        yield ex


@pytest.fixture(scope="module")
def cpu(cache):
    with LocalExecutor("numba", compilers=1, deadlines=Deadlines(run=4.0)) as ex:
        yield ex


def code_for(lab, text=SCALE):
    return emit(parse_kernel(text), lab.device.backend)


def python(body):
    """A 'kernel' of the CPU backend that does what ``body`` says."""
    good = emit(parse_kernel(SCALE), "numba")
    return dataclasses.replace(good, text=f"import os, signal, sys\n\n\ndef scale(y, x, a, n):\n    {body}\n")


def test_compile_run_and_time(lab):
    code = code_for(lab)
    assert lab.compile(code).result(120).ok
    reply, out = lab.run(code, INPUTS)
    assert reply.ok and np.array_equal(out["y"], 2 * X)
    said = lab.time(code, INPUTS, baseline=code, budget_s=0.2)
    assert said.ok and said.timing.median > 0 and said.ratio[1] <= said.ratio[0] <= said.ratio[2]
    assert said.details["copies"] > 1


def test_compile_errors_are_told_and_do_no_harm(lab):
    good = code_for(lab)
    bad = dataclasses.replace(good, text=re.sub(r"\bx\[", "no_such_name[", good.text))
    reply = lab.compile(bad).result(120)
    assert reply.status == "compile-error" and "no_such_name" in reply.data["message"]
    said = lab.time(bad, INPUTS)
    assert said.status == "compile-error" and "no_such_name" in said.details["message"]
    assert lab.run(good, INPUTS)[0].ok


def test_a_kernel_that_never_ends_costs_its_deadline(lab):
    start = time.monotonic()
    reply, _ = lab.run(code_for(lab, SPIN), INPUTS)
    assert reply.status == "hang"
    assert time.monotonic() - start < 4.0 + 30.0  # the kernel spins for good
    reply, out = lab.run(code_for(lab), INPUTS)
    assert reply.ok and np.array_equal(out["y"], 2 * X)


SCALE_WORKLOAD = """
[kernel]
source = "kernel.ktir"
name = "scale"
[[args]]
name = "y"
dtype = "f32"
shape = ["n"]
role = "out"
[[args]]
name = "x"
dtype = "f32"
shape = ["n"]
role = "in"
[[args]]
name = "a"
dtype = "f32"
role = "scalar"
value = 2.0
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[[scenario]]
name = "few"
sizes = { n = 100 }
"""


def test_a_check_takes_no_longer_than_there_is_time_for(cpu, tmp_path, monkeypatch):
    """A launch that does not end is found in the check that comes before the first timing: it had two minutes, whatever
    the time limit was."""
    (tmp_path / "kernel.ktir").write_text(SCALE)
    (tmp_path / "workload.toml").write_text(SCALE_WORKLOAD)
    monkeypatch.setattr(cpu._patience, "floor", 5.0)
    endless, start = python("__import__('time').sleep(600)"), time.monotonic()
    reply = cpu.verify(code_for(cpu), endless, str(tmp_path / "workload.toml"), sizes=[{"n": 100}], within_s=2.0)
    assert reply.status == "hang" and time.monotonic() - start < 60


def test_a_device_that_takes_no_new_process_is_asked_once(cache):
    """Each of thirty candidates waited two and a half minutes for a process that could not start."""
    with LocalExecutor("numba", compilers=1, deadlines=Deadlines(run=4.0, restart=0.01)) as ex:
        assert ex.run(code_for(ex), INPUTS)[0].ok
        ex.renew()
        first, _ = ex.run(code_for(ex), INPUTS)
        ex.deadlines = Deadlines(run=4.0)
        start = time.monotonic()
        again, _ = ex.run(code_for(ex), INPUTS)
        assert {first.status, again.status} == {"lost"} and time.monotonic() - start < 0.5
        assert first.data == again.data and "after the last one had ended" in first.data["message"]


def test_a_crash_is_tried_twice_and_reported(cpu, tmp_path):
    mark = tmp_path / "attempts"
    reply, _ = cpu.run(python(f"open({str(mark)!r}, 'a').write('x'); os.kill(os.getpid(), signal.SIGSEGV)"), INPUTS)
    assert reply.status == "crash" and "SIGSEGV" in reply.data["message"]
    assert mark.read_text() == "xx"
    assert cpu.run(code_for(cpu), INPUTS)[0].ok


def test_a_crash_that_does_not_come_back_is_forgiven(cpu, tmp_path):
    mark = tmp_path / "seen"
    body = f"os.path.exists({str(mark)!r}) or (open({str(mark)!r}, 'w'), os._exit(7))"
    assert cpu.run(python(body), INPUTS)[0].ok


def test_an_exception_is_a_crash_with_its_message(cpu):
    reply, _ = cpu.run(python("raise RuntimeError('boom')"), INPUTS)
    assert reply.status == "crash" and "boom" in reply.data["message"]


def test_printing_does_not_disturb_the_pipe(cpu):
    body = "os.write(1, b'{\"status\": \"ok\"}\\n'); print('noise', flush=True); sys.stdout.flush()"
    reply, out = cpu.run(python(body), INPUTS)
    assert reply.ok and not out["y"].any()


def test_who_waits_for_an_answer_hears_what_else_comes(cpu):
    heard = []
    said = cpu.time(python("__import__('time').sleep(0.1)"), INPUTS, budget_s=0.05, meanwhile=lambda: heard.append(1))
    assert said.ok and len(heard) > 1


def test_an_answer_that_nobody_waits_for_any_more_is_not_that_to_the_next_question(cpu):
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cpu.time(python("__import__('time').sleep(0.2)"), INPUTS, budget_s=0.05, meanwhile=interrupt)
    reply, out = cpu.run(code_for(cpu), INPUTS)
    assert reply.ok and np.array_equal(out["y"], 2 * X)


def test_results_that_change_between_launches_are_wrong(cpu):
    said = cpu.time(python("y[0] = float(__import__('time').perf_counter_ns() % 1000003)"), INPUTS, budget_s=0.05)
    assert said.status == "wrong"


def test_nonsense_on_the_pipe_kills_the_worker(cpu):
    into_every_pipe = (
        "for fd in range(3, 20):",
        "        name = f'/proc/self/fd/{fd}'",
        "        if os.path.exists(name) and 'pipe' in os.readlink(name) and fcntl.fcntl(fd, fcntl.F_GETFL) & 3 == 1:",
        "            os.write(fd, b'nonsense\\n')",
    )
    body = "import fcntl\n    " + "\n".join(into_every_pipe)
    reply, _ = cpu.run(python(body), INPUTS)
    assert reply.status == "crash" and "nonsense" in reply.data["message"]
    assert cpu.run(code_for(cpu), INPUTS)[0].ok


def test_missing_device_is_an_environment_error(cache):
    with pytest.raises(KtcError) as e:
        LocalExecutor("opencl:no such device")
    assert e.value.exit_code == 3 and e.value.code == "E-DEVICE-OPENCL"


SUPERVISOR = """
import sys, threading
from ktc.backends import emit
from ktc.ir.text import parse_kernel
from ktc.search.workers.executor import Deadlines, LocalExecutor, Patience, Raw
import dataclasses, numpy as np
ex = LocalExecutor("numba", compilers=1, deadlines=Deadlines(run=300.0))
good = emit(parse_kernel({scale!r}), "numba")
ex.compile(good).result()
print(ex._worker.process.pid, ex._compilers.workers[0].process.pid, flush=True)
spin = dataclasses.replace(good, text="def scale(y, x, a, n):\\n    while True:\\n        pass\\n")
x = np.zeros(4, np.float32)
ex.run(spin, Raw({{"y": x, "x": x, "a": 1.0, "n": 4}}, ("y",)))
"""


def test_no_process_outlives_a_killed_supervisor(cache):
    parent = subprocess.Popen([sys.executable, "-c", SUPERVISOR.format(scale=SCALE)], stdout=subprocess.PIPE, text=True)
    pids = [int(p) for p in parent.stdout.readline().split()]
    assert len(pids) == 2 and all(alive(p) for p in pids)
    time.sleep(0.5)  # the kernel is spinning by now
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    end = time.monotonic() + 60
    while any(alive(p) for p in pids) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(alive(p) for p in pids)


def alive(pid):
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_close_leaves_nothing_behind(cache):
    ex = LocalExecutor("numba", compilers=1)
    ex.compile(code_for(ex)).result(120)
    pids, folder = [ex._worker.process.pid, ex._compilers.workers[0].process.pid], ex.folder
    ex.close()
    assert not any(alive(p) for p in pids) and not folder.exists()


def test_deadlines_adapt_to_what_was_seen():
    p = Patience(floor=15.0)
    assert p.limit("time", 60.0) == 60.0
    for seconds in (0.1, 1.5, 0.2):
        p.learn("time", seconds)
    assert p.limit("time", 60.0) == 30.0 and p.limit("time", 20.0) == 20.0 and p.limit("verify", 60.0) == 60.0
    for _ in range(3):
        p.learn("run", 0.01)
    assert p.limit("run", 60.0) == 15.0


def test_who_has_little_time_left_is_less_patient():
    p = Patience(floor=15.0)
    assert p.limit("time", 60.0, 2.0) == 15.0 and p.limit("time", 60.0, 40.0) == 40.0  # how long one takes is not known
    p.learn("time", 2.5)
    assert p.limit("time", 60.0, 2.0) == 7.5 and p.limit("time", 60.0, 12.0) == 12.0 and p.limit("time", 60.0) == 60.0
    p.learn("run", 0.01)
    assert p.limit("run", 60.0, 0.0) == 5.0


# ------------------------------------------------------------------------------------------------------- the protocol


def test_code_survives_the_pipe():
    code = emit(parse_kernel(SCALE), "opencl")
    again = code_from_json(code_to_json(code))
    assert again.text == code.text and again.options == code.options and code_to_json(again) == code_to_json(code)


def test_buffers_are_checked(tmp_path):
    import ml_dtypes

    a = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16)
    said = save_array(a, tmp_path)
    back = load_array(said, tmp_path)
    assert back.dtype == a.dtype and np.array_equal(back, a)
    with open(said["file"], "r+b") as f:
        f.write(b"\xff")
    with pytest.raises(ProtocolError, match="damaged"):
        load_array(said, tmp_path)
    with pytest.raises(ProtocolError, match="not in"):
        load_array({**said, "file": "/etc/passwd"}, tmp_path)


@pytest.mark.parametrize("line", [b"nonsense", b"[1]", b"\xff\xfe", b""])
def test_lines_that_are_no_message(line):
    with pytest.raises(ProtocolError):
        unpack(line)
