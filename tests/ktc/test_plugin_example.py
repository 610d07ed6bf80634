"""A third party's pass: the example package, installed as a user would, is found, listed, applied and refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.paths import ROOT

EXAMPLE = ROOT / "tests" / "plugin_example"
KERNEL = """\
kernel copy(b: f32* restrict, a: f32 const* restrict, n: i32)
  launch grid(1) block(1)
  for i in 0..n
    b[i] = a[i]
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(site)]
    source = tmp_path_factory.mktemp("source")  # building writes next to the sources
    for f in EXAMPLE.iterdir():
        if f.is_file():
            (source / f.name).write_text(f.read_text(encoding="utf-8"), encoding="utf-8")
    subprocess.run([*pip, str(source)], check=True, capture_output=True, timeout=120)
    return {**os.environ, "PYTHONPATH": str(site)}


def ktc(environment: dict[str, str], *args: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ktc", *args]
    return subprocess.run(command, input=text, capture_output=True, text=True, env=environment, cwd="/", timeout=120)


def test_it_is_in_the_catalogue(environment: dict[str, str]) -> None:
    listed = json.loads(ktc(environment, "passes", "--json").stdout)
    assert any(p["name"] == "reverse" and "E-REVERSE-DEPENDENCE" in p["refusals"] for p in listed)


def test_it_applies_and_refuses(environment: dict[str, str]) -> None:
    done = ktc(environment, "lower", "-", "-p", "reverse{loop=i}", "--emit", "ir", text=KERNEL)
    assert done.returncode == 0, done.stderr
    assert "for i_rev in 0..n" in done.stdout and "let i: i32 = n - 1 - i_rev" in done.stdout
    carried = KERNEL.replace("a[i]", "b[i - 1]")
    refused = ktc(environment, "lower", "-", "-p", "reverse{loop=i}", text=carried)
    assert refused.returncode == 1 and "E-REVERSE-DEPENDENCE" in refused.stderr
