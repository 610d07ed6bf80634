"""The arguments that the measuring process keeps: what launches may write to is theirs, the rest is there once."""

import numpy as np

from ktc.search.workers.worker_measure import Measurer
from tests.paths import KERNELS


def test_only_what_is_written_is_copied_where_launches_read_host_memory(tmp_path):
    m = Measurer("numba", tmp_path)
    inputs = {"workload": str(KERNELS / "dense/saxpy"), "sizes": {"n": 1000}, "variant": None, "seed": 0}
    m.load({"inputs": inputs, "cold": False})
    held = m._resident(inputs, False)
    (args,) = held.sets
    assert args["x"] is held.host["x"] and not np.shares_memory(args["y"], held.host["y"])
    args["y"][:] = 7
    held.reset(m.runtime)
    assert np.array_equal(args["y"], held.host["y"]) and np.any(args["y"] != 7)


def test_sets_that_take_turns_share_nothing(tmp_path):
    m = Measurer("numba", tmp_path)
    inputs = {"workload": str(KERNELS / "dense/saxpy"), "sizes": {"n": 4 << 20}, "variant": None, "seed": 0}
    first, second, *_ = m._resident(inputs, True).sets
    assert not np.shares_memory(first["x"], second["x"])


def test_checksums_of_large_arrays_see_every_part(tmp_path):
    runtime = Measurer("numba", tmp_path).runtime
    a = np.zeros(5 << 20, np.uint8)
    known = {runtime.checksum(a)}
    for at in (0, 4 << 20, a.size - 1):
        a[at] ^= 1
        known.add(runtime.checksum(a))
    assert len(known) == 4
