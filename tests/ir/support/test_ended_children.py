"""A killed process is not waited for longer than it takes one to go."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

from ktc.ir.support.ended_children import end


def test_a_process_and_its_children_are_gone() -> None:
    text = "import subprocess, sys, time; subprocess.Popen(['sleep', '60']); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, start_new_session=True)
    assert end(process) and process.returncode is not None
    assert end(process), "once more does nothing"


def test_one_that_a_driver_holds_is_left_behind() -> None:
    class Held(subprocess.Popen[bytes]):
        """As a process that sleeps in the kernel where no signal reaches it."""

        def kill(self) -> None: ...

        def wait(self, timeout: float | None = None) -> Any:
            assert timeout is not None, "nobody may wait for ever"
            raise subprocess.TimeoutExpired("held", timeout)

    process = Held([sys.executable, "-c", "pass"])
    began = time.monotonic()
    assert not end(process, 0.1) and time.monotonic() - began < 5
    super(Held, process).wait()
