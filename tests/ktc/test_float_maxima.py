"""A maximum of floats by compare-and-swap, from the source to the device: raised, spread and tested on a CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ktc.__main__ import main
from tests import devices
from tests.ir.frontend.lowering.retry_samples import SPELLINGS, on_floats, text_of

SCRIPT = "raise | distribute{loop=i map=[thread.x $T, block.x]}"
HELPERS = {
    "early break": SPELLINGS["early break"][2],
    "fmaxf": SPELLINGS["fmaxf"][2],
    "product": SPELLINGS["product"][2],
    "bits": on_floats(
        "if (v >= 0) atomicMax((int*)p, __float_as_int(v)); else atomicMin((unsigned*)p, __float_as_uint(v));"
    ),
}


@pytest.mark.parametrize("device", ["numba", "opencl"])
@pytest.mark.parametrize("name", HELPERS)
def test_verified_from_the_source_alone(name: str, device: str, tmp_path: Path, monkeypatch, capsys) -> None:
    devices.working(device)
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text(text_of("float", HELPERS[name], "f(&o[i & 3], a[i])"))
    assert main(["verify", "k.cu", "-p", SCRIPT, "--device", device, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["status"] == "TESTED"
    assert {r["name"] for r in told["rungs"] if r["status"] == "pass"} >= {
        "exact",
        "text: cuda",
        "text: hip",
        "text: opencl",
        "device",
    }
